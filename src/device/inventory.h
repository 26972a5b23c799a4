/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_DEVICE_INVENTORY_H
#define UNIRAIL_DEVICE_INVENTORY_H

/*
 * The node's PCI network functions, PFs and VFs. Each has its netdevs and its RDMA devices with
 * ports and GIDs; a VF also has its number, representor and attributes. Everything except VF
 * attributes and the eswitch mode is read from sysfs below a root directory (see
 * Documentation/ABI/testing/sysfs-class-net and sysfs-class-infiniband of the kernel), and the
 * values are spelled as in sysfs; the root directory may also hold a copy of another host's sysfs.
 * Netdevs and RDMA devices are those of the network namespace that /sys was mounted in: a netdev or
 * RDMA device that was moved into a pod is not listed.
 */

#include "kern/pci/devlink.h"
#include "kern/pci/pci.h"
#include "kern/net/vf.h"

enum { INVENTORY_WORD_MAX = 64 };

struct inventory_netdev {
	char name[LINK_NAME_MAX], mac[MAC_TEXT_MAX];
	char operstate[16]; /* operational state such as "up", "down" ...; "": unknown */
	char alias[LINK_ALIAS_MAX];
	uint32_t mtu;
	bool up; /* IFF_UP: the interface is administratively up, with or without carrier */
};

struct inventory_gid {
	int index;
	char gid[INVENTORY_WORD_MAX];  /* "fe80:0000:..." */
	char type[INVENTORY_WORD_MAX]; /* type of the GID, "RoCE v2", "IB/RoCE v1"; "": unknown */
	char netdev[LINK_NAME_MAX];
};

struct inventory_port {
	uint32_t port;
	char state[INVENTORY_WORD_MAX], link_layer[INVENTORY_WORD_MAX]; /* "ACTIVE", "Ethernet" */
	/* rate of the port such as "100 Gb/sec (4X EDR)" */
	char rate[INVENTORY_WORD_MAX];
	/* the used entries of the GID table */
	struct inventory_gid *gids;
	size_t n_gids;
};

struct inventory_rdma {
	char name[PCI_NAME_MAX];
	char node_guid[INVENTORY_WORD_MAX]; /* "0c42:a103:0016:051c" */
	struct inventory_port *ports;
	size_t n_ports;
};

struct inventory_function {
	struct pci_dev pci;		  /* physfn: the PF of a VF */
	int64_t vf;			  /* number of the VF on its PF; -1: not a VF */
	struct inventory_netdev *netdevs; /* without representors */
	size_t n_netdevs;
	struct inventory_rdma *rdma;
	size_t n_rdma;
	/* representor of a VF in switchdev mode; "": none in this namespace */
	char representor[LINK_NAME_MAX];
	bool has_eswitch;
	enum eswitch_mode eswitch; /* mode of a PF; not set for other functions */
	bool has_attrs;
	struct vf_info attrs; /* attributes of a VF, reported by its PF */
};

struct inventory {
	struct inventory_function *v;
	size_t n;
};

/*
 * Lists the network controllers (PCI class 2), sorted by address. route, generic: netlink sockets
 * of the node. route NULL: VF attributes are not read; generic NULL: eswitch modes are not read.
 * Values that a PF's driver does not report are missing, which is not an error. A host without PCI
 * has no functions; this is not an error.
 */
int inventory_read(const struct root *r, struct nl_wire *route, struct nl_wire *generic,
		   struct inventory *ret, struct err *e);
void inventory_done(struct inventory *inv);
#define auto_inventory __attribute__((cleanup(inventory_done)))

/* Returns whether a VF is bound to a network driver (not to vfio-pci or another driver for DPDK)
 * but has neither netdev nor RDMA device here: it is in a pod or in another namespace. */
bool inventory_is_in_other_netns(const struct inventory_function *f);

#endif
