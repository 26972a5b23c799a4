/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_PLUGINS_SRIOV_INTERNAL_H
#define UNIRAIL_CNI_PLUGINS_SRIOV_INTERNAL_H

/* Between the sriov*.c files. */

#include "cni/attach/attach.h"
#include "cni/device/vf_rail.h"
#include "cni/device/vf_restore.h"

static inline bool is_sriov(const struct rail *rail)
{
	return rail->kind == &sriov_kind;
}

/* On failure *ret contains only conf.ipam and the device. */
int sriov_read(const struct rail_source *s, struct rail_conf *ret, struct err *e);

/* The VF's lock is held: back as it was, then without files. 1: not all of it is (vf_restore()),
 * and the files stay. pod NULL: the record's namespace is tried. flags: VF_RESTORE_*. */
int sriov_release(struct attach *a, const struct vf_record *r, unsigned int flags, struct err *e);
int sriov_del(struct attach *a, const struct rail *rail, struct err *e);
int sriov_gc(struct attach *a, const struct rail *rail, struct err *e);

#endif
