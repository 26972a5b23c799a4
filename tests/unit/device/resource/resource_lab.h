/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_TESTS_RESOURCE_LAB_H
#define UNIRAIL_TESTS_RESOURCE_LAB_H

/* A node with rails, GPUs and VFs, and one resource of all VFs, on plain structs. */

#include "device/resource/resource.h"

enum { RAILS = 4, VFS = 3 };

/*
 * Four switches with a rail and a GPU below each, two switches on each NUMA node, three VFs on each
 * rail.
 */
struct prefer_lab {
	struct node_device v[RAILS * VFS];
	struct resource_member members[RAILS * VFS];
	struct node_gpu gpus[RAILS];
	struct node_devices node;
	struct resource_conf conf;
	struct resource r;
	struct resources s;
	char paths[RAILS][2][64];
};

void prefer_init(struct prefer_lab *l);

#endif
