/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_WEBHOOK_TOKENS_PLAN_H
#define UNIRAIL_CONTROLLER_WEBHOOK_TOKENS_PLAN_H

/*
 * The secret token in the path of the registered webhooks, which authenticates API servers, and its
 * rotation. Pure. A set has the newest token first; all tokens of the set are accepted.
 *
 * 	there is none, or a single one older than `life`	CREATE: put a new one in front
 * 	the newest is the only one, or is older than		it is the one to register
 * 	`publish_s` (every replica has it then)
 * 	the newest has been registered for `publish_s`	PRUNE: drop the others
 *
 * Thus every replica accepts every token that an API server may use.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum { TOKEN_LEN = 64, TOKENS_MAX = 4 };

struct token {
	char text[TOKEN_LEN + 1]; /* 256 bits in lower-case hex */
};

struct tokens_set {
	struct token v[TOKENS_MAX];
	size_t n;
	/* time at which the newest token was created, in seconds since the epoch; 0: long ago */
	int64_t since;
};

/* Parses one token per line. -EINVAL: a token is invalid, or there are none or too many. */
int tokens_read(struct tokens_set *ret, struct span text);
void tokens_write(const struct tokens_set *s, struct buf *ret);

/* Returns the token to register; NULL: none. */
const struct token *tokens_registered(const struct tokens_set *s, int64_t publish_s, int64_t now);

enum tokens_step { TOKENS_FINE, TOKENS_CREATE, TOKENS_PRUNE };

/* Returns the next step. `registered_since`: time at which the API server was first known to use
 * the newest token; 0: not yet. */
enum tokens_step tokens_step(const struct tokens_set *s, int64_t life, int64_t publish_s,
			     int64_t registered_since, int64_t now);
/* Applies the step to the set. */
void tokens_take_step(struct tokens_set *s, enum tokens_step step, int64_t now);

/* Returns whether the path begins with "/" and this token. Takes the same time wherever path
 * and token differ. */
bool token_matches(const struct token *t, struct span path);

#endif
