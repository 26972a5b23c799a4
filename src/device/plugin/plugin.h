/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_DEVICE_PLUGIN_PLUGIN_H
#define UNIRAIL_DEVICE_PLUGIN_PLUGIN_H

/*
 * Device plugins of the kubelet (API v1beta1): one server for each extended resource, registered
 * with the kubelet and kept registered. What a resource contains is behind struct device_plugin_ops;
 * protocol, sockets and registration are here.
 *
 * Registration. If the directory plugins_registry exists, the socket is created there and the
 * kubelet finds it. Otherwise the socket is created in the directory device-plugins and announced
 * through kubelet.sock there. Registered again when the kubelet restarts (kubelet.sock is
 * recreated), when this socket was deleted, and when the directory was replaced (inotify, and a
 * check every 5 s). While the kubelet is absent or refuses, retried with backoff up to 30 s; the log
 * has one line when the reason changes, with the resource's name and the kubelet's words.
 *
 * Socket names: "NAME.sock", or "NAME.xxxxxxxx.sock" (random) while another process listens on the
 * first: the old and the new agent of a rolling update. The kubelet uses the one that registered last.
 * When the connection of either process ends, the kubelet marks the resource unhealthy (devicemanager,
 * PluginDisconnected). So this process registers again one second after the other one's socket was removed.
 * A name of more than 48 bytes is cut and ends with a hash: a socket's path has 107 bytes.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/loop.h"

#define DEVICE_PLUGIN_DIR      "/var/lib/kubelet/device-plugins"
#define DEVICE_PLUGIN_REGISTRY "/var/lib/kubelet/plugins_registry"
#define DEVICE_PLUGIN_VERSION  "v1beta1"

enum {
	DEVICE_PLUGIN_ID_MAX = 63,	   /* bytes of a device id */
	DEVICE_PLUGIN_DEVICES_MAX = 16384, /* devices of one resource */
	DEVICE_PLUGIN_IDS_MAX = 1024,	   /* ids in one request of a container */
	DEVICE_PLUGIN_CONTAINERS_MAX = 64,
};

/* --- what a resource says --- */

struct device_plugin_device {
	char *id;
	bool healthy;
	int64_t *numa; /* NUMA nodes; none: no topology is sent */
	size_t n_numa;
};

struct device_plugin_list {
	struct device_plugin_device *v;
	size_t n;
};

/* Copies; numa < 0: no NUMA node. */
void device_plugin_list_add(struct device_plugin_list *l, const char *id, bool healthy,
			    int64_t numa);
/* One more NUMA node of the last device. */
void device_plugin_list_add_numa(struct device_plugin_list *l, int64_t numa);
void device_plugin_list_done(struct device_plugin_list *l);

struct device_plugin_pair {
	char *key, *value;
};
struct device_plugin_mount {
	char *container_path, *host_path;
	bool read_only;
};
struct device_plugin_node {
	char *container_path, *host_path;
	char permissions[4]; /* of "rwm" */
};

/* The answer for one container. */
struct device_plugin_allocation {
	struct device_plugin_pair *envs, *annotations;
	size_t n_envs, n_annotations;
	struct device_plugin_mount *mounts;
	size_t n_mounts;
	struct device_plugin_node *devices;
	size_t n_devices;
	char **cdi; /* "vendor/class=name" */
	size_t n_cdi;
};

/* All copy. An environment variable or annotation given twice has the last value; a device node with
 * the same container path is added once. */
void device_plugin_env(struct device_plugin_allocation *a, const char *key, const char *value);
void device_plugin_annotation(struct device_plugin_allocation *a, const char *key,
			      const char *value);
void device_plugin_mount(struct device_plugin_allocation *a, const char *container_path,
			 const char *host_path, bool read_only);
void device_plugin_node(struct device_plugin_allocation *a, const char *container_path,
			const char *host_path, const char *permissions);
