/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_CLUSTER_AGENT_CLIENT_H
#define UNIRAIL_CNI_CLUSTER_AGENT_CLIENT_H

/* A CNI process' requests to `unirail agent`; the table in src/agent/api/router.c lists their
 * routes. */

#include "cni/cluster/conf.h"

/*
 * Requests the pod's networks: an object {"networks": [elements for pod_net_read()],
 * "replacesFirst", "coordinator": {...}, "stateDir", "warnings": []}. Waits at most 30 s for an
 * agent that restarts. If the agent does not answer: error kind ERR_AGAIN, with the remedy.
 */
int pod_agent_networks(const struct cni_call *c, const struct pod_conf *conf, struct json_doc **ret,
		       struct err *e);

/*
 * Reports the outcome of an ADD to the agent, which writes the network-status annotation and an
 * event with the message. Returns before the agent has written the annotation. Until the agent has
 * written it, the report is also stored in a file named after the container in POD_STATUS_DIR below
 * the agent's stateDir, which the agent reads after a restart. Logs a report that cannot be sent.
 */
#define POD_STATUS_DIR "/status"
void pod_agent_report(const struct cni_call *c, const struct pod_conf *conf, const char *state_dir,
		      const struct buf *status, const struct buf *message);

/* Checks that the agent answers and is ready. Error kind ERR_UNAVAILABLE. */
int pod_agent_status(const struct cni_call *c, const struct pod_conf *conf, struct err *e);

/* Releases the addresses of the container. Returns 0, or -errno if the agent cannot be reached or
 * reports a failure. */
int pod_agent_release(const struct cni_call *c, const struct pod_conf *conf, struct err *e);

#endif
