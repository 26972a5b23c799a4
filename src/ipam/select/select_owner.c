/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses that are not just any: held already, kept for the pod, asked for by name. */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "ipam/select/select_priv.h"

static const struct pool *pool_with(const struct pool_list *l, const struct ipaddr *a)
{
	for (size_t i = 0; i < l->n; i++)
		if (ip_set_has(&l->v[i]->usable, a))
			return l->v[i];
	return NULL;
}

/* An adopted address that the pod got of us stays its own, although it is nobody else's. */
static const struct pool *pool_keeping(const struct pool_list *l, const struct ipaddr *a)
{
	const struct pool *p = pool_with(l, a);

	for (size_t i = 0; i < l->n && !p; i++)
		if (ip_set_has(&l->v[i]->adopted_here, a))
			p = l->v[i];
	return p;
}

/* Whether a lease is, or was, the sticky one of the ask's pod and interface. */
static bool is_kept_for(const struct lease *l, const struct ipam_owner *who)
{
	return (l->state == LEASE_KEPT || (l->state == LEASE_USED && l->sticky)) &&
	       strcmp(l->ifname, who->ifname) == 0 &&
	       strcmp(l->pod_name, select_text(who->pod_name)) == 0 &&
	       strcmp(l->pod_namespace, select_text(who->pod_namespace)) == 0;
}

static void give_back(struct choice *c, const struct lease *l)
{
	struct lease n = LEASE_INIT;

	n.address = l->address;
	n.state = LEASE_FREE;
	n.at_ms = c->f->now_ms;
	VEC_PUSH(c->d.changes, c->d.n_changes) = n;
}

/* Of a pool that nodes share, but not in what this node has of it now: it may be so again. */
static bool is_away(const struct pool_list *l, const struct ipaddr *a)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->v[i]->shared &&
		    (ip_set_has(&l->v[i]->open, a) || ip_set_has(&l->v[i]->adopted, a)))
			return true;
	return false;
}

/*
 * The address kept for this pod, also out of the hands of its former container: two pods of one
 * name do not live at a time. One that the pod may not or does not want to have any more
 * (other pools, no longer sticky) is given back.
 */
bool choose_kept(struct choice *c, const struct ipam_ask *a, size_t ask, uint8_t family,
		 const struct pool_list *l)
{
	bool found = false;

	if (!select_text(a->who.pod_name)[0])
		return false;
	for (size_t i = 0; i < c->n_near; i++) {
		const struct lease *s = c->near[i];
		const struct pool *p;

		if (s->address.ip.family != family || !is_kept_for(s, &a->who))
			continue;
		p = a->sticky && !found ? pool_keeping(l, &s->address.ip) : NULL;
		if (p && !choice_has(c, &s->address.ip)) {
			choice_grant(c, a, ask, p, &s->address.ip);
			found = true;
		} else if (s->state == LEASE_KEPT &&
			   !(a->sticky && !found && is_away(l, &s->address.ip))) {
			give_back(c, s);
		}
	}
	return found;
}

/*
 * By its UID it is the very pod; another pod of the name is that one's follower, and has its address
 * if that is sticky. Records do not tell interfaces: two of a pod in one pool take what there is in
 * turn.
 */
static bool is_adopted_by(const struct pool_record *r, const struct ipam_ask *a, uint64_t pod,
			  uint64_t uid)
{
	return r->pod == pod && (a->sticky || (*select_text(a->who.pod_uid) && r->uid == uid));
}

/* c: NULL, of no call. */
static bool is_to_be_had(const struct select_facts *f, const struct choice *c, const struct pool *p,
			 const struct ip_set *s, const struct ipaddr *ip)
{
	return ip_set_has(s, ip) && !(c && choice_has(c, ip)) &&
	       select_state(f, p, ip) != SEL_TAKEN;
}

/* away: in another node's part of the pool, as far as is known. */
static const struct ip_set *adopted_part(const struct pool *p, const struct pool_record *r,
					 bool away)
{
	return away && !ip_set_has(&p->adopted_here, &r->ip) ? &p->adopted : &p->adopted_here;
}

static const struct pool *adopted_of(const struct select_facts *f, const struct choice *c,
				     const struct ipam_ask *a, const struct pool_list *l, bool away,
				     struct ipaddr *ret)
{
	uint64_t uid = pool_record_key(select_text(a->who.pod_uid)), pod;
	auto_free char *name =
		xasprintf("%s/%s", select_text(a->who.pod_namespace), select_text(a->who.pod_name));

