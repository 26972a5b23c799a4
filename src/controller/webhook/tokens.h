/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_WEBHOOK_TOKENS_H
#define UNIRAIL_CONTROLLER_WEBHOOK_TOKENS_H

/*
 * The tokens of the webhooks' paths (tokens_plan.h) in a Secret that all replicas watch: created by whichever is first,
 * rotated by the leader, each write by its version. Who deletes the Secret has a new token made; what was registered is
 * taken until the new one is. A Secret without our label is an administrator's: read, never written.
 *
 *	metadata.labels		app.kubernetes.io/managed-by: unirail-controller
 *	metadata.annotations	unirail.io/token-since: when the newest was made
 *	data.tokens		the newest first, a line each: 64 characters of 0-9a-f
 *
 * What stood in the Secret before is taken for `settle` longer, since an API server may still use it.
 */

#include "base/buf.h"
#include "controller/webhook/tokens_plan.h"
#include "kube/client.h"

struct tokens_conf {
	struct kube *kube;
	const char *ns, *secret;
	int64_t life, settle; /* seconds */
	/* Another one is to be registered. */
	void (*changed)(void *arg);
	/* Whether the API server has the webhooks with this token by now. */
	bool (*registered)(void *arg, const char *token);
	void *arg;
};

struct tokens;

/* Texts are borrowed. */
struct tokens *tokens_new(const struct tokens_conf *c);
void tokens_free(struct tokens *t); /* NULL is fine */

/* Whether the path begins with a token that is taken; it is taken off. */
bool tokens_accept(const struct tokens *t, struct span *path);
/* To be registered; NULL: there is none yet. */
const char *tokens_current(const struct tokens *t);
/* Why there is none. 0: there is. */
int tokens_trouble(const struct tokens *t, struct err *e);
/* Whether this replica rotates them. */
void tokens_lead(struct tokens *t, bool leads);

#endif
