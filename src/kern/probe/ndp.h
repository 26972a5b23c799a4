/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KERN_PROBE_NDP_H
#define UNIRAIL_KERN_PROBE_NDP_H

/*
 * Neighbour solicitations and advertisements (RFC 4861, RFC 4862, nonce: RFC 7527) as whole IPv6
 * packets, checksum included. Whole, because the kernel would choose a source address itself and
 * has none to choose while a new link's link-local is still being tested; and because an answer to
 * an address that is not on the link yet would never reach an ICMPv6 socket.
 */

#include "base/buf.h"
#include "kern/probe/classify.h"

enum { NDP_SOLICIT = 135, NDP_ADVERTISE = 136 };
enum { NDP_BYTES_MAX = 40 + 24 + 24 + 8 };

struct ndp {
	uint8_t type; /* NDP_SOLICIT, NDP_ADVERTISE */
	struct ipaddr src, dst, target;
	bool router, solicited, override; /* advertisements only */
	struct mac lladdr; /* source's (solicitation) or target's link address option; len 0: none */
	bool has_nonce;
	uint8_t nonce[PROBE_NONCE];
};

/* Duplicate address detection: from ::, to the address's solicited-node group. */
struct ndp ndp_probe(const struct ipaddr *ip, const uint8_t nonce[static PROBE_NONCE]);
struct ndp ndp_solicitation(const struct mac *mine, const struct ipaddr *from,
			    const struct ipaddr *to);
/* Unsolicited, override set, to all nodes. */
struct ndp ndp_announcement(const struct mac *mine, const struct ipaddr *ip);

size_t ndp_write(const struct ndp *m, uint8_t out[static NDP_BYTES_MAX]);
/* `lladdr_len` is the link's (6 or 20). Trailing bytes are fine. -EBADMSG for anything but a
 * solicitation or advertisement that passes RFC 4861 7.1.1 and 7.1.2 (hop limit 255, checksum,
 * code, lengths, addresses); unknown options are skipped. */
int ndp_read(struct span packet, uint8_t lladdr_len, struct ndp *ret);

struct ipaddr ndp_solicited_node(const struct ipaddr *a);
/* Where a frame to this group goes: 33:33:... (RFC 2464), on IPoIB the group's GID with scope and
 * PKey of the link's broadcast address (RFC 4391 section 4). */
struct mac ndp_multicast_mac(const struct ipaddr *group, const struct mac *broadcast);

/* `from`: the frame's sender, len 0 where the link type does not tell (IPoIB). */
enum probe_saw ndp_judge(const struct ndp *m, const struct mac *from, const struct probe_ears *q,
			 struct mac *other);

#endif
