/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_IPAM_IPAM_H
#define UNIRAIL_IPAM_IPAM_H

/*
 * The address engine on the local store: pools from a folder, allocations in a journal beside a
 * lock. One call answers for all rails of a pod: all or nothing, durable (fsync) when it returns.
 *
 * An address belongs to (container id, interface). The same ask again gives the same address; a
 * new container of a pod of the same name is a new owner, unless the address is sticky.
 *
 * Addresses of our pools that host-local gave out (its files in hostlocal_dir) count as taken,
 * "adopted", until DEL of their owner comes.
 */

#include "spec/pod.h"
#include "ipam/pool/pool.h"

#define IPAM_POOL_DIR	   "/etc/unirail/pools"
#define IPAM_STATE_DIR	   "/var/lib/unirail/ipam"
#define IPAM_HOSTLOCAL_DIR "/var/lib/cni/networks"

struct ipam_paths {
	const char *pool_dir, *state_dir, *hostlocal_dir; /* NULL: the defaults above */
	const char *node; /* this node's name; NULL: gethostname() */
	int lock_ms;	  /* how long to wait for the lock; 0: 30 s */
	/* Only the calls that change nothing (others: -EROFS). Writes nothing: a store that was never used is empty, an
	 * anchor that lags and files that a kill left stay as they are. */
	bool read_only;
	int64_t (*now_ms)(void); /* since the epoch; NULL: the real clock */
};

struct ipam; /* open store: lock held from open to close */

/* Reads the journal. The pools are read when a call first needs them: giving addresses back
 * works without them. `r` must outlive the store. */
int ipam_open(struct ipam **ret, const struct root *r, const struct ipam_paths *p, struct err *e);
void ipam_close(struct ipam *i);
void ipam_cleanup(struct ipam **i);
#define auto_ipam __attribute__((cleanup(ipam_cleanup)))
/* Reads the pools if that is not done yet; the same error each time. */
int ipam_load_pools(struct ipam *i, struct err *e);
/* Empty while the pools are not (or cannot be) read. */
const struct pool_set *ipam_pools(const struct ipam *i);

struct ipam_owner {
	const char *container_id, *ifname;		/* required */
	const char *pod_namespace, *pod_name, *pod_uid; /* may be NULL */
	const char *netns;				/* may be NULL; kept for `pool check` */
	const char *network;				/* CNI network name, for GC; may be NULL */
};

/* One rail's wish. */
struct ipam_ask {
	struct ipam_owner who;
	const char *const *pools4; /* names or wildcards in order of preference */
	size_t n_pools4;
	const char *const *pools6;
	size_t n_pools6; /* both lists empty: the default pools of each family */
	bool no4, no6;	 /* the family is not asked for, whatever is listed or default */
	/* What a pool's affinities and networks are held against; NULL: not known, and a pool that
	 * has any is not for this ask. */
	const struct pod_facts *pod;
	const struct place_facts *place;
	bool match_subnet; /* only pools whose subnet holds one of `nets` (matchMasterSubnet) */
	const struct ipnet *nets; /* the master's (or PF's) addresses */
	size_t n_nets;
	const char *master;	   /* its name, for words */
	bool sticky;		   /* keep for (namespace, pod, interface) after release */
	bool clean_gateway;	   /* no default route from the pool's gateway */
	const struct ipaddr *want; /* addresses asked for by name; must be free and in a pool */
	size_t n_want;
	/* Those that the pod's name had before, somewhere else (block/migration.h): taken if they are
	 * to be had, else any other. */
	const struct ipaddr *had;
	size_t n_had;
};

/* One address of one rail. */
struct ipam_grant {
	size_t ask;		   /* index into the asks; ipam_held(): 0 */
	struct ipnet address;	   /* with the subnet's prefix length */
	struct ipaddr gateway;	   /* family 0: none */
	const struct pool *pool;   /* borrowed from the open store; NULL: its pool is gone */
	const char *ifname;	   /* borrowed from the open store or the ask */
	struct pool_route *routes; /* pool routes, then the default route unless clean_gateway */
	size_t n_routes;
	bool was_there; /* an earlier ask of the same owner had got it */
};

/*
 * All asks, all or nothing. Failures name rail and pool: exhausted (which pool, how many
 * addresses, who holds them; kind ERR_AGAIN), no such pool, every pool filtered out and why
 * (kind ERR_CONF). Grants are in the order of the asks, IPv4 before IPv6.
 */
int ipam_allocate(struct ipam *i, const struct ipam_ask *asks, size_t n, struct ipam_grant **ret,
		  size_t *n_ret, struct err *e);
