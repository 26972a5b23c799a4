/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_DEVICE_RESOURCE_SELECTOR_H
#define UNIRAIL_DEVICE_RESOURCE_SELECTOR_H

/* Whether a device is one that a resource wants, and if not, which selector it fails. Pure. */

#include "device/resource/config.h"

enum { VERDICT_TEXT_MAX = 256 };

struct verdict {
	bool matches;
	const char *key; /* the first selector that it fails, "vendors"; "" another condition */
	char text[VERDICT_TEXT_MAX]; /* "vendors wants 8086, the device has 15b3" */
};

/*
 * Conditions of the original come first: a driver; for resourceList no default route on its netdev, and no VFs that exist
 * (a PF); for configList an RDMA device with uverbs. Then the selectors in the original's order. Of several selector
 * objects the first that matches counts: *which (may be NULL) is its number; if none matches the text is of the one that
 * came furthest.
 */
void resource_consider(const struct resource_conf *c, const struct node_device *d,
		       struct verdict *v, size_t *which);

/* "pf0", "pf0#0-3,5": whether the item names this PF, and then whether it has this number. -EINVAL: no such grammar. */
int select_range(const char *item, const char *name, int64_t index, bool *named, bool *in);

#endif
