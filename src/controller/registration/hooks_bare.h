/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_REGISTRATION_HOOKS_BARE_H
#define UNIRAIL_CONTROLLER_REGISTRATION_HOOKS_BARE_H

/*
 * Whether API servers call this controller's webhooks by paths without a token, as a controller from before the tokens
 * registered them. Every replica watches both webhook configurations for it: during a rolling upgrade new replicas answer
 * before one of them leads and registers paths with a token. Once both configurations have a token in each path, paths without
 * one are accepted for `settle` longer, since API servers learn of the change by a watch, and then refused.
 */

#include "base/buf.h"
#include "kube/client.h"

struct hooks_bare;

/* settle: in seconds. */
struct hooks_bare *hooks_bare_new(struct kube *k, int64_t settle);
void hooks_bare_free(struct hooks_bare *b); /* NULL is fine */
/* Whether this path is one of our webhooks' without a token, and they are registered so. */
bool hooks_bare_accept(const struct hooks_bare *b, struct span path);

/* Pure: whether one of the `webhooks` (an array) calls such a path. */
bool hooks_have_bare(const struct json *webhooks);

#endif
