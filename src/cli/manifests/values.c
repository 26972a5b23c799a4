/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/manifests/values.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/num.h"
#include "base/option.h"
#include "base/sorted.h"
#include "wire/yaml/yaml.h"

enum { PATH_MAX_LEN = 256, DEPTH_MAX = 20 };

/* --- reading --- */

void values_merge(struct json_tree *into, const struct json *from, bool drop_null)
{
	struct json_walk w = json_walk_start(from);
	const struct json *v;
	const char *key;

	while ((v = json_walk_next(&w, &key))) {
		struct json_tree *there = json_tree_member(into, key);

		if (json_kind(v) == JSON_NULL && drop_null)
			json_tree_drop(into, key);
		else if (json_kind(v) == JSON_OBJECT && json_tree_kind(there) == JSON_OBJECT)
			values_merge(there, v, drop_null);
		else
			json_tree_put(into, key, json_tree_of(v));
	}
}

int values_add_yaml(struct json_tree *into, struct span text, const char *place, struct err *e)
{
	auto_json struct json_doc *d = NULL;
	auto_buf struct buf json;
	int r;

	buf_init(&json, 4 * VALUES_MAX);
	r = yaml_to_json(text, &json, e);
	if (r == 0)
		r = json_parse(&d, buf_span(&json), 4 * VALUES_MAX, e);
	if (r < 0)
		return err_wrap(e, r, "%s", place);
	/* An empty file is the value null. */
	if (json_kind(json_root(d)) == JSON_NULL)
		return 0;
	if (json_kind(json_root(d)) != JSON_OBJECT)
		return json_wants(json_root(d), place, "a mapping", e);
	values_merge(into, json_root(d), false);
	return 0;
}

/* --- --set --- */

static struct json_tree *scalar_of(const char *text)
{
	auto_json struct json_doc *d = NULL;
	int64_t n;

	if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0 || strcmp(text, "null") == 0 ||
	    (num_i64(span_of(text), INT64_MIN, INT64_MAX, &n) == 0 && (*text != '0' || !text[1]))) {
		if (json_parse(&d, span_of(text), PATH_MAX_LEN, NULL) == 0)
			return json_tree_of(json_root(d));
	}
	/* A tree has no constructor for a string: puts it into an object and takes it out again. */
	struct json_tree *list = json_tree_new(JSON_OBJECT), *ret;

	json_tree_put_text(list, "v", text);
	ret = json_tree_take(list, "v");
	json_tree_free(list);
	return ret;
}

/* Sets b to the text from *at up to the first unescaped character of `stops`, without the
 * escaping backslashes, and moves *at to that character. Returns the character; 0: the text has
 * none of them. */
static char word(const char **at, const char *stops, struct buf *b)
{
	buf_reset(b);
	for (; **at && !strchr(stops, **at); (*at)++) {
		if (**at == '\\' && (*at)[1])
			(*at)++;
		buf_char(b, **at);
	}
	return **at;
}

static int value_at(const char **at, struct buf *b, struct json_tree **ret)
{
	if (**at != '{') {
		word(at, ",", b);
		*ret = scalar_of(b->p ? b->p : "");
		return 0;
	}
	*ret = json_tree_new(JSON_ARRAY);
	do {
		++*at;
		if (word(at, ",}", b) || b->len)
			if (b->len || **at == ',')
				json_tree_push(*ret, scalar_of(b->p ? b->p : ""));
	} while (**at == ',');
	if (**at != '}') {
		json_tree_free(*ret);
		return -EINVAL;
	}
	++*at;
	return 0;
}

/*
 * Returns item i of a list, an object; appends it if i is the length of the list. NULL: i is
 * larger, or the item is not an object.
 */
static struct json_tree *item_object(struct json_tree *list, int64_t i)
{
	struct json_tree *item = json_tree_first(list);
	int64_t n = 0;

	for (; item && n < i; n++)
		item = json_tree_next(item);
	if (!item && n == i) {
		json_tree_push(list, json_tree_new(JSON_OBJECT));
		item = json_tree_first(list);
		while (json_tree_next(item))
			item = json_tree_next(item);
	}
	return json_tree_kind(item) == JSON_OBJECT ? item : NULL;
}

/* *at points to an index such as "[0].": returns this item of list `key`, an object, and moves
 * *at behind the "].". NULL: the index or the syntax is invalid, or the item is not an object. */
