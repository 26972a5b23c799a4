/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/subnet/plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/sorted.h"
#include "wire/json/json.h"

/* --- sizes of applications --- */

static uint64_t number_or(const struct json *v, uint64_t otherwise)
{
	int64_t n;

	return json_int(v, &n) == 0 && n >= 0 ? (uint64_t)n : otherwise;
}

/* Returns the number of a Job's pods: its completions, otherwise its parallelism; at least 1. */
static uint64_t job_size(const struct json *spec)
{
	const struct json *n = json_get(spec, "completions");
	uint64_t size;

	if (json_kind(n) != JSON_NUMBER)
		n = json_get(spec, "parallelism");
	size = number_or(n, 1);
	return size ? size : 1;
}

uint64_t subnet_app_size(const char *kind, const struct json *object)
{
	const struct json *spec = json_get(object, "spec");

	if (!strcmp(kind, "DaemonSet"))
		return number_or(json_get(json_get(object, "status"), "desiredNumberScheduled"), 0);
	if (!strcmp(kind, "Job"))
		return job_size(spec);
	if (!strcmp(kind, "CronJob"))
		return job_size(json_get(json_get(spec, "jobTemplate"), "spec"));
	return number_or(json_get(spec, "replicas"), 1);
}

/* --- entries of the subnet's status --- */

/* State while the plan is computed. */
struct plan {
	const struct subnet_facts *f;
	struct subnet_entries *l;
	const char **wanted; /* names of f->wants, sorted */
	bool open_is_known;
	struct ip_set open; /* free addresses; ranges before `next` have been assigned */
	size_t next;
	/* number of addresses in `open` that are not assigned yet; saturates, see take_open() */
	u128 left;
	struct plan_leftover {
		struct ipaddr ip;
		const char *pool;
		size_t slot; /* index in `taken`, the same for equal addresses */
		/* leftovers that would be free otherwise, sorted by pool; not in `open` */
	} * leftovers;
	size_t n_leftovers;
	/* for each slot: whether the address was assigned to a pool from which a pod got it */
	bool *taken;
};

static int by_pool(const void *a, const void *b)
{
	return strcmp(((const struct subnet_entry *)a)->pool,
		      ((const struct subnet_entry *)b)->pool);
}

static void sort_wants(struct plan *p)
{
	p->wanted = xcalloc(p->f->n_wants + 1, sizeof(*p->wanted));
	for (size_t i = 0; i < p->f->n_wants; i++)
		p->wanted[i] = p->f->wants[i].pool;
	qsort(p->wanted, p->f->n_wants, sizeof(p->wanted[0]), str_order);
}

static bool is_wanted(const struct plan *p, const char *pool)
{
	return bsearch(&pool, p->wanted, p->f->n_wants, sizeof(p->wanted[0]), str_order);
}

static int pool_by_name(const void *name, const void *pool)
{
	return strcmp(name, ((const struct subnet_pool *)pool)->name);
}

const struct subnet_pool *subnet_pool_find(const struct subnet_facts *f, const char *name)
{
	return f->n_pools ? bsearch(name, f->pools, f->n_pools, sizeof(f->pools[0]), pool_by_name)
			  : NULL;
}

static void add_entry(struct plan *p, const char *pool)
{
	struct subnet_entry *x = &VEC_PUSH(p->l->v, p->l->n);

	x->pool = xstrdup(pool);
	x->ips.family = x->pending_release.family = p->f->total.family;
}

static bool is_among(const struct plan *p, size_t n, const char *pool)
{
	return subnet_entry_find(&(struct subnet_entries){p->l->v, n}, pool);
}

/* Adds an entry for each pool that exists or is requested and has no entry yet; then sorts the
 * entries. */
static void add_entries(struct plan *p)
{
	size_t had = p->l->n;

	for (size_t i = 0; i < p->f->n_pools; i++)
		if (!is_among(p, had, p->f->pools[i].name))
			add_entry(p, p->f->pools[i].name);
	for (size_t i = 0; i < p->f->n_wants; i++)
		if ((i == 0 || strcmp(p->wanted[i], p->wanted[i - 1]) != 0) &&
		    !is_among(p, had, p->wanted[i]) && !subnet_pool_find(p->f, p->wanted[i]))
			add_entry(p, p->wanted[i]);
	if (p->l->n > had)
		qsort(p->l->v, p->l->n, sizeof(p->l->v[0]), by_pool);
}

