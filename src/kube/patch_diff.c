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

static void differ(struct diff *d, const struct json *was, const struct json *is)
{
	struct json_walk w;
	const char *key;

	if (json_same(was, is))
		return;
	if (json_kind(was) != JSON_OBJECT || json_kind(is) != JSON_OBJECT || d->n == DEPTH_MAX) {
		jo_val(add(d, "replace"), is, false);
		return;
	}
	w = json_walk_start(is);
	while (json_walk_next(&w, &key))
		differ_member(d, key, json_get(was, key), json_get(is, key));
	w = json_walk_start(was);
	while (json_walk_next(&w, &key))
		if (!json_get(is, key))
			differ_member(d, key, json_get(was, key), NULL);
}

bool kube_patch_diff(struct kube_patch *p, const struct json *was, const struct json *is)
{
	struct diff d = {.p = p};

	differ(&d, was, is);
	return d.any;
}
