/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/doctor_fix.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/host.h"
#include "host/dropin.h"
#include "host/kinds.h"

enum { TEXT_MAX = 64 << 10 };

/* Returns whether the option's value is a list. */
static bool is_list(const char *option)
{
	return !strcmp(option, "--load") || !strcmp(option, "--interfaces");
}

/* Returns the index of the argument that equals `word` or, with `prefix`, begins with it ("KEY=");
 * 0: none. */
static size_t find_word(const struct fix_command *c, const char *word, bool prefix)
{
	for (size_t i = 1; i < c->n; i++)
		if (prefix ? !strncmp(c->args[i], word, strlen(word)) : !strcmp(c->args[i], word))
			return i;
	return 0;
}

/* "a,b" and "b,c" -> "a,b,c" */
static char *join_lists(const char *a, const char *b)
{
	struct span rest = span_of(b), one;
	struct buf ret;

	buf_init(&ret, TEXT_MAX);
	buf_str(&ret, a);
	while (rest.n && span_cut(&rest, ',', &one)) {
		struct span has = buf_span(&ret), part;
		bool found = false;

		while (has.n && span_cut(&has, ',', &part))
			found |= part.n == one.n && !memcmp(part.p, one.p, one.n);
		if (!found && one.n)
			buf_printf(&ret, "%s%.*s", ret.len ? "," : "", (int)one.n, one.p);
	}
	return buf_take(&ret);
}

static void add_option(struct fix_command *c, const char *option, const char *value, bool replace)
{
	size_t at = find_word(c, option, false);
	char *old;

	if (!at) {
		VEC_PUSH(c->args, c->n) = xstrdup(option);
		VEC_PUSH(c->args, c->n) = xstrdup(value);
		return;
	}
	old = c->args[at + 1];
	if (is_list(option))
		c->args[at + 1] = join_lists(old, value);
	else if (replace)
		c->args[at + 1] = xstrdup(value);
	else
		return;
	free(old);
}

/* Adds an operand. If the command already has the same operand, or one with the same KEY, this
 * function adds none; if `replace` is set, it overwrites the existing operand. */
static void add_operand(struct fix_command *c, const char *word, bool replace)
{
	const char *equals = strchr(word, '=');
	auto_free char *key = equals ? span_dup((struct span){word, (size_t)(equals - word) + 1})
				     : xstrdup(word);
	size_t at = find_word(c, key, equals != NULL);

	if (!at) {
		VEC_PUSH(c->args, c->n) = xstrdup(word);
	} else if (replace) {
		free(c->args[at]);
		c->args[at] = xstrdup(word);
	}
}

static struct fix_command *command_of(struct fix_commands *l, struct span kind)
{
	struct fix_command *c;

	for (size_t i = 0; i < l->n; i++)
		if (span_eq(kind, l->v[i].args[0]))
			return &l->v[i];
	c = &VEC_PUSH(l->v, l->n);
	*c = (struct fix_command){0};
	VEC_PUSH(c->args, c->n) = span_dup(kind);
	return c;
}

static void add_fix(struct fix_commands *l, const char *text)
{
	struct span rest = span_of(text), word, value;
	struct fix_command *c;

	span_cut(&rest, ' ', &word);
	c = command_of(l, word);
	while (rest.n && span_cut(&rest, ' ', &word)) {
		auto_free char *one = span_dup(word), *its_value = NULL;

		if (strncmp(one, "--", 2) != 0) {
			add_operand(c, one, true);
			continue;
		}
		value = (struct span){"", 0};
		if (rest.n)
			span_cut(&rest, ' ', &value);
		its_value = span_dup(value);
		add_option(c, one, its_value, true);
	}
}

static const struct opt *key_of(const struct host_kind *k, const char *name)
{
	for (const struct opt *o = k->keys; o && o->name; o++)
		if (!strcmp(o->name, name))
			return o;
	return NULL;
}

