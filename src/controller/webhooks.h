/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_WEBHOOKS_H
#define UNIRAIL_CONTROLLER_WEBHOOKS_H

/*
 * Admission, in every replica: reviews by HTTPS on a port of their own, each to who decides; on the leader,
 * the webhooks' registration and the renewal of the certificate. Nothing is accepted before there is a
 * certificate, nothing registered before this replica answers.
 */

#include "base/loop.h"
#include "controller/conf.h"
#include "controller/cache/cache.h"
#include "kube/client.h"

struct webhooks_conf {
	struct kube *kube;
	struct world *world;
	const struct root *root;
	/* Borrowed; what is no live setting for good, the rest until webhooks_settings(). */
	const struct controller_conf *conf;
};

struct webhooks;

/* Listens. */
int webhooks_new(struct webhooks **ret, const struct webhooks_conf *c, struct err *e);
/* Before world_free(). NULL is fine. */
void webhooks_free(struct webhooks *w);
void webhooks_settings(struct webhooks *w, const struct controller_conf *conf);
void webhooks_lead(struct webhooks *w, bool leads);
/* Answers for a while (who sends us reviews does not know yet), then no more; then done(arg). */
void webhooks_drain(struct webhooks *w, void (*done)(void *arg), void *arg);
/* Whether pods of this namespace get the networks that they ask for. */
bool webhooks_inject(const struct webhooks *w, const char *ns);
const char *webhooks_namespace(const struct webhooks *w);
/* Of the leader: whether the API server has the configurations; kind ERR_AGAIN: not yet. 0 of others. */
int webhooks_registered(const struct webhooks *w, struct err *e);
int webhooks_ready(struct webhooks *w, struct err *e);
void webhooks_metrics(struct webhooks *w, struct buf *b);

#endif
