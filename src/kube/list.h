/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KUBE_LIST_H
#define UNIRAIL_KUBE_LIST_H

/*
 * A collection of any size, in pages, and each page object by object as its bytes come: what is
 * held is one object. The first page is short; the pages after it have so many objects that they come to
 * about 8 MiB, since the API server holds the whole of each. Objects of a list have no kind and apiVersion of their own.
 */

#include "kube/client.h"

enum { KUBE_PAGE = 500 };

/* What the server is to filter by. */
struct kube_select {
	const char *ns, *labels, *fields; /* NULL or "": all */
};

struct kube_list_ops {
	/* Valid during the call. Negative ends the list with that error. */
	int (*item)(void *arg, const struct json *object, struct err *e);
	/*
	 * The end: the resourceVersion that a watch goes on from, or e. What came before an error
	 * came, and comes again in another list. Status 410 (e is -ESTALE): the list took longer
	 * than the server keeps its state.
	 */
	void (*done)(void *arg, const char *resource_version, const struct err *e);
};

struct kube_list;

/* `page`: objects of a page at most. */
struct kube_list *kube_list(struct kube *k, const struct kube_kind *kind,
			    const struct kube_select *s, int page, const struct kube_list_ops *ops,
			    void *arg);
/* In one page from the server's cache, not older than `version`; "0": as it has it. */
struct kube_list *kube_list_since(struct kube *k, const struct kube_kind *kind,
				  const struct kube_select *s, const char *version,
				  const struct kube_list_ops *ops, void *arg);
void kube_list_cancel(struct kube_list *l); /* NULL is fine */

#endif
