/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KERN_PCI_PCI_H
#define UNIRAIL_KERN_PCI_PCI_H

/*
 * PCI functions, their VFs and what hangs below them, from sysfs under a root
 * (Documentation/ABI/testing/sysfs-bus-pci). An address is "0000:3b:00.2", lower case; the domain
 * can have more than four digits (VMD). Where a "device" is asked for, an auxiliary device's name
 * ("mlx5_core.sf.4") does as well. Lists of names are freed by str_list_free().
 *
 * The network and RDMA children of a function are those of the namespace /sys was mounted in: a
 * device that was moved into a pod is not seen there.
 */

#include <stdint.h>

#include "base/file.h"

enum { PCI_BDF_MAX = 20, PCI_DRIVER_MAX = 32, PCI_NAME_MAX = 64, PCI_DEPTH_MAX = 16 };

struct pci_dev {
	char bdf[PCI_BDF_MAX];
	uint16_t vendor, device, subvendor, subdevice;
	uint32_t class;		     /* 0x020000: Ethernet, 0x020700: InfiniBand */
	char driver[PCI_DRIVER_MAX]; /* "" none */
	char physfn[PCI_BDF_MAX];    /* a VF's PF; "" not a VF */
	bool is_pf;		     /* it can have VFs: sriov_totalvfs is there */
	uint32_t total_vfs, num_vfs;
	int numa;	 /* -1 none */
	int iommu_group; /* -1 none: no vfio */
};

struct pci_vf {
	uint32_t vf;
	char bdf[PCI_BDF_MAX];
};

/* The way from the root complex down: pci0000:3a, then bridges and switch ports, without the
 * function itself. */
struct pci_path {
	char root[PCI_BDF_MAX];
	char ports[PCI_DEPTH_MAX][PCI_BDF_MAX];
	size_t n;
};

bool pci_bdf_ok(const char *s);
/* "vfio-pci", "uio_pci_generic", "igb_uio": drivers that hand a function to user space, so that it
 * has no netdev (the SR-IOV device plugin's list). */
bool pci_driver_is_dpdk(const char *driver);

/* -ENODEV when there is no such function; what an attribute does not tell is 0, "" or -1. */
int pci_read(const struct root *r, const char *bdf, struct pci_dev *ret, struct err *e);
/* All of them, by address; functions that go away meanwhile are left out. free() the list. */
int pci_list(const struct root *r, struct pci_dev **ret, size_t *n, struct err *e);
/* The PF's VFs, by number; free() the list. */
int pci_vf_list(const struct root *r, const char *pf, struct pci_vf **ret, size_t *n,
		struct err *e);
/* The VF's PF and its number there; -EINVAL when it is not a VF. */
int pci_vf_number(const struct root *r, const char *vf, char pf[static PCI_BDF_MAX], uint32_t *ret,
		  struct err *e);
int pci_path_read(const struct root *r, const char *bdf, struct pci_path *ret, struct err *e);
/* Ports that two functions share, from the root complex; -1: not even that. The more, the nearer. */
int pci_path_common(const struct pci_path *a, const struct pci_path *b);

enum pci_child { PCI_NETDEV, PCI_RDMA, PCI_UVERBS, PCI_UMAD };
/* Names of a device's netdevs, RDMA devices, "uverbs0", "umad0"/"issm0"; none is no error. */
int pci_children(const struct root *r, const char *device, enum pci_child what, char ***names,
		 size_t *n, struct err *e);
const char *pci_child_name(enum pci_child what); /* "network device" ... */
/* Auxiliary devices of the function: "mlx5_core.rdma.0", "mlx5_core.sf.4". */
int pci_auxiliary(const struct root *r, const char *bdf, char ***names, size_t *n, struct err *e);
/* The device that a netdev or RDMA device (what: PCI_NETDEV or PCI_RDMA) hangs on: an address or an
 * auxiliary device's name. -ENODEV: it has none (macvlan, soft-RoCE), or there is no such name. */
int pci_of(const struct root *r, enum pci_child what, const char *name,
	   char ret[static PCI_NAME_MAX], struct err *e);

/* ---- changes: driver.c ---- */

/*
 * Sets sriov_numvfs. That many already: nothing is written, no VF is disturbed. Else 0 comes first
 * (the kernel takes no other change), which destroys the VFs there are. Read back at the end.
 * -ERANGE: more than sriov_totalvfs; -EOPNOTSUPP: not a PF; -ENOMEM, -EBUSY with the remedy.
 * Takes up to seconds; the VFs' drivers bind after that (kern/pci/uevent.h waits).
 */
int pci_set_vfs(const struct root *r, const char *pf, uint32_t n, struct err *e);
/* Without a driver is success. */
int pci_unbind(const struct root *r, const char *bdf, struct err *e);
/* Bound to it already is success; to another: -EBUSY, unbind first. */
int pci_bind(const struct root *r, const char *bdf, const char *driver, struct err *e);
/* Lets the kernel find the driver (drivers_probe). The kernel does not report that it found
 * none. */
int pci_probe(const struct root *r, const char *bdf, struct err *e);
/* Rebinds to vfio-pci or back: override, unbind, probe, then verify. NULL: the kernel's own driver.
 * On failure the override is removed. */
int pci_rebind(const struct root *r, const char *bdf, const char *driver, struct err *e);

#endif
