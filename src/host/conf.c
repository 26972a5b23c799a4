/* SPDX-License-Identifier: Apache-2.0 */
#include "host/conf.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/ini.h"
#include "base/num.h"
#include "base/path.h"
#include "host/kinds.h"

enum { CONF_MAX = 1 << 20, SECTIONS_MAX = 4096, PAIRS_MAX = 4096, VARIABLE_MAX = 64 };

void host_conf_init(struct host_conf *c)
{
	*c = (struct host_conf){0};
	for (const struct host_kind *const *k = host_kinds; *k; k++)
		VEC_PUSH(c->wants, c->n).kind = *k;
}

void host_conf_done(struct host_conf *c)
{
	for (size_t i = 0; i < c->n; i++) {
		struct host_wants *w = &c->wants[i];

		for (size_t k = 0; k < w->n; k++) {
			free(w->v[k]->pairs);
			free(w->v[k]);
		}
		free(w->v);
	}
	for (size_t i = 0; i < c->n_strings; i++)
		free(c->strings[i]);
	free(c->strings);
	free(c->wants);
	*c = (struct host_conf){0};
}

static char *own(struct host_conf *c, char *s)
{
	VEC_PUSH(c->strings, c->n_strings) = s;
	return s;
}

struct host_wants *host_conf_wants(const struct host_conf *c, const struct host_kind *k)
{
	for (size_t i = 0; i < c->n; i++)
		if (c->wants[i].kind == k)
			return &c->wants[i];
	return NULL;
}

static struct host_want *want_new(struct host_wants *w)
{
	struct host_want *one = xcalloc(1, w->kind->size);

	if (w->kind->init)
		w->kind->init(one);
	VEC_PUSH(w->v, w->n) = one;
	return one;
}

/* --- values --- */

static int put_choice(const struct opt *o, const char *value, void *at, struct err *e)
{
	struct span rest = span_of(o->arg), one;

	while (span_cut(&rest, '|', &one)) {
		if (!span_eq(one, value))
			continue;
		*(const char **)at = value;
		return 0;
	}
	return err_kind(e, ERR_CONF, -EINVAL, "%s is '%.100s', expected %s", o->name, value,
			o->arg);
}

static int put_number(const struct opt *o, const char *value, void *at, struct err *e)
{
	bool is_time = o->type == OPT_DUR;
	int64_t n = 0;
	int r = is_time ? num_duration_ms(span_of(value), o->max, &n)
			: num_i64(span_of(value), o->min, o->max, &n);

	if (r < 0 && is_time)
		return err_kind(e, ERR_CONF, -EINVAL,
				"%s is '%.100s', expected a time up to %lldms (60s, 500ms)",
				o->name, value, (long long)o->max);
	if (r < 0)
		return err_kind(e, ERR_CONF, -EINVAL,
				"%s is '%.100s', expected a number %lld to %lld", o->name, value,
				(long long)o->min, (long long)o->max);
	memcpy(at, &n, sizeof(n));
	return 0;
}

static int put(const struct opt *o, void *want, const char *value, struct err *e)
{
	void *at = (char *)want + o->offset;
	int flag;

	switch (o->type) {
	case OPT_CHOICE: return put_choice(o, value, at, e);
	case OPT_INT:
	case OPT_DUR: return put_number(o, value, at, e);
	case OPT_FLAG:
		if (num_bool(span_of(value), &flag) < 0)
			return err_kind(e, ERR_CONF, -EINVAL, "%s is '%.100s', expected yes or no",
					o->name, value);
		*(bool *)at = flag;
		return 0;
	case OPT_STR:
	default: *(const char **)at = value; return 0;
	}
}

static const struct opt *find_key(const struct host_kind *k, const char *name)
{
	for (const struct opt *o = k->keys; o && o->name; o++)
		if (strcmp(o->name, name) == 0)
			return o;
	return NULL;
}

static int unknown_key(const struct host_kind *k, const char *name, struct err *e)
{
	auto_free const char **names = NULL;
	const char *near;
	size_t n = 0;

	for (const struct opt *o = k->keys; o && o->name; o++)
		VEC_PUSH(names, n) = o->name;
	near = opt_suggest(name, names, n);
	return err_kind(e, ERR_CONF, -EINVAL, "key '%.100s' is unknown in section '%s'%s%s%s", name,
			k->section, near ? "; did you mean '" : "", near ? near : "",
			near ? "'?" : "");
}

/* --- the file --- */

struct reading {
	struct host_conf *c;
	const struct host_kind *kind; /* of the current section; NULL: none yet */
	struct host_want *want;
	size_t sections;
};

