/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_INJECTION_HOOK_H
#define UNIRAIL_CONTROLLER_INJECTION_HOOK_H

/*
 * inject_pod() for the API server: pods that are created, on /mutate--v1-pod. In a file with pods
 * behind their namespace and the networks that they name, these may not have been seen yet when the
 * pod comes: one whose namespace or networks are not there is looked at again for a second, as is one
 * that asks right after a network came to a group (there may be more of them on their way).
 */

#include "base/loop.h"
#include "controller/injection/inject.h"
#include "controller/webhook/review.h"
#include "controller/cache/cache.h"

enum { INJECT_PATIENCE_MS = 1000, INJECT_SETTLED_MS = 300 };

struct inject_hook_conf {
	struct loop *loop;
	struct world *world;
	struct inject_scope scope; /* texts are copied */
	bool ipc_lock;
};

struct inject_hook;

struct inject_hook *inject_hook_new(const struct inject_hook_conf *c);
/* Who waits is refused. Before world_free(). NULL is fine. */
void inject_hook_free(struct inject_hook *h);
void inject_hook_settings(struct inject_hook *h, const struct inject_scope *scope, bool ipc_lock);
/* A review_hook; arg is the struct inject_hook. */
void inject_hook_review(void *arg, struct review *q);
/* What it computes, for nothing. */
void inject_hook_try(void *arg, const struct review *q);

#endif
