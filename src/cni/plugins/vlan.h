/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_PLUGINS_VLAN_H
#define UNIRAIL_CNI_PLUGINS_VLAN_H

/*
 * The vlan plugin's netconf, keys matched as Go's encoding/json does:
 *
 *	master          lower device; must be given
 *	vlanId          0 to 4094
 *	vlanMode        "" or manual; auto (Spiderpool: the id is from an IaaS provider) is refused
 *	mtu             0: the master's; never above the master's
 *	linkInContainer the master is in the pod's namespace
 *	ipam, dns       as everywhere; without ipam.type the link is only set up
 *
 * The kernel allows one VLAN interface per id and device, across all namespaces.
 */

#include <stdint.h>

struct vlan_conf {
	uint16_t id;
};

#endif
