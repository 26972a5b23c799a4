/* SPDX-License-Identifier: Apache-2.0 */
/* Which address of each range, and making it so. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "ipam/whereabouts/whereabouts_priv.h"

enum { OWNERS_SHOWN = 3 };

/* One range's address on its way. */
struct pick {
	size_t pool;
	struct ipnet address;
	struct lease old; /* what the journal says of the address, when `known` */
	bool known, done;
};

struct choice {
	const struct whereabouts *w;
	const struct whereabouts_ask *a;
	struct pick *v;
	size_t n;
};

static const char *text(const char *s)
{
	return s ? s : "";
}

static bool same(const char *a, const char *b)
{
	return strcmp(a, text(b)) == 0;
}

static const struct lease_table *leases(const struct whereabouts *w, size_t pool)
{
	return &w->v[pool].store->j.leases;
}

/* A pod of the same name counts whatever its container: its sandbox may have been made anew. */
static bool is_his(const struct lease *l, const struct ipam_owner *who)
{
	if (l->state != LEASE_USED || !same(l->ifname, who->ifname))
		return false;
	if (same(l->container_id, who->container_id))
		return true;
	return *l->pod_name && same(l->pod_name, who->pod_name) &&
	       same(l->pod_namespace, who->pod_namespace);
}

static bool is_picked(const struct choice *c, const struct ipaddr *a)
{
	for (size_t i = 0; i < c->n; i++)
		if (ip_eq(&c->v[i].address.ip, a))
			return true;
	return false;
}

static bool is_held(const struct whereabouts *w, size_t pool, const struct ipaddr *a)
{
	const struct lease *l = lease_find(leases(w, pool), a);

	return l && l->state != LEASE_FREE;
}

/* In another range of the network name, which is what enable_overlapping_ranges is about. */
static bool is_held_elsewhere(const struct choice *c, size_t pool, const struct ipaddr *a)
{
	for (size_t i = 0; c->a->overlapping && i < c->w->n; i++)
		if (i != pool && whereabouts_pool_is_of(&c->w->v[i], c->a->network_name) &&
		    is_held(c->w, i, a))
			return true;
	return false;
}

/*
 * What he has of the range already. To a new container it is given again only when it could be
 * given out anew: it may have been excluded since, or be somebody else's in another range.
 */
static const struct lease *held(const struct choice *c, size_t range, size_t pool, bool anew)
{
	const struct ip_set *usable = &c->a->ranges[range].usable;
	const struct lease_table *t = leases(c->w, pool);

	for (size_t i = 0; i < t->n; i++) {
		const struct lease *l = &t->v[i];
		const struct ipaddr *ip = &l->address.ip;

		if (!is_his(l, &c->a->who) || is_picked(c, ip))
			continue;
		if (anew ? ip_set_has(usable, ip) && !is_held_elsewhere(c, pool, ip)
			 : same(l->container_id, c->a->who.container_id) &&
				    whereabouts_counts_for(c->a, range, ip))
			return l;
	}
	return NULL;
}

static bool lowest_free(const struct choice *c, const struct whereabouts_range *r, size_t pool,
			struct ipaddr *ret)
{
	struct ipaddr a;
	bool more = ip_set_next(&r->usable, NULL, &a);

	while (more) {
		if (!is_held(c->w, pool, &a) && !is_held_elsewhere(c, pool, &a) &&
		    !is_picked(c, &a)) {
			*ret = a;
			return true;
		}
		more = ip_add(&a, 1, &a) && ip_set_next(&r->usable, &a, &a);
	}
	return false;
}

/* "254 in use: default/a net1 10.0.0.1, ..." */
static void describe_full(const struct choice *c, size_t pool, struct buf *b)
{
	const struct lease_table *t = leases(c->w, pool);
	auto_buf struct buf who;
	char ip[IP_TEXT_MAX];
	size_t n = 0;

	buf_init(&who, ERR_DETAILS_MAX);
	for (size_t i = 0; i < t->n; i++) {
		if (t->v[i].state == LEASE_FREE)
			continue;
		if (n++ >= OWNERS_SHOWN)
			continue;
		buf_str(&who, n > 1 ? ", " : "");
		lease_owner_str(&t->v[i], &who);
		buf_printf(&who, " %s", ip_str(&t->v[i].address.ip, ip));
	}
	buf_printf(b, "%zu in use", n);
	if (n)
		buf_printf(b, ": %s%s", who.p, n > OWNERS_SHOWN ? ", ..." : "");
}

static int full(const struct choice *c, const struct whereabouts_range *r, size_t pool,
		struct err *e)
{
	char first[IP_TEXT_MAX], last[IP_TEXT_MAX], net[IP_TEXT_MAX];
	auto_buf struct buf excludes, why;

