/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_WEBHOOKS_H
#define UNIRAIL_CONTROLLER_WEBHOOKS_H

/*
 * The webhook server of every replica: receives AdmissionReviews by HTTPS on a port of its own, and
 * passes them to the handlers. It serves when there is a certificate and a token. The leader also
 * renews the certificate, and registers the webhooks as soon as it serves.
 */

#include "base/loop.h"
#include "controller/conf.h"
#include "controller/cache/cache.h"
#include "kube/client.h"

struct webhooks_conf {
	struct kube *kube;
	struct kube_cache *cache;
	const struct root *root;
	/*
	 * Borrowed. The strings of settings that require a restart must live as long as the
	 * webhooks, those of other settings until the next webhooks_settings().
	 */
	const struct controller_conf *conf;
};

struct webhooks;

/* Opens the listening socket; the server starts later (see above). */
int webhooks_new(struct webhooks **ret, const struct webhooks_conf *c, struct err *e);
/* Call before cluster_cache_free(). Accepts NULL. */
void webhooks_free(struct webhooks *w);
void webhooks_settings(struct webhooks *w, const struct controller_conf *conf);
void webhooks_lead(struct webhooks *w, bool leads);
/* Serves for the time of the setting webhook-linger, since API servers do not know yet that this
 * replica stops; then closes the connections and calls done(arg). */
void webhooks_drain(struct webhooks *w, void (*done)(void *arg), void *arg);
/* Returns whether pods of this namespace are injected. */
bool webhooks_inject(const struct webhooks *w, const char *ns);
const char *webhooks_namespace(const struct webhooks *w);
/*
 * On the leader: 0 if the API server has the webhook configurations; -EAGAIN (kind ERR_AGAIN): not
 * yet, or one is missing and this account may not create it. On other replicas always 0.
 */
int webhooks_registered(const struct webhooks *w, struct err *e);
int webhooks_ready(struct webhooks *w, struct err *e);
void webhooks_metrics(struct webhooks *w, struct buf *b);

#endif
