/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_INJECTION_WEBHOOK_H
#define UNIRAIL_CONTROLLER_INJECTION_WEBHOOK_H

/*
 * Webhook handler for inject_pod(): pods being created, on /mutate--v1-pod. A manifest may create a
 * pod right after its namespace and networks, before the watches have delivered them. So while the
 * namespace of a pod, or a group that the pod requests, is missing, the webhook does not answer and
 * checks again, for up to INJECT_PATIENCE_MS. Within the same limit, a pod that gets networks also
 * waits until INJECT_WRITTEN_MS have passed since any SpiderMultusConfig was created or got other
 * annotations, because more may follow.
 */

#include "base/loop.h"
#include "controller/injection/inject.h"
#include "controller/webhook/review.h"
#include "controller/cache/cache.h"

enum { INJECT_PATIENCE_MS = 1000, INJECT_WRITTEN_MS = 300 };

struct inject_webhook_conf {
	struct loop *loop;
	struct kube_cache *cache;
	struct inject_scope scope; /* strings are copied */
	bool ipc_lock;
};

struct inject_webhook;

struct inject_webhook *inject_webhook_new(const struct inject_webhook_conf *c);
/* Answers waiting reviews according to the current state of the cache, and frees h. Call before
 * cluster_cache_free(). Accepts NULL. */
void inject_webhook_free(struct inject_webhook *h);
void inject_webhook_settings(struct inject_webhook *h, const struct inject_scope *scope,
			     bool ipc_lock);
/* The handler; arg is the struct inject_webhook. */
void inject_webhook_review(void *arg, struct review *q);
/* Computes the same as the handler, without effect, to measure the cost. */
void inject_webhook_try(void *arg, const struct review *q);

#endif
