/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_AGENT_ENDPOINT_ENDPOINTS_H
#define UNIRAIL_AGENT_ENDPOINT_ENDPOINTS_H

/*
 * Writes the SpiderEndpoints of this node's pods, after the pods got their addresses. The desired
 * objects are computed from the journal (agent/endpoint/endpoint.h), the existing ones are known
 * from a watch of those that this node wrote. The difference is applied by one request after
 * another, and retried while the API server is unavailable or refuses. So a restart loses no write,
 * and the amount of work is limited by the number of pods.
 *
 * An endpoint is written only for a pod that the API server shows on this node with the UID in the
 * journal, and deleted only if no other client has changed it since the watch delivered it.
 */

#include "agent/cluster/cluster.h"
#include "agent/endpoint/endpoint.h"
#include "agent/api/metrics.h"

struct endpoints;

struct endpoints_conf {
	struct kube *kube;
	struct cluster *cluster;
	const char *node;
	struct metrics *metrics;
};

struct endpoints *endpoints_new(const struct endpoints_conf *c);
void endpoints_free(struct endpoints *e); /* call it before kube_free(); e may be NULL */
/* Computes the required endpoints from the leases and pools of the store, and starts the requests
 * for the differences. Call it from the callback `batch` of agent/api/api.h, while the store is
 * open. */
void endpoints_leases(struct endpoints *e, const struct lease_table *t, const struct pool_set *s);
/* hold: true while the journal may lack addresses of pods; no endpoint is deleted meanwhile. */
void endpoints_hold(struct endpoints *e, bool hold);
/* endpoints_synced(): whether this node's endpoints were listed and are watched now.
 * endpoints_status(): the status of an endpoint of this node at the API server; NULL: no such
 * endpoint. */
bool endpoints_synced(const struct endpoints *e);
const char *endpoints_status(const struct endpoints *e, const char *ns, const char *name);
/* Call it when a pod of this node has changed. */
void endpoints_pod_changed(struct endpoints *e);

#endif
