/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_DEVICE_PODRES_H
#define UNIRAIL_DEVICE_PODRES_H

/* Devices allocated to each pod, as reported by the kubelet (PodResources v1). */

#include "device/podres_pb.h"

#define PODRES_SOCKET "/var/lib/kubelet/pod-resources/kubelet.sock"

enum { PODRES_TIMEOUT_MS = 5000, PODRES_TIMEOUT_MAX_MS = 600000 };

/*
 * Requests the list from the kubelet's socket. The result has one podres_devices for each resource
 * of a container; release it with podres_done().
 */
int podres_get(const char *socket, int timeout_ms, struct podres_list *ret, struct err *e);

/*
 * Merges the entries of the same resource into one: ids in the order received, each NUMA node once.
 */
void podres_merge(struct podres_container *c);

#endif
