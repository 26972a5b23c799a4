/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_DEVICE_VF_STORES_H
#define UNIRAIL_CNI_DEVICE_VF_STORES_H

/* The record stores of sriov and ib-sriov; parse() reads files of the original plugins, too. */

#include "cni/device/vf_record.h"

extern const struct vf_store sriov_store, ib_sriov_store;

#endif
