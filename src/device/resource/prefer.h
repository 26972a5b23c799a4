/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_DEVICE_RESOURCE_PREFER_H
#define UNIRAIL_DEVICE_RESOURCE_PREFER_H

/*
 * GetPreferredAllocation: of the ids that are available, those for a container. Nearest to the GPUs that the pod has
 * already: under the same PCIe switch, then the same root complex, then the same NUMA node; then from the rail (PF, HCA) that
 * this container has the fewest of, then the rail that is the least loaded; then the order of ids. Pure.
 */

#include "device/resource/resource.h"

struct prefer_request {
	const char *const *available; /* as the kubelet sent them; those of `must` among them */
	size_t n_available;
	const char *const *must; /* these first, in their order */
	size_t n_must;
	size_t size;
	const char *const *
		gpus; /* ids of the pod's GPUs as for node_gpu_find(); unknown ones count for nothing */
	size_t n_gpus;
};

/*
 * *ret: `size` ids, borrowed from the request; free() the array. Fewer when fewer are available. Ids that the resource does
 * not have come last. Costs n log n of the available ids, and size times their number of distinct rails.
 */
void resource_prefer(const struct resources *s, const struct resource *r,
		     const struct prefer_request *q, const char ***ret, size_t *n);

#endif
