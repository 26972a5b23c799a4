/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KERN_PCI_CONFIG_H
#define UNIRAIL_KERN_PCI_CONFIG_H

/*
 * Registers of PCI configuration space that determine how fast a NIC accesses memory and GPUs. They
 * are accessed through the file `config` of sysfs, like `setpci ECAP_ACS+6.w` and `setpci
 * CAP_EXP+8.w`. Layout: PCI Express Base Specification, include/uapi/linux/pci_regs.h.
 *
 * Users other than root can read only the first 64 bytes, which contain no capabilities: -EACCES. Settings last until
 * the device is reset or the host boots. Kernel lockdown refuses writes: -EPERM.
 */

#include "kern/pci/pci.h"

/* Bits of the ACS control register. A set bit of PCI_ACS_REDIRECTS sends traffic between two
 * devices below a switch through the root complex; PCI_ACS_EC_BIT can also block this traffic. */
enum pci_acs_bits {
	PCI_ACS_SV_BIT = 0x01, /* source validation */
	PCI_ACS_TB_BIT = 0x02, /* translation blocking */
	PCI_ACS_RR_BIT = 0x04, /* P2P request redirect */
	PCI_ACS_CR_BIT = 0x08, /* P2P completion redirect */
	PCI_ACS_UF_BIT = 0x10, /* upstream forwarding */
	PCI_ACS_EC_BIT = 0x20, /* P2P egress control */
	PCI_ACS_DT_BIT = 0x40, /* direct translated P2P */
	PCI_ACS_REDIRECTS = PCI_ACS_RR_BIT | PCI_ACS_CR_BIT | PCI_ACS_EC_BIT,
};

struct pci_acs {
	/* bits of enum pci_acs_bits; capable: those that the device supports, control: those
	 * that are set */
	uint16_t capable, control;
};

/* Device Control of the PCI Express capability. */
struct pci_devctl {
	uint16_t max_read, max_payload; /* bytes, 128..4096 */
	bool relaxed;			/* relaxed ordering */
};

/* Returns 1 if the register was read, 0 if the function does not have the capability. -EBADMSG:
 * the list of capabilities is circular, or the file `config` has fewer than 64 bytes. */
int pci_acs_read(const struct root *r, const char *bdf, struct pci_acs *ret, struct err *e);
int pci_devctl_read(const struct root *r, const char *bdf, struct pci_devctl *ret, struct err *e);

/* Functions that set a register and read it back, unless it has the value already. -EIO: the
 * register cannot be read back, or has another value. -EOPNOTSUPP: the device function does not
 * have the capability. */
int pci_acs_set(const struct root *r, const char *bdf, uint16_t control, struct err *e);
int pci_max_read_set(const struct root *r, const char *bdf, uint16_t bytes, struct err *e);
int pci_relaxed_set(const struct root *r, const char *bdf, bool on, struct err *e);

#endif
