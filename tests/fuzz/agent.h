/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_TESTS_FUZZ_AGENT_H
#define UNIRAIL_TESTS_FUZZ_AGENT_H

#include "fuzz.h"

/* The text up to a NUL or the end of the input. */
static inline struct span feed_part(struct feed *f)
{
	const uint8_t *p = f->p;

	while (feed_byte(f))
		;
	return (struct span){(const char *)p, (size_t)(f->p - p) - (f->n > 0 && f->p > p)};
}

/* agent_replies.c: replies of an agent to a plugin. */
void agent_replies(struct feed f);

#endif
