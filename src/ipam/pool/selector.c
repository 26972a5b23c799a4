/* SPDX-License-Identifier: Apache-2.0 */
#include "ipam/pool/selector.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/option.h"
#include "wire/json/json.h"

enum { LABEL_MAX = 63, PREFIX_MAX = 253, PLACE_MAX = 400 };

static const char *const ops[] = {
	[SELECTOR_IN] = "In",
	[SELECTOR_NOT_IN] = "NotIn",
	[SELECTOR_EXISTS] = "Exists",
	[SELECTOR_ABSENT] = "DoesNotExist",
};

static bool is_alnum(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* Returns whether the string has 1 to LABEL_MAX letters, digits, '-', '_' and '.', with a letter
 * or digit at both ends. */
static bool is_label_word(struct span s)
{
	if (s.n == 0 || s.n > LABEL_MAX || !is_alnum(s.p[0]) || !is_alnum(s.p[s.n - 1]))
		return false;
	for (size_t i = 0; i < s.n; i++)
		if (!is_alnum(s.p[i]) && !memchr("-_.", s.p[i], 3))
			return false;
	return true;
}

static bool is_dns_part(struct span s)
{
	for (size_t i = 0; i < s.n; i++)
		if ((s.p[i] >= 'A' && s.p[i] <= 'Z') || (!is_alnum(s.p[i]) && s.p[i] != '-'))
			return false;
	return s.n > 0 && s.p[0] != '-' && s.p[s.n - 1] != '-';
}

static bool is_label_key(const char *key)
{
	struct span rest = span_of(key), prefix, part;

	if (!strchr(key, '/'))
		return is_label_word(rest);
	span_cut(&rest, '/', &prefix);
	if (prefix.n > PREFIX_MAX || !is_label_word(rest))
		return false;
	while (span_cut(&prefix, '.', &part))
		if (!is_dns_part(part))
			return false;
	return true;
}

static int check_key(const char *key, const char *place, struct err *e)
{
	if (is_label_key(key))
		return 0;
	return err_kind(e, ERR_CONF, -EINVAL, "%s: '%.100s' is not a label key", place, key);
}

bool selector_is_label_value(const char *value)
{
	return !*value || is_label_word(span_of(value));
}

static int check_value(const char *value, const char *place, struct err *e)
{
	if (selector_is_label_value(value))
		return 0;
	return err_kind(e, ERR_CONF, -EINVAL,
			"%s: '%.100s' is not a label value (at most %d letters, digits, '-', "
			"'_', '.', with a letter or digit at both ends)",
			place, value, LABEL_MAX);
}

static int read_labels(const struct json *v, const char *place, struct selector *s, struct err *e)
{
	struct labels l = {0};
	int r = labels_read(v, place, NULL, &l, e);

	for (size_t i = 0; i < l.n && r == 0; i++) {
		struct selector_term *t;

		r = check_key(l.v[i].key, place, e);
		if (r == 0)
			r = check_value(l.v[i].value, place, e);
		if (r < 0)
			break;
		t = &VEC_PUSH(s->v, s->n);
		t->op = SELECTOR_IN;
		t->key = xstrdup(l.v[i].key);
		VEC_PUSH(t->values, t->n_values) = xstrdup(l.v[i].value);
	}
	labels_done(&l);
	return r;
}

static int read_op(const struct json *v, const char *place, enum selector_op *ret, struct err *e)
{
	const char *text = json_string(v), *near;

	for (size_t i = 0; text && i < ARRAY_LEN(ops); i++)
		if (strcmp(text, ops[i]) == 0) {
			*ret = (enum selector_op)i;
			return 0;
		}
	near = text ? opt_suggest(text, ops, ARRAY_LEN(ops)) : NULL;
	if (near)
		return err_kind(e, ERR_CONF, -EINVAL,
				"%s.operator '%.60s' is not known; did you mean '%s'?", place, text,
				near);
	return err_kind(e, ERR_CONF, -EINVAL,
			"%s.operator '%.60s' is not In, NotIn, Exists or DoesNotExist", place,
			text ? text : "");
}

static int read_values(const struct json *v, const char *place, struct selector_term *t,
		       struct err *e)
{
	bool wants = t->op == SELECTOR_IN || t->op == SELECTOR_NOT_IN;
	struct json_walk w = json_walk_start(v);
	const struct json *x;
	int r = 0;

	if (json_kind(v) != JSON_NULL && json_kind(v) != JSON_ARRAY)
		return err_kind(e, ERR_CONF, -EINVAL, "%s.values is %s, expected a list of strings",
				place, json_kind_name(v));
	if (wants != (json_len(v) > 0))
		return err_kind(e, ERR_CONF, -EINVAL, "%s: %s requires %s", place, ops[t->op],
				wants ? "values" : "no values");
	while (r == 0 && (x = json_walk_next(&w, NULL))) {
		if (!json_string(x))
			return err_kind(e, ERR_CONF, -EINVAL, "%s.values has %s, expected strings",
					place, json_kind_name(x));
		r = check_value(json_string(x), place, e);
		if (r == 0)
			VEC_PUSH(t->values, t->n_values) = xstrdup(json_string(x));
	}
	return r;
}

static int read_expression(const struct json *v, const char *place, struct selector *s,
			   struct err *e)
{
	const char *key = json_string(json_get(v, "key"));
	struct selector_term *t;
	enum selector_op op = SELECTOR_IN;
	int r;

	if (!key)
		return err_kind(e, ERR_CONF, -EINVAL, "%s.key is %s, expected a string", place,
				json_kind_name(json_get(v, "key")));
	r = check_key(key, place, e);
	if (r == 0)
		r = read_op(json_get(v, "operator"), place, &op, e);
	if (r < 0)
		return r;
	t = &VEC_PUSH(s->v, s->n);
	t->op = op;
	t->key = xstrdup(key);
	return read_values(json_get(v, "values"), place, t, e);
}

static int read_all(const struct json *v, const char *place, struct selector *s, struct err *e)
{
	const struct json *list = json_get(v, "matchExpressions"), *x;
	struct json_walk w = json_walk_start(list);
	auto_buf struct buf at;
	int r;

	buf_init(&at, PLACE_MAX);
	buf_printf(&at, "%s.matchLabels", place);
	r = read_labels(json_get(v, "matchLabels"), at.p, s, e);
	if (r < 0) {
		if (e)
			e->kind = ERR_CONF;
		return r;
	}
	if (json_kind(list) != JSON_NULL && json_kind(list) != JSON_ARRAY)
		return err_kind(e, ERR_CONF, -EINVAL, "%s.matchExpressions is %s, expected a list",
				place, json_kind_name(list));
	for (size_t i = 0; r == 0 && (x = json_walk_next(&w, NULL)); i++) {
		buf_reset(&at);
		buf_printf(&at, "%s.matchExpressions[%zu]", place, i);
		r = read_expression(x, at.p, s, e);
	}
	return r;
}

int selector_read(const struct json *v, const char *place, struct selector *ret, struct err *e)
{
	struct selector s = {.given = json_kind(v) != JSON_NULL};
	int r;

	if (s.given && json_kind(v) != JSON_OBJECT)
		return err_kind(e, ERR_CONF, -EINVAL, "%s is %s, expected a label selector", place,
				json_kind_name(v));
	r = read_all(v, place, &s, e);
	if (r < 0) {
		selector_done(&s);
		return r;
	}
	*ret = s;
	return 0;
}

void selector_done(struct selector *s)
{
	for (size_t i = 0; i < s->n; i++) {
		free(s->v[i].key);
		str_list_free(s->v[i].values, s->v[i].n_values);
	}
	free(s->v);
	*s = (struct selector){0};
}

static bool term_matches(const struct selector_term *t, const char *value)
{
	bool among = false;

	for (size_t i = 0; value && i < t->n_values; i++)
		among |= strcmp(t->values[i], value) == 0;
	switch (t->op) {
	case SELECTOR_IN: return among;
	case SELECTOR_NOT_IN: return !among;
	case SELECTOR_EXISTS: return value != NULL;
	case SELECTOR_ABSENT: return value == NULL;
	}
	return false;
}

bool selector_matches(const struct selector *s, const struct labels *l)
{
	for (size_t i = 0; i < s->n; i++)
		if (!term_matches(&s->v[i], labels_get(l, s->v[i].key)))
			return false;
	return true;
}

static void term_str(const struct selector_term *t, struct buf *b)
{
	if (t->op == SELECTOR_IN && t->n_values == 1) {
		buf_printf(b, "%s=%s", t->key, t->values[0]);
		return;
	}
	buf_printf(b, "%s%s", t->op == SELECTOR_ABSENT ? "!" : "", t->key);
	if (t->n_values == 0)
		return;
	buf_str(b, t->op == SELECTOR_IN ? " in (" : " notin (");
	for (size_t i = 0; i < t->n_values; i++)
		buf_printf(b, "%s%s", i ? "," : "", t->values[i]);
	buf_char(b, ')');
}

void selector_str(const struct selector *s, struct buf *b)
{
	for (size_t i = 0; i < s->n; i++) {
		buf_str(b, i ? "," : "");
		term_str(&s->v[i], b);
	}
}