static struct json_tree *enter_item(struct json_tree *t, const char *key, const char **at,
				    struct buf *b)
{
	int64_t i;

	++*at;
	if (word(at, "]", b) != ']' || !b->p || num_i64(buf_span(b), 0, VALUES_ITEMS_MAX, &i) < 0)
		return NULL;
	if ((*at)[1] != '.')
		return NULL;
	*at += 2;
	return item_object(json_tree_member_array(t, key), i);
}

static int set_one(struct json_tree *t, const char **at, struct err *e)
{
	auto_buf struct buf b;
	struct json_tree *v;

	buf_init(&b, VALUES_MAX);
	for (int depth = 0; t && depth < DEPTH_MAX; depth++) {
		char stop = word(at, ".[=,", &b);
		auto_free char *key = xstrdup(b.p ? b.p : "");

		if (!*key || !stop || stop == ',')
			return err_set(e, -EINVAL,
				       "expected path=value, such as "
				       "ipam.enableIPv6=false");
		if (stop == '.') {
			++*at;
			t = json_tree_member_object(t, key);
		} else if (stop == '[') {
			t = enter_item(t, key, at, &b);
		} else {
			++*at;
			if (value_at(at, &b, &v) < 0)
				return err_set(e, -EINVAL, "the list of '%s' has no '}'", key);
			json_tree_put(t, key, v);
			return 0;
		}
	}
	return err_set(
		e, -EINVAL,
		"the path is too deep, has an invalid index or no '.' after ']', leads through a "
		"value that is not an object, or skips an item of a list: expected a.b=value or "
		"a.list[0].b=value");
}

int values_add_set(struct json_tree *into, const char *text, struct err *e)
{
	const char *at = text;

	do {
		int r = set_one(into, &at, e);

		if (r == 0 && *at && *at != ',')
			r = err_set(e, -EINVAL, "'%s' after a list, expected ','", at);
		if (r < 0)
			return err_wrap(e, r, "--set '%s'", text);
	} while (*at++ == ',');
	return 0;
}

/* --- checking --- */

const struct json *values_get(const struct json *values, const char *path)
{
	struct span rest = span_of(path), part;
	char key[PATH_MAX_LEN];

	while (values && span_cut(&rest, '.', &part)) {
		if (json_kind(values) != JSON_OBJECT || part.n >= sizeof(key))
			return NULL;
		memcpy(key, part.p, part.n);
		key[part.n] = '\0';
		values = json_get(values, key);
	}
	return json_kind(values) == JSON_NULL ? NULL : values;
}

/* Returns whether the text consists of characters that need no quotes in YAML and in a settings
 * file, and does not end with ':'. */
static bool values_plain(const char *text)
{
	static const char chars[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
				    "._/+=-:";
	size_t n = strlen(text);

	return strspn(text, chars) == n && (!n || text[n - 1] != ':');
}

/* A rule and its path. Rules are sorted by path. */
struct known {
	const char *path;
	const struct json *rule;
};

struct check {
	struct known *v;
	size_t n;
	struct err *e;
};

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct known *)a)->path, ((const struct known *)b)->path);
}

/* Returns the index of the first rule whose path does not sort before `path`; the number of
 * rules: there is none. */
static size_t lower_bound(const struct check *c, const char *path)
{
	return LOWER_BOUND(i, c->n, strcmp(c->v[i].path, path) < 0);
}

/* Reports the unknown key whose path is `place`, and suggests the most similar key of the same
 * object if one is similar enough. */
static int unknown_key(const struct check *c, const char *place, struct err *e)
{
	const char *dot = strrchr(place, '.'), *name = dot ? dot + 1 : place, *near;
	size_t prefix = (size_t)(name - place), n = 0;
	auto_free const char **names = NULL;

	for (size_t i = 0; i < c->n; i++)
		if (strncmp(c->v[i].path, place, prefix) == 0) {
			struct span rest = span_of(c->v[i].path + prefix), part;

			span_cut(&rest, '.', &part);
			VEC_PUSH(names, n) = span_dup(part);
		}
	near = opt_suggest(name, names, n);
	if (near)
		err_kind(e, ERR_CONF, -EINVAL, "value '%s' is unknown; did you mean '%.*s%s'?",
			 place, (int)prefix, place, near);
	else
		err_kind(e, ERR_CONF, -EINVAL,
			 "value '%s' is unknown; deploy/chart/README.md lists all", place);
	for (size_t i = 0; i < n; i++)
		free((char *)names[i]);
	return -EINVAL;
}

