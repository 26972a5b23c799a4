/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_HOST_CONF_H
#define UNIRAIL_HOST_CONF_H

/*
 * The requested state: sections of host.conf, or one section from the options, operands and
 * environment variables of `unirail host KIND`. configs/host.conf documents each line.
 *
 *	[interface ens1f0]
 *	ipv4-ip = 172.16.1.10/24
 *
 * A kind's table of keys (host/model/kind.h) defines what its section may contain. The first
 * mistake ends the reading with an error of kind ERR_CONF that names file and line.
 */

#include "host/model/kind.h"

#define HOST_CONF "/etc/unirail/host.conf"

struct host_conf {
	struct host_wants *wants; /* sections of each kind, in the order of the table of kinds */
	size_t n;
	char **strings; /* owned */
	size_t n_strings;
};

void host_conf_init(struct host_conf *c);
void host_conf_done(struct host_conf *c);
#define auto_host_conf __attribute__((cleanup(host_conf_done)))

/* Adds the sections of a file; each replaces that of the same kind and name from an earlier file.
 * `name`: name of the file in errors. */
int host_conf_parse(struct host_conf *c, const char *name, struct span text, struct err *e);
/* Reads the file and parses it. A missing file (-ENOENT) sets e as well. */
int host_conf_read(struct host_conf *c, const struct root *root, const char *path, struct err *e);

/* The environment from which variables are read; a NULL pointer, or `get` NULL: getenv(). */
struct host_env {
	const char *(*get)(void *arg, const char *name);
	void *arg;
};

/*
 * Adds one section of kind `k`: reads environment variables, then the file that the key
 * host_kind.plan names, then options, then operands (KEY=VALUE for HOST_PAIRS, NAME for HOST_NAMED,
 * else the value of the first key). A later source overrides an earlier one. `cmd` has the kind's
 * keys and the options of struct host_want. *given: the kind is HOST_BARE, or a variable, a key
 * (even with its default value) or an operand was given; if not, no section is added. Errors of
 * opt_parse() are passed on.
 */
int host_conf_command(struct host_conf *c, const struct host_kind *k, const struct cmd *cmd,
		      const char *prog, const struct host_env *env, int argc, char **argv,
		      struct host_options *options, bool *given, struct err *e);
/* Returns whether the arguments are a query: only `q` or `query`, and options of struct
 * host_options, which are then stored in *options. */
bool host_conf_is_query(const struct host_kind *k, const struct cmd *cmd, const char *prog,
			int argc, char **argv, struct host_options *options);
/* Returns the sections of the kind in `c`. */
struct host_wants *host_conf_wants(const struct host_conf *c, const struct host_kind *k);

#endif
