/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_AGENT_DEVICE_HOST_DRIFT_H
#define UNIRAIL_AGENT_DEVICE_HOST_DRIFT_H

/*
 * Publishes what `unirail host watch` reports about this node. That is a process of its own, with rights that the agent
 * does not have; it writes a file after each round (host/watch.h) and removes it when it ends; the file is read here every CHECK_MS.
 * The watch locks PATH.lock as long as it lives, so the file of a killed watch is no report. Drift becomes
 *
 *	metrics		unirail_host_drift_steps, unirail_host_drift_blocked_steps
 *	an event	of the Node: HostDrift, HostWatchFailed, HostRestored
 *	a condition	of the Node: type HostDrift, status True while steps are left or a round failed, Unknown after the end of
 *			the watch; a condition that an earlier agent left is removed at the start of an agent without a report
 *
 * A condition rather than an annotation, since the agent may already patch nodes/status for stale resources, and needs
 * no right to write metadata of Nodes; deploy/policies limits it to this type on its own Node.
 */

#include "base/file.h"
#include "kube/client.h"

#define HOST_DRIFT_CONDITION "HostDrift"

enum { HOST_DRIFT_MESSAGE_MAX = 1024 };

struct host_drift_state {
	bool known;
	int64_t steps, blocked;
	char message[HOST_DRIFT_MESSAGE_MAX]; /* of the condition */
	char reason[32]; /* "InSync", "StepsLeft", "RoundFailed", "NotWatched"; "": never reported */
};

struct host_drift;

struct host_drift_conf {
	struct kube *kube;
	const struct root *root;
	const char *node, *path;
	void (*event)(void *arg, bool is_warning, const char *reason, const char *text);
	void *arg;
};

/* What conf points to is borrowed. */
struct host_drift *host_drift_new(const struct host_drift_conf *conf);
void host_drift_free(struct host_drift *d); /* NULL is fine */
const struct host_drift_state *host_drift_state(const struct host_drift *d);

/* --- without a server --- */

struct kube_patch;
/* A damaged report is -EINVAL, and *ret stays. */
int host_drift_read(struct span text, struct host_drift_state *ret);
/* The watch has ended: not known, and no drift. */
void host_drift_stopped(struct host_drift_state *ret);
/*
 * Adds the operations that give the Node object the condition, or remove it where nothing was ever reported; false: there is
 * nothing to change. A condition that another writer changes
 * at the same time makes the patch fail, and it is computed again at the next check.
 */
bool host_drift_plan(const struct host_drift_state *s, const struct json *node, int64_t now_ms,
		     struct kube_patch *patch);

#endif
