/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CLI_DEVICE_H
#define UNIRAIL_CLI_DEVICE_H

/* `unirail device list`. */

#include <stdio.h>

#include "device/inventory.h"

struct json;

/* A PCI function, and the pod that uses it. */
struct device_row {
	const struct inventory_function *f;
	char *pod;   /* "namespace/name" in the record of the attachment; NULL: no record */
	char *netns; /* network namespace of the running pod; NULL: no pod is known */
	const char *unhealthy; /* reason from the agent; "": healthy; NULL: not known */
};

/*
 * Sets the health of the rows' devices from `answer`, the agent's response to GET
 * /v1/unirail/devices; strings are borrowed from it. The health of a device that the response does
 * not name, or whose entry is invalid, stays unknown. Takes O(n log n) time.
 */
void device_rows_health(struct device_row *v, size_t n, const struct json *answer);

/*
 * One row per function (here without the columns NUMA and MTU); VF SETTINGS has, for a PF, its
 * eswitch mode; for a VF, its representor and the settings that differ from the driver's defaults:
 *
 * 	FUNCTION      ROLE     DRIVER     NETDEV    LINK STATE  RDMA DEVICE    VF SETTINGS      POD
 * 	0000:3b:00.0  PF 8/16  mlx5_core  ens1f0    up          mlx5_0 ACTIVE  switchdev        -
 * 	0000:3b:00.2  VF 0     mlx5_core  ens1f0v0  up          mlx5_2 ACTIVE  vlan 7 trust on  -
 *
 * The column HEALTH (JSON: "health" and "healthReason") exists only if the health of at least one
 * device is known.
 */
void device_show_text(const struct device_row *v, size_t n, FILE *f);
void device_show_json(const struct device_row *v, size_t n, struct buf *b);

#endif
