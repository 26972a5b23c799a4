/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CLI_INSTALL_INSTALL_H
#define UNIRAIL_CLI_INSTALL_INSTALL_H

/*
 * `unirail install`: facts (manifest.c) and the record of the last time
 * (manifest.c) -> a plan, by pure functions (install.c) -> one swap (install.c).
 *
 * The record is FOLDER/.unirail-install.json:
 *
 *	{"version": 1, "sha256": "...", "was": "...", "links": ["macvlan", ...],
 *	 "kept": [{"name": "macvlan", "sha256": "..."}, {"name": "static", "link": "/usr/..."}]}
 *
 * "was" is the digest of the binary before the last upgrade; a kept file is NAME.before-unirail.
 */

#include "base/file.h"
#include "base/option.h"
#include "wire/json/json.h"

#define INSTALL_RECORD ".unirail-install.json"
#define INSTALL_BINARY "unirail"
#define INSTALL_KEPT   ".before-unirail"

/* What stands under a name. */
enum install_have { HAVE_NOTHING, HAVE_FILE, HAVE_LINK, HAVE_OTHER };
struct install_thing {
	enum install_have have;
	char *id; /* SHA-256 of a file, target of a link; else NULL */
};

/* The binary, or a link. */
struct install_name {
	char *name;
	bool wanted;		    /* by this call */
	bool recorded;		    /* made by an earlier one */
	struct install_thing ours;  /* what we make of it now */
	struct install_thing made;  /* what we made of it then */
	struct install_thing was;   /* what we had made before that: a killed upgrade leaves it */
	struct install_thing now;   /* on disk */
	struct install_thing kept;  /* NAME.before-unirail on disk */
	struct install_thing noted; /* what the record says was kept */
};

struct install_facts {
	bool has_record;
	struct install_name *names; /* the binary first */
	size_t n;
};

enum install_do {
	DO_COPY,    /* this program to the name */
	DO_KEEP,    /* the name's file gets its second name */
	DO_LINK,    /* the name -> unirail */
	DO_RESTORE, /* the kept file back to its name */
	DO_REMOVE,  /* the name */
	DO_FORGET,  /* the kept file: it is back under its name already */
};

struct install_step {
	enum install_do what;
	const struct install_name *name;
};

/* What is not touched, and why. */
struct install_left {
	char *name;
	const char *why;
};

struct install_plan {
	struct install_step *steps;
	size_t n;
	struct install_left *left;
	size_t n_left;
};

/* --- manifest.c --- */

/* `links`: "all" or "a,b"; NULL: none wanted. self: SHA-256 of this program. */
int install_facts_read(struct install_facts *f, const struct root *r, const char *folder,
		       const char *links, const char *self, struct err *e);
void install_facts_done(struct install_facts *f);
struct install_name *install_name_of(struct install_facts *f, const char *name);
char *install_kept_name(const char *name);

/* --- manifest.c --- */

/* Fills recorded, made and noted; adds names that only the record knows. No record is fine. */
int install_record_read(struct install_facts *f, const struct root *r, const char *folder,
			struct err *e);
/* The record as it has to be once the plan was carried out. */
void install_record_write(const struct install_facts *f, const struct install_plan *p,
			  struct buf *b);

/* --- install.c --- */

/* What becomes of names that are not ours: -EEXIST with all of them in the text; kept under another
 * name; or they stay, are in `left`, and not wanted any more. */
enum install_others { OTHERS_REFUSE, OTHERS_REPLACE, OTHERS_STAY };
int install_plan(struct install_facts *f, enum install_others others, struct install_plan *p,
		 struct err *e);
void install_plan_removal(const struct install_facts *f, struct install_plan *p);
void install_plan_done(struct install_plan *p);

/* --- node.c: outside of the folder --- */

struct install_node {
	const struct root *root;
	const char *conf_dir, *conf_name; /* host/cni_config.h */
	const char *socket;		  /* the agent's */
	bool dry_run;
	struct buf said; /* a line a step */
	struct buf why;	 /* why the configuration is not used by the runtime now; empty: it is */
};

/* Writes the CNI configuration, or removes all that were generated; does nothing that is done already. */
int install_node_config(struct install_node *n, bool uninstall, struct err *e);
/* -EBUSY: an agent runs on this node. */
int install_node_is_free(const struct install_node *n, struct err *e);
/* Removes the agent's socket, and all that is in its folders of state. */
int install_node_purge(struct install_node *n, struct err *e);

/* For the applet table. */
int install_main(int argc, char **argv);
extern const struct cmd install_cmds[];

#endif
