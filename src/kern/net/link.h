/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KERN_NET_LINK_H
#define UNIRAIL_KERN_NET_LINK_H

/* Links by rtnetlink: reads them into structs, and adds changes to a batch. */

#include <stdbool.h>
#include <stdint.h>

#include "base/ip.h"
#include "kern/netlink/nl.h"

enum { LINK_NAME_MAX = 16, LINK_KIND_MAX = 16, LINK_ALIAS_MAX = 256, LINK_DEVICE_MAX = 64 };

/* IFLA_GROUP of every link that unirail creates in a pod, so that one message deletes all of them ("rail" in ASCII). */
enum { LINK_GROUP = 0x7261696c };

struct link {
	int index;
	char name[LINK_NAME_MAX];
	char kind[LINK_KIND_MAX]; /* "macvlan", "veth", ...; "": a device without a kind */
	char alias[LINK_ALIAS_MAX];
	/* Name of the parent device on its bus ("0000:3b:00.2"); does not depend on the link's
	 * namespace and name. "": no parent device, or a kernel before 5.14. */
	char device[LINK_DEVICE_MAX];
	struct mac mac;
	struct mac perm; /* permanent address of the hardware; len 0: not reported */
	uint32_t mtu;
	uint32_t flags; /* IFF_* */
	uint32_t group;
	uint32_t txqlen;
	uint32_t promisc;
	int master; /* ifindex of the bridge or bond, 0: none */
	int parent; /* IFLA_LINK: ifindex of the lower device or of the peer, 0: none */
	/* IFLA_LINK_NETNSID: id of the namespace that contains `parent`; -1: the link's own
	 * namespace */
	int parent_netnsid;
	uint8_t operstate;     /* IF_OPER_* */
	uint16_t arptype;      /* ARPHRD_* */
	uint32_t macvlan_mode; /* for macvlan: MACVLAN_MODE_* */
	uint16_t ipvlan_mode;
	uint16_t vlan_id;
	uint8_t bond_mode; /* 0 balance-rr ... 6 balance-alb */
	/* For ipoib. ipoib_pkey: P_Key with its membership bit (0x8000: full member);
	 * ipoib_mode: the kernel's IPOIB_MODE_* (0 datagram, 1 connected); ipoib_umcast: user
	 * space joins the multicast groups. */
	uint16_t ipoib_pkey, ipoib_mode;
	bool ipoib_umcast;
};

enum { LINK_IPOIB_DATAGRAM, LINK_IPOIB_CONNECTED };

bool link_is_up(const struct link *l); /* IFF_UP */
bool link_is_loopback(const struct link *l);
/* Returns whether an administrator set promiscuous mode; programs that capture on the link do not count. */
bool link_is_promisc(const struct link *l);
bool link_is_allmulti(const struct link *l);

/* Reads a link. -ENODEV: it does not exist; the error contains "Link not found". */
int link_get(struct nl_wire *w, const char *name, struct link *ret, struct err *e);
int link_get_index(struct nl_wire *w, int index, struct link *ret, struct err *e);
/* Lists all links, sorted by index; the caller frees the list. */
int link_list(struct nl_wire *w, struct link **ret, size_t *n, struct err *e);
const struct link *link_find(const struct link *list, size_t n, const char *name);
const struct link *link_find_index(const struct link *list, size_t n, int index);
/* Returns whether the kernel accepts the name, such as "net1": 1..15 bytes, no '/', ':' or white space, not "." or
 * "..". */
bool link_name_ok(const char *name);
/* Returns whether the name has the form dev<ifindex>. The kernel gives such a name to a link that
 * returns from a deleted namespace if its own name is taken (default_device_exit_net()). */
bool link_name_is_kernels(const char *name);
/* Returns whether the node's own addresses can be on the host link with this name: false for lo
 * and for the names in Spiderpool's list (docker*, veth*, cali*, cni*, ...), true for any other
 * name. */
bool link_is_nodes_own(const char *name);

/* Returns 1 if the kernel can create links of this kind, 0 if it cannot. The query creates no
 * link, but makes the kernel load the module of the kind. kind: as in link_spec, for example
 * "bond". */
int link_kind_known(struct nl_wire *w, const char *kind, struct err *e);

struct link_bond; /* kern/net/link_bond.h */

