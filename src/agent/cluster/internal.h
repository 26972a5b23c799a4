/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_AGENT_CLUSTER_INTERNAL_H
#define UNIRAIL_AGENT_CLUSTER_INTERNAL_H

/* Shared by the files of this directory. */

#include "agent/cluster/cluster.h"
#include "base/log.h"
#include "kube/spent.h"
#include "spec/pod.h"

struct cluster {
	struct cluster_conf conf;
	struct kube_cache *objects;
	struct cluster_fetch *fetches;
	struct cluster_lookup *requests;
	void *uids;		/* tree of the pods (tsearch), by UID */
	struct kube_spent nads; /* memory used by networks */
	/* pools */
	struct pool_set pools;
	bool have_pools, pools_are_old;
	struct loop_alarm rebuild, save;
	bool addresses_changed; /* since the last rebuild */
	/* path of pools.json, and the content last written to it by this agent */
	char *pools_path, *pools_text;
	/* UID of the Node object as last seen, also stored in pools.json; NULL: never seen */
	char *node_uid;
	struct labels node_labels; /* from pools.json, used until the watch delivers the Node */
	struct log_once complaint; /* last logged errors of pools */
};

/* --- objects in the informers --- */

struct cluster_ns {
	struct labels labels, annotations;
};

extern const struct kube_cache_kind cluster_kinds[CLUSTER_KINDS];

/* --- pods --- */

/* Adds (was NULL), replaces or removes (is NULL) a pod in the tree of UIDs. */
void cluster_uid_changed(struct cluster *c, const struct pod_facts *was,
			 const struct pod_facts *is);

/* --- pools --- */

void cluster_pools_open(struct cluster *c);
void cluster_pools_close(struct cluster *c);
/* Schedules a rebuild of the pool set for the next iteration of the event loop. */
void cluster_pools_changed(struct cluster *c);
/* Schedules the rebuild after a change of block sizes only, which leaves all addresses unchanged
 * (cluster_conf.pools_changed). */
void cluster_block_size_changed(struct cluster *c);
void cluster_save_schedule(struct cluster *c);

void cluster_lookups_drop_all(struct cluster *c);

#endif
