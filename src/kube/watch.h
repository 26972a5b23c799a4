/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KUBE_WATCH_H
#define UNIRAIL_KUBE_WATCH_H

/*
 * One watch of a collection from a resourceVersion on: until the server ends it (after five to ten
 * minutes) or the connection breaks. kube/informer.h resumes it.
 */

#include "kube/list.h"

enum kube_change { KUBE_ADDED, KUBE_MODIFIED, KUBE_DELETED, KUBE_BOOKMARK };

struct kube_watch_ops {
	void (*opened)(void *arg); /* the watch is established: no change is missed from now on */
	/* Valid during the call. A bookmark's object has a resourceVersion and nothing else. */
	void (*event)(void *arg, enum kube_change change, const struct json *object);
	/*
	 * The watch has ended. e NULL: by the server's timeout. Status 410: the version is too old,
	 * list again. retry_after: seconds to wait before the next request, or -1.
	 */
	void (*end)(void *arg, int status, int64_t retry_after, const struct err *e);
};

struct kube_watch;

struct kube_watch *kube_watch(struct kube *k, const struct kube_kind *kind,
			      const struct kube_select *s, const char *version,
			      const struct kube_watch_ops *ops, void *arg);
void kube_watch_cancel(struct kube_watch *w); /* NULL is fine */

/* Decodes one event. 1: a change; 0: an event of an unknown type; negative with *status: an ERROR
 * event, or not an event (status 0). */
int kube_watch_decode(const struct json *event, enum kube_change *change,
		      const struct json **object, int *status, int64_t *retry_after, struct err *e);

#endif
