/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_DEVICE_VF_STORES_H
#define UNIRAIL_CNI_DEVICE_VF_STORES_H

/* The records of all plugins that move VFs: each reads the original's file of its plugin. */

#include "cni/device/vf_record.h"

extern const struct vf_store sriov_store, ib_sriov_store;

#endif
