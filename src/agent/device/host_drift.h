/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_AGENT_DEVICE_HOST_DRIFT_H
#define UNIRAIL_AGENT_DEVICE_HOST_DRIFT_H

/*
 * Publishes the report of `unirail host watch` about this node. The watch is a separate process
 * with rights that the agent does not have. The watch writes a file after each round (host/watch.h)
 * and removes it when it ends; this module reads the file every HOST_DRIFT_CHECK_MS. The watch
 * locks PATH.lock while it runs: a report counts as removed if PATH.lock exists and is not locked.
 * Drift is published as
 *
 *	metrics		unirail_host_drift_steps, unirail_host_drift_blocked_steps
 *	an event	of the Node: HostDrift, HostWatchFailed, HostRestored
 *	a condition	of the Node: type HostDrift, status True while the host needs preparation
 *			steps or the last round failed, Unknown after the end of the watch; an
 *			agent without a report removes, at its start, the condition of an earlier
 *			agent
 *
 * The drift is a condition instead of an annotation, because the agent has the permission to patch
 * nodes/status anyway, to remove stale resources, and so needs no permission to write metadata of
 * Nodes; deploy/policies lets the agent change only conditions of this type, only on its own Node.
 */

#include "base/file.h"
#include "kube/client.h"

#define HOST_DRIFT_CONDITION "HostDrift"

enum {
	HOST_DRIFT_MESSAGE_MAX = 1024,
	HOST_DRIFT_CHECK_MS = 10 * 1000,
	HOST_DRIFT_FORBIDDEN_MS = 5 * 60 * 1000,
};

struct host_drift_state {
	bool known;
	int64_t steps, blocked;
	char message[HOST_DRIFT_MESSAGE_MAX]; /* message of the condition */
	/* reason of the condition, "InSync", "StepsLeft", "RoundFailed", "NotWatched"; "": never
	 * reported */
	char reason[32];
};

struct host_drift;

struct host_drift_conf {
	struct kube *kube;
	const struct root *root;
	const char *node, *path;
	void (*event)(void *arg, bool is_warning, const char *reason, const char *text);
	void *arg;
};

/* Everything that conf points to is borrowed. */
struct host_drift *host_drift_new(const struct host_drift_conf *conf);
void host_drift_free(struct host_drift *d); /* d may be NULL */
const struct host_drift_state *host_drift_state(const struct host_drift *d);

/* --- functions that need no API server --- */

struct kube_patch;
/* Reads a report. Returns -EINVAL if it is damaged; *ret is unchanged then. */
int host_drift_read(struct span text, struct host_drift_state *ret);
/* Returns the delay in ms before the condition is written again after a failure with this error.
 * The delay is long if the permission is missing, because then every node of the cluster
 * retries. */
int64_t host_drift_retry_ms(int code);
/* Sets the state for a watch that has ended: drift is unknown, and so is the number of steps. */
void host_drift_stopped(struct host_drift_state *ret);
/*
 * Adds the operations to *patch that set the condition in the Node object, or remove it if no drift
 * was ever reported. Returns false if the condition is up to date. The patch fails if another
 * writer has moved the condition to another index since the Node was read; a later check computes
 * the patch again.
 */
bool host_drift_plan(const struct host_drift_state *s, const struct json *node, int64_t now_ms,
		     struct kube_patch *patch);

#endif
