/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_HOST_MODEL_KIND_H
#define UNIRAIL_HOST_MODEL_KIND_H

/*
 * Kinds of steps. Each is defined in a file of src/host/steps and has a row in src/host/kinds.c.
 *
 * A kind is a table of keys and functions. Each key is a line of the kind's section in host.conf
 * and an option of `unirail host KIND`. If `env` names a variable for the key, the command also
 * reads this variable, as the shell script does that the kind replaces:
 *
 *	struct want { struct host_want head; int64_t priority; const char *cidr; };
 *	static const struct opt keys[] = {
 *		{"cidr", 0, OPT_STR, "CIDR", "destinations that use the RDMA NICs", offsetof(struct want, cidr), 0, 0},
 *		{0}};
 *	static const char *const env[] = {"RDMA_CIDR"};
 *	const struct host_kind host_rule = {.name = "rule", .section = "rule", .keys = keys, .env = env,
 *		.size = sizeof(struct want), ...};
 *
 * observe() reads the kernel and files below host->root into a struct of the kind; decide() is
 * pure: requested and observed state in, steps out; act() carries out one operation of a step, or
 * of its undo.
 */

#include "base/file.h"
#include "base/option.h"
#include "host/model/step.h"
#include "kern/net/addr.h"
#include "kern/net/link.h"
#include "kern/net/route.h"

/* Directory of a snapshot's netlink recordings (doctor/facts.c). */
#define HOST_RECORDED "/unirail/netlink"

struct host_kind;

/* The links, addresses, routes and rules of the host's network namespace. */
struct host_net {
	struct link *links;
	struct addr *addrs;
	struct route *routes;
	struct rule *rules;
	size_t n_links, n_addrs, n_routes, n_rules;
};
const struct link *host_link(const struct host_net *n, const char *name); /* NULL: none */
/* Sets the error "interface 'ens1' does not exist; did you mean 'ens1f0'?", kind ERR_CONF; returns
 * -ENODEV. */
int host_no_link(const struct host_net *n, const char *name, struct err *e);

/*
 * The host. `kernel`: root is the file system of the running host, at whatever directory it is
 * mounted (/proc below it has this kernel's boot_id), so the kernel may be read and changed.
 * `recorded`: root is a snapshot; netlink is replayed from the snapshot, and nothing may be
 * changed. Neither: root is the file system of a host that does not run; only operations on files
 * are possible.
 */
struct host {
	struct root root;
	const char *dir; /* --root; NULL: "/" */
	bool kernel, recorded;
	struct host_net *net;  /* cache of host_net_read() */
	struct nl_wire *route; /* opened by host_route_wire() */
};
int host_open(struct host *h, const char *dir, struct err *e);
void host_close(struct host *h);
/* Reads links, addresses, routes and rules once; after changes call host_net_forget(). *ret is
 * empty for a host that does not run. */
int host_net_read(struct host *h, const struct host_net **ret, struct err *e);
void host_net_forget(struct host *h);
/* Sets *ret to the netlink socket of the host, which the first call opens and host_close() closes.
 * Requires h->kernel. */
int host_route_wire(struct host *h, struct nl_wire **ret, struct err *e);
/* Reads a text file of at most 1 MiB into *ret, which the caller has zeroed and frees by
 * host_file_done(), also after a failure. A missing file is success with text NULL. -EINVAL: the
 * file is not text (NUL, invalid UTF-8), so it could not be restored from the journal. */
int host_file_read(const struct host *h, const char *path, struct host_file *ret, struct err *e);
/* Returns the target of a symbolic link, which the caller frees; NULL: the link does not exist or
 * cannot be read. */
char *host_link_read(const struct host *h, const char *path);
/* Returns the first line of a file of /sys or /proc, which the caller frees; NULL: the file does
 * not exist or cannot be read. */
char *host_attr_read(const struct host *h, const char *path);

/* --- requested state --- */

/* A line of a section whose key is not in host_kind.keys: a sysctl key (kind sysctl) or the name
 * of an interface (kind names). */
struct host_pair {
	char *key, *value;
	int line;
};

/* Options of every command of `unirail host`. */
struct host_options {
	const char *root, *output, *conf, *state_dir;
	int64_t interval_ms; /* watch */
	bool dry_run;
};

