/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_DEVICE_PLUGIN_PLUGIN_H
#define UNIRAIL_DEVICE_PLUGIN_PLUGIN_H

/*
 * Device plugins of the kubelet (API v1beta1): one server for each extended resource, registered with the kubelet and
 * kept registered. struct device_plugin_ops defines the content of a resource; this directory
 * implements protocol, sockets and registration.
 *
 * Registration. If the directory plugins_registry exists, the socket is created there and the kubelet finds it.
 * Otherwise the socket is created in the directory device-plugins and announced through kubelet.sock there. A plugin
 * registers again when the kubelet restarts (kubelet.sock is recreated), when its socket was
 * deleted, and when the directory that contains its socket was replaced (inotify, and a check every
 * 5 s). While the kubelet does not run or refuses, the registration is retried with an exponential
 * backoff (limit 30 s, with jitter up to 45 s); the log has one line when the reason changes, with
 * the resource's name and the kubelet's message.
 *
 * Socket names: "NAME.sock", or "NAME.xxxxxxxx.sock" (random) while another process listens on the
 * first, as during a rolling update, when the old and the new agent run. The kubelet uses the
 * socket that was registered last. When the connection to either process ends, the kubelet marks
 * the resource unhealthy (devicemanager, PluginDisconnected). So this process registers again one
 * second after the other process's socket was removed. A name of more than 48 bytes is cut and ends
 * with a hash, since a socket's path has at most 107 bytes.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/loop.h"

#define DEVICE_PLUGIN_REGISTRY "/var/lib/kubelet/plugins_registry"
#define DEVICE_PLUGIN_VERSION  "v1beta1"

enum {
	DEVICE_PLUGIN_ID_MAX = 63,	   /* maximum length of a device id, in bytes */
	DEVICE_PLUGIN_DEVICES_MAX = 16384, /* maximum number of devices of one resource */
	/* maximum number of ids of one container in Allocate or PreStartContainer */
	DEVICE_PLUGIN_IDS_MAX = 1024,
	DEVICE_PLUGIN_CONTAINERS_MAX = 64,
};

/* --- the devices of a resource, and the response to Allocate --- */

struct device_plugin_device {
	char *id;
	bool healthy;
	int64_t *numa; /* NUMA nodes of the device; an empty list: no topology is sent */
	size_t n_numa;
};

struct device_plugin_list {
	struct device_plugin_device *v;
	size_t n;
};

/* Adds a device; copies id. numa < 0: no NUMA node. */
void device_plugin_list_add(struct device_plugin_list *l, const char *id, bool healthy,
			    int64_t numa);
/* Adds another NUMA node to the last device. */
void device_plugin_list_add_numa(struct device_plugin_list *l, int64_t numa);
void device_plugin_list_done(struct device_plugin_list *l);

struct device_plugin_env {
	char *key, *value;
};
struct device_plugin_node {
	char *container_path, *host_path;
	char permissions[4]; /* access to the device node: one or more characters of "rwm" */
};

/* The response to Allocate for one container. */
struct device_plugin_allocation {
	struct device_plugin_env *envs;
	size_t n_envs;
	struct device_plugin_node *devices;
	size_t n_devices;
	char **cdi; /* "vendor/class=name" */
	size_t n_cdi;
};

/* Functions that fill an allocation; they copy their strings. If an environment variable is added
 * twice, the last value counts; of device nodes with the same container path only the first one
 * is added. */
void device_plugin_env(struct device_plugin_allocation *a, const char *key, const char *value);
void device_plugin_node(struct device_plugin_allocation *a, const char *container_path,
			const char *host_path, const char *permissions);
void device_plugin_cdi(struct device_plugin_allocation *a, const char *name);
void device_plugin_allocation_done(struct device_plugin_allocation *a);

/* Device ids of a request, borrowed; each 1 to DEVICE_PLUGIN_ID_MAX bytes, without NUL. */
struct device_plugin_ids {
	const char *const *v;
	size_t n;
};

/* Callbacks of a resource. All are called from the event loop and return at once; only `prepare` can delay a
 * response. */
