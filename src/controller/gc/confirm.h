/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_GC_CONFIRM_H
#define UNIRAIL_CONTROLLER_GC_CONFIRM_H

/*
 * Confirms with a GET that an object seen as deleted by the watch is gone: a watch may lag, and an
 * address released too early would be assigned twice. The caller repeats the call: the first one
 * sends the request and returns ASKS_UNKNOWN, a later one returns the answer. An answer expires
 * (ASKS_GONE after 15 s) and is then requested again. An entry that no caller has used for two
 * minutes is dropped. At most four confirmations run at a time.
 */

#include "spec/identity.h"
#include "kube/client.h"

struct asks;

struct asks_conf {
	struct kube *kube;
	struct identity_conf identity;
	int64_t again_ms; /* validity of the answer ASKS_THERE, in ms */
	void (*answered)(void *arg);
	void *arg;
};

struct asks *asks_new(const struct asks_conf *c);
void asks_free(struct asks *a); /* call before kube_free(); accepts NULL */

enum asks_answer {
	ASKS_UNKNOWN, /* no answer yet, or the request failed: the caller changes nothing */
	ASKS_THERE,
	ASKS_GONE,
};

/*
 * ASKS_GONE: no pod with that UID runs any more: no pod of the name exists, another pod has the
 * name, or the pod has finished. uid "": any UID.
 */
enum asks_answer asks_pod(struct asks *a, const char *ns, const char *name, const char *uid);
/*
 * ASKS_GONE: the Node object does not exist, or the node is fenced (taint
 * node.kubernetes.io/out-of-service) and not Ready.
 */
enum asks_answer asks_node(struct asks *a, const char *name);
/* ASKS_GONE: no future pod can use the addresses retained for this name, see identity_is_over(). */
enum asks_answer asks_name(struct asks *a, const char *ns, const char *name);
/* Time in ms since the pod was first confirmed gone; 0 if it is not. */
int64_t asks_pod_gone_ms(const struct asks *a, const char *ns, const char *name, const char *uid);

#endif
