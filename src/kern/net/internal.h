/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KERN_NET_INTERNAL_H
#define UNIRAIL_KERN_NET_INTERNAL_H

/* Shared by the files of this directory. */

#include "kern/net/link_bond.h"
#include "kern/net/nft.h"
#include "kern/netlink/attr.h"

/* Internals of nft.c: the places of the chains, and the messages that create tables, chains and
 * rules. The same messages are compared with the kernel's, to check what exists. */

enum nft_layout {
	NFT_INET,  /* one table for both families */
	NFT_SPLIT, /* ip and ip6: a kernel without inet route chains (before 5.2) */
	NFT_IPV4,  /* only ip: a kernel without IPv6 */
	NFT_LAYOUTS,
};

#define NFT_TABLE "unirail"

enum { NFT_PLACES_MAX = 4, NFT_RULES_MAX = 2 };

/* Place of a base chain: the family of its table, and its hook (output or prerouting). */
struct nft_place {
	uint8_t family;
	bool output;
};

struct nft_marks {
	const char *iface;
	uint32_t mark;
};

/* Returns the places of a layout; the last element has family 0. */
const struct nft_place *nft_places(enum nft_layout l);
const char *nft_chain_name(const struct nft_place *p);

/* Creates a message. type: NFT_MSG_*; flags: NLM_F_*. */
struct nl_msg *nft_table_msg(int type, int flags, uint8_t family);
struct nl_msg *nft_rule_msg(int type, int flags, const struct nft_place *p, size_t which,
			    const struct nft_marks *marks);
/* Creates a request for the chains of a family (NFT_MSG_GETCHAIN), or the rules of unirail's table
 * (NFT_MSG_GETRULE). */
struct nl_msg *nft_dump_msg(int type, uint8_t family);

int nft_marks_set(struct nl_wire *w, enum nft_layout l, const struct nft_marks *m, struct err *e);
/* Returns 1 if the kernel has the expected rules, 0 if they differ, -ENOENT if a table of the
 * layout does not exist. */
int nft_marks_check(struct nl_wire *w, enum nft_layout l, const struct nft_marks *m, struct err *e);

#endif
