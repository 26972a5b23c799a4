/* SPDX-License-Identifier: Apache-2.0 */
#include "ipam/lend.h"

#include "ipam/store.h"

int ipam_pools_read(struct ipam_pools *p, const struct root *r, const char *dir, struct err *e)
{
	struct ipam_pools n = {0};

	n.r = pool_set_load(r, dir ? dir : IPAM_POOL_DIR, &n.set, &n.why);
	if (n.r < 0 && e)
		*e = n.why;
	/* Pools that worked a moment ago are better than none. */
	if (n.r < 0 && p->r == 0 && p->set.n > 0)
		return n.r;
	ipam_pools_done(p);
	*p = n;
	return n.r;
}

void ipam_pools_done(struct ipam_pools *p)
{
	if (p->r == 0)
		pool_set_done(&p->set);
	*p = (struct ipam_pools){0};
}

void ipam_lend(struct ipam *i, struct ipam_pools *p)
{
	i->pools_tried = true;
	i->pools_r = p->r;
	i->pools_err = p->why;
	if (p->r == 0)
		i->pools = p->set;
}

void ipam_take_back(struct ipam *i, struct ipam_pools *p)
{
	if (p->r == 0)
		p->set = i->pools;
	i->pools = (struct pool_set){0};
}

bool ipam_holds_sticky(const struct ipam *i, const char *container_id)
{
	for (size_t k = 0; k < i->j.leases.n; k++) {
		const struct lease *l = &i->j.leases.v[k];

		if (l->state == LEASE_USED && l->sticky && lease_is(l, container_id, NULL))
			return true;
	}
	return false;
}

const struct lease_table *ipam_leases(const struct ipam *i)
{
	return &i->j.leases;
}

const char *ipam_node(const struct ipam *i)
{
	return i->node;
}