	pod = pool_record_key(name);
	for (size_t i = 0; i < l->n && *select_text(a->who.pod_name); i++)
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

static const struct pool *had_by(const struct select_facts *f, const struct choice *c,
				 const struct ipam_ask *a, const struct pool_list *l,
				 struct ipaddr *ret)
{
	for (size_t k = 0; k < a->n_had; k++)
		for (size_t i = 0; i < l->n; i++) {
			const struct pool *p = l->v[i];

			if (!is_to_be_had(f, c, p, &p->usable, &a->had[k]))
				continue;
			*ret = a->had[k];
			return p;
		}
	return NULL;
}

const struct pool *select_own(const struct select_facts *f, const struct ipam_ask *a,
			      const struct pool_list *l, struct ipaddr *ret)
{
	const struct pool *p = had_by(f, NULL, a, l, ret);

	return p ? p : adopted_of(f, NULL, a, l, false, ret);
}

const struct pool *select_own_away(const struct select_facts *f, const struct ipam_ask *a,
				   const struct pool_list *l, struct ipaddr *ret)
{
	return adopted_of(f, NULL, a, l, true, ret);
}

bool choose_own(struct choice *c, const struct ipam_ask *a, size_t ask, const struct pool_list *l)
{
	struct ipaddr ip;
	const struct pool *p = had_by(c->f, c, a, l, &ip);

	if (!p)
		p = adopted_of(c->f, c, a, l, false, &ip);
	if (p)
		choice_grant(c, a, ask, p, &ip);
	return p != NULL;
}

/* What is held must be what is asked for: no name, or the very addresses. */
static int check_held(const struct choice *c, const struct ipam_ask *a, uint8_t family,
		      const struct lease *held, struct err *e)
{
	char want[IP_TEXT_MAX], has[IP_TEXT_MAX];

	for (size_t i = 0; i < a->n_want; i++)
		if (a->want[i].family == family && !choice_has(c, &a->want[i]))
			return err_kind(e, ERR_CONF, -EEXIST,
					"NIC %s asks for %s but holds %s already: DEL comes first",
					a->who.ifname, ip_str(&a->want[i], want),
					ip_str(&held->address.ip, has));
	return 1;
}

/* 1: the owner has addresses of this family already, from an earlier ask. */
int choose_held(struct choice *c, const struct ipam_ask *a, size_t ask, uint8_t family,
		struct err *e)
{
	const struct lease *held = NULL;

	for (size_t i = 0; i < c->n_near; i++) {
		const struct lease *l = c->near[i];

		if (l->state != LEASE_USED || l->address.ip.family != family ||
		    !lease_is(l, a->who.container_id, a->who.ifname))
			continue;
		choice_pick(c, ask, &l->address, pool_of(c->f->pools, &l->address.ip), true);
		held = l;
	}
	return held ? check_held(c, a, family, held, e) : 0;
}

bool wants_family(const struct ipam_ask *a, uint8_t family)
{
	for (size_t i = 0; i < a->n_want; i++)
		if (a->want[i].family == family)
			return true;
	return false;
}

static int not_to_be_had(const struct choice *c, const struct ipam_ask *a, const struct ipaddr *ip,
			 const struct pool *p, struct err *e)
{
	const struct lease *l = lease_find(c->f->leases, ip);
	char addr[IP_TEXT_MAX];
	auto_buf struct buf who;

	buf_init(&who, 400);
	ip_str(ip, addr);
	if (l && l->state == LEASE_QUARANTINED)
		return err_kind(e, ERR_AGAIN, -EADDRINUSE,
				"NIC %s asks for %s, which is in quarantine after a conflict",
				a->who.ifname, addr);
	if (l && !choice_has(c, ip))
		lease_owner_str(l, &who);
	return err_kind(e, ERR_AGAIN, -EADDRINUSE, "NIC %s asks for %s of pool '%s', which %s has",
			a->who.ifname, addr, p->name, who.len ? who.p : "another rail of this pod");
}

/* In none of this node's pools, or in another node's part of one. */
static int not_here(const struct ipam_ask *a, const struct ipaddr *ip, const struct pool_list *l,
		    struct err *e)
{
	char addr[IP_TEXT_MAX];
	auto_buf struct buf names;

	buf_init(&names, 300);
	ip_str(ip, addr);
	for (size_t i = 0; i < l->n; i++)
		if (ip_set_has(&l->v[i]->open, ip))
			return err_kind(e, ERR_AGAIN, -EADDRNOTAVAIL,
					"NIC %s asks for %s of pool '%s', which this node does not "
					"have",
					a->who.ifname, addr, l->v[i]->name);
	select_words_pools(l, &names);
	return err_kind(e, ERR_CONF, -EADDRNOTAVAIL,
			"NIC %s asks for %s, which none of its pools %s can give", a->who.ifname,
			addr, names.p);
}

/* Addresses asked for by name: any of the ask's pools that has them. */
int choose_wanted(struct choice *c, const struct ipam_ask *a, size_t ask, uint8_t family,
		  const struct pool_list *l, struct err *e)
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
		choice_grant(c, a, ask, p, ip);
	}
	return 0;
}
