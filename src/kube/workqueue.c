/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/workqueue.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"

struct workqueue {
	struct workqueue_conf c;
	struct loop *loop;
	struct loop_alarm pump;
	void *index; /* tsearch tree of all items by namespace and name */
	struct work *oldest, *newest;
	size_t n, in_flight;
	struct work *first, *last; /* the queue */
	struct work **heap;	   /* delayed items; the children of i are 2i + 1 and 2i + 2 */
	size_t n_heap;
};

/* --- the queue --- */

static void enqueue(struct work *w)
{
	struct workqueue *q = w->q;

	if (w->queued)
		return;
	w->queued = true;
	w->earlier = q->last;
	w->later = NULL;
	*(q->last ? &q->last->later : &q->first) = w;
	q->last = w;
}

static void dequeue(struct work *w)
{
	if (!w->queued)
		return;
	w->queued = false;
	*(w->earlier ? &w->earlier->later : &w->q->first) = w->later;
	*(w->later ? &w->later->earlier : &w->q->last) = w->earlier;
}

/* --- delayed items --- */

static void place(struct workqueue *q, size_t at, struct work *w)
{
	q->heap[at] = w;
	w->heap = at + 1;
}

/* Moves the item at `at` to where its due time belongs. */
static void sift(struct workqueue *q, size_t at)
{
	struct work *w = q->heap[at];
	size_t child;

	for (; at > 0 && q->heap[(at - 1) / 2]->due_ms > w->due_ms; at = (at - 1) / 2)
		place(q, at, q->heap[(at - 1) / 2]);
	for (; (child = 2 * at + 1) < q->n_heap; at = child) {
		if (child + 1 < q->n_heap && q->heap[child + 1]->due_ms < q->heap[child]->due_ms)
			child++;
		if (q->heap[child]->due_ms >= w->due_ms)
			break;
		place(q, at, q->heap[child]);
	}
	place(q, at, w);
}

static void cancel_delay(struct work *w)
{
	struct workqueue *q = w->q;
	size_t at = w->heap;

	if (!at)
		return;
	w->heap = 0;
	if (at-- == q->n_heap--)
		return;
	place(q, at, q->heap[q->n_heap]);
	sift(q, at);
}

/* --- reconcile of items --- */

static void schedule(struct workqueue *q)
{
	if (q->first && q->in_flight < q->c.in_flight_max)
		loop_alarm_within(&q->pump, 0);
	else if (q->n_heap)
		loop_alarm_within(&q->pump, q->heap[0]->due_ms - loop_now_ms(q->loop));
}

static void pump(void *arg)
{
	struct workqueue *q = arg;

	while (q->n_heap && q->heap[0]->due_ms <= loop_now_ms(q->loop))
		workqueue_add(q->heap[0]);
	for (int i = 0; i < WORKQUEUE_BATCH && q->first && q->in_flight < q->c.in_flight_max; i++) {
		struct work *w = q->first;

		dequeue(w);
		q->c.reconcile(q->c.arg, w);
	}
	schedule(q);
}

void workqueue_add(struct work *w)
{
	if (!w)
		return;
	cancel_delay(w);
	if (w->call)
		w->again = true;
	else
		enqueue(w);
	schedule(w->q);
}

void workqueue_add_after(struct work *w, int64_t ms)
{
	int64_t due = loop_now_ms(w->q->loop) + ms;

	if (w->queued || w->again || (w->heap && w->due_ms <= due))
		return;
	w->due_ms = due;
	if (!w->heap) {
		VEC_PUSH(w->q->heap, w->q->n_heap) = w;
		w->heap = w->q->n_heap;
	}
	sift(w->q, w->heap - 1);
	schedule(w->q);
}

void workqueue_retry(struct work *w)
{
	workqueue_add_after(w, backoff_next(&w->backoff));
}

void workqueue_forget(struct work *w)
{
	backoff_reset(&w->backoff);
	log_once_clear(&w->logged);
}

static void on_done(void *arg, int status, const struct json *object, const struct err *e)
{
	struct work *w = arg;
	struct workqueue *q = w->q;

	w->call = NULL;
	q->in_flight--;
	if (w->again)
		enqueue(w);
	w->again = false;
	schedule(q);
	/* The callback comes last, because it may free the item and the queue. */
	q->c.done(q->c.arg, w, status, object, e);
}

void workqueue_send(struct work *w, const struct kube_request *r)
{
	if (w->queued) {
		dequeue(w);
		w->again = true;
	}
	w->q->in_flight++;
	w->call = kube_send(w->q->c.kube, r, on_done, w);
}

/* --- table of items --- */

static int by_name(const void *a, const void *b)
{
	const struct work *x = a, *y = b;
	int r = strcmp(x->ns, y->ns);

	return r ? r : strcmp(x->name, y->name);
}

void *workqueue_find(const struct workqueue *q, const char *ns, const char *name)
{
	const struct work want = {.ns = (char *)ns, .name = (char *)name};
	struct work *const *found = tfind(&want, &q->index, by_name);

	return found ? *found : NULL;
}

void *workqueue_get(struct workqueue *q, const char *ns, const char *name)
{
	struct work *w = workqueue_find(q, ns, name);

	if (w)
		return w;
	w = xcalloc(1, q->c.size);
	*w = (struct work){.ns = xstrdup(ns),
			   .name = xstrdup(name),
			   .backoff = {q->c.retry_ms, q->c.retry_most_ms, 0},
			   .q = q,
			   .older = q->newest};
	xtsearch(w, &q->index, by_name);
	*(q->newest ? &q->newest->newer : &q->oldest) = w;
	q->newest = w;
	q->n++;
	return w;
}

void workqueue_remove(struct work *w)
{
	struct workqueue *q = w->q;

	dequeue(w);
	cancel_delay(w);
	tdelete(w, &q->index, by_name);
	*(w->older ? &w->older->newer : &q->oldest) = w->newer;
	*(w->newer ? &w->newer->older : &q->newest) = w->older;
	q->n--;
	q->in_flight -= w->call != NULL;
	kube_cancel(w->call);
	if (q->c.drop)
		q->c.drop(w);
	free(w->ns);
	free(w->name);
	free(w);
	schedule(q);
}

void *workqueue_first(const struct workqueue *q)
{
	return q->oldest;
}

void *workqueue_next(const struct work *w)
{
	return w->newer;
}

size_t workqueue_count(const struct workqueue *q)
{
	return q->n;
}

struct workqueue *workqueue_new(const struct workqueue_conf *c)
{
	struct workqueue *q = xcalloc(1, sizeof(*q));

	*q = (struct workqueue){.c = *c, .loop = kube_loop(c->kube)};
	q->pump = LOOP_ALARM(q->loop, pump, q);
	return q;
}

void workqueue_free(struct workqueue *q)
{
	if (!q)
		return;
	while (q->oldest)
		workqueue_remove(q->oldest);
	loop_alarm_cancel(&q->pump);
	free(q->heap);
	free(q);
}
