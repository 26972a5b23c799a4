/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_DEVICE_VF_CLAIM_H
#define UNIRAIL_CNI_DEVICE_VF_CLAIM_H

/*
 * Who has a VF, by whichever plugin: the originals' files, so that programs keep off each other's.
 *
 *	/var/lib/cni/sriov/pci/vf_lock/<pci>.lock	flock, while a program works on the VF
 *	/var/lib/cni/sriov/pci/<pci>			the namespace of the pod that has it (CNI_NETNS)
 *
 * and the records of sriov and ib-sriov (cni/device/vf_record.h). A pod's locks are taken in the order of the addresses, so that two pods cannot wait for each
 * other. DEL takes one lock at a time and gives it back before the next.
 */

#include "base/file.h"
#include "cni/device/vf_record.h"

enum { VF_LOCK_MS = 60000 };

/* fds[i] is for bdfs[i]; on failure none is held. The same address twice: -EEXIST (ERR_CONF), with
 * nothing taken. Time up: -EWOULDBLOCK (ERR_AGAIN), "time out while waiting to acquire exclusive
 * lock on [...]". */
int vf_lock(const struct root *root, const char *const *bdfs, size_t n, int *fds, struct err *e);

/* The namespace in the allocation file; free() it. -ENOENT: nobody has the VF. */
int vf_owner_read(const struct root *root, const char *bdf, char **netns, struct err *e);
int vf_owner_write(const struct root *root, const char *bdf, const char *netns, struct err *e);
int vf_owner_remove(const struct root *root, const char *bdf,
		    struct err *e); /* absent is success */
/* Whether a namespace can still be opened; what cannot be told counts as there. */
bool vf_owner_lives(const char *netns);

/* The record of a VF in `store`, or in any (NULL): the one for `netns` where one says so, else any.
 * false: none. */
bool vf_record_of(const struct root *root, const struct vf_store *store, const char *bdf,
		  const char *netns, struct vf_record *ret);
/* Whether another attachment than this one has it, of this pod or of another. */
bool vf_record_is_others(const struct root *root, const char *bdf, const char *container,
			 const char *ifname);
/* The namespace of the living pod that has the VF, by the allocation file or a record; free() it.
 * NULL: none that is known of. */
char *vf_holder(const struct root *root, const char *bdf);
/* "pci address %s is already allocated: pod 'team/p' ... has it"; -EBUSY, kind ERR_AGAIN. */
int vf_in_use(const struct root *root, const char *bdf, const char *netns, struct err *e);

#endif
