/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_AGENT_ENDPOINT_RECENT_WRITES_H
#define UNIRAIL_AGENT_ENDPOINT_RECENT_WRITES_H

/* Recent writes: a write to an object is not repeated until a given time, although the watch may
 * not have delivered its result yet. Only the last write to each object counts. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct recent_writes_one;

struct recent_writes {
	struct recent_writes_one *v;
	size_t n;
};

/* Returns the time at which the next entry expires; 0: there is none. */
int64_t recent_writes_next(const struct recent_writes *s);

#endif
