/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_DOCTOR_WOULD_RUN_H
#define UNIRAIL_DOCTOR_WOULD_RUN_H

/*
 * Finds the problems that a pod would have on this host, or on the host of a snapshot, before the
 * pod is created: networks that do not exist, masters that the host does not have, MTUs, link types
 * and RDMA mode that do not fit, resources that no device plugin serves or of which too few devices
 * are free, pools without free addresses, locked memory, and a Node that the pod is not scheduled
 * to.
 *
 * `in` has the pod (or a workload with templates of pods), and the networks and pools that are
 * known. A network that is not in `in` is looked up among the CNI configurations of the host.
 */

#include "doctor/checks.h"
#include "doctor/objects.h"

/* Adds findings of the check "would-run". Returns the number of pods and pod templates in the
 * manifests. */
size_t would_run(struct doctor *d, const struct objects *in);

#endif
