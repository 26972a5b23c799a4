/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_BASE_OPT_H
#define UNIRAIL_BASE_OPT_H

/*
 * One option table a command: parsing, --help, man page and shell completion come from it, so
 * they cannot disagree.
 *
 *	static const struct opt opts[] = {
 *		{"rails", 'n', OPT_INT, "N", "number of rails", offsetof(struct demo, rails), 1, 64},
 *		{"keep", 0, OPT_FLAG, NULL, "leave the namespaces", offsetof(struct demo, keep)},
 *		{0}};
 *
 * "--name value", "--name=value", "-n value", "--" ends options.  --help and -h are always
 * there.  Mistakes are one line on stderr naming the word, exit status 2.
 */

#include <stdint.h>

#include "base/err.h"

enum opt_type {
	OPT_FLAG,   /* bool: set true */
	OPT_STR,    /* const char *: borrowed from argv */
	OPT_INT,    /* int64_t: min..max */
	OPT_DUR,    /* int64_t: milliseconds, max in ms */
	OPT_CHOICE, /* const char *: one of arg, which is "a|b|c" */
};

struct opt {
	const char *name;
	char letter;
	enum opt_type type;
	const char *arg; /* metavar, or the choices */
	const char *help;
	size_t offset; /* into the caller's struct */
	int64_t min, max;
};

/* A command of an applet ("pool list") or the applet itself (name NULL). */
struct cmd {
	const char *name;
	const char *args; /* "[POOL]"; NULL: none allowed */
	const char *help; /* one line */
	const struct opt *opts;
	int min_args, max_args; /* max -1: any number */
};

/* Parses argv after the command's own words.  Returns the index of the first operand, or a
 * negative errno with e set (-ECANCELED: --help was asked and printed). */
int opt_parse(const struct cmd *c, const char *prog, int argc, char **argv, void *into,
	      struct err *e);

#endif
