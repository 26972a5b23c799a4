/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KERN_SYS_CGROUP_H
#define UNIRAIL_KERN_SYS_CGROUP_H

/*
 * Control groups: those that the kubelet makes for pods, and the controller "rdma", which limits how many verbs objects the
 * processes of a group have on an RDMA device. The same with cgroup v1 and v2, and with the kubelet's drivers cgroupfs
 * ("kubepods/burstable/podUID") and systemd ("kubepods-burstable.slice/kubepods-burstable-podUID.slice").
 */

#include <stdint.h>

#include "base/file.h"

#define CGROUP_DIR "/sys/fs/cgroup"

enum { CGROUP_UID_MAX = 64 };

struct cgroup_pod {
	char uid[CGROUP_UID_MAX]; /* the Pod object's */
	char *path;		  /* absolute */
};

struct cgroup_pods {
	struct cgroup_pod *v; /* sorted by UID */
	size_t n;
};

/* The groups of pods below `dir`. -ENOENT: there is no such directory. */
int cgroup_pods_read(const struct root *r, const char *dir, struct cgroup_pods *ret, struct err *e);
const struct cgroup_pod *cgroup_pods_find(const struct cgroup_pods *p, const char *uid);
void cgroup_pods_done(struct cgroup_pods *p);
#define auto_cgroup_pods __attribute__((cleanup(cgroup_pods_done)))

/*
 * Where the groups of the controller "rdma" are: CGROUP_DIR (v2) or CGROUP_DIR "/rdma" (v1). -EOPNOTSUPP: the kernel does not
 * have it; the error says what to do.
 */
int cgroup_rdma_dir(const struct root *r, const char **ret, struct err *e);

enum { CGROUP_RDMA_MAX = INT32_MAX }; /* "max" */

struct cgroup_rdma {
	uint32_t handles, objects; /* hca_handle: open devices; hca_object: all other objects */
};

/*
 * The limits of a device in rdma.max of the group `path`. With v2 the controller is enabled for the group if it was not:
 * container runtimes and kubelets do so, unless they are older than the controller. -ENODEV: there is no such RDMA device.
 */
int cgroup_rdma_get(const struct root *r, const char *path, const char *device,
		    struct cgroup_rdma *ret, struct err *e);
/* What the processes of the group have now: rdma.current. Nothing is enabled for it: -ENOENT without the controller. */
int cgroup_rdma_usage(const struct root *r, const char *path, const char *device,
		      struct cgroup_rdma *ret, struct err *e);
int cgroup_rdma_set(const struct root *r, const char *path, const char *device,
		    const struct cgroup_rdma *limit, struct err *e);

#endif
