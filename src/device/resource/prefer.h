/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_DEVICE_RESOURCE_PREFER_H
#define UNIRAIL_DEVICE_RESOURCE_PREFER_H

/*
 * GetPreferredAllocation: chooses ids for a container from the available ones. Criteria in this order: nearest to the
 * GPUs that the pod already has: under the same PCIe switch, then the same root complex, then the same NUMA node; then
 * from the rail (PF, HCA) that this container has the fewest of, then the rail that is the least loaded; then the order
 * of ids. Pure.
 */

#include "device/resource/resource.h"

struct prefer_request {
	/* available ids as the kubelet sends them, including those of `must` */
	const char *const *available;
	size_t n_available;
	const char *const *must; /* ids to choose first */
	size_t n_must;
	size_t size;
	/* ids of the pod's GPUs, see node_gpu_find(); unknown ones are ignored */
	const char *const *gpus;
	size_t n_gpus;
};

/*
 * Sets *ret to `size` ids, borrowed from the request, or fewer if fewer are available; the caller frees the array. Ids
 * that the resource does not have are last. Costs n log n of the available ids, and size times their number of distinct
 * rails.
 */
void resource_prefer(const struct resources *s, const struct resource *r,
		     const struct prefer_request *q, const char ***ret, size_t *n);

#endif
