/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_DEVICE_RESOURCE_ALLOCATE_H
#define UNIRAIL_DEVICE_RESOURCE_ALLOCATE_H

/*
 * The response to the kubelet's Allocate for one container. It is equal to the response of the
 * original device plugins except that it has the device nodes of every port of an HCA with several
 * ports, has each device node only once, and names CDI devices in cdi_devices instead of an
 * annotation (of two annotations with the same key the kubelet keeps the first, so a pod with two
 * resources would get only the devices of one). Pure: the answer only lists the device-info files;
 * answer_files_write() writes them.
 */

#include "device/resource/resource.h"

struct answer_pair {
	char *key, *value;
};

struct answer_node {
	char *host, *container;	 /* "/dev/infiniband/uverbs0" */
	const char *permissions; /* "rwm", "rw", "mrw" */
};

struct answer_file {
	char *path, *text; /* text NULL: the file is removed */
};

struct answer {
	struct answer_pair *envs;
	size_t n_envs;
	struct answer_node *nodes;
	size_t n_nodes;
	/* CDI devices, "nvidia.com/net-rdma=hca_shared.0000:3b:00.0"; used with use_cdi instead
	 * of device nodes */
	char **cdi;
	size_t n_cdi;
	struct answer_file *files;
	size_t n_files;
};

/* Computes the response. -ENOENT: the resource does not have one of the ids; -EINVAL: no id was
 * requested. */
int resource_allocate(const struct resources *s, const struct resource *r, const char *const *ids,
		      size_t n, bool use_cdi, struct answer *ret, struct err *e);
void answer_done(struct answer *a);
#define auto_answer __attribute__((cleanup(answer_done)))

/* Returns the path of a function's device-info file: "/var/run/.../intel.com-sriov-0000:3b:00.2-device.json". The
 * caller frees it. */
char *resource_devinfo_path(const struct resource_conf *c, const char *id);
/* Returns the path of a resource's CDI specification:
 * "/var/run/cdi/sriov-dp-intel.com-net-pci-NAME.yaml", for configList
 * "/var/run/cdi/nvidia.com_NAME.yaml", with a prefix other than "rdma"
 * "/var/run/cdi/nvidia.com_PREFIX_NAME.yaml". The caller frees it. */
char *resource_cdi_path(const struct resource_conf *c);
/* The hook `unirail memlock-hook`, which container runtimes run before a container with an RDMA
 * device of the resource starts. */
struct resource_hook {
	const char *path;    /* path of unirail on the host; NULL: no hook */
	const char *memlock; /* memlock limit: "unlimited" or a number of bytes */
};
/*
 * Writes the CDI specification of all devices of a resource, as JSON (which is valid YAML). Returns
 * the number of devices written. If it is 0, the caller must not store the specification: it is
 * invalid, and container runtimes warn about it.
 */
size_t resource_cdi_write(const struct resources *s, const struct resource *r,
			  const struct resource_hook *hook, struct buf *b);

/*
 * Returns whether resource_cdi_write() wrote the text of a file in PATH_CDI. Files of the originals have the
 * same names and kinds, but another style of YAML.
 */
bool resource_cdi_is_own(struct span text);

/* Writes the files whose content or mode differs, with mode 0444 as the original does, and removes
 * the files whose text is NULL. Stops at the first error and returns it. */
int answer_files_write(const struct root *root, const struct answer *a, struct err *e);

#endif
