/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_DEVICE_RESOURCE_SELECTOR_H
#define UNIRAIL_DEVICE_RESOURCE_SELECTOR_H

/* Decides whether a resource selects a device, and if not, which selector does not match. Pure. */

#include "device/resource/config.h"

enum { VERDICT_TEXT_MAX = 256 };

struct verdict {
	bool matches;
	/* the key of the first selector that does not match, such as "vendors"; "": the device
	 * matches, or the unmet condition is not a selector */
	const char *key;
	char text[VERDICT_TEXT_MAX]; /* "vendors requires 8086, the device has 15b3" */
};

/*
 * The conditions of the original are checked first: the device is of the resource's class and has a
 * driver (soft-RoCE needs neither). For resourceList, except for an SF: the node's default route
 * does not use the device, and the device is not a PF with VFs. For configList: the device has an
 * RDMA device with uverbs. Then the selectors in the original's order. If there are several
 * selector objects, the first one that matches counts: *which (may be NULL) is its index; if none
 * matches, the text is about the selector object of which the device meets the most conditions.
 */
void resource_consider(const struct resource_conf *c, const struct node_device *d,
		       struct verdict *v, size_t *which);

/* Sets *named to whether an item such as "pf0" or "pf0#0-3,5" names this PF, and *in to whether it also contains this VF
 * number ("pf0": any). Returns 0, or -EINVAL: invalid syntax. */
int select_range(const char *item, const char *name, int64_t index, bool *named, bool *in);

#endif
