/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_AGENT_ENDPOINT_RECENT_WRITES_H
#define UNIRAIL_AGENT_ENDPOINT_RECENT_WRITES_H

/* Recent writes: what was recently done to an object is not repeated until a given time, although
 * the watch may not have shown it yet. Only the last write of an object counts. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct recent_writes_one;

struct recent_writes {
	struct recent_writes_one *v;
	size_t n;
};

int64_t
recent_writes_next(const struct recent_writes *s); /* when the next one expires; 0: there is none */

#endif