static int wants_type(const struct json *v, const char *type, const char *place, struct err *e)
{
	enum json_kind kind = json_kind(v);
	int64_t n;

	if (kind == JSON_NULL)
		return 0;
	if (strcmp(type, "bool") == 0)
		return kind == JSON_BOOL ? 0 : json_wants(v, place, "true or false", e);
	if (strcmp(type, "int") == 0)
		return json_int(v, &n) == 0 ? 0 : json_wants(v, place, "a number", e);
	if (strcmp(type, "string") == 0)
		return kind == JSON_STRING ? 0 : json_wants(v, place, "a text", e);
	if (strcmp(type, "object") == 0 || strcmp(type, "image") == 0)
		return kind == JSON_OBJECT ? 0 : json_wants(v, place, "an object", e);
	return kind == JSON_ARRAY ? 0 : json_wants(v, place, "a list", e);
}

/*
 * Checks the members of an item of a list by `keys` of a rule: {member: type}, or {member: {member:
 * type}} for nested objects.
 */
static int check_members(const struct json *v, const struct json *keys, const char *place,
			 struct err *e)
{
	struct json_walk w = json_walk_start(v);
	const struct json *member;
	const char *key;

	if (json_kind(v) != JSON_OBJECT)
		return json_wants(v, place, "an object", e);
	while ((member = json_walk_next(&w, &key))) {
		const struct json *type = json_get(keys, key);
		auto_free char *at = xasprintf("%s.%s", place, key);
		int r;

		if (!type)
			return err_kind(e, ERR_CONF, -EINVAL,
					"value '%s' is unknown; deploy/chart/README.md lists all",
					at);
		r = json_kind(type) == JSON_OBJECT ? check_members(member, type, at, e)
						   : wants_type(member, json_string(type), at, e);
		if (r < 0)
			return r;
	}
	return 0;
}

static int check_items(const struct json *v, const struct json *rule, const char *place,
		       struct err *e)
{
	const struct json *keys = json_get(rule, "keys"), *item;
	const char *need = json_string(json_get(rule, "need"));
	bool texts = strcmp(json_string(json_get(rule, "t")), "strings") == 0;
	struct json_walk w = json_walk_start(v);

	for (size_t i = 0; (item = json_walk_next(&w, NULL)); i++) {
		auto_free char *at = xasprintf("%s[%zu]", place, i);
		/* A value may be null, which means its default; an item of a list may not. */
		int r = json_kind(item) == JSON_NULL
				? json_wants(item, at, texts ? "a text" : "an object", e)
				: wants_type(item, texts ? "string" : "object", at, e);

		if (r == 0 && texts && json_get(rule, "conf") &&
		    strpbrk(json_string(item), " \t\r\n,;#\"'[]{}"))
			r = json_wants(item, at, "a name or an address", e);
		if (r == 0 && keys)
			r = check_members(item, keys, at, e);
		if (r == 0 && need) {
			const char *name = json_string(json_get(item, need));

			if (!name || !*name || !values_plain(name) || strpbrk(name, "/:+="))
				r = err_kind(e, ERR_CONF, -EINVAL,
					     "%s.%s is missing or invalid: expected letters, "
					     "digits, '.', '_' and '-'",
					     at, need);
		}
		if (r < 0)
			return r;
	}
	return 0;
}

static int check_string(const char *text, const struct json *v, const struct json *rule,
			const char *place, struct err *e)
{
	const char *like = json_string(json_get(rule, "like"));
	size_t prefix = like ? strlen(like) - 1 : 0;

	if (json_get(rule, "note") || json_get(rule, "json") || json_get(rule, "one"))
		return 0;
	if (!values_plain(text))
		return json_wants(v, place,
				  "letters, digits and the characters '._/+=-:', and "
				  "no ':' at the end",
				  e);
	if (like && strncmp(text, like, prefix) != 0 && !json_same(v, json_get(rule, "d"))) {
		auto_free char *what = xasprintf("a string that begins with "
						 "%.*s",
						 (int)prefix, like);

		return json_wants(v, place, what, e);
	}
	return 0;
}

