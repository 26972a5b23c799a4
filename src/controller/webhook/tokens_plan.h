/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_WEBHOOK_TOKENS_PLAN_H
#define UNIRAIL_CONTROLLER_WEBHOOK_TOKENS_PLAN_H

/*
 * The secret in the path of the registered webhooks, by which an API server is told from a stranger, and its rotation: pure.
 * A set has the newest token first; each of the set is taken.
 *
 *	the newest is older than `life`			CREATE: a new one in front
 *	it is older than `settle`: all replicas have it	it is the registered one from now on
 *	it has been registered for `settle`		PRUNE: the others are taken no more
 *
 * So whichever token an API server uses, every replica takes it.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum { TOKEN_LEN = 64, TOKENS_MAX = 4 };

struct token {
	char text[TOKEN_LEN + 1]; /* lower-case hex, 256 bits */
};

struct tokens_set {
	struct token v[TOKENS_MAX];
	size_t n;
	int64_t since; /* when the newest was made, seconds since the epoch; 0: long ago */
};

/* Lines of a text; -EINVAL: one is no token, or there are too many or none. */
int tokens_read(struct tokens_set *ret, struct span text);
void tokens_write(const struct tokens_set *s, struct buf *ret);

/* The one that is to be registered; NULL: there is none. */
const struct token *tokens_registered(const struct tokens_set *s, int64_t settle, int64_t now);

enum tokens_step { TOKENS_FINE, TOKENS_CREATE, TOKENS_PRUNE };

/* `registered_since`: from when on the API server is known to use the newest; 0: it is not. */
enum tokens_step tokens_step(const struct tokens_set *s, int64_t life, int64_t settle,
			     int64_t registered_since, int64_t now);
/* That. */
void tokens_take_step(struct tokens_set *s, enum tokens_step step, int64_t now);

/* Whether the path begins with "/" and this token; the time does not depend on where they differ. */
bool token_matches(const struct token *t, struct span path);

#endif
