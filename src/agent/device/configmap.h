/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_AGENT_DEVICE_CONFIGMAP_H
#define UNIRAIL_AGENT_DEVICE_CONFIGMAP_H

/*
 * Configurations of device plugins from ConfigMaps of the cluster, read through the API: those that the original plugins mount
 * (rdma-devices, sriovdp-config) and the SR-IOV operator's device-plugin-config, with a key for each node. Of a ConfigMap
 * the key with the node's name is read, else config.json, else each *.json, as from a directory (device/resource/source.h).
 *
 * Each valid version is written to a directory in the agent's state, DIR/NAMESPACE/NAME/KEY, which is a source of
 * device_serve(): so it is in force while the API server is unavailable, also after a restart, and a message names ConfigMap
 * and key. If a ConfigMap is deleted, not readable (RBAC), without a key for this node or invalid, the version before stays
 * in force, and the reason is one line in the log and an event. A version that could not be written (a full disk) is written
 * again later. At most 64 documents of a ConfigMap are read.
 */

#include "base/file.h"
#include "kube/client.h"

enum { DEVICE_CONFIGMAPS_MAX = 16 };

struct device_configmaps;

struct device_configmaps_conf {
	struct kube *kube;
	const struct root *root;
	const char *names;     /* "[NAMESPACE/]NAME[,...]"; NULL or "": none */
	const char *ns;	       /* of names without one */
	const char *node;      /* this node's name: its own key */
	const char *state_dir; /* the directory is STATE_DIR/configmaps */
	void (*changed)(void *arg);
	/* One line for an administrator, which is in the log as well. May be NULL. */
	void (*event)(void *arg, bool is_warning, const char *text);
	void *arg;
};

/* -EINVAL: `names` is invalid. *ret is NULL if it is empty. What conf points to is borrowed, except `names`. */
int device_configmaps_new(struct device_configmaps **ret, const struct device_configmaps_conf *conf,
			  struct err *e);
void device_configmaps_free(struct device_configmaps *m); /* NULL is fine */

/* The directory of each ConfigMap, in the order of the setting. */
size_t device_configmaps_count(const struct device_configmaps *m); /* NULL: 0 */
const char *device_configmaps_dir(const struct device_configmaps *m, size_t i);

/* --- without a server --- */

/* The object of one ConfigMap, as the API server sends it; NULL: it does not exist. Writes its directory, or reports why
 * the version before stays. Returns whether the directory has changed. */
bool device_configmaps_take(struct device_configmaps *m, size_t i, const struct json *object);
/* Writes again what could not be written; returns the same. */
bool device_configmaps_retry(struct device_configmaps *m, size_t i);

#endif
