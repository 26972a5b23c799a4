/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_TESTS_PATCH_APPLY_H
#define UNIRAIL_TESTS_PATCH_APPLY_H

/*
 * Applies a JSON patch to an object as the API server does: for the unit test and the fuzzer of the
 * defaults that a webhook adds, and for a fake API server. Supports what kube_patch_diff() and
 * block_request() write: add, replace, remove and test of members of objects. An operation on the
 * whole object (an empty path) has no effect.
 */

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "wire/json/tree.h"

/* Decodes ~0 and ~1 in a part of a JSON pointer (RFC 6901). The caller frees. */
static inline char *patch_unescape(struct span part)
{
	char *text = span_dup(part), *to = text;

	for (const char *p = text; *p; p++) {
		if (*p == '~' && p[1])
			*to++ = *++p == '1' ? '/' : '~';
		else
			*to++ = *p;
	}
	*to = '\0';
	return text;
}

/* Applies one operation; returns false if the API server would reject the patch. */
static inline bool patch_apply_one(struct json_tree *root, const struct json *op)
{
	struct span rest = span_of(json_string(json_get(op, "path"))), part;
	const char *what = json_string(json_get(op, "op"));
	struct json_tree *at = root;

	if (!what || !span_cut(&rest, '/', &part) || part.n != 0)
		return false;
	while (span_cut(&rest, '/', &part)) {
		auto_free char *key = patch_unescape(part);

		if (json_tree_kind(at) != JSON_OBJECT)
			return false;
		if (rest.p) {
			at = json_tree_member(at, key);
			continue;
		}
		if (strcmp(what, "add") != 0 && !json_tree_member(at, key))
			return false;
		if (strcmp(what, "test") == 0)
			return json_tree_same(json_tree_member(at, key), json_get(op, "value"));
		if (strcmp(what, "remove") == 0)
			json_tree_drop(at, key);
		else
			json_tree_put(at, key, json_tree_of(json_get(op, "value")));
	}
	return true;
}

/* Returns the patched object, which the caller frees; NULL: the patch cannot be applied. An empty
 * patch changes nothing. */
static inline struct json_doc *patch_apply(const struct json *object, struct span patch, size_t max)
{
	auto_tree struct json_tree *t = json_tree_of(object);
	auto_json struct json_doc *ops = NULL;
	struct json_doc *ret = NULL;
	const struct json *op;
	struct json_walk w;
	auto_buf struct buf b;
	struct json_out o;

	buf_init(&b, max);
	if (patch.n > 0 && json_parse(&ops, patch, max, NULL) < 0)
		return NULL;
	w = json_walk_start(ops ? json_root(ops) : NULL);
	while ((op = json_walk_next(&w, NULL)))
		if (!patch_apply_one(t, op))
			return NULL;
	jo_init(&o, &b, 0);
	json_tree_write(t, &o);
	if (b.over || json_parse(&ret, buf_span(&b), max, NULL) < 0)
		return NULL;
	return ret;
}

#endif
