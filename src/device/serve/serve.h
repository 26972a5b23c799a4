/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_DEVICE_SERVE_SERVE_H
#define UNIRAIL_DEVICE_SERVE_SERVE_H

/*
 * The device plugins of a node. They advertise to the kubelet the resources of the node's
 * configurations or, without a configuration, the resources named by rail (device/resource/plan.h).
 * Configurations and devices are read again when a device is added or removed, a configuration
 * changes, and at the shortest periodicUpdateInterval; when a link changes its state, only the
 * health is judged again. An unchanged resource keeps its registration; new resources are
 * registered, removed ones stopped. An error in one resource is one line in the log and does not
 * affect the others. While a document is invalid (it is missing, not JSON, or not a configuration),
 * the whole previous configuration stays in force, and an error is logged.
 *
 * A device that was in a pod at the last scan is read again before its Allocate is answered: the
 * kubelet may give it to the next pod before the events of its return have been handled, and the
 * answer must have its RDMA device nodes.
 */

#include "base/file.h"
#include "base/loop.h"
#include "device/plugin/plugin.h"

struct device_serve;

struct device_serve_conf {
	struct loop *loop;
	const struct root *root;
	/* directory of another host's files, which `root` has opened; NULL: this host's files are
	 * read */
	const char *dir;
	/* Files and directories of configurations. If `plan` is set, the resources of the plan
	 * are served when n_sources is 0 or, with `optional`, when no source exists. */
	const char *const *sources;
	size_t n_sources;
	bool optional; /* a source that does not exist is not an error */
	bool plan;
	/* the node's name, which may be a key of a ConfigMap; NULL: none */
	const char *node;
	/* prefix of resources of resourceList that have none; NULL: intel.com */
	const char *sriov_prefix;
	bool use_cdi;
	/* For use_cdi: path of unirail on the host, and the memlock limit that the hook `unirail
	 * memlock-hook` sets; path NULL: no hook. */
	const char *hook_path, *hook_memlock;
	/* The kubelet's PodResources socket, for the GPUs of a pod (device/serve/pod_gpus.h);
	 * NULL: the list of pods is not requested. */
	const char *podres;
	struct device_plugins_conf plugins;
	/* Reports a message for an administrator (health, refusals, errors), which is logged as
	 * well. `resource` may be NULL, and so may `event` itself. */
	void (*event)(void *arg, bool is_warning, const char *reason, const char *resource,
		      const char *text);
	/* The resources that device_serve_names() returns have changed. May be NULL. */
	void (*changed)(void *arg);
	/* Called when a container has been allocated ids of a shared resource. May be NULL. */
	void (*allocated)(void *arg);
	void *arg;
};

/* Everything that conf points to must exist as long as *ret. Fails only if the kernel refuses
 * inotify, sockets or epoll. */
int device_serve_new(struct device_serve **ret, const struct device_serve_conf *conf,
		     struct err *e);
/* Stops the plugins and removes the sockets. s may be NULL. */
void device_serve_free(struct device_serve *s);
/* Changes the hook of CDI specifications; path NULL: no hook. The strings are borrowed. s may be NULL. */
void device_serve_hook(struct device_serve *s, const char *path, const char *memlock);
/* Schedules a read of configurations and devices. */
void device_serve_reload(struct device_serve *s);

/* Sets v to the names of the served resources, at most `max`, borrowed until the loop waits again.
 * Returns their number. */
size_t device_serve_names(const struct device_serve *s, const char **v, size_t max);

/* Calls `each` for each RDMA device that an id of a resource stands for; for an id of
 * resourceList only if the matching selector has isRdma. only_shared: skips ids of resourceList.
 * The names are borrowed until the loop waits again. */
void device_serve_rdma(const struct device_serve *s, const char *resource, const char *id,
		       bool only_shared, void (*each)(void *arg, const char *device), void *arg);

struct device_serve_count {
	size_t resources, registered, devices, unhealthy;
};
struct device_serve_count device_serve_count(const struct device_serve *s);
/* Writes the state of all resources as JSON: [{"resource":...,"registered":...,"reason":...,"devices":[{"id":...,
 * "unhealthy":...}]}]; "reason" is "" if the kubelet has accepted the resource, "unhealthy" is
 * "" for a healthy device. */
struct json_out;
void device_serve_write(const struct device_serve *s, struct json_out *o);

#endif
