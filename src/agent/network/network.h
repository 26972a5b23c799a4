/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_AGENT_NETWORK_NETWORK_H
#define UNIRAIL_AGENT_NETWORK_NETWORK_H

/*
 * A pod's networks, for the CNI process that attaches them, and their status afterwards.
 *
 * An ask looks for the pod (the watch's, or one GET when that has not shown it or shows another of
 * its name), its definitions in the watch, and, only when one of them names a resource, for its
 * devices at the kubelet, in a child process. Then it is answered: what plan.h chose, the
 * coordinator's settings and the folder of the store.
 *
 * A status is one patch of the pod's status with its annotation, for the pod of that UID and no other,
 * tried again while the API server is away, NETS_STATUS_MS at most; and one event. Of one pod the last
 * counts. When the pod is gone it is dropped. What the CNI process left in POD_STATUS_DIR of stateDir is
 * removed when the status is written, or dropped; what is found there otherwise, because nobody was
 * there to be told or the agent ended before, is taken up when the pods are known, and once a minute.
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
	/* What a pod's coordinators are told, an object; arg is settings_arg. */
	void (*settings)(void *arg, const struct pod_facts *pod, struct json_out *o);
	void *settings_arg;
};

struct nets;

/* What conf points to is borrowed. */
struct nets *nets_new(const struct nets_conf *c);
/* Before the cluster and kube: asks are forgotten, not answered; statuses that wait are dropped. */
void nets_free(struct nets *n);

/* q is answered later. `doc` (owned from here) holds what the wish points to. */
void nets_ask(struct nets *n, struct http_request *q, struct json_doc *doc, const char *ns,
	      const char *name, const struct net_wish *w);

struct nets_status {
	const char *container_id;
	const char *ns, *name, *uid;	/* uid may be "" */
	const char *annotation, *words; /* words NULL or "": no event */
};
void nets_tell(struct nets *n, const struct nets_status *s);
size_t nets_waiting(const struct nets *n); /* statuses that are not written yet */

#endif
