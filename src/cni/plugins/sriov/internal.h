/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_PLUGINS_SRIOV_INTERNAL_H
#define UNIRAIL_CNI_PLUGINS_SRIOV_INTERNAL_H

/* Shared by sriov.c, conf.c and restore.c. */

#include "cni/attach/attach.h"
#include "cni/device/vf_rail.h"
#include "cni/device/vf_restore.h"

static inline bool is_sriov(const struct rail *rail)
{
	return rail->kind == &sriov_kind;
}

/* On failure sets only ipam and device_id in *ret, or nothing if a key has the wrong type. */
int sriov_read(const struct rail_source *s, struct rail_conf *ret, struct err *e);

/*
 * Call with the VF's lock. Restores the VF, then removes its files. Returns 1 if the VF is not
 * completely restored (vf_restore()); the files then stay, as after an error. If a->pod is NULL,
 * the namespace in the record is used. flags: VF_RESTORE_*.
 */
int sriov_release(struct attach *a, const struct vf_record *r, unsigned int flags, struct err *e);
int sriov_del(struct attach *a, const struct rail *rail, struct err *e);
int sriov_gc(struct attach *a, const struct rail *rail, struct err *e);

#endif
