/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_AGENT_GC_RETAINED_H
#define UNIRAIL_AGENT_GC_RETAINED_H

/*
 * Releases addresses that are retained for a pod's name (spec/identity.h) when no pod will use
 * them. After the grace time, and then every ten grace times, the agent reads the StatefulSet and
 * the KubeVirt machine that may own the name, and the SpiderEndpoint, which shows whether the name
 * has other addresses on another node. If one of them cannot be read, the addresses stay retained.
 */

#include "spec/identity.h"
#include "ipam/ipam.h"
#include "kube/client.h"

struct retained;

struct retained_conf {
	struct kube *kube;
	const char *node;
	int64_t grace_ms;
	struct identity_conf identity;
	void (*touch)(void *arg); /* schedules a batch, which calls retained_batch() */
	void *arg;
};

struct retained *retained_new(const struct retained_conf *c); /* c->node is borrowed */
/* call it before kube_free(); k may be NULL */
void retained_free(struct retained *k);
void retained_settings(struct retained *k, int64_t grace_ms, const struct identity_conf *c);
/* Call it within a batch: releases the addresses of names that have no owner any more, or that have
 * other addresses on another node. */
void retained_batch(struct retained *k, struct ipam *store);

#endif
