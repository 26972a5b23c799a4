/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_GC_CONFIRM_H
#define UNIRAIL_CONTROLLER_GC_CONFIRM_H

/*
 * What the API server itself says of somebody who seems to be gone: a watch may be late, and what is
 * freed wrongly is with two. Whoever wants to know calls again and again; the first call asks, a later
 * one has the answer. Answers last a while and are then asked for anew; what nobody wants to know any
 * more is forgotten. Not more than a few requests are under way.
 */

#include "spec/identity.h"
#include "kube/client.h"

struct asks;

struct asks_conf {
	struct kube *kube;
	struct identity_conf identity;
	int64_t again_ms; /* after which somebody who is there is asked for again */
	void (*answered)(void *arg);
	void *arg;
};

struct asks *asks_new(const struct asks_conf *c);
void asks_free(struct asks *a); /* before kube_free(); NULL is fine */

enum asks_answer {
	ASKS_UNKNOWN, /* not yet, or it cannot be asked: whatever it is about stays as it is */
	ASKS_THERE,
	ASKS_GONE,
};

/* No pod of that UID runs any more: there is none of the name, another took its place, or it has
 * finished. uid "": of whatever UID. */
enum asks_answer asks_pod(struct asks *a, const char *ns, const char *name, const char *uid);
/* There is no Node object of the name; or it is fenced (node.kubernetes.io/out-of-service) and not
 * ready. */
enum asks_answer asks_node(struct asks *a, const char *name);
/* No pod will come that keeps the name's addresses: identity_is_over(). */
enum asks_answer asks_name(struct asks *a, const char *ns, const char *name);
/* How long it has been known to be gone, in ms; 0 when it is not. */
int64_t asks_pod_gone_ms(const struct asks *a, const char *ns, const char *name, const char *uid);

#endif
