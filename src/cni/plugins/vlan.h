/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_PLUGINS_VLAN_H
#define UNIRAIL_CNI_PLUGINS_VLAN_H

/*
 * The vlan plugin's netconf, keys matched as Go's encoding/json does:
 *
 *	master          lower device; must be given
 *	vlanId          0 to 4094
 *	vlanMode        "" or manual; auto (Spiderpool: the id is from an IaaS provider) is refused
 *	mtu             0: the master's; more than the master's is an error
 *	linkInContainer the master is in the pod's namespace
 *	ipam, dns       as in every link driver; without ipam.type the link is up without addresses
 *
 * The kernel allows one VLAN interface per id and device, across all namespaces.
 */

#include <stdint.h>

struct vlan_conf {
	uint16_t id;
};

#endif
