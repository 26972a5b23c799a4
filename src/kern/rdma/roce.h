/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KERN_RDMA_ROCE_H
#define UNIRAIL_KERN_RDMA_ROCE_H

/*
 * Congestion control and class of RoCE traffic, where the kernel has them:
 *
 *				NVIDIA's driver (OFED)				the kernel's own driver
 * ECN by priority		/sys/class/net/IF/ecn/roce_{np,rp}/enable/P	firmware: fwctl (kern/pci/fwctl.h)
 * DSCP and priority of CNPs	/sys/class/net/IF/ecn/roce_np/cnp_*		debugfs mlx5/BDF/cc_params/np_cnp_*
 * traffic class of all QPs	/sys/class/infiniband/DEV/tc/1/traffic_class	none: the application's (NCCL_IB_TC)
 * RoCE mode and ToS of RDMA-CM	configfs rdma_cm/DEV/ports/P (both)
 */

#include "base/file.h"

enum { ROCE_PATH_MAX = 256, ROCE_ECN_PRIOS = 8, ROCE_CM_MODE_MAX = 24 };

enum roce_param {
	ROCE_ECN_NP, /* notification point: sends CNPs for marked packets; by priority */
	ROCE_ECN_RP, /* reaction point: slows down at a CNP; by priority */
	ROCE_CNP_DSCP,
	ROCE_CNP_PRIO,
	ROCE_TRAFFIC_CLASS,
	ROCE_PARAMS,
};

/* A port: names may be "" (no netdev, no RDMA device, no PCI address), which then has no file. */
struct roce_port {
	const char *netdev, *device, *bdf;
};

/* The file of a parameter; prio counts for ECN only. False: this driver has none. */
bool roce_param_path(const struct root *r, const struct roce_port *port, enum roce_param p,
		     unsigned int prio, char ret[static ROCE_PATH_MAX]);
/* Its value: a number; "Global tclass=106" is 106, no value -1. -ENOENT: no file. */
int roce_param_read(const struct root *r, const char *path, int *ret, struct err *e);
/* Whether NVIDIA's driver serves this netdev: it has the ECN files. */
bool roce_is_ofed(const struct root *r, const char *netdev);

/*
 * Defaults of RDMA-CM connections of a port, by configfs (Documentation/ABI/testing/configfs-rdma_cm).
 * They are kept with the device when the directory is removed again, which these do if they made it.
 */
struct roce_cm {
	char mode[ROCE_CM_MODE_MAX]; /* "IB/RoCE v1", "RoCE v2" */
	int tos;		     /* 0..255; -1: kernels before 4.11 */
};
/* -EOPNOTSUPP (kind ERR_UNAVAILABLE): configfs is not mounted or module rdma_cm is not loaded.
 * `make`: may create the directory; otherwise -ENOENT without it (a recorded host). */
int roce_cm_read(const struct root *r, const char *device, unsigned int port, bool make,
		 struct roce_cm *ret, struct err *e);
/* mode "" and tos -1 are left as they are. */
int roce_cm_set(const struct root *r, const char *device, unsigned int port,
		const struct roce_cm *v, struct err *e);

#endif
