/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_AGENT_MIGRATION_MIGRATION_H
#define UNIRAIL_AGENT_MIGRATION_MIGRATION_H

/*
 * Retained addresses that follow their pod's name from node to node: both sides of block/migration.h.
 *
 * The node where the pod is now: a pod with retained addresses arrives, and the journal does not
 * have its name. The agent reads its SpiderEndpoint and imports its addresses one after the other:
 * it reads the block, borrows or claims, or sends a request to the node that has the address.
 * Meanwhile the pod's request waits; after its time limit it fails, and the next try finds the
 * addresses imported until then: the import of a name continues for a while. A machine that migrates gets other addresses instead. All
 * addresses of a name are imported together, even if its interfaces are requested one by one: the
 * endpoint is written again after the first.
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
	struct node_pools *node_pools;
	const char *node;
	void (*touch)(void *arg);   /* a batch is wanted */
	void (*changed)(void *arg); /* a name need not wait any more; from the loop */
	void *arg;
};

struct migration *migration_new(const struct migration_conf *c); /* texts are borrowed */
void migration_free(struct migration *h); /* before node_pools_free(); NULL is fine */

/*
 * Within a batch, for requests of a pod with retained addresses. 0: nothing to wait for. 1: wait
 * for changed(), and retry. Negative, kind ERR_AGAIN, when `last`: it cannot wait any longer.
 */
int migration_wait(struct migration *h, struct ipam *store, const struct identity *owner,
		   const char *uid, const struct ip_request *requests, size_t n, bool last,
		   struct err *e);
/* The name's pod has its addresses. */
void migration_imported(struct migration *h, const struct identity *owner);

/*
 * Before a batch's first request: imported addresses are retained for their name before other
 * requests.
 */
void migration_begin(struct migration *h, struct ipam *store);
/* After its last one: answers other nodes. whole: the journal is complete. */
void migration_batch(struct migration *h, struct ipam *store, bool whole);

#endif
