/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_AGENT_ENDPOINT_INTERNAL_H
#define UNIRAIL_AGENT_ENDPOINT_INTERNAL_H

/* Shared by the files of this directory. */

#include "agent/endpoint/endpoints.h"
#include "agent/endpoint/recent_writes.h"
#include "base/backoff.h"
#include "block/codec.h"
#include "kube/informer.h"

enum { ENDPOINTS_AGAIN_MS = 1000, ENDPOINTS_AGAIN_MOST_MS = 15 * 1000 };

extern const struct kube_kind endpoints_kind;

/* An existing endpoint written by this node. */
struct endpoints_there {
	char *status;
	int64_t idle_since; /* since when none of its addresses is used here; 0: some are */
	bool wanted;	    /* a pod on another node requests its addresses */
};

/* The request in flight. */
struct endpoints_job {
	char *ns, *name, *status;
	bool create, removal;
};

struct endpoints {
	struct endpoints_conf conf;
	char label[BLOCK_LABEL_MAX];
	struct kube_informer *informer;
	struct endpoints_required wanted;
	size_t next; /* in `wanted`: where the search for the next write begins */
	bool known;  /* the leases are known */
	bool hold;
	struct kube_call *call;
	struct endpoints_job job;
	struct recent_writes
		recent_writes; /* until the watch shows it; refused ones: until the retry */
	struct loop_timer *timer;
	int64_t at; /* when it fires */
	struct backoff backoff;
	/* An endpoint that exists but that this node did not write (or has not seen yet): patched
	 * instead of created. */
	char *taken;
	bool logged;
};

/* Schedules a reconcile within ms. */
void endpoints_schedule(struct endpoints *e, int64_t ms);
/* The request has ended or was cancelled. */
void endpoints_job_done(struct endpoints *e);

#endif
