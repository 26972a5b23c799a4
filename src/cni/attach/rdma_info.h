/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_ATTACH_RDMA_INFO_H
#define UNIRAIL_CNI_ATTACH_RDMA_INFO_H

/*
 * Which RDMA device, port and GID index a rail has, for what runs in the pod: with RDMA devices
 * shared by pods, the index of a rail's GID differs from pod to pod (kern/rdma/gid.h). It is told in the
 * result, as a member of the interface that other readers pass over:
 *
 *	"rdma": {"device": "mlx5_0", "port": 1, "gidIndex": 5, "gid": "::ffff:172.16.1.20"}
 *
 * and in files that a pod can mount (below). On InfiniBand the index is 0. Rails without an RDMA
 * device below have none of it, and nodes without RDMA cost one access().
 */

#include "cni/attach/attach.h"

enum { GIDS_LIMIT_MS = 300 };

/*
 * Sets rail->rdma of all rails, when their addresses are there. The kernel adds GIDs a little later
 * than addresses: one wait for all of them, GIDS_LIMIT_MS at most. What is not found by then is
 * logged: RDMA on that rail needs it, everything else works. So is an RDMA device that stays on the
 * node while pods do not share those, with what to do about it.
 */
void attach_gids(struct attach *a);
/* STATUS of a rail that is made on rail->master: a warning when the master has an RDMA device that
 * no pod can use, since the subsystem is in exclusive mode. */
void attach_gids_status(struct nl_wire *host, const struct root *root, struct rail *rail);
/* Into a result that has the rail's interface. */
void attach_put_rdma(const struct rail *rail, struct cni_result *r);

/* ---- the pod's files: rdma_info.c, rdma_info.c ---- */

/*
 * /run/unirail/pods/<K8S_POD_UID, else the container id>/
 *
 *	rails.json	{"version": 1, "rails": [{"ifname", "device", "port", "gidIndex", "gid",
 *			 "network", "containerID"}]}
 *	rails.env	NCCL_IB_HCA==mlx5_0:1,mlx5_1:1	(NCCL's "=": these names exactly)
 *			NCCL_IB_GID_INDEX=5		(when it is the same on all rails)
 *			UNIRAIL_RDMA_DEVICE_net1=mlx5_0:1
 *			UNIRAIL_GID_INDEX_net1=5
 *
 * 0644 in folders of 0755, replaced as a whole. In names of variables, what is no letter, digit or
 * '_' is '_'. A pod mounts the folder by hostPath and subPathExpr: $(POD_UID).
 */
#define RAILS_DIR "/run/unirail/pods"

enum { RAILS_VERSION = 1, RAILS_TEXT_MAX = 256 << 10 };

struct rails_entry {
	char ifname[LINK_NAME_MAX];
	struct cni_rdma rdma;
	char network[128], container[256];
};

struct rails_list {
	struct rails_entry *v;
	size_t n;
};

void rails_list_done(struct rails_list *l);
#define auto_rails __attribute__((cleanup(rails_list_done)))

/* --- pure --- */
void rails_print_json(const struct rails_list *l, struct buf *b);
void rails_print_env(const struct rails_list *l, struct buf *b);
/* -EINVAL: not such a file, or a later version's. */
int rails_parse(struct span text, struct rails_list *ret, struct err *e);
/* The entry of an interface, a new one replaces the old. */
void rails_put(struct rails_list *l, const struct rails_entry *e);
/* Those of the container with this interface; ifname NULL: all of its. */
void rails_drop_at(struct rails_list *l, size_t i);
void rails_drop(struct rails_list *l, const char *container, const char *ifname);

/* --- files --- */
/* Adds the rails that have an RDMA device. Failing is logged: the pod works without. */
void rails_write(const struct attach *a);
/* DEL: takes the call's interfaces out; the last one takes the folder along. */
void rails_forget(const struct cni_call *c, const char *const *ifnames, size_t n);
/* GC: entries of the call's network that are not among its valid attachments. */
void rails_gc(const struct cni_call *c);

#endif
