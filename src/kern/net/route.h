/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KERN_NET_ROUTE_H
#define UNIRAIL_KERN_NET_ROUTE_H

/* Routes and rules by rtnetlink. */

#include "base/ip.h"
#include "kern/netlink/nl.h"

enum { TABLE_MAIN = 254, TABLE_LOCAL = 255 };
enum { SCOPE_UNIVERSE = 0, SCOPE_LINK = 253, SCOPE_HOST = 254 };

struct route_hop {
	int index;
	struct ipaddr gw; /* family 0: none */
	uint8_t weight;
};

struct route {
	struct ipnet dst;      /* default route: len 0, and the family */
	struct ipaddr gw, src; /* family 0: none */
	int index; /* ifindex of the output link; 0: multipath, or no link (blackhole) */
	/* Name of the output link for error messages; a multipath route has a name only if all
	 * its hops use the same link. NULL, as route_list() sets it: error messages contain the
	 * ifindex instead. */
	const char *dev;
	uint32_t table, priority;
	uint32_t mtu, advmss; /* 0: not set */
	uint8_t scope, protocol, type, family;
	bool onlink;
	/* multipath route: its hops, freed by route_list_free(); otherwise NULL */
	struct route_hop *hops;
	size_t n_hops;
};

/* Lists routes. family 4, 6 or 0 (both); table 0: all tables. Cloned and cache entries are
 * skipped. */
int route_list(struct nl_wire *w, int family, uint32_t table, struct route **ret, size_t *n,
	       struct err *e);
/* Returns whether the route, or one of its hops, uses the link and (unless gw->family is 0) the
 * gateway. */
bool route_leads_to(const struct route *r, int index, const struct ipaddr *gw);
void route_list_free(struct route *list, size_t n);
/* Returns the route that the kernel would use for dst (RTM_GETROUTE); of a multipath route, only
 * the hop that the kernel has chosen. `src` is the preferred source address, `index` the output
 * link. -ENETUNREACH: there is no route. */
int route_lookup(struct nl_wire *w, const struct ipaddr *dst, struct route *ret, struct err *e);

enum route_how {
	ROUTE_CREATE,  /* NLM_F_CREATE, like RouteAddEcmp of the original plugins */
	ROUTE_EXCL,    /* NLM_F_CREATE|NLM_F_EXCL */
	ROUTE_EXCL_OK, /* NLM_F_CREATE | NLM_F_EXCL, but EEXIST is success */
	ROUTE_REPLACE,
};
/* Defaults for 0: table main, protocol boot (3, as in the original plugins), type unicast. Error
 * messages begin with "failed to add route ". */
size_t route_add(struct nl_batch *b, const struct route *r, enum route_how how);
/* Deletes a route. Success as well if there is no such route. */
size_t route_del(struct nl_batch *b, const struct route *r);

struct rule {
	uint8_t family;	       /* 4, 6 */
	struct ipnet src, dst; /* ip.family 0: any address */
	uint32_t priority;     /* 0 without has_priority: the kernel chooses it */
	bool has_priority;
	uint32_t table;
	uint32_t mark, mask; /* both 0: no condition; mask 0 with a mark: all bits */
	char iif[16];
	/* protocol: RTPROT_*, 0: the kernel's default; action: FR_ACT_*, 0: look up the table */
	uint8_t protocol, action;
	bool invert; /* "not": matches packets that the conditions do not match */
	/* set in lists: the rule has conditions that this struct does not contain (oif, ports, tos
	 * ...) */
	bool more;
};

int rule_list(struct nl_wire *w, int family, struct rule **ret, size_t *n, struct err *e);
/* Returns whether both rules are equal. Compares the priority only if both have has_priority, and
 * the protocol only if neither is 0. */
bool rule_eq(const struct rule *a, const struct rule *b);
/* nl_flags: with NL_OK_EXIST an existing rule is success. */
size_t rule_add(struct nl_batch *b, const struct rule *r, unsigned int nl_flags);
/* Success as well if there is no such rule. The kernel deletes the first rule that has all given
 * conditions, even if that rule has further ones: so pass the priority as well. A rule of
 * rule_list() is best. */
size_t rule_del(struct nl_batch *b, const struct rule *r);

#endif
