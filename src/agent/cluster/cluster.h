/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_AGENT_CLUSTER_CLUSTER_H
#define UNIRAIL_AGENT_CLUSTER_CLUSTER_H

/*
 * The agent's cluster cache, filled by watches: this node's pods and its Node object, all
 * namespaces, pools, reserved addresses, NetworkAttachmentDefinitions, and the SpiderCoordinator
 * "default". Only fields that are used are kept. The getters never block, and their results are
 * valid until the next iteration of the event loop. While the API server is unavailable, the
 * getters return the last state.
 *
 * The pools last seen are also in a file (`pools.json` in the state directory, version 1), so that
 * an agent restarted while the API server is unavailable continues to allocate addresses.
 *
 * If a kind cannot be watched, one log line has the cause, and the remedy if the permission or the
 * CRD is missing (kube/cache.h). The watch is retried after at most 45 s.
 */

#include "spec/coordinator_settings.h"
#include "spec/missing_resource.h"
#include "spec/subnet_annotation.h"
#include "spec/pod.h"
#include "ipam/pool/pool.h"
#include "kube/cache.h"

enum cluster_kind {
	CLUSTER_PODS,
	CLUSTER_NODE,
	CLUSTER_NAMESPACES,
	CLUSTER_POOLS,
	CLUSTER_RESERVED,
	CLUSTER_NADS,
	CLUSTER_COORDINATORS,
	CLUSTER_KINDS
};

struct cluster_conf {
	struct kube *kube;
	const struct root *root;
	const char *node; /* name of this node's Node object */
	/* the agent's namespace: contains the networks that a pool names without a namespace */
	const char *ns;
	const char *state_dir; /* directory of pools.json */
	/* was NULL: the pod was added; is NULL: the pod was deleted */
	void (*pod_changed)(void *arg, const struct pod_facts *was, const struct pod_facts *is);
	/* Pools or reserved addresses have changed, see cluster_pools(). addresses is false if
	 * only block sizes of pools have changed; a node writes a pool's block size when it
	 * needs the pool's first block. */
	void (*pools_changed)(void *arg, bool addresses);
	/* This node's UID became known, or changed because its Node was recreated. */
	void (*node_changed)(void *arg, const char *uid);
	/* etcd was restored: a watched kind got a lower resourceVersion. Called once per kind. */
	void (*etcd_restored)(void *arg);
	void *arg;
};

struct cluster;

/* Strings and pointers in c are borrowed. Reads pools.json and starts the watches. */
struct cluster *cluster_new(const struct cluster_conf *c);
/* Call it before kube_free(). Cancels the reads of cluster_fetch_pod() and cluster_lookup_app(). c
 * may be NULL. */
void cluster_free(struct cluster *c);

/* Returns the cache of all objects, by enum cluster_kind: use it for the errors and the
 * staleness of a kind, and to iterate over pods (struct pod_facts) and networks (struct
 * cluster_nad). */
struct kube_cache *cluster_objects(const struct cluster *c);

/* --- pods --- */

/* Returns a pod of this node. NULL: it does not exist, or the watch has not delivered it yet. */
const struct pod_facts *cluster_pod(const struct cluster *c, const char *ns, const char *name);
/* i: less than kube_cache_count(cluster_objects(c), CLUSTER_PODS) */
const struct pod_facts *cluster_pod_at(const struct cluster *c, size_t i);
/* Returns the pod of this node with that UID, whatever its name is; NULL: none. */
const struct pod_facts *cluster_pod_by_uid(const struct cluster *c, const char *uid);

/* p: the pod, valid during the call. NULL: the read failed; e->code is -ENOENT if the API server
 * has no such pod. */
typedef void (*cluster_pod_fn)(void *arg, const struct pod_facts *p, const struct err *e);
struct cluster_fetch;
/* Reads one pod that the watch has not delivered yet, by a GET; never calls fn before it returns.
 * If the pod is not bound to this node, fn gets an error. */
