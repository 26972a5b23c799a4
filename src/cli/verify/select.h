/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CLI_VERIFY_SELECT_H
#define UNIRAIL_CLI_VERIFY_SELECT_H

/*
 * Finds the RDMA device, port and GID for an address. Pure, except verify_facts_read().
 *
 * RoCE: the RoCE v2 GID that equals the address, on the interface of this namespace (in shared mode
 * a device has the GIDs of all namespaces, so an address may occur more than once). InfiniBand: the
 * port GID is the tail of the IPoIB interface's hardware address.
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
	char *reason; /* unusable devices, each with the reason; "": none */
	bool supported;
};

/* The user's choice. A device NULL, port 0 or gid_index -1 is selected automatically. */
struct verify_choice {
	const char *device;
	uint32_t port;
	int gid_index;
};

/* An address of this namespace with an RDMA port. */
struct verify_rail {
	/* name of the interface; "": device and GID were chosen without an address */
	char ifname[LINK_NAME_MAX];
	struct ipnet net;
	const struct verify_dev *dev;
	const struct verbs_port *port;
	int gid_index; /* -1: addressed by LID */
	uint8_t gid[16];
	uint32_t mtu;	   /* bytes of RDMA payload: the port's MTU, or less if the interface's MTU
	               * requires it */
	uint32_t link_mtu; /* MTU of the interface; 0: no interface */
};

/* Reads devices, links and addresses; opens each device to check whether it is usable. */
int verify_facts_read(struct verify_facts *f, struct err *e);
void verify_facts_done(struct verify_facts *f);
#define auto_verify_facts __attribute__((cleanup(verify_facts_done)))

/*
 * Lists every address with an RDMA port, sorted by interface and address, without link-local and
 * loopback addresses. The caller frees the list.
 */
void verify_rails(const struct verify_facts *f, struct verify_rail **ret, size_t *n);
/* Finds the rail for `local` that matches the choice; if there is none, a chosen device is used
 * without an address (RoCE: only with a chosen gid_index). Errors list the existing
 * alternatives. */
int verify_pick(const struct verify_facts *f, const struct ipaddr *local,
		const struct verify_choice *c, struct verify_rail *ret, struct err *e);

/* Returns the largest RoCE payload in bytes for an interface's MTU: for example 4096 if the MTU
 * is at least 4192, and 1024 if it is 1120 to 2143. */
uint32_t verify_roce_mtu(uint32_t link_mtu);

#endif
