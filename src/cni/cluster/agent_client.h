/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_CLUSTER_AGENT_CLIENT_H
#define UNIRAIL_CNI_CLUSTER_AGENT_CLIENT_H

/* What a CNI process asks `unirail agent`; src/agent/api/pods.c has the other side. */

#include "cni/cluster/conf.h"

/*
 * Which networks the pod has: an object {"networks": [add.h's elements], "replacesFirst",
 * "coordinator": {...}, "stateDir", "warnings": []}. Nobody there: kind ERR_AGAIN, and what to do.
 */
int pod_agent_networks(const struct cni_call *c, const struct pod_conf *conf, struct json_doc **ret,
		       struct err *e);

/*
 * How it went: the annotation and the event's words. Not waited for: what is told stands as a file of
 * the container's name in this folder of the agent's stateDir as well, until the agent has written
 * the annotation, and an agent that died meanwhile finds it there. A failure is logged.
 */
#define POD_STATUS_DIR "/status"
void pod_agent_done(const struct cni_call *c, const struct pod_conf *conf, const char *state_dir,
		    const struct buf *status, const struct buf *words);

/* Whether it answers, and is ready. Kind ERR_UNAVAILABLE. */
int pod_agent_status(const struct cni_call *c, const struct pod_conf *conf, struct err *e);

/* Gives back the addresses of the container; -1: nobody is there to do it. */
int pod_agent_release(const struct cni_call *c, const struct pod_conf *conf, struct err *e);

#endif
