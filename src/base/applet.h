/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_BASE_APPLET_H
#define UNIRAIL_BASE_APPLET_H

/*
 * The applet table (src/main.c) drives dispatch, --help, man pages, completion and the symlinks
 * that `unirail install` makes.
 */

#include "base/option.h"

enum applet_flags {
	APPLET_LINK = 1 << 0, /* `unirail install` creates a symlink of this name */
	/* a CNI plugin: reads stdin and CNI_*, writes the result to stdout */
	APPLET_CNI = 1 << 1,
	APPLET_IPAM = 1 << 2,	/* an IPAM plugin (also APPLET_CNI) */
	APPLET_HIDDEN = 1 << 3, /* not listed by --help, completion, man and version */
};

struct applet {
	const char *name;
	const char *help; /* one line */
	/* returns the exit status; argv[0] is the name or path of the applet */
	int (*run)(int argc, char **argv);
	unsigned int flags;
	/* commands of the applet, ended by {0} (name and help NULL); NULL: none */
	const struct cmd *cmds;
	const char *about; /* text for `unirail help` and the man page; may be NULL */
};

/* The applet table, ended by {0}. Empty until main() sets it. */
extern const struct applet *applets;

const struct applet *applet_find(const char *name);

#endif
