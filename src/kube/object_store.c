/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/object_store.h"

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/num.h"
#include "base/sorted.h"

static const char *meta(const struct json *object, const char *key)
{
	return json_string(json_get(json_get(object, "metadata"), key));
}

static const char *place(char **at, const char *s)
{
	size_t n = strlen(s) + 1;
	char *to = *at;

	memcpy(to, s, n);
	*at += n;
	return to;
}

struct kube_object *kube_object_new(const struct json *object, size_t size)
{
	const char *name = meta(object, "name"), *version = meta(object, "resourceVersion");
	const char *ns = meta(object, "namespace"), *uid = meta(object, "uid");
	size_t head = sizeof(struct kube_object), text;
	struct kube_object *o;
	char *at;

	if (!name || !*name || !version)
		return NULL;
	ns = ns ? ns : "";
	uid = uid ? uid : "";
	size = (size + alignof(max_align_t) - 1) / alignof(max_align_t) * alignof(max_align_t);
	text = strlen(ns) + strlen(name) + strlen(uid) + strlen(version) + 4;
	o = xcalloc(1, head + size + text);
	o->value = o + 1;
	at = (char *)o->value + size;
	o->ns = place(&at, ns);
	o->name = place(&at, name);
	o->uid = place(&at, uid);
	o->version = place(&at, version);
	return o;
}

static int compare(const struct kube_object *o, const char *ns, const char *name)
{
	int r = strcmp(o->ns, ns);

	return r ? r : strcmp(o->name, name);
}

bool kube_store_find(const struct kube_store *s, const char *ns, const char *name, size_t *ret)
{
	*ret = LOWER_BOUND(i, s->n, compare(s->v[i], ns, name) < 0);
	return *ret < s->n && compare(s->v[*ret], ns, name) == 0;
}

struct kube_object *kube_store_get(const struct kube_store *s, const char *ns, const char *name)
{
	size_t i;

	return kube_store_find(s, ns, name, &i) ? s->v[i] : NULL;
}

static void grow(struct kube_store *s)
{
	if (s->n < s->cap)
		return;
	s->cap = s->cap ? s->cap + s->cap / 2 : 16;
	s->v = xrealloc(s->v, s->cap * sizeof(*s->v));
}

struct kube_object *kube_store_put(struct kube_store *s, struct kube_object *o)
{
	struct kube_object *old;
	size_t i;

	if (kube_store_find(s, o->ns, o->name, &i)) {
		old = s->v[i];
		s->v[i] = o;
		return old;
	}
	grow(s);
	/* The server lists in this order, so an insertion mostly appends. */
	memmove(&s->v[i + 1], &s->v[i], (s->n - i) * sizeof(*s->v));
	s->v[i] = o;
	s->n++;
	return NULL;
}

struct kube_object *kube_store_take(struct kube_store *s, size_t i)
{
	struct kube_object *o = s->v[i];

	s->n--;
	memmove(&s->v[i], &s->v[i + 1], (s->n - i) * sizeof(*s->v));
	return o;
}

bool kube_version_older(const char *version, const char *than)
{
	uint64_t a, b;

	return version && num_u64(span_of(version), 0, UINT64_MAX, &a) == 0 &&
	       num_u64(span_of(than), 0, UINT64_MAX, &b) == 0 && a < b;
}
