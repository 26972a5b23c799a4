/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_NAD_NADS_H
#define UNIRAIL_CONTROLLER_NAD_NADS_H

/*
 * Runs in the leader: creates the NAD (NetworkAttachmentDefinition) of each SpiderMultusConfig
 * (controller/nad/render.h) and reverts edits and deletions at once. A NAD is deleted with its
 * owner by Kubernetes' garbage collection. When cr-name changes, the NAD of the old name is
 * deleted. If a NAD of the wanted name exists already (one that is too large for the cache is not
 * changed):
 *
 *	another existing SpiderMultusConfig owns it	it is not changed
 *	it is being deleted				it is created again afterwards
 *	otherwise					this SpiderMultusConfig becomes its owner
 *
 * The result is reported by the condition "Ready" of the SpiderMultusConfig's status and by events;
 * the status is written only when it changes. Failures are retried with a backoff of 1 s to one
 * minute.
 *
 * A NAD whose device resource no node has gets the annotation of spec/missing_resource.h.
 * nads_conf.missing() decides this each time that a NAD is compared; the caller calls nads_check()
 * when the decision changes.
 */

#include "controller/cache/cache.h"
#include "kube/events.h"

struct nads;

struct nads_conf {
	struct kube *kube;
	struct kube_cache *cache;
	struct kube_events *events;
	/*
	 * Returns the annotation that the SpiderMultusConfig's NAD should have, which the caller
	 * frees; NULL: none. `is`: its current annotation; NULL: none. May be NULL: no NAD gets
	 * the annotation.
	 */
	char *(*missing)(void *arg, const struct kube_object *smc, const char *is);
	void *arg;
};

struct nads *nads_new(const struct nads_conf *c);
void nads_free(struct nads *n); /* accepts NULL */
/* Schedules a comparison of this SpiderMultusConfig's NAD. Accepts NULL. */
void nads_check(struct nads *n, const char *ns, const char *name);

struct nads_counts {
	/* written: successful writes of NADs and of statuses; failed: failed requests, without
	 * conflicts and requests for objects deleted meanwhile; removed: deleted NADs */
	uint64_t written, failed, removed;
	/* SpiderMultusConfigs that now have no correct NAD, or whose former NAD could not be
	 * deleted */
	size_t outdated;
};
struct nads_counts nads_counts(const struct nads *n);

#endif
