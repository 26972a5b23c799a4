/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KUBE_LEADER_H
#define UNIRAIL_KUBE_LEADER_H

/*
 * One of several processes leads: whoever holds a Lease (coordination.k8s.io/v1), as other
 * controllers do it, with their times: it is valid for 15 s, its holder gives up when it could not
 * renew it for 10 s, and everybody tries every 2 s.
 *
 * Clocks are not compared: each counts 15 s on its own, from when it last saw the Lease change. So
 * two lead at once only if one's clock runs half as fast again as the other's. (`lost` must stop
 * what leads before it returns.) Every write says which version of the Lease it replaces.
 */

#include "kube/client.h"

enum { KUBE_LEASE_MS = 15000, KUBE_RENEW_MS = 10000, KUBE_RETRY_MS = 2000 };

struct kube_lease_conf {
	const char *ns, *name;
	const char *id;			  /* of this process: no other may have it */
	int lease_ms, renew_ms, retry_ms; /* 0: as above */
	void (*gained)(void *arg);
	void (*lost)(void *arg, const struct err *why); /* then it goes on trying */
	void *arg;
};

struct kube_lease;

struct kube_lease *kube_lease_new(struct kube *k, const struct kube_lease_conf *c);
/* What is held stays held until it runs out: release it first. No callback. NULL is fine. */
void kube_lease_free(struct kube_lease *l);

/* How long nobody had renewed it when it was last found free, by its own time; INT64_MAX: there was none.
 * 0: it was never. */
int64_t kube_lease_silent_ms(const struct kube_lease *l);
bool kube_lease_is_held(const struct kube_lease *l);
const char *kube_lease_holder(const struct kube_lease *l); /* as last seen; "" nobody */
/* Gives it back, so that another need not wait; `done` comes in any case, `lost` does not. Only
 * kube_lease_free() may follow. */
void kube_lease_release(struct kube_lease *l, void (*done)(void *arg), void *arg);

#endif
