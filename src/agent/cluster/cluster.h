/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_AGENT_CLUSTER_CLUSTER_H
#define UNIRAIL_AGENT_CLUSTER_CLUSTER_H

/*
 * What the agent knows of the cluster, from watches: this node's pods and its Node object, all
 * namespaces, pools, reserved addresses, NetworkAttachmentDefinitions, and the SpiderCoordinator
 * "default". Of each only the fields that somebody here uses. The getters never wait, and what they
 * return is valid until the loop's next turn. While the API server is away the last state stays.
 *
 * The pools that were seen last are also in a file (`pools.json` in the state folder, version 1),
 * so that a restart while the API server is away goes on giving addresses out.
 *
 * What keeps a kind from being known is one line in the log, with what to do: a definition that is
 * not installed (asked for again at most every 45 s), a permission that is missing (verb and
 * resource), a server that does not answer.
 */

#include "spec/coordinator_settings.h"
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
	const char *ns;	       /* the agent's: of a network that a pool names without one */
	const char *state_dir; /* of the pools' file */
	/* was NULL: new; is NULL: gone. */
	void (*pod_changed)(void *arg, const struct pod_facts *was, const struct pod_facts *is);
	void (*pools_changed)(void *arg); /* pools or reserved addresses: see cluster_pools() */
	/* This node's UID is known, or another one: its object was made anew. */
	void (*node_changed)(void *arg, const char *uid);
	/* A kind was listed for the first time. Any of these may be NULL. */
	void (*synced)(void *arg, enum cluster_kind kind);
	/* The API server's data is from an earlier time than some kind's was; once for each. */
	void (*set_back)(void *arg);
	void *arg;
};

struct cluster;

/* Strings and what they point to are borrowed. Reads the pools' file; begins to watch. */
struct cluster *cluster_new(const struct cluster_conf *c);
/* Before kube_free(). Who waits for cluster_fetch_pod() hears nothing any more. NULL is fine. */
void cluster_free(struct cluster *c);

const char *cluster_kind_name(enum cluster_kind kind); /* "spiderippools" */
/* Whether the kind was listed once. A definition that is not installed: no. */
bool cluster_synced(const struct cluster *c, enum cluster_kind kind);
/* Why it is not known or not followed now, as an error of kind ERR_AGAIN; 0: it is. */
int cluster_trouble(const struct cluster *c, enum cluster_kind kind, struct err *e);
/* How long it has not been followed, in ms; 0 while it is. */
int64_t cluster_behind_ms(const struct cluster *c, enum cluster_kind kind);

/* --- pods --- */

/* Of this node. NULL: not seen, or not yet. */
const struct pod_facts *cluster_pod(const struct cluster *c, const char *ns, const char *name);
size_t cluster_pod_count(const struct cluster *c);
const struct pod_facts *cluster_pod_at(const struct cluster *c, size_t i);

/* p is NULL when e is set; code -ENOENT: the API server has no such pod. Valid during the call. */
typedef void (*cluster_pod_fn)(void *arg, const struct pod_facts *p, const struct err *e);
struct cluster_fetch;
/* One GET, for a pod that the watch has not shown yet; never answers from within. A pod of another
 * node is an error. */
struct cluster_fetch *cluster_fetch_pod(struct cluster *c, const char *ns, const char *name,
					cluster_pod_fn fn, void *arg);
void cluster_fetch_cancel(struct cluster_fetch *f); /* before it answered; NULL is fine */

/* --- what made a pod (owner.c) --- */

/* At the top: the Deployment of its ReplicaSet, the CronJob of its Job. app NULL: e is set, or nothing
 * made it. Valid during the call. */
typedef void (*cluster_app_fn)(void *arg, const struct app_id *app, const struct err *e);
struct cluster_ask;
/* At most one GET; NULL: it has answered, from within. */
struct cluster_ask *cluster_ask_app(struct cluster *c, const struct pod_facts *p, cluster_app_fn fn,
				    void *arg);
void cluster_ask_cancel(struct cluster_ask *a); /* before it answered; NULL is fine */
/* The pool that is made for an application's interface, by auto_pool_key_of(); NULL: none. */
const char *cluster_pool_for(struct cluster *c, const char *key, uint8_t family);
/* One for an application that the controller does not follow, without addresses: it gives them. One that is
 * there is told the number, if that is another one. */
void cluster_make_pool(struct cluster *c, const struct app_id *app, const char *subnet,
		       const char *ifname, uint8_t family, uint32_t count, bool reclaim);

/* --- namespaces, node --- */

const char *cluster_ns(const struct cluster *c); /* the agent's own */

/* NULL: the namespace is not known. */
const struct labels *cluster_ns_labels(const struct cluster *c, const char *ns);
/* Those of the groups that pod_facts has, too. */
const struct labels *cluster_ns_annotations(const struct cluster *c, const char *ns);
const struct labels *cluster_node_labels(const struct cluster *c); /* NULL: not known */
/* As last seen, also before a restart; NULL: never. */
const char *cluster_node_uid(const struct cluster *c);

/* --- networks --- */

struct cluster_nad {
	char *config;	/* spec.config, as it is; NULL: none */
	char *resource; /* annotation k8s.v1.cni.cncf.io/resourceName; NULL: none */
	/* The bytes of both, of which nothing is kept, since it or all of its namespace is too large: config and resource
	 * are NULL. 0: it is kept. */
	size_t left_out;
};
const struct cluster_nad *cluster_nad(const struct cluster *c, const char *ns, const char *name);

/* The object "default", status included; NULL: there is none. */
const struct coordinator_settings *cluster_coordinator(const struct cluster *c);

/* --- pools --- */

/*
 * By ipam/pool/pool_cluster.h; what is left out of them is in the log. NULL: none were ever seen. Whoever
 * lends them may cut them (pool_kube_cut()); at each change there is a new set.
 */
struct pool_set *cluster_pools(struct cluster *c);
/* True: they are from the file, the API server has not told yet. */
bool cluster_pools_are_old(const struct cluster *c);

#endif
