/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KERN_PROBE_CLASSIFY_H
#define UNIRAIL_KERN_PROBE_CLASSIFY_H

/* What a probe listens for, and the meaning of a received packet. Shared by arp.c, ndp.c, packet.c
 * and probe.c. */

#include <stdbool.h>

#include "base/ip.h"

enum { PROBE_NONCE = 6 };

enum probe_saw {
	SAW_NOTHING,
	SAW_CONFLICT, /* another host uses the address, or is about to use it */
	SAW_GATEWAY,  /* the gateway answered this host */
};

struct probe_ears {
	struct ipaddr ip, gateway; /* the probed address; gateway.family 0: none */
	/* MACs of all probes and of all links in the namespace, whose packets are no conflict: with
	 * the kernel's default arp_ignore=0 any link of the namespace answers for the address */
	const struct mac *mine;
	size_t n_mine;
	uint8_t nonce[PROBE_NONCE]; /* nonce of the probe's own solicitations (RFC 7527) */
};

/* Compares addresses. For IPoIB the first byte is ignored: it contains flags that may differ at the
 * peer (RFC 4391 section 9, RFC 4755). */
bool probe_mac_same(const struct mac *a, const struct mac *b);
bool probe_is_mine(const struct probe_ears *q, const struct mac *m);

#endif
