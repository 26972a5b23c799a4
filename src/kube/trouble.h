/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KUBE_TROUBLE_H
#define UNIRAIL_KUBE_TROUBLE_H

/*
 * What a daemon says of kinds that it cannot follow: once for each trouble, with the remedy; those whose
 * definitions are not installed in one line, since mostly none is. That the server is not reached the
 * client says itself.
 */

#include "base/loop.h"
#include "kube/path.h"

struct kube_troubles {
	struct loop *loop;
	const char *who; /* "agent" */
	struct kube_trouble *first, **end;
	struct loop_timer *say;
};

struct kube_trouble {
	struct kube_troubles *all;
	const struct kube_kind *kind;
	bool ours;	/* a definition that is installed with unirail */
	struct err why; /* code 0: nothing is wrong */
	struct kube_trouble *next;
};

/* who is borrowed, as all that is added. */
void kube_troubles_init(struct kube_troubles *t, struct loop *l, const char *who);
void kube_troubles_add(struct kube_troubles *t, struct kube_trouble *k,
		       const struct kube_kind *kind, bool ours);
void kube_troubles_done(struct kube_troubles *t);

/* Of kube_informer_conf.trouble. */
void kube_trouble_is(struct kube_trouble *k, const struct err *why);
/* Why the kind is not known or not followed now, kind ERR_AGAIN; 0: it is. */
int kube_trouble_words(const struct kube_trouble *k, bool synced, struct err *e);

#endif
