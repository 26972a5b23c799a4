/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KERN_RDMA_RDMA_PRIV_H
#define UNIRAIL_KERN_RDMA_RDMA_PRIV_H

/* What the files about RDMA netlink share. */

#include "kern/netlink/attr.h"

struct nl_msg *rdma_request(int cmd, int flags); /* RDMA_NLDEV_CMD_*, NLM_F_* */
uint64_t rdma_get_u64(const struct nlattr *a);	 /* 0 when missing or short */

#endif
