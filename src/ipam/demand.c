/* SPDX-License-Identifier: Apache-2.0 */
#include "ipam/demand.h"

#include <stdlib.h>
#include <string.h>

#include "ipam/store.h"

void needs_done(struct needs *n)
{
	for (size_t i = 0; i < n->n; i++)
		free(n->v[i].pool);
	free(n->v);
	for (size_t i = 0; i < n->n_names; i++)
		free(n->names[i].pool);
	free(n->names);
	*n = (struct needs){0};
}

static struct need *find(const struct needs *n, const char *pool)
{
	for (size_t i = 0; i < n->n; i++)
		if (strcmp(n->v[i].pool, pool) == 0)
			return &n->v[i];
	return NULL;
}

static struct need *get(struct needs *n, const char *pool)
{
	struct need *x = find(n, pool);

	if (x)
		return x;
	x = &VEC_PUSH(n->v, n->n);
	x->pool = xstrdup(pool);
	return x;
}

static int by_pool(const void *a, const void *b)
{
	const struct need *const *x = a, *const *y = b;

	return strcmp((*x)->pool, (*y)->pool);
}

void needs_sum(const struct needs *const *v, size_t n, struct needs *ret)
{
	const struct need **all = NULL;
	size_t count = 0;

	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < v[i]->n; k++)
			if (v[i]->v[k].count)
				VEC_PUSH(all, count) = &v[i]->v[k];
	if (count > 0)
		qsort(all, count, sizeof(*all), by_pool);
	for (size_t i = 0; i < count; i++) {
		if (i == 0 || strcmp(all[i - 1]->pool, all[i]->pool) != 0)
			VEC_PUSH(ret->v, ret->n).pool = xstrdup(all[i]->pool);
		ret->v[ret->n - 1].count += all[i]->count;
	}
	free(all);
}

/* Counts the pool's addresses that this node can allocate, up to `enough`. */
static uint32_t here(const struct select_facts *f, const struct pool *p, uint32_t enough)
{
	struct ipaddr a;
	bool more = ip_set_next(&p->usable, NULL, &a);
	uint32_t n = 0;

	while (more && n < enough) {
		n += select_state(f, p, &a) != SEL_TAKEN;
		more = ip_add(&a, 1, &a) && ip_set_next(&p->usable, &a, &a);
	}
	return n;
}

static uint32_t count_of(const struct needs *n, const char *pool)
{
	const struct need *x = n ? find(n, pool) : NULL;

	return x ? x->count : 0;
}

static bool is_left(const struct select_facts *f, const struct pool *p,
		    const struct needs *reserved, const struct needs *own)
{
	uint32_t deleted = count_of(reserved, p->name) + count_of(own, p->name);

	return here(f, p, deleted + 1) > deleted;
}

static bool has_one(const struct ipam *i, const struct ip_request *a, uint8_t family)
{
	for (size_t k = 0; k < i->j.leases.n; k++) {
		const struct lease *l = &i->j.leases.v[k];

		if (l->address.ip.family != family)
			continue;
		if (l->state == LEASE_USED && lease_is(l, a->owner.container_id, a->owner.ifname))
			return true;
		if (a->sticky && l->state == LEASE_RETAINED && a->owner.pod_name &&
		    strcmp(l->pod_name, a->owner.pod_name) == 0 &&
		    strcmp(l->pod_namespace,
			   a->owner.pod_namespace ? a->owner.pod_namespace : "") == 0 &&
		    strcmp(l->ifname, a->owner.ifname) == 0)
			return true;
	}
	return false;
}

struct work {
	struct ipam *i;
	struct select_facts f;
	const struct needs *reserved;
	bool (*is_exhausted)(void *arg, const char *pool);
	void *arg;
	bool no_own;
	struct needs *ret;
};

static void choose(struct work *w, const struct pool_list *l)
{
	const struct pool *p = l->v[0];
	bool left = false;
	struct need *x;

	for (size_t k = 0; k < l->n; k++) {
		left = is_left(&w->f, l->v[k], w->reserved, w->ret);
		if (!left && w->is_exhausted(w->arg, l->v[k]->name))
			continue;
		p = l->v[k];
		break;
	}
	x = get(w->ret, p->name);
	x->count++;
	x->missing += !left;
}

static bool is_here(const struct pool_list *l, const struct ipaddr *a)
{
	for (size_t i = 0; i < l->n; i++)
		if (ip_set_has(&l->v[i]->usable, a))
			return true;
	return false;
}

/* Adds a requested address that this node does not own, if a peer may own it: the address is in
 * `open`, the addresses of a shared pool that any node may allocate. */
static void name(struct work *w, const struct pool_list *l, const struct ipaddr *a)
{
	for (size_t i = 0; i < l->n && !is_here(l, a); i++)
		if (ip_set_has(&l->v[i]->open, a)) {
			VEC_PUSH(w->ret->names, w->ret->n_names) =
				(struct need_name){.pool = xstrdup(l->v[i]->name), .ip = *a};
			return;
		}
}

static void any_or_own(struct work *w, const struct ip_request *a, const struct pool_list *l)
{
	const struct pool *p;
	struct ipaddr own;

	if (l->n == 0 || select_own(&w->f, a, l, &own))
		return;
	p = w->no_own ? NULL : select_own_away(&w->f, a, l, &own);
	if (p)
		VEC_PUSH(w->ret->names, w->ret->n_names) =
			(struct need_name){.pool = xstrdup(p->name), .ip = own, .own = true};
	else
		choose(w, l);
}

static int need_of(struct work *w, const struct ip_request *a, uint8_t family, struct err *e)
{
	struct pool_list l = {0};
	int r;

	if (has_one(w->i, a, family))
		return 0;
	r = select_pools(&w->f, a, family, &l, e);
	for (size_t i = 0; i < a->n_want && r == 0; i++)
		if (a->want[i].family == family)
			name(w, &l, &a->want[i]);
	if (r == 0 && !select_wants_family(a, family))
		any_or_own(w, a, &l);
	free(l.v);
	return r;
}

int ipam_needs(struct ipam *i, const struct ip_request *requests, size_t n,
	       const struct needs *reserved, bool (*is_exhausted)(void *arg, const char *pool),
	       void *arg, bool no_own, struct needs *ret, struct err *e)
{
	struct work w = {.i = i,
			 .reserved = reserved,
			 .is_exhausted = is_exhausted,
			 .arg = arg,
			 .no_own = no_own,
			 .ret = ret};
	int r = ipam_load_pools(i, e), missing = 0;

	if (r == 0)
		r = store_adopt(i, e);
	if (r < 0)
		return r;
	w.f = store_facts(i);
	for (size_t k = 0; k < n && r == 0; k++) {
		r = need_of(&w, &requests[k], 4, e);
		if (r == 0)
			r = need_of(&w, &requests[k], 6, e);
	}
	for (size_t k = 0; k < ret->n; k++)
		missing += (int)ret->v[k].missing;
	return r < 0 ? r : missing + (int)ret->n_names;
}
