/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KERN_PCI_FWCTL_H
#define UNIRAIL_KERN_PCI_FWCTL_H

/*
 * Firmware settings of mlx5 NICs by /dev/fwctl/fwctlN (Linux 6.15 with module mlx5_fwctl, or NVIDIA's
 * driver): no vendor tool, no MST, also with kernel lockdown. Needs root.
 *
 * Structures and numbers: include/uapi/fwctl/fwctl.h and mlx5.h of Linux 6.15; commands and registers:
 * include/linux/mlx5/mlx5_ifc.h, drivers/net/ethernet/mellanox/mlx5/core/lib/nv_param.c, mstflint's
 * mlxconfig_host.db. The kernel accepts a changing command of the scope CONFIGURATION, a reading one of
 * DEBUG_READ_ONLY; neither taints it.
 */

#include "base/file.h"

/* One conversation. rpc is the ioctl FWCTL_RPC; a test puts a device of its own here. */
struct fwctl {
	int fd;
	/* 0, or a negative errno. in and out: commands of the device, 16 bytes or more. */
	int (*rpc)(struct fwctl *f, unsigned int scope, const void *in, size_t n_in, void *out,
		   size_t n_out);
	void *arg;
	char name[80]; /* "0000:3b:00.0 (fwctl0)" */
};

/* -ENODEV (kind ERR_UNAVAILABLE): the function has no fwctl device: older kernel, module missing. */
int fwctl_open(struct fwctl *f, const struct root *r, const char *bdf, struct err *e);
void fwctl_close(struct fwctl *f);
#define auto_fwctl __attribute__((cleanup(fwctl_close)))

enum fwctl_link_type { FWCTL_LINK_IB = 1, FWCTL_LINK_ETH = 2 };
/* Which of the firmware's values: stored (applies from the next reset), or the one in use. */
enum fwctl_value { FWCTL_STORED = 0, FWCTL_RUNNING = 1 };

/* LINK_TYPE_P1 and _P2; port 1 or 2. -EOPNOTSUPP: the card has only one type, or no such port. */
int fwctl_link_type_get(struct fwctl *f, unsigned int port, enum fwctl_value which,
			enum fwctl_link_type *ret, struct err *e);
/* Changes the two bits and keeps the others of the item; reads back (-EIO if it is not as written).
 * In use after a firmware reset or a power cycle. Equal already: nothing is written. */
int fwctl_link_type_set(struct fwctl *f, unsigned int port, enum fwctl_link_type type,
			struct err *e);

enum fwctl_cong { FWCTL_CONG_RP = 1, FWCTL_CONG_NP = 2 };
/* ECN of RoCE by priority (0..7): reaction point, notification point. In use at once. */
int fwctl_cong_get(struct fwctl *f, enum fwctl_cong which, unsigned int prio, bool *ret,
		   struct err *e);
int fwctl_cong_set(struct fwctl *f, enum fwctl_cong which, unsigned int prio, bool on,
		   struct err *e);

#endif
