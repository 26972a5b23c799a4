/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KERN_PROBE_CLASSIFY_H
#define UNIRAIL_KERN_PROBE_CLASSIFY_H

/* Filter criteria of a probe, and the meaning of a received packet. Shared by arp.c, ndp.c and
 * probe.c. */

#include <stdbool.h>

#include "base/ip.h"

enum { PROBE_NONCE = 6 };

enum probe_saw {
	SAW_NOTHING,
	SAW_CONFLICT, /* another host has, or is asking to have, the address */
	SAW_GATEWAY,  /* the gateway answered us */
};

struct probe_ears {
	struct ipaddr ip, gateway; /* gateway.family 0: none */
	const struct mac *mine;	   /* of every link in the namespace: with the kernel's default
				      arp_ignore=0 another link of this namespace answers for the address */
	size_t n_mine;
	uint8_t nonce[PROBE_NONCE]; /* of our own solicitations (RFC 7527) */
};

/* IPoIB addresses are compared without their first byte, which holds flags that a peer may see
 * differently (RFC 4391 section 9, RFC 4755). */
bool probe_mac_same(const struct mac *a, const struct mac *b);
bool probe_is_mine(const struct probe_ears *q, const struct mac *m);

#endif
