/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_IPAM_IPAM_H
#define UNIRAIL_IPAM_IPAM_H

/*
 * The address engine on the local store: pools from a folder, allocations in a journal beside a
 * lock. One call answers for all rails of a pod: all or nothing, durable (fsync) when it returns.
 *
 * An address belongs to (container id, interface). The same ask again gives the same address.
 */

#include "ipam/pool.h"

#define IPAM_POOL_DIR	   "/etc/unirail/pools"
#define IPAM_STATE_DIR	   "/var/lib/unirail/ipam"
#define IPAM_HOSTLOCAL_DIR "/var/lib/cni/networks"

struct ipam_paths {
	const char *pool_dir, *state_dir, *hostlocal_dir; /* NULL: the defaults above */
	const char *node;   /* this node's name; NULL: gethostname() */
	int lock_ms;	    /* how long to wait for the lock; 0: 10 s */
};

struct ipam; /* open store: lock held from open to close */

int ipam_open(struct ipam **ret, const struct root *r, const struct ipam_paths *p, struct err *e);
void ipam_close(struct ipam *i);
void ipam_cleanup(struct ipam **i);
#define auto_ipam __attribute__((cleanup(ipam_cleanup)))
const struct pool_set *ipam_pools(const struct ipam *i);

struct ipam_owner {
	const char *container_id, *ifname; /* required */
	const char *pod_namespace, *pod_name, *pod_uid; /* may be NULL */
	const char *netns; /* may be NULL; kept for `pool check` */
	const char *network; /* CNI network name, for GC; may be NULL */
};

/* One rail's wish. */
struct ipam_ask {
	struct ipam_owner who;
	const char *const *pools4; /* names or wildcards in order of preference */
	size_t n_pools4;
	const char *const *pools6;
	size_t n_pools6; /* both lists empty: the default pools of each family */
	bool match_subnet; /* only pools whose subnet holds one of `nets` (matchMasterSubnet) */
	const struct ipnet *nets; /* the master's (or PF's) addresses */
	size_t n_nets;
	const char *master; /* its name, for words */
	bool sticky; /* keep for (namespace, pod, interface) after release */
	bool clean_gateway; /* no default route from the pool's gateway */
	const struct ipaddr *want; /* addresses asked for by name; must be free and in a pool */
	size_t n_want;
};

/* One address of one rail. */
struct ipam_grant {
	size_t ask; /* index into the asks */
	struct ipnet address; /* with the subnet's prefix length */
	struct ipaddr gateway; /* family 0: none */
	const struct pool *pool; /* borrowed from the open store */
	struct pool_route *routes; /* pool routes, then the default route unless clean_gateway */
	size_t n_routes;
	bool was_there; /* an earlier ask of the same owner had got it */
};

/*
 * All asks, all or nothing. Failures name rail and pool: exhausted (which pool, how many
 * addresses, who holds them; kind ERR_AGAIN), no such pool, every pool filtered out and why
 * (kind ERR_CONF).
 */
int ipam_allocate(struct ipam *i, const struct ipam_ask *asks, size_t n, struct ipam_grant **ret,
		  size_t *n_ret, struct err *e);
void ipam_grants_free(struct ipam_grant *g, size_t n);

/* What (container, interface) holds; ifname NULL: every interface. Nothing held is 0. */
int ipam_held(struct ipam *i, const char *container_id, const char *ifname,
	      struct ipam_grant **ret, size_t *n_ret, struct err *e);
/* Frees it (sticky ones stay reserved for their pod); ifname NULL: every interface. Returns the
 * number freed; nothing held is 0. */
int ipam_release(struct ipam *i, const char *container_id, const char *ifname, struct err *e);
/* Takes an address in conflict out of use for the quarantine time, and from its owner. */
int ipam_quarantine(struct ipam *i, const struct ipaddr *a, const struct mac *other,
		    struct err *e);
/* Frees everything of `network` whose (container, interface) is not among the valid ones. */
struct ipam_valid {
	const char *container_id, *ifname;
};
int ipam_gc(struct ipam *i, const char *network, const struct ipam_valid *v, size_t n,
	    struct err *e);

/* For people: `unirail pool ...`. Frees by address whoever holds it. */
struct ipam_record {
	struct ipaddr ip;
	const char *pool;
	const char *state; /* "used" "resting" "quarantined" "sticky" "adopted" */
	const char *container_id, *ifname, *pod_namespace, *pod_name, *pod_uid, *network;
	int64_t since_ms, until_ms; /* epoch; until 0: no end */
};
int ipam_records(struct ipam *i, struct ipam_record **ret, size_t *n, struct err *e);
int ipam_release_ip(struct ipam *i, const struct ipaddr *a, struct err *e);
/* Journal, pools and records against each other; each finding is one line onto b. Returns the
 * number of findings. */
int ipam_check(struct ipam *i, struct buf *b, struct err *e);

#endif
