/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CLI_VERIFY_SELECT_H
#define UNIRAIL_CLI_VERIFY_SELECT_H

/*
 * Which RDMA device, port and GID stand behind an address: facts in, a choice out.
 *
 * RoCE: the GID is the address, RoCE v2, on this namespace's interface (in shared mode a device
 * shows the GIDs of every namespace's children, so an address may be there more than once).
 * InfiniBand: the port GID is the tail of the IPoIB interface's hardware address.
 */

#include "kern/net/addr.h"
#include "kern/net/link.h"
#include "kern/rdma/verbs_dev.h"

struct verify_dev {
	char name[64];
	struct verbs_port *ports;
	size_t n_ports;
	struct verbs_gid *gids;
	size_t n_gids;
};

struct verify_facts {
	struct verify_dev *devs;
	size_t n_devs;
	struct link *links;
	size_t n_links;
	struct addr *addrs;
	size_t n_addrs;
	char *why; /* devices that cannot be used, and why; "" none */
	bool supported;
};

/* What the user chose; 0, NULL or -1 means: find it. */
struct verify_choice {
	const char *device;
	uint32_t port;
	int gid_index;
};

/* An address of this namespace with an RDMA port behind it. */
struct verify_rail {
	char ifname[LINK_NAME_MAX]; /* "" when device and GID were chosen without an address */
	struct ipnet net;
	const struct verify_dev *dev;
	const struct verbs_port *port;
	int gid_index; /* -1: by LID */
	uint8_t gid[16];
	uint32_t mtu; /* bytes of RDMA payload: the port's, or less where the interface's MTU is */
};

/* Devices are opened one after another to see. */
int verify_facts_read(struct verify_facts *f, struct err *e);
void verify_facts_done(struct verify_facts *f);
#define auto_verify_facts __attribute__((cleanup(verify_facts_done)))

/* Every address with a device behind it, by interface then address; link-local and loopback ones
 * are left out. free() the list. */
void verify_rails(const struct verify_facts *f, struct verify_rail **ret, size_t *n);
/* The one for `local`, within the choice. Errors say what is there instead. */
int verify_pick(const struct verify_facts *f, const struct ipaddr *local,
		const struct verify_choice *c, struct verify_rail *ret, struct err *e);

/* Payload that an interface's MTU leaves to RoCE: 4096 from 4192 up, 1024 from 1120. */
uint32_t verify_roce_mtu(uint32_t link_mtu);
bool verify_gid_is_ip(const uint8_t *gid, const struct ipaddr *a);
/* "172.16.1.10" for a mapped one, else IPv6 text */
const char *verify_gid_str(const uint8_t *gid, char buf[static IP_TEXT_MAX]);

#endif
