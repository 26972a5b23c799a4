/* SPDX-License-Identifier: Apache-2.0 */
#include "base/option.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"

/* One option as given in argv. */
struct given {
	const struct opt *opt;
	/* the attached value (--name=value, -nvalue); NULL: the next word is the value, if the
	 * option has one */
	const char *value;
	bool help;
};

static const struct opt *by_letter(const struct opt *o, char letter)
{
	for (; o && o->name; o++)
		if (o->letter && o->letter == letter)
			return o;
	return NULL;
}

static const struct opt *by_name(const struct opt *o, struct span name)
{
	for (; o && o->name; o++)
		if (span_eq(name, o->name))
			return o;
	return NULL;
}

enum { LISTED_MAX = 12 };

/* Appends "list, show or free", with `prefix` before each name. */
static void list_names(struct buf *b, const char *prefix, const char *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		buf_printf(b, "%s%s%s", i == 0 ? "" : i + 1 < n ? ", " : " or ", prefix, list[i]);
}

static int unknown(const struct opt *opts, const char *word, struct span name, struct err *e)
{
	const char *near, *list[64];
	auto_buf struct buf names = {0};
	size_t n = 0;
	char text[64];

	for (; opts && opts->name && n < 63; opts++)
		list[n++] = opts->name;
	list[n++] = "help";
	snprintf(text, sizeof(text), "%.*s", (int)(name.n < 60 ? name.n : 60), name.p);
	near = name.n > 1 ? opt_suggest(text, list, n) : NULL;
	if (near)
		return err_set(e, -EINVAL, "unknown option '%s'; did you mean '--%s'?", word, near);
	if (n > LISTED_MAX)
		return err_set(e, -EINVAL, "unknown option '%s'; see --help", word);
	buf_init(&names, ERR_TEXT_MAX);
	list_names(&names, "--", list, n);
	return err_set(e, -EINVAL, "unknown option '%s': expected %s", word, buf_span(&names).p);
}

/* Parses "--name", "--name=value", "-n", "-nvalue". */
static int recognise(const struct opt *opts, const char *word, struct given *g, struct err *e)
{
	bool is_long = word[1] == '-';
	struct span rest = span_of(word + (is_long ? 2 : 1)), name;

	if (is_long) {
		span_cut(&rest, '=', &name);
		g->opt = by_name(opts, name);
		g->value = rest.p;
	} else {
		name = (struct span){rest.p, 1};
		g->opt = by_letter(opts, word[1]);
		g->value = word[2] ? word + 2 : NULL;
	}
	g->help = !g->opt && !g->value && (span_eq(name, "help") || span_eq(name, "h")) &&
		  is_long == (name.n > 1);
	if (!g->opt && !g->help)
		return unknown(opts, word, name, e);
	return 0;
}

static bool is_choice(const char *choices, const char *value)
{
	struct span rest = span_of(choices), one;

	while (span_cut(&rest, '|', &one))
		if (span_eq(one, value))
			return true;
	return false;
}

static int wants(const struct opt *o, const char *value, struct err *e, const char *what)
{
	return err_set(e, -EINVAL, "option '--%s': '%s' is not %s", o->name, value, what);
}

static int set_int(const struct opt *o, const char *value, int64_t *to, struct err *e)
{
	bool any = o->min == 0 && o->max == 0;
	char what[80];

	if (num_i64(span_of(value), any ? INT64_MIN : o->min, any ? INT64_MAX : o->max, to) == 0)
		return 0;
	snprintf(what, sizeof(what), any ? "a number" : "a number from %" PRId64 " to %" PRId64,
		 o->min, o->max);
	return wants(o, value, e, what);
}

static int set_duration(const struct opt *o, const char *value, int64_t *to, struct err *e)
{
	int64_t max = o->max ? o->max : INT64_MAX, ms;
	char what[80];

	if (num_duration_ms(span_of(value), max, &ms) == 0 && ms >= o->min) {
		*to = ms;
		return 0;
	}
	if (o->max)
		snprintf(what, sizeof(what),
			 "a time from %" PRId64 "ms to %" PRId64 "ms (60s, 500ms)", o->min, o->max);
	else
		snprintf(what, sizeof(what), "a time (60, 60s, 500ms, 10m, 2h)");
	return wants(o, value, e, what);
}

static int set_value(const struct opt *o, const char *value, void *into, struct err *e)
{
	void *to = (char *)into + o->offset;
	char what[256];

	switch (o->type) {
	case OPT_FLAG: *(bool *)to = true; return 0;
	case OPT_STR: *(const char **)to = value; return 0;
	case OPT_STRS:
		VEC_PUSH(((struct opt_strs *)to)->v, ((struct opt_strs *)to)->n) = value;
		return 0;
	case OPT_INT: return set_int(o, value, to, e);
	case OPT_DUR: return set_duration(o, value, to, e);
	case OPT_CHOICE:
	case OPT_BOOL:
		if (is_choice(o->arg, value)) {
			if (o->type == OPT_BOOL)
				*(bool *)to = strcmp(value, "yes") == 0;
			else
				*(const char **)to = value;
			return 0;
		}
		snprintf(what, sizeof(what), "one of %s", o->arg);
		return wants(o, value, e, what);
	}
	return err_set(e, -EINVAL, "option '--%s': unknown type", o->name);
}

