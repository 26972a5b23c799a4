/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_TESTS_RAILS_H
#define UNIRAIL_TESTS_RAILS_H

/* Shared by rails.c and mishaps.c. */

#include <stdbool.h>
#include <stdint.h>

#include "kern/net/link.h"
#include "trace.h"

struct lab;

enum { RAILS = 8 };

/* One way to fail. */
struct mishap {
	const char *name;
	void (*begin)(struct lab *l, int rail);
	void (*end)(struct lab *l, int rail);
	bool race;	      /* begin() comes between two of the ADD's messages to the kernel */
	bool refuse;	      /* one message after another is refused */
	bool refuse_del;      /* the same of DEL */
	bool detect;	      /* rails ask their gateways, and whether addresses are taken */
	bool only;	      /* that rail's pool has one address */
	bool quarantines;     /* and that is in quarantine afterwards, on purpose */
	const char *master;   /* that rail's, instead of its own */
	uint32_t mtu;	      /* that rail's */
	const char *words[3]; /* in the error, beside the rail */
	const char *instead;  /* of those words */
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
	struct shot shot; /* input of the run */
};
/* Stays where it is. */
void refusal_init(struct refusal *x, long n);
bool refused_named(const struct refusal *x, const char *text);

#endif