static void set_app(struct subnet_entry *x, const char *app)
{
	if (x->app && app && !strcmp(x->app, app))
		return;
	free(x->app);
	x->app = app ? xstrdup(app) : NULL;
}

static void collect_pending_release(const struct subnet_entries *l, struct ip_set *ret)
{
	for (size_t i = 0; i < l->n; i++) {
		for (size_t k = 0; k < l->v[i].ips.n; k++)
			ip_set_collect(ret, &l->v[i].ips.v[k]);
		for (size_t k = 0; k < l->v[i].pending_release.n; k++)
			ip_set_collect(ret, &l->v[i].pending_release.v[k]);
	}
	ip_set_merge(ret);
}

/* --- existing pools --- */

/* A pool that a user created gets the addresses of its spec that the subnet has. */
static void take_own(struct plan *p, const struct subnet_pool *pool)
{
	struct subnet_entry *x = subnet_entry_find(p->l, pool->name);

	ip_set_done(&x->ips);
	ip_set_intersect(&pool->ips, &p->f->total, &x->ips);
	set_app(x, NULL);
}

/*
 * Fills the entries of the application pools that the status did not contain, because it was lost
 * or restored from a backup, or because an agent has just created the pool without addresses. Each
 * such pool keeps those of its addresses that no other entry has; of two pools with the same
 * address the first one keeps it.
 */
static void take_lost(struct plan *p, const struct subnet_pool *const *lost, size_t n)
{
	struct ip_set *sets = xcalloc(n + 1, sizeof(*sets));

	collect_pending_release(p->l, &sets[0]);
	for (size_t i = 0; i < n; i++)
		ip_set_intersect(&lost[i]->ips, &p->f->total, &sets[i + 1]);
	ip_sets_part(sets, n + 1);
	for (size_t i = 0; i < n; i++) {
		struct subnet_entry *x = subnet_entry_find(p->l, lost[i]->name);

		ip_set_done(&x->ips);
		x->ips = sets[i + 1];
		x->ips.family = p->f->total.family;
		set_app(x, lost[i]->app);
	}
	ip_set_done(&sets[0]);
	free(sets);
}

static void take_pools(struct plan *p)
{
	const struct subnet_pool **lost = xcalloc(p->f->n_pools + 1, sizeof(*lost));
	size_t n = 0;

	for (size_t i = 0; i < p->f->n_pools; i++)
		if (p->f->pools[i].app && !subnet_entry_find(p->l, p->f->pools[i].name))
			lost[n++] = &p->f->pools[i];
	add_entries(p);
	for (size_t i = 0; i < p->f->n_pools; i++)
		if (!p->f->pools[i].app)
			take_own(p, &p->f->pools[i]);
	if (n > 0)
		take_lost(p, lost, n);
	free(lost);
}

/* --- free addresses --- */

static int leftover_by_ip(const void *a, const void *b)
{
	return ip_cmp(&((const struct plan_leftover *)a)->ip,
		      &((const struct plan_leftover *)b)->ip);
}

static int leftover_by_pool(const void *a, const void *b)
{
	return strcmp(((const struct plan_leftover *)a)->pool,
		      ((const struct plan_leftover *)b)->pool);
}

/* Removes leftovers, which pods use, from the free addresses and lists them by pool: a growing pool
 * may get its own. */