static int check_number(const struct json *v, const struct json *rule, const char *place,
			struct err *e)
{
	int64_t n, low, high;
	bool is_low = json_int(json_get(rule, "min"), &low) == 0;
	bool is_high = json_int(json_get(rule, "max"), &high) == 0;

	if (json_int(v, &n) < 0 || ((!is_low || n >= low) && (!is_high || n <= high)))
		return 0;
	auto_free char *what = is_high ? xasprintf("%lld to %lld", (long long)low, (long long)high)
				       : xasprintf("%lld or more", (long long)low);

	return json_wants(v, place, what, e);
}

static int check_image(const struct json *v, const char *place, struct err *e)
{
	static const char *const known[] = {"registry", "repository", "pullPolicy",
					    "digest",	"tag",	      "imagePullSecrets"};
	struct json_walk w = json_walk_start(v);
	const char *key;

	while (json_walk_next(&w, &key)) {
		size_t i = 0;

		while (i < ARRAY_LEN(known) && strcmp(key, known[i]) != 0)
			i++;
		if (i == ARRAY_LEN(known))
			return err_kind(
				e, ERR_CONF, -EINVAL,
				"value '%s.%s' is unknown, expected registry, repository, tag, "
				"digest, pullPolicy or imagePullSecrets",
				place, key);
	}
	return 0;
}

static int check_one(const struct json *v, const struct json *rule, const char *place,
		     struct err *e)
{
	const struct json *one = json_get(rule, "one"), *word_of;
	struct json_walk w = json_walk_start(one);
	const char *type;
	int r;

	/* Not checked here: the renderer refuses all renamed values in one message. */
	if (json_get(rule, "now"))
		return 0;
	type = json_string(json_get(rule, "t"));
	r = wants_type(v, type, place, e);
	if (r < 0 || json_kind(v) == JSON_NULL)
		return r;
	if (strcmp(type, "image") == 0)
		return check_image(v, place, e);
	if (one) {
		auto_buf struct buf b;

		buf_init(&b, PATH_MAX_LEN);
		while ((word_of = json_walk_next(&w, NULL))) {
			if (json_same(v, word_of))
				return 0;
			buf_printf(&b, "%s%s", b.len ? ", " : "one of ", json_string(word_of));
		}
		return json_wants(v, place, b.p, e);
	}
	if (json_kind(v) == JSON_STRING)
		r = check_string(json_string(v), v, rule, place, e);
	else if (json_kind(v) == JSON_NUMBER)
		r = check_number(v, rule, place, e);
	else if (json_kind(v) == JSON_ARRAY)
		r = check_items(v, rule, place, e);
	return r;
}

static int check_object(const struct check *c, const struct json *obj, const char *prefix)
{
	struct json_walk w = json_walk_start(obj);
	const struct json *v;
	const char *key;

	while ((v = json_walk_next(&w, &key))) {
		auto_free char *path = xasprintf("%s%s", prefix, key);
		auto_free char *below = xasprintf("%s.", path);
		size_t i = lower_bound(c, path);
		int r;

		/* Refuses a key with a dot, which would look like the path of another value. */
		if (strchr(key, '.')) {
			r = unknown_key(c, path, c->e);
		} else if (i < c->n && strcmp(c->v[i].path, path) == 0) {
			r = check_one(v, c->v[i].rule, path, c->e);
		} else {
			i = lower_bound(c, below);
			if (i >= c->n || strncmp(c->v[i].path, below, strlen(below)) != 0)
				r = unknown_key(c, path, c->e);
			else if (json_kind(v) == JSON_NULL)
				r = 0;
			else if (json_kind(v) != JSON_OBJECT)
				r = json_wants(v, path, "an object", c->e);
			else
				r = check_object(c, v, below);
		}
		if (r < 0)
			return r;
	}
	return 0;
}

int values_check(const struct json *values, const struct json *rules, struct err *e)
{
	struct json_walk w = json_walk_start(rules);
	auto_free struct known *list = NULL;
	struct check c = {.e = e};
	const struct json *rule;

	while ((rule = json_walk_next(&w, NULL)))
		VEC_PUSH(list, c.n) = (struct known){json_string(json_get(rule, "v")), rule};
	qsort(list, c.n, sizeof(*list), by_path);
	c.v = list;
	return check_object(&c, values, "");
}