/* Head of a kind's struct. Strings are borrowed: from struct host_conf, argv or constants. */
struct host_want {
	const char *name; /* the NAME of "[interface NAME]"; NULL: the section has no name */
	/* location of the section such as "host.conf:12", "command line": for errors */
	const char *origin;
	struct host_pair *pairs;
	size_t n_pairs;
	struct host_options options; /* only while a command line is parsed */
};

/* Sections of one kind. */
struct host_wants {
	const struct host_kind *kind;
	struct host_want **v;
	size_t n;
};

/* --- the output of `unirail host show` --- */

struct host_row {
	const char *kind;
	char *subject, *property, *value;
};
struct host_rows {
	const char *kind; /* kind of the rows that are added */
	struct host_row *v;
	size_t n;
};
void host_rows_add(struct host_rows *r, const char *subject, const char *property, const char *fmt,
		   ...) __attribute__((format(printf, 4, 5)));
void host_rows_done(struct host_rows *r);

/* --- the table --- */

enum {
	HOST_PAIRS =
		1
		<< 0, /* the section has arbitrary keys (host_want.pairs); operands KEY=VALUE on the
		       * command line */
	HOST_NAMED =
		1 << 1, /* "[section NAME]", one per device; the operand NAME on the command line */
	/* `unirail host KIND` applies the kind also without arguments; its section is never stored
	 * in host.d */
	HOST_BARE = 1 << 2,
};

struct host_kind {
	/* name of the kind in commands of `unirail host`, in plans and in the journal: "addr" */
	const char *name;
	const char *section; /* section of host.conf: "interface" */
	const char *help;    /* one line */
	unsigned int flags;
	const struct opt *keys; /* ended by {0}; NULL: none. Offsets into the kind's struct */
	const char *const
		/* environment variable of each key, in the order of `keys` ("NAME", "NAME|OTHER",
		 * or NULL for none); NULL: no key has a variable */
		*env;
	const char *env_name; /* the variable of the section's NAME ("INTERFACE"); NULL: none */
	size_t size;	      /* size of the kind's struct, which begins with struct host_want */
	/* Sets the defaults in the kind's struct before keys are read; may be NULL. */
	void (*init)(void *want);
	/* Validates one section. Pure: does not read the host. Errors are of kind ERR_CONF and need
	 * not name the origin. */
	int (*check)(void *want, struct err *e);
	/* Observes the host. *found: the kind's struct, freed by forget(), also after a failure;
	 * it stays NULL if there is nothing to observe. */
	int (*observe)(struct host *h, const struct host_wants *w, void **found, struct err *e);
	void (*forget)(void *found);
	int (*decide)(const struct host_wants *w, const void *found, struct host_plan *p,
		      struct err *e);
	/* Carries out all verbs of the kind except file, link and attr (model/step.h); NULL: the
	 * kind has no others. Idempotent. */
	int (*act)(struct host *h, const struct host_op *op, struct err *e);
	/*
	 * Returns 1 if the host is in the state that `op` produces, or in an intermediate state; 0
	 * if it is in another state, because `op` was not carried out or another program overwrote
	 * its result. Changes nothing. NULL: always 1; this suffices for operations with only two
	 * states.
	 */
	int (*in_effect)(struct host *h, const struct host_op *op, struct err *e);
	/* Returns whether the section requests a removal; such a section is not stored in
	 * host.d, and a section that an earlier command stored there is removed. NULL: never. */
	bool (*clears)(const void *want);
	/* Returns whether the sections require steps of `kind` on this subject. NULL: the sections
	 * require all steps of their own kind. */
	bool (*covers)(const struct host_wants *w, const char *kind, const char *subject);
	/* Offset of the key that names a file: the command reads the file's section of this
	 * kind, and the options of the command line override that section. 0: the kind has no
	 * such key. */
	size_t plan;
	/* Returns 1 if the section requests output instead of changes, and writes the output to
	 * `b`; otherwise 0. NULL: always 0. */
	int (*print)(const void *want, struct buf *b, struct err *e);
	/* Writes the observed state as rows subject, property, value for `unirail host show`; may
	 * be NULL. */
	void (*show)(const void *found, struct host_rows *rows);
};

#endif
