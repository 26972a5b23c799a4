/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/gc/records.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "wire/json/json.h"

enum { TEXT_MAX = 64 << 20 };

void records_add(struct records *r, const struct record *one)
{
	VEC_PUSH(r->v, r->n) = *one;
}

void records_done(struct records *r)
{
	free(r->v);
	*r = (struct records){0};
}

static int by_ip(const void *a, const void *b)
{
	return ip_cmp(&((const struct record *)a)->ip, &((const struct record *)b)->ip);
}

/* qsort() may change the order of equals. */
struct numbered {
	struct record r;
	size_t at;
};

static int by_ip_then_age(const void *a, const void *b)
{
	const struct numbered *x = a, *y = b;
	int r = by_ip(&x->r, &y->r);

	return r ? r : (x->at > y->at) - (x->at < y->at);
}

static bool is_sorted(const struct records *r)
{
	for (size_t i = 1; i < r->n; i++)
		if (by_ip(&r->v[i - 1], &r->v[i]) >= 0)
			return false;
	return true;
}

void records_sort(struct records *r)
{
	auto_free struct numbered *v = NULL;
	size_t n = 0;

	if (is_sorted(r))
		return;
	v = xcalloc(r->n, sizeof(*v));
	for (size_t i = 0; i < r->n; i++)
		v[i] = (struct numbered){r->v[i], i};
	qsort(v, r->n, sizeof(*v), by_ip_then_age);
	for (size_t i = 0; i < r->n; i++)
		if (n == 0 || !ip_eq(&r->v[n - 1].ip, &v[i].r.ip))
			r->v[n++] = v[i].r;
	r->n = n;
}

struct key {
	char text[IP_TEXT_MAX];
	const struct record *r;
};

static int by_text(const void *a, const void *b)
{
	return strcmp(((const struct key *)a)->text, ((const struct key *)b)->text);
}

static void put(struct json_out *o, const struct key *k)
{
	auto_free char *pod = k->r->ns ? xasprintf("%s/%s", k->r->ns, k->r->pod)
				       : xstrdup(k->r->pod);

	jo_key(o, k->text);
	jo_obj(o);
	jo_kstr(o, "pod", pod);
	jo_kstr(o, "podUid", k->r->uid);
	jo_end_obj(o);
}

char *records_text(struct records *r, size_t max)
{
	auto_free struct key *keys = NULL;
	struct json_out o;
	struct buf b;

	records_sort(r);
	if (r->n == 0 || max == 0)
		return xstrdup("");
	keys = xcalloc(r->n, sizeof(*keys));
	for (size_t i = 0; i < r->n; i++) {
		keys[i].r = &r->v[i];
		ip_str(&r->v[i].ip, keys[i].text);
	}
	qsort(keys, r->n, sizeof(*keys), by_text);
	buf_init(&b, TEXT_MAX);
	jo_init(&o, &b, 0);
	jo_obj(&o);
	for (size_t i = 0; i < r->n && i < max; i++) {
		if (max < SIZE_MAX && b.len >= RECORDS_TEXT_MAX)
			break;
		put(&o, &keys[i]);
	}
	jo_end_obj(&o);
	return buf_take(&b);
}
