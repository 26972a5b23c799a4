/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KERN_NET_LINK_BOND_PUT_H
#define UNIRAIL_KERN_NET_LINK_BOND_PUT_H

/* Between link.c and link_bond.c. */

#include "kern/netlink/attr.h"
#include "kern/net/link_bond.h"

/* The options into an IFLA_INFO_DATA that is open. */
void link_bond_put(struct nl_msg *m, const struct link_bond *b);

#endif
