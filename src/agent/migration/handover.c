/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/migration/handover.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/migration/handover_priv.h"
#include "base/cleanup.h"
#include "base/log.h"

const struct kube_kind handover_kind = {"spiderpool.spidernet.io", "v2beta1", "spiderendpoints",
					"spiderendpoint", true};

/* --- what requests want --- */

static struct coming *find(const struct handover *h, const char *ns, const char *name)
{
	for (size_t i = 0; i < h->n; i++)
		if (strcmp(h->v[i]->name, name) == 0 && strcmp(h->v[i]->ns, ns) == 0)
			return h->v[i];
	return NULL;
}

/* One that is kept, but was given up a moment ago, is as good as none. */
static bool is_here(struct ipam *store, const struct lease *l)
{
	const struct pool *p = pool_of(ipam_pools(store), &l->address.ip);

	return !p || ip_set_has(&p->usable, &l->address.ip) ||
	       ip_set_has(&p->adopted_here, &l->address.ip);
}

static bool is_of(struct ipam *store, const struct lease *l, const struct identity *who,
		  const char *ifname)
{
	return (l->state == LEASE_USED || (l->state == LEASE_KEPT && is_here(store, l))) &&
	       strcmp(l->pod_name, who->name) == 0 && strcmp(l->pod_namespace, who->ns) == 0 &&
	       strcmp(l->ifname, ifname) == 0;
}

/* Whether the journal has something for each of the asks. */
static bool is_known(struct ipam *store, const struct identity *who, const struct ipam_ask *asks,
		     size_t n)
{
	const struct lease_table *t = ipam_leases(store);

	for (size_t i = 0; i < n; i++) {
		size_t k = 0;

		while (k < t->n && !is_of(store, &t->v[k], who, asks[i].who.ifname))
			k++;
		if (k == t->n)
			return false;
	}
	return true;
}

int handover_wait(struct handover *h, struct ipam *store, const struct identity *who,
		  const char *uid, const struct ipam_ask *asks, size_t n, bool last, struct err *e)
{
	struct coming *c = find(h, who->ns, who->name);

	if (c && strcmp(c->uid, uid) != 0)
		coming_renew(c, who, uid);
	if (!c && is_known(store, who, asks, n))
		return 0;
	if (!c)
		c = coming_new(h, who, uid, asks[0].who.ifname);
	c->asked_ms = handover_now(h);
	if (c->done || (last && c->migrating))
		return 0;
	if (!last)
		return 1;
	return err_kind(e, ERR_AGAIN, -EAGAIN, "addresses that are kept for '%s/%s': %s", who->ns,
			who->name,
			c->why ? c->why : "what it had is not read from the API server yet");
}

void handover_came(struct handover *h, const struct identity *who)
{
	struct coming *c = find(h, who->ns, who->name);

	if (!c)
		return;
	coming_free(c);
	coming_pin(h);
}

/* --- what came --- */

static void keep(const struct coming *c, const struct handover_ip *x, struct ipam *store)
{
	const struct pool *p = pool_of(ipam_pools(store), &x->ip);
	const struct lease *l = lease_find(ipam_leases(store), &x->ip);
	const struct ipam_owner who = {.pod_namespace = c->ns,
				       .pod_name = c->name,
				       .ifname = *x->ifname ? x->ifname : c->ifname};
	struct err e = ERR_INIT;
	struct ipnet net;

	if (!p || !ip_set_has(&p->usable, &x->ip) || (l && l->state != LEASE_FREE))
		return;
	net = (struct ipnet){x->ip, p->subnet.len};
	if (ipam_keep(store, &net, &who, p->name, &e) < 0)
		log_error("an address that came from another node is not kept",
			  LOG_S("namespace", c->ns), LOG_S("name", c->name),
			  LOG_S("error", e.text));
}

void handover_begin(struct handover *h, struct ipam *store)
{
	for (size_t i = 0; i < h->n; i++)
		for (size_t k = 0; k < h->v[i]->place.n; k++)
			keep(h->v[i], &h->v[i]->place.v[k], store);
}

/* --- life --- */

struct handover *handover_new(const struct handover_conf *c)
{
	struct handover *h = xcalloc(1, sizeof(*h));

	h->conf = *c;
	handover_watch(h);
	return h;
}

void handover_free(struct handover *h)
{
	if (!h)
		return;
	while (h->n)
		coming_free(h->v[h->n - 1]);
	if (lender_blocks(h->conf.lender))
		blocks_cancel(lender_blocks(h->conf.lender), h);
	free(h->v);
	kube_informer_free(h->informer);
	kube_cancel(h->refusing);
	loop_del_timer(h->sweep);
	free(h->given);
	free(h);
}
