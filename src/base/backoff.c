/* SPDX-License-Identifier: Apache-2.0 */
#include "base/backoff.h"

#include "base/random.h"

int64_t jitter_ms(int64_t from, int64_t to)
{
	uint32_t n;

	if (to <= from)
		return from;
	random_bytes(&n, sizeof(n));
	return from + (int64_t)n % (to - from + 1);
}

int64_t backoff_next(struct backoff *b)
{
	int64_t wait = b->base;

	for (unsigned int i = 0; i < b->failures && wait < b->most; i++)
		wait *= 2;
	b->failures++;
	if (wait > b->most)
		wait = b->most;
	return jitter_ms(wait / 2, wait + wait / 2);
}

void backoff_reset(struct backoff *b)
{
	b->failures = 0;
}
