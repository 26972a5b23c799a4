/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_AGENT_API_API_H
#define UNIRAIL_AGENT_API_API_H

/*
 * The API of Spiderpool's agent and unirail's own API, on the local store.
 *
 *	GET    /v1/ipam/healthy
 *	POST   /v1/ipam/ip		addresses for one interface
 *	DELETE /v1/ipam/ip		releases them
 *	POST   /v1/ipam/ips		does nothing, as in Spiderpool
 *	DELETE /v1/ipam/ips		releases all addresses of a container
 *	GET    /v1/workloadendpoint	?podNamespace=&podName=
 *	GET    /v1/coordinator/config
 *	GET    /v1/runtime/startup, readiness, liveness
 *
 * Bodies, answers and errors are those of Spiderpool 1.x: a failure is 500 and a JSON string; an
 * error that go-openapi detects is {"code","message"} with 400, 404, 405, 415 or 422.
 *
 *	POST   /v1/unirail/pods/networks  which networks a pod has, on a node of a cluster
 *	POST   /v1/unirail/pods/plan	  addresses for all rails of a pod: all of them, or none
 *	POST   /v1/unirail/pods/report	  what the plugin found: addresses in conflict, and the network
 *					  status of the pod
 *	POST   /v1/unirail/pods/check	  the addresses of a container
 *	POST   /v1/unirail/pods/release	  releases some rails of a container, or all
 *	POST   /v1/unirail/networks/gc	  releases addresses of attachments that are not valid
 *	GET    /v1/unirail/status	  state of this node in its cluster
 *	GET    /v1/unirail/devices	  the node's resources and the health of their devices
 *	POST   /v1/unirail/pools	  `unirail pool` on this store
 *
 * An unknown key is an error, so that no request is ignored, unless it begins with '~': a later
 * version adds such a key if an older agent may ignore it, so that plugin and agent may differ by
 * one minor version. The same holds for the networks in the answer of pods/networks; plugins ignore
 * other unknown keys of answers. A change of meaning gets another path. Failures are 500 and
 * {"code": the CNI code, "message"}. The bodies are documented in pods.c and admin.c.
 *
 * On a node of a cluster (`node_pools` is set) addresses are the cluster's: pools are attached for
 * each batch, and a pod must be known: by the watch; by one GET if the watch has not shown it yet;
 * or by the request while the API server is unavailable. A request that finds this node's part of a
 * pool empty waits until the part has more addresses (agent/blocks/blocks.h), in the order of
 * arrival by pool, without delaying requests for other pools. A request waits at most `wait`; if
 * after a third of that it has no address of its first pool, it continues with the next pool of its
 * list. A release never waits.
 *
 * The store is opened for a batch of requests and closed after it, never held: CNI processes that
 * use it directly wait no longer than for each other. While such a process has locked it, requests
 * wait and the loop continues. A request is answered when its changes are durable.
 */

#include "spec/coordinator_settings.h"
#include "server/http_server.h"
#include "agent/blocks/pools.h"
#include "agent/api/metrics.h"
#include "spec/identity.h"
#include "ipam/ipam.h"
#include "spec/pool_annotation.h"

struct cni_watch;
struct migration;
struct ipam_api;
struct nets;
struct json_out;

/* Callbacks for events of batches and pods; each may be NULL. */
struct ipam_api_callbacks {
	/* A batch begins: the store is open. */
	void (*begin)(void *arg, struct ipam *store);
	/* A batch ends: the store is still open. */
	void (*batch)(void *arg, struct ipam *store);
	/* The request failed: the pod got no addresses. */
	void (*failed)(void *arg, const struct pod_facts *pod, const struct err *e);
	void *arg;
};

struct ipam_api_conf {
	struct loop *loop;
	const struct root *root;
	struct ipam_paths paths;
	const char *settings; /* file of the coordinator's settings; NULL: AGENT_CONF */
	/* setting release-conflict-ips is no: CNI plugins may not release addresses in conflict */
	bool no_release_conflict_ips;
	struct metrics *metrics; /* metrics to update; may be NULL */

	/* --- members set only on a node of a cluster; otherwise 0 or NULL --- */
	/* cluster cache; NULL: pools come from a directory, and pods are not read */
	struct cluster *cluster;
	struct node_pools *node_pools;
	const struct cni_watch *cni; /* for GET status: state of the CNI configuration */
	/* for GET status: parts of the sandbox that are not in force; "": all are in force */
	const char *unconfined;
	/* migrates retained addresses between nodes; NULL: they are not migrated */
	struct migration *migration;
	/* maximum time that a request waits for addresses, ms */
	int64_t wait_ms;
	struct pod_pools_conf pools;
	struct identity_conf identity;
	struct ipam_api_callbacks callbacks;
	/*
	 * For GET devices: writes the resources of the device plugins as an array. NULL: there is
	 * no device plugin.
	 */
	void (*put_devices)(void *arg, struct json_out *o);
	void *devices_arg;
	/* finds the networks of pods (agent/network/network.h); NULL: there is no cluster */
	struct nets *nets;
};

/* Paths in c are borrowed. If pools cannot be read, requests that need no pool are still served. */
struct ipam_api *ipam_api_new(const struct ipam_api_conf *c);
void ipam_api_free(struct ipam_api *a); /* pending requests are freed without a response */
/* Retries pending requests in the next iteration of the loop: those that lack addresses of `pool`
 * (NULL: all requests), and those that wait for something else, such as a pool to be created. A
 * request that also lacks addresses of other pools is retried when those have changed as well,
 * or after PARTIAL_MS (pending.c). Call it from node_pools_conf.changed, and with "" when pools
 * have changed. */
void ipam_api_changed(struct ipam_api *a, const char *pool);
/* Schedules a batch without a request; its callbacks run as usual. */
void ipam_api_touch(struct ipam_api *a);
/* Answers pending requests at once, because the agent stops. */
void ipam_api_drain(struct ipam_api *a);
/*
 * Applies changed settings: wait_ms, pools, identity, no_release_conflict_ips. Takes the contents
 * of s, the coordinator's settings of the file.
 */
void ipam_api_settings(struct ipam_api *a, const struct ipam_api_conf *c,
		       struct coordinator_settings *s);
/* Writes the coordinator's settings for a pod (NULL: unknown) as an object. */
void ipam_api_put_settings(const struct ipam_api *a, const struct pod_facts *pod,
			   struct json_out *o);
/* Reads pools and settings again. If a read fails, logs it and retains the previous state. */
void ipam_api_reload(struct ipam_api *a);
/* The http_handler of the API; arg is the struct ipam_api. */
void ipam_api_handle(void *arg, struct http_request *q);

#endif
