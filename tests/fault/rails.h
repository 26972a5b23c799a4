/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_TESTS_RAILS_H
#define UNIRAIL_TESTS_RAILS_H

/* Shared by rails.c, mishaps.c and refuse.c. */

#include <stdbool.h>
#include <stdint.h>

#include "kern/net/link.h"
#include "trace.h"

struct lab;

enum { RAILS = 8 };

/* One kind of failure. */
struct mishap {
	const char *name;
	void (*begin)(struct lab *l, int rail);
	void (*end)(struct lab *l, int rail);
	/* begin() runs just before a message of the ADD to the kernel: in each run a different
	 * message */
	bool race;
	bool refuse;	  /* each message of the ADD is refused, one per run */
	bool refuse_del;  /* each message of the DEL is refused, one per run */
	bool detect;	  /* rails probe their gateways, and whether addresses are in use */
	bool only;	  /* the pool of the failing rail has one address */
	bool quarantines; /* the failed ADD leaves the address of the failing rail in quarantine */
	const char *master;	 /* master of the failing rail, in place of its own */
	uint32_t mtu;		 /* MTU of the failing rail */
	const char *expected[3]; /* texts that the error must have, besides the rail's name */
	/* a text that the error may have instead of the texts in `expected` */
	const char *instead;
};
extern const struct mishap mishaps[]; /* ended by {0} */

void rail_nic(int rail, char name[static LINK_NAME_MAX]);
void rail_ifname(int rail, char name[static LINK_NAME_MAX]);

/* refuse.c: the n-th netlink message of a run is refused by the kernel. */
struct refusal {
	long n;
	/* out */
	long seen;
	bool hit;
	bool changes;	  /* the message was not a query */
	struct shot shot; /* to be passed to the run */
};
/* Prepares x->shot, which refuses the n-th message of the run to which it is passed. */
void refusal_init(struct refusal *x, long n);
bool refused_named(const struct refusal *x, const char *text);

#endif
