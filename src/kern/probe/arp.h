/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KERN_PROBE_ARP_H
#define UNIRAIL_KERN_PROBE_ARP_H

/* ARP packets for IPv4 (RFC 826, RFC 5227; IPoIB: RFC 4391 section 9), without link header. */

#include "base/buf.h"
#include "kern/probe/classify.h"

enum { ARP_REQUEST = 1, ARP_REPLY = 2, ARP_BYTES_MAX = 8 + 2 * (20 + 4) };

struct arp {
	uint16_t htype; /* hardware type, ARPHRD_*: Ethernet 1, InfiniBand 32 */
	uint16_t op;
	struct mac sha, tha;
	struct ipaddr spa, tpa;
};

/* Returns an ARP probe. Its sender address is 0.0.0.0, so that no host updates its neighbour
 * cache. */
struct arp arp_probe(uint16_t htype, const struct mac *mine, const struct ipaddr *ip);
struct arp arp_request(uint16_t htype, const struct mac *mine, const struct ipaddr *from,
		       const struct ipaddr *to);
/* Returns a gratuitous ARP request, whose sender IP and target IP are both `ip` (RFC 5227
 * section 3 explains why an announcement is a request, not a reply). */
struct arp arp_announcement(uint16_t htype, const struct mac *mine, const struct ipaddr *ip);

size_t arp_write(const struct arp *a, uint8_t out[static ARP_BYTES_MAX]);
/* Ignores trailing bytes (Ethernet pads). -EBADMSG: not an ARP packet for IPv4 over Ethernet or
 * InfiniBand with address lengths that match the type. */
int arp_read(struct span packet, struct arp *ret);

/* Classifies a packet. `unicast`: the frame was addressed to this host only. *other: MAC of the
 * packet's sender, for SAW_CONFLICT and SAW_GATEWAY. */
enum probe_saw arp_judge(const struct arp *a, bool unicast, const struct probe_ears *q,
			 struct mac *other);

#endif