/* Parses the option at argv[i] and its value; returns the number of words. */
static int take_option(const struct cmd *c, int argc, char **argv, int i, void *into, struct err *e)
{
	struct given g = {0};
	int used = 1, r = recognise(c->opts, argv[i], &g, e);

	if (r < 0)
		return r;
	if (g.help)
		return err_set(e, -ECANCELED, "help was requested");
	if (g.opt->type == OPT_FLAG && g.value)
		return err_set(e, -EINVAL, "option '--%s' accepts no value ('%s')", g.opt->name,
			       argv[i]);
	if (g.opt->type != OPT_FLAG && !g.value) {
		if (i + 1 >= argc)
			return err_set(e, -EINVAL, "option '%s' needs a value (%s)", argv[i],
				       g.opt->arg ? g.opt->arg : "VALUE");
		g.value = argv[i + 1];
		used = 2;
	}
	r = set_value(g.opt, g.value, into, e);
	return r < 0 ? r : used;
}

static int check_operands(const struct cmd *c, int n, char *const *operands, struct err *e)
{
	if (n < c->min_args)
		return err_set(e, -EINVAL, "operand missing: expected %s",
			       c->args ? c->args : "more operands");
	if (c->max_args >= 0 && n > c->max_args)
		return err_set(e, -EINVAL, "unexpected operand '%s'%s%s", operands[c->max_args],
			       c->args ? "; expected " : "", c->args ? c->args : "");
	return 0;
}

/* Parses the options in argv[0..argc) and collects the operands, in order. */
static int walk(const struct cmd *c, int argc, char **argv, void *into, char **operands, int *n,
		struct err *e)
{
	int i = 0;

	while (i < argc) {
		int used = 1;

		if (strcmp(argv[i], "--") == 0) {
			while (++i < argc)
				operands[(*n)++] = argv[i];
			return 0;
		}
		if (argv[i][0] == '-' && argv[i][1])
			used = take_option(c, argc, argv, i, into, e);
		else
			operands[(*n)++] = argv[i];
		if (used < 0)
			return used;
		i += used;
	}
	return 0;
}

int opt_parse(const struct cmd *c, const char *prog, int argc, char **argv, void *into,
	      struct err *e)
{
	char **operands = xcalloc((size_t)(argc > 0 ? argc : 0) + 1, sizeof(*operands));
	int n = 0, r = walk(c, argc, argv, into, operands, &n, e);

	if (r == -ECANCELED) {
		struct buf b;

		buf_init(&b, 1 << 16);
		opt_help(c, prog, &b);
		fputs(buf_span(&b).p, stdout);
		buf_done(&b);
	}
	if (r == 0)
		r = check_operands(c, n, operands, e);
	if (r == 0 && n > 0)
		memcpy(argv + argc - n, operands, (size_t)n * sizeof(*argv));
	free(operands);
	return r < 0 ? r : argc - n;
}

int opt_exit(const char *prog, int r, const struct err *e)
{
	if (r == -ECANCELED)
		return 0;
	fprintf(stderr, "%s: %s\n", prog, e->text);
	return 2;
}

/* Returns how many words of argv are the command's name; 0: argv names another command. */
static int command_args(const struct cmd *c, int argc, char **argv)
{
	struct span rest = span_of(c->name), word;
	int n = 0;

	while (span_cut(&rest, ' ', &word)) {
		if (n >= argc || !span_eq(word, argv[n]))
			return 0;
		n++;
	}
	return n;
}

static int no_command(const char *prog, const struct cmd *cmds, const char *word, struct err *e)
{
	const char *list[64], *near;
	auto_buf struct buf expected;
	size_t n = 0;

	for (; (cmds->name || cmds->help) && n < 64; cmds++)
		if (cmds->name)
			list[n++] = cmds->name;
	buf_init(&expected, ERR_TEXT_MAX);
	if (n > LISTED_MAX) {
		buf_printf(&expected, "see '%s --help'", prog);
	} else {
		buf_str(&expected, "expected ");
		list_names(&expected, "", list, n);
	}
	if (!word)
		return err_set(e, -EINVAL, "no command given: %s", buf_span(&expected).p);
	near = opt_suggest(word, list, n);
	if (near)
		buf_printf(&expected, "; did you mean '%s'?", near);
	return err_set(e, -EINVAL, "unknown command '%s': %s", word, buf_span(&expected).p);
}

