/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_AGENT_AGENT_CONF_H
#define UNIRAIL_AGENT_AGENT_CONF_H

/*
 * The agent's settings, from one table (agent_conf.c): each has a flag, a key of the same name in
 * section [agent] of the file (default /etc/unirail/agent.conf), mostly an environment variable,
 * and a default; the first that is given counts, in this order. The file's section [coordinator] is
 * agent/coordinator_settings.h's.
 *
 *	[agent]
 *	log-level = info
 *	rest      = 60s
 *
 * Anything that is wrong is one error (kind ERR_CONF) with file and line, or the variable's name,
 * and what is wanted.
 */

#include "agent/coordinator_settings.h"
#include "base/opt.h"

struct agent_conf {
	const char *config, *node, *ns, *kubeconfig, *context, *socket, *state_dir, *hostlocal_dir;
	const char *listen, *log_level, *log_format, *pid_file;
	const char *metrics, *gc, *conflict_detection, *gateway_detection, *release_conflict;
	const char *ipv4, *ipv6, *statefulset, *kubevirt;
	int64_t conns, health_port, metrics_port, reserve, idle_ms, wait_ms, gc_grace_ms, rest_ms,
		quarantine_ms;
	struct coordinator_settings coordinator;
	char **own; /* what the texts above point to, but for argv's */
	size_t n_own;
};

/* For --help, completion, the man page. */
extern const struct opt agent_opts[];

struct agent_env {
	const char *(*get)(void *arg, const char *name); /* NULL: getenv() */
	void *arg;
};

/* argv begins after the applet's words. -ECANCELED: --help was asked for and printed. *ret is left
 * alone on failure. */
int agent_conf_read(struct agent_conf *ret, const struct root *root, const struct agent_env *env,
		    int argc, char **argv, struct err *e);
void agent_conf_done(struct agent_conf *c);

bool agent_conf_is(const char *yes_or_no);
/* The first setting that differs and that only a restart can change; NULL: there is none. */
const char *agent_conf_needs_restart(const struct agent_conf *was, const struct agent_conf *is);
/* This node's name where nobody gave one. */
int agent_conf_hostname(struct agent_conf *c, struct err *e);

/* For documents and tests: the i-th key, its default as text ("" none) and variables; false: there
 * are no more. */
struct agent_key {
	const char *name, *fallback, *env;
};
bool agent_conf_key(size_t i, struct agent_key *ret);

#endif
