/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_DEVICE_PODRES_PB_H
#define UNIRAIL_DEVICE_PODRES_PB_H

/* The decoded response to v1.PodResourcesLister/List. */

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define PODRES_LIST "/v1.PodResourcesLister/List"

/*
 * Devices of one resource. A kubelet sends one entry for each device or one for each NUMA node;
 * podres_merge() (device/podres.h) merges them into one for each resource.
 */
struct podres_devices {
	char *resource;
	char **ids;
	size_t n_ids;
	int64_t *nodes; /* NUMA nodes; an empty list: unknown */
	size_t n_nodes;
};

struct podres_container {
	char *name;
	struct podres_devices *devices;
	size_t n_devices;
};

struct podres_pod {
	char *name, *ns;
	struct podres_container *containers;
	size_t n_containers;
};

struct podres_list {
	struct podres_pod *pods;
	size_t n_pods;
};

void podres_done(struct podres_list *l);
#define auto_podres __attribute__((cleanup(podres_done)))
/* Decodes a response; no string in *ret is NULL. -EBADMSG (ERR_DECODE): the bytes are not a valid
 * response; *ret is unchanged. */
int podres_decode(struct span message, struct podres_list *ret, struct err *e);

#endif
