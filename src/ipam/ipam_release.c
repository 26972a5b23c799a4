/* SPDX-License-Identifier: Apache-2.0 */
/* Giving back. None of it needs the pools: those may be gone by the time of a DEL. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "ipam/store.h"

struct changes {
	struct lease *v;
	size_t n;
};

static void changes_done(struct changes *c)
{
	free(c->v);
}
#define auto_changes __attribute__((cleanup(changes_done)))

/* A sticky address stays with its pod's name, any other one rests. */
static void give_back(const struct ipam *i, const struct lease *l, struct changes *c)
{
	struct lease n = LEASE_INIT;

	n.address = l->address;
	n.at_ms = i->now_ms();
	n.state = l->sticky ? LEASE_KEPT : LEASE_FREE;
	if (l->sticky) {
		n.sticky = true;
		n.pod_namespace = l->pod_namespace;
		n.pod_name = l->pod_name;
		n.ifname = l->ifname;
		n.pool = l->pool;
	}
	VEC_PUSH(c->v, c->n) = n;
}

static bool is_owner(const struct ipam_valid *v, const char *container_id, const char *ifname)
{
	return strcmp(v->container_id, container_id) == 0 &&
	       (!v->ifname || !*ifname || strcmp(v->ifname, ifname) == 0);
}

struct owners {
	const struct ipam *i;
	const struct ipam_valid *v;
	size_t n;
};

static bool any_owner(const struct owners *o, const char *container_id, const char *ifname)
{
	for (size_t k = 0; k < o->n; k++)
		if (is_owner(&o->v[k], container_id, ifname))
			return true;
	return false;
}

/* By container alone, only addresses of our pools are ours to give back: eth0's is not. */
static bool adopted_by_owner(const void *arg, const char *network, const struct ipaddr *a,
			     const char *container_id, const char *ifname)
{
	const struct owners *o = arg;

	(void)network;
	for (size_t k = 0; k < o->n; k++)
		if (is_owner(&o->v[k], container_id, ifname) &&
		    (o->v[k].ifname || pool_of(&o->i->pools, a)))
			return true;
	return false;
}

static bool whole_container(const struct owners *o)
{
	for (size_t k = 0; k < o->n; k++)
		if (!o->v[k].ifname)
			return true;
	return false;
}

int ipam_release_many(struct ipam *i, const struct ipam_valid *v, size_t n, struct err *e)
{
	struct owners o = {i, v, n};
	auto_changes struct changes c = {0};
	int r, adopted = 0;

	for (size_t k = 0; k < i->j.leases.n; k++) {
		const struct lease *l = &i->j.leases.v[k];

		if (l->state == LEASE_USED && any_owner(&o, l->container_id, l->ifname))
			give_back(i, l, &c);
	}
	r = store_commit(i, c.v, c.n, e);
	if (r < 0)
		return r;
	/* What we granted, host-local did not: its folder is only looked at for the others. */
	if (whole_container(&o))
		ipam_load_pools(i, NULL);
	if (c.n < n || whole_container(&o))
		adopted = adopt_remove(i, adopted_by_owner, &o, e);
	return adopted < 0 ? adopted : (int)c.n + adopted;
}

int ipam_release(struct ipam *i, const char *container_id, const char *ifname, struct err *e)
{
	struct ipam_valid v = {container_id, ifname};

	return ipam_release_many(i, &v, 1, e);
}

static bool is_kept_as(const struct lease *l, const struct ipam_owner *who)
{
	return l->state == LEASE_KEPT && strcmp(l->pod_namespace, who->pod_namespace) == 0 &&
	       strcmp(l->pod_name, who->pod_name) == 0 && strcmp(l->ifname, who->ifname) == 0;
}

int ipam_keep(struct ipam *i, const struct ipnet *a, const struct ipam_owner *who, const char *pool,
	      struct err *e)
{
	const struct lease *l = lease_find(&i->j.leases, &a->ip);
	struct lease n = LEASE_INIT;
	char text[IP_TEXT_MAX];

	if (l && is_kept_as(l, who))
		return 0;
	if (l && l->state != LEASE_FREE)
		return err_kind(e, ERR_AGAIN, -EADDRINUSE,
				"%s is not to be kept for '%s/%s': somebody else has it",
				ip_str(&a->ip, text), who->pod_namespace, who->pod_name);
	n.address = *a;
	n.state = LEASE_KEPT;
	n.sticky = true;
	n.at_ms = i->now_ms();
	n.pod_namespace = who->pod_namespace;
	n.pod_name = who->pod_name;
	n.ifname = who->ifname;
	n.pool = pool;
	return store_commit(i, &n, 1, e);
}

int ipam_quarantine(struct ipam *i, const struct ipaddr *a, const struct mac *other, struct err *e)
{
	const struct lease *l = lease_find(&i->j.leases, a);
	struct lease n = LEASE_INIT;
	char text[MAC_TEXT_MAX];

	n.address = l ? l->address : ipnet_host(a);
	n.state = LEASE_QUARANTINED;
	n.at_ms = i->now_ms();
	if (other)
		n.other = mac_str(other, text);
	return store_commit(i, &n, 1, e);
}

struct gc {
	const struct ipam *i;
	const char *network;
	struct owners valid;
};

static bool adopted_and_gone(const void *arg, const char *network, const struct ipaddr *a,
			     const char *container_id, const char *ifname)
{
	const struct gc *g = arg;

	/* A file without a word in it (a crash of host-local) may be anybody's. */
	return *container_id && strcmp(network, g->network) == 0 && pool_of(&g->i->pools, a) &&
	       !any_owner(&g->valid, container_id, ifname);
}

int ipam_gc(struct ipam *i, const char *network, const struct ipam_valid *v, size_t n,
	    struct err *e)
{
	struct gc g = {i, network, {i, v, n}};
	auto_changes struct changes c = {0};
	int r, adopted;

	for (size_t k = 0; k < i->j.leases.n; k++) {
		const struct lease *l = &i->j.leases.v[k];

		if (l->state == LEASE_USED && strcmp(l->network, network) == 0 &&
		    !any_owner(&g.valid, l->container_id, l->ifname))
			give_back(i, l, &c);
	}
	r = store_commit(i, c.v, c.n, e);
	if (r < 0)
		return r;
	ipam_load_pools(i, NULL);
	adopted = adopt_remove(i, adopted_and_gone, &g, e);
	return adopted < 0 ? adopted : (int)c.n + adopted;
}

static bool adopted_address(const void *arg, const char *network, const struct ipaddr *a,
			    const char *container_id, const char *ifname)
{
	(void)network;
	(void)container_id;
	(void)ifname;
	return ip_eq(arg, a);
}

/* A person said so: no rest, no keeping. */
int ipam_release_ip(struct ipam *i, const struct ipaddr *a, struct err *e)
{
	const struct lease *l = lease_find(&i->j.leases, a);
	struct lease n = LEASE_INIT;
	char text[IP_TEXT_MAX];
	int adopted;

	if (!l || l->state == LEASE_ADOPTED || l->state == LEASE_FREE) {
		/* host-local's other addresses are none of ours. */
		ipam_load_pools(i, NULL);
		adopted = pool_of(&i->pools, a) ? adopt_remove(i, adopted_address, a, e) : 0;
		if (adopted != 0)
			return adopted < 0 ? adopted : 0;
		return err_set(e, -ENOENT, "nobody holds %s", ip_str(a, text));
	}
	n.address = l->address;
	n.state = LEASE_FREE;
	return store_commit(i, &n, 1, e);
}
