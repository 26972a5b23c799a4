/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KUBE_SYNC_ERROR_H
#define UNIRAIL_KUBE_SYNC_ERROR_H

/*
 * Logs kinds that a daemon cannot sync: once per error, with the remedy. Kinds whose CRDs are not
 * installed share one line, since usually all are missing. The client itself logs an unreachable
 * server.
 */

#include "base/loop.h"
#include "kube/path.h"

struct kube_sync_errors {
	struct loop *loop;
	const char *component; /* "agent" */
	struct kube_sync_error *first, **end;
	struct loop_timer *say;
};

struct kube_sync_error {
	struct kube_sync_errors *all;
	const struct kube_kind *kind;
	bool own_crd;	   /* the CRD of this kind is installed with unirail */
	struct err reason; /* code 0: no error */
	struct kube_sync_error *next;
};

/* `who` and all added kinds are borrowed. */
void kube_sync_errors_init(struct kube_sync_errors *t, struct loop *l, const char *component);
void kube_sync_errors_add(struct kube_sync_errors *t, struct kube_sync_error *k,
			  const struct kube_kind *kind, bool own_crd);
void kube_sync_errors_done(struct kube_sync_errors *t);

/* Callback for kube_informer_conf.sync_error. */
void kube_sync_error_is(struct kube_sync_error *k, const struct err *reason);
/* 0: the kind is in sync. Otherwise sets e to the reason, kind ERR_AGAIN. */
int kube_sync_error_describe(const struct kube_sync_error *k, bool synced, struct err *e);

#endif
