/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_AGENT_BLOCKS_ADOPT_H
#define UNIRAIL_AGENT_BLOCKS_ADOPT_H

/*
 * Adoption of unadopted blocks: blocks of this node that are not in its block log (blocks.json),
 * because an earlier log, lost with the disk or with a moved state directory, claimed them. Pods of
 * this node may have addresses of these blocks that the journal does not contain.
 *
 * The inventory is complete when every pod of the node has left a trace (the network-status
 * annotation, a SpiderEndpoint of this node, or leases in this journal) or cannot have any (host
 * network, finished). Then the traces' addresses of these blocks are written to the journal, under
 * the pod's UID because the container ID is unknown, and the blocks are adopted. Such addresses are
 * released when the pod is deleted (agent/gc/gc.h). A pod without a trace delays the adoption; the
 * log names it.
 *
 * Every user who may create or annotate pods can write the network-status annotation, so traces are
 * checked: an address counts only if it is in an unadopted block of this node, not released by that
 * block, and, when only an annotation names it, one of the pool's addresses. A SpiderEndpoint,
 * which only agents write, takes precedence over annotations. An address named by the annotations
 * of two pods is accepted for neither: otherwise it could be released with the wrong pod and then
 * assigned twice. Such an address delays the adoption until one of the two pods is deleted; the log
 * names both pods.
 *
 * If only the lost log recorded that this node borrows an address from a peer, the address is
 * returned to the peer's block unless the journal has a lease of it (block/plan.c). So addresses
 * outside of these blocks that a SpiderEndpoint names are journaled as well. An address that only
 * an annotation names may be borrowed or false: it delays the adoption, and the log names pod and
 * address.
 *
 * If the API server was unavailable, all of these traces may name addresses that a pod had before
 * its sandbox was recreated, and only the lost journal had the new ones. So when every pod left a
 * trace, the addresses recorded in this node's CNI result caches (agent/blocks/cni_cache.h) are
 * added. A cache file alone is not a trace of a pod: it may be of another network. Addresses that
 * an agent allocated take precedence over SpiderEndpoints, which may be older; all other addresses
 * in cache files count like those of annotations. A file with another UID is not the pod's, unless
 * the pod is static. A file that cannot be read, or that records an address of these blocks for no
 * pod, delays the adoption; the log names the file. If neither directory of the cache exists, the
 * log says so once: then addresses of sandboxes that were recreated while the API server was
 * unavailable are not recovered.
 */

#include "agent/cluster/cluster.h"
#include "agent/endpoint/endpoints.h"
#include "agent/blocks/cni_cache.h"
#include "agent/blocks/pools.h"

struct adoption;

struct adopt_conf {
	struct loop *loop;
	struct cluster *cluster;
	struct node_pools *node_pools;
	struct endpoints *endpoints;
	const struct root *root;
	const char *cni_cache_dir;
	/* minimum time from the first sight of unadopted blocks to their adoption: the
	 * containers of pods that were deleted before the inventory, which therefore does not
	 * find them, end within this time */
	int64_t hold_ms;
	void (*touch)(void *arg); /* schedules a batch of the store */
	void *arg;
};

struct adoption *adopt_new(const struct adopt_conf *c);
void adopt_free(struct adoption *f); /* accepts NULL */
/* Takes the inventory if hold_ms has passed, and adopts the blocks if it is complete. Call it
 * while the store is open for a batch. */
void adopt_batch(struct adoption *f, struct ipam *store);

/* --- functions that need no cluster --- */

struct adopt_address {
	struct ipaddr ip;
	char *ifname;
	bool written; /* true: an agent wrote it to a SpiderEndpoint, or allocated it */
	/* true: according to this node's CNI result cache, an agent allocated it; the cache is
	 * newer than any SpiderEndpoint */
	bool cached;
};
struct adopt_traces {
	struct adopt_address *v;
	size_t n;
};
void adopt_traces_done(struct adopt_traces *t);
/* Adds the addresses of a network-status annotation to t. Negative: the annotation is invalid;
 * addresses before the invalid one were added. */
int adopt_read_status(const char *text, struct adopt_traces *t, struct err *e);
/* Likewise for `current.ips` in the status of a SpiderEndpoint. */
int adopt_read_endpoint(const char *status, struct adopt_traces *t, struct err *e);

/*
 * Returns whether a record of the CNI result cache that has the pod's namespace and name is of this
 * pod. A record without a UID is of this pod. A record with another UID is of an earlier pod of the
 * same name, unless the pod is static: then the UID in its container differs from the API server's.
 */
bool adopt_is_record_of(const struct cni_cached *c, const struct pod_facts *p);

/* An address that a trace of a pod names; pod: index of the pod in the caller's list. */
struct adopt_claim {
	struct ipaddr ip;
	const char *ifname;
	size_t pod;
	bool written, cached; /* see struct adopt_address */
	bool borrowed;	      /* true: the address is in no unadopted block */
	const char *pool;
	uint8_t len; /* prefix length */
};
/*
 * Decides which pod has each address: leaves one claim per address in v, sorted by address, and
 * returns their number; O(n log n). *clear is false if two pods claim the same address and either
 * both claims are `cached`, or neither is `cached` or `written`: the two claims are v[*at] and
 * v[*at + 1], and later addresses are left out.
 */
size_t adopt_resolve(struct adopt_claim *v, size_t n, bool *clear, size_t *at);

/* Sets *ret to the sorted UIDs of pods that have addresses, with one element for each address,
 * so UIDs may repeat; returns the number of elements. The caller frees *ret; its strings belong
 * to t. */
size_t adopt_uids(const struct lease_table *t, const char ***ret);
bool adopt_has_leases(const char *const *uids, size_t n, const char *uid);

#endif
