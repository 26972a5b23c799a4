/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KERN_PACKET_H
#define UNIRAIL_KERN_PACKET_H

/*
 * Packet sockets without link header (AF_PACKET, SOCK_DGRAM): the kernel writes the header from a
 * link address of any length, which is what makes them work on IPoIB.
 */

#include "base/err.h"
#include "kern/nl.h"
#include "kern/probe_see.h"

/* What a link is to a packet socket. */
struct packet_link {
	int index;
	uint32_t flags;	  /* IFF_* */
	uint16_t arptype; /* ARPHRD_* */
	struct mac mac, broadcast;
};

/* Every link of the wire's namespace; free() the list. */
int packet_links(struct nl_wire *w, struct packet_link **ret, size_t *n, struct err *e);
const struct packet_link *packet_link_find(const struct packet_link *list, size_t n, int index);
bool packet_link_running(const struct packet_link *l); /* up, with carrier, and can send */
/* 0 when ARP and NDP can be spoken there, else -EOPNOTSUPP saying why. */
int packet_link_usable(const struct packet_link *l, const char *ifname, struct err *e);

/* Sockets are of the caller's namespace. This one sends on any link and takes nothing in. */
int packet_open_send(int *fd, struct err *e);
/*
 * Bound to the link, non-blocking, with a filter in the kernel that lets through ARP (NDP when
 * q->ip is IPv6) about q->ip and q->gateway only: a flood of other hosts' ARP costs us nothing.
 */
int packet_open_probe(const struct packet_link *l, const struct probe_ears *q, int *fd,
		      struct err *e);
/* Hears the address's solicited-node group on the link as long as *fd is open: without it, neither
 * the card nor a snooping switch lets another host's probe through. */
int packet_join(const struct packet_link *l, const struct ipaddr *ip, int *fd, struct err *e);

/* The packets themselves, by family. 0 or -errno. */
int packet_ask(int fd, const struct packet_link *l, const struct mac *mine,
	       const struct probe_ears *q, bool gateway);
int packet_announce(int fd, const struct packet_link *l, const struct mac *mine,
		    const struct ipaddr *ip);
/* Takes one packet from a probe socket: 1 and *saw, 0 when none is waiting, -errno. */
int packet_hear(int fd, const struct packet_link *l, const struct probe_ears *q,
		enum probe_saw *saw, struct mac *other);

#endif
