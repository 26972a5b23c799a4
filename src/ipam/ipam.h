/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_IPAM_IPAM_H
#define UNIRAIL_IPAM_IPAM_H

/*
 * The IPAM engine on the local store: pools from a directory, allocations in a journal protected by
 * a lock. One call answers for all interfaces of a pod: all or nothing, durable (fsync) when it
 * returns.
 *
 * An address belongs to (container id, interface). The same request again returns the same address.
 * A new container of a pod of the same name is a new owner, unless the address is sticky.
 *
 * Addresses of this node's pools that host-local allocated (its files are in hostlocal_dir) count
 * as used ("adopted") until DEL of their owner.
 */

#include "spec/pod.h"
#include "ipam/pool/pool.h"

struct ipam_paths {
	const char *pool_dir, *state_dir, *hostlocal_dir; /* NULL: the directory in base/paths.h */
	const char *node; /* this node's name; NULL: gethostname() */
	int lock_ms;	  /* time to wait for the lock; 0: 30 s */
	/*
	 * Only calls that change nothing are allowed (others: -EROFS). Nothing is written: a store
	 * that was never used is not created and counts as empty; an anchor that lags behind the
	 * journal and the temporary files of a killed process are not touched.
	 */
	bool read_only;
	int64_t (*now_ms)(void); /* returns ms since the epoch; NULL: the real clock */
};

/* an open store: locked from open to close (read_only: only if the lock file exists) */
struct ipam;

/* Takes the lock and reads the journal. The pools are read when a call first needs them: releasing
 * addresses works without them. `r` must outlive the store. */
int ipam_open(struct ipam **ret, const struct root *r, const struct ipam_paths *p, struct err *e);
void ipam_close(struct ipam *i);
void ipam_cleanup(struct ipam **i);
#define auto_ipam __attribute__((cleanup(ipam_cleanup)))
/* Reads the pools unless an earlier call did; returns the same error each time. */
int ipam_load_pools(struct ipam *i, struct err *e);
/* Returns the pools. The set is empty until they are read, and after a failure to read them. */
const struct pool_set *ipam_pools(const struct ipam *i);

struct ipam_owner {
	const char *container_id, *ifname;		/* required */
	const char *pod_namespace, *pod_name, *pod_uid; /* may be NULL */
	const char *netns;				/* may be NULL; stored for `pool check` */
	const char *network;				/* CNI network name, for GC; may be NULL */
};

/* The request of one interface. */
struct ip_request {
	struct ipam_owner owner;
	const char *const *pools4; /* pool names or wildcards in order of preference */
	size_t n_pools4;
	const char *const *pools6;
	size_t n_pools6; /* both lists empty: the default pools of each family */
	bool no4, no6; /* request no address of this family, even if pools are listed or default */
	/* Matched against a pool's affinities and networks. NULL: unknown; then pools with such a
	 * restriction are not used. */
	const struct pod_facts *pod;
	const struct place_facts *place;
	/* use only pools that list the request's network, or that list no network and whose
	 * subnet contains one of `nets` (matchMasterSubnet) */
	bool match_subnet;
	const struct ipnet *nets; /* addresses of the master interface (or of the PF) */
	size_t n_nets;
	const char *master; /* name of the master, for error messages */
	bool sticky; /* retain the address for (namespace, pod, interface) after its release */
	bool clean_gateway; /* do not add the default route through the pool's gateway */
	/* addresses that the user requested explicitly; each must be free and in one of the
	 * request's pools */
	const struct ipaddr *want;
	size_t n_want;
};

/* One address of one interface. */
struct ip_allocation {
	size_t request;		 /* index of the request; ipam_held(): 0 */
	struct ipnet address;	 /* with the subnet's prefix length */
	struct ipaddr gateway;	 /* family 0: none */
	const struct pool *pool; /* borrowed from the open store; NULL: deleted or not readable */
	const char *ifname;	 /* borrowed from the open store or the request */
	/* routes of the pool, then the default route if the pool has a gateway, unless
	 * clean_gateway */
	struct pool_route *routes;
	size_t n_routes;
	bool was_there; /* already allocated by an earlier request of the same owner */
};

/*
 * Allocates for all requests or none. Errors name interface and pool: pool exhausted (with the
 * number of addresses and some of their owners; kind ERR_AGAIN), pool not found, or all pools
 * filtered out, with the reasons (kind ERR_CONF). Results are in the order of the requests, IPv4
 * before IPv6.
 */
int ipam_allocate(struct ipam *i, const struct ip_request *requests, size_t n,
		  struct ip_allocation **ret, size_t *n_ret, struct err *e);
/* Returns 0 if ipam_allocate() would succeed now, otherwise its error; changes nothing. */
int ipam_try(struct ipam *i, const struct ip_request *requests, size_t n, struct err *e);
void ip_allocations_free(struct ip_allocation *g, size_t n);

/* Sets *ret to the addresses of (container, interface), *n_ret to their number, which may be 0;
 * ifname NULL: all interfaces. Returns 0. Routes include the default route, since the store does
 * not record clean_gateway. */
