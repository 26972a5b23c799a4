/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the values of a settings table from their sources. */
#include "server/settings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/ini.h"
#include "base/log.h"
#include "base/num.h"
#include "base/path.h"

enum { CONF_MAX = 64 << 10 };

static void *place_of(const struct settings *s, void *of, size_t i)
{
	return (char *)of + s->opts[i].offset;
}

static const char *text_at(const struct settings *s, const void *of, size_t i)
{
	return *(const char *const *)((const char *)of + s->opts[i].offset);
}

/* Returns the index of the row; s->n: there is none. Upper and lower case are the same. */
static size_t row_of(const struct settings *s, const char *name)
{
	size_t i = 0;

	while (i < s->n && strcasecmp(s->opts[i].name, name) != 0)
		i++;
	return i;
}

/* --- value of one setting --- */

const char *settings_own(const struct settings *s, void *of, const char *text)
{
	struct settings_own *own = (void *)((char *)of + s->own);

	return VEC_PUSH(own->v, own->n) = xstrdup(text);
}

static int wants(const struct opt *o, const char *value, struct err *e)
{
	if (o->type == OPT_INT)
		return err_kind(e, ERR_CONF, -EINVAL, "%s is '%.200s', expected %lld to %lld",
				o->name, value, (long long)o->min, (long long)o->max);
	if (o->type == OPT_DUR)
		return err_kind(
			e, ERR_CONF, -EINVAL,
			"%s is '%.200s', expected a time from %lldms to %lldms (60s, 500ms, 10m)",
			o->name, value, (long long)o->min, (long long)o->max);
	return err_kind(e, ERR_CONF, -EINVAL, "%s is '%.200s', expected one of %s", o->name, value,
			o->arg);
}

/* For log-level also accepts "warning", "fatal" and "panic" (the last two mean "error"), and
 * upper case, as in environments of Spiderpool's daemons. */
static const char *choice(const struct opt *o, const char *value)
{
	static const char *const levels[] = {"debug", "info", "warn", "error"};
	struct span rest = span_of(o->arg), one;
	enum log_level level;

	if (strcmp(o->name, "log-level") == 0)
		return log_level_parse(value, &level) < 0 ? NULL
		       : level >= LOG_ERROR		  ? "error"
							  : levels[level];
	while (span_cut(&rest, '|', &one))
		if (span_eq(one, value))
			return value;
	return NULL;
}

static int put(const struct settings *s, void *of, size_t i, const char *value, struct err *e)
{
	const struct opt *o = &s->opts[i];
	void *place = place_of(s, of, i);
	const char *word;
	int64_t n;
	int on;

	switch (o->type) {
	case OPT_INT:
		if (num_i64(span_of(value), o->min, o->max, &n) < 0)
			return wants(o, value, e);
		*(int64_t *)place = n;
		return 0;
	case OPT_DUR:
		if (num_duration_ms(span_of(value), o->max, &n) < 0 || n < o->min)
			return wants(o, value, e);
		*(int64_t *)place = n;
		return 0;
	case OPT_BOOL: /* also "TRUE" and "1", as in environments of Spiderpool's daemons */
		if (num_bool(span_of(value), &on) < 0)
			return wants(o, value, e);
		*(bool *)place = on;
		return 0;
	case OPT_CHOICE:
		word = choice(o, value);
		if (!word)
			return wants(o, value, e);
		*(const char **)place = settings_own(s, of, word);
		return 0;
	default: *(const char **)place = *value ? settings_own(s, of, value) : NULL; return 0;
	}
}

/* --- the settings file --- */

struct reading {
	const struct settings *s;
	void *into;
};

static int unknown_section(const struct settings *s, const char *section, struct err *e)
{
	return err_kind(e, ERR_CONF, -EINVAL, "section '%.100s' is not known, expected '%s'%s%s%s",
			section, s->section, s->other ? " or '" : "", s->other ? s->other : "",
			s->other ? "'" : "");
}

static int unknown_key(const struct settings *s, const char *key, struct err *e)
{
	auto_free const char **names = xcalloc(s->n, sizeof(*names));

	for (size_t i = 0; i < s->n; i++)
		names[i] = s->opts[i].name;
	return ini_unknown_key(key, names, s->n, e);
}

static int on_pair(void *arg, const struct ini_at *at, const char *key, const char *value,
		   struct err *e)
{
	const struct reading *p = arg;
	const struct settings *s = p->s;
	size_t i = row_of(s, key);

	if (strcmp(at->section, s->section) != 0)
		return s->other && strcmp(at->section, s->other) == 0
			       ? 0
			       : unknown_section(s, at->section, e);
	if (i == s->n)
		return unknown_key(s, key, e);
	if (strcmp(s->opts[i].name, "config") == 0)
		return err_kind(e, ERR_CONF, -EINVAL,
				"key 'config' is not allowed in a configuration file; give the "
				"file's path with --config");
	return put(s, p->into, i, value, e);
}

