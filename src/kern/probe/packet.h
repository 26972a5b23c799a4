/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KERN_PROBE_PACKET_H
#define UNIRAIL_KERN_PROBE_PACKET_H

/*
 * Packet sockets without link header (AF_PACKET, SOCK_DGRAM): the kernel writes the header from a
 * link address of any length, which is what makes them work on IPoIB.
 */

#include "base/err.h"
#include "kern/netlink/nl.h"
#include "kern/probe/classify.h"

/* What a link is to a packet socket. */
struct packet_link {
	int index;
	uint32_t flags;	  /* IFF_* */
	uint16_t arptype; /* ARPHRD_* */
	uint32_t changes; /* how often carrier came or went */
	struct mac mac, broadcast;
};

/* Every link of the wire's namespace; free() the list. */
int packet_links(struct nl_wire *w, struct packet_link **ret, size_t *n, struct err *e);
const struct packet_link *packet_link_find(const struct packet_link *list, size_t n, int index);
bool packet_link_running(const struct packet_link *l); /* up, with carrier, and can send */
/* 0 when ARP and NDP can be spoken there, else -EOPNOTSUPP saying why. */
int packet_link_usable(const struct packet_link *l, const char *ifname, struct err *e);

/* One probe: addresses to filter for, and the link. */
struct packet_watch {
	const struct packet_link *link;
	const struct probe_ears *ears;
};

/*
 * Sockets are of the caller's namespace. Each packet socket takes the kernel 10 to 20 ms to close
 * (it waits for RCU), so there is one a family for all links, not one a rail.
 */
int packet_open_send(int *fd, struct err *e); /* sends on any link, takes nothing in */
/*
 * For ARP (family 4) or NDP (6), non-blocking, with a filter in the kernel that lets through what is
 * about a watch's address or gateway on its link: a flood of other hosts' ARP costs us nothing.
 */
int packet_open_probe(int family, const struct packet_watch *w, size_t n, int *fd, struct err *e);
/* Hears the address's solicited-node group on the link as long as *fd is open (opened by the first
 * call, -1): without it, neither the card nor a snooping switch lets another's probe through. */
int packet_join(const struct packet_link *l, const struct ipaddr *ip, int *fd, struct err *e);

/* The packets themselves, by family. 0 or -errno. */
int packet_send_request(int fd, const struct packet_link *l, const struct mac *mine,
			const struct probe_ears *q, bool gateway);
int packet_announce(int fd, const struct packet_link *l, const struct mac *mine,
		    const struct ipaddr *ip);

enum { PACKET_IN_MAX = 2048 };

struct packet_in {
	int index;	   /* of the link */
	bool unicast;	   /* sent to us alone */
	struct mac sender; /* the frame's; len 0 where the link type does not tell (IPoIB) */
	size_t n;
	char bytes[PACKET_IN_MAX];
};

/* Takes one packet from a probe socket: 1, 0 when none is waiting, -errno. */
int packet_recv(int fd, struct packet_in *in);
enum probe_saw packet_judge(const struct packet_in *in, const struct packet_watch *w,
			    struct mac *other);

#endif
