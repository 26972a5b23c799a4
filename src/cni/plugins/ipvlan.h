/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_PLUGINS_IPVLAN_H
#define UNIRAIL_CNI_PLUGINS_IPVLAN_H

/*
 * The ipvlan plugin's netconf, keys matched as Go's encoding/json does:
 *
 *	master          lower device; default: that of the first default route
 *	mode            "" or l2, l3, l3s
 *	mtu             0: the master's
 *	linkInContainer the master is in the pod's namespace
 *	ipam, dns       as in every link driver; without ipam.type the link is up without addresses
 *
 * If ipvlan follows another plugin of a chain: without `master`, prevResult's interface is the
 * master (ADD fails unless there is exactly one). Without ipam.type, the link gets prevResult's
 * addresses and routes.
 */

#include <stdint.h>

struct ipvlan_conf {
	uint16_t mode; /* IPVLAN_MODE_*: 0 is l2 */
};

const char *ipvlan_mode_name(uint16_t mode); /* such as "l2"; "unknown": no such mode */

#endif
