/* SPDX-License-Identifier: Apache-2.0 */
/* What is held, and giving it back: the engine's own verbs, for each pool. */
#include <stdlib.h>

#include "base/cleanup.h"
#include "ipam/whereabouts/whereabouts_priv.h"

static bool within(const struct whereabouts_range *r, const struct ipaddr *ip)
{
	return ip_cmp(ip, &r->first) >= 0 && ip_cmp(ip, &r->last) <= 0;
}

bool whereabouts_counts_for(const struct whereabouts_ask *a, size_t range, const struct ipaddr *ip)
{
	const struct whereabouts_range *r = &a->ranges[range];

	if (within(r, ip))
		return true;
	for (size_t i = 0; i < a->n_ranges; i++)
		if (ipnet_eq(&a->ranges[i].net, &r->net) && within(&a->ranges[i], ip))
			return false;
	return true;
}

/* The grant that counts for a range and for no earlier one. */
static struct ipnet of_range(const struct whereabouts_ask *a, size_t range,
			     const struct ipam_grant *g, size_t n, const struct ipnet *before)
{
	for (size_t i = 0; i < n; i++) {
		const struct ipaddr *ip = &g[i].address.ip;
		bool told = !whereabouts_counts_for(a, range, ip);

		for (size_t k = 0; k < range && !told; k++)
			told = ip_eq(&before[k].ip, ip);
		if (!told)
			return g[i].address;
	}
	return (struct ipnet){0};
}

int whereabouts_held(struct whereabouts *w, const struct whereabouts_ask *a, struct ipnet *ret,
		     struct err *e)
{
	int r = 0;

	for (size_t i = 0; i < a->n_ranges && r == 0; i++) {
		size_t n = 0, pool = whereabouts_find(w, &a->ranges[i].net, a->network_name);
		struct ipam_grant *g = NULL;

		ret[i] = (struct ipnet){0};
		if (pool == w->n)
			continue;
		r = ipam_held(w->v[pool].store, a->who.container_id, a->who.ifname, &g, &n, e);
		if (r == 0)
			ret[i] = of_range(a, i, g, n, ret);
		ipam_grants_free(g, n);
	}
	return r;
}

/* Every pool gets its chance, whatever one says; the first failure is told. */
static int sum(int total, int r, const struct err *why, struct err *e)
{
	if (total < 0 || r >= 0)
		return total < 0 ? total : total + r;
	if (e)
		*e = *why;
	return r;
}

int whereabouts_release(struct whereabouts *w, const char *container_id, const char *ifname,
			struct err *e)
{
	int total = 0;

	for (size_t i = 0; i < w->n; i++) {
		struct err why = ERR_INIT;
		int r = ipam_release(w->v[i].store, container_id, ifname, &why);

		total = sum(total, r, &why, e);
	}
	return total;
}

int whereabouts_collect(struct whereabouts *w, const char *network, const struct ipam_valid *v,
			size_t n, struct err *e)
{
	int total = 0;

	for (size_t i = 0; i < w->n; i++) {
		struct err why = ERR_INIT;
		int r = ipam_gc(w->v[i].store, network, v, n, &why);

		total = sum(total, r, &why, e);
	}
	return total;
}
