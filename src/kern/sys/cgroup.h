/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KERN_SYS_CGROUP_H
#define UNIRAIL_KERN_SYS_CGROUP_H

/*
 * Control groups: those that the kubelet creates for pods, and the controller "rdma", which limits the number of verbs
 * objects that the processes of a group have on an RDMA device. Supports cgroup v1 and v2, and the kubelet's drivers
 * cgroupfs ("kubepods/burstable/podUID") and systemd ("kubepods-burstable.slice/kubepods-burstable-podUID.slice").
 */

#include <stdint.h>

#include "base/file.h"

#define CGROUP_DIR "/sys/fs/cgroup"

enum { CGROUP_UID_MAX = 64 };

struct cgroup_pod {
	char uid[CGROUP_UID_MAX]; /* UID of the Pod object */
	char *path;		  /* absolute */
};

struct cgroup_pods {
	struct cgroup_pod *v; /* sorted by UID */
	size_t n;
};

/* Lists the groups of pods below `dir`. -ENOENT: the directory does not exist. */
int cgroup_pods_read(const struct root *r, const char *dir, struct cgroup_pods *ret, struct err *e);
const struct cgroup_pod *cgroup_pods_find(const struct cgroup_pods *p, const char *uid);
void cgroup_pods_done(struct cgroup_pods *p);
#define auto_cgroup_pods __attribute__((cleanup(cgroup_pods_done)))

/*
 * Returns the directory of the controller "rdma": CGROUP_DIR (v2) or CGROUP_DIR "/rdma" (v1). -EOPNOTSUPP: the kernel
 * does not have the controller, or it is not mounted (v1); e has the remedy.
 */
int cgroup_rdma_dir(const struct root *r, const char **ret, struct err *e);

enum { CGROUP_RDMA_MAX = INT32_MAX }; /* no limit: "max" in rdma.max */

struct cgroup_rdma {
	/* handles: open devices (hca_handle); objects: all other objects (hca_object) */
	uint32_t handles, objects;
};

/*
 * cgroup_rdma_get() reads and cgroup_rdma_set() writes the limits of an RDMA device in rdma.max of
 * the group whose directory is `path`. With cgroup v2, cgroup_rdma_get() first enables the
 * controller for the group if rdma.max does not exist, because a kubelet or container runtime that
 * does not know the controller has not enabled it. -ENODEV: there is no such RDMA device.
 */
int cgroup_rdma_get(const struct root *r, const char *path, const char *device,
		    struct cgroup_rdma *ret, struct err *e);
/* Returns the present usage of the group's processes (rdma.current). -ENOENT: the controller is not
 * enabled for the group; this call does not enable it. */
int cgroup_rdma_usage(const struct root *r, const char *path, const char *device,
		      struct cgroup_rdma *ret, struct err *e);
int cgroup_rdma_set(const struct root *r, const char *path, const char *device,
		    const struct cgroup_rdma *limit, struct err *e);

#endif