/*
 * Adds the values of the kind's section in `conf`, for keys that the command does not set; if both
 * set a list, joins the two lists. Adds nothing if `conf` has no section or several sections of the
 * kind, or if sections of the kind have names (HOST_NAMED).
 */
static void keep_section(struct fix_command *c, const struct host_conf *conf)
{
	const struct host_kind *k = host_kind_find(c->args[0]);
	const struct host_wants *w = k && conf ? host_conf_wants(conf, k) : NULL;
	auto_free char *text = NULL;
	struct span rest, line, name;

	if (!w || w->n != 1 || k->flags & HOST_NAMED)
		return;
	text = host_dropin_text(k, w->v[0]);
	for (rest = span_of(text); rest.n && span_cut(&rest, '\n', &line);) {
		auto_free char *key = NULL, *value = NULL, *word = NULL;
		const struct opt *o;

		if (!line.n || line.p[0] == ';' || line.p[0] == '[' ||
		    !span_cut(&line, '=', &name) || !line.p)
			continue;
		key = span_dup(span_trim(name));
		value = span_dup(span_trim(line));
		o = key_of(k, key);
		word = o ? xasprintf("--%s", key) : xasprintf("%s=%s", key, value);
		if (!o)
			add_operand(c, word, false);
		else if (o->type != OPT_FLAG && !(c->n == 2 && o == k->keys))
			add_option(c, word, value, false);
	}
}

void fix_collect(const struct findings *l, const struct host_conf *conf, struct fix_commands *ret)
{
	*ret = (struct fix_commands){0};
	for (size_t i = 0; i < l->n; i++)
		if (l->v[i].fix)
			add_fix(ret, l->v[i].fix);
	for (size_t i = 0; i < ret->n; i++)
		keep_section(&ret->v[i], conf);
}

char *fix_text(const struct fix_command *c)
{
	struct buf b;

	buf_init(&b, TEXT_MAX);
	buf_str(&b, "unirail host");
	for (size_t i = 0; i < c->n; i++) {
		auto_free char *word = host_shell_word(c->args[i]);

		buf_printf(&b, " %s", word);
	}
	return buf_take(&b);
}

void fix_done(struct fix_commands *l)
{
	for (size_t i = 0; i < l->n; i++) {
		for (size_t k = 0; k < l->v[i].n; k++)
			free(l->v[i].args[k]);
		free(l->v[i].args);
	}
	free(l->v);
	*l = (struct fix_commands){0};
}

/* Runs one command of `unirail host`; returns its exit status. */
static int call(const struct fix_command *c, const char *dir, bool dry_run)
{
	static char host[] = "host", show[] = "--dry-run", root[] = "--root";
	char **argv = NULL;
	size_t n = 0;
	int r;

	VEC_PUSH(argv, n) = host;
	for (size_t i = 0; i < c->n; i++)
		VEC_PUSH(argv, n) = c->args[i];
	if (dry_run)
		VEC_PUSH(argv, n) = show;
	if (dir) {
		VEC_PUSH(argv, n) = root;
		VEC_PUSH(argv, n) = (char *)dir;
	}
	VEC_PUSH(argv, n) = NULL;
	r = host_main((int)n - 1, argv);
	free(argv);
	return r;
}

int fix_run(const struct fix_commands *l, const char *dir, bool dry_run)
{
	enum { STATUS_STEPS = 3 };
	int status = 0;

	for (size_t i = 0; i < l->n; i++) {
		auto_free char *text = fix_text(&l->v[i]);
		int r;

		printf("%s\n", text);
		fflush(stdout);
		r = call(&l->v[i], dir, true);
		if (!dry_run && r == STATUS_STEPS)
			r = call(&l->v[i], dir, false);
		if (r && r != STATUS_STEPS)
			status = 1;
	}
	if (!l->n)
		printf("no command of 'unirail host' mends any of these findings\n");
	return status;
}
