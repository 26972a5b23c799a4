/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/patch.h"

#include <assert.h>
#include <stdarg.h>
#include <string.h>

#include "kube/client.h"

enum { POINTER_MAX = 4096, PARTS_MAX = 32 };

void kube_patch_init(struct kube_patch *p)
{
	*p = (struct kube_patch){0};
	buf_init(&p->b, KUBE_BODY_MAX);
	jo_init(&p->o, &p->b, 0);
	jo_arr(&p->o);
}

void kube_patch_done(struct kube_patch *p)
{
	buf_done(&p->b);
}

/* Appends one part of a JSON Pointer (RFC 6901). */
static void add_part(struct buf *b, const char *part)
{
	buf_char(b, '/');
	for (; *part; part++)
		if (*part == '~')
			buf_str(b, "~0");
		else if (*part == '/')
			buf_str(b, "~1");
		else
			buf_char(b, *part);
}

static void close_value(struct kube_patch *p)
{
	if (p->open)
		jo_end_obj(&p->o);
	p->open = false;
}

static struct json_out *kube_patch_add_at(struct kube_patch *p, const char *op,
					  const char *const *parts, size_t n)
{
	auto_buf struct buf path;

	close_value(p);
	buf_init(&path, POINTER_MAX);
	for (size_t i = 0; i < n; i++)
		add_part(&path, parts[i]);
	jo_obj(&p->o);
	jo_kstr(&p->o, "op", op);
	jo_kstr(&p->o, "path", path.p ? path.p : "");
	if (strcmp(op, "remove"))
		jo_key(&p->o, "value");
	p->open = true;
	return &p->o;
}

struct json_out *kube_patch_add(struct kube_patch *p, const char *op, ...)
{
	const char *parts[PARTS_MAX], *part;
	size_t n = 0;
	va_list ap;

	va_start(ap, op);
	while ((part = va_arg(ap, const char *))) {
		assert(n < PARTS_MAX);
		parts[n++] = part;
	}
	va_end(ap);
	return kube_patch_add_at(p, op, parts, n);
}

struct span kube_patch_end(struct kube_patch *p)
{
	close_value(p);
	jo_end_arr(&p->o);
	return buf_span(&p->b);
}

/* --- the patch between two values --- */

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

/* Writes the operations for the members of `is` first, then those that remove members. */
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
