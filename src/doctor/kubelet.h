/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_DOCTOR_KUBELET_H
#define UNIRAIL_DOCTOR_KUBELET_H

/* Devices that device plugins registered with the kubelet, and those allocated to pods, from the
 * kubelet's checkpoint. */

#include "base/file.h"
#include "wire/json/json.h"

struct kubelet_device {
	const char *id, *resource;
};

struct kubelet_devices {
	struct json_doc *doc;
	const struct json *registered; /* resource -> ids */
	struct kubelet_device *v;      /* registered devices, sorted by id */
	size_t n;
};

/* Reads the kubelet's checkpoint; returns false if there is no valid one below this root. */
bool kubelet_devices_read(const struct root *r, struct kubelet_devices *l);
void kubelet_devices_done(struct kubelet_devices *l);
#define auto_kubelet_devices __attribute__((cleanup(kubelet_devices_done)))

const struct kubelet_device *kubelet_find(const struct kubelet_devices *l, const char *id);
/* Returns the number of devices of a resource; -1: no device plugin serves it. */
int64_t kubelet_total(const struct kubelet_devices *l, const char *resource);
int64_t kubelet_used(const struct kubelet_devices *l, const char *resource);

#endif
