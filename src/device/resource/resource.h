/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_DEVICE_RESOURCE_RESOURCE_H
#define UNIRAIL_DEVICE_RESOURCE_RESOURCE_H

/*
 * Decide: computes resources with their devices from a configuration and the node's devices. Pure: the same inputs give
 * the same resources in the same order.
 *
 *	struct node_devices node;	observed (node.h)
 *	struct resource_config conf;	read (config.h, source.h), or planned if the node has none (plan.h)
 *
 *	resources_decide(&conf, &node, &set, &messages);
 *
 * A resource borrows from node and conf, which must exist as long as the resource.
 */

#include "device/resource/config.h"

enum { RESOURCE_ID_MAX = PCI_NAME_MAX + 12 };

struct resource_member {
	const struct node_device *device;
	/* index of the matching selector object, whose isRdma, needVhostNet and vdpaType apply */
	size_t selector;
};

struct resource {
	const struct resource_conf *conf;
	/* devices in the order of their addresses; with several selector objects, in the order of
	 * the selector objects */
	struct resource_member *v;
	size_t n;
};

struct resources {
	/* resources in the order of the configuration, also those without devices */
	struct resource *v;
	size_t n;
	const struct node_devices *node;
};

/*
 * A device that several resources of resourceList select belongs to the first of them. An HCA may
 * belong to several resources of configList. Adds messages about: a resource that selects nothing
 * (with the devices seen), devices that an earlier resource has, an unsuitable RDMA mode, missing
 * device nodes (rdma_cm, umad, vhost-net), an rdmaHcaMax of 0.
 */
void resources_decide(const struct resource_config *c, const struct node_devices *node,
		      struct resources *ret, struct resource_messages *messages);
void resources_done(struct resources *s);
#define auto_resources __attribute__((cleanup(resources_done)))

const struct resource *resource_find(const struct resources *s, const char *full);

/* --- the devices that are advertised to the kubelet --- */

enum { RESOURCE_NUMA_MAX = 16 };

struct resource_id {
	char id[RESOURCE_ID_MAX];
	const char *unhealthy; /* the reason; NULL: healthy */
	int numa[RESOURCE_NUMA_MAX];
	size_t n_numa; /* number of NUMA nodes; 0: no topology is sent */
};

/* Returns the number of ids of a resource. The ids of resourceList are PCI addresses or names of
 * auxiliary devices; those of configList are "0" to rdmaHcaMax - 1, with perDevice they are the
 * name of an HCA and a number from 0, "mlx5_0-0", "mlx5_0-1" and so on, for each HCA. */
size_t resource_ids(const struct resource *r);
/* Sets *ret to the i-th id. A shared id is unhealthy if all HCAs that it may represent are
 * unhealthy. */
void resource_id_at(const struct resource *r, size_t i, struct resource_id *ret);
/* Returns the index of an id; -ENOENT: the resource does not have it. */
int64_t resource_id_number(const struct resource *r, const char *id);

/* Finds the functions or HCAs of the i-th id: members `from` to `from` + n - 1. An id of a shared
 * resource with neither spread nor perDevice has all members, any other id has one. */
void resource_id_members(const struct resource *r, size_t i, size_t *from, size_t *n);

#endif
