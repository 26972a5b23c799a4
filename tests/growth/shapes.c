/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "growth.h"

enum { SHUFFLE = 40503, SHUFFLE_MOD = 65536 };

/* --- places in a schema --- */

static bool is_type(const struct json *schema, const char *type)
{
	const char *s = json_string(json_get(schema, "type"));

	return s && strcmp(s, type) == 0;
}

static void add(struct shapes *l, const char *path, int what)
{
	struct shape *s = &VEC_PUSH(l->v, l->n);

	snprintf(s->path, sizeof(s->path), "%s", path);
	s->what = what;
}

static void walk(const struct json *schema, const char *path, struct shapes *ret)
{
	const struct json *more = json_get(schema, "additionalProperties");
	struct json_walk w = json_walk_start(json_get(schema, "properties"));
	const struct json *v;
	const char *key;

	if (*path && (json_kind(more) == JSON_OBJECT ||
		      json_bool(json_get(schema, "x-kubernetes-preserve-unknown-fields"))))
		add(ret, path, SHAPE_MAP);
	while ((v = json_walk_next(&w, &key))) {
		auto_free char *at = xasprintf("%s%s%s", path, *path ? "." : "", key);

		if (strcmp(at, "apiVersion") != 0 && strcmp(at, "kind") != 0)
			walk(v, at, ret);
	}
	if (is_type(schema, "array")) {
		auto_free char *at = xasprintf("%s.[]", path);

		add(ret, path, SHAPE_LIST);
		if (!is_type(json_get(schema, "items"), "string"))
			walk(json_get(schema, "items"), at, ret);
	}
	if (is_type(schema, "string") && !json_get(schema, "enum"))
		add(ret, path, SHAPE_TEXT);
}

void shapes_of(const struct json *schema, struct shapes *ret)
{
	*ret = (struct shapes){0};
	walk(schema, "", ret);
}

/* --- entries --- */

enum { UP, DOWN, MIXED, TEXTS, MIXED_TEXTS, SAME, NETS, SIXES };

const char *shape_variant(const struct shape *s, int variant)
{
	static const char *const entries[VARIANTS] = {"addresses ascending",
						      "addresses descending",
						      "addresses shuffled",
						      "words",
						      "words shuffled",
						      "one word",
						      "networks",
						      "IPv6 shuffled"};
	static const char *const texts[VARIANTS] = {"letters",	     "words and commas",
						    "a flat object", "a list of objects",
						    "records",	     "plugins",
						    "blanks",	     "nested lists"};

	return s->what == SHAPE_TEXT ? texts[variant] : entries[variant];
}

static bool is_one_of(const char *word, const char *const *list)
{
	for (; *list; list++)
		if (strcmp(*list, word) == 0)
			return true;
	return false;
}

static void text_of(const char *name, int variant, size_t i, char ret[static 64])
{
	static const char *const nets[] = {"dst",     "to",	     "hijackCIDR",
					   "podCIDR", "serviceCIDR", "overlayPodCIDR",
					   "address", "range",	     "exclude",
					   NULL};
	static const char *const gateways[] = {"gw", "via", NULL};
	static const char *const texts[] = {"key", "name", "pod", "node", NULL};
	size_t mixed = (i * SHUFFLE) % SHUFFLE_MOD;
	size_t at = 256 + 2 * (variant == DOWN ? SHUFFLE_MOD - i : variant == MIXED ? mixed : i);
	const char *end = is_one_of(name, nets) || variant == NETS ? "/32" : "";

	if (is_one_of(name, gateways))
		snprintf(ret, 64, "10.0.0.9");
	else if (is_one_of(name, texts) || variant == TEXTS)
		snprintf(ret, 64, "w%06zu", i);
	else if (variant == MIXED_TEXTS)
		snprintf(ret, 64, "w%06zu", mixed);
	else if (variant == SAME)
		snprintf(ret, 64, "10.0.1.1%s", end);
	else if (strcmp(name, "subnet") == 0)
		snprintf(ret, 64, "10.%zu.%zu.0/24", at >> 8, at & 255);
	else if (variant == SIXES)
		snprintf(ret, 64, "fd00::%zx", mixed * 2);
	else
		snprintf(ret, 64, "10.%zu.%zu.%zu%s", at >> 16, at >> 8 & 255, at & 255, end);
}

