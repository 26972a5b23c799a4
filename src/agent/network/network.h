/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_AGENT_NETWORK_NETWORK_H
#define UNIRAIL_AGENT_NETWORK_NETWORK_H

/*
 * The networks of a pod, for the CNI process that attaches them, and their status afterwards.
 *
 * A request is resolved from: the pod (in the cache, or by one GET if the cache does not have it or
 * has another pod of its name), the NetworkAttachmentDefinitions of its networks in the cache, and,
 * only if one of these definitions names a resource or the pod requests a deviceID, the devices
 * that the kubelet allocated, queried in a child process. The response has the plan (plan.h), the
 * coordinator's settings and the agent's state directory (stateDir). While the first list of
 * definitions is not complete, a request that lacks a definition waits for the list (10 s).
 *
 * A network status is written by one patch of the pod's subresource status, which sets the
 * annotation, and reported by one event. The patch applies only to the pod of that UID; while the
 * API server is unavailable, it is retried for at most NETS_STATUS_MS. Only the last status of a
 * pod counts. It is dropped when the pod is deleted. The file that the CNI process left in
 * POD_STATUS_DIR of stateDir is removed when the status is written or dropped. Files without a
 * pending patch (the CNI process could not connect to the agent, the agent ended before it wrote
 * the patch, or the retries ended) are processed when the pods are known, and once a minute.
 */

#include "agent/cluster/cluster.h"
#include "server/http_server.h"
#include "agent/network/plan.h"
#include "kube/events.h"

enum { NETS_STATUS_MS = 10 * 60 * 1000, NETS_STATUS_WAITING = 1024, NETS_STATUS_AT_ONCE = 8 };

struct nets_conf {
	struct loop *loop;
	const struct root *root;
	struct kube *kube;
	struct kube_events *events;
	struct cluster *cluster;
	const char *state_dir;
	/* Writes the coordinator's settings for a pod as an object; arg is settings_arg. */
	void (*settings)(void *arg, const struct pod_facts *pod, struct json_out *o);
	void *settings_arg;
};

struct nets;

/* Everything that c points to is borrowed. */
struct nets *nets_new(const struct nets_conf *c);
/* Call it before the cluster and kube are freed: pending requests are dropped without a response,
 * pending statuses are not written. */
void nets_free(struct nets *n);

/* Answers q, before it returns or later. Takes over doc, which owns ns, name and the strings of
 * w. */
void nets_request(struct nets *n, struct http_request *q, struct json_doc *doc, const char *ns,
		  const char *name, const struct net_request *w);

struct nets_status {
	const char *container_id;
	const char *ns, *name, *uid;	  /* uid may be "" */
	const char *annotation, *message; /* message NULL or "": no event */
};
void nets_notify(struct nets *n, const struct nets_status *s);

#endif
