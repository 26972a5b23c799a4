/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KUBE_LEADER_H
#define UNIRAIL_KUBE_LEADER_H

/*
 * Leader election by a Lease (coordination.k8s.io/v1), with the same times as
 * kube-controller-manager by default: a lease is valid for 15 s, the leader resigns when it could
 * not renew the lease for 10 s, and every candidate retries every 2 s.
 *
 * Clocks are not compared: each process counts 15 s on its own clock, from when it last saw the
 * Lease change. So two processes can lead at once only if one clock runs 1.5 times as fast as the
 * other. (`lost` must stop all leader work before it returns.) Every update names the version of
 * the Lease that it replaces.
 */

#include "kube/client.h"

enum { KUBE_LEASE_MS = 15000, KUBE_RENEW_MS = 10000, KUBE_RETRY_MS = 2000 };

struct kube_lease_conf {
	const char *ns, *name;
	const char *id;			  /* identity of this process, unique */
	int lease_ms, renew_ms, retry_ms; /* 0: the defaults above */
	void (*gained)(void *arg);
	/* called when the process lost the leadership; it remains a candidate */
	void (*lost)(void *arg, const struct err *reason);
	void *arg;
};

struct kube_lease;

struct kube_lease *kube_lease_new(struct kube *k, const struct kube_lease_conf *c);
/* Frees the state without a callback. The lease on the server is not released and blocks other
 * processes until it expires, so call kube_lease_release() before. Accepts NULL. */
void kube_lease_free(struct kube_lease *l);

/* Returns the milliseconds between the last renewal (renewTime) and the moment at which this
 * process last read the lease as free (expired, released, or held by its own identity). INT64_MAX:
 * there was no Lease or no renewTime; 0: never read as free, or renewTime is ahead of this node's
 * clock. */
int64_t kube_lease_silent_ms(const struct kube_lease *l);
bool kube_lease_is_held(const struct kube_lease *l);
/* returns the identity of the leader as last read; "": none */
const char *kube_lease_holder(const struct kube_lease *l);
/* Releases the lease, so that another process need not wait for its expiry. Calls `done` in
 * every case, and never `lost`. Afterwards only kube_lease_free() may be called. */
void kube_lease_release(struct kube_lease *l, void (*done)(void *arg), void *arg);

#endif
