/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_ADMISSION_WEBHOOK_H
#define UNIRAIL_CONTROLLER_ADMISSION_WEBHOOK_H

/*
 * Webhook handlers for admit.h. They take the cluster's state from controller/cache/cache.h. Except
 * for a dry run, they use range_locks.h to serialize decisions that two replicas may make at the
 * same time. The handlers allow every request for a subresource, or for a kind that admit_knows()
 * does not know.
 */

#include "controller/admission/admit.h"
#include "controller/admission/range_locks.h"
#include "controller/webhook/review.h"
#include "controller/cache/cache.h"

struct admit_webhook_conf {
	struct kube *kube;
	struct kube_cache *cache;
	const char *ns; /* namespace of the controller and the agents; borrowed */
	bool no_ipv4, no_ipv6, protect_used;
};

struct admit_webhook;

struct admit_webhook *admit_webhook_new(const struct admit_webhook_conf *c);
/* Denies waiting requests. Call before cluster_cache_free() and kube_free(). Accepts NULL. */
void admit_webhook_free(struct admit_webhook *h);
void admit_webhook_settings(struct admit_webhook *h, const struct admit_webhook_conf *c);
/* Handlers; arg is the struct admit_webhook. */
void admit_webhook_default(void *arg, struct review *q);
void admit_webhook_check(void *arg, struct review *q);
/* Makes the decisions of both handlers without effect, to measure their cost. */
void admit_webhook_try(void *arg, const struct review *q);

#endif
