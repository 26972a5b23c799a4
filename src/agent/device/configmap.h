/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_AGENT_DEVICE_CONFIGMAP_H
#define UNIRAIL_AGENT_DEVICE_CONFIGMAP_H

/*
 * Configurations of device plugins from ConfigMaps of the cluster, read through the API: those that
 * the original plugins mount (rdma-devices, sriovdp-config) and the SR-IOV operator's
 * device-plugin-config, with a key for each node. The agent reads the ConfigMap's key with the
 * node's name, else config.json, else each *.json, as from a directory (device/resource/source.h).
 *
 * Each valid version is written to files STATE_DIR/configmaps/NAMESPACE/NAME/KEY; the directory of
 * each ConfigMap is a source of device/serve. So the last valid version stays in force while the
 * API server is unavailable, also after a restart of the agent, and errors name ConfigMap and key.
 * If a ConfigMap is deleted, not readable (RBAC), without a key for this node or invalid, the
 * previous version stays in force, and the reason is logged and reported as an event. If a version
 * cannot be written (a full disk), the write is retried. A version with more than 64 documents for
 * this node is invalid.
 */

#include "base/file.h"
#include "kube/client.h"

enum { DEVICE_CONFIGMAPS_MAX = 16 };

struct device_configmaps;

struct device_configmaps_conf {
	struct kube *kube;
	const struct root *root;
	const char *names;     /* names of ConfigMaps, "[NAMESPACE/]NAME[,...]"; NULL or "": none */
	const char *ns;	       /* namespace of ConfigMaps that are named without one */
	const char *node;      /* this node's name, which may be a key of the ConfigMaps */
	const char *state_dir; /* the versions are in STATE_DIR/configmaps */
	void (*changed)(void *arg);
	/* Reports one line for an administrator; errors are logged as well. May be NULL. */
	void (*event)(void *arg, bool is_warning, const char *text);
	void *arg;
};

/* Fails with kind ERR_CONF if conf->names is invalid. *ret is NULL if conf->names is empty.
 * Everything that conf points to is borrowed, except conf->names. */
int device_configmaps_new(struct device_configmaps **ret, const struct device_configmaps_conf *conf,
			  struct err *e);
void device_configmaps_free(struct device_configmaps *m); /* m may be NULL */

size_t device_configmaps_count(const struct device_configmaps *m); /* 0 if m is NULL */
/* Returns the directory of the i-th ConfigMap of the setting. */
const char *device_configmaps_dir(const struct device_configmaps *m, size_t i);

/* --- functions that need no API server --- */

/* Takes the object of the i-th ConfigMap, as the API server sends it; NULL: it does not exist.
 * Writes its directory, or reports why the previous version stays in force. Returns whether the
 * directory has changed. */
bool device_configmaps_take(struct device_configmaps *m, size_t i, const struct json *object);
/* Retries the failed write of the i-th ConfigMap. Returns whether the directory has changed. */
bool device_configmaps_retry(struct device_configmaps *m, size_t i);

#endif