int cmd_pick(const char *prog, const struct cmd *cmds, int argc, char **argv,
	     const struct cmd **ret, int *used, struct err *e)
{
	const struct cmd *best = NULL, *c;
	int most = 0;

	for (c = cmds; c->name || c->help; c++) {
		int n = c->name ? command_args(c, argc - 1, argv + 1) : 0;

		if (n > most || (!c->name && !best)) {
			best = c;
			most = n;
		}
	}
	if (!best)
		return no_command(prog, cmds, argc > 1 ? argv[1] : NULL, e);
	*ret = best;
	*used = most;
	return 0;
}

/* Returns the edit distance of two words; a swap of two adjacent bytes counts as one edit. 99: a
 * word is longer than 31 bytes. */
static unsigned int distance(const char *a, const char *b)
{
	unsigned int d[32][32];
	size_t n = strlen(a), m = strlen(b);

	if (n > 31 || m > 31)
		return 99;
	for (size_t i = 0; i <= n; i++)
		for (size_t j = 0; j <= m; j++) {
			unsigned int best;

			if (i == 0 || j == 0) {
				d[i][j] = (unsigned int)(i + j);
				continue;
			}
			best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
			if (d[i - 1][j] + 1 < best)
				best = d[i - 1][j] + 1;
			if (d[i][j - 1] + 1 < best)
				best = d[i][j - 1] + 1;
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
			    d[i - 2][j - 2] + 1 < best)
				best = d[i - 2][j - 2] + 1;
			d[i][j] = best;
		}
	return d[n][m];
}

const char *opt_suggest(const char *word, const char *const *list, size_t n)
{
	size_t len = strlen(word);
	/* one more than the largest edit distance of a suggestion */
	unsigned int best = len < 4 ? 2 : len < 8 ? 3 : 4;
	const char *ret = NULL;

	for (size_t i = 0; i < n; i++) {
		unsigned int d = distance(word, list[i]);

		if (d < best) {
			best = d;
			ret = list[i];
		}
	}
	return ret;
}

/* --- --help of one command, or of the commands of an applet --- */

enum { COLUMN = 30, WIDTH = 80 };

void opt_wrap(struct buf *b, const char *text, size_t at)
{
	struct span rest = span_of(text), word;
	size_t col = at;

	while (span_cut(&rest, ' ', &word)) {
		if (col > at && col + 1 + word.n > WIDTH) {
			buf_printf(b, "\n%*s", (int)at, "");
			col = at;
		}
		if (col > at) {
			buf_char(b, ' ');
			col++;
		}
		buf_add(b, word.p, word.n);
		col += word.n;
	}
	buf_char(b, '\n');
}

void opt_row(struct buf *b, const char *left, const char *help)
{
	int n = (int)strlen(left);

	if (n + 4 > COLUMN)
		buf_printf(b, "  %s\n%*s", left, COLUMN, "");
	else
		buf_printf(b, "  %-*s", COLUMN - 2, left);
	opt_wrap(b, help ? help : "", COLUMN);
}

static void opt_left(const struct opt *o, char *ret, size_t size)
{
	char letter[8] = "    ";

	if (o->letter)
		snprintf(letter, sizeof(letter), "-%c, ", o->letter);
	snprintf(ret, size, "%s--%s%s%s", letter, o->name, o->type == OPT_FLAG ? "" : " ",
		 o->type == OPT_FLAG ? ""
		 : o->arg	     ? o->arg
				     : "VALUE");
}

void opt_usage(const struct cmd *c, const char *prog, struct buf *b)
{
	buf_str(b, prog);
	if (c->opts && c->opts->name)
		buf_str(b, " [OPTION...]");
	if (c->args)
		buf_printf(b, " %s", c->args);
}

void opt_help(const struct cmd *c, const char *prog, struct buf *b)
{
	char left[160];

	buf_str(b, "usage: ");
	opt_usage(c, prog, b);
	buf_char(b, '\n');
	if (c->help)
		buf_printf(b, "\n%s\n", c->help);
	buf_str(b, "\noptions:\n");
	for (const struct opt *o = c->opts; o && o->name; o++) {
		opt_left(o, left, sizeof(left));
		opt_row(b, left, o->help);
	}
	opt_row(b, "-h, --help", "print this help");
}

void opt_commands(const struct cmd *cmds, const char *prog, struct buf *b)
{
	char left[160];

	buf_printf(b, "usage: %s COMMAND [OPTION...]\n\ncommands:\n", prog);
	for (const struct cmd *c = cmds; c->name || c->help; c++) {
		if (!c->name)
			continue;
		snprintf(left, sizeof(left), "%s%s%s", c->name, c->args ? " " : "",
			 c->args ? c->args : "");
		opt_row(b, left, c->help);
	}
	buf_printf(b, "\nsee '%s COMMAND --help' for the options of a command\n", prog);
}

int opt_print(const struct buf *b)
{
	struct span s = buf_span(b);

	if (fwrite(s.p, 1, s.n, stdout) == s.n && fflush(stdout) == 0)
		return 0;
	fprintf(stderr, "unirail: write to stdout: %s\n", errno_text(errno));
	return 1;
}