static int unknown_section(const char *section, struct err *e)
{
	auto_free const char **names = NULL;
	const char *near;
	size_t n = 0;

	for (const struct host_kind *const *k = host_kinds; *k; k++)
		VEC_PUSH(names, n) = (*k)->section;
	near = opt_suggest(section, names, n);
	return err_kind(e, ERR_CONF, -EINVAL, "section '%.100s' is unknown%s%s%s", section,
			near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

static const struct host_want *find_want(const struct host_wants *w, const char *name)
{
	for (size_t i = 0; i < w->n; i++)
		if (!name || (w->v[i]->name && strcmp(w->v[i]->name, name) == 0))
			return w->v[i];
	return NULL;
}

static void want_remove(struct host_wants *w, const struct host_want *one)
{
	for (size_t i = 0; i < w->n; i++) {
		if (w->v[i] != one)
			continue;
		free(w->v[i]->pairs);
		free(w->v[i]);
		memmove(&w->v[i], &w->v[i + 1], (--w->n - i) * sizeof(struct host_want *));
		return;
	}
}

/* Returns whether the section's origin is "FILE:LINE" of this file. */
static bool is_from_file(const struct host_want *w, const char *file)
{
	size_t n = strlen(file);

	return strncmp(w->origin, file, n) == 0 && w->origin[n] == ':';
}

static int begin(struct reading *p, const struct host_kind *k, char *name, const struct ini_at *at,
		 struct err *e)
{
	struct host_wants *w = host_conf_wants(p->c, k);
	const struct host_want *same = NULL;

	if (!!name != !!(k->flags & HOST_NAMED))
		return err_kind(e, ERR_CONF, -EINVAL,
				name ? "section '%s' takes no name: write '[%s]'"
				     : "section '%s' needs a name: '[%s NAME]'",
				k->section, k->section);
	same = find_want(w, name);
	if (same && !is_from_file(same, at->file)) {
		want_remove(w, same);
		same = NULL;
	}
	if (same)
		return err_kind(e, ERR_CONF, -EINVAL, "section '%s%s%s' is already at %s",
				k->section, name ? " " : "", name ? name : "", same->origin);
	if (++p->sections > SECTIONS_MAX)
		return err_kind(e, ERR_CONF, -EINVAL, "more than %d sections in the file",
				SECTIONS_MAX);
	p->kind = k;
	p->want = want_new(w);
	p->want->name = name;
	p->want->origin = own(p->c, xasprintf("%s:%d", at->file, at->line));
	return 0;
}

/* "[interface ens1]" */
static int on_section(void *arg, const struct ini_at *at, struct err *e)
{
	struct span name = span_of(at->section), type = name;
	auto_free char *word = NULL;
	struct reading *p = arg;

	type.n = strcspn(at->section, " \t");
	word = span_dup(type);
	name = span_trim((struct span){name.p + type.n, name.n - type.n});
	for (const struct host_kind *const *k = host_kinds; *k; k++)
		if (strcmp((*k)->section, word) == 0)
			return begin(p, *k, name.n ? own(p->c, span_dup(name)) : NULL, at, e);
	return unknown_section(word, e);
}

static int add_pair(struct reading *p, const struct ini_at *at, const char *name, const char *value,
		    struct err *e)
{
	if (p->want->n_pairs == PAIRS_MAX)
		return err_kind(e, ERR_CONF, -EINVAL, "more than %d lines in a section", PAIRS_MAX);
	for (size_t i = 0; i < p->want->n_pairs; i++)
		if (strcmp(p->want->pairs[i].key, name) == 0)
			return err_kind(e, ERR_CONF, -EINVAL, "key '%s' is already on line %d",
					name, p->want->pairs[i].line);
	VEC_PUSH(p->want->pairs, p->want->n_pairs) =
		(struct host_pair){own(p->c, xstrdup(name)), own(p->c, xstrdup(value)), at->line};
	return 0;
}

static int on_pair(void *arg, const struct ini_at *at, const char *name, const char *value,
		   struct err *e)
{
	struct reading *p = arg;
	const struct opt *o;

	if (!p->kind)
		return err_kind(e, ERR_CONF, -EINVAL, "key '%.100s' is before the first section",
				name);
	o = find_key(p->kind, name);
	if (o)
		return put(o, p->want, own(p->c, xstrdup(value)), e);
	if (p->kind->flags & HOST_PAIRS)
		return add_pair(p, at, name, value, e);
	return unknown_key(p->kind, name, e);
}

static int check(const struct host_kind *k, struct host_want *w, struct err *e)
{
	int r = k->check ? k->check(w, e) : 0;

	if (r >= 0)
		return 0;
	err_default_kind(e, ERR_CONF);
	return err_wrap(e, r, "%s: %s%s%s", w->origin, k->section, w->name ? " " : "",
			w->name ? w->name : "");
}

int host_conf_parse(struct host_conf *c, const char *name, struct span text, struct err *e)
{
	static const struct ini_ops ops = {on_section, on_pair};
	struct reading p = {.c = c};
	int r = ini_read(text, name, &ops, &p, e);

	for (size_t i = 0; i < c->n && r == 0; i++)
		for (size_t k = 0; k < c->wants[i].n && r == 0; k++)
			r = check(c->wants[i].kind, c->wants[i].v[k], e);
	return r;
}

int host_conf_read(struct host_conf *c, const struct root *root, const char *path, struct err *e)
{
	auto_buf struct buf b;
	int r;

	buf_init(&b, CONF_MAX);
	r = file_read(root, path, CONF_MAX, &b, e);
	return r < 0 ? r : host_conf_parse(c, path_base(path), buf_span(&b), e);
}

/* --- environment variables of the command --- */

/* Returns the value of the first variable of `names` ("NAME", "NAME|OTHER") that has one, and sets
 * `name` to this variable; NULL: none has a value. */
static const char *variable(const struct host_env *env, const char *names,
			    char name[static VARIABLE_MAX])
{
	struct span rest = span_of(names), one;

	while (span_cut(&rest, '|', &one)) {
		const char *value;

		snprintf(name, VARIABLE_MAX, "%.*s", (int)one.n, one.p);
		value = env && env->get ? env->get(env->arg, name) : getenv(name);
		if (value && *value)
			return value;
	}
	return NULL;
}

/* Reads the environment variables of the script that this kind of section replaces. As in the
 * script, only the text "true" sets a flag; any other value is false. Returns 1 if a variable is
 * set. */
static int from_env(struct host_conf *c, const struct host_kind *k, struct host_want *w,
		    const struct host_env *env, struct err *e)
{
	char name[VARIABLE_MAX];
	const char *operand = k->env_name ? variable(env, k->env_name, name) : NULL;
	int r = 0, set = operand != NULL;

	if (operand)
		w->name = own(c, xstrdup(operand));
	for (size_t i = 0; k->env && k->keys[i].name && r >= 0; i++) {
		const char *value = k->env[i] ? variable(env, k->env[i], name) : NULL;

		if (!value)
			continue;
		set = 1;
		if (k->keys[i].type == OPT_FLAG)
			value = strcmp(value, "true") == 0 ? "yes" : "no";
		r = put(&k->keys[i], w, own(c, xstrdup(value)), e);
		if (r < 0)
			err_wrap(e, r, "variable %s", name);
	}
	return r < 0 ? r : set;
}

/* --- the command line, parsed before its values enter a section --- */

struct arguments {
	void *want;  /* a struct of the kind, without defaults */
	char **argv; /* the operands from `first` on */
	int argc, first;
	bool keys; /* an option sets a key of the kind */
};

static void arguments_done(struct arguments *a)
{
	free(a->want);
	free(a->argv);
}
#define auto_arguments __attribute__((cleanup(arguments_done)))

static bool is_set(const struct opt *o, const void *want)
{
	const void *at = (const char *)want + o->offset;

	if (o->type == OPT_FLAG)
		return *(const bool *)at;
	if (o->type == OPT_INT || o->type == OPT_DUR)
		return *(const int64_t *)at != INT64_MIN;
	return *(const char *const *)at != NULL;
}

/* Parses a copy of argv, since opt_parse() reorders it. A key counts as given even if its value is
 * the default. */
static int arguments_read(struct arguments *a, const struct host_kind *k, const struct cmd *cmd,
			  const char *prog, int argc, char **argv, struct err *e)
{
	a->want = xcalloc(1, k->size);
	a->argv = xcalloc((size_t)argc + 1, sizeof(*a->argv));
	a->argc = argc;
	memcpy(a->argv, argv, (size_t)argc * sizeof(*a->argv));
	for (const struct opt *o = k->keys; o && o->name; o++)
		if (o->type == OPT_INT || o->type == OPT_DUR)
			*(int64_t *)((char *)a->want + o->offset) = INT64_MIN;
	a->first = opt_parse(cmd, prog, argc, a->argv, a->want, e);
	for (const struct opt *o = k->keys; o && o->name; o++)
		a->keys |= is_set(o, a->want);
	return a->first;
}

bool host_conf_is_query(const struct host_kind *k, const struct cmd *cmd, const char *prog,
			int argc, char **argv, struct host_options *options)
{
	auto_arguments struct arguments a = {.first = 0};
	const char *word;
	bool named = false;

	for (int i = 0; i < argc; i++)
		named |= strcmp(argv[i], "q") == 0 || strcmp(argv[i], "query") == 0;
	/* Arguments with --help are not a query, because the command prints the help. */
	for (int i = 0; i < argc; i++)
		named &= strcmp(argv[i], "--help") != 0 && strcmp(argv[i], "-h") != 0;
	if (!named || arguments_read(&a, k, cmd, prog, argc, argv, NULL) < 0 || a.keys ||
	    a.argc - a.first != 1)
		return false;
	word = a.argv[a.first];
	if (strcmp(word, "q") != 0 && strcmp(word, "query") != 0)
		return false;
	memcpy(a.want, &(struct host_want){.options = *options}, sizeof(struct host_want));
	memcpy(a.argv, argv, (size_t)argc * sizeof(*a.argv));
	(void)opt_parse(cmd, prog, argc, a.argv, a.want, NULL);
	*options = ((struct host_want *)a.want)->options;
	return true;
}

static int operand(struct host_conf *c, const struct host_kind *k, struct host_want *w,
		   const char *word, struct err *e)
{
	const char *eq = strchr(word, '=');

	if (k->flags & HOST_PAIRS) {
		if (!eq || eq == word)
			return err_kind(e, ERR_CONF, -EINVAL, "'%s' is not KEY=VALUE", word);
		VEC_PUSH(w->pairs, w->n_pairs) = (struct host_pair){
			own(c, span_dup((struct span){word, (size_t)(eq - word)})),
			own(c, xstrdup(eq + 1)), 0};
		return 0;
	}
	if (k->flags & HOST_NAMED) {
		w->name = own(c, xstrdup(word));
		return 0;
	}
	if (k->keys && (k->keys->type == OPT_CHOICE || k->keys->type == OPT_STR))
		return put(k->keys, w, own(c, xstrdup(word)), e);
	return err_kind(e, ERR_CONF, -EINVAL, "unexpected operand '%s': '%s' takes none", word,
			k->name);
}

/* Reads the file that the key host_kind.plan names and sets *w to its last section of this kind.
 * Returns 1; 0 if the key has no value, so that *w is unchanged. */
static int from_plan(struct host_conf *c, const struct host_kind *k, struct host_want **w,
		     struct err *e)
{
	const char *file = k->plan ? *(const char *const *)((const char *)*w + k->plan) : NULL;
	struct host_wants *all = host_conf_wants(c, k);
	auto_free char *path = NULL;
	struct root root;
	int r;

	if (!file)
		return 0;
	path = path_absolute(file);
	want_remove(all, *w);
	r = root_open(&root, NULL, e);
	if (r < 0)
		return r;
	r = host_conf_read(c, &root, path, e);
	root_close(&root);
	if (r >= 0 && all->n == 0)
		r = err_kind(e, ERR_CONF, -EINVAL, "'%s' has no section '%s'", file, k->section);
	if (r < 0)
		return r;
	*w = all->v[all->n - 1];
	return 1;
}

/* Parses the options into the section; the strings of the section are borrowed from argv. */
static int parse_options(struct host_want *w, const struct cmd *cmd, const char *prog, int argc,
			 char **argv, struct host_options options, struct err *e)
{
	auto_free char **copy = xcalloc((size_t)argc + 1, sizeof(*copy));

	memcpy(copy, argv, (size_t)argc * sizeof(*copy));
	w->options = options;
	return opt_parse(cmd, prog, argc, copy, w, e);
}

int host_conf_command(struct host_conf *c, const struct host_kind *k, const struct cmd *cmd,
		      const char *prog, const struct host_env *env, int argc, char **argv,
		      struct host_options *options, bool *given, struct err *e)
{
	struct host_want *w = want_new(host_conf_wants(c, k));
	auto_arguments struct arguments args = {.first = 0};
	int r, variables;

	w->origin = "command line";
	variables = from_env(c, k, w, env, e);
	r = variables < 0 ? variables : arguments_read(&args, k, cmd, prog, argc, argv, e);
	if (r >= 0)
		r = parse_options(w, cmd, prog, argc, argv, *options, e);
	if (r >= 0)
		r = from_plan(c, k, &w, e);
	if (r > 0) /* Options override the file. */
		r = parse_options(w, cmd, prog, argc, argv, *options, e);
	if (r < 0)
		return r;
	*options = w->options;
	w->options = (struct host_options){0};
	*given = k->flags & HOST_BARE || variables || args.keys || args.first < args.argc;
	if (!*given) {
		want_remove(host_conf_wants(c, k), w);
		return 0;
	}
	r = 0;
	for (int i = args.first; i < args.argc && r >= 0; i++)
		r = operand(c, k, w, args.argv[i], e);
	if (r < 0)
		return r;
	if (k->flags & HOST_NAMED && !w->name)
		return err_kind(e, ERR_CONF, -EINVAL, "no %s: name one as the operand%s%s",
				k->section, k->env_name ? " or in $" : "",
				k->env_name ? k->env_name : "");
	return check(k, w, e);
}
