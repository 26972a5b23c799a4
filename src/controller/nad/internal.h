/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_NAD_INTERNAL_H
#define UNIRAIL_CONTROLLER_NAD_INTERNAL_H

/* What this folder's own files share. */

#include "base/backoff.h"
#include "controller/nad/nads.h"
#include "controller/nad/nads_index.h"
#include "controller/nad/render.h"

/* Between render.c (the whole), render.c (the main plugin) and nad_coordinator.c. */

/* What is asked for, found once. */
struct nad_ask {
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

/* The block's key in the spec: "ibsriov" for "ib-sriov"; NULL: no such type. */
const char *nad_block(const char *type);
/* [ifacer] and the main plugin. */
int nad_put_main(struct json_out *o, const struct nad_ask *q, struct err *e);

/* Between reconcile.c (which SpiderMultusConfigs are looked at, and when) and reconcile.c (what is done). */

enum nads_step { STEP_NONE, STEP_CREATE, STEP_PATCH, STEP_REMOVE, STEP_STATUS };

/* One SpiderMultusConfig. */
struct nads_job {
	struct nads *n;
	char *ns, *name;
	char *nad; /* the NAD's name as last wanted, as in nads.wants; NULL: never looked at */
	struct kube_call *call;
	enum nads_step step;
	char *about; /* the NAD that the request is about */
	bool due, wrong;
	bool queued;			 /* to be looked at: nads.first */
	struct nads_job *before, *after; /* in that queue */
	bool failed;			 /* the status says that a write did */
	bool no_status;			 /* the last one was answered with 404 */
	char *said;			 /* the trouble that is told already; NULL: none */
	struct kube_backoff backoff;
	struct loop_timer *again;
};

struct nads {
	struct nads_conf c;
	struct loop *loop;
	struct nads_index jobs;	 /* namespace, "", name: of each SpiderMultusConfig */
	struct nads_index wants; /* namespace, name of the NAD, name: those that were looked at */
	struct nads_index
		owned; /* namespace, uid of the SpiderMultusConfig, name of the NAD: NADs that are there */
	struct nads_job *first, *last;
	size_t flying;
	struct loop_timer *pump;
	int64_t no_status_until;
	struct nads_counts counts;
};

/* Looks at it once more, after `ms`; in the loop's next turn. */
void nads_again(struct nads_job *j, int64_t ms);
void nads_pump_soon(struct nads *n);
/* Its request has an answer: when something happened meanwhile it is looked at again. */
void nads_answered(struct nads_job *j);
/* The name of the NAD that it wants now. */
void nads_want(struct nads_job *j, const char *nad);
/* Does the next thing that it needs; a request at most. */
void nads_look_at(struct nads_job *j);

#endif
