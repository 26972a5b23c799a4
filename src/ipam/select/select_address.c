/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "ipam/select/select_pool.h"

/* State of one call of select_addresses(). */
struct choice {
	const struct select_facts *f;
	struct decision d;
	struct lease_table given; /* index of the addresses in d.picks */
	/* for each pool, the address below which none is free; family 0: not searched yet */
	struct ipaddr *from;
	/* leases of the requesting containers and sticky leases, collected in one pass */
	const struct lease **near;
	size_t n_near;
};

/* This file selects the address of a request: one already allocated to its owner, one that the
 * request names, one retained for the pod or used by it before, or else the lowest free one. */

enum { FULL_MESSAGE_MAX = 620 };

enum select_state select_state(const struct select_facts *f, const struct pool *p,
			       const struct ipaddr *a)
{
	const struct lease *l = lease_find(f->leases, a);

	if (!l)
		return SEL_FREE;
	if (l->state == LEASE_FREE)
		return lease_lasts(l, f->now_ms, pool_reuse_delay_ms(f->pools, p)) ? SEL_COOLDOWN
										   : SEL_FREE;
	if (l->state == LEASE_QUARANTINED && !lease_lasts(l, f->now_ms, f->pools->quarantine_ms))
		return SEL_FREE;
	return SEL_TAKEN;
}

/* Returns whether this call of select_addresses() has already picked the address. */
static bool choice_has(const struct choice *c, const struct ipaddr *a)
{
	return lease_find(&c->given, a) != NULL;
}

static void choice_pick(struct choice *c, size_t request, const struct ipnet *address,
			const struct pool *p, bool was_there)
{
	VEC_PUSH(c->d.picks, c->d.n_picks) = (struct select_pick){
		.request = request, .address = *address, .pool = p, .was_there = was_there};
	lease_put(&c->given, &(struct lease){.address = *address});
}

/* Adds a new lease for the request's owner. */
static void choice_allocation(struct choice *c, const struct ip_request *a, size_t request,
			      const struct pool *p, const struct ipaddr *ip)
{
	struct ipnet net = {*ip, p->subnet.len};

	choice_pick(c, request, &net, p, false);
	VEC_PUSH(c->d.changes, c->d.n_changes) = (struct lease){
		.address = net,
		.state = LEASE_USED,
		.sticky = a->sticky,
		.at_ms = c->f->now_ms,
		.container_id = a->owner.container_id,
		.ifname = a->owner.ifname,
		.pod_namespace = str_or_empty(a->owner.pod_namespace),
		.pod_name = str_or_empty(a->owner.pod_name),
		.pod_uid = str_or_empty(a->owner.pod_uid),
		.netns = str_or_empty(a->owner.netns),
		.network = str_or_empty(a->owner.network),
		.pool = p->name,
		.other = "",
	};
}

static bool lowest(struct choice *c, const struct pool *p, struct ipaddr *ret)
{
	struct ipaddr *from = &c->from[p - c->f->pools->v], a;
	bool more = ip_set_next(&p->usable, from->family ? from : NULL, &a);

	while (more) {
		*from = a;
		if (select_state(c->f, p, &a) == SEL_FREE && !choice_has(c, &a)) {
			*ret = a;
			return true;
		}
		more = ip_add(&a, 1, &a) && ip_set_next(&p->usable, &a, &a);
	}
	return false;
}

static bool longest_unused(const struct choice *c, const struct pool *p, struct ipaddr *ret)
{
	const struct lease *best = NULL;

	for (size_t i = 0; i < c->f->leases->n; i++) {
		const struct lease *l = &c->f->leases->v[i];

		if (l->state != LEASE_FREE || (best && best->at_ms <= l->at_ms) ||
		    !ip_set_has(&p->usable, &l->address.ip) || choice_has(c, &l->address.ip))
			continue;
		best = l;
	}
	if (best)
		*ret = best->address.ip;
	return best != NULL;
}

