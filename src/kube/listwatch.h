/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KUBE_LISTWATCH_H
#define UNIRAIL_KUBE_LISTWATCH_H

/*
 * One list and one watch of a collection; kube/informer.h keeps a collection current with both.
 *
 * A list reads a collection of any size, in pages, and each page object by object as its bytes arrive:
 * only one object is in memory. The first page is short; later pages are limited to about 8 MiB,
 * since the API server holds each page in memory. In a list, objects of built-in kinds have no kind
 * and apiVersion of their own.
 *
 * A watch reports changes from a resourceVersion on, until the server ends it (after five to ten
 * minutes) or the connection breaks.
 */

#include "kube/client.h"

enum { KUBE_PAGE = 500 };

/* Selectors evaluated by the server. */
struct kube_select {
	const char *ns, *labels, *fields; /* NULL or "": all */
};

struct kube_list_ops {
	/* The object is valid during the call. A negative result ends the list with that error. */
	int (*item)(void *arg, const struct json *object, struct err *e);
	/*
	 * Called at the end of the list with the resourceVersion from which a watch starts, or with
	 * e; before an error some objects may have been passed to `item`. -ESTALE (status 410): the
	 * list took longer than the server keeps its state.
	 */
	void (*done)(void *arg, const char *resource_version, const struct err *e);
};

struct kube_list;

/* `page`: maximum number of objects in a page. */
struct kube_list *kube_list(struct kube *k, const struct kube_kind *kind,
			    const struct kube_select *s, int page, const struct kube_list_ops *ops,
			    void *arg);
/* Lists the collection as one page from the server's cache, not older than `version`; "0": any
 * version. */
struct kube_list *kube_list_since(struct kube *k, const struct kube_kind *kind,
				  const struct kube_select *s, const char *version,
				  const struct kube_list_ops *ops, void *arg);
void kube_list_cancel(struct kube_list *l); /* accepts NULL */

/* --- watch calls --- */

enum kube_change { KUBE_ADDED, KUBE_MODIFIED, KUBE_DELETED, KUBE_BOOKMARK };

struct kube_watch_ops {
	/* called when the server has accepted the watch */
	void (*opened)(void *arg);
	/* The object is valid during the call. Of a bookmark's object only the resourceVersion
	 * is valid. */
	void (*event)(void *arg, enum kube_change change, const struct json *object);
	/*
	 * Called when the watch has ended. e NULL: by the server's timeout. Status 410: the version
	 * is too old, list again. retry_after: seconds to wait before the next request, or -1.
	 */
	void (*end)(void *arg, int status, int64_t retry_after, const struct err *e);
};

struct kube_watch;

struct kube_watch *kube_watch(struct kube *k, const struct kube_kind *kind,
			      const struct kube_select *s, const char *version,
			      const struct kube_watch_ops *ops, void *arg);
void kube_watch_cancel(struct kube_watch *w); /* accepts NULL */

/* Decodes one event. Returns 1 for a change, 0 for an event of an unknown type; negative: an ERROR
 * event, whose HTTP status is *status, or no event at all (*status is 0). */
int kube_watch_decode(const struct json *event, enum kube_change *change,
		      const struct json **object, int *status, int64_t *retry_after, struct err *e);

#endif