struct device_plugin_ops {
	/* Adds all devices of the resource to *ret, which is empty. */
	void (*list)(void *arg, struct device_plugin_list *ret);
	/* Allocates the ids of one container, in the kubelet's order. An id that is not in the last
	 * list is refused before this call. After an error the container is not started; the
	 * kubelet shows the error's text on the pod. */
	int (*allocate)(void *arg, const struct device_plugin_ids *ids,
			struct device_plugin_allocation *ret, struct err *e);
	/* Chooses up to `size` ids and stores them in ret[size], best first, as pointers from
	 * `available`. `available` contains all ids of `must`. Returns the number of chosen ids.
	 * NULL: the kubelet chooses. */
	size_t (*preferred)(void *arg, const struct device_plugin_ids *available,
			    const struct device_plugin_ids *must, size_t size, const char **ret);
	/* Called before `preferred` to collect its inputs. Returns true if the collection takes
	 * time: then the resource calls plugin_prepared() from the event loop within about a
	 * second, and the kubelet delays the admission of the pod until then. False, or a NULL
	 * callback: nothing to collect. */
	bool (*prepare)(void *arg);
	/* Called before a container with these ids starts. NULL: not needed. */
	int (*prestart)(void *arg, const struct device_plugin_ids *ids, struct err *e);
	/* Reports that the kubelet has accepted this resource (true) or has dropped it (false;
	 * `reason` is one line, or "" if this plugin closed the connection itself), for status,
	 * events and metrics. Called on changes only. May be NULL. */
	void (*registered)(void *arg, bool registered, const char *reason);
};

/* --- serving --- */

struct device_plugins;
struct device_plugin;

struct device_plugins_conf {
	const char *dir; /* directory that contains kubelet.sock; NULL: PATH_DEVICE_PLUGINS */
	/* directory plugins_registry; NULL: DEVICE_PLUGIN_REGISTRY; "": never used */
	const char *registry;
	/* timeout of Register in ms; 0: 15 s, because the kubelet connects to the plugin before
	 * it answers */
	int register_ms;
};

/* Creates an empty set of plugins and watches the directories. Copies the strings. */
int device_plugins_new(struct device_plugins **ret, struct loop *l,
		       const struct device_plugins_conf *c, struct err *e);
/* Stops every plugin. p may be NULL. */
void device_plugins_free(struct device_plugins *p);

/*
 * Serves `resource` ("vendor/name") on a socket named after `socket` (without ".sock"; original
 * programs: resourceName, or prefix_resourceName) and registers it. ops is borrowed. Fails only for
 * an invalid name (-EINVAL, ERR_CONF) and for a resource that is served already (-EEXIST,
 * ERR_CONF); other errors (no directory, no kubelet, a refusal) are retried.
 */
int plugin_serve(struct device_plugins *p, const char *resource, const char *socket,
		 const struct device_plugin_ops *ops, void *arg, struct device_plugin **ret,
		 struct err *e);
/* Call it when the list may have changed. Then ops->list is called once before the loop waits
 * again, and the kubelet is notified if the list differs from the one sent last. */
void plugin_changed(struct device_plugin *p);
/* Call it when the inputs that ops->prepare collects are complete: answers the pending calls. */
void plugin_prepared(struct device_plugin *p);
/* Closes and removes the socket of the plugin: the kubelet marks its devices as unhealthy, and drops the resource after
 * five minutes. p may be NULL. */
void plugin_stop(struct device_plugin *p);

bool plugin_is_registered(const struct device_plugin *p);
/* Returns the reason why the kubelet has not accepted the resource; "": it has. */
const char *plugin_error(const struct device_plugin *p);

/* Checks whether a kubelet accepts the name of an extended resource, "domain/name": a DNS domain
 * of at most 253 bytes that neither ends with "kubernetes.io" nor begins with "requests.", and a
 * name of at most 63 bytes. -EINVAL: e has the reason. */
int plugin_resource_check(const char *resource, struct err *e);

#endif
