/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KERN_NET_LINK_H
#define UNIRAIL_KERN_NET_LINK_H

/* Links by rtnetlink: facts out, changes into a batch. */

#include <stdbool.h>
#include <stdint.h>

#include "base/ip.h"
#include "kern/netlink/nl.h"

enum { LINK_NAME_MAX = 16, LINK_KIND_MAX = 16, LINK_ALIAS_MAX = 256, LINK_DEVICE_MAX = 64 };

/* Every link that unirail makes in a pod is in this IFLA_GROUP, so that one message deletes all
 * of them ("rail" in ASCII). */
enum { LINK_GROUP = 0x7261696c };

struct link {
	int index;
	char name[LINK_NAME_MAX];
	char kind[LINK_KIND_MAX]; /* "macvlan", "veth", ...; "" for a device without one */
	char alias[LINK_ALIAS_MAX];
	/* What it hangs on, by the bus's name ("0000:3b:00.2"), whatever the namespace and the
	 * link's own name; "": nothing, or a kernel before 5.14. */
	char device[LINK_DEVICE_MAX];
	struct mac mac;
	struct mac perm; /* the hardware's own; len 0: not reported */
	uint32_t mtu;
	uint32_t flags; /* IFF_* */
	uint32_t group;
	uint32_t txqlen;
	uint32_t promisc;
	int master;	       /* ifindex of bridge or bond, 0 none */
	int parent;	       /* IFLA_LINK: lower device's or peer's ifindex, 0 none */
	int parent_netnsid;    /* IFLA_LINK_NETNSID, -1: same namespace */
	uint8_t operstate;     /* IF_OPER_* */
	uint16_t arptype;      /* ARPHRD_* */
	uint32_t macvlan_mode; /* for macvlan: MACVLAN_MODE_* */
	uint16_t ipvlan_mode;
	uint16_t vlan_id;
	uint8_t bond_mode; /* 0 balance-rr ... 6 balance-alb */
	/* for ipoib: the P_Key with its membership bit (0x8000: full), IPOIB_MODE_* of the kernel
	 * (0 datagram, 1 connected), whether user space joins the multicast groups */
	uint16_t ipoib_pkey, ipoib_mode;
	bool ipoib_umcast;
};

enum { LINK_IPOIB_DATAGRAM, LINK_IPOIB_CONNECTED };

bool link_is_up(const struct link *l); /* IFF_UP */
bool link_is_loopback(const struct link *l);
/* As an administrator set it: who listens on the link does not count. */
bool link_is_promisc(const struct link *l);
bool link_is_allmulti(const struct link *l);
bool link_has_carrier(const struct link *l); /* IFF_LOWER_UP */

/* -ENODEV with the text users grep for, "Link not found". */
int link_get(struct nl_wire *w, const char *name, struct link *ret, struct err *e);
int link_get_index(struct nl_wire *w, int index, struct link *ret, struct err *e);
/* All links, by index; free() the list. */
int link_list(struct nl_wire *w, struct link **ret, size_t *n, struct err *e);
const struct link *link_find(const struct link *list, size_t n, const char *name);
const struct link *link_find_index(const struct link *list, size_t n, int index);
/* "net1" is a name the kernel takes: 1..15 bytes, no '/', ':' or white space, not "." or "..". */
bool link_name_ok(const char *name);
/* False: a host link whose addresses are not the node's own (docker*, veth*, cali*, cni*, ...), by Spiderpool's list. */
bool link_is_nodes_own(const char *name);

/* 1: links of this kind can be made here (the kernel has loaded its module when it has one), 0: not.
 * kind: "bond" or "vlan". Nothing is made. */
int link_kind_known(struct nl_wire *w, const char *kind, struct err *e);

struct link_bond; /* kern/net/link_bond.h */

enum macvlan_mode {
	MACVLAN_PRIVATE = 1,
	MACVLAN_VEPA = 2,
	MACVLAN_BRIDGE = 4,
	MACVLAN_PASSTHRU = 8
};

struct link_spec {
	const char *name; /* final name */
	const char *kind; /* macvlan ipvlan veth vlan bridge dummy ... */
	int parent;	  /* ifindex in the wire's namespace (macvlan, ipvlan, vlan); 0 none */
	int netns_fd;	  /* where it is created; -1: the wire's namespace */
	struct mac mac;	  /* len 0: the kernel's choice */
	uint32_t mtu;	  /* 0: inherited */
	uint32_t txqlen;  /* 0: the kernel's choice */
	uint32_t group;	  /* 0: default */
	bool up;
	uint32_t macvlan_mode, macvlan_bcqueuelen; /* bcqueuelen 0: not sent */
	uint16_t ipvlan_mode;
	uint16_t vlan_id;
	/* ipoib: a child of a PKey, on a parent of kind ipoib in the same namespace as it is created
	 * in; pkey 0: the parent's; its address is the kernel's choice */
	uint16_t ipoib_pkey, ipoib_mode;
	bool ipoib_umcast;
	const struct link_bond *bond; /* NULL: the kernel's defaults */
	int master;		      /* bridge port of; 0 none */
	/* veth */
	const char *peer_name;
	int peer_netns_fd; /* -1: the wire's namespace */
	struct mac peer_mac;
	bool peer_up;
};

#define LINK_SPEC_INIT                                                                             \
	{                                                                                          \
		.netns_fd = -1, .peer_netns_fd = -1                                                \
	}

/* Returns the place of the message that creates; bringing a veth's peer up takes a second one.
 * Both ends of a veth can be up when at least one of them is in the wire's namespace. */
size_t link_add(struct nl_batch *b, const struct link_spec *s);
/* index 0: the link of this name */
size_t link_del(struct nl_batch *b, int index, const char *name); /* absent is success */
size_t link_del_group(struct nl_batch *b, uint32_t group);	  /* absent is success */

/* Changes to a link; each member counts only with its LINK_SET_* bit. */
enum {
	LINK_SET_UP = 1 << 0,
	LINK_SET_DOWN = 1 << 1,
	LINK_SET_NAME = 1 << 2,
	LINK_SET_MAC = 1 << 3,
	LINK_SET_MTU = 1 << 4,
	LINK_SET_TXQLEN = 1 << 5,
	LINK_SET_ARP_NOTIFY = 1 << 6, /* IPv4 devconf arp_notify=1, in the same message */
	LINK_SET_ALIAS = 1 << 7,
	LINK_SET_MASTER = 1 << 8,
	LINK_SET_NETNS = 1 << 9,
	LINK_SET_GROUP = 1 << 10,
	LINK_SET_RP_FILTER = 1 << 11, /* IPv4 devconf rp_filter = .rp_filter */
	LINK_SET_PROMISC = 1 << 12,   /* IFF_PROMISC = .promisc */
	LINK_SET_ALLMULTI = 1 << 13,  /* IFF_ALLMULTI = .allmulti */
};
struct link_change {
	unsigned int set;
	const char *name, *alias;
	struct mac mac;
	uint32_t mtu, txqlen, group;
	int master, netns_fd, rp_filter;
	bool promisc, allmulti;
};
/* `name` is the link's present name, for the message's words; index 0: the link of this name
 * (which then cannot be renamed). */
size_t link_set(struct nl_batch *b, int index, const char *name, const struct link_change *c);

/* A random, locally administered unicast MAC. */
struct mac mac_random(void);

/* A new namespace, held by the descriptor only (it dies with the last reference); the caller
 * stays where it is. Its loopback is up when lo_up. */
int netns_new(bool lo_up, int *fd, struct err *e);

#endif
