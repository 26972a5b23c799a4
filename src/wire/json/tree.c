/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/json/tree.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/num.h"
#include "wire/json/internal.h"

enum { NUMBER_MAX = 1 << 16 };

struct json_tree {
	enum json_kind kind;
	bool on; /* JSON_BOOL */
	char *key;
	/* text of a JSON_STRING or JSON_NUMBER; NULL: another kind, or the text is in `from` */
	char *text;
	struct json_tree *first, *last, *next;
	/* document value of a folded node, whose children are not created yet; NULL: unfolded */
	const struct json *from;
};

struct json_tree *json_tree_new(enum json_kind kind)
{
	struct json_tree *t = xcalloc(1, sizeof(*t));

	t->kind = kind;
	return t;
}

static void append(struct json_tree *t, struct json_tree *v)
{
	if (t->last)
		t->last->next = v;
	else
		t->first = v;
	t->last = v;
}

static char *number_text(const struct json *v)
{
	struct json_out o;
	struct buf b;

	buf_init(&b, NUMBER_MAX);
	jo_init(&o, &b, 0);
	jo_val(&o, v, false);
	return buf_take(&b);
}

/* The recursion is bounded by the depth of the document. */
struct json_tree *json_tree_of(const struct json *v)
{
	struct json_tree *t = json_tree_new(json_kind(v));
	struct json_walk w = json_walk_start(v);
	const struct json *x;
	const char *key;

	t->on = json_bool(v);
	if (t->kind == JSON_STRING)
		t->text = xstrdup(json_string(v));
	else if (t->kind == JSON_NUMBER)
		t->text = number_text(v);
	while ((x = json_walk_next(&w, &key))) {
		struct json_tree *child = json_tree_of(x);

		child->key = key ? xstrdup(key) : NULL;
		append(t, child);
	}
	return t;
}

struct json_tree *json_tree_over(const struct json *v)
{
	struct json_tree *t = json_tree_new(json_kind(v));

	t->on = json_bool(v);
	t->from = v;
	return t;
}

/* Creates the members or items of an accessed container, as folded nodes. */
static void unfold(struct json_tree *t)
{
	struct json_walk w = json_walk_start(t->from);
	const struct json *x;
	const char *key;

	if (!t->from || (t->kind != JSON_OBJECT && t->kind != JSON_ARRAY))
		return;
	t->from = NULL;
	while ((x = json_walk_next(&w, &key))) {
		struct json_tree *child = json_tree_over(x);

		child->key = key ? xstrdup(key) : NULL;
		append(t, child);
	}
}

static void empty(struct json_tree *t)
{
	struct json_tree *next;

	for (struct json_tree *c = t->first; c; c = next) {
		next = c->next;
		json_tree_free(c);
	}
	free(t->text);
	t->first = t->last = NULL;
	t->text = NULL;
	t->from = NULL;
}

void json_tree_free(struct json_tree *t)
{
	if (!t)
		return;
	empty(t);
	free(t->key);
	free(t);
}

void json_tree_cleanup(struct json_tree **t)
{
	json_tree_free(*t);
}

enum json_kind json_tree_kind(const struct json_tree *t)
{
	return t ? t->kind : JSON_NULL;
}

const char *json_tree_text(const struct json_tree *t)
{
	if (!t || t->kind != JSON_STRING)
		return NULL;
	return t->text ? t->text : json_string(t->from);
}

bool json_tree_true(const struct json_tree *t)
{
	return t && t->kind == JSON_BOOL && t->on;
}

int json_tree_int(const struct json_tree *t, int64_t *ret)
{
	auto_free char *written = NULL;

	if (json_tree_kind(t) != JSON_NUMBER)
		return -EINVAL;
	if (t->text)
		return num_i64(span_of(t->text), INT64_MIN, INT64_MAX, ret);
	written = number_text(t->from);
	return num_i64(span_of(written), INT64_MIN, INT64_MAX, ret);
}

bool json_tree_same(const struct json_tree *t, const struct json *v)
{
	auto_json struct json_doc *doc = NULL;
	auto_buf struct buf text;
	struct json_out o;

	buf_init(&text, SIZE_MAX);
	jo_init(&o, &text, 0);
	json_tree_write(t, &o);
	return json_parse(&doc, buf_span(&text), SIZE_MAX, NULL) == 0 &&
	       json_same(json_root(doc), v);
}

struct json_tree *json_tree_member(const struct json_tree *t, const char *key)
{
	struct json_tree *found = NULL;

	if (json_tree_kind(t) != JSON_OBJECT)
		return NULL;
	unfold((struct json_tree *)t); /* unfolding does not change the value */
	for (struct json_tree *c = t->first; c; c = c->next)
		if (strcmp(c->key, key) == 0)
			found = c;
	return found;
}