static int used_out(const struct choice *c, const struct ip_request *a, uint8_t family,
		    const struct pool_list *l, struct err *e)
{
	auto_buf struct buf names, message;

	buf_init(&names, 200);
	buf_init(&message, FULL_MESSAGE_MAX);
	select_describe_pools(l, &names);
	for (size_t i = 0; i < l->n; i++) {
		buf_str(&message, i ? "; " : "");
		select_describe_full(c->f, l->v[i], l->n == 1 ? 4 : 1, &message);
	}
	return err_kind(
		e, ERR_AGAIN, -ENOSPC,
		"failed to allocate any IPv%u IP address to NIC %s from IPPools %s: all IP "
		"addresses used out: %s%s: add addresses, or list their owners with 'unirail pool "
		"show %s'",
		family, a->owner.ifname, names.p, message.p,
		c->d.n_changes > 0 ? " (without the addresses already selected for this pod)" : "",
		l->v[0]->name);
}

static int choose_new(struct choice *c, const struct ip_request *a, size_t request, uint8_t family,
		      const struct pool_list *l, struct err *e)
{
	struct ipaddr ip;

	for (size_t i = 0; i < l->n; i++)
		if (lowest(c, l->v[i], &ip) || longest_unused(c, l->v[i], &ip)) {
			choice_allocation(c, a, request, l->v[i], &ip);
			return 0;
		}
	return used_out(c, a, family, l, e);
}

/* Called by choose_held() after it picked the addresses of the family that the owner already
 * has. Fails if the request names another address of the family. */
static int check_held(const struct choice *c, const struct ip_request *a, uint8_t family,
		      const struct lease *held, struct err *e)
{
	char want[IP_TEXT_MAX], has[IP_TEXT_MAX];

	for (size_t i = 0; i < a->n_want; i++)
		if (a->want[i].family == family && !choice_has(c, &a->want[i]))
			return err_kind(e, ERR_CONF, -EEXIST,
					"NIC %s requests %s but has %s: run DEL first",
					a->owner.ifname, ip_str(&a->want[i], want),
					ip_str(&held->address.ip, has));
	return 1;
}

/* Picks the addresses of this family that the owner already has from an earlier request; returns 1
 * if there are any. */
static int choose_held(struct choice *c, const struct ip_request *a, size_t request, uint8_t family,
		       struct err *e)
{
	const struct lease *held = NULL;

	for (size_t i = 0; i < c->n_near; i++) {
		const struct lease *l = c->near[i];

		if (l->state != LEASE_USED || l->address.ip.family != family ||
		    !lease_is(l, a->owner.container_id, a->owner.ifname))
			continue;
		choice_pick(c, request, &l->address, pool_of(c->f->pools, &l->address.ip), true);
		held = l;
	}
	return held ? check_held(c, a, family, held, e) : 0;
}

/*
 * Returns whether the record's address is for this pod. A pod with the recorded UID is the same
 * pod. A pod with the same name and another UID is its successor, and gets the address if it
 * requests a sticky one. Records do not name interfaces: two interfaces of a pod in one pool get
 * the recorded addresses in turn.
 */
static bool is_adopted_by(const struct pool_record *r, const struct ip_request *a, uint64_t pod,
			  uint64_t uid)
{
	return r->pod == pod && (a->sticky || (*str_or_empty(a->owner.pod_uid) && r->uid == uid));
}

/* Returns whether the address is in `s`, may be allocated, and is not among the addresses picked
 * so far (c is NULL: nothing is picked). */
static bool is_to_be_had(const struct select_facts *f, const struct choice *c, const struct pool *p,
			 const struct ip_set *s, const struct ipaddr *ip)
{
	return ip_set_has(s, ip) && !(c && choice_has(c, ip)) &&
	       select_state(f, p, ip) != SEL_TAKEN;
}

/* Returns the set that must contain the record's address: the adopted addresses in this node's
 * blocks or, if `away`, also those in other nodes' blocks. */
static const struct ip_set *adopted_part(const struct pool *p, const struct pool_record *r,
					 bool away)
{
	return away && !ip_set_has(&p->adopted_here, &r->ip) ? &p->adopted : &p->adopted_here;
}