void device_plugin_cdi(struct device_plugin_allocation *a, const char *name);
void device_plugin_allocation_done(struct device_plugin_allocation *a);
#define auto_device_allocation __attribute__((cleanup(device_plugin_allocation_done)))

/* Device ids of a request, borrowed; each 1 to DEVICE_PLUGIN_ID_MAX bytes, without NUL. */
struct device_plugin_ids {
	const char *const *v;
	size_t n;
};

/* All are called from the loop and answer at once, except as `prepare` has it. */
struct device_plugin_ops {
	/* All devices of the resource, into an empty list. */
	void (*list)(void *arg, struct device_plugin_list *ret);
	/* One container's ids, in the kubelet's order. An id that was never listed is refused before
	 * this call. An error refuses the container: kubelet shows its text on the pod. */
	int (*allocate)(void *arg, const struct device_plugin_ids *ids,
			struct device_plugin_allocation *ret, struct err *e);
	/* Chooses `size` ids of `available`, which include all of `must`, best first, into ret[size]:
	 * pointers from `available`. Returns how many. NULL: the kubelet chooses. */
	size_t (*preferred)(void *arg, const struct device_plugin_ids *available,
			    const struct device_plugin_ids *must, size_t size, const char **ret);
	/* Before `preferred`: begins to gather what it needs. True: plugin_prepared() follows, from the
	 * loop, within a second or so; the kubelet waits for it with all of the pod's admission. False,
	 * or NULL: nothing is needed. */
	bool (*prepare)(void *arg);
	/* Before a container with these ids starts. NULL: not needed. */
	int (*prestart)(void *arg, const struct device_plugin_ids *ids, struct err *e);
	/* The kubelet holds this resource now (true) or no longer does (false, `reason` says it in a
	 * line): for status, events and metrics. Called on changes only. May be NULL. */
	void (*registered)(void *arg, bool registered, const char *reason);
};

/* --- serving --- */

struct device_plugins;
struct device_plugin;

struct device_plugins_conf {
	const char *dir;      /* NULL: DEVICE_PLUGIN_DIR; where kubelet.sock is */
	const char *registry; /* NULL: DEVICE_PLUGIN_REGISTRY; "": never used */
	int register_ms; /* deadline of Register; 0: 15 s, since the kubelet dials back first */
};

/* The directories, the watch on them and the plugins in them. Strings are copied. */
int device_plugins_new(struct device_plugins **ret, struct loop *l,
		       const struct device_plugins_conf *c, struct err *e);
/* Stops every plugin. NULL is fine. */
void device_plugins_free(struct device_plugins *p);

/*
 * Serves `resource` ("vendor/name") on a socket named after `socket` (without ".sock"; original programs:
 * resourceName, or prefix_resourceName) and registers it. ops is borrowed. Fails only for names that
 * can never work (-EINVAL, ERR_CONF): what may mend itself (no directory, no kubelet, a refusal) is retried.
 */
int plugin_serve(struct device_plugins *p, const char *resource, const char *socket,
		 const struct device_plugin_ops *ops, void *arg, struct device_plugin **ret,
		 struct err *e);
/* Call when the list may have changed: calls ops->list and notifies the kubelet if it differs from
 * what was sent last, before the loop waits again. Any number of calls in between cost one. */
void plugin_changed(struct device_plugin *p);
/* What ops->prepare began is there: the calls that wait are answered. */
void plugin_prepared(struct device_plugin *p);
/* Closes and removes its socket: the kubelet counts its devices as unhealthy, and drops the resource
 * after five minutes. NULL is fine. */
void plugin_stop(struct device_plugin *p);

bool plugin_is_registered(const struct device_plugin *p);
/* Why the kubelet does not hold it; "" when it does. */
const char *plugin_error(const struct device_plugin *p);

/* Whether a kubelet accepts it as an extended resource: "domain/name", not of kubernetes.io, a
 * qualified name of at most 253 and 63 bytes, and no "requests." before it. -EINVAL and the reason. */
int plugin_resource_check(const char *resource, struct err *e);

#endif
