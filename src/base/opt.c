/* SPDX-License-Identifier: Apache-2.0 */
#include "base/opt.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"

/* One option as it stands in argv. */
struct given {
	const struct opt *opt;
	const char *value; /* NULL: none attached; the next word may be it */
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

static int unknown(const struct opt *opts, const char *word, struct span name, struct err *e)
{
	const char *near, *list[64] = {"help"};
	size_t n = 1;
	char text[64];

	for (; opts && opts->name && n < 64; opts++)
		list[n++] = opts->name;
	snprintf(text, sizeof(text), "%.*s", (int)(name.n < 60 ? name.n : 60), name.p);
	near = name.n > 1 ? opt_nearest(text, list, n) : NULL;
	if (near)
		return err_set(e, -EINVAL, "unknown option '%s'; did you mean '--%s'?", word, near);
	return err_set(e, -EINVAL, "unknown option '%s'; see --help", word);
}

/* "--name", "--name=value", "-n", "-nvalue" */
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
	case OPT_INT: return set_int(o, value, to, e);
	case OPT_DUR: return set_duration(o, value, to, e);
	case OPT_CHOICE:
		if (is_choice(o->arg, value)) {
			*(const char **)to = value;
			return 0;
		}
		snprintf(what, sizeof(what), "one of %s", o->arg);
		return wants(o, value, e, what);
	}
	return err_set(e, -EINVAL, "option '--%s': unknown type", o->name);
}

/* Takes the option at argv[i] and its value; returns how many words that was. */
static int take_option(const struct cmd *c, int argc, char **argv, int i, void *into, struct err *e)
{
	struct given g = {0};
	int used = 1, r = recognise(c->opts, argv[i], &g, e);

	if (r < 0)
		return r;
	if (g.help)
		return err_set(e, -ECANCELED, "help was asked for");
	if (g.opt->type == OPT_FLAG && g.value)
		return err_set(e, -EINVAL, "option '--%s' takes no value ('%s')", g.opt->name,
			       argv[i]);
	if (g.opt->type != OPT_FLAG && !g.value) {
		if (i + 1 >= argc)
			return err_set(e, -EINVAL, "option '%s' needs a value (%s)", argv[i],
				       g.opt->arg);
		g.value = argv[i + 1];
		used = 2;
	}
	r = set_value(g.opt, g.value, into, e);
	return r < 0 ? r : used;
}

static int check_operands(const struct cmd *c, int n, char *const *operands, struct err *e)
{
	if (n < c->min_args)
		return err_set(e, -EINVAL, "operand missing: wants %s",
			       c->args ? c->args : "more operands");
	if (c->max_args >= 0 && n > c->max_args)
		return err_set(e, -EINVAL, "unexpected operand '%s'%s%s", operands[c->max_args],
			       c->args ? "; wants " : "", c->args ? c->args : "");
	return 0;
}

/* Options are dropped from argv[0..argc), operands gathered in order at its end. */
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
