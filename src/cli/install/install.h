/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CLI_INSTALL_INSTALL_H
#define UNIRAIL_CLI_INSTALL_INSTALL_H

/*
 * `unirail install`: reads the state of the directory of CNI plugins and the record of the last
 * installation (manifest.c), computes a plan by pure functions, and carries it out with one swap
 * (install.c, swap.h).
 *
 * The record is .unirail-install.json in the directory:
 *
 * 	{"version": 1, "sha256": "...", "previousSha256": "...", "links": ["macvlan", ...],
 * 	 "backups": [{"name": "macvlan", "sha256": "..."}, {"name": "static", "link": "/usr/..."}]}
 *
 * "previousSha256" is the digest of the binary before the last upgrade; "backups" lists the
 * replaced files, each renamed to NAME.before-unirail.
 */

#include "base/file.h"
#include "base/option.h"
#include "wire/json/json.h"

#define INSTALL_RECORD ".unirail-install.json"
#define INSTALL_BINARY "unirail"
#define INSTALL_BACKUP ".before-unirail"

/* What exists under a name: nothing, a file, a link, or something else. A struct install_thing
 * also describes what existed there earlier, or what an installation is to put there. */
enum install_have { HAVE_NOTHING, HAVE_FILE, HAVE_LINK, HAVE_OTHER };
struct install_thing {
	enum install_have have;
	char *id; /* SHA-256 of a file, target of a link; NULL: neither */
};

/* One name of the directory: the binary's, or that of a link. */
struct install_name {
	char *name;
	bool wanted;		      /* requested by this call */
	bool recorded;		      /* installed by an earlier call */
	struct install_thing desired; /* content that this call installs */
	struct install_thing made;    /* content that the earlier call installed */
	/* content before the last upgrade; it may still exist if that upgrade was interrupted */
	struct install_thing was;
	struct install_thing now;    /* what exists */
	struct install_thing backup; /* the existing NAME.before-unirail */
	struct install_thing noted;  /* NAME.before-unirail according to the record */
};

struct install_facts {
	bool has_record;
	struct install_name *names; /* the binary first */
	size_t n;
};

enum install_do {
	DO_COPY,    /* copy this program to the name */
	DO_KEEP,    /* rename the existing file to NAME.before-unirail */
	DO_LINK,    /* create the name as a symbolic link to unirail */
	DO_RESTORE, /* rename NAME.before-unirail to the name */
	DO_REMOVE,  /* remove the name */
	DO_FORGET,  /* remove NAME.before-unirail: the original file is already under its name */
};

struct install_step {
	enum install_do what;
	const struct install_name *name;
};

/* A name that is left unchanged, and the reason. */
struct install_skipped {
	char *name;
	const char *reason;
};

struct install_plan {
	struct install_step *steps;
	size_t n;
	struct install_skipped *skipped;
	size_t n_skipped;
};

/* --- the record of an installation (manifest.c), and the plan of a new one (install.c) --- */

/* `links`: "all" or "a,b"; NULL: none. self: SHA-256 of this program. */
int install_facts_read(struct install_facts *f, const struct root *r, const char *dir,
		       const char *links, const char *self, struct err *e);
void install_facts_done(struct install_facts *f);
char *install_backup_name(const char *name);

/*
 * Fills has_record, recorded, made, was and noted; adds names that occur only in the record. A
 * missing record is not an error.
 */
int install_record_read(struct install_facts *f, const struct root *r, const char *dir,
			struct err *e);
/* Appends to b the record that is correct once the plan has been carried out. */
void install_record_write(const struct install_facts *f, const struct install_plan *p,
			  struct buf *b);

/*
 * What to do with files and links that unirail did not install: OTHERS_REFUSE: fail with -EEXIST
 * and list all of them; OTHERS_REPLACE: rename them to NAME.before-unirail; OTHERS_SKIP: leave
 * them, list them in `skipped`, and install no link under their names; a file under the binary's
 * name: -EEXIST.
 */
enum install_others { OTHERS_REFUSE, OTHERS_REPLACE, OTHERS_SKIP };
int install_plan(struct install_facts *f, enum install_others others, struct install_plan *p,
		 struct err *e);
void install_plan_done(struct install_plan *p);

/* --- node.c: files outside of the directory of plugins --- */

struct install_node {
	const struct root *root;
	const char *conf_dir, *conf_name; /* see host/cni/cni_config.h */
	const char *socket;		  /* the agent's */
	bool dry_run;
	struct buf messages; /* messages of the steps, one line per step */
	/* reason why the runtime does not use the configuration now; empty: the runtime uses it,
	 * or no configuration was requested */
	struct buf reason;
};

/* Writes the CNI configuration; with `remove` removes all generated ones. Idempotent. */
int install_node_config(struct install_node *n, bool remove, struct err *e);
/* Removes the device plugin's CDI specifications. */
int install_node_remove_cdi(struct install_node *n, struct err *e);
/* Fails with -EBUSY if an agent listens on `socket`; below another root it always returns 0. */
int install_node_is_free(const struct install_node *n, struct err *e);
/* Removes the agent's socket, the socket's lock file, the directory `public` beside the socket,
 * and the content of the state directories. */
int install_node_purge(struct install_node *n, struct err *e);

/* For the applet table. */
int install_main(int argc, char **argv);
extern const struct cmd install_cmds[];

#endif
