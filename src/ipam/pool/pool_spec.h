/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_IPAM_POOL_POOL_SPEC_H
#define UNIRAIL_IPAM_POOL_POOL_SPEC_H

/* Specs of the API's objects, for pool_spec.c (a folder's files) and pool_cluster.c (the API server). */

#include "ipam/pool/pool_draft.h"
#include "wire/json/json.h"

struct pool_spec {
	const char *where; /* "rails.json: 'rail0'", for words */
	const struct json *spec;
	/*
	 * Of a cluster: the namespace that a network's name without one is in. NULL: of a folder,
	 * where unknown keys are refused, since there is no schema that would have told the user,
	 * and what only a cluster can answer.
	 */
	const char *agent_ns;
};

int pool_spec_wrong(const struct pool_spec *o, struct err *e, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Fills the draft; the caller empties it, also after a failure. */
int pool_spec_read(const struct pool_spec *o, struct pool_draft *d, struct err *e);
/* SpiderReservedIP's addresses onto the set. */
int pool_spec_reserve(const struct pool_spec *o, struct pool_set *s, struct err *e);

#endif