static struct json_tree *entry(const struct json *schema, const char *name, int variant, size_t i);

static struct json_tree *scalar(const char *text)
{
	struct json_tree *t = json_tree_new(JSON_STRING);

	json_tree_set_text(t, text);
	return t;
}

static struct json_tree *of_number(int64_t n)
{
	struct json_tree *o = json_tree_new(JSON_OBJECT), *v;

	json_tree_put_int(o, "n", n);
	v = json_tree_take(o, "n");
	json_tree_free(o);
	return v;
}

static struct json_tree *object_entry(const struct json *schema, int variant, size_t i)
{
	struct json_walk w = json_walk_start(json_get(schema, "properties"));
	struct json_tree *t = json_tree_new(JSON_OBJECT);
	const struct json *v;
	const char *key;

	while ((v = json_walk_next(&w, &key)))
		json_tree_put(t, key, entry(v, key, variant, i));
	if (json_kind(json_get(schema, "additionalProperties")) == JSON_OBJECT) {
		char word[64];

		text_of("key", variant, i, word);
		json_tree_put(t, word,
			      entry(json_get(schema, "additionalProperties"), "", variant, i));
	}
	return t;
}

static struct json_tree *entry(const struct json *schema, const char *name, int variant, size_t i)
{
	const struct json *texts = json_get(schema, "enum");
	struct json_tree *t;
	char text[64];

	if (json_kind(texts) == JSON_ARRAY && json_string(json_at(texts, 0)))
		return scalar(json_string(json_at(texts, 0)));
	if (is_type(schema, "object"))
		return object_entry(schema, variant, i);
	if (is_type(schema, "array")) {
		t = json_tree_new(JSON_ARRAY);
		json_tree_push(t, entry(json_get(schema, "items"), name, variant, i));
		return t;
	}
	if (is_type(schema, "integer") || is_type(schema, "number"))
		return of_number((int64_t)(i % 4000) + 1);
	if (is_type(schema, "boolean"))
		return json_tree_new(JSON_BOOL);
	if (strcmp(name, "operator") == 0)
		return scalar("In");
	text_of(name, variant, i, text);
	return scalar(text);
}

/* --- long texts --- */

static void put_text(struct buf *b, size_t n, int variant)
{
	static const char *const begin[VARIANTS] = {
		"",
		"",
		"{\"type\":\"x\"",
		"[{\"name\":\"n\"}",
		"{\"10.0.0.1\":{\"pod\":\"n/p\"}",
		"{\"name\":\"n\",\"type\":\"x\",\"plugins\":[{\"type\":\"x\"}",
		"",
		"[[]"};
	static const char *const end[VARIANTS] = {"", "", "}", "]", "}", "]}", "", "]"};
	static const char *const each[VARIANTS] = {
		"a",
		",w%zu",
		",\"k%zu\":\"v\"",
		",{\"name\":\"n%zu\",\"namespace\":\"s\",\"interface\":\"n%zu\",\"ips\":[\"10.0.0.1\"],\"ipv4\":[\"p\"],"
		"\"dst\":\"fd00::%zu/128\",\"gw\":\"fd00::1\"}",
		",\"10.%zu.0.1\":{\"pod\":\"n/p\",\"podUid\":\"u\",\"ips\":[\"10.0.0.1\"]}",
		",{\"type\":\"t%zu\"}",
		" ",
		",[1]"};

	buf_str(b, begin[variant]);
	for (size_t i = 0; i < n; i++) {
		const char *rest = each[variant], *at;

		if (variant == 4) {
			at = strstr(rest, "%zu");
			buf_printf(b, ",\"10.%zu.%zu.1\"%s", i >> 8, i & 255, at + 8);
			continue;
		}
		for (; (at = strstr(rest, "%zu")); rest = at + 3)
			buf_printf(b, "%.*s%zu", (int)(at - rest), rest, i);
		buf_str(b, rest);
	}
	buf_str(b, end[variant]);
}

