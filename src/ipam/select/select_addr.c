/* SPDX-License-Identifier: Apache-2.0 */
/* Which address: held already, asked for by name, kept for the pod or had by it since before
 * (select_owner.c), or the lowest free one. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "ipam/select/select_priv.h"

enum { FULL_WORDS_MAX = 620 };

const char *select_text(const char *s)
{
	return s ? s : "";
}

enum select_state select_state(const struct select_facts *f, const struct pool *p,
			       const struct ipaddr *a)
{
	const struct lease *l = lease_find(f->leases, a);

	if (!l)
		return SEL_FREE;
	if (l->state == LEASE_FREE)
		return lease_lasts(l, f->now_ms, pool_rest_ms(f->pools, p)) ? SEL_RESTING
									    : SEL_FREE;
	if (l->state == LEASE_QUARANTINED && !lease_lasts(l, f->now_ms, f->pools->quarantine_ms))
		return SEL_FREE;
	return SEL_TAKEN;
}

bool choice_has(const struct choice *c, const struct ipaddr *a)
{
	for (size_t i = 0; i < c->d.n_picks; i++)
		if (ip_eq(&c->d.picks[i].address.ip, a))
			return true;
	return false;
}

void choice_pick(struct choice *c, size_t ask, const struct ipnet *address, const struct pool *p,
		 bool was_there)
{
	VEC_PUSH(c->d.picks, c->d.n_picks) = (struct select_pick){
		.ask = ask, .address = *address, .pool = p, .was_there = was_there};
}

/* A new lease for the ask's owner. */
void choice_grant(struct choice *c, const struct ipam_ask *a, size_t ask, const struct pool *p,
		  const struct ipaddr *ip)
{
	struct ipnet net = {*ip, p->subnet.len};

	choice_pick(c, ask, &net, p, false);
	VEC_PUSH(c->d.changes, c->d.n_changes) = (struct lease){
		.address = net,
		.state = LEASE_USED,
		.sticky = a->sticky,
		.at_ms = c->f->now_ms,
		.container_id = a->who.container_id,
		.ifname = a->who.ifname,
		.pod_namespace = select_text(a->who.pod_namespace),
		.pod_name = select_text(a->who.pod_name),
		.pod_uid = select_text(a->who.pod_uid),
		.netns = select_text(a->who.netns),
		.network = select_text(a->who.network),
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

static bool longest_rested(const struct choice *c, const struct pool *p, struct ipaddr *ret)
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

static int used_out(const struct choice *c, const struct ipam_ask *a, uint8_t family,
		    const struct pool_list *l, struct err *e)
{
	auto_buf struct buf names, words;

	buf_init(&names, 200);
	buf_init(&words, FULL_WORDS_MAX);
	select_words_pools(l, &names);
	for (size_t i = 0; i < l->n; i++) {
		buf_str(&words, i ? "; " : "");
		select_words_full(c->f, l->v[i], l->n == 1 ? 4 : 1, &words);
	}
	return err_kind(
		e, ERR_AGAIN, -ENOSPC,
		"failed to allocate any IPv%u IP address to NIC %s from IPPools %s: all IP "
		"addresses used out: %s%s: add addresses, or see who has them: 'unirail pool "
		"show %s'",
		family, a->who.ifname, names.p, words.p,
		c->d.n_changes > 0 ? " (and other rails of this pod)" : "", l->v[0]->name);
}

static int choose_new(struct choice *c, const struct ipam_ask *a, size_t ask, uint8_t family,
		      const struct pool_list *l, struct err *e)
{
	struct ipaddr ip;

	for (size_t i = 0; i < l->n; i++)
		if (lowest(c, l->v[i], &ip) || longest_rested(c, l->v[i], &ip)) {
			choice_grant(c, a, ask, l->v[i], &ip);
			return 0;
		}
	return used_out(c, a, family, l, e);
}

static int choose_family(struct choice *c, const struct ipam_ask *a, size_t ask, uint8_t family,
			 struct err *e)
{
	struct pool_list l = {0};
	int r = choose_held(c, a, ask, family, e);

	if (r != 0)
		return r < 0 ? r : 0;
	r = select_pools(c->f, a, family, &l, e);
	if (r == 0 && wants_family(a, family))
		r = choose_wanted(c, a, ask, family, &l, e);
	else if (r == 0 && l.n > 0 && !choose_kept(c, a, ask, family, &l) &&
		 !choose_own(c, a, ask, &l))
		r = choose_new(c, a, ask, family, &l, e);
	free(l.v);
	return r;
}

static int no_defaults(const struct select_facts *f, const struct ipam_ask *a, struct err *e)
{
	const char *family = a->no4 ? "IPv6 " : a->no6 ? "IPv4 " : "";
	auto_buf struct buf out;

	buf_init(&out, 400);
	if (f->pools->n_out > 0)
		buf_printf(&out, "; %zu cannot be used: %s", f->pools->n_out, f->pools->out[0].why);
	return err_kind(
		e, ERR_CONF, -ENOENT,
		"no IPPool available, no pool selection rules of any type are specified: name "
		"pools for NIC %s, or make one of the %zu %spools default%s",
		a->who.ifname, f->pools->n, family, out.len ? out.p : "");
}

static int nothing_asked(const struct select_facts *f, const struct ipam_ask *a, struct err *e)
{
	auto_buf struct buf names;

	buf_init(&names, 300);
	if (a->no4 && a->no6)
		return err_kind(e, ERR_CONF, -ENOENT, "NIC %s asks for no family of addresses",
				a->who.ifname);
	if (a->n_pools4 + a->n_pools6 == 0)
		return no_defaults(f, a, e);
	select_words_names(a->pools4, a->n_pools4, &names);
	select_words_names(a->pools6, a->n_pools6, &names);
	return err_kind(e, ERR_CONF, -ENOENT,
			"no IPPool available: none of the %zu pools matches %s for NIC %s",
			f->pools->n, names.p, a->who.ifname);
}

static int choose(struct choice *c, const struct ipam_ask *asks, size_t ask, struct err *e)
{
	const struct ipam_ask *a = &asks[ask];
	size_t before = c->d.n_picks;
	int r;

	for (size_t i = 0; i < ask; i++)
		if (strcmp(asks[i].who.container_id, a->who.container_id) == 0 &&
		    strcmp(asks[i].who.ifname, a->who.ifname) == 0)
			return err_kind(e, ERR_CONF, -EINVAL, "NIC %s is asked for twice",
					a->who.ifname);
	if (a->sticky && !select_text(a->who.pod_name)[0])
		return err_kind(e, ERR_ENV, -EINVAL,
				"sticky addresses need K8S_POD_NAME in CNI_ARGS (NIC %s)",
				a->who.ifname);
	r = choose_family(c, a, ask, 4, e);
	if (r == 0)
		r = choose_family(c, a, ask, 6, e);
	if (r == 0 && c->d.n_picks == before)
		r = nothing_asked(c->f, a, e);
	return r;
}

/* All rails of a call mostly have one container: the others' thousands of leases are passed once. */
static bool concerns(const struct lease *l, const struct ipam_ask *asks, size_t n)
{
	if (l->state == LEASE_KEPT || (l->state == LEASE_USED && l->sticky))
		return true;
	if (l->state != LEASE_USED)
		return false;
	for (size_t i = 0; i < n; i++)
		if ((i == 0 || asks[i].who.container_id != asks[i - 1].who.container_id) &&
		    lease_is(l, asks[i].who.container_id, NULL))
			return true;
	return false;
}

static void gather(struct choice *c, const struct ipam_ask *asks, size_t n)
{
	for (size_t i = 0; i < c->f->leases->n; i++)
		if (concerns(&c->f->leases->v[i], asks, n))
			VEC_PUSH(c->near, c->n_near) = &c->f->leases->v[i];
}

int select_addresses(const struct select_facts *f, const struct ipam_ask *asks, size_t n,
		     struct decision *ret, struct err *e)
{
	struct choice c = {.f = f};
	int r = 0;

	c.from = xcalloc(f->pools->n + 1, sizeof(*c.from));
	gather(&c, asks, n);
	for (size_t i = 0; i < n && r == 0; i++)
		r = choose(&c, asks, i, e);
	free(c.from);
	free(c.near);
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
