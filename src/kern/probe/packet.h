/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KERN_PROBE_PACKET_H
#define UNIRAIL_KERN_PROBE_PACKET_H

/*
 * Packet sockets without link header (AF_PACKET, SOCK_DGRAM): the kernel writes the header from a
 * link address of any length, so the sockets work on IPoIB as well.
 */

#include "base/err.h"
#include "kern/netlink/nl.h"
#include "kern/probe/classify.h"

/* A link, for packet sockets. */
struct packet_link {
	int index;
	uint32_t flags;	  /* IFF_* */
	uint16_t arptype; /* ARPHRD_* */
	uint32_t changes; /* number of changes of the carrier */
	struct mac mac, broadcast;
};

/* Lists every link of the wire's namespace; the caller frees the list. */
int packet_links(struct nl_wire *w, struct packet_link **ret, size_t *n, struct err *e);
const struct packet_link *packet_link_find(const struct packet_link *list, size_t n, int index);
/* Returns whether the link is up, has a carrier and can send. */
bool packet_link_running(const struct packet_link *l);
/* Returns 0 if ARP and NDP are supported on the link, else -EOPNOTSUPP with the reason. */
int packet_link_usable(const struct packet_link *l, const char *ifname, struct err *e);

/* One probe: the link, and the addresses for the packet filter. */
struct packet_watch {
	const struct packet_link *link;
	const struct probe_ears *ears;
};

/*
 * Sockets belong to the caller's namespace. The kernel takes 10 to 20 ms to close a packet socket
 * (it waits for RCU), so callers open only one socket per family, for all links.
 */
int packet_open_send(int *fd, struct err *e); /* sends on any link, receives nothing */
/*
 * Opens a non-blocking socket for ARP (family 4) or NDP (6). A kernel filter accepts only packets
 * about the address or gateway of a watch on its link, so a flood of ARP from other hosts costs the
 * process nothing.
 */
int packet_open_probe(int family, const struct packet_watch *w, size_t n, int *fd, struct err *e);
/* Joins the solicited-node group of the address on the link; opens *fd if it is -1. The membership
 * lasts while *fd is open. Without the membership, the NIC or a snooping switch drops probes of
 * other hosts. */
int packet_join(const struct packet_link *l, const struct ipaddr *ip, int *fd, struct err *e);

/* Functions that send an ARP packet (IPv4) or an NDP packet (IPv6), depending on the family of
 * the probed or announced address. They return 0 or -errno. */
int packet_send_request(int fd, const struct packet_link *l, const struct mac *mine,
			const struct probe_ears *q, bool gateway);
int packet_announce(int fd, const struct packet_link *l, const struct mac *mine,
		    const struct ipaddr *ip);

enum { PACKET_IN_MAX = 2048 };

struct packet_in {
	int index;    /* ifindex of the link */
	bool unicast; /* the frame was addressed to this host only */
	/* sender of the frame; len 0: the link type does not report it (IPoIB) */
	struct mac sender;
	size_t n;
	char bytes[PACKET_IN_MAX];
};

/* Reads one packet from a probe socket. Returns 1, 0 if none is waiting, or -errno. */
int packet_recv(int fd, struct packet_in *in);
enum probe_saw packet_judge(const struct packet_in *in, const struct packet_watch *w,
			    struct mac *other);

#endif
