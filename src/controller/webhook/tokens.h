/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_WEBHOOK_TOKENS_H
#define UNIRAIL_CONTROLLER_WEBHOOK_TOKENS_H

/*
 * The tokens in the webhooks' paths (tokens_plan.h), stored in a Secret that all replicas watch.
 * Any replica creates a missing Secret, and the leader rotates the tokens; each write to an
 * existing Secret is bound to its resourceVersion. When the Secret is deleted, a new token is
 * created; the registered token stays accepted until the new token is registered. A Secret without
 * unirail's label belongs to an administrator and is only read.
 *
 * 	metadata.labels		app.kubernetes.io/managed-by: unirail-controller
 * 	metadata.annotations	unirail.io/token-since: creation time of the newest token
 * 	data.tokens		one token per line, newest first: 64 characters of 0-9a-f
 *
 * The previous content of the Secret is accepted for another `publish_s` seconds, since an API
 * server may still use it.
 */

#include "base/buf.h"
#include "controller/webhook/tokens_plan.h"
#include "kube/client.h"

struct tokens_conf {
	struct kube *kube;
	const char *ns, *secret;
	int64_t life, publish_s; /* seconds; publish_s: the setting ca-publish */
	/* Called when another token has to be registered. */
	void (*changed)(void *arg);
	/* Returns whether the API server has the webhooks with this token. */
	bool (*registered)(void *arg, const char *token);
	void *arg;
};

struct tokens;

/* The strings are borrowed. */
struct tokens *tokens_new(const struct tokens_conf *c);
void tokens_free(struct tokens *t); /* accepts NULL */

/* Returns whether the path begins with an accepted token; removes the token from the path. */
bool tokens_accept(const struct tokens *t, struct span *path);
/* Returns the token to register; NULL: none yet. */
const char *tokens_current(const struct tokens *t);
/* Returns 0 if there is a token; otherwise an error with the reason. */
int tokens_sync_error(const struct tokens *t, struct err *e);
/* Sets whether this replica is the leader, which rotates the tokens. */
void tokens_lead(struct tokens *t, bool leads);

#endif
