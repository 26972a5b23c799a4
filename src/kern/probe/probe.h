/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KERN_PROBE_PROBE_H
#define UNIRAIL_KERN_PROBE_PROBE_H

/*
 * Address-conflict and gateway detection on all rails at once, by ARP (RFC 5227, RFC 826) and NDP
 * (RFC 4861, 4862), and gratuitous announcement. One packet socket a family, one event loop.
 *
 * Carrier comes first and has an allowance of its own, since it is not the network's to be quick:
 * a link that was just set up trains for seconds (a NIC moved with its cable), waits for its PF (a
 * VF) or for the subnet manager (IPoIB). Each link's time limit starts when its carrier is there.
 *
 * Conflict: up to `tries` probes `interval_ms` apart with sender address 0.0.0.0 (for IPv6: a
 * neighbour solicitation from ::), a conflict is any ARP packet whose sender is the address and
 * whose MAC is not local, or another host's probe for it (RFC 5227 2.1.1); it is quiet when the
 * last interval has passed without one, on a link that still has carrier. "Local" is every link of
 * the namespace: with arp_ignore=0 a sister rail answers for the address as well. Only then is
 * the gateway asked (from the address itself), up to `tries` times: so no host's neighbour
 * cache is poisoned
 * by an address in conflict.
 * ARP frames carry the link's own type (Ethernet 1, InfiniBand 32 with 20-byte addresses).
 */

#include <stdbool.h>

#include "base/err.h"
#include "base/ip.h"

enum probe_state {
	PROBE_NONE,	   /* nothing was asked */
	PROBE_OK,	   /* no conflict, gateway (if asked) reached */
	PROBE_CONFLICT,	   /* .other holds the address */
	PROBE_UNREACHABLE, /* gateway silent until the limit */
	PROBE_FAILED,	   /* could not ask: .why */
};

struct probe {
	/* in */
	const char *ifname; /* for words */
	int index;	    /* in the namespace */
	struct mac mac;
	uint16_t arptype;	   /* ARPHRD_* */
	struct ipaddr ip, gateway; /* gateway.family 0: none to ask */
	bool want_conflict, want_gateway;
	/* out */
	enum probe_state state;
	struct mac other;    /* who holds the address; the gateway's MAC when OK */
	int64_t carrier_us;  /* time spent waiting for carrier */
	int64_t conflict_us; /* time spent on the conflict test */
	int64_t gateway_us;  /* from first request to the gateway's answer */
	int sent;	     /* packets */
	struct err reason;
};

struct probe_limits {
	int tries;	 /* default 3 */
	int interval_ms; /* default 100 */
	int total_ms;	 /* default 1000: both tests together, from carrier on */
	int carrier_ms;	 /* default 10000: for carrier, before that; all waits of a link together */
};
#define PROBE_LIMITS_INIT                                                                          \
	{                                                                                          \
		.tries = 3, .interval_ms = 100, .total_ms = 1000, .carrier_ms = 10 * 1000          \
	}

/* Returns 0 when the probes were carried out (look at each state), negative when none could be.
 * The links are up already. IPv6 waits for nothing but carrier: the packets are made whole
 * (kern/probe/ndp.h), so neither the link's link-local nor the address must have passed the kernel's own
 * test, which takes a second or two on a new link. */
int probe_run(int netns_fd, struct probe *p, size_t n, const struct probe_limits *l, struct err *e);

/* The same again for other addresses, when some were in conflict: all rounds have one limit. */
struct probe_rounds {
	struct probe_limits limits;
	int left;	/* rounds */
	int64_t end_ms; /* 0: not begun */
};
int probe_round(struct probe_rounds *r, int netns_fd, struct probe *p, size_t n, struct err *e);
/* There is time for another one. */
bool probe_round_left(const struct probe_rounds *r);

/* One line for people and for the CNI error: "rail net1: ip conflict: pod's interface net1 with an
 * conflicting ip 10.0.0.2, 10.0.0.2 is located at 0a:..." or "gateway 10.0.0.1 is unreachable". */
void probe_describe(const struct probe *p, struct err *e);

struct announce {
	const char *ifname;
	int index;
	struct mac mac;
	uint16_t arptype;
	struct ipaddr ip;
};
/* Gratuitous ARP request / unsolicited NA for each; best effort: failures are logged at debug. */
void announce_all(int netns_fd, const struct announce *a, size_t n);

#endif
