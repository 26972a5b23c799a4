/* SPDX-License-Identifier: Apache-2.0 */
/* Which networks a wish stands for. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "controller/injection/inject_priv.h"

enum { NAMES_MAX = 8, TEXT_MAX = 512 };

bool inject_next_value(struct span *rest, struct span *ret)
{
	while (span_cut(rest, ',', ret)) {
		*ret = span_trim(*ret);
		if (ret->n > 0)
			return true;
	}
	return false;
}

static bool same(struct span a, struct span b)
{
	return a.n == b.n && !memcmp(a.p, b.p, a.n);
}

static bool in_group(const struct inject_net *n, enum inject_key key, struct span value)
{
	struct span rest = span_of(n->group[key]), v;

	while (inject_next_value(&rest, &v))
		if (same(v, value))
			return true;
	return false;
}

/* --- what is not there --- */

static int by_name(const void *a, const void *b)
{
	return strverscmp(*(char *const *)a, *(char *const *)b);
}

/* The values that some network has for the key, each once; strings and vector are the caller's. */
static char **values_of(const struct inject_nets *nets, enum inject_key key, size_t *n)
{
	char **all = NULL;
	struct span v;
	size_t kept = 0;

	*n = 0;
	for (size_t i = 0; i < nets->n; i++)
		for (struct span rest = span_of(nets->v[i]->group[key]);
		     inject_next_value(&rest, &v);)
			VEC_PUSH(all, *n) = span_dup(v);
	if (*n)
		qsort(all, *n, sizeof(*all), by_name);
	for (size_t i = 0; i < *n; i++)
		if (kept && !strcmp(all[kept - 1], all[i]))
			free(all[i]);
		else
			all[kept++] = all[i];
	*n = kept;
	return all;
}

static size_t members(const struct inject_nets *nets, enum inject_key key, struct span value)
{
	size_t n = 0;

	for (size_t i = 0; i < nets->n; i++)
		n += in_group(nets->v[i], key, value);
	return n;
}

/* "; there are 'a' (8 networks), 'b' (1) and 3 more" */
static void put_values(struct buf *b, const struct inject_nets *nets, enum inject_key key)
{
	size_t n;
	char **v = values_of(nets, key, &n);

	buf_str(b, n ? "; there are" : "; no SpiderMultusConfig has this annotation");
	for (size_t i = 0; i < n && i < NAMES_MAX; i++)
		buf_printf(b, "%s '%s' (%zu)", i ? "," : "", v[i],
			   members(nets, key, span_of(v[i])));
	if (n > NAMES_MAX)
		buf_printf(b, " and %zu more", n - NAMES_MAX);
	for (size_t i = 0; i < n; i++)
		free(v[i]);
	free(v);
}

static int not_there(const struct inject_ask *q, const struct inject_wish *w, struct span value,
		     struct err *e)
{
	enum inject_key other = w->key == INJECT_RDMA ? INJECT_NETWORK : INJECT_RDMA;
	size_t elsewhere = members(&q->nets, other, value);
	auto_buf struct buf b;

	buf_init(&b, TEXT_MAX);
	put_values(&b, &q->nets, w->key);
	if (elsewhere)
		buf_printf(&b, "; %zu have '%.*s' as '%s'", elsewhere, (int)value.n, value.p,
			   inject_key_name(other));
	return err_kind(e, ERR_CONF, -ENOENT,
			"no spidermultusconfigs with annotation: %s:%.*s found, which %s%s%s asks "
			"for%s",
			inject_key_name(w->key), (int)value.n, value.p,
			w->of_ns ? "namespace '" : "the pod", w->of_ns ? q->ns : "",
			w->of_ns ? "'" : "", b.p);
}

/* --- what cannot be injected --- */

static int refuse(const struct inject_net *n, enum inject_key key, const char *why, struct err *e)
{
	return err_kind(e, ERR_CONF, -EINVAL, "SpiderMultusConfig '%s/%s' with annotation '%s': %s",
			n->ns, n->name, inject_key_name(key), why);
}

static int check(const struct inject_net *n, enum inject_key key, struct err *e)
{
	bool ipoib = !strcmp(n->type, "ipoib"); /* shares its parent's device, not a plugin's */
	auto_free char *why = NULL;

	if (!strcmp(n->type, "ovs") || !strcmp(n->type, "custom")) {
		why = xasprintf("RDMA resource injection does not support cniType: %s, remove the "
				"annotation from it",
				n->type);
		return refuse(n, key, why, e);
	}
	if (key == INJECT_RDMA && !n->resource && !ipoib) {
		why = xasprintf("it has no resource to inject, set spec.%s.%s",
				!strcmp(n->type, "ib-sriov") ? "ibsriov" : n->type,
				n->takes ? "resourceName" : "rdmaResourceName");
		return refuse(n, key, why, e);
	}
	if (!n->pools && (key == INJECT_RDMA || n->resource)) {
		why = xasprintf("it names no pool, set spec.%s.ippools.ipv4 or ipv6",
				!strcmp(n->type, "ib-sriov") ? "ibsriov" : n->type);
		return refuse(n, key, why, e);
	}
	return 0;
}

/* --- choosing --- */

static int by_rail(const void *a, const void *b)
{
	const struct inject_net *x = *(const struct inject_net *const *)a;
	const struct inject_net *y = *(const struct inject_net *const *)b;
	int r = strverscmp(x->rail, y->rail);

	if (r == 0)
		r = strverscmp(x->ns, y->ns);
	return r ? r : strverscmp(x->name, y->name);
}

static bool has_nad(const struct inject_nets *l, const struct inject_net *n)
{
	for (size_t i = 0; i < l->n; i++)
		if (!strcmp(l->v[i]->ns, n->ns) && !strcmp(l->v[i]->nad, n->nad))
			return true;
	return false;
}

static int add_group(const struct inject_ask *q, const struct inject_wish *w, struct span value,
		     struct inject_nets *ret, struct err *e)
{
	bool any = false;
	int r = 0;

	for (size_t i = 0; r == 0 && i < q->nets.n; i++) {
		const struct inject_net *n = q->nets.v[i];

		if (!in_group(n, w->key, value))
			continue;
		any = true;
		r = check(n, w->key, e);
		if (r == 0 && !has_nad(ret, n))
			VEC_PUSH(ret->v, ret->n) = n;
	}
	return r == 0 && !any ? not_there(q, w, value, e) : r;
}

int inject_choose(const struct inject_ask *q, const struct inject_wish *w, struct inject_nets *ret,
		  struct err *e)
{
	struct inject_nets l = {0};
	struct span rest = span_of(w->value), value;
	int r = 0;

	while (r == 0 && inject_next_value(&rest, &value))
		r = add_group(q, w, value, &l, e);
	if (r < 0) {
		free(l.v);
		return r;
	}
	if (l.n)
		qsort(l.v, l.n, sizeof(struct inject_net *), by_rail);
	*ret = l;
	return 0;
}
