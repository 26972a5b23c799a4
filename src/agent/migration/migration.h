/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_AGENT_MIGRATION_MIGRATION_H
#define UNIRAIL_AGENT_MIGRATION_MIGRATION_H

/*
 * Kept addresses that follow their pod's name from node to node: both sides of ipam/handover.h.
 *
 * The node where the pod is now: a pod whose addresses are kept comes, and the journal does not know
 * its name. Its SpiderEndpoint is read, and one after the other what it names is fetched: looked at,
 * borrowed or claimed, asked for at the node that has it. Meanwhile the pod's request waits; when it
 * waits no longer it fails, and finds at its next try what came until then: a name goes on being
 * fetched for a while. A machine that migrates gets other addresses instead. What a name's pod had is
 * fetched as a whole, though its interfaces may be asked for one by one: the endpoint is written anew
 * after the first.
 *
 * The node that has them watches the endpoints that bear its label, and answers in each batch, when
 * what its containers have is known.
 */

#include "agent/cluster/cluster.h"
#include "agent/blocks/pools.h"
#include "spec/identity.h"
#include "ipam/ipam.h"
#include "kube/client.h"

struct migration;

struct migration_conf {
	struct kube *kube;
	struct cluster *cluster;
	struct node_pools *lender;
	const char *node;
	void (*touch)(void *arg);   /* a batch is wanted */
	void (*changed)(void *arg); /* a name need not wait any more; from the loop */
	void *arg;
};

struct migration *migration_new(const struct migration_conf *c); /* texts are borrowed */
void migration_free(struct migration *h); /* before node_pools_free(); NULL is fine */

/*
 * Within a batch, for asks of a pod whose addresses are kept. 0: no more is to be waited for. 1: wait
 * for changed(), and ask again. Negative, kind ERR_AGAIN, when `last`: it cannot wait any longer.
 */
int migration_wait(struct migration *h, struct ipam *store, const struct identity *who,
		   const char *uid, const struct ipam_ask *asks, size_t n, bool last,
		   struct err *e);
/* The name's pod has its addresses. */
void migration_came(struct migration *h, const struct identity *who);

/* Before a batch's first request: what came is kept for its name before anybody else asks. */
void migration_begin(struct migration *h, struct ipam *store);
/* After its last one: answers others. whole: the journal is all that there is. */
void migration_batch(struct migration *h, struct ipam *store, bool whole);

#endif
