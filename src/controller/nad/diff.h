/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_NAD_DIFF_H
#define UNIRAIL_CONTROLLER_NAD_DIFF_H

/*
 * Computes the bodies of the requests that create a NAD, turn an existing NAD into the wanted one,
 * and write the status of its SpiderMultusConfig. Pure. Objects are as controller/cache/cache.h
 * stores them.
 *
 * The controller manages these parts of a NAD: annotations (all but kubectl's own), spec.config and
 * the owner. Labels and everything else belong to other writers.
 */

#include "controller/nad/render.h"

/* Writes the body of a create. */
void nad_put(struct buf *b, const struct nad *n, const struct json *smc);
/* Writes a merge patch, bound to the resourceVersion of `there`, that turns this existing NAD
 * into n; returns false if no change is needed. */
bool nad_patch(struct buf *b, const struct nad *n, const struct json *smc,
	       const struct json *there);

/* Returns the name of the SpiderMultusConfig that is the NAD's controller, and its UID in *uid,
 * both borrowed; NULL: the NAD has none. */
const char *nad_owner(const struct json *there, const char **uid);

/* --- status of the SpiderMultusConfig --- */

struct nad_state {
	const char *nad; /* name of the NAD */
	bool ready;
	/* reason of the condition: "Written" (ready), "Invalid", "TooLarge", "NADTooLarge",
	 * "NameTaken", "Terminating", "NADFailed" */
	const char *reason;
	const char *message; /* message of the condition; "": ready */
};

/*
 * Writes a merge patch of the status bound to the object's version; returns false if the status is
 * up to date.
 */
bool nad_status_patch(struct buf *b, const struct json *smc, const struct nad_state *s,
		      int64_t now_ms);

#endif
