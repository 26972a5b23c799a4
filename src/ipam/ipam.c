/* SPDX-License-Identifier: Apache-2.0 */
/* Asking: facts from the store, select_addresses() decides, the journal makes it so. */
#include "ipam/ipam.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ipam/store.h"

static void add_route(struct ipam_grant *g, const struct ipnet *dst, const struct ipaddr *gw)
{
	VEC_PUSH(g->routes, g->n_routes) = (struct pool_route){*dst, *gw};
}

static void fill_from_pool(struct ipam_grant *g, bool clean_gateway)
{
	const struct pool *p = g->pool;
	struct ipnet everywhere;

	if (!p)
		return;
	g->gateway = p->gateway;
	for (size_t i = 0; i < p->n_routes; i++)
		add_route(g, &p->routes[i].dst, &p->routes[i].gw);
	if (!p->gateway.family || clean_gateway)
		return;
	everywhere = (struct ipnet){ip_from_num(p->family, 0), 0};
	add_route(g, &everywhere, &p->gateway);
}

static struct ipam_grant *grants_of(const struct decision *d, const struct ipam_ask *asks)
{
	struct ipam_grant *v = xcalloc(d->n_picks + 1, sizeof(*v));

	for (size_t i = 0; i < d->n_picks; i++) {
		const struct select_pick *p = &d->picks[i];

		v[i] = (struct ipam_grant){
			.ask = p->ask,
			.address = p->address,
			.pool = p->pool,
			.ifname = asks[p->ask].who.ifname,
			.was_there = p->was_there,
		};
		fill_from_pool(&v[i], asks[p->ask].clean_gateway);
	}
	return v;
}

static int no_pools(const struct ipam *i, struct err *e)
{
	if (i->pools.of_cluster)
		return err_kind(e, ERR_CONF, -ENOENT,
				"no SpiderIPPool that can be used: make one, such as spec {subnet: "
				"172.16.1.0/24, ips: [172.16.1.10-172.16.1.99], default: true}%s%s",
				i->pools.n_out ? "; one that cannot: " : "",
				i->pools.n_out ? i->pools.out[0].why : "");
	return err_kind(
		e, ERR_CONF, -ENOENT,
		"no pool in '%s': put a file there, such as rails.conf with '[pool rail0]', "
		"'subnet = 172.16.1.0/24' and 'default = yes'",
		i->pool_dir);
}

static int decide(struct ipam *i, const struct ipam_ask *asks, size_t n, struct decision *ret,
		  struct err *e)
{
	struct select_facts facts;
	int r = ipam_load_pools(i, e);

	if (r == 0 && i->pools.n == 0)
		r = no_pools(i, e);
	if (r == 0)
		r = store_adopt(i, e);
	if (r < 0)
		return r;
	facts = store_facts(i);
	return select_addresses(&facts, asks, n, ret, e);
}

int ipam_try(struct ipam *i, const struct ipam_ask *asks, size_t n, struct err *e)
{
	struct decision d = {0};
	int r = decide(i, asks, n, &d, e);

	decision_done(&d);
	return r;
}

int ipam_allocate(struct ipam *i, const struct ipam_ask *asks, size_t n, struct ipam_grant **ret,
		  size_t *n_ret, struct err *e)
{
	struct decision d;
	int r = decide(i, asks, n, &d, e);

	if (r < 0)
		return r;
	r = store_commit(i, d.changes, d.n_changes, e);
	if (r == 0) {
		*ret = grants_of(&d, asks);
		*n_ret = d.n_picks;
	}
	decision_done(&d);
	return r;
}

void ipam_grants_free(struct ipam_grant *g, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(g[i].routes);
	free(g);
}

int ipam_held(struct ipam *i, const char *container_id, const char *ifname, struct ipam_grant **ret,
	      size_t *n_ret, struct err *e)
{
	struct ipam_grant *v = NULL;
	size_t n = 0;

	(void)e;
	/* What is held does not depend on the pools; gateway and routes are extra. */
	ipam_load_pools(i, NULL);
	for (size_t k = 0; k < i->j.leases.n; k++) {
		const struct lease *l = &i->j.leases.v[k];
		struct ipam_grant *g;

		if (l->state != LEASE_USED || !lease_is(l, container_id, ifname))
			continue;
		g = &VEC_PUSH(v, n);
		g->address = l->address;
		g->ifname = l->ifname;
		g->was_there = true;
		g->pool = pool_of(&i->pools, &l->address.ip);
		fill_from_pool(g, false);
	}
	*ret = v;
	*n_ret = n;
	return 0;
}
