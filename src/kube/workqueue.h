/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KUBE_WORKQUEUE_H
#define UNIRAIL_KUBE_WORKQUEUE_H

/*
 * Queue of the objects that a reconciler compares and writes, like controller-runtime's work queue.
 * An item is an object's namespace and name, with the reconciler's own state of it:
 *
 *	struct job { struct work w; char *last; };		// struct work is the first member
 *
 *	workqueue_add(workqueue_get(q, o->ns, o->name));	// a watch reports a change
 *
 *	static void reconcile(void *arg, void *item)		// conf.reconcile
 *	{
 *		struct job *j = item;
 *		...
 *		workqueue_send(&j->w, &request);	// at most one; or nothing is to be done
 *	}
 *	static void done(void *arg, void *item, int status, const struct json *object,
 *			 const struct err *e)		// conf.done: its answer
 *	{
 *		if (!e)
 *			workqueue_forget(&j->w);
 *		else
 *			workqueue_retry(&j->w);
 *		if (e && log_once(&j->w.logged, e->text))
 *			log_error(...);
 *	}
 *
 * An item has at most one request in flight, and all items together conf.in_flight_max. An item that
 * is added while its request is in flight is reconciled after `done`; one that is queued already
 * keeps its place. Items are reconciled in the order in which they were added, at most
 * WORKQUEUE_BATCH in a turn of the loop. Each function except workqueue_free() costs at most the
 * logarithm of the number of items.
 *
 * reconcile() and done() may call every function below, even workqueue_remove() for their own item;
 * only done() may call workqueue_free(). Requests of removed items are cancelled: done() is not
 * called for them.
 */

#include <stddef.h>

#include "base/backoff.h"
#include "base/log.h"
#include "base/loop.h"
#include "kube/client.h"

enum { WORKQUEUE_BATCH = 64 };

struct workqueue;

struct workqueue_conf {
	struct kube *kube;
	size_t in_flight_max;
	int64_t retry_ms, retry_most_ms; /* backoff of workqueue_retry() */
	size_t size;			 /* size of an item: sizeof(struct work) or more */
	void (*reconcile)(void *arg, void *item);
	void (*done)(void *arg, void *item, int status, const struct json *object,
		     const struct err *e);
	void (*drop)(void *item); /* frees the reconciler's own members; NULL: there are none */
	void *arg;
};

struct work {
	char *ns, *name; /* ns "": cluster-scoped */
	struct backoff backoff;
	struct log_once logged; /* used by the reconciler; workqueue_forget() clears it */
	struct kube_call *call; /* in flight; NULL: none */
	/* the members below are private to workqueue.c */
	struct workqueue *q;
	struct work *older, *newer;   /* all items */
	struct work *earlier, *later; /* the queue, if `queued` */
	bool queued, again;	      /* again: is queued when its request ends */
	int64_t due_ms;		      /* loop time; valid if the item is in the heap */
	size_t heap;		      /* 1 + index in the heap of delayed items; 0: not delayed */
};

struct workqueue *workqueue_new(const struct workqueue_conf *c);
void workqueue_free(struct workqueue *q); /* cancels all requests; accepts NULL */

/* Return the item of the object. If there is none, workqueue_find() returns NULL, workqueue_get()
 * creates it, zeroed and not queued. */
void *workqueue_find(const struct workqueue *q, const char *ns, const char *name);
void *workqueue_get(struct workqueue *q, const char *ns, const char *name);
/* Frees the item, and cancels its request. */
void workqueue_remove(struct work *w);
/* All items, the oldest first; NULL: no more. */
void *workqueue_first(const struct workqueue *q);
void *workqueue_next(const struct work *w);
size_t workqueue_count(const struct workqueue *q);

/* Reconciles the item as soon as possible; accepts NULL. */
void workqueue_add(struct work *w);
/*
 * Reconciles the item in `ms` at the latest: an earlier time stays. A reconcile in the meantime
 * cancels the delay.
 */
void workqueue_add_after(struct work *w, int64_t ms);
/* Reconciles the item when its backoff expires. */
void workqueue_retry(struct work *w);
/* Resets the backoff and the logged error. */
void workqueue_forget(struct work *w);

/* Sends the request of an item that has none in flight. For reconcile() and done(). */
void workqueue_send(struct work *w, const struct kube_request *r);

#endif