/* Builds the map as text: adding members to a tree one by one costs the square of their number. */
static struct json_tree *grown_map(const struct json *schema, size_t n, int variant)
{
	const struct json *of = json_get(schema, "additionalProperties");
	auto_json struct json_doc *doc = NULL;
	const char *prefix = json_string(json_get(schema, "x-prefix")); /* of keys */
	auto_buf struct buf text;
	struct json_out o;
	char key[128], word[64];

	buf_init(&text, 16 << 20);
	jo_init(&o, &text, 0);
	jo_obj(&o);
	for (size_t i = 0; i < n; i++) {
		auto_tree struct json_tree *v = entry(of, "", variant, i);
		size_t at = variant == DOWN ? n - i : variant == MIXED ? i * 7919 % n : i;

		text_of("key", variant, at, word);
		snprintf(key, sizeof(key), "%s%s", prefix ? prefix : "", word);
		jo_key(&o, key);
		json_tree_write(v, &o);
	}
	jo_end_obj(&o);
	if (json_parse(&doc, buf_span(&text), 16 << 20, NULL) < 0)
		abort();
	return json_tree_of(json_root(doc));
}

static struct json_tree *grown(const struct json *schema, const char *name, const struct shape *s,
			       size_t n, int variant)
{
	auto_buf struct buf text = {0};
	struct json_tree *t;

	if (s->what == SHAPE_TEXT) {
		buf_init(&text, 16 << 20);
		put_text(&text, n, variant);
		return scalar(text.p ? text.p : "");
	}
	if (s->what == SHAPE_MAP)
		return grown_map(schema, n, variant);
	t = json_tree_new(JSON_ARRAY);
	for (size_t i = 0; i < n; i++)
		json_tree_push(t, entry(json_get(schema, "items"), name, variant, i));
	return t;
}

/* --- the place in an object --- */

static void grow_at(struct json_tree *t, const struct json *schema, struct span rest,
		    const struct shape *s, size_t n, int variant)
{
	struct span part;
	auto_free char *key = NULL;
	struct json_tree *child;
	const struct json *of;

	span_cut(&rest, '.', &part);
	if (span_eq(part, "[]")) {
		of = json_get(schema, "items");
		if (rest.n == 0) { /* a list of lists */
			json_tree_push(t, grown(of, "", s, n, variant));
			return;
		}
		if (!json_tree_first(t))
			json_tree_push(t, entry(of, "", variant, 0));
		grow_at(json_tree_first(t), of, rest, s, n, variant);
		return;
	}
	key = span_dup(part);
	of = json_get(json_get(schema, "properties"), key);
	/* An annotation's key may have a dot in it. */
	while (!of && rest.n > 0) {
		char *longer;

		span_cut(&rest, '.', &part);
		longer = xasprintf("%s.%.*s", key, (int)part.n, part.p);
		free(key);
		key = longer;
		of = json_get(json_get(schema, "properties"), key);
	}
	if (rest.n == 0) {
		json_tree_put(t, key, grown(of, key, s, n, variant));
		return;
	}
	child = json_tree_member(t, key);
	if (json_tree_kind(child) == JSON_NULL) {
		json_tree_put(t, key,
			      json_tree_new(is_type(of, "array") ? JSON_ARRAY : JSON_OBJECT));
		child = json_tree_member(t, key);
	}
	grow_at(child, of, rest, s, n, variant);
}

void shape_grow(struct json_tree *object, const struct json *schema, const struct shape *s,
		size_t n, int variant)
{
	grow_at(object, schema, span_of(s->path), s, n, variant);
}