static int from_file(const struct settings *s, void *into, const struct root *root, bool must,
		     struct err *e)
{
	static const struct ini_ops ops = {.pair = on_pair};
	const char *path = text_at(s, into, row_of(s, "config"));
	struct reading p = {s, into};
	auto_buf struct buf b;
	int r;

	buf_init(&b, CONF_MAX);
	r = file_read(root, path, CONF_MAX, &b, e);
	if (r == -ENOENT && !must) {
		err_clear(e);
		return 0;
	}
	return r < 0 ? r : ini_read(buf_span(&b), path_base(path), &ops, &p, e);
}

/* --- environment variables --- */

static const char *env_get(const struct settings_env *env, const char *name)
{
	return env && env->get ? env->get(env->arg, name) : getenv(name);
}

/* An empty variable counts as unset, as in a manifest whose value was left out. */
static int from_env(const struct settings *s, void *into, size_t i, const struct settings_env *env,
		    struct err *e)
{
	struct span rest = span_of(s->rows[i].env), one;

	while (span_cut(&rest, ' ', &one)) {
		auto_free char *name = span_dup(one);
		const char *value = env_get(env, name);
		int r;

		if (!value || !*value)
			continue;
		r = put(s, into, i, value, e);
		return r < 0 ? err_wrap(e, r, "variable %s", name) : 0;
	}
	return 0;
}

/* --- read of all settings --- */

static bool is_path(const struct opt *o)
{
	return o->type == OPT_STR && o->arg &&
	       (strcmp(o->arg, "FILE") == 0 || strcmp(o->arg, "PATH") == 0 ||
		strcmp(o->arg, "DIR") == 0);
}

static int check_paths(const struct settings *s, const void *of, struct err *e)
{
	for (size_t i = 0; i < s->n; i++) {
		const char *path = is_path(&s->opts[i]) ? text_at(s, of, i) : NULL;

		if (path && *path != '/')
			return err_kind(e, ERR_CONF, -EINVAL,
					"%s is '%s', expected an absolute path", s->opts[i].name,
					path);
	}
	return 0;
}

static int flags(const struct settings *s, void *into, int argc, char **argv, struct err *e)
{
	const struct cmd cmd = {NULL, NULL, s->help, s->opts, 0, 0};

	return opt_parse(&cmd, s->prog, argc, argv, into, e);
}

int settings_read(const struct settings *s, void *into, const struct root *root,
		  const struct settings_env *env, int argc, char **argv, struct err *e)
{
	size_t config = row_of(s, "config");
	int r = flags(s, into, argc, argv, e);
	const char *named = r < 0 ? NULL : text_at(s, into, config);

	for (size_t i = 0; i < s->n && r >= 0; i++)
		r = put(s, into, i, s->rows[i].fallback, e);
	if (r >= 0)
		r = from_env(s, into, config, env, e);
	if (r < 0)
		return r;
	if (named)
		*(const char **)place_of(s, into, config) = named;
	r = check_paths(s, into, e);
	if (r == 0 && s->section)
		r = from_file(s, into, root, named, e);
	for (size_t i = 0; i < s->n && r >= 0; i++)
		if (i != config)
			r = from_env(s, into, i, env, e);
	if (r >= 0)
		r = flags(s, into, argc, argv, e);
	return r < 0 ? r : check_paths(s, into, e);
}

void settings_done(const struct settings *s, void *of)
{
	struct settings_own *own = (void *)((char *)of + s->own);

	str_list_free(own->v, own->n);
	*own = (struct settings_own){0};
}

static bool is_same(const struct settings *s, const void *a, const void *b, size_t i)
{
	const struct opt *o = &s->opts[i];
	const char *x, *y;

	if (o->type == OPT_INT || o->type == OPT_DUR)
		return *(const int64_t *)((const char *)a + o->offset) ==
		       *(const int64_t *)((const char *)b + o->offset);
	if (o->type == OPT_BOOL)
		return *(const bool *)((const char *)a + o->offset) ==
		       *(const bool *)((const char *)b + o->offset);
	x = text_at(s, a, i);
	y = text_at(s, b, i);
	return strcmp(x ? x : "", y ? y : "") == 0;
}

const char *settings_needs_restart(const struct settings *s, const void *was, const void *is)
{
	for (size_t i = 0; i < s->n; i++)
		if (!s->rows[i].live && !is_same(s, was, is, i))
			return s->opts[i].name;
	return NULL;
}

bool settings_key(const struct settings *s, size_t i, struct settings_key *ret)
{
	if (i >= s->n)
		return false;
	*ret = (struct settings_key){s->opts[i].name, s->rows[i].fallback, s->rows[i].env,
				     s->opts[i].arg,  s->opts[i].help,	   s->rows[i].live};
	return true;
}
