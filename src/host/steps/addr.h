/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_HOST_STEPS_ADDR_H
#define UNIRAIL_HOST_STEPS_ADDR_H

/*
 * Addresses, gateways, MTU, policy routing and the RDMA route of an interface, as the script
 * setNicAddr.sh sets them: now by netlink, and for the next boot in a file of the interface's
 * owner, which is netplan, NetworkManager or systemd-networkd. Only files of unirail and of the
 * script are written or removed; the script's files are its netplan file, whose name unirail's
 * netplan file has too, and its dispatcher files. Of other interfaces, only the ports of a bond are
 * changed.
 *
 * Differences from the script, each of which corrects a bug: a second run changes nothing; the rule
 * has an explicit priority (32765, which the kernel would choose for a first rule, else the next
 * lower free one; the script's rule instead got a priority below 2000 if setRdmaRule.sh had added
 * its rule at 2000 before); IPv6 has policy routing as well; the NetworkManager file of an IPoIB interface has type infiniband; mixed
 * DHCP and static addresses give valid files.
 */

#include "host/steps/bond.h"
#include "host/steps/netop.h"

struct host_addr_want {
	struct host_want head;
	const char *ipv4_ip, *ipv4_gateway, *ipv6_ip, *ipv6_gateway, *rdma_subnet, *mode, *persist;
	const char *bond_ports, *bond_mode;
	int64_t mtu, table;
	bool dhcp4, dhcp6, policy_route, rdma_default_route;
};

enum {
	HOST_TABLE_FIRST = 151,	  /* first table that is chosen if none is given */
	HOST_GATEWAY_METRIC = 10, /* metric of a default route in table main */
	/* metric that the kernel gives an IPv6 route without one */
	HOST_V6_METRIC = 1024,
	/* priority of the first rule; each further rule has the next lower free one */
	HOST_ADDR_RULE_PRIORITY = 32765,
};

enum host_owner { HOST_OWNER_NONE, HOST_OWNER_NETPLAN, HOST_OWNER_NM, HOST_OWNER_NETWORKD };

/* The observed files of one interface. */
enum host_addr_file {
	HOST_ADDR_NETPLAN, /* /etc/netplan/12-IF.yaml */
	HOST_ADDR_KEYFILE, /* /etc/NetworkManager/system-connections/unirail-IF.nmconnection */
	HOST_ADDR_NETWORK, /* /etc/systemd/network/10-unirail-IF.network */
	HOST_ADDR_NETDEV,  /* /etc/systemd/network/10-unirail-IF.netdev, of a bond */
	HOST_ADDR_POLICY,  /* /etc/NetworkManager/dispatcher.d/99-IF-policy-route, of the script */
	HOST_ADDR_ROUTE,   /* /etc/NetworkManager/dispatcher.d/98-IF-rdma-route, of the script */
	HOST_ADDR_FILES,
};

struct host_addr_if {
	enum host_owner owner;
	bool unit; /* the unit of `unirail host persist` exists */
	struct host_file files[HOST_ADDR_FILES];
	/* The files of a bond's ports, in the order of the ports: keyfile, network file. */
	struct host_file ports[HOST_BOND_PORTS_MAX][2];
	size_t n_ports;
};

struct host_addr_found {
	const struct host_net *net;
	bool has_net;		/* false: the host does not run, so only steps on files are
				 * decided */
	struct host_addr_if *v; /* interface of each section, in the order of the sections */
	size_t n;
};

/* The settings of a section for one family, completed from the host's state. */
struct host_addr_family {
	bool has, dhcp;
	struct ipnet ip;
	struct ipaddr gw; /* family 0: none */
	bool policy;	  /* `gw` is the gateway of `table`; false: of table main */
	uint32_t table, priority;
};
struct host_addr_plan {
	const char *dev;
	bool infiniband;
	struct host_addr_family f[2]; /* IPv4, IPv6 */
	struct ipnet subnets[8];      /* RDMA routes */
	size_t n_subnets;
	uint32_t mtu; /* 0: unchanged */
	struct host_bond bond;
};

extern const struct host_kind host_addr;

void host_addr_init(void *want);
int host_addr_check(void *want, struct err *e);
int host_addr_observe(struct host *h, const struct host_wants *w, void **found, struct err *e);
void host_addr_forget(void *found);
int host_addr_decide(const struct host_wants *w, const void *found, struct host_plan *p,
		     struct err *e);

/* --- addr_files.c: the owner and the files of an interface --- */

/* Reads the files and finds the owner of the interface. l NULL: the link is unknown. */
int host_addr_files_read(const struct host *h, const char *dev, const struct link *l,
			 const struct host_bond *bond, struct host_addr_if *ret, struct err *e);
void host_addr_if_done(struct host_addr_if *i);
/* Adds steps that write unirail's file for the interface's owner, and remove unirail's files for
 * other owners and the script's dispatcher files. `persist` is auto, the name of an owner, or
 * none. -ENOENT: the interface uses DHCP, but no file is written, because it has no owner or
 * because `persist` is none. */
int host_addr_files_plan(const struct host_addr_plan *a, const char *persist,
			 const struct host_addr_if *found, struct host_plan *p, struct err *e);
/* Adds steps that remove the files of every owner, also those of a bond's ports. */
void host_addr_files_clean(const char *dev, const struct host_addr_if *found, struct host_plan *p);

#endif