static const struct pool *adopted_of(const struct select_facts *f, const struct choice *c,
				     const struct ip_request *a, const struct pool_list *l,
				     bool away, struct ipaddr *ret)
{
	uint64_t uid = pool_record_key(str_or_empty(a->owner.pod_uid)), pod;
	auto_free char *name = xasprintf("%s/%s", str_or_empty(a->owner.pod_namespace),
					 str_or_empty(a->owner.pod_name));

	pod = pool_record_key(name);
	for (size_t i = 0; i < l->n && *str_or_empty(a->owner.pod_name); i++)
		for (size_t k = 0; k < l->v[i]->n_records; k++) {
			const struct pool_record *r = &l->v[i]->records[k];

			if (!is_adopted_by(r, a, pod, uid) ||
			    !is_to_be_had(f, c, l->v[i], adopted_part(l->v[i], r, away), &r->ip))
				continue;
			*ret = r->ip;
			return l->v[i];
		}
	return NULL;
}

/* Picks an address that the pod had before, according to the records of the listed pools. */
static bool choose_own(struct choice *c, const struct ip_request *a, size_t request,
		       const struct pool_list *l)
{
	struct ipaddr ip;
	const struct pool *p = adopted_of(c->f, c, a, l, false, &ip);

	if (p)
		choice_allocation(c, a, request, p, &ip);
	return p != NULL;
}

static const struct pool *pool_with(const struct pool_list *l, const struct ipaddr *a)
{
	for (size_t i = 0; i < l->n; i++)
		if (ip_set_has(&l->v[i]->usable, a))
			return l->v[i];
	return NULL;
}

/* Returns the pool from which this node may allocate the address to the pod that already has it.
 * An adopted address is included: only this pod can get it. */
static const struct pool *pool_keeping(const struct pool_list *l, const struct ipaddr *a)
{
	const struct pool *p = pool_with(l, a);

	for (size_t i = 0; i < l->n && !p; i++)
		if (ip_set_has(&l->v[i]->adopted_here, a))
			p = l->v[i];
	return p;
}

/* Returns whether the lease has the owner's pod name and interface, and is retained, or sticky
 * and still in use. */
static bool is_retained_for(const struct lease *l, const struct ipam_owner *owner)
{
	return (l->state == LEASE_RETAINED || (l->state == LEASE_USED && l->sticky)) &&
	       strcmp(l->ifname, owner->ifname) == 0 &&
	       strcmp(l->pod_name, str_or_empty(owner->pod_name)) == 0 &&
	       strcmp(l->pod_namespace, str_or_empty(owner->pod_namespace)) == 0;
}

static void give_back(struct choice *c, const struct lease *l)
{
	struct lease n = LEASE_INIT;

	n.address = l->address;
	n.state = LEASE_FREE;
	n.at_ms = c->f->now_ms;
	VEC_PUSH(c->d.changes, c->d.n_changes) = n;
}

/* Returns whether the address is in a shared pool. The caller has found that this node cannot
 * allocate it, so it is not in this node's part of the pool. */
static bool is_away(const struct pool_list *l, const struct ipaddr *a)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->v[i]->shared &&
		    (ip_set_has(&l->v[i]->open, a) || ip_set_has(&l->v[i]->adopted, a)))
			return true;
	return false;
}

/*
 * Picks the address retained for this pod, even if its former container still has it: two pods of
 * one name do not run at the same time. A retained address is released if the request is not
 * sticky, has already picked another retained one, or has no pool that contains the address, in
 * this node's or another node's part of the pool.
 */
static bool choose_retained(struct choice *c, const struct ip_request *a, size_t request,
			    uint8_t family, const struct pool_list *l)
{
	bool found = false;

	if (!str_or_empty(a->owner.pod_name)[0])
		return false;
	for (size_t i = 0; i < c->n_near; i++) {
		const struct lease *s = c->near[i];
		const struct pool *p;

		if (s->address.ip.family != family || !is_retained_for(s, &a->owner))
			continue;
		p = a->sticky && !found ? pool_keeping(l, &s->address.ip) : NULL;
		if (p && !choice_has(c, &s->address.ip)) {
			choice_allocation(c, a, request, p, &s->address.ip);
			found = true;
		} else if (s->state == LEASE_RETAINED &&
			   !(a->sticky && !found && is_away(l, &s->address.ip))) {
			give_back(c, s);
		}
	}
	return found;
}

