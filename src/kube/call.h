/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KUBE_CALL_H
#define UNIRAIL_KUBE_CALL_H

/* Between client.c and call_new.c. */

#include "kube/internal.h"

enum kube_call_state { CALL_WAITING, CALL_PAUSED, CALL_SENT };

enum { CALL_LAST_MAX = 320, KUBE_HEAD_MS = 30000 /* a watch's answer begins at once */ };

struct kube_call {
	struct kube *k;
	enum kube_verb verb;
	const struct kube_stream_ops *ops;
	void *arg;
	enum kube_call_state state;
	struct buf path, words, body;
	struct buf refusal; /* what the server says instead */
	struct https *conn;
	struct h2_stream *stream;
	struct loop_timer *deadline, *retry;
	int timeout_ms, status;
	int64_t retry_after;
	unsigned int tries;
	bool once;
	bool rejected;		  /* by 401, once */
	bool doomed;		  /* there is no connection, and nobody waits for one */
	bool busy, ended;	  /* busy: one of its callbacks runs */
	char last[CALL_LAST_MAX]; /* what went wrong before */
	struct kube_call *prev, *next;
};

static inline bool kube_call_reads(const struct kube_call *c)
{
	return c->verb == KUBE_GET || c->verb == KUBE_LIST;
}

void kube_call_wait(struct kube_call *c); /* for a connection, on which it goes */
void kube_call_late(void *call);	  /* its time is up */

#endif
