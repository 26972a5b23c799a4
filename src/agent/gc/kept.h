/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_AGENT_GC_KEPT_H
#define UNIRAIL_AGENT_GC_KEPT_H

/*
 * Addresses that are kept for a pod's name (spec/identity.h) and that no pod will come for. A name
 * whose addresses have been kept for the time of grace is asked about, and then again every ten times
 * that: its StatefulSet, its KubeVirt machine, and its SpiderEndpoint, which tells when the name has
 * other addresses on another node by now. Whatever cannot be asked keeps everything as it is.
 */

#include "spec/identity.h"
#include "ipam/ipam.h"
#include "kube/client.h"

struct kept;

struct kept_conf {
	struct kube *kube;
	const char *node;
	int64_t grace_ms;
	struct identity_conf identity;
	void (*touch)(void *arg); /* a batch is wanted: kept_batch() has something to do */
	void *arg;
};

struct kept *kept_new(const struct kept_conf *c); /* node is borrowed */
void kept_free(struct kept *k);			  /* before kube_free(); NULL is fine */
void kept_settings(struct kept *k, int64_t grace_ms, const struct identity_conf *c);
/* Within a batch: looks at the journal, gives back what is due. */
void kept_batch(struct kept *k, struct ipam *store);

#endif
