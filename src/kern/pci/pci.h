/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KERN_PCI_PCI_H
#define UNIRAIL_KERN_PCI_PCI_H

/*
 * PCI functions, their VFs and child devices, from sysfs under a root
 * (Documentation/ABI/testing/sysfs-bus-pci). An address is "0000:3b:00.2", lower case; the domain
 * can have more than four digits (VMD). A parameter `device` may also be the name of an auxiliary
 * device ("mlx5_core.sf.4"). Lists of names are freed by str_list_free().
 *
 * The network and RDMA children of a function are those of the namespace /sys was mounted in: a
 * device that was moved into a pod is not seen there.
 */

#include <stdint.h>

#include "base/file.h"

enum { PCI_BDF_MAX = 20, PCI_DRIVER_MAX = 32, PCI_NAME_MAX = 64, PCI_DEPTH_MAX = 16 };
/* Vendors of GPUs, as in pci_dev.vendor. */
enum { PCI_VENDOR_AMD = 0x1002, PCI_VENDOR_NVIDIA = 0x10de };

struct pci_dev {
	char bdf[PCI_BDF_MAX];
	uint16_t vendor, device, subvendor, subdevice;
	uint32_t class;		     /* 0x020000: Ethernet, 0x020700: InfiniBand */
	char driver[PCI_DRIVER_MAX]; /* name of the driver; "": not bound to a driver */
	char physfn[PCI_BDF_MAX];    /* the PF of a VF; "": not a VF */
	/* the function can have VFs: it has the attribute sriov_totalvfs */
	bool is_pf;
	uint32_t total_vfs, num_vfs;
	int numa;	 /* NUMA node; -1: none */
	int iommu_group; /* -1: none, so vfio cannot be used */
};

struct pci_vf {
	uint32_t vf;
	char bdf[PCI_BDF_MAX];
};

/* The path from the root complex to a function: pci0000:3a, then bridges and switch ports, without
 * the function itself. */
struct pci_path {
	char root[PCI_BDF_MAX];
	char ports[PCI_DEPTH_MAX][PCI_BDF_MAX];
	size_t n;
};

bool pci_bdf_ok(const char *s);
/* Returns whether the driver is in the SR-IOV CNI plugin's list of drivers for user space:
 * "vfio-pci", "uio_pci_generic", "igb_uio". A PCI function with such a driver has no netdev. */
bool pci_driver_is_dpdk(const char *driver);

/* Reads a function. -ENODEV: it does not exist. An attribute that it does not have is 0, "" or
 * -1. */
int pci_read(const struct root *r, const char *bdf, struct pci_dev *ret, struct err *e);
/* Lists all functions, sorted by address. Skips a function that cannot be read, for example
 * because it was removed meanwhile. The caller frees the list. */
int pci_list(const struct root *r, struct pci_dev **ret, size_t *n, struct err *e);
/* Lists the VFs of a PF, sorted by number; the caller frees the list. */
int pci_vf_list(const struct root *r, const char *pf, struct pci_vf **ret, size_t *n,
		struct err *e);
/* Returns the PF of the VF and its VF number; -EINVAL: it is not a VF. */
int pci_vf_number(const struct root *r, const char *vf, char pf[static PCI_BDF_MAX], uint32_t *ret,
		  struct err *e);
int pci_path_read(const struct root *r, const char *bdf, struct pci_path *ret, struct err *e);
/* Returns the number of ports that both paths share, counted from the root complex; -1: the
 * paths begin at different root complexes. The higher the number, the nearer the functions. */
int pci_path_common(const struct pci_path *a, const struct pci_path *b);

enum pci_child { PCI_NETDEV, PCI_RDMA, PCI_UVERBS, PCI_UMAD };
/* Lists the names of a device's children of one kind: netdevs, RDMA devices, verbs devices
 * ("uverbs0"), or MAD devices ("umad0", "issm0"). *n is 0 if there is none. */
int pci_children(const struct root *r, const char *device, enum pci_child what, char ***names,
		 size_t *n, struct err *e);
const char *pci_child_name(enum pci_child what); /* name for error messages: "network device" ... */
/* Lists the auxiliary devices of the function: "mlx5_core.rdma.0", "mlx5_core.sf.4". */
int pci_auxiliary(const struct root *r, const char *bdf, char ***names, size_t *n, struct err *e);
/* Returns the parent device of a netdev or RDMA device (what: PCI_NETDEV or PCI_RDMA): an
 * address or the name of an auxiliary device. -ENODEV: it does not exist, or its parent is
 * neither a PCI function nor an auxiliary device (macvlan, soft-RoCE, virtio). */
int pci_of(const struct root *r, enum pci_child what, const char *name,
	   char ret[static PCI_NAME_MAX], struct err *e);

/* ---- changes of a PCI device: driver.c ---- */

/*
 * Sets sriov_numvfs and reads it back. If the number is the same already, nothing is written and no
 * VF is disturbed; otherwise existing VFs are destroyed first, by writing 0 (the kernel requires
 * it). -ERANGE: more than sriov_totalvfs; -EOPNOTSUPP: not a PF; -ENOMEM, -EBUSY: the error names
 * the cause. Can take several seconds; when pci_set_vfs() returns, it is possible that no driver
 * has bound to a VF yet (to wait for the drivers: kern/pci/uevent.h).
 */
int pci_set_vfs(const struct root *r, const char *pf, uint32_t n, struct err *e);
/* Unbinds a function from its driver. Success as well if the function is not bound. */
int pci_unbind(const struct root *r, const char *bdf, struct err *e);
/* Binds a function to a driver. Success as well if it is bound to this driver already; -EBUSY if it
 * is bound to another one: unbind it first. */
int pci_bind(const struct root *r, const char *bdf, const char *driver, struct err *e);
/* Triggers the kernel's search for a driver (drivers_probe). The kernel does not report whether it
 * found one. */
int pci_probe(const struct root *r, const char *bdf, struct err *e);
/* Rebinds a function to vfio-pci or back: override, unbind, probe, verify. driver NULL: the
 * kernel's default driver. If the change to `driver` fails, the override is removed. */
int pci_rebind(const struct root *r, const char *bdf, const char *driver, struct err *e);

#endif