/* Whether ipam_allocate() would succeed now; nothing changes. */
int ipam_try(struct ipam *i, const struct ipam_ask *asks, size_t n, struct err *e);
void ipam_grants_free(struct ipam_grant *g, size_t n);

/* What (container, interface) holds; ifname NULL: every interface. Nothing held is 0. Routes are
 * those without clean_gateway, which the store does not know. */
int ipam_held(struct ipam *i, const char *container_id, const char *ifname, struct ipam_grant **ret,
	      size_t *n_ret, struct err *e);
/* Frees it (sticky ones stay reserved for their pod); ifname NULL: every interface. Returns the
 * number freed; nothing held is 0. Several owners are one change. */
int ipam_release(struct ipam *i, const char *container_id, const char *ifname, struct err *e);
struct ipam_valid {
	const char *container_id, *ifname;
};
int ipam_release_many(struct ipam *i, const struct ipam_valid *v, size_t n, struct err *e);
/* Keeps an address for a pod's name before the pod asks, as a release of a sticky one does: it came from
 * another node (block/migration.h). -EADDRINUSE: it is in use, or kept for somebody else. */
int ipam_keep(struct ipam *i, const struct ipnet *a, const struct ipam_owner *who, const char *pool,
	      struct err *e);
/*
 * Writes down what pods have that this journal does not know (it was lost), as used, all at once. An
 * address that it knows to be used, kept or in quarantine stays as it is. In the order of addresses; of equal
 * ones the first counts. Returns how many were new.
 */
struct ipam_known {
	struct ipnet address;
	struct ipam_owner who; /* container_id: anything that no container has */
	const char *pool;
};
int ipam_know(struct ipam *i, const struct ipam_known *v, size_t n, struct err *e);
/* Takes an address in conflict out of use for the quarantine time, and from its owner. */
int ipam_quarantine(struct ipam *i, const struct ipaddr *a, const struct mac *other, struct err *e);
/* Several are one change. Each address once. */
struct ipam_conflict {
	struct ipaddr address;
	struct mac other; /* len 0: not known */
};
int ipam_quarantine_many(struct ipam *i, const struct ipam_conflict *v, size_t n, struct err *e);
/* Frees everything of `network` whose (container, interface) is not among the valid ones;
 * returns the number. */
int ipam_gc(struct ipam *i, const char *network, const struct ipam_valid *v, size_t n,
	    struct err *e);

/* For people: `unirail pool ...`. */
struct ipam_record {
	struct ipaddr ip;
	const char *pool;  /* "" when it is in none any more */
	const char *state; /* "used" "resting" "quarantined" "sticky" "adopted" */
	const char *container_id, *ifname, *pod_namespace, *pod_name, *pod_uid, *network;
	const char *other;	    /* quarantined: the MAC that answered; else "" */
	int64_t since_ms, until_ms; /* epoch; until 0: no end */
};
/* By address; free() the list. */
int ipam_records(struct ipam *i, struct ipam_record **ret, size_t *n, struct err *e);
/* Frees by address whoever holds it, or ends its quarantine. -ENOENT: nobody does. */
int ipam_release_ip(struct ipam *i, const struct ipaddr *a, struct err *e);
/* The free addresses of a pool, lowest first, at most `max`: those that would be handed out now.
 * free() the list. */
int ipam_free_list(struct ipam *i, const struct pool *p, size_t max, struct ipaddr **ret, size_t *n,
		   struct err *e);
/* Journal, pools and records against each other; each finding is one line onto b. Returns the
 * number of findings. */
int ipam_check(struct ipam *i, struct buf *b, struct err *e);
/*
 * For a journal that ipam_open() refuses (-EBADMSG), on a node whose addresses a cluster knows as well: its
 * blocks (`blocks`: path of their log) are made those of a lost log, then journal and anchor are moved aside,
 * durable in this order, so that a kill in between leaves a journal that is refused. *aside: its new path,
 * to be freed; NULL: the journal is whole. At most ANEW_KEPT such files are kept, the latest ones. No agent
 * may run.
 */
enum { ANEW_KEPT = 8 };
int ipam_begin_anew(const struct root *r, const struct ipam_paths *p, const char *blocks,
		    char **aside, struct err *e);
/* For a damaged journal, which ipam_open() refuses (-EBADMSG); see journal.h. `found`: what pods have by
 * their own state; those in no pool are left out where there are pools. */
int ipam_repair(const struct root *r, const struct ipam_paths *p, const struct ipam_known *found,
		size_t n_found, struct buf *said, struct err *e);

#endif
