/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/subnets_plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "wire/json.h"

/* --- sizes --- */

static uint64_t number_or(const struct json *v, uint64_t otherwise)
{
	int64_t n;

	return json_int(v, &n) == 0 && n >= 0 ? (uint64_t)n : otherwise;
}

/* Its completions, else how many run at a time; never less than one. */
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

/* --- entries --- */

static struct subnet_entry *entry_of(struct subnet_entries *l, const char *pool, uint8_t family)
{
	struct subnet_entry *x = subnet_entry_find(l, pool);

	if (x)
		return x;
	x = &VEC_PUSH(l->v, l->n);
	x->pool = xstrdup(pool);
	x->ips.family = x->held.family = family;
	return x;
}

static void drop_entry(struct subnet_entries *l, size_t i)
{
	free(l->v[i].pool);
	free(l->v[i].app);
	ip_set_done(&l->v[i].ips);
	ip_set_done(&l->v[i].held);
	memmove(&l->v[i], &l->v[i + 1], (--l->n - i) * sizeof(l->v[0]));
}

static void take_all_of_others(const struct subnet_entries *l, const char *pool, struct ip_set *s)
{
	for (size_t i = 0; i < l->n; i++) {
		if (!strcmp(l->v[i].pool, pool))
			continue;
		ip_set_minus(s, &l->v[i].ips);
		ip_set_minus(s, &l->v[i].held);
	}
}

static void set_app(struct subnet_entry *x, const char *app)
{
	if (x->app && app && !strcmp(x->app, app))
		return;
	free(x->app);
	x->app = app ? xstrdup(app) : NULL;
}

/* A pool by hand has what its spec says. One of an application that the status does not know (it was
 * lost, or set back) has what nobody else has. */
static void take_pool(const struct subnet_facts *f, const struct subnet_pool *p,
		      struct subnet_entries *l)
{
	struct subnet_entry *x = subnet_entry_find(l, p->name);

	if (x && p->app)
		return;
	x = entry_of(l, p->name, f->total.family);
	ip_set_done(&x->ips);
	subnet_meet(&p->ips, &f->total, &x->ips);
	if (p->app)
		take_all_of_others(l, p->name, &x->ips);
	set_app(x, p->app);
}

static const struct subnet_pool *pool_named(const struct subnet_facts *f, const char *name)
{
	for (size_t i = 0; i < f->n_pools; i++)
		if (!strcmp(f->pools[i].name, name))
			return &f->pools[i];
	return NULL;
}

static const struct subnet_want *want_of(const struct subnet_facts *f, const char *pool)
{
	for (size_t i = 0; i < f->n_wants; i++)
		if (!strcmp(f->wants[i].pool, pool))
			return &f->wants[i];
	return NULL;
}

/* --- growing and shrinking --- */

/* The lowest n of `from` onto `to`; how many it had too few. */
static u128 move_lowest(struct ip_set *from, struct ip_set *to, u128 n)
{
	struct ip_set moved = {.family = from->family};

	for (size_t i = 0; n > 0 && i < from->n; i++) {
		struct ip_range r = from->v[i];
		u128 size = ip_num(&r.last) - ip_num(&r.first) + 1;

		if (size > n)
			r.last = ip_from_num(from->family, ip_num(&r.first) + n - 1);
		n -= size > n ? n : size;
		ip_set_collect(&moved, &r);
	}
	ip_set_minus(from, &moved);
	ip_set_plus(to, &moved);
	ip_set_done(&moved);
	return n;
}

static void free_of(const struct subnet_facts *f, const struct subnet_entries *l,
		    struct ip_set *ret)
{
	subnet_set_copy(&f->total, ret);
	ip_set_minus(ret, &f->reserved);
	take_all_of_others(l, "", ret);
}

/* What pods have is not open; of this pool it is its own. False: not known yet. */
static bool take_strays(const struct subnet_facts *f, const char *pool, struct ip_set *open,
			struct ip_set *own)
{
	struct ip_set taken = {.family = open->family};
	const struct subnet_stray *v;
	size_t n;

