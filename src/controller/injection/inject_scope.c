/* SPDX-License-Identifier: Apache-2.0 */
/* Namespaces whose pods are looked at. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "controller/injection/inject_priv.h"

static bool is_prefix(struct span word)
{
	return word.p[word.n - 1] == '*';
}

static bool matches(struct span word, const char *ns)
{
	if (is_prefix(word))
		return !strncmp(ns, word.p, word.n - 1);
	return span_eq(word, ns);
}

static bool any_matches(const char *list, const char *ns)
{
	struct span rest = span_of(list), word;

	while (inject_next_value(&rest, &word))
		if (matches(word, ns))
			return true;
	return false;
}

bool inject_in_scope(const struct inject_scope *s, const char *ns)
{
	struct span rest = span_of(s->include), word;

	if (any_matches(s->exclude, ns))
		return false;
	return !inject_next_value(&rest, &word) || any_matches(s->include, ns);
}

/* How many names a list has; -1: there is a prefix among them, which no selector can say. */
static int names_in(const char *list)
{
	struct span rest = span_of(list), word;
	int n = 0;

	while (inject_next_value(&rest, &word)) {
		if (is_prefix(word))
			return -1;
		n++;
	}
	return n;
}

static void put_term(struct json_out *o, const char *op, const char *list)
{
	struct span rest = span_of(list), word;

	jo_obj(o);
	jo_kstr(o, "key", "kubernetes.io/metadata.name");
	jo_kstr(o, "operator", op);
	jo_key(o, "values");
	jo_arr(o);
	while (inject_next_value(&rest, &word)) {
		auto_free char *name = is_prefix(word) ? NULL : span_dup(word);

		if (name)
			jo_str(o, name);
	}
	jo_end_arr(o);
	jo_end_obj(o);
}

static bool has_names(const char *list)
{
	struct span rest = span_of(list), word;

	while (inject_next_value(&rest, &word))
		if (!is_prefix(word))
			return true;
	return false;
}

void inject_scope_write(const struct inject_scope *s, struct json_out *o)
{
	jo_obj(o);
	jo_key(o, "matchExpressions");
	jo_arr(o);
	if (has_names(s->exclude))
		put_term(o, "NotIn", s->exclude);
	if (names_in(s->include) > 0)
		put_term(o, "In", s->include);
	jo_end_arr(o);
	jo_end_obj(o);
}
