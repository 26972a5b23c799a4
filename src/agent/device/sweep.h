/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_AGENT_DEVICE_SWEEP_H
#define UNIRAIL_AGENT_DEVICE_SWEEP_H

/*
 * Removes extended resources that no device plugin serves any more from this node's Node object.
 * After the last plugin of a resource ended, the kubelet sets its capacity to 0 (five minutes
 * later) and never removes it: a pod that requests it then waits with "Insufficient", as if all
 * devices of the resource were in use.
 *
 * A resource is removed if all of this holds: unirail served it on this node before
 * (device-resources.json in the agent's state has it), or its prefix is one of `prefixes`; its
 * capacity is 0; the agent has not served it for `grace_ms`. A JSON patch removes both the capacity
 * and the allocatable entry; it fails if the capacity is not 0 any more. After its removal a
 * resource is removed from the file as well, so that a resource that another plugin serves without
 * devices is not removed repeatedly. A resource that the Node does not have, or of which another
 * plugin has devices, is removed from the file after a day.
 *
 * The Node is read while a resource may be removed: every 30 s (or grace_ms, if that is shorter)
 * for the first 15 minutes, later every five minutes. With `prefixes` it is always read, every five
 * minutes (or grace_ms, if that is shorter).
 */

#include "base/file.h"
#include "kube/client.h"

struct device_sweep;

struct device_sweep_conf {
	struct kube *kube;
	const struct root *root;
	const char *node, *state_dir;
	/* prefixes of resources, such as "rdma,nvidia.com"; NULL or "": none */
	const char *prefixes;
	int64_t grace_ms;
	/* Fills v with at most `max` names of resources that the agent serves, borrowed. Returns
	 * their number. */
	size_t (*served)(void *arg, const char **v, size_t max);
	void (*event)(void *arg, bool is_warning, const char *text);
	void *arg;
};

/* Everything that conf points to is borrowed. Reads the file; a damaged file is logged and
 * counts as empty. */
struct device_sweep *device_sweep_new(const struct device_sweep_conf *conf);
void device_sweep_free(struct device_sweep *s); /* s may be NULL */
/* Call it when the resources that the agent serves have changed. s may be NULL. */
void device_sweep_changed(struct device_sweep *s);

/* --- functions that need no API server --- */

struct kube_patch;
/* Takes the Node object, as read at now_ms. Adds to *patch the operations that remove resources
 * from the Node; returns the number of these resources. */
size_t device_sweep_plan(struct device_sweep *s, const struct json *node, int64_t now_ms,
			 struct kube_patch *patch);
/* Returns whether the Node is to be read now. */
bool device_sweep_due(const struct device_sweep *s, int64_t now_ms);
/* Call it when the patch has succeeded: reports the removed resources and removes them from the
 * file. */
void device_sweep_done(struct device_sweep *s);

#endif