	if (!f->strays(f->arg, &v, &n))
		return false;
	for (size_t i = 0; i < n; i++) {
		const struct ip_range r = {v[i].ip, v[i].ip};

		if (!ip_set_has(open, &v[i].ip))
			continue;
		ip_set_collect(&taken, &r);
		if (!strcmp(v[i].pool, pool))
			ip_set_collect(own, &r);
	}
	ip_set_merge(&taken);
	ip_set_merge(own);
	ip_set_minus(open, &taken);
	ip_set_done(&taken);
	return true;
}

static void take_more(const struct subnet_facts *f, const struct subnet_want *w,
		      struct subnet_entry *x, struct ip_set *own, struct ip_set *open)
{
	u128 more = w->count - ip_set_count(&x->ips), left = ip_set_count(open);
	u128 has = ip_set_count(own) + ip_set_count(&x->held);
	struct err e = ERR_INIT;

	if (more > has && more - has > left) {
		err_kind(&e, ERR_AGAIN, -ENOSPC,
			 "insufficient subnet FreeIPs, required '%llu' but only left '%llu'",
			 (unsigned long long)(more - has), (unsigned long long)left);
		f->failed(f->arg, w, &e);
		return;
	}
	more = move_lowest(own, &x->ips, more);
	more = move_lowest(&x->held, &x->ips, more);
	move_lowest(open, &x->ips, more);
}

static void grow(const struct subnet_facts *f, const struct subnet_want *w,
		 struct subnet_entries *l, struct subnet_entry *x)
{
	struct ip_set open, own = {.family = f->total.family};

	free_of(f, l, &open);
	if (take_strays(f, x->pool, &open, &own))
		take_more(f, w, x, &own, &open);
	ip_set_done(&open);
	ip_set_done(&own);
}

static void shrink(const struct subnet_facts *f, const struct subnet_want *w,
		   struct subnet_entry *x)
{
	u128 less = ip_set_count(&x->ips) - w->count;
	const struct subnet_pool *p = pool_named(f, x->pool);
	const struct ip_set *used = p ? f->used(f->arg, x->pool) : &(struct ip_set){0};
	struct ip_set idle, out = {.family = x->ips.family};
	struct err e = ERR_INIT;

	if (!used)
		return;
	subnet_set_copy(&x->ips, &idle);
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
		ip_set_plus(&x->held, &out);
	}
	ip_set_done(&idle);
	ip_set_done(&out);
}

static void meet_want(const struct subnet_facts *f, const struct subnet_want *w,
		      struct subnet_entries *l)
{
	const struct subnet_pool *p = pool_named(f, w->pool);
	struct subnet_entry *x;
	u128 has;

	if (p && p->deleting)
		return;
	x = entry_of(l, w->pool, f->total.family);
	set_app(x, w->app);
	has = ip_set_count(&x->ips);
	if (has < w->count)
		grow(f, w, l, x);
	else if (has > w->count)
		shrink(f, w, x);
}

/* --- all --- */

static bool is_over(const struct subnet_facts *f, const struct subnet_entry *x)
{
	bool empty = x->ips.n == 0 && x->held.n == 0;

	if (pool_named(f, x->pool))
		return !x->app && empty;
	return want_of(f, x->pool) ? empty : f->is_gone(f->arg, x);
}

void subnet_plan(const struct subnet_facts *f, struct subnet_entries *l)
{
	for (size_t i = 0; i < f->n_pools; i++)
		take_pool(f, &f->pools[i], l);
	for (size_t i = 0; i < l->n; i++)
		if (l->v[i].held.n > 0 && f->may_release(f->arg, &l->v[i])) {
			ip_set_done(&l->v[i].held);
			l->v[i].held.family = f->total.family;
		}
	for (size_t i = 0; i < f->n_wants; i++)
		meet_want(f, &f->wants[i], l);
	for (size_t i = l->n; i-- > 0;)
		if (is_over(f, &l->v[i]))
			drop_entry(l, i);
}
