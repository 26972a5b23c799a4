/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KUBE_CALL_H
#define UNIRAIL_KUBE_CALL_H

/* State of one request; client.c only. */

#include "kube/internal.h"

enum kube_call_state { CALL_WAITING, CALL_PAUSED, CALL_SENT };

enum { CALL_LAST_MAX = 320, KUBE_HEAD_MS = 30000 /* a watch's answer begins at once */ };

struct kube_call {
	struct kube *k;
	enum kube_verb verb;
	const struct kube_stream_ops *ops;
	void *arg;
	enum kube_call_state state;
	struct buf path, description, body;
	struct buf refusal; /* body of an error answer */
	struct https *conn;
	struct h2_stream *stream;
	struct loop_timer *deadline, *retry;
	int timeout_ms, status;
	int64_t retry_after;
	unsigned int tries;
	bool once;
	bool rejected;		  /* answered 401 once */
	bool doomed;		  /* fail at once when there is no connection */
	bool busy, ended;	  /* busy: one of its callbacks runs */
	char last[CALL_LAST_MAX]; /* the last failure, for the error on timeout */
	struct kube_call *prev, *next;
};

static inline bool kube_call_reads(const struct kube_call *c)
{
	return c->verb == KUBE_GET || c->verb == KUBE_LIST;
}

void kube_call_wait(struct kube_call *c); /* queues the call until a connection is ready */
void kube_call_late(void *call);	  /* the call's deadline has passed */

#endif
