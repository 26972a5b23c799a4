/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_AGENT_CLUSTER_CLUSTER_H
#define UNIRAIL_AGENT_CLUSTER_CLUSTER_H

/*
 * The agent's cluster cache, filled by watches: this node's pods and its Node object, all
 * namespaces, pools, reserved addresses, NetworkAttachmentDefinitions, and the SpiderCoordinator
 * "default". Only fields that are used are kept. The getters never block, and their results are
 * valid until the next iteration of the event loop. While the API server is unavailable the last
 * state stays.
 *
 * The pools last seen are also in a file (`pools.json` in the state directory, version 1), so that
 * an agent restarted while the API server is unavailable continues to allocate addresses.
 *
 * If a kind cannot be watched, one log line says why and what to do: a CRD that is not installed
 * (retried at most every 45 s), a missing permission (verb and resource), or an API server that
 * does not answer.
 */

#include "spec/coordinator_settings.h"
#include "spec/missing_resource.h"
#include "spec/subnet_annotation.h"
#include "spec/pod.h"
#include "ipam/pool/pool.h"
#include "kube/client.h"

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
	const char *node;      /* this node's name, as the API server has it */
	const char *ns;	       /* the agent's: used for networks that a pool names without one */
	const char *state_dir; /* directory of the pools' file */
	/* was NULL: added; is NULL: deleted. */
	void (*pod_changed)(void *arg, const struct pod_facts *was, const struct pod_facts *is);
	void (*pools_changed)(void *arg); /* pools or reserved addresses: see cluster_pools() */
	/* This node's UID became known, or changed because its Node was recreated. */
	void (*node_changed)(void *arg, const char *uid);
	/* A kind was listed for the first time. Each callback may be NULL. */
	void (*synced)(void *arg, enum cluster_kind kind);
	/* etcd was restored: objects of some kind are older than before. Called once per kind. */
	void (*etcd_restored)(void *arg);
	void *arg;
};

struct cluster;

/* Strings and what they point to are borrowed. Reads the pools' file and starts the watches. */
struct cluster *cluster_new(const struct cluster_conf *c);
/* Call it before kube_free(). Callbacks of cluster_fetch_pod() are not called any more. NULL is
 * fine. */
void cluster_free(struct cluster *c);

const char *cluster_kind_name(enum cluster_kind kind); /* "spiderippools" */
/* Returns whether the kind was listed once; false if its CRD is not installed. */
bool cluster_synced(const struct cluster *c, enum cluster_kind kind);
/* Returns the reason why a kind is unknown or not watched now, as an error of kind ERR_AGAIN; 0:
 * it is watched. */
int cluster_sync_error(const struct cluster *c, enum cluster_kind kind, struct err *e);
/* For how many ms the kind has not been watched; 0 while it is. */
int64_t cluster_behind_ms(const struct cluster *c, enum cluster_kind kind);

/* --- pods --- */

/* A pod of this node. NULL: it is unknown, or the watch has not shown it yet. */
const struct pod_facts *cluster_pod(const struct cluster *c, const char *ns, const char *name);
size_t cluster_pod_count(const struct cluster *c);
const struct pod_facts *cluster_pod_at(const struct cluster *c, size_t i);
/* The one with that UID, under whatever name. */
const struct pod_facts *cluster_pod_by_uid(const struct cluster *c, const char *uid);

/* p is NULL if e is set; code -ENOENT: the API server has no such pod. Valid during the call. */
typedef void (*cluster_pod_fn)(void *arg, const struct pod_facts *p, const struct err *e);
struct cluster_fetch;
/* Reads one pod that the watch has not shown yet, by a GET; fn is never called before this
 * returns. A pod of another node is an error. */
struct cluster_fetch *cluster_fetch_pod(struct cluster *c, const char *ns, const char *name,
					cluster_pod_fn fn, void *arg);
void cluster_fetch_cancel(struct cluster_fetch *f); /* call it before the answer; NULL is fine */

/* --- the owner of a pod (owner.c) --- */

/* The topmost owner: the Deployment of a ReplicaSet, the CronJob of a Job. app NULL: an error (e
 * is set), or the pod has no owner. Valid during the call. */
typedef void (*cluster_app_fn)(void *arg, const struct app_id *app, const struct err *e);
struct cluster_lookup;
/* Sends at most one GET. NULL: fn was already called. */
struct cluster_lookup *cluster_lookup_app(struct cluster *c, const struct pod_facts *p,
					  cluster_app_fn fn, void *arg);
void cluster_lookup_cancel(struct cluster_lookup *a); /* call it before the answer; NULL is fine */
/* The automatic pool of an application's interface, by auto_pool_key_of(); NULL: none. */
const char *cluster_pool_for(struct cluster *c, const char *key, uint8_t family);
/* Creates a pool without addresses for an application that the controller does not watch; the
 * controller adds the addresses. If the pool exists, updates the requested number of addresses. */
void cluster_make_pool(struct cluster *c, const struct app_id *app, const char *subnet,
		       const char *ifname, uint8_t family, uint32_t count, bool reclaim);

/* --- namespaces, node --- */

const char *cluster_ns(const struct cluster *c); /* the agent's own */

/* NULL: the namespace is unknown. */
const struct labels *cluster_ns_labels(const struct cluster *c, const char *ns);
/* Only annotations of the groups that pod_facts has as well. */
const struct labels *cluster_ns_annotations(const struct cluster *c, const char *ns);
const struct labels *cluster_node_labels(const struct cluster *c); /* NULL: unknown */
/* As last seen, also before a restart; NULL: never seen. */
const char *cluster_node_uid(const struct cluster *c);

/* --- networks --- */

struct cluster_nad {
	char *config;	/* spec.config, unchanged; NULL: none */
	char *resource; /* annotation k8s.v1.cni.cncf.io/resourceName; NULL: none */
	/* No node has this resource (spec/missing_resource.h), and the value of the annotation by which pods request the
	 * network, "" if it has none; missing NULL: the controller reports nothing. */
	struct missing_resource *missing;
	char *group;
	/* Size of both in bytes, if they were dropped because this object or all of its namespace
	 * is too large; config and resource are NULL then. 0: not dropped. */
	size_t left_out;
};
const struct cluster_nad *cluster_nad(const struct cluster *c, const char *ns, const char *name);
size_t cluster_nad_count(const struct cluster *c);
const struct cluster_nad *cluster_nad_at(const struct cluster *c, size_t i, const char **ns,
					 const char **name);

/* The object "default", status included; NULL: it does not exist. */
const struct coordinator_settings *cluster_coordinator(const struct cluster *c);

/* --- pools --- */

/* Built by ipam/pool/pool_cluster.h; pools that are left out are in the log. NULL: none were ever
 * seen. The caller may limit them to the node (pool_kube_cut()); each change makes a new set. */
struct pool_set *cluster_pools(struct cluster *c);
/*
 * Returns true if the pools are from the file, because the API server has not delivered them yet.
 */
bool cluster_pools_are_old(const struct cluster *c);

#endif