static void collect_leftovers(struct plan *p, const struct subnet_leftover *v, size_t n)
{
	struct ip_set had = {.family = p->open.family};
	size_t slots = 0;

	p->leftovers = xcalloc(n + 1, sizeof(*p->leftovers));
	for (size_t i = 0; i < n; i++)
		if (ip_set_has(&p->open, &v[i].ip)) {
			p->leftovers[p->n_leftovers++] =
				(struct plan_leftover){v[i].ip, v[i].pool, 0};
			ip_set_collect(&had, &(struct ip_range){v[i].ip, v[i].ip});
		}
	ip_set_merge(&had);
	ip_set_minus(&p->open, &had);
	ip_set_done(&had);
	qsort(p->leftovers, p->n_leftovers, sizeof(p->leftovers[0]), leftover_by_ip);
	for (size_t i = 0; i < p->n_leftovers; i++) {
		slots += i > 0 && !ip_eq(&p->leftovers[i].ip, &p->leftovers[i - 1].ip);
		p->leftovers[i].slot = slots;
	}
	p->taken = xcalloc(slots + 1, sizeof(*p->taken));
	qsort(p->leftovers, p->n_leftovers, sizeof(p->leftovers[0]), leftover_by_pool);
}

/* Collects the free addresses; returns false if they are not known yet. */
static bool know_open(struct plan *p)
{
	struct ip_set pending_release = {.family = p->f->total.family};
	const struct subnet_leftover *v;
	size_t n;

	if (p->open_is_known)
		return true;
	if (!p->f->leftovers(p->f->arg, &v, &n))
		return false;
	ip_set_copy(&p->f->total, &p->open);
	ip_set_minus(&p->open, &p->f->reserved);
	collect_pending_release(p->l, &pending_release);
	ip_set_minus(&p->open, &pending_release);
	ip_set_done(&pending_release);
	collect_leftovers(p, v, n);
	p->left = ip_set_count(&p->open);
	p->open_is_known = true;
	return true;
}

/* Returns the index of the first leftover address of the pool. */
static size_t leftovers_of(const struct plan *p, const char *pool)
{
	return LOWER_BOUND(i, p->n_leftovers, strcmp(p->leftovers[i].pool, pool) < 0);
}

static bool is_leftover_of(const struct plan *p, size_t i, const char *pool)
{
	return i < p->n_leftovers && strcmp(p->leftovers[i].pool, pool) == 0;
}

/* --- growing and shrinking --- */

/* Moves the lowest n addresses of *r to `to`. */
static void take_lowest(struct ip_range *r, u128 n, struct ip_set *to)
{
	struct ip_range low = {r->first, ip_from_num(r->first.family, ip_num(&r->first) + n - 1)};

	r->first = ip_from_num(r->first.family, ip_num(&low.last) + 1);
	ip_set_collect(to, &low);
}

/* Moves the lowest n addresses of `from`, starting with range *next, to `to`. Returns how many
 * of the n addresses `from` lacked. Sets *next to the first range that still has addresses. */
static u128 move_from(struct ip_set *from, size_t *next, struct ip_set *to, u128 n)
{
	struct ip_set moved = {.family = from->family};

	while (n > 0 && *next < from->n) {
		struct ip_range *r = &from->v[*next];
		u128 more = ip_num(&r->last) - ip_num(&r->first); /* size of the range - 1 */

		if (more >= n) {
			take_lowest(r, n, &moved);
			n = 0;
		} else {
			ip_set_collect(&moved, r);
			n -= more + 1;
			(*next)++;
		}
	}
	ip_set_plus(to, &moved);
	ip_set_done(&moved);
	return n;
}

static u128 move_lowest(struct ip_set *from, struct ip_set *to, u128 n)
{
	size_t next = 0;

	n = move_from(from, &next, to, n);
	from->n -= next;
	if (next > 0)
		memmove(from->v, from->v + next, from->n * sizeof(from->v[0]));
	return n;
}

static void take_open(struct plan *p, struct ip_set *to, u128 n)
{
	/* ip_set_count() saturates at 2^64 - 1. The real count may then be higher, so p->left is
	 * not reduced. */
	if (p->left < UINT64_MAX)
		p->left -= n;
	move_from(&p->open, &p->next, to, n);
}

static void take_more(struct plan *p, const struct subnet_want *w, struct subnet_entry *x,
		      struct ip_set *own)
{
	u128 more = w->count - ip_set_count(&x->ips);
	u128 has = ip_set_count(own) + ip_set_count(&x->pending_release);
	struct err e = ERR_INIT;

