/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KERN_NET_LINK_BOND_H
#define UNIRAIL_KERN_NET_LINK_BOND_H

/* Options of a bond, with the names of the bonding driver
 * (Documentation/networking/bonding.rst). */

#include <stdint.h>

#include "base/ip.h"
#include "kern/netlink/nl.h"

enum link_bond_option {
	LINK_BOND_MODE, /* 0 balance-rr, 1 active-backup ... 6 balance-alb */
	/* ifindex of a port of the bond; cannot be set when the bond is created, because the
	 * bond then has no ports */
	LINK_BOND_ACTIVE_SLAVE,
	LINK_BOND_MIIMON,
	LINK_BOND_UPDELAY,
	LINK_BOND_DOWNDELAY,
	LINK_BOND_USE_CARRIER,
	LINK_BOND_ARP_INTERVAL,
	LINK_BOND_ARP_VALIDATE,
	LINK_BOND_ARP_ALL_TARGETS,
	LINK_BOND_PRIMARY, /* an ifindex */
	LINK_BOND_PRIMARY_RESELECT,
	LINK_BOND_FAIL_OVER_MAC,
	LINK_BOND_XMIT_HASH_POLICY,
	LINK_BOND_RESEND_IGMP,
	LINK_BOND_NUM_PEER_NOTIF,
	LINK_BOND_ALL_SLAVES_ACTIVE,
	LINK_BOND_MIN_LINKS,
	LINK_BOND_LP_INTERVAL,
	LINK_BOND_PACKETS_PER_SLAVE,
	LINK_BOND_LACP_RATE,
	LINK_BOND_AD_SELECT,
	LINK_BOND_AD_ACTOR_SYS_PRIO,
	LINK_BOND_AD_USER_PORT_KEY,
	LINK_BOND_TLB_DYNAMIC_LB,
	LINK_BOND_PEER_NOTIF_DELAY,
	LINK_BOND_OPTIONS,
};

enum { LINK_BOND_ARP_TARGETS = 16 }; /* the driver's limit */

struct link_bond {
	uint32_t set; /* 1 << option for each option that is set */
	uint32_t value[LINK_BOND_OPTIONS];
	struct mac ad_actor_system;			  /* len 0: not set */
	struct ipaddr arp_targets[LINK_BOND_ARP_TARGETS]; /* IPv4 */
	size_t n_arp_targets;
};

void link_bond_set(struct link_bond *b, enum link_bond_option o, uint32_t value);
bool link_bond_has(const struct link_bond *b, enum link_bond_option o);
/* Changes the options of an existing bond. */
size_t link_bond_change(struct nl_batch *b, int index, const char *name,
			const struct link_bond *options);

#endif
