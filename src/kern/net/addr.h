/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KERN_NET_ADDR_H
#define UNIRAIL_KERN_NET_ADDR_H

/* Addresses and neighbours by rtnetlink. */

#include "base/ip.h"
#include "kern/netlink/nl.h"

struct addr {
	int index; /* ifindex of the link */
	struct ipnet net;
	uint32_t flags; /* IFA_F_* (32 bit) */
	uint8_t scope;	/* RT_SCOPE_* */
};

bool addr_is_tentative(const struct addr *a);
bool addr_is_dadfailed(const struct addr *a);
bool addr_is_permanent(const struct addr *a); /* true: the address does not expire */
bool addr_has_no_prefix_route(const struct addr *a);

/* Lists addresses. family 4, 6 or 0 (both); index 0: all links. The caller frees the list. */
int addr_list(struct nl_wire *w, int family, int index, struct addr **ret, size_t *n,
	      struct err *e);

enum {
	ADDR_NODAD = 1 << 0,
	ADDR_OPTIMISTIC = 1 << 1,
	ADDR_NOPREFIXROUTE = 1 << 2,
	ADDR_SCOPE_LINK = 1 << 3,
};
size_t addr_add(struct nl_batch *b, int index, const char *ifname, const struct ipnet *net,
		unsigned int flags);
size_t addr_del(struct nl_batch *b, int index, const char *ifname, const struct ipnet *net);

struct neigh {
	int index;
	struct ipaddr ip;
	struct mac mac;
	uint16_t state; /* NUD_* */
};
int neigh_list(struct nl_wire *w, int family, int index, struct neigh **ret, size_t *n,
	       struct err *e);
bool neigh_is_permanent(const struct neigh *n);
/* Adds a PERMANENT entry. An existing entry is replaced if `replace` is true, otherwise -EEXIST. */
size_t neigh_add(struct nl_batch *b, int index, const char *ifname, const struct ipaddr *ip,
		 const struct mac *mac, bool replace);
size_t neigh_del(struct nl_batch *b, int index, const char *ifname, const struct ipaddr *ip);

#endif
