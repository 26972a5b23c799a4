/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KERN_NET_UAPI_LINK_H
#define UNIRAIL_KERN_NET_UAPI_LINK_H

/* <linux/if_link.h> for files that also include kern/net/link.h: both headers have an enum
 * macvlan_mode, with the same values. Include this file before any other UAPI header and before
 * libnl. */

#define macvlan_mode uapi_macvlan_mode
#include <linux/if_link.h>
#undef macvlan_mode

#endif
