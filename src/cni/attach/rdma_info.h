/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_ATTACH_RDMA_INFO_H
#define UNIRAIL_CNI_ATTACH_RDMA_INFO_H

/*
 * Informs the pod's processes which RDMA device, port and GID index an attachment has. With RDMA
 * devices shared by pods, the index of a GID differs from pod to pod (kern/rdma/gid.h). The
 * information is a member of the interface in the result, ignored by other readers:
 *
 *	"rdma": {"device": "mlx5_0", "port": 1, "gidIndex": 5, "gid": "::ffff:172.16.1.20"}
 *
 * and is written to files that a pod can mount (see below). On InfiniBand the index is 0. An
 * attachment without an RDMA device has neither the member nor an entry in the files; on a node
 * without RDMA the lookup only checks that /sys/class/infiniband does not exist.
 */

#include "cni/attach/attach.h"

enum { GIDS_LIMIT_MS = 300 };

/*
 * Sets rail->rdma of all attachments, once their addresses are set. The kernel adds GIDs shortly
 * after addresses, so this function waits once for all GIDs, at most GIDS_LIMIT_MS. A GID
 * that is still missing is logged; it is not an error, since only RDMA needs it. An RDMA device
 * that stays on the node while the subsystem is in exclusive mode is logged with the remedy, unless
 * a plugin that runs as its own process moved the NIC.
 */
void rdma_info_wait(struct attach *a);
/* STATUS of a link that is created on rail->master: warns if the master has an RDMA device that
 * no pod can use because the subsystem is in exclusive mode. */
void rdma_info_status(struct nl_wire *host, const struct root *root, struct rail *rail);
/* Adds rail->rdma to the attachment's interface in the result. */
void rdma_info_add(const struct rail *rail, struct cni_result *r);

/* --- the pod's files --- */

/*
 * /run/unirail/pods/<K8S_POD_UID, else the container id>/
 *
 *	rails.json	{"version": 1, "rails": [{"ifname", "device", "port", "gidIndex", "gid",
 *			 "network", "containerID"}]}
 *	rails.env	NCCL_IB_HCA==mlx5_0:1,mlx5_1:1	(the second "=" is NCCL's exact match)
 *			NCCL_IB_GID_INDEX=5		(if equal on all attachments)
 *			UNIRAIL_RDMA_DEVICE_net1=mlx5_0:1
 *			UNIRAIL_GID_INDEX_net1=5
 *
 * Mode 0644 in directories of mode 0755, replaced atomically. In variable names every character
 * except letters, digits and '_' becomes '_'. A pod mounts the directory by hostPath and
 * subPathExpr: $(POD_UID).
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

/* --- contents of the files (pure) --- */
void rails_print_json(const struct rails_list *l, struct buf *b);
void rails_print_env(const struct rails_list *l, struct buf *b);
/* Returns whether an entry before v[i] has the same device and port. */
bool rails_is_repeated(const struct rails_list *l, size_t i);
/* Parses rails.json. -EINVAL: malformed, or written by a later version. */
int rails_parse(struct span text, struct rails_list *ret, struct err *e);
/* Adds an interface's entry; replaces an existing entry of the interface. */
void rails_put(struct rails_list *l, const struct rails_entry *e);
/* Removes the entries of a container's interface; ifname NULL: all entries of the container. */
void rails_drop(struct rails_list *l, const char *container, const char *ifname);

/* --- updates of the files --- */
/* Adds the attachments that have an RDMA device. A failure is only logged. */
void rails_write(const struct attach *a);
/* DEL: removes the entries of these interfaces; if no entry remains, or the file is unreadable,
 * removes the directory. */
void rails_forget(const struct cni_call *c, const char *const *ifnames, size_t n);
/*
 * GC: removes entries of the call's network that are not among the valid attachments of the call.
 */
void rails_gc(const struct cni_call *c);

#endif