enum macvlan_mode {
	MACVLAN_PRIVATE = 1,
	MACVLAN_VEPA = 2,
	MACVLAN_BRIDGE = 4,
	MACVLAN_PASSTHRU = 8
};

struct link_spec {
	const char *name;
	const char *kind; /* macvlan ipvlan veth vlan bridge dummy ... */
	/* macvlan, ipvlan, vlan, ipoib: ifindex of the parent link in the wire's namespace; 0:
	 * none */
	int parent;
	int netns_fd;	 /* namespace in which the link is created; -1: the wire's namespace */
	struct mac mac;	 /* len 0: the kernel chooses it */
	uint32_t mtu;	 /* bytes; 0: the MTU of the parent, or the kind's default */
	uint32_t txqlen; /* length of the transmit queue; 0: the kernel's default */
	uint32_t group;	 /* 0: default */
	bool up;
	/* macvlan_mode 0: bridge; macvlan_bcqueuelen 0: the kernel's default */
	uint32_t macvlan_mode, macvlan_bcqueuelen;
	uint16_t ipvlan_mode;
	uint16_t vlan_id;
	/* ipoib: P_Key of a child link, whose `parent` is a link of kind ipoib; pkey 0: the
	 * P_Key of the parent. The kernel chooses the address. */
	uint16_t ipoib_pkey, ipoib_mode;
	bool ipoib_umcast;
	const struct link_bond *bond; /* options of a bond; NULL: the kernel's defaults */
	/* ifindex of the bridge whose port the link becomes; 0: none */
	int master;
	/* veth */
	const char *peer_name;
	int peer_netns_fd; /* namespace of the peer; -1: the wire's namespace */
	struct mac peer_mac;
	bool peer_up;
};

#define LINK_SPEC_INIT                                                                             \
	{                                                                                          \
		.netns_fd = -1, .peer_netns_fd = -1                                                \
	}

/* Returns the index in the batch of the message that creates the link. For a veth, adds another
 * message if the end in VETH_INFO_PEER is to be up, because the kernel creates that end down.
 * Refuses a veth that has `peer_up` and a `peer_netns_fd`, if the link itself has a `master`, or
 * both `up` and a `netns_fd`. */
size_t link_add(struct nl_batch *b, const struct link_spec *s);
/* Deletes a link; index 0: the link with this name. Success as well if there is no such link. */
size_t link_del(struct nl_batch *b, int index, const char *name);
/* Deletes all links of a group. Success as well if there is none. */
size_t link_del_group(struct nl_batch *b, uint32_t group);

/* Changes of a link: a member of struct link_change is used only if its LINK_SET_* bit is in
 * `set`. */
enum {
	LINK_SET_UP = 1 << 0,
	LINK_SET_DOWN = 1 << 1,
	LINK_SET_NAME = 1 << 2,
	LINK_SET_MAC = 1 << 3,
	LINK_SET_MTU = 1 << 4,
	LINK_SET_TXQLEN = 1 << 5,
	LINK_SET_ARP_NOTIFY = 1 << 6, /* sets IPv4 devconf arp_notify=1 */
	LINK_SET_ALIAS = 1 << 7,
	LINK_SET_MASTER = 1 << 8,
	LINK_SET_NETNS = 1 << 9,
	LINK_SET_GROUP = 1 << 10,
	LINK_SET_RP_FILTER = 1 << 11, /* sets IPv4 devconf rp_filter to .rp_filter */
	LINK_SET_PROMISC = 1 << 12,   /* sets IFF_PROMISC to .promisc */
	LINK_SET_ALLMULTI = 1 << 13,  /* sets IFF_ALLMULTI to .allmulti */
};
struct link_change {
	unsigned int set;
	const char *name, *alias;
	struct mac mac;
	uint32_t mtu, txqlen, group;
	int master, netns_fd, rp_filter;
	bool promisc, allmulti;
};
/* `name`: the link's present name, for error messages; index 0: the link with this name (which then cannot be
 * renamed). */
size_t link_set(struct nl_batch *b, int index, const char *name, const struct link_change *c);

/* Returns a random, locally administered unicast MAC address. */
struct mac mac_random(void);

/* Creates a namespace, which exists until its last reference is closed; *fd is the first one. The caller stays in its
 * own namespace. lo_up: sets the loopback interface up. */
int netns_new(bool lo_up, int *fd, struct err *e);

#endif
