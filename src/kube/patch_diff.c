/* SPDX-License-Identifier: Apache-2.0 */
/* The patch between two values. */
#include <string.h>

#include "kube/patch.h"

enum { DEPTH_MAX = 32 };

struct diff {
	struct kube_patch *p;
	const char *parts[DEPTH_MAX];
	size_t n;
	bool any;
};

static void text_of(const struct json *v, struct buf *ret)
{
	struct json_out o;

	buf_init(ret, SIZE_MAX);
	jo_init(&o, ret, 0);
	jo_val(&o, v, false);
}

static bool same(const struct json *a, const struct json *b)
{
	auto_buf struct buf x, y;

	text_of(a, &x);
	text_of(b, &y);
	return x.len == y.len && memcmp(x.p, y.p, x.len) == 0;
}

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

	if (same(was, is))
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
