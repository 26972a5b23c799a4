/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_NAD_INTERNAL_H
#define UNIRAIL_CONTROLLER_NAD_INTERNAL_H

/* Shared by the files of this directory. */

#include "controller/nad/nads.h"
#include "controller/nad/nads_index.h"
#include "controller/nad/render.h"
#include "kube/workqueue.h"

/* Internals of render.c. */

/* Inputs for the rendering of a NAD. */
struct nad_request {
	const struct json *spec, *block;
	const char *type;
};

static inline const char *nad_text(const struct json *v, const char *fallback)
{
	const char *s = json_string(v);

	return s && *s ? s : fallback;
}

/* Internals of reconcile.c. */

enum nads_step { STEP_NONE, STEP_CREATE, STEP_PATCH, STEP_REMOVE, STEP_STATUS };

/* State of one SpiderMultusConfig. */
struct nads_job {
	struct work w;
	struct nads *n;
	char *nad;	     /* name of the wanted NAD, as in nads.wants; NULL: not processed yet */
	enum nads_step step; /* of the last request */
	char *about;	     /* name of the NAD of the last request; STEP_STATUS: not used */
	/* the SpiderMultusConfig has no correct NAD, or the deletion of its former NAD failed */
	bool outdated;
	bool failed;	/* the status reports a failed write */
	bool no_status; /* the last status write returned 404 */
};

struct nads {
	struct nads_conf c;
	struct loop *loop;
	struct workqueue *queue; /* a struct nads_job for each SpiderMultusConfig */
	/* processed SpiderMultusConfigs; key: namespace, name of the wanted NAD, name of the
	 * SpiderMultusConfig */
	struct nads_index wants;
	struct nads_index
		/* existing NADs; key: namespace, uid of the SpiderMultusConfig that owns the
		 * NAD, name of the NAD */
		owned;
	/* 0, or, after the CRD had no status subresource, the loop time before which no status
	 * is written */
	int64_t no_status_until;
	struct nads_counts counts;
};

#endif
