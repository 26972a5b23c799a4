/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KERN_PROBE_NDP_H
#define UNIRAIL_KERN_PROBE_NDP_H

/*
 * Neighbour solicitations and advertisements (RFC 4861, RFC 4862, nonce: RFC 7527) as whole IPv6
 * packets, checksum included. An ICMPv6 socket cannot be used: the kernel would choose the source
 * address, and has none while the link-local address of a new link is tentative; and a response to
 * an address that the link does not have yet would never reach the socket.
 */

#include "base/buf.h"
#include "kern/probe/classify.h"

enum { NDP_SOLICIT = 135, NDP_ADVERTISE = 136 };
enum { NDP_BYTES_MAX = 40 + 24 + 24 + 8 };

struct ndp {
	uint8_t type; /* NDP_SOLICIT, NDP_ADVERTISE */
	struct ipaddr src, dst, target;
	bool router, solicited, override; /* only in advertisements */
	/* link address option of the source (solicitation) or target (advertisement); len 0:
	 * none */
	struct mac lladdr;
	bool has_nonce;
	uint8_t nonce[PROBE_NONCE];
};

/* Returns a probe of duplicate address detection: from ::, to the solicited-node group of the
 * address. */
struct ndp ndp_probe(const struct ipaddr *ip, const uint8_t nonce[static PROBE_NONCE]);
struct ndp ndp_solicitation(const struct mac *mine, const struct ipaddr *from,
			    const struct ipaddr *to);
/* Returns an unsolicited advertisement with the override flag, to all nodes. */
struct ndp ndp_announcement(const struct mac *mine, const struct ipaddr *ip);

size_t ndp_write(const struct ndp *m, uint8_t out[static NDP_BYTES_MAX]);
/* `lladdr_len`: address length of the link (6 or 20). Ignores trailing bytes and unknown options.
 * -EBADMSG: not a solicitation or advertisement that passes RFC 4861 7.1.1 and 7.1.2 (hop limit
 * 255, checksum, code, lengths, addresses). */
int ndp_read(struct span packet, uint8_t lladdr_len, struct ndp *ret);

struct ipaddr ndp_solicited_node(const struct ipaddr *a);
/* Returns the MAC address of a multicast group: 33:33:... (RFC 2464); on IPoIB 00:ff:ff:ff and
 * the GID of the group with scope and PKey of the link's broadcast address (RFC 4391 section 4). */
struct mac ndp_multicast_mac(const struct ipaddr *group, const struct mac *broadcast);

/* Classifies a packet. `from`: sender of the frame; len 0: the link type does not report it
 * (IPoIB). */
enum probe_saw ndp_judge(const struct ndp *m, const struct mac *from, const struct probe_ears *q,
			 struct mac *other);

#endif
