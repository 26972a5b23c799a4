/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_BASE_BACKOFF_H
#define UNIRAIL_BASE_BACKOFF_H

/* Exponential backoff with jitter: the wait begins at `base` and doubles with each failure, up to
 * `most`; backoff_next() returns half to one and a half times the wait. Because of the jitter, a
 * thousand agents do not reconnect at the same moment when their server restarts. */

#include <stdint.h>

struct backoff {
	int64_t base, most; /* ms */
	unsigned int failures;
};

int64_t backoff_next(struct backoff *b); /* counts a failure; returns ms to wait */
void backoff_reset(struct backoff *b);
/* a uniformly distributed number x, from <= x <= to */
int64_t jitter_ms(int64_t from, int64_t to);

#endif
