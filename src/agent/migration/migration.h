/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_AGENT_MIGRATION_MIGRATION_H
#define UNIRAIL_AGENT_MIGRATION_MIGRATION_H

/*
 * Retained addresses that follow their pod's name from node to node: both sides of
 * block/migration.h.
 *
 * On the node where the pod is now: if a pod requests retained addresses and the journal does not
 * have the pod's name, the agent reads the name's SpiderEndpoint and imports the addresses in it
 * one after the other. For each address the agent reads the block, and then borrows the address,
 * claims the block, or sends a request to the node that has the address. Meanwhile the pod's
 * request waits. After its time limit the request fails (for a migrating KubeVirt VM: gets other
 * addresses), but the import continues for a while, so the next request of the pod finds the
 * addresses imported until then. All addresses of a name are imported together, even if its
 * interfaces are requested one by one: the first allocation overwrites the endpoint.
 *
 * The node that has the addresses watches the endpoints with its label, and answers requests in
 * each batch, when the addresses of its containers are known.
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
	void (*touch)(void *arg);   /* schedules a batch */
	void (*changed)(void *arg); /* called from the event loop: the import of a name has ended */
	void *arg;
};

struct migration *migration_new(const struct migration_conf *c); /* strings in c are borrowed */
void migration_free(struct migration *h); /* call it before node_pools_free(); h may be NULL */

/*
 * Call it within a batch for the requests of a pod with retained addresses. Returns 0 if there is
 * nothing to wait for, 1 if the requests wait for changed(). `last`: the requests cannot wait any
 * longer; instead of 1 returns 0 for a migrating virtual machine, otherwise a negative code, kind
 * ERR_AGAIN.
 */
int migration_wait(struct migration *h, struct ipam *store, const struct identity *owner,
		   const char *uid, const struct ip_request *requests, size_t n, bool last,
		   struct err *e);
/* Call it when the name's pod has its addresses: ends the import. */
void migration_imported(struct migration *h, const struct identity *owner);

/*
 * Call it before the first request of a batch: imported addresses are retained for their name, so
 * that other requests do not get them.
 */
void migration_begin(struct migration *h, struct ipam *store);
/* Call it after the last request of a batch: answers other nodes. whole: the journal has the
 * addresses of all pods. */
void migration_batch(struct migration *h, struct ipam *store, bool whole);

#endif
