/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_AGENT_IPAM_API_H
#define UNIRAIL_AGENT_IPAM_API_H

/*
 * Spiderpool's agent API, and ours, on the local store.
 *
 *	GET    /v1/ipam/healthy
 *	POST   /v1/ipam/ip		addresses for one interface
 *	DELETE /v1/ipam/ip		gives them back
 *	POST   /v1/ipam/ips		nothing, as there
 *	DELETE /v1/ipam/ips		gives back what a container has
 *	GET    /v1/workloadendpoint	?podNamespace=&podName=
 *	GET    /v1/coordinator/config
 *	GET    /v1/runtime/startup, readiness, liveness
 *
 * Bodies, answers and errors are those of Spiderpool 1.x: a failure is 500 and a JSON string; what
 * go-openapi finds wrong is {"code","message"} with 400, 404, 405, 415 or 422.
 *
 *	POST   /v1/unirail/pods/plan	  addresses for all rails of a pod: all of them, or none
 *	POST   /v1/unirail/pods/done	  what the pod's side found: addresses in conflict
 *	POST   /v1/unirail/pods/check	  what a container holds
 *	POST   /v1/unirail/pods/release	  gives back some rails of a container, or all
 *	POST   /v1/unirail/networks/gc	  gives back all that is not valid any more
 *
 * These are closed (a key that is not known is an error, so that no wish goes unheard); their
 * failures are 500 and {"code": the CNI code, "message"}. What changes their meaning will be
 * another path. api_pods.c has the bodies.
 *
 * The store is opened for a batch of requests and closed after it, never held: CNI processes that
 * use it directly wait no longer than for each other. Where such a one has it, requests wait their
 * turn while the loop goes on. An answer is given when what it says is durable.
 */

#include "agent/coordinator_settings.h"
#include "agent/http_server.h"
#include "ipam/ipam.h"

struct ipam_api;

struct ipam_api_conf {
	struct loop *loop;
	const struct root *root;
	struct ipam_paths paths;
	const char *settings; /* file of the coordinator's settings; NULL: AGENT_CONF */
	/* SPIDERPOOL_ENABLED_RELEASE_CONFLICT_IPS */
	bool no_release_conflict_ips;
};

/* Paths are borrowed. Pools that cannot be read are no failure: what needs none works. */
struct ipam_api *ipam_api_new(const struct ipam_api_conf *c);
void ipam_api_free(struct ipam_api *a); /* requests that wait are forgotten, not answered */
/* Reads pools and settings anew; what cannot be read stays as it was, and the log says so. */
void ipam_api_reload(struct ipam_api *a);
/* An http_handler; arg is the struct ipam_api. */
void ipam_api_handle(void *arg, struct http_request *q);

#endif
