/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_NAD_DIFF_H
#define UNIRAIL_CONTROLLER_NAD_DIFF_H

/*
 * From the NAD that is there to the one that is to be: pure, as text for the API server. Objects are
 * as controller/cache/cache.h has them.
 *
 * Of a NAD are kept as they are to be: annotations (all of them, but kubectl's own), spec.config, and
 * the owner. Labels and the rest are whoever's.
 */

#include "controller/nad/render.h"

/* The body of a creation. */
void nad_put(struct buf *b, const struct nad *n, const struct json *smc);
/* A merge patch that holds for this version of it only; false: there is nothing to change. */
bool nad_patch(struct buf *b, const struct nad *n, const struct json *smc,
	       const struct json *there);

/* The SpiderMultusConfig that controls the NAD: its name and *uid, borrowed; NULL: none does. */
const char *nad_owner(const struct json *there, const char **uid);

/* --- what the SpiderMultusConfig's status says --- */

struct nad_state {
	const char *nad; /* its name */
	bool ready;
	const char *reason;  /* "Written", "Invalid", "NameTaken", "Terminating", "NADFailed" */
	const char *message; /* "" when ready */
};

/* A merge patch of the status, for this version of the object only; false: it says so already. */
bool nad_status_patch(struct buf *b, const struct json *smc, const struct nad_state *s,
		      int64_t now_ms);

#endif
