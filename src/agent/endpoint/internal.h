/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_AGENT_ENDPOINT_INTERNAL_H
#define UNIRAIL_AGENT_ENDPOINT_INTERNAL_H

/* Between writer.c (what is there, what is wanted) and writer.c (one request after the other). */

#include "agent/endpoint/endpoints.h"
#include "agent/endpoint/settled.h"
#include "base/backoff.h"
#include "block/codec.h"
#include "kube/informer.h"

enum { ENDPOINTS_AGAIN_MS = 1000, ENDPOINTS_AGAIN_MOST_MS = 15 * 1000 };

extern const struct kube_kind endpoints_kind;

/* What is there, of ours. */
struct endpoints_there {
	char *status;
	int64_t idle_since; /* nothing of it is in use here; 0: something is */
	bool wanted;	    /* a pod on another node asks for its addresses */
};

/* The request under way. */
struct endpoints_job {
	char *ns, *name, *status;
	bool create, removal;
};

struct endpoints {
	struct endpoints_conf conf;
	char label[BLOCK_LABEL_MAX];
	struct kube_informer *informer;
	struct endpoints_wanted wanted;
	bool known; /* the journal was seen */
	bool hold;
	struct kube_call *call;
	struct endpoints_job job;
	struct settled settled; /* until the watch shows it; refused: until it is tried again */
	struct loop_timer *timer;
	int64_t at; /* when it fires */
	struct kube_backoff backoff;
	/* One that exists but is not (seen as) ours: patched instead of created. */
	char *taken;
	bool said;
};

/* A look at what there is to do, after so many ms at the latest. */
void endpoints_soon(struct endpoints *e, int64_t ms);
/* The request is over, or is given up. */
void endpoints_job_done(struct endpoints *e);

#endif
