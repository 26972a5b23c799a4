/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_DEVICE_RESOURCE_ALLOCATE_H
#define UNIRAIL_DEVICE_RESOURCE_ALLOCATE_H

/*
 * The answer to the kubelet's Allocate for one container, byte for byte what the originals answer,
 * except: every port's nodes of an HCA with several; a node once; CDI by
 * cdi_devices instead of an annotation (the kubelet keeps the first of two annotations of one key, so a pod with two
 * resources lost one's devices). Pure: files are part of the answer, and written by resource_files_write().
 */

#include "device/resource/resource.h"

#define RESOURCE_DEVINFO_DIR "/var/run/k8s.cni.cncf.io/devinfo/dp"
#define RESOURCE_CDI_DIR     "/var/run/cdi"

struct answer_pair {
	char *key, *value;
};

struct answer_node {
	char *host, *container;	 /* "/dev/infiniband/uverbs0" */
	const char *permissions; /* "rwm", "rw", "mrw" */
};

struct answer_file {
	char *path, *text; /* text NULL: remove it */
};

struct answer {
	struct answer_pair *envs;
	size_t n_envs;
	struct answer_node *nodes;
	size_t n_nodes;
	char **cdi; /* "nvidia.com/net-rdma=0000:3b:00.0"; with use_cdi in place of nodes */
	size_t n_cdi;
	struct answer_file *files;
	size_t n_files;
};

/* -ENOENT: an id that the resource does not have; -EINVAL: none was asked for. */
int resource_allocate(const struct resources *s, const struct resource *r, const char *const *ids,
		      size_t n, bool use_cdi, struct answer *ret, struct err *e);
void answer_done(struct answer *a);
#define auto_answer __attribute__((cleanup(answer_done)))

/* As JSON with sorted keys: for people and tests. */
void answer_write(const struct answer *a, struct json_out *o);

/* The device-info file of one function: "/var/run/.../intel.com-sriov-0000:3b:00.2-device.json". xmalloc'd. */
char *resource_devinfo_path(const struct resource_conf *c, const char *id);
/* "/var/run/cdi/sriov-dp-intel.com-net-pci-NAME.yaml"; xmalloc'd. */
char *resource_cdi_path(const struct resource_conf *c);
/* `unirail memlock-hook`, which container runtimes run before a container with an RDMA device of the resource starts. */
struct resource_hook {
	const char *path;    /* of the binary on the host; NULL: no hook */
	const char *memlock; /* "unlimited", or bytes */
};
/*
 * The CDI specification of all devices of a resource, as JSON (which is YAML). Returns how many devices it has: one without any
 * is not valid, and container runtimes warn of it.
 */
size_t resource_cdi_write(const struct resources *s, const struct resource *r,
			  const struct resource_hook *hook, struct buf *b);

/*
 * Whether the text of a file of RESOURCE_CDI_DIR was written by resource_cdi_write(). The originals' files have the same names
 * and kinds, but are YAML in its own style.
 */
bool resource_cdi_is_own(struct span text);

/* Replaces with mode 0444 (the original's) what differs, or removes. The first failure is returned, the others go on. */
int answer_files_write(const struct root *root, const struct answer *a, struct err *e);

#endif
