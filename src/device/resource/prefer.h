/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_DEVICE_RESOURCE_PREFER_H
#define UNIRAIL_DEVICE_RESOURCE_PREFER_H

/*
 * GetPreferredAllocation: chooses ids for a container from the available ones. Pure. After the ids
 * that the request requires, the criteria are, in this order:
 * - the distance to the nearest GPU of the pod: the same PCIe switch, root port, root complex, NUMA
 *   node, none of these
 * - the rail (PF or HCA) from which the fewest ids were chosen for this container
 * - the rail that has the smallest fraction of its ids allocated
 * - the order of ids
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
 * Sets *ret to `size` ids, borrowed from the request, or fewer if fewer are available; the caller
 * frees the array. Ids that the resource does not have are last, unless they are in `must`. Takes
 * O(n log n) time for the n ids of the resource, plus O(n) per id in `must`, plus O(r) per chosen
 * id for r rails.
 */
void resource_prefer(const struct resources *s, const struct resource *r,
		     const struct prefer_request *q, const char ***ret, size_t *n);

#endif
