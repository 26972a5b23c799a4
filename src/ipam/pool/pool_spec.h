/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_IPAM_POOL_POOL_SPEC_H
#define UNIRAIL_IPAM_POOL_POOL_SPEC_H

/* Reads specs of API objects: for pool_spec.c (files of a directory), pool_cluster.c (the API
 * server), the controller and doctor. */

#include "ipam/pool/pool_draft.h"
#include "wire/json/json.h"

struct pool_spec {
	const char *origin; /* location of the object such as "rails.json: 'rail0'", for messages */
	const struct json *spec;
	/*
	 * Namespace of names in multusName that have none. NULL: the object is in a directory; then
	 * unknown keys are refused, because no API server has reported them to the user, and so are
	 * fields that only a cluster can evaluate.
	 */
	const char *agent_ns;
};

/* Fills the draft; the caller calls pool_draft_done(), also after a failure. */
int pool_spec_read(const struct pool_spec *o, struct pool_draft *d, struct err *e);
/* Adds the addresses of a SpiderReservedIP to the set. */
int pool_spec_reserve(const struct pool_spec *o, struct pool_set *s, struct err *e);

#endif
