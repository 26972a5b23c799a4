/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KERN_RDMA_ROCE_H
#define UNIRAIL_KERN_RDMA_ROCE_H

/*
 * Congestion control and traffic class of RoCE, and the file of each setting:
 *
 *				NVIDIA's driver (OFED)				the kernel's own driver
 * ECN by priority		/sys/class/net/IF/ecn/roce_{np,rp}/enable/P	firmware: fwctl (kern/pci/fwctl.h)
 * DSCP and priority of CNPs	/sys/class/net/IF/ecn/roce_np/cnp_*		debugfs mlx5/BDF/cc_params/np_cnp_*
 * traffic class of all QPs	/sys/class/infiniband/DEV/tc/1/traffic_class	none: the application sets it (NCCL_IB_TC)
 * RoCE mode and ToS of RDMA-CM	configfs rdma_cm/DEV/ports/PORT (both drivers)
 */

#include "base/file.h"

enum { ROCE_PATH_MAX = 256, ROCE_CM_MODE_MAX = 24 };

enum roce_param {
	ROCE_ECN_NP, /* notification point: sends CNPs for marked packets; one value per priority */
	/* reaction point: reduces its rate when it receives a CNP; one value per priority */
	ROCE_ECN_RP,
	ROCE_CNP_DSCP,
	ROCE_CNP_PRIO,
	ROCE_TRAFFIC_CLASS,
	ROCE_PARAMS,
};

/* A port of a NIC. A name is "" if the port has none; roce_param_path() then finds no file below
 * that name. */
struct roce_port {
	const char *netdev, *device, *bdf;
};

/* Returns the file of a parameter; prio is used for ECN only. False: the port has no file for
 * the parameter. */
bool roce_param_path(const struct root *r, const struct roce_port *port, enum roce_param p,
		     unsigned int prio, char ret[static ROCE_PATH_MAX]);
/* Reads the number in the file; "Global tclass=106" is 106, an empty file -1. -ENOENT: no file. */
int roce_param_read(const struct root *r, const char *path, int *ret, struct err *e);

/*
 * Defaults of RDMA-CM connections of a port, by configfs
 * (Documentation/ABI/testing/configfs-rdma_cm). The device retains the defaults when its directory
 * in configfs is removed. These functions remove the directory if they have created it.
 */
struct roce_cm {
	char mode[ROCE_CM_MODE_MAX]; /* default RoCE mode, "IB/RoCE v1", "RoCE v2" */
	int tos;		     /* 0..255; -1: a kernel before 4.11 */
};
/* -EOPNOTSUPP (kind ERR_UNAVAILABLE): configfs is not mounted or module rdma_cm is not loaded. If
 * the directory of the device is missing, roce_cm_read() creates it if `make` is true, and
 * otherwise returns -ENOENT: callers pass false if r is a recorded host ('unirail doctor
 * --unpack'), whose files must not change. */
int roce_cm_read(const struct root *r, const char *device, unsigned int port, bool make,
		 struct roce_cm *ret, struct err *e);
/* Sets the mode unless v->mode is "", and the ToS unless v->tos is -1. */
int roce_cm_set(const struct root *r, const char *device, unsigned int port,
		const struct roce_cm *v, struct err *e);

#endif
