/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_AGENT_ENDPOINT_SETTLED_H
#define UNIRAIL_AGENT_ENDPOINT_SETTLED_H

/* What was done about objects a moment ago, and is not done again until a time, though the watch may
 * not have shown it yet. Of one object the last counts. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct settled_one;

struct settled {
	struct settled_one *v;
	size_t n;
};

/* Texts are copied; what: the content it was given, or "" for a removal. */
void settled_add(struct settled *s, const char *ns, const char *name, const char *what,
		 int64_t until);
void settled_forget(struct settled *s, int64_t now); /* whose time is up */
bool settled_has(const struct settled *s, const char *ns, const char *name, const char *what);
int64_t settled_next(const struct settled *s); /* when the next one's time is up; 0: none */
void settled_done(struct settled *s);

#endif
