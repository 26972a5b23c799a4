/* SPDX-License-Identifier: Apache-2.0 */
/* The patch between two values. */
#include "kube/patch.h"

enum { DEPTH_MAX = 32 };

struct diff {
	struct kube_patch *p;
	const char *parts[DEPTH_MAX];
	size_t n;
	bool any;
};

static struct json_out *add(struct diff *d, const char *op)
{
	d->any = true;
	return kube_patch_add_at(d->p, op, d->parts, d->n);
}

static void differ(struct diff *d, const struct json *was, const struct json *is);

static void differ_member(struct diff *d, const char *key, const struct json *was,
			  const struct json *is)
{
	d->parts[d->n++] = key;
	if (!is)
		add(d, "remove");
	else if (!was)
		jo_val(add(d, "add"), is, false);
	else
		differ(d, was, is);
	d->n--;
}

/* What is, then what was and is not any more. */
static void differ_members(struct diff *d, const struct json *was, const struct json *is)
{
	auto_json_index struct json_index before = json_index_of(was), now = json_index_of(is);
	struct json_walk w = json_walk_start(is);
	const char *key;

	while (json_walk_next(&w, &key))
		differ_member(d, key, json_index_get(&before, key), json_index_get(&now, key));
	w = json_walk_start(was);
	while (json_walk_next(&w, &key))
		if (!json_index_get(&now, key))
			differ_member(d, key, json_index_get(&before, key), NULL);
}

static void differ(struct diff *d, const struct json *was, const struct json *is)
{
	if (json_same(was, is))
		return;
	if (json_kind(was) != JSON_OBJECT || json_kind(is) != JSON_OBJECT || d->n == DEPTH_MAX) {
		jo_val(add(d, "replace"), is, false);
		return;
	}
	differ_members(d, was, is);
}

bool kube_patch_diff(struct kube_patch *p, const struct json *was, const struct json *is)
{
	struct diff d = {.p = p};

	differ(&d, was, is);
	return d.any;
}