static int not_to_be_had(const struct choice *c, const struct ip_request *a,
			 const struct ipaddr *ip, const struct pool *p, struct err *e)
{
	const struct lease *l = lease_find(c->f->leases, ip);
	char addr[IP_TEXT_MAX];
	auto_buf struct buf owner;

	buf_init(&owner, 400);
	ip_str(ip, addr);
	if (l && l->state == LEASE_QUARANTINED)
		return err_kind(e, ERR_AGAIN, -EADDRINUSE,
				"NIC %s requests %s, which is in quarantine after a conflict",
				a->owner.ifname, addr);
	if (l && !choice_has(c, ip))
		lease_owner_str(l, &owner);
	return err_kind(e, ERR_AGAIN, -EADDRINUSE,
			"NIC %s requests %s of pool '%s', which is "
			"allocated to %s",
			a->owner.ifname, addr, p->name,
			owner.len ? owner.p : "another rail of this pod");
}

/* Sets the error for a requested address that this node cannot allocate from any of the
 * request's pools. */
static int not_here(const struct ip_request *a, const struct ipaddr *ip, const struct pool_list *l,
		    struct err *e)
{
	char addr[IP_TEXT_MAX];
	auto_buf struct buf names;

	buf_init(&names, 300);
	ip_str(ip, addr);
	for (size_t i = 0; i < l->n; i++)
		if (ip_set_has(&l->v[i]->open, ip))
			return err_kind(e, ERR_AGAIN, -EADDRNOTAVAIL,
					"NIC %s requests %s of pool '%s', which is in no block of "
					"this node",
					a->owner.ifname, addr, l->v[i]->name);
	select_describe_pools(l, &names);
	return err_kind(e, ERR_CONF, -EADDRNOTAVAIL,
			"NIC %s requests %s, which is in none of its pools %s, or is reserved or "
			"adopted there",
			a->owner.ifname, addr, names.p);
}

/* Allocates the addresses that the request names, each from the first pool of the list that
 * contains the address. */
static int choose_wanted(struct choice *c, const struct ip_request *a, size_t request,
			 uint8_t family, const struct pool_list *l, struct err *e)
{
	for (size_t i = 0; i < a->n_want; i++) {
		const struct ipaddr *ip = &a->want[i];
		const struct pool *p = pool_with(l, ip);

		if (ip->family != family)
			continue;
		if (!p)
			return not_here(a, ip, l, e);
		if (choice_has(c, ip) || select_state(c->f, p, ip) == SEL_TAKEN)
			return not_to_be_had(c, a, ip, p, e);
		choice_allocation(c, a, request, p, ip);
	}
	return 0;
}

bool select_wants_family(const struct ip_request *a, uint8_t family)
{
	for (size_t i = 0; i < a->n_want; i++)
		if (a->want[i].family == family)
			return true;
	return false;
}

static int choose_family(struct choice *c, const struct ip_request *a, size_t request,
			 uint8_t family, struct err *e)
{
	struct pool_list l = {0};
	int r = choose_held(c, a, request, family, e);

	if (r != 0)
		return r < 0 ? r : 0;
	r = select_pools(c->f, a, family, &l, e);
	if (r == 0 && select_wants_family(a, family))
		r = choose_wanted(c, a, request, family, &l, e);
	else if (r == 0 && l.n > 0 && !choose_retained(c, a, request, family, &l) &&
		 !choose_own(c, a, request, &l))
		r = choose_new(c, a, request, family, &l, e);
	free(l.v);
	return r;
}

static int no_defaults(const struct select_facts *f, const struct ip_request *a, struct err *e)
{
	const char *family = a->no4 ? "IPv6 " : a->no6 ? "IPv4 " : "";
	auto_buf struct buf out;
	size_t n = 0;

	for (size_t i = 0; i < f->pools->n; i++)
		n += f->pools->v[i].family == 4 ? !a->no4 : !a->no6;
	buf_init(&out, 400);
	if (f->pools->n_out > 0)
		buf_printf(&out, "; %zu cannot be used: %s", f->pools->n_out,
			   f->pools->out[0].cause);
	return err_kind(
		e, ERR_CONF, -ENOENT,
		"no IPPool available, no pool selection rules of any type are specified: name "
		"pools for NIC %s, or set default: true in one of the %zu %spools%s",
		a->owner.ifname, n, family, out.len ? out.p : "");
}

