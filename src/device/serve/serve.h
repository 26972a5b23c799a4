/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_DEVICE_SERVE_SERVE_H
#define UNIRAIL_DEVICE_SERVE_SERVE_H

/*
 * The device plugins of a node: the resources of its configurations (or, without any, those named by rail) advertised to the
 * kubelet. Read again when a device appears or goes, a link changes its state, a configuration changes, and at the shortest
 * periodicUpdateInterval. A resource that stays keeps its registration; only what is new is registered, what is gone is
 * stopped. A mistake in one resource is one line in the log and leaves the others alone. While a document cannot be read
 * (it is not JSON, or no configuration), the configuration before stays in force as a whole, which is one line as well.
 *
 * A device that was in a pod at the last scan is read again before its Allocate is answered: the kubelet may give it to the next
 * pod before the events of its return have been handled, and the answer must have its RDMA device nodes.
 */

#include "base/file.h"
#include "base/loop.h"
#include "device/plugin/plugin.h"

/* RESOURCE_CONFIG_DIR, RESOURCE_DEVINFO_DIR and RESOURCE_CDI_DIR of device/resource. */
#define DEVICE_SERVE_CONFIG_DIR	 "/etc/unirail/resources"
#define DEVICE_SERVE_DEVINFO_DIR "/var/run/k8s.cni.cncf.io/devinfo/dp"
#define DEVICE_SERVE_CDI_DIR	 "/var/run/cdi"

struct device_serve;

struct device_serve_conf {
	struct loop *loop;
	const struct root *root;
	const char *dir; /* of another host's files, which `root` is; NULL: this host */
	/* Files and directories of configurations; none exists: the resources of the plan, if `plan`. */
	const char *const *sources;
	size_t n_sources;
	bool optional; /* a source that does not exist is no mistake */
	bool plan;
	const char *node;	  /* its own key in a ConfigMap; NULL: none */
	const char *sriov_prefix; /* of resourceList's resources without one; NULL: intel.com */
	bool use_cdi;
	/* With use_cdi: the binary's path on the host and the limit, of `unirail memlock-hook`; path NULL: no hook. */
	const char *hook_path, *hook_memlock;
	/* The kubelet's PodResources socket, for the GPUs of a pod (device/serve/pod_gpus.h); NULL: not
	 * requested. */
	const char *podres;
	struct device_plugins_conf plugins;
	/* Something that an administrator should see (health, refusals, mistakes), in one line; resource may be NULL. The
	 * same line goes to the log. May be NULL. */
	void (*event)(void *arg, bool is_warning, const char *reason, const char *resource,
		      const char *text);
	/* The resources that device_serve_names() returns have changed. May be NULL. */
	void (*changed)(void *arg);
	/* A container has been given ids of a shared resource. May be NULL. */
	void (*allocated)(void *arg);
	void *arg;
};

/* What conf points to must live as long as it. Fails only if the kernel refuses inotify or sockets. */
int device_serve_new(struct device_serve **ret, const struct device_serve_conf *conf,
		     struct err *e);
/* Removes the sockets. NULL is fine. */
void device_serve_free(struct device_serve *s);
/* The hook of CDI specifications from now on; path NULL: none. The strings are borrowed. NULL s is fine. */
void device_serve_hook(struct device_serve *s, const char *path, const char *memlock);
/* Reads configurations and devices again, soon. */
void device_serve_reload(struct device_serve *s);

/* The resources that are served, at most `max` names, borrowed until the loop waits again. Returns how many. */
size_t device_serve_names(const struct device_serve *s, const char **v, size_t max);

/* Calls `each` for each RDMA device that an id of a resource stands for; only_shared: none for an id of resourceList. The
 * names are borrowed until the loop waits again. */
void device_serve_rdma(const struct device_serve *s, const char *resource, const char *id,
		       bool only_shared, void (*each)(void *arg, const char *device), void *arg);

struct device_serve_count {
	size_t resources, registered, devices, unhealthy;
};
struct device_serve_count device_serve_count(const struct device_serve *s);
/* The state of all resources, as JSON: [{"resource":...,"registered":...,"reason":...,"devices":[{"id":...,
 * "unhealthy":...}]}]; a reason is "" where there is none. */
struct json_out;
void device_serve_write(const struct device_serve *s, struct json_out *o);

#endif
