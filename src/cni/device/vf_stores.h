/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_DEVICE_VF_STORES_H
#define UNIRAIL_CNI_DEVICE_VF_STORES_H

/* The record stores of all plugins that move VFs; each reads its original plugin's file. */

#include "cni/device/vf_record.h"

extern const struct vf_store sriov_store, ib_sriov_store;

#endif
