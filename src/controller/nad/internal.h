/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_NAD_INTERNAL_H
#define UNIRAIL_CONTROLLER_NAD_INTERNAL_H

/* Shared by the files of this directory. */

#include "base/backoff.h"
#include "controller/nad/nads.h"
#include "controller/nad/nads_index.h"
#include "controller/nad/render.h"

/* Internals of render.c. */

/* Inputs of a rendering. */
struct nad_request {
	const struct json *spec, *block;
	const char *type;
};

static inline int64_t nad_int(const struct json *v, int64_t fallback)
{
	int64_t n;

	return json_int(v, &n) == 0 ? n : fallback;
}

static inline bool nad_bool(const struct json *v, bool fallback)
{
	return json_kind(v) == JSON_BOOL ? json_bool(v) : fallback;
}

static inline const char *nad_text(const struct json *v, const char *fallback)
{
	const char *s = json_string(v);

	return s && *s ? s : fallback;
}

/* Key of a type's block in the spec: "ibsriov" for "ib-sriov"; NULL: unknown type. */
const char *nad_block(const char *type);
/* Writes [ifacer] and the main plugin. */
int nad_put_main(struct json_out *o, const struct nad_request *q, struct err *e);

/* Internals of reconcile.c. */

enum nads_step { STEP_NONE, STEP_CREATE, STEP_PATCH, STEP_REMOVE, STEP_STATUS };

/* State of one SpiderMultusConfig. */
struct nads_job {
	struct nads *n;
	char *ns, *name;
	char *nad; /* name of the wanted NAD, as in nads.wants; NULL: not processed yet */
	struct kube_call *call;
	enum nads_step step;
	char *about; /* the NAD that the request in flight is about */
	bool due, wrong;
	bool queued;			 /* in the queue that begins at nads.first */
	struct nads_job *before, *after; /* neighbours in the queue */
	bool failed;			 /* the status reports a failed write */
	bool no_status;			 /* the last status write returned 404 */
	char *logged;			 /* last error logged; NULL: none */
	struct backoff backoff;
	struct loop_timer *again;
};

struct nads {
	struct nads_conf c;
	struct loop *loop;
	struct nads_index jobs;	 /* all SpiderMultusConfigs by namespace, "", name */
	struct nads_index wants; /* processed SpiderMultusConfigs by namespace, name of the NAD,
	                          * name */
	struct nads_index
		owned; /* existing NADs by namespace, uid of the SpiderMultusConfig, name of the NAD
		        */
	struct nads_job *first, *last;
	size_t in_flight;
	struct loop_timer *pump;
	int64_t no_status_until;
	struct nads_counts counts;
};

/*
 * nads_again(): processes the job again after `ms`. nads_pump_schedule(): processes the queue in the
 * loop's next turn.
 */
void nads_again(struct nads_job *j, int64_t ms);
void nads_pump_schedule(struct nads *n);
/* The job's request was answered: queues it again if it changed meanwhile. */
void nads_answered(struct nads_job *j);
/* Sets the name of the NAD that the job wants. */
void nads_want(struct nads_job *j, const char *nad);
/* Carries out the next step of the job; at most one request. */
void nads_inspect(struct nads_job *j);

#endif
