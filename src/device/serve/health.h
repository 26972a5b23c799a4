/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_DEVICE_SERVE_HEALTH_H
#define UNIRAIL_DEVICE_SERVE_HEALTH_H

/*
 * Decides which devices are unhealthy, by these rules:
 *
 *  - a PF whose link was up and goes down is unhealthy at once. It is healthy again after the link
 *    has been up for HEALTH_STABLE_MS; this time doubles with each loss within HEALTH_FLAP_MS of
 *    the previous one, up to HEALTH_STABLE_MAX_MS, so that a PF with a flapping link stays
 *    unhealthy
 *  - a PF whose link was never up is unhealthy only if HEALTH_GRACE_MS have passed since the start
 *    and most links of its kind are up: on nodes without cables at these ports it is no fault
 *  - a PF whose count of uncorrectable PCIe errors rises is unhealthy at once, and healthy again
 *    when the count has not risen for HEALTH_PCI_STABLE_MS. Errors counted before the first
 *    reading, and a count that restarts from 0 after a reset, are no rise. Fatal and non-fatal
 *    errors count; unsupported requests do not, since tools that probe a device cause them. Link
 *    and PCIe errors are judged separately: if one recovers, the fault of the other stays
 *  - a PF for which the driver reports an error by devlink (a dead firmware: "fw_fatal") is
 *    unhealthy at once, and healthy again HEALTH_STABLE_MS after the recovery. An error of a port
 *    ("tx", "rx"), which the driver mostly recovers within milliseconds, counts only after
 *    HEALTH_RECOVERY_MS. Errors of reporters without recovery ("fw" of mlx5) do not count: the
 *    driver never clears them
 *  - state that cannot be read changes nothing: an error of sysfs is not a lost device
 *  - a VF or SF, also one in a pod (node_device.away), has the health of its PF: its own link
 *    follows the administrator's "state auto"
 *  - a device that the node no longer has is removed from its resource instead of being unhealthy
 *
 * PF stands here for every device that has no PF itself.
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

/* State of a device's devlink health reporters, in ascending severity. UNKNOWN: the device has
 * no reporter, or the reporters could not be read. */
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
 * either, and for VFs and SFs.
 */
void health_read_links(const struct root *r, const struct node_devices *node,
		       enum health_link *ret);
/* Reads each PF's count of uncorrectable PCIe errors, in the order of node->v: the sum of
 * aer_dev_fatal and aer_dev_nonfatal in sysfs. -1 if kernel or platform do not count them, and
 * for VFs and SFs. */
void health_read_pci_errors(const struct root *r, const struct node_devices *node, int64_t *ret);
/* Returns the sum of the counts in a file aer_dev_*, whose lines are such as "TLP 2"; the lines
 * UnsupReq and TOTAL_* are not added. -1: no line has a count. */
int64_t health_parse_pci_errors(struct span text);
/*
 * Sets node->v[].unhealthy to static strings by the rules. Returns true if at least one has changed since the last
 * call.
 */
bool health_judge(struct health *h, struct node_devices *node, const struct health_state *state,
		  int64_t now);
/* Returns the time (monotonic ms) at which the result of health_judge() may change even without
 * an event, so that it must be called again; -1: never. */
int64_t health_due(const struct health *h);

#endif
