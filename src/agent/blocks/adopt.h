/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_AGENT_BLOCKS_ADOPT_H
#define UNIRAIL_AGENT_BLOCKS_ADOPT_H

/*
 * Blocks of this node that another log claimed: the disk was lost, or the state folder moved. Pods of
 * this node may have their addresses, and the journal does not know it.
 *
 * Every pod of the node is accounted for when it has left a trace: the network-status annotation, a
 * SpiderEndpoint of ours, or leases in this journal; or when it can have none: host network, finished.
 * Then what the traces say of these blocks goes into the journal, under the pod's UID in place of the
 * container that nobody knows any more, and the blocks are ours. Such addresses go back when the pod
 * is gone (agent/gc/gc.h). A pod without a trace holds all of it up; the log names it.
 *
 * Whoever may create or annotate a pod writes its network-status, so a trace is held against what the cluster says:
 * an address counts only in a foreign block of this node, not among those that the block has ceded, and, when
 * only an annotation names it, among the pool's addresses. A SpiderEndpoint, which agents write, counts before annotations.
 * An address that the annotations of two pods name is believed of neither: else it would be freed with the wrong one, and
 * two pods have it. It holds all of it up until one of them is gone; the log names both.
 *
 * An address that the lost log had borrowed of another node's block goes back to that block when no lease here has it
 * (block/plan_lend.c); so what a SpiderEndpoint names of a pool outside of these blocks is written down as well. When
 * only an annotation names it, it is a loan or a lie: it holds all of it up, and the log names pod and address.
 *
 * When the API server was not available, all of these traces may name addresses that a pod had before its sandbox was
 * created again, and only the lost log knew the new ones. So, when every pod has left a trace, the addresses that the CNI
 * result caches of this node record (agent/blocks/cni_cache.h) are added to them. A cache file does not account for a pod by
 * itself: it may be another network's. Addresses that an agent granted count before SpiderEndpoints, which may be older; any
 * others count as annotations do. A file of another UID is not the pod's, unless the pod is static. A file that cannot be
 * read, or that records an address of these blocks for no pod, holds all of it up; the log names the file.
 */

#include "agent/cluster/cluster.h"
#include "agent/endpoint/endpoints.h"
#include "agent/blocks/pools.h"

struct foreign;

struct foreign_conf {
	struct loop *loop;
	struct cluster *cluster;
	struct lender *lender;
	struct endpoints *endpoints;
	const struct root *root;
	const char *cni_cache_dir;
	int64_t hold_ms; /* not before that: containers of pods that were deleted meanwhile end */
	void (*touch)(void *arg); /* a batch is wanted */
	void *arg;
};

struct foreign *foreign_new(const struct foreign_conf *c);
void foreign_free(struct foreign *f); /* NULL is fine */
/* Within a batch. */
void foreign_batch(struct foreign *f, struct ipam *store);

/* --- its parts, without a cluster --- */

struct foreign_address {
	struct ipaddr ip;
	char *ifname;
	bool written; /* by an agent, in a SpiderEndpoint; or granted by one */
	bool cached;  /* and in the CNI result cache of this node: newer than any SpiderEndpoint */
};
struct foreign_traces {
	struct foreign_address *v;
	size_t n;
};
void foreign_traces_done(struct foreign_traces *t);
/* Of the annotation's text, onto t; negative: it cannot be read, and says nothing of the pod. */
int foreign_read_status(const char *text, struct foreign_traces *t, struct err *e);
/* Of status.current.ips of an endpoint's status. */
int foreign_read_endpoint(const char *status, struct foreign_traces *t, struct err *e);

/* An address that a pod names; pod: its place in a list. */
struct foreign_claim {
	struct ipaddr ip;
	const char *ifname;
	size_t pod;
	bool written, cached; /* as foreign_address */
	bool loan;	      /* in no foreign block */
	const char *pool;
	uint8_t len; /* of its prefix */
};
/*
 * Whose each address is: leaves one claim an address, in their order, and returns how many; n log n. False in *clear:
 * annotations alone, or two CNI result cache files, say that two pods have one, which is v[*at] and v[*at + 1].
 */
size_t foreign_settle(struct foreign_claim *v, size_t n, bool *clear, size_t *at);

#endif
