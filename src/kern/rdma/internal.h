/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KERN_RDMA_INTERNAL_H
#define UNIRAIL_KERN_RDMA_INTERNAL_H

/* Shared by the files of this directory. */

#include <infiniband/verbs.h>
#include <sys/types.h>

#include "kern/netlink/attr.h"
#include "kern/rdma/rdma_res.h"
#include "kern/rdma/verbs_dev.h"
#include "kern/rdma/verbs_qp.h"

/* --- functions for files that use RDMA netlink --- */

struct nl_msg *rdma_request(int cmd, int flags); /* cmd: RDMA_NLDEV_CMD_*, flags: NLM_F_* */
uint64_t rdma_get_u64(const struct nlattr *a);	 /* 0: the attribute is missing or short */

/* Appends the entries of a nested table of hardware counters (STAT_HWCOUNTERS). */
void rdma_read_counters(const struct nlattr *table, struct rdma_count **v, size_t *n);

/* --- functions for files that use libibverbs --- */

struct verbs_dev {
	struct ibv_context *ctx;
	char name[64];
};

/* Sets ret to the reason why ibv_open_device() failed; `code`: its negative errno. Returns the
 * negative errno of the reason. */
int verbs_explain_not_open(const struct ibv_device *dev, int code, char *ret, size_t size);
/* Reads the used entries of the GID tables of all ports into *ret, which the caller frees.
 * table_len: length of one port's table. Returns the number of entries, or -errno. */
ssize_t verbs_gid_table(struct ibv_context *ctx, int table_len, struct ibv_gid_entry **ret);
uint32_t verbs_mtu_bytes(enum ibv_mtu mtu); /* 0: unknown enum value */

struct verbs_qp {
	struct verbs_dev *dev;
	struct verbs_qp_conf conf;
	struct verbs_end peer;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	uint8_t *mem;
	uint32_t psn, reads, mtu;
	unsigned int events; /* number of events read from the channel and not acknowledged yet */
};

#endif
