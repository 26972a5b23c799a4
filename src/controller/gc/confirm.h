/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_GC_CONFIRM_H
#define UNIRAIL_CONTROLLER_GC_CONFIRM_H

/*
 * Confirms with a GET that an object seen as deleted by the watch is gone: a watch may lag, and an
 * address released too early would be assigned twice. The caller repeats the call: the first one
 * sends the request and returns LIVENESS_UNKNOWN, a later one returns the answer. Every answer
 * expires (the answer LIVENESS_DELETED does so 15 s after it arrived) and is then requested again.
 * An answer that no caller has used for two minutes is dropped. At most four confirmations run at a
 * time.
 */

#include "spec/identity.h"
#include "kube/client.h"

struct liveness;

struct liveness_conf {
	struct kube *kube;
	struct identity_conf identity;
	int64_t again_ms; /* time in ms for which the answer LIVENESS_THERE is valid */
	void (*answered)(void *arg);
	void *arg;
};

struct liveness *liveness_new(const struct liveness_conf *c);
void liveness_free(struct liveness *a); /* call before kube_free(); accepts NULL */

enum liveness_answer {
	LIVENESS_UNKNOWN, /* no answer yet, or the request failed: the caller changes nothing */
	LIVENESS_THERE,
	LIVENESS_DELETED,
};

/*
 * Confirms that no pod with that UID runs any more (LIVENESS_DELETED): no pod of the name exists,
 * another pod has the name, or the pod has finished. uid "": any UID.
 */
enum liveness_answer liveness_pod(struct liveness *a, const char *ns, const char *name,
				  const char *uid);
/*
 * Confirms that a node is gone (LIVENESS_DELETED): the Node object does not exist, or the node is
 * fenced (taint node.kubernetes.io/out-of-service) and not Ready.
 */
enum liveness_answer liveness_node(struct liveness *a, const char *name);
/* Confirms that no future pod can use the addresses retained for this name (LIVENESS_DELETED), see
 * identity_is_over(). */
enum liveness_answer liveness_name(struct liveness *a, const char *ns, const char *name);
/* Returns the time in ms since the pod was first confirmed gone; 0: it is not confirmed. */
int64_t liveness_pod_deleted_ms(const struct liveness *a, const char *ns, const char *name,
				const char *uid);

#endif
