/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KERN_NET_NFT_H
#define UNIRAIL_KERN_NET_NFT_H

/*
 * The symmetric reply path's marks as nf_tables over netlink (no nft, no iptables). Same effect
 * as the coordinator's mangle rules:
 *
 *	PREROUTING -i <iface> ct state new      -> meta mark set 0x1 (xmark 0x1/0xffffffff)
 *	PREROUTING meta mark 0x1                -> ct mark set meta mark
 *	OUTPUT     (route hook)                 -> meta mark set ct mark
 *
 * in one table `inet unirail` (families as asked: inet covers both), chains `prerouting` (type
 * filter, hook prerouting, priority mangle -150) and `output` (type route, hook output, -150; as
 * two tables `ip unirail`, `ip6 unirail` where a kernel lacks inet route chains).
 */

#include "kern/netlink/nl.h"

/* All or nothing, idempotent: the table is replaced in one transaction. */
int nft_reply_marks_set(struct nl_wire *netfilter, const char *iface, uint32_t mark, struct err *e);
int nft_reply_marks_del(struct nl_wire *netfilter, struct err *e); /* absent is success */
/* 1 present and as wanted, 0 absent or changed. */
int nft_reply_marks_check(struct nl_wire *netfilter, const char *iface, uint32_t mark,
			  struct err *e);

/* Whether this kernel has nf_tables (it loads the module for the question); -EOPNOTSUPP, of kind
 * ERR_UNAVAILABLE, says what is missing. */
int nft_status(struct nl_wire *netfilter, struct err *e);

#endif