int ipam_held(struct ipam *i, const char *container_id, const char *ifname,
	      struct ip_allocation **ret, size_t *n_ret, struct err *e);
/*
 * Releases the addresses (sticky ones are retained for their pod); ifname NULL: all interfaces.
 * Returns how many addresses these are, which may be 0. ipam_release_many() releases the addresses
 * of several owners in one change of the journal.
 */
int ipam_release(struct ipam *i, const char *container_id, const char *ifname, struct err *e);
struct ipam_valid {
	const char *container_id, *ifname;
};
int ipam_release_many(struct ipam *i, const struct ipam_valid *v, size_t n, struct err *e);
/*
 * Retains an address for a pod's name before the pod requests it, as the release of a sticky
 * address does: the address was migrated from another node (block/migration.h). -EADDRINUSE: the
 * address is used, in quarantine, or retained for another owner.
 */
int ipam_keep(struct ipam *i, const struct ipnet *a, const struct ipam_owner *owner,
	      const char *pool, struct err *e);
/*
 * Records addresses of pods that are missing in this journal (the earlier journal was lost) as
 * used, in one change. An address that is already used, retained or in quarantine is not changed. v
 * is sorted by address; of equal addresses the first counts. Returns how many addresses were new.
 */
struct ipam_known {
	struct ipnet address;
	/* container_id: for ipam_know(), any string that is not the id of a container; for
	 * ipam_repair(), the id of the container, "": unknown */
	struct ipam_owner owner;
	const char *pool;
};
int ipam_know(struct ipam *i, const struct ipam_known *v, size_t n, struct err *e);
/* Removes a conflicting address from its owner; the address is not allocated again before its
 * quarantine expires. */
int ipam_quarantine(struct ipam *i, const struct ipaddr *a, const struct mac *other, struct err *e);
/* Like ipam_quarantine(), for several addresses in one change; no address may occur twice. */
struct ipam_conflict {
	struct ipaddr address;
	struct mac other; /* MAC of the other host; len 0: unknown */
};
int ipam_quarantine_many(struct ipam *i, const struct ipam_conflict *v, size_t n, struct err *e);
/* Releases all addresses of `network` whose (container, interface) is not in v; returns the number
 * of released addresses. */
int ipam_gc(struct ipam *i, const char *network, const struct ipam_valid *v, size_t n,
	    struct err *e);

/* One address with its state and owner, as `unirail pool` shows it. */
struct ipam_record {
	struct ipaddr ip;
	const char *pool; /* name of the pool; "": no pool has the address now */
	/* state of the address, "used" "cooldown" "quarantined" "sticky" "adopted" */
	const char *state;
	const char *container_id, *ifname, *pod_namespace, *pod_name, *pod_uid, *network;
	/* MAC address that answered for an address in quarantine; otherwise "" */
	const char *other;
	int64_t since_ms, until_ms; /* since the epoch; until 0: the state does not expire */
};
/* All leases in the order of addresses, except those whose reuse delay or quarantine is over; the
 * caller frees *ret. */
int ipam_records(struct ipam *i, struct ipam_record **ret, size_t *n, struct err *e);
/* Releases an address regardless of its owner, or ends its quarantine. -ENOENT: the address is not
 * used, retained, adopted or in quarantine. */
int ipam_release_ip(struct ipam *i, const struct ipaddr *a, struct err *e);
/* Lists the free addresses of a pool, without those in their reuse delay, lowest first, at most
 * `max`. The caller frees *ret. */
int ipam_free_list(struct ipam *i, const struct pool *p, size_t max, struct ipaddr **ret, size_t *n,
		   struct err *e);
/* Verifies that journal, pools, host-local's files and the pods' network namespaces agree; writes
 * one line per finding to b. Returns the number of findings. */
int ipam_check(struct ipam *i, struct buf *b, struct err *e);
/*
 * Replaces a journal that ipam_open() refuses (-EBADMSG) by an empty one, on a node whose addresses
 * the cluster knows as well. First the log of the node's blocks (at the path `blocks`) is replaced,
 * so that the node treats its blocks as those of a lost log; then journal and anchor are moved
 * aside. Each step is durable before the next: after a crash between two steps ipam_open() still
 * refuses the journal. *aside: the journal's new path, freed by the caller; NULL: the journal is
 * intact. Of the journals moved aside only the latest RECREATED_RETAINED are retained. No agent may
 * have the store open.
 */
enum { RECREATED_RETAINED = 8 };
int ipam_recreate(const struct root *r, const struct ipam_paths *p, const char *blocks,
		  char **aside, struct err *e);
/* Repairs a damaged journal that ipam_open() refuses (-EBADMSG); see journal.h. `found`: addresses
 * found in the pods themselves; an address in no pool is ignored, unless there are no pools. */
int ipam_repair(const struct root *r, const struct ipam_paths *p, const struct ipam_known *found,
		size_t n_found, struct buf *message, struct err *e);

#endif
