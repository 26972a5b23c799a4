/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_AGENT_ENDPOINT_ENDPOINTS_H
#define UNIRAIL_AGENT_ENDPOINT_ENDPOINTS_H

/*
 * SpiderEndpoints of this node's pods, written after the fact: whoever asked for addresses has had his
 * answer. What ought to be there comes from the journal (agent/endpoint/endpoint.h), what is there from a watch
 * of those that this node wrote; the difference is made up for, one request after another, again and
 * again while the API server is away or refuses. So nothing is lost by a restart, and there is never
 * more to do than there are pods.
 *
 * One is written only for a pod that the API server has under that UID on this node, and deleted only
 * while it still is what this node wrote last.
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
void endpoints_free(struct endpoints *e); /* before kube_free(); NULL is fine */
/* What the journal has now; within a batch. */
void endpoints_leases(struct endpoints *e, const struct lease_table *t, const struct pool_set *s);
/* None is deleted meanwhile: the journal may not know all that pods have. */
void endpoints_hold(struct endpoints *e, bool hold);
/* Whether those of this node are known; the status of one as the API server has it, NULL: none. */
bool endpoints_synced(const struct endpoints *e);
const char *endpoints_status(const struct endpoints *e, const char *ns, const char *name);
/* A pod of this node came, or is another one. */
void endpoints_pod_changed(struct endpoints *e);

#endif
