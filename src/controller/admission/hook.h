/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_ADMISSION_HOOK_H
#define UNIRAIL_CONTROLLER_ADMISSION_HOOK_H

/*
 * admit.h for the API server: what else there is comes from controller/cache/cache.h, and what two replicas may decide at
 * the same time goes by range_locks.h, unless it is a dry run. Both hooks take every kind that admit_knows().
 */

#include "controller/admission/admit.h"
#include "controller/admission/range_locks.h"
#include "controller/webhook/review.h"
#include "controller/cache/cache.h"

struct admit_hook_conf {
	struct kube *kube;
	struct world *world;
	const char *ns; /* the controller's own, and the agents'; borrowed */
	bool no_ipv4, no_ipv6, keep_used;
};

struct admit_hook;

struct admit_hook *admit_hook_new(const struct admit_hook_conf *c);
/* Who waits is refused. Before world_free() and kube_free(). NULL is fine. */
void admit_hook_free(struct admit_hook *h);
void admit_hook_settings(struct admit_hook *h, const struct admit_hook_conf *c);
/* review_hooks; arg is the struct admit_hook. */
void admit_hook_default(void *arg, struct review *q);
void admit_hook_check(void *arg, struct review *q);
/* What both compute, for nothing. */
void admit_hook_try(void *arg, const struct review *q);

#endif
