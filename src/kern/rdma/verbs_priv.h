/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KERN_RDMA_VERBS_PRIV_H
#define UNIRAIL_KERN_RDMA_VERBS_PRIV_H

/* What the files that call libibverbs share. */

#include <sys/types.h>

#include <infiniband/verbs.h>

#include "kern/rdma/verbs_dev.h"

struct verbs_dev {
	struct ibv_context *ctx;
	char name[64];
};

/* Words for ibv_open_device()'s failure, whose errno was `code`; the negative errno that it was. */
int verbs_why_not_open(const struct ibv_device *dev, int code, char *ret, size_t size);
/* The device's GID table, entries in use of all ports; free() it. Their number, or -errno. */
ssize_t verbs_gid_table(struct ibv_context *ctx, int table_len, struct ibv_gid_entry **ret);
uint32_t verbs_mtu_bytes(enum ibv_mtu mtu); /* 0: no MTU that we know */
enum ibv_mtu verbs_mtu_of(uint32_t bytes);  /* the largest that fits; below 256: IBV_MTU_256 */

#endif
