/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_REGISTRATION_TOKENLESS_H
#define UNIRAIL_CONTROLLER_REGISTRATION_TOKENLESS_H

/*
 * Determines whether API servers may still call the webhooks by paths without a token, which older
 * controllers registered. Every replica watches both webhook configurations for this: during a
 * rolling upgrade new replicas serve before one of them becomes leader and registers paths with a
 * token. When each path in both configurations has a token, paths without one are accepted for
 * another `publish_s` seconds, since API servers learn of the change by a watch, and are rejected
 * afterwards.
 */

#include "base/buf.h"
#include "kube/client.h"

struct tokenless;

/* publish_s: time in seconds for which paths without a token are still accepted after every
 * registered path has got one. */
struct tokenless *tokenless_new(struct kube *k, int64_t publish_s);
void tokenless_free(struct tokenless *b); /* accepts NULL */
/* Returns whether `path` is a webhook's path without a token and such paths are currently
 * accepted. */
bool tokenless_accept(const struct tokenless *b, struct span path);

#endif