	buf_init(&excludes, ERR_TEXT_MAX);
	buf_init(&why, ERR_DETAILS_MAX);
	buf_char(&excludes, '[');
	for (size_t i = 0; i < r->n_exclude; i++)
		buf_printf(&excludes, "%s%s", i ? " " : "", r->exclude[i]);
	buf_char(&excludes, ']');
	/* Nothing left by the configuration alone: asking again does not help. */
	err_kind(e, r->usable.n ? ERR_AGAIN : ERR_CONF, -ENOSPC,
		 "Could not allocate IP in range: ip: %s / - %s / range: %s / excludeRanges: %s",
		 ip_str(&r->first, first), ip_str(&r->last, last), ipnet_str(&r->net, net),
		 excludes.p);
	describe_full(c, pool, &why);
	err_details(e, "%s", why.p);
	return -ENOSPC;
}

static int choose(struct choice *c, size_t range, struct err *e)
{
	const struct whereabouts_range *r = &c->a->ranges[range];
	size_t pool = whereabouts_find(c->w, &r->net, c->a->network_name);
	struct pick p = {.pool = pool, .address = r->net};
	const struct lease *l = held(c, range, pool, true);

	if (!l)
		l = held(c, range, pool, false);
	if (l)
		p.address.ip = l->address.ip;
	else if (!lowest_free(c, r, pool, &p.address.ip))
		return full(c, r, pool, e);
	l = lease_find(leases(c->w, pool), &p.address.ip);
	p.known = l != NULL;
	if (l)
		p.old = *l;
	c->v[c->n++] = p;
	return 0;
}

static int choose_all(struct choice *c, struct err *e)
{
	int r = 0;

	c->v = xcalloc(c->a->n_ranges + 1, sizeof(*c->v));
	for (size_t i = 0; i < c->a->n_ranges && r == 0; i++)
		r = choose(c, i, e);
	return r;
}

static struct lease granted(const struct choice *c, const struct pick *p)
{
	const struct ipam_owner *who = &c->a->who;
	struct lease l = LEASE_INIT;

	l.address = p->address;
	l.at_ms = c->w->v[p->pool].store->now_ms();
	l.container_id = who->container_id;
	l.ifname = who->ifname;
	l.pod_namespace = text(who->pod_namespace);
	l.pod_name = text(who->pod_name);
	l.pod_uid = text(who->pod_uid);
	l.netns = text(who->netns);
	l.network = text(who->network);
	l.pool = c->w->v[p->pool].name;
	return l;
}

/* The journal says it already: the same ADD again. */
static bool is_said(const struct pick *p, const struct lease *l)
{
	const struct lease *o = &p->old;

	return p->known && o->state == LEASE_USED && o->address.len == l->address.len &&
	       same(o->container_id, l->container_id) && same(o->ifname, l->ifname) &&
	       same(o->pod_name, l->pod_name) && same(o->pod_namespace, l->pod_namespace) &&
	       same(o->network, l->network) && same(o->netns, l->netns);
}

/* All picks of one pool are one change. */
static int commit_pool(struct choice *c, size_t pool, struct err *e)
{
	auto_free struct lease *v = xcalloc(c->n + 1, sizeof(*v));
	size_t n = 0;
	int r;

	for (size_t i = 0; i < c->n; i++) {
		if (c->v[i].pool != pool)
			continue;
		v[n] = granted(c, &c->v[i]);
		c->v[i].done = !is_said(&c->v[i], &v[n]);
		n += c->v[i].done;
	}
	r = store_commit(c->w->v[pool].store, v, n, e);
	for (size_t i = 0; r < 0 && i < c->n; i++)
		if (c->v[i].pool == pool)
			c->v[i].done = false;
	return r;
}

/* Each address becomes what it was: free, or the earlier container's. */
static void undo(struct choice *c)
{
	for (size_t i = c->n; i-- > 0;) {
		struct pick *p = &c->v[i];
		struct ipam *store = c->w->v[p->pool].store;
		struct lease l = LEASE_INIT;
		struct err e = ERR_INIT;

		if (!p->done)
			continue;
		l.address = p->address;
		l.state = LEASE_FREE;
		l.at_ms = store->now_ms();
		if (p->known)
			l = p->old;
		if (store_commit(store, &l, 1, &e) < 0)
			log_warn("give back address", LOG_S("error", e.text));
	}
}

static int commit(struct choice *c, struct err *e)
{
	int r = 0;

	for (size_t pool = 0; pool < c->w->n && r == 0; pool++)
		r = commit_pool(c, pool, e);
	if (r < 0)
		undo(c);
	return r;
}

int whereabouts_allocate(struct whereabouts *w, const struct whereabouts_ask *a, struct ipnet *ret,
			 struct err *e)
{
	struct choice c = {.w = w, .a = a};
	int r = choose_all(&c, e);

	if (r == 0)
		r = commit(&c, e);
	for (size_t i = 0; r == 0 && i < c.n; i++)
		ret[i] = c.v[i].address;
	free(c.v);
	return r;
}

int whereabouts_try(struct whereabouts *w, const struct whereabouts_ask *a, struct err *e)
{
	struct choice c = {.w = w, .a = a};
	int r = choose_all(&c, e);

	free(c.v);
	return r;
}
