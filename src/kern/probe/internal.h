/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KERN_PROBE_INTERNAL_H
#define UNIRAIL_KERN_PROBE_INTERNAL_H

/* State of a run of probes; probe.c only. */

#include "base/loop.h"
#include "kern/probe/packet.h"
#include "kern/probe/probe.h"

/* Waiting for carrier; conflict test; asking the gateway; .state is known. */
enum stage { WAITING, PROBING, ASKING, DONE };

struct job {
	struct run *run;
	struct probe *p;
	struct packet_link link;
	struct mac mine;
	struct probe_ears ears;
	struct packet_watch watch; /* of the two */
	enum stage stage;
	int left; /* packets to send in this stage */
	int64_t since_us;
	int blocked;	  /* why nothing could be sent last time */
	int64_t waits_ms; /* since when it is WAITING */
	uint32_t changes; /* of carrier, until the test began */
	struct loop_timer *timer, *limit;
};

/* Socket of one family, shared by all rails. */
struct ears {
	struct run *run;
	int family, fd;
};

struct run {
	struct loop *loop;
	struct nl_wire *wire;
	const struct probe_limits *limits;
	struct packet_link *links;
	struct mac *macs; /* of all links and of all probes */
	struct job *jobs;
	struct ears v4, v6;
	int groups_fd;
	size_t n_links, n_macs, n_jobs, open;
	int64_t links_ms; /* when they were listed */
	int64_t begun_ms;
};

bool probe_has_gateway(const struct probe *p);
/* The loop's callback for a struct ears. */
void probe_hear(void *arg, uint32_t events);
/*
 * Makes the jobs, in the namespace. What cannot be asked is FAILED at once, .why says why; negative
 * when that is so for all of them. Sockets and wire stay in the namespace; the caller does not.
 */
int probe_start(struct run *run, int netns_fd, struct probe *p, size_t n, struct err *e);

#endif
