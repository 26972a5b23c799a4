/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_DEVICE_VF_CLAIM_H
#define UNIRAIL_CNI_DEVICE_VF_CLAIM_H

/*
 * Ownership of VFs across plugins, in the original plugins' files, so that different programs do
 * not use the same VF.
 *
 *	/var/lib/cni/sriov/pci/vf_lock/<pci>.lock	flock, held while a program changes the VF
 *	/var/lib/cni/sriov/pci/<pci>			namespace of the owning pod (CNI_NETNS)
 *
 * and the records of sriov and ib-sriov (cni/device/vf_record.h). A pod's locks are taken in the
 * order of the addresses, so that two pods cannot deadlock. DEL takes one lock at a time and
 * releases it before the next.
 */

#include "base/file.h"
#include "cni/device/vf_record.h"

enum { VF_LOCK_MS = 60000 };

/* Locks all VFs; fds[i] is the lock of bdfs[i]. On failure no lock is held. -EEXIST (ERR_CONF): the
 * list has an address twice. -EWOULDBLOCK (ERR_AGAIN): timeout, "time out while
 * waiting to acquire exclusive lock on [...]". */
int vf_lock(const struct root *root, const char *const *bdfs, size_t n, int *fds, struct err *e);

/* Reads the namespace of the allocation file; the caller frees it. -ENOENT: the VF has no owner. */
int vf_owner_read(const struct root *root, const char *bdf, char **netns, struct err *e);
int vf_owner_write(const struct root *root, const char *bdf, const char *netns, struct err *e);
int vf_owner_remove(const struct root *root, const char *bdf,
		    struct err *e); /* removes the allocation file; a missing file is success */
/* Returns whether a namespace can still be opened; true if this cannot be determined. */
bool vf_owner_lives(const char *netns);

/* Finds a record of the VF in `store` (NULL: in all stores): the one of namespace `netns` if there
 * is one, otherwise any. Returns false if the VF has no record. */
bool vf_record_of(const struct root *root, const struct vf_store *store, const char *bdf,
		  const char *netns, struct vf_record *ret);
/* Returns whether another attachment, of this or another pod, has a record of the VF. */
bool vf_record_is_others(const struct root *root, const char *bdf, const char *container,
			 const char *ifname);
/* Returns the namespace of the live pod that owns the VF, by allocation file or record; the caller
 * frees it. NULL: no owner known. */
char *vf_owner(const struct root *root, const char *bdf);
/* Sets the error "pci address ... is already allocated: another pod has the VF (...)", which names
 * the pod of the record, kind ERR_AGAIN; returns -EBUSY. */
int vf_in_use(const struct root *root, const char *bdf, const char *netns, struct err *e);

#endif
