/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KUBE_INFORMER_PRIV_H
#define UNIRAIL_KUBE_INFORMER_PRIV_H

/* Between informer.c, which lists and watches, and informer_objects.c. */

#include "base/backoff.h"
#include "kube/informer.h"
#include "kube/watch.h"

enum { INFORMER_SAID_MAX = 256 };

enum next { NEXT_LIST, NEXT_PROBE, NEXT_WATCH };

struct kube_informer {
	struct kube *k;
	struct kube_informer_conf c;
	char *ns, *labels, *fields;
	struct kube_store store;
	char *version;	    /* to go on from; NULL: list first */
	unsigned int round; /* of listing: what a round did not see is gone */
	bool synced;
	struct kube_list *list;
	struct kube_call *probe;
	struct kube_watch *watch;
	struct loop_timer *timer;
	enum next next;
	struct kube_backoff backoff;
	int64_t watch_from, behind_from; /* loop's time; behind_from 0: watching */
	char said[INFORMER_SAID_MAX];	 /* the failure that was logged last */
};

void informer_object_free(struct kube_informer *i, struct kube_object *o); /* NULL is fine */
void informer_take_object(struct kube_informer *i, const struct json *object);
void informer_remove_object(struct kube_informer *i, const char *ns, const char *name);
void informer_sweep(struct kube_informer *i); /* what was known and is not in this list */

#endif
