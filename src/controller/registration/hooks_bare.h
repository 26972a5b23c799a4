/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_REGISTRATION_HOOKS_BARE_H
#define UNIRAIL_CONTROLLER_REGISTRATION_HOOKS_BARE_H

/*
 * Whether API servers still call the webhooks by paths without a token, as a controller before the
 * introduction of tokens registered them. Every replica watches both webhook configurations for
 * this: during a rolling upgrade new replicas serve before one of them becomes leader and registers
 * paths with a token. When each path in both configurations has a token, paths without one are
 * accepted for another `settle` seconds, since API servers learn of the change by a watch, and are
 * rejected afterwards.
 */

#include "base/buf.h"
#include "kube/client.h"

struct hooks_bare;

/* settle: in seconds. */
struct hooks_bare *hooks_bare_new(struct kube *k, int64_t settle);
void hooks_bare_free(struct hooks_bare *b); /* accepts NULL */
/* Whether the path is one of our webhooks' without a token and is accepted now. */
bool hooks_bare_accept(const struct hooks_bare *b, struct span path);

/* Whether one of the `webhooks` (an array) has such a path. Pure. */
bool hooks_have_bare(const struct json *webhooks);

#endif