	if (more > has && more - has > p->left) {
		err_kind(&e, ERR_AGAIN, -ENOSPC,
			 "insufficient subnet FreeIPs, required '%llu' but only left '%llu'",
			 (unsigned long long)(more - has), (unsigned long long)p->left);
		p->f->failed(p->f->arg, w, &e);
		return;
	}
	more = move_lowest(own, &x->ips, more);
	more = move_lowest(&x->pending_release, &x->ips, more);
	take_open(p, &x->ips, more);
}

static void grow(struct plan *p, const struct subnet_want *w, struct subnet_entry *x)
{
	struct ip_set own = {.family = p->f->total.family};
	size_t first;

	if (!know_open(p))
		return;
	first = leftovers_of(p, x->pool);
	for (size_t i = first; is_leftover_of(p, i, x->pool); i++)
		if (!p->taken[p->leftovers[i].slot])
			ip_set_collect(&own,
				       &(struct ip_range){p->leftovers[i].ip, p->leftovers[i].ip});
	ip_set_merge(&own);
	take_more(p, w, x, &own);
	for (size_t i = first; is_leftover_of(p, i, x->pool); i++)
		if (ip_set_has(&x->ips, &p->leftovers[i].ip))
			p->taken[p->leftovers[i].slot] = true;
	ip_set_done(&own);
}

static void shrink(const struct subnet_facts *f, const struct subnet_want *w,
		   struct subnet_entry *x)
{
	u128 less = ip_set_count(&x->ips) - w->count;
	const struct subnet_pool *p = subnet_pool_find(f, x->pool);
	const struct ip_set *used = p ? f->used(f->arg, x->pool) : &(struct ip_set){0};
	struct ip_set idle, out = {.family = x->ips.family};
	struct err e = ERR_INIT;

	if (!used)
		return;
	ip_set_copy(&x->ips, &idle);
	ip_set_minus(&idle, used);
	if (ip_set_count(&idle) < less) {
		err_kind(&e, ERR_AGAIN, -EBUSY,
			 "failed to scale down IPPool %s IPs: IPPool available free IPs are not "
			 "enough",
			 x->pool);
		f->failed(f->arg, w, &e);
	} else {
		move_lowest(&idle, &out, less);
		ip_set_minus(&x->ips, &out);
		ip_set_plus(&x->pending_release, &out);
	}
	ip_set_done(&idle);
	ip_set_done(&out);
}

static void meet_want(struct plan *p, const struct subnet_want *w)
{
	const struct subnet_pool *pool = subnet_pool_find(p->f, w->pool);
	struct subnet_entry *x;
	u128 has;

	if (pool && pool->deleting)
		return;
	x = subnet_entry_find(p->l, w->pool);
	set_app(x, w->app);
	has = ip_set_count(&x->ips);
	if (has < w->count)
		grow(p, w, x);
	else if (has > w->count)
		shrink(p->f, w, x);
}

/* --- the whole plan of a subnet's pools --- */

static bool is_over(const struct plan *p, const struct subnet_entry *x)
{
	bool empty = x->ips.n == 0 && x->pending_release.n == 0;

	if (subnet_pool_find(p->f, x->pool))
		return !x->app && empty;
	return is_wanted(p, x->pool) ? empty : p->f->is_deleted(p->f->arg, x);
}

static void drop_entries(struct plan *p)
{
	struct subnet_entries *l = p->l;
	size_t n = 0;

	for (size_t i = 0; i < l->n; i++) {
		struct subnet_entry x = l->v[i];

		if (is_over(p, &x))
			subnet_entry_done(&x);
		else
			l->v[n++] = x;
	}
	l->n = n;
}

void subnet_plan(const struct subnet_facts *f, struct subnet_entries *l)
{
	struct plan p = {.f = f, .l = l};

	sort_wants(&p);
	take_pools(&p);
	for (size_t i = 0; i < l->n; i++)
		if (l->v[i].pending_release.n > 0 && f->may_release(f->arg, &l->v[i])) {
			ip_set_done(&l->v[i].pending_release);
			l->v[i].pending_release.family = f->total.family;
		}
	for (size_t i = 0; i < f->n_wants; i++)
		meet_want(&p, &f->wants[i]);
	drop_entries(&p);
	free(p.wanted);
	free(p.leftovers);
	free(p.taken);
	ip_set_done(&p.open);
}
