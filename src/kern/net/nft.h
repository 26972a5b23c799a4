/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KERN_NET_NFT_H
#define UNIRAIL_KERN_NET_NFT_H

/*
 * Marks by which replies leave through the interface on which their connection came in, as
 * nf_tables rules over netlink, without the programs nft and iptables. They have the same effect as
 * the mangle rules of Spiderpool's coordinator:
 *
 *	PREROUTING -i <iface> ct state new      -> meta mark set 0x1 (xmark 0x1/0xffffffff)
 *	PREROUTING meta mark 0x1                -> ct mark set meta mark
 *	OUTPUT     (route hook)                 -> meta mark set ct mark
 *
 * in one table `inet unirail` for IPv4 and IPv6 (on a kernel without inet route chains two tables,
 * `ip unirail` and `ip6 unirail`; on a kernel without IPv6 only `ip unirail`), with the chains
 * `prerouting` (type filter, hook prerouting, priority mangle -150) and `output` (type route, hook
 * output, -150).
 */

#include "kern/netlink/nl.h"

/* Creates the table, or replaces an existing one in one transaction: on failure the existing table
 * is unchanged. */
int nft_reply_marks_set(struct nl_wire *netfilter, const char *iface, uint32_t mark, struct err *e);
/* Deletes the table. Success as well if there is none. */
int nft_reply_marks_del(struct nl_wire *netfilter, struct err *e);
/* Returns 1 if the rules exist as expected, 0 if they are missing or changed. */
int nft_reply_marks_check(struct nl_wire *netfilter, const char *iface, uint32_t mark,
			  struct err *e);

/* Returns 0 if the kernel has nf_tables (the query loads the module). -EOPNOTSUPP, kind
 * ERR_UNAVAILABLE: e names the missing module. */
int nft_status(struct nl_wire *netfilter, struct err *e);

#endif
