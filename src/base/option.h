/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_BASE_OPTION_H
#define UNIRAIL_BASE_OPTION_H

/*
 * One option table per command: parsing, --help, man page and shell completion are derived from it,
 * so they always agree.
 *
 *	static const struct opt opts[] = {
 *		{"rails", 'n', OPT_INT, "N", "number of rails", offsetof(struct demo, rails), 1, 64},
 *		{"keep", 0, OPT_FLAG, NULL, "leave the namespaces", offsetof(struct demo, keep)},
 *		{0}};
 *
 * "--name value", "--name=value", "-n value", "-nvalue"; "--" ends options. --help and -h are
 * always accepted. A usage error prints one line to stderr, which names the offending word if there
 * is one; exit status 2.
 */

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum opt_type {
	OPT_FLAG,   /* bool: set true */
	OPT_STR,    /* const char *: borrowed from argv */
	OPT_STRS,   /* struct opt_strs: like OPT_STR, may be given several times */
	OPT_INT,    /* int64_t: min..max; both 0: any */
	OPT_DUR,    /* int64_t: milliseconds, min..max; max 0: no maximum */
	OPT_CHOICE, /* const char *: one of the choices in arg, "a|b|c" */
	OPT_BOOL,   /* bool: "yes" (true) or "no" (false); `arg` must be "yes|no" */
};

struct opt_strs {
	const char **v; /* the caller frees the list */
	size_t n;
};

struct opt {
	const char *name;
	char letter;
	enum opt_type type;
	const char *arg; /* metavar for help, or the choices */
	const char *help;
	size_t offset; /* offset in the caller's struct */
	int64_t min, max;
};

/* A command of an applet ("pool list") or the applet itself (name NULL). */
struct cmd {
	const char *name;
	const char *args; /* names of the operands, "[POOL]"; NULL: none allowed */
	const char *help; /* one line */
	const struct opt *opts;
	int min_args, max_args; /* number of operands; max_args -1: any number */
};

/*
 * Parses argv, which begins after the command's own words: argv[0] is the first option or operand.
 * Operands are moved to the end of argv, in order, so "show POOL -o json" works. Returns the index
 * of the first operand (argc: none), or a negative errno with e set (-ECANCELED: --help was given
 * and printed). The number of operands is within min_args..max_args. `prog` is the command for
 * messages, "unirail pool show". Options that are not given do not change `into`.
 */
int opt_parse(const struct cmd *c, const char *prog, int argc, char **argv, void *into,
	      struct err *e);

/*
 * For an applet's run(): finds the command that argv[1], argv[2]... name, and sets *used to the
 * number of words in the command's name. Chooses the longest name that matches; if none matches,
 * the row with name NULL; -EINVAL with e set if there is no such row. (main() answers "APPLET
 * --help" before it calls run().)
 *
 *	const struct cmd *c;
 *	int used, r = cmd_pick("unirail pool", pool_cmds, argc, argv, &c, &used, &e);
 *
 *	if (r == 0)
 *		r = opt_parse(c, prog, argc - 1 - used, argv + 1 + used, &o, &e);
 *	if (r < 0)
 *		return opt_exit("unirail pool", r, &e);
 */
int cmd_pick(const char *prog, const struct cmd *cmds, int argc, char **argv,
	     const struct cmd **ret, int *used, struct err *e);

/* Returns the exit status for a result of opt_parse() or cmd_pick(): 0 after --help, else 2, with
 * one line "unirail pool: ..." on stderr. */
int opt_exit(const char *prog, int r, const struct err *e);

/* Appends the help of one command: its usage, its `help`, and its options in aligned columns. */
void opt_help(const struct cmd *c, const char *prog, struct buf *b);
/* Appends "unirail pool list [OPTION...] [POOL]" without a line break. */
void opt_usage(const struct cmd *c, const char *prog, struct buf *b);

/* Appends the help of an applet: its usage, one row for each of its commands, and a reference to
 * the commands' --help. */
void opt_commands(const struct cmd *cmds, const char *prog, struct buf *b);
/* Appends one row of help: `left`, for example "-n, --rails N", and `help` in the second column,
 * wrapped. */
void opt_row(struct buf *b, const char *left, const char *help);
/* Appends `text` from column `at` on, wrapped with a hanging indent, and a line break. */
void opt_wrap(struct buf *b, const char *text, size_t at);

/* Returns the most similar word of the list (n of them), for "did you mean"; NULL: none is
 * similar. */
const char *opt_suggest(const char *word, const char *const *list, size_t n);

/* Maximum bytes of a text for stdout: help, man page, shell completion. */
enum { HELP_MAX = 1 << 18 };
/* Writes b to stdout; returns the exit status. */
int opt_print(const struct buf *b);

#endif