static int nothing_requested(const struct select_facts *f, const struct ip_request *a,
			     struct err *e)
{
	auto_buf struct buf names;

	buf_init(&names, 300);
	if (a->no4 && a->no6)
		return err_kind(e, ERR_CONF, -ENOENT, "NIC %s requests neither IPv4 nor IPv6",
				a->owner.ifname);
	if (a->n_pools4 + a->n_pools6 == 0)
		return no_defaults(f, a, e);
	select_describe_names(a->pools4, a->n_pools4, &names);
	select_describe_names(a->pools6, a->n_pools6, &names);
	return err_kind(e, ERR_CONF, -ENOENT,
			"no IPPool available: none of the %zu pools matches %s for NIC %s",
			f->pools->n, names.p, a->owner.ifname);
}

static int choose(struct choice *c, const struct ip_request *requests, size_t request,
		  struct err *e)
{
	const struct ip_request *a = &requests[request];
	size_t before = c->d.n_picks;
	int r;

	for (size_t i = 0; i < request; i++)
		if (strcmp(requests[i].owner.container_id, a->owner.container_id) == 0 &&
		    strcmp(requests[i].owner.ifname, a->owner.ifname) == 0)
			return err_kind(e, ERR_CONF, -EINVAL, "NIC %s is requested twice",
					a->owner.ifname);
	if (a->sticky && !str_or_empty(a->owner.pod_name)[0])
		return err_kind(e, ERR_ENV, -EINVAL,
				"sticky addresses need K8S_POD_NAME in CNI_ARGS (NIC %s)",
				a->owner.ifname);
	r = choose_family(c, a, request, 4, e);
	if (r == 0)
		r = choose_family(c, a, request, 6, e);
	if (r == 0 && c->d.n_picks == before)
		r = nothing_requested(c->f, a, e);
	return r;
}

/* Returns whether a request may use this lease again. Usually all requests of a call have one
 * container, so each of the thousands of leases is compared with one container only. */
static bool concerns(const struct lease *l, const struct ip_request *requests, size_t n)
{
	if (l->state == LEASE_RETAINED || (l->state == LEASE_USED && l->sticky))
		return true;
	if (l->state != LEASE_USED)
		return false;
	for (size_t i = 0; i < n; i++)
		if ((i == 0 ||
		     requests[i].owner.container_id != requests[i - 1].owner.container_id) &&
		    lease_is(l, requests[i].owner.container_id, NULL))
			return true;
	return false;
}

static void collect(struct choice *c, const struct ip_request *requests, size_t n)
{
	for (size_t i = 0; i < c->f->leases->n; i++)
		if (concerns(&c->f->leases->v[i], requests, n))
			VEC_PUSH(c->near, c->n_near) = &c->f->leases->v[i];
}

int select_addresses(const struct select_facts *f, const struct ip_request *requests, size_t n,
		     struct decision *ret, struct err *e)
{
	struct choice c = {.f = f};
	int r = 0;

	c.from = xcalloc(f->pools->n + 1, sizeof(*c.from));
	collect(&c, requests, n);
	for (size_t i = 0; i < n && r == 0; i++)
		r = choose(&c, requests, i, e);
	free(c.from);
	free(c.near);
	lease_table_done(&c.given);
	if (r < 0) {
		decision_done(&c.d);
		return r;
	}
	*ret = c.d;
	return 0;
}

void decision_done(struct decision *d)
{
	free(d->picks);
	free(d->changes);
	*d = (struct decision){0};
}

/* --- search for an address that the request's pod had before, without allocating the address --- */

const struct pool *select_own(const struct select_facts *f, const struct ip_request *a,
			      const struct pool_list *l, struct ipaddr *ret)
{
	return adopted_of(f, NULL, a, l, false, ret);
}

const struct pool *select_own_away(const struct select_facts *f, const struct ip_request *a,
				   const struct pool_list *l, struct ipaddr *ret)
{
	return adopted_of(f, NULL, a, l, true, ret);
}
