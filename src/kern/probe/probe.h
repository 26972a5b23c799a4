/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KERN_PROBE_PROBE_H
#define UNIRAIL_KERN_PROBE_PROBE_H

/*
 * Address-conflict and gateway detection on all rails at once, by ARP (RFC 5227, RFC 826) and NDP
 * (RFC 4861, 4862), and gratuitous announcement. One packet socket per family, one event loop.
 *
 * The wait for the carrier comes first and has a time limit of its own, because it may take seconds
 * after a link is set up: the port of a NIC negotiates with the switch, a VF waits for its PF, and
 * an IPoIB link waits for the subnet manager. The time limit of the tests starts when the link has
 * its carrier.
 *
 * Conflict: sends up to `tries` probes, `interval_ms` apart, with sender address 0.0.0.0 (IPv6:
 * neighbour solicitations from ::). A packet from a MAC that is not local is a conflict if its
 * sender is the probed address, if it advertises this address (IPv6), or if it is itself a probe of
 * this address (RFC 5227 2.1.1). There is no conflict if the last interval has passed without such
 * a packet, and the link has had its carrier during the whole test. A MAC is local if a link of the
 * namespace or one of the probes has it: with arp_ignore=0 another rail answers for the address as
 * well.
 *
 * Gateway: sends up to `tries` requests for the gateway's address, with the probed address as
 * sender. This test starts only after the conflict test, so that an address in conflict does not
 * poison the neighbour cache of any host.
 *
 * ARP frames carry the link's own type (Ethernet 1, InfiniBand 32 with 20-byte addresses).
 */

#include <stdbool.h>

#include "base/err.h"
#include "base/ip.h"

enum probe_state {
	/* no test was requested, or probe_run() failed before it started any probe */
	PROBE_NONE,
	PROBE_OK,	   /* each requested test has passed: no conflict; the gateway replied */
	PROBE_CONFLICT,	   /* another host has the address: .other */
	PROBE_UNREACHABLE, /* the gateway has not replied within the limit */
	PROBE_FAILED,	   /* the test could not be carried out: .reason */
};

struct probe {
	/* in */
	const char *ifname;	   /* name for error messages */
	int index;		   /* ifindex in the namespace */
	struct mac mac;		   /* len 0: that of the link */
	uint16_t arptype;	   /* ARPHRD_*; 0: that of the link */
	struct ipaddr ip, gateway; /* gateway.family 0: do not test the gateway */
	bool want_conflict, want_gateway;
	/* out */
	enum probe_state state;
	/* PROBE_CONFLICT: MAC of the other host; PROBE_OK: MAC of the gateway, if it was tested */
	struct mac other;
	int64_t carrier_us;  /* sum of the waits for the carrier that ended with a carrier */
	int64_t conflict_us; /* time spent on the conflict test */
	int64_t gateway_us;  /* from the first request to the gateway to its reply or the limit */
	int sent;	     /* packets */
	struct err reason;
};

struct probe_limits {
	int tries;	 /* default 3 */
	int interval_ms; /* default 100 */
	int total_ms;	 /* default 1000; for both tests together, after the carrier is there */
	/* default 10000; counted from the start of probe_run(): a link must have its carrier
	 * within this time, also if it loses the carrier during the test */
	int carrier_ms;
};
#define PROBE_LIMITS_INIT                                                                          \
	{                                                                                          \
		.tries = 3, .interval_ms = 100, .total_ms = 1000, .carrier_ms = 10 * 1000          \
	}

/*
 * Runs all probes, and sets the state of each. Returns 0 if at least one could be started, or none
 * was requested, otherwise a negative code. The links must be up. IPv6 waits only for the carrier,
 * not for the kernel's own duplicate address detection, which takes one or two seconds on a new
 * link: the packets are complete (kern/probe/ndp.h), so the link needs no usable address.
 */
int probe_run(int netns_fd, struct probe *p, size_t n, const struct probe_limits *l, struct err *e);

/* Repeated rounds with other addresses after conflicts: all rounds together have one time limit. */
struct probe_rounds {
	struct probe_limits limits;
	int left;	/* rounds */
	int64_t end_ms; /* monotonic ms at which the limit expires; 0: no round has begun */
};
int probe_round(struct probe_rounds *r, int netns_fd, struct probe *p, size_t n, struct err *e);
/* Returns whether a round is left and there is time for it. */
bool probe_round_left(const struct probe_rounds *r);

/* Sets e to one line for the log and the CNI error: "rail net1: ip conflict: pod's interface
 * net1 with an conflicting ip 10.0.0.2, 10.0.0.2 is located at 0a:...", "rail net1: gateway
 * 10.0.0.1 is unreachable", or "rail net1: " and .reason. PROBE_NONE and PROBE_OK leave e
 * unchanged. */
void probe_describe(const struct probe *p, struct err *e);

struct announce {
	const char *ifname;
	int index;
	struct mac mac;
	struct ipaddr ip;
};
/* Sends a gratuitous ARP request or an unsolicited NA for each element. Best effort: failures are logged at level
 * debug. */
void announce_all(int netns_fd, const struct announce *a, size_t n);

#endif
