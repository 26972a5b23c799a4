/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_DEVICE_SERVE_HEALTH_H
#define UNIRAIL_DEVICE_SERVE_HEALTH_H

/*
 * Decides which devices are unhealthy, by these rules:
 *
 *  - a link that was up and goes down is unhealthy at once; it is healthy again after it has been up for
 *    HEALTH_STABLE_MS, twice as long after each further loss within HEALTH_FLAP_MS, HEALTH_STABLE_MAX_MS at most:
 *    a flapping link stays unhealthy
 *  - a link that was never up is unhealthy only if HEALTH_GRACE_MS have passed since the start and
 *    most links of its kind are up: a port that is not cabled anywhere is no fault
 *  - a PF whose uncorrectable PCIe errors rise is unhealthy at once, and healthy again when none has come for
 *    HEALTH_PCI_STABLE_MS. What was counted before the first reading, or starts from 0 after a reset, is no rise. Fatal and
 *    non-fatal ones count, unsupported requests do not: tools that probe a device cause them. The link and the errors are
 *    judged apart: recovery of one does not end the other
 *  - a PF for which the driver reports an error by devlink (a dead firmware: "fw_fatal") is unhealthy at once, and healthy
 *    again HEALTH_STABLE_MS after the recovery. An error of a port ("tx", "rx") is mostly recovered within milliseconds: it
 *    counts after HEALTH_RECOVERY_MS. Errors that cannot be recovered ("fw" of mlx5) do not count: the driver never takes
 *    them back
 *  - state that cannot be read changes nothing: an error of sysfs is not a lost device
 *  - a device that is in a pod (node_device.away) has the state of its PF's link
 *  - a device that is gone permanently is removed from the resource, not unhealthy
 *
 * A VF has the state of its PF, since its own link follows the administrator's "state auto".
 */

#include <stdint.h>

#include "base/buf.h"
#include "base/file.h"
#include "device/resource/node.h"

enum {
	HEALTH_STABLE_MS = 2000,
	HEALTH_STABLE_MAX_MS = 64 * 1000,
	HEALTH_FLAP_MS = 10 * 60 * 1000,
	HEALTH_GRACE_MS = 120 * 1000,
	HEALTH_PCI_STABLE_MS = 10 * 60 * 1000,
	HEALTH_RECOVERY_MS = 5000,
};

enum health_link { HEALTH_UNKNOWN, HEALTH_DOWN, HEALTH_UP };

/* State of devlink's health reporters, better ones first. UNKNOWN: no reporter, or it could not be read. */
enum health_report {
	HEALTH_REPORT_UNKNOWN,
	HEALTH_REPORT_OK,
	HEALTH_REPORT_PORT,
	HEALTH_REPORT_DEVICE,
};

/* The readings of each device, in the order of node->v. */
struct health_state {
	const enum health_link *links;
	const int64_t *pci_errors;
	const enum health_report *reports;
};

struct health;

/* `now`: monotonic ms at which the grace time begins. */
struct health *health_new(int64_t now);
void health_free(struct health *h);

/*
 * Reads the state of each PF's link, in the order of node->v: up if an RDMA port is ACTIVE, down if
 * none is; of a PF without RDMA ports the carrier of its netdev. HEALTH_UNKNOWN for a PF without
 * either, and for VFs.
 */
void health_read_links(const struct root *r, const struct node_devices *node,
		       enum health_link *ret);
/*
 * Reads the number of uncorrectable errors of each PF in its lifetime, in the order of node->v: aer_dev_fatal and
 * aer_dev_nonfatal of sysfs. -1 if kernel or platform do not count them, and for VFs.
 */
void health_read_pci_errors(const struct root *r, const struct node_devices *node, int64_t *ret);
/* Returns the sum of the counts in a file aer_dev_*, which has lines such as "TLP 2", without
 * UnsupReq and TOTAL_*; -1: no line has a count. */
int64_t health_parse_pci_errors(struct span text);
/*
 * Sets node->v[].unhealthy to static strings by the rules. Returns true if at least one has changed since the last
 * call.
 */
bool health_judge(struct health *h, struct node_devices *node, const struct health_state *state,
		  int64_t now);
/* Returns the time at which health_judge() may decide otherwise without an event; -1: never. */
int64_t health_due(const struct health *h);

#endif
