/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_DEVICE_RESOURCE_RESOURCE_H
#define UNIRAIL_DEVICE_RESOURCE_RESOURCE_H

/*
 * Decide: a configuration and the node's devices in, resources with their devices out. Pure: the same in gives the same
 * out, in the same order.
 *
 *	struct node_devices node;	observed (node.h)
 *	struct resource_config conf;	read (config.h, source.h), or without one: plan.h
 *
 *	resources_decide(&conf, &node, &set, &messages);
 *
 * A resource borrows from both: they must outlive it.
 */

#include "device/resource/config.h"

enum { RESOURCE_ID_MAX = PCI_NAME_MAX + 12 };

struct resource_member {
	const struct node_device *device;
	size_t selector; /* number of the selector object that chose it: its isRdma, needVhostNet, vdpaType count */
};

struct resource {
	const struct resource_conf *conf;
	struct resource_member *
		v; /* in the order of addresses; of several selector objects, one after the other */
	size_t n;
};

struct resources {
	struct resource *v; /* in the configuration's order; those without devices too */
	size_t n;
	const struct node_devices *node;
};

/*
 * A function of resourceList belongs to the first resource that selects it. HCAs of configList may belong to several.
 * Messages: a resource that selects nothing (and what was seen), devices that an earlier resource has, an RDMA mode that does
 * not fit, nodes that are missing (rdma_cm, umad).
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
	size_t n_numa; /* 0: no topology */
};

/* How many ids a resource has: PCI addresses, or "0" to rdmaHcaMax - 1 (perDevice: of each HCA). */
size_t resource_ids(const struct resource *r);
/* The i-th of them. A shared id is unhealthy when each HCA it may stand for is. */
void resource_id_at(const struct resource *r, size_t i, struct resource_id *ret);
/* Its number; -ENOENT: the resource has no such id. */
int64_t resource_id_number(const struct resource *r, const char *id);

/* The HCAs or functions of an id, members from..from+n: one with spread and perDevice, otherwise
 * all. */
void resource_id_members(const struct resource *r, size_t i, size_t *from, size_t *n);

#endif
