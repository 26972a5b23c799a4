/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_DEVICE_PODRES_H
#define UNIRAIL_DEVICE_PODRES_H

/* Which pod holds which device, as the kubelet knows it (PodResources v1). */

#include "device/podres_pb.h"

#define PODRES_SOCKET "/var/lib/kubelet/pod-resources/kubelet.sock"

enum { PODRES_TIMEOUT_MS = 5000, PODRES_TIMEOUT_MAX_MS = 600000 };

/* Asks the kubelet. One podres_devices a resource in each container; podres_done() ends it. */
int podres_get(const char *socket, int timeout_ms, struct podres_list *ret, struct err *e);

/* Makes one entry of several for the same resource: ids in the order they came, each node once. */
void podres_merge(struct podres_container *c);

#endif