struct cluster_fetch *cluster_fetch_pod(struct cluster *c, const char *ns, const char *name,
					cluster_pod_fn fn, void *arg);
/* cancels the read, so that fn is not called; not allowed after fn was called; f may be NULL */
void cluster_fetch_cancel(struct cluster_fetch *f);

/* --- the owner of a pod (owner.c) --- */

/* app: the topmost owner, such as the Deployment of a ReplicaSet or the CronJob of a Job. NULL:
 * the lookup failed (e is set), or the pod has no owner. Valid during the call. */
typedef void (*cluster_app_fn)(void *arg, const struct app_id *app, const struct err *e);
struct cluster_lookup;
/* Looks up the pod's topmost owner, by at most one GET. Returns NULL if fn was already called. */
struct cluster_lookup *cluster_lookup_app(struct cluster *c, const struct pod_facts *p,
					  cluster_app_fn fn, void *arg);
/* cancels the lookup, so that fn is not called; not allowed after fn was called; a may be NULL */
void cluster_lookup_cancel(struct cluster_lookup *a);
/* Returns the name of the automatic pool of an application's interface; key: auto_pool_key_of().
 * NULL: there is none. */
const char *cluster_pool_for(struct cluster *c, const char *key, uint8_t family);
/* Creates a pool without addresses for an application that the controller does not watch; the
 * controller adds the addresses. If the pool exists, updates the requested number of addresses. */
void cluster_make_pool(struct cluster *c, const struct app_id *app, const char *subnet,
		       const char *ifname, uint8_t family, uint32_t count, bool reclaim);

/* --- namespaces and this node --- */

const char *cluster_ns(const struct cluster *c); /* the agent's namespace */

/* Returns the labels or annotations of a namespace; NULL: the namespace is unknown. */
const struct labels *cluster_ns_labels(const struct cluster *c, const char *ns);
/* Contains only annotations that unirail reads (pod_annotation_counts()). */
const struct labels *cluster_ns_annotations(const struct cluster *c, const char *ns);
const struct labels *cluster_node_labels(const struct cluster *c); /* NULL: unknown */
/* Returns the UID of the Node object as last seen, possibly before a restart; NULL: it was never
 * seen. */
const char *cluster_node_uid(const struct cluster *c);

/* --- networks --- */

struct cluster_nad {
	char *config; /* spec.config, unchanged; NULL: the object has none, or it was dropped */
	/* annotation k8s.v1.cni.cncf.io/resourceName; NULL: the object has none, or it was
	 * dropped */
	char *resource;
	/*
	 * `missing`: the resource that no node has (spec/missing_resource.h), as reported by the
	 * controller; NULL: the controller reports none. `group`: value of the annotation by which
	 * pods request the network; "": the annotation is missing, not printable or longer than 253
	 * characters; NULL if `missing` is NULL.
	 */
	struct missing_resource *missing;
	char *group;
	/* Size in bytes of the object, if its fields above were dropped because this object, all
	 * objects of its namespace, or all objects together are too large. 0: not dropped. */
	size_t left_out;
};
const struct cluster_nad *cluster_nad(const struct cluster *c, const char *ns, const char *name);

/* Returns spec and status of the SpiderCoordinator "default"; NULL: it does not exist, or the watch
 * has not delivered it yet. */
const struct coordinator_settings *cluster_coordinator(const struct cluster *c);

/* --- pools --- */

/* Returns the pool set, built by ipam/pool/pool_cluster.h; invalid pools are logged and omitted.
 * NULL: no pools were ever seen. The caller may limit the set to the node (pool_kube_cut());
 * each change of a pool makes a new set. */
struct pool_set *cluster_pools(struct cluster *c);
/* Returns the resourceVersion of a pool as last delivered by the watch; NULL: the pool does not
 * exist, or the watch has not delivered it yet. */
const char *cluster_pool_version(const struct cluster *c, const char *pool);
/* Returns true if the pools are from pools.json, because the API server has not delivered them
 * yet. */
bool cluster_pools_are_old(const struct cluster *c);

#endif
