/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_PLUGINS_MACVLAN_H
#define UNIRAIL_CNI_PLUGINS_MACVLAN_H

/*
 * The macvlan plugin's netconf, keys matched as Go's encoding/json does:
 *
 *	master          lower device; default: that of the first default route
 *	mode            "" or bridge, private, vepa, passthru
 *	mtu             0: the master's; more than the master's is an error
 *	mac             used if neither runtimeConfig.mac nor CNI_ARGS MAC is set
 *	linkInContainer the master is in the pod's namespace
 *	bcqueuelen      0: the kernel's choice
 *	ipam, dns       as in every link driver; without ipam.type the link is up without addresses
 */

#include "kern/net/link.h"

struct macvlan_conf {
	enum macvlan_mode mode;
	uint32_t bcqueuelen;
};

const char *macvlan_mode_name(uint32_t mode); /* such as "bridge"; "unknown": no such mode */

#endif
