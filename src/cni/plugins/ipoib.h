/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_PLUGINS_IPOIB_H
#define UNIRAIL_CNI_PLUGINS_IPOIB_H

/*
 * The ipoib plugin: a child interface of an IPoIB device of the node, on the same HCA and port. Its
 * netconf, keys matched as Go's encoding/json does:
 *
 *	master          the IPoIB device; must be given
 *	mtu             0: the kernel's choice; more than the master's is an error
 *	pkey            unirail's own: the partition, "0x8001" or a number; the bit 0x8000 is always
 *			set, as the kernel does. Not given: the master's
 *	mode            unirail's own: datagram or connected. Not given: the master's
 *	ipam, dns       as in every link driver, but ipam.type dhcp is refused; without ipam.type
 *			the link is up without addresses
 *
 * User space joins the multicast groups (umcast), and proxy_arp is on, as with the original. ADD
 * creates the child in the pod's namespace under its final name. The kernel chooses its MAC, of 20
 * bytes. A partition that the HCA's table does not have gives a link without carrier.
 *
 * The kernel treats a child as a piece of hardware: when the pod's namespace is deleted, the child
 * moves to the node instead of going away. GC, and DEL without the pod's namespace, delete such
 * children.
 */

#include <stdbool.h>
#include <stdint.h>

struct link;

enum ipoib_mode { IPOIB_AS_MASTER, IPOIB_DATAGRAM, IPOIB_CONNECTED };

struct ipoib_conf {
	uint16_t pkey; /* with the membership bit; 0: the master's */
	enum ipoib_mode mode;
};

/*
 * Pure. Returns whether a link of the node is an orphaned child: its pod's namespace was deleted.
 */
bool ipoib_is_leftover(const struct link *l);

#endif