struct json_tree *json_tree_member_object(struct json_tree *t, const char *key)
{
	struct json_tree *c = json_tree_member(t, key);

	if (json_tree_kind(t) == JSON_OBJECT && json_tree_kind(c) == JSON_NULL) {
		json_tree_put(t, key, json_tree_new(JSON_OBJECT));
		c = json_tree_member(t, key);
	}
	return json_tree_kind(c) == JSON_OBJECT ? c : NULL;
}

struct json_tree *json_tree_take(struct json_tree *t, const char *key)
{
	struct json_tree *c = json_tree_member(t, key), *before = NULL;

	if (!c)
		return NULL;
	for (struct json_tree *x = t->first; x != c; x = x->next)
		before = x;
	*(before ? &before->next : &t->first) = c->next;
	if (t->last == c)
		t->last = before;
	c->next = NULL;
	return c;
}

void json_tree_drop(struct json_tree *t, const char *key)
{
	struct json_tree *c;

	while ((c = json_tree_take(t, key)))
		json_tree_free(c);
}

/* Replaces an existing member in place, otherwise appends. */
void json_tree_put(struct json_tree *t, const char *key, struct json_tree *v)
{
	struct json_tree *c = json_tree_member(t, key), tmp;

	if (json_tree_kind(t) != JSON_OBJECT) {
		json_tree_free(v);
		return;
	}
	free(v->key);
	v->key = xstrdup(key);
	if (!c) {
		append(t, v);
		return;
	}
	tmp = *c;
	*c = *v;
	c->next = tmp.next;
	*v = tmp;
	v->next = NULL;
	json_tree_free(v);
}

void json_tree_put_text(struct json_tree *t, const char *key, const char *text)
{
	struct json_tree *v = json_tree_new(JSON_STRING);

	v->text = xstrdup(text);
	json_tree_put(t, key, v);
}

void json_tree_put_int(struct json_tree *t, const char *key, int64_t n)
{
	struct json_tree *v = json_tree_new(JSON_NUMBER);

	v->text = xasprintf("%" PRId64, n);
	json_tree_put(t, key, v);
}

void json_tree_put_bool(struct json_tree *t, const char *key, bool on)
{
	struct json_tree *v = json_tree_new(JSON_BOOL);

	v->on = on;
	json_tree_put(t, key, v);
}

struct json_tree *json_tree_first(const struct json_tree *t)
{
	if (json_tree_kind(t) != JSON_ARRAY && json_tree_kind(t) != JSON_OBJECT)
		return NULL;
	unfold((struct json_tree *)t);
	return t->first;
}

struct json_tree *json_tree_next(const struct json_tree *item)
{
	return item->next;
}

void json_tree_push(struct json_tree *t, struct json_tree *v)
{
	if (json_tree_kind(t) == JSON_ARRAY) {
		unfold(t);
		append(t, v);
	} else {
		json_tree_free(v);
	}
}

void json_tree_push_text(struct json_tree *t, const char *text)
{
	struct json_tree *v = json_tree_new(JSON_STRING);

	v->text = xstrdup(text);
	json_tree_push(t, v);
}

void json_tree_set_text(struct json_tree *t, const char *text)
{
	char *copy = xstrdup(text);

	empty(t);
	t->kind = JSON_STRING;
	t->text = copy;
}

static void write_scalar(const struct json_tree *t, struct json_out *o)
{
	switch (t->kind) {
	case JSON_BOOL: jo_bool(o, t->on); return;
	case JSON_STRING: jo_str(o, t->text); return;
	case JSON_NUMBER: jo_text(o, t->text); return;
	default: jo_null(o); return;
	}
}

void json_tree_write(const struct json_tree *t, struct json_out *o)
{
	bool is_object = json_tree_kind(t) == JSON_OBJECT;

	if (t && t->from) {
		jo_val(o, t->from, false);
		return;
	}
	if (!t || (!is_object && t->kind != JSON_ARRAY)) {
		if (t)
			write_scalar(t, o);
		else
			jo_null(o);
		return;
	}
	(is_object ? jo_obj : jo_arr)(o);
	for (const struct json_tree *c = t->first; c; c = c->next) {
		if (is_object)
			jo_key(o, c->key);
		json_tree_write(c, o);
	}
	(is_object ? jo_end_obj : jo_end_arr)(o);
}

struct json_tree *json_tree_member_array(struct json_tree *t, const char *key)
{
	if (json_tree_kind(json_tree_member(t, key)) != JSON_ARRAY)
		json_tree_put(t, key, json_tree_new(JSON_ARRAY));
	return json_tree_member(t, key);
}
