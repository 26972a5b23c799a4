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
	struct ipnet dst;      /* default: len 0, with its family */
	struct ipaddr gw, src; /* family 0: none */
	int index;	       /* output link; 0 when multipath */
	const char *dev;       /* its name, or that of all hops; NULL: the index is set */
	uint32_t table, priority;
	uint32_t mtu, advmss; /* 0: none */
	uint8_t scope, protocol, type, family;
	bool onlink;
	struct route_hop *hops; /* multipath; NULL otherwise; freed by route_list_free() */
	size_t n_hops;
};

/* family 4, 6, 0 (both); table 0: all tables; cloned and cache entries are left out. */
int route_list(struct nl_wire *w, int family, uint32_t table, struct route **ret, size_t *n,
	       struct err *e);
void route_list_free(struct route *list, size_t n);
/* RTM_GETROUTE: the route the kernel would take to dst (src: preferred source, index: link; never
 * multipath). -ENETUNREACH when there is none. */
int route_lookup(struct nl_wire *w, const struct ipaddr *dst, struct route *ret, struct err *e);

enum route_how {
	ROUTE_CREATE,  /* NLM_F_CREATE: RouteAddEcmp of the originals */
	ROUTE_EXCL,    /* NLM_F_CREATE|NLM_F_EXCL */
	ROUTE_EXCL_OK, /* the same, EEXIST is success */
	ROUTE_REPLACE,
};
/* Defaults where 0: table main, protocol boot (3, as the originals'), type unicast. The words of
 * a failure start with "failed to add route ". */
size_t route_add(struct nl_batch *b, const struct route *r, enum route_how how);
size_t route_del(struct nl_batch *b, const struct route *r); /* absent is success */

struct rule {
	uint8_t family;	       /* 4, 6 */
	struct ipnet src, dst; /* ip.family 0: all */
	uint32_t priority;     /* 0: the kernel's choice */
	bool has_priority;
	uint32_t table;
	uint32_t mark, mask; /* mark 0: none */
	char iif[16];
	uint8_t protocol, action; /* 0: the kernel's choice, look up the table */
	bool invert;		  /* "not": matches packets that the conditions do not match */
	bool more; /* listed, and has conditions that are not kept here (oif, ports, tos ...) */
};

int rule_list(struct nl_wire *w, int family, struct rule **ret, size_t *n, struct err *e);
bool rule_eq(const struct rule *a, const struct rule *b); /* but for a priority not given */
/* NL_OK_EXIST: a rule that is there already is success. */
size_t rule_add(struct nl_batch *b, const struct rule *r, unsigned int nl_flags);
/* Absent is success. The kernel deletes the first rule that has all that is given, whatever else
 * that rule asks for: give the priority too, best a rule from rule_list(). */
size_t rule_del(struct nl_batch *b, const struct rule *r);

#endif
