/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KERN_PCI_FWCTL_H
#define UNIRAIL_KERN_PCI_FWCTL_H

/*
 * Firmware settings of mlx5 NICs by /dev/fwctl/fwctlN (Linux 6.15 with module mlx5_fwctl, or NVIDIA's driver). Works
 * without vendor tools and MST, also under kernel lockdown. Needs root.
 *
 * Structures and numbers: include/uapi/fwctl/fwctl.h and mlx5.h of Linux 6.15; commands and registers:
 * include/linux/mlx5/mlx5_ifc.h, drivers/net/ethernet/mellanox/mlx5/core/lib/nv_param.c, mstflint's mlxconfig_host.db.
 * A command that changes a setting has the scope CONFIGURATION, a command that reads one has the
 * scope DEBUG_READ_ONLY; neither scope taints the kernel.
 */

#include "base/file.h"

/* An open fwctl device. rpc executes the ioctl FWCTL_RPC; tests replace it. */
struct fwctl {
	int fd;
	/* Returns 0 or a negative errno. in and out: a command of the device and its response, 16 bytes or more. */
	int (*rpc)(struct fwctl *f, unsigned int scope, const void *in, size_t n_in, void *out,
		   size_t n_out);
	void *arg;
	char name[80]; /* for error messages: "0000:3b:00.0 (fwctl0)" */
};

/* -ENODEV (kind ERR_UNAVAILABLE): the PCI function has no fwctl device. Either the kernel is
 * older than Linux 6.15, the module mlx5_fwctl is not loaded, or the device is not an mlx5 NIC. */
int fwctl_open(struct fwctl *f, const struct root *r, const char *bdf, struct err *e);
void fwctl_close(struct fwctl *f);
#define auto_fwctl __attribute__((cleanup(fwctl_close)))

enum fwctl_link_type { FWCTL_LINK_IB = 1, FWCTL_LINK_ETH = 2 };
/* A setting has two values: the stored one, which applies from the next reset on, and the running one. */
enum fwctl_value { FWCTL_STORED = 0, FWCTL_RUNNING = 1 };

/* Reads LINK_TYPE_P1 or _P2; port: 1 or 2. -EOPNOTSUPP: the link type of the card is fixed, or it has no such port. */
int fwctl_link_type_get(struct fwctl *f, unsigned int port, enum fwctl_value which,
			enum fwctl_link_type *ret, struct err *e);
/* Changes only the two bits of the link type and reads them back (-EIO: they differ from `type`).
 * Writes nothing if `type` is already stored. The change applies after a firmware reset or a power
 * cycle. */
int fwctl_link_type_set(struct fwctl *f, unsigned int port, enum fwctl_link_type type,
			struct err *e);

enum fwctl_cong { FWCTL_CONG_RP = 1, FWCTL_CONG_NP = 2 };
/* Read and set whether ECN of RoCE is enabled for a priority (0..7) at the reaction point or the
 * notification point. A change applies at once. */
int fwctl_cong_get(struct fwctl *f, enum fwctl_cong which, unsigned int prio, bool *ret,
		   struct err *e);
int fwctl_cong_set(struct fwctl *f, enum fwctl_cong which, unsigned int prio, bool on,
		   struct err *e);

#endif
