/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_HOST_STEPS_NICS_H
#define UNIRAIL_HOST_STEPS_NICS_H

/*
 * The RDMA NICs of a host, for the kinds that configure hardware: PCI network functions (class
 * 0x02) that have an RDMA device, or whose driver can create one. A NIC belongs to a GPU if a PCIe
 * switch, or a root port, is above both (PIX and PXB of `nvidia-smi topo -m`).
 */

#include "host/model/kind.h"
#include "kern/pci/pci.h"

enum { HOST_VENDOR_MELLANOX = 0x15b3 };

struct host_nic {
	struct pci_dev pci;
	/* "": the NIC has no interface, or no RDMA device, in the host's network namespace */
	char netdev[LINK_NAME_MAX], rdma[PCI_NAME_MAX];
	/* link layer of port 1 is InfiniBand; without an RDMA device: PCI class is 0x0207 */
	bool infiniband;
	bool gpu; /* the NIC belongs to a GPU */
};

/* Lists the NICs, sorted by PCI address; the caller frees the list. */
int host_nics_read(struct host *h, struct host_nic **ret, size_t *n, struct err *e);
bool host_nic_is_vf(const struct host_nic *nic);
/* Returns the name of a NIC: its netdev, else its RDMA device, else its PCI address. */
const char *host_nic_name(const struct host_nic *nic);
/* Returns whether a list "ens1f0,0000:3b:00.0,mlx5_2" has the NIC by one of its names. */
bool host_nic_listed(const struct host_nic *nic, const char *list);
/* Checks the names of a list. -ENODEV, kind ERR_CONF: a name is not that of a NIC; the error
 * begins with `key`, unless that is "", and suggests the most similar interface or RDMA device,
 * if any is similar. */
int host_nics_check_list(const struct host_nic *nics, size_t n, const char *key, const char *list,
			 struct err *e);
/* Returns whether a function is a GPU: a display or 3D controller of NVIDIA or AMD, or a processing
 * accelerator of AMD. */
bool host_is_gpu(const struct pci_dev *d);

/* --- a program of the host --- */

/*
 * Runs a program of the host below h->root (by chroot, unless h->root is "/") and collects stdout
 * and stderr. The function searches for the program in /usr/sbin, /usr/bin, /sbin and /bin. Returns
 * the exit status; -ENOENT: the host has no such program; -ETIMEDOUT: it was killed after
 * timeout_ms; -EINTR: a signal ended it. Only with h->kernel.
 */
int host_run(struct host *h, char *const argv[], struct buf *out, int timeout_ms, struct err *e);
/* Returns whether the host has the program. */
bool host_has_program(const struct host *h, const char *name);

#endif
