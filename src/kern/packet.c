/* SPDX-License-Identifier: Apache-2.0 */
#include "kern/packet.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include <linux/filter.h>
#include <linux/if.h>
#include <linux/if_arp.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>

#include "base/cleanup.h"
#include "kern/arp.h"
#include "kern/ndp.h"

/* sockaddr_ll ends in 8 bytes of address; the kernel takes longer ones that run over its end. */
union link_addr {
	struct sockaddr_ll ll;
	uint8_t room[sizeof(struct sockaddr_ll) + MAC_MAX];
};

enum { HEAR_MAX = 2048, TAKE_ALL = 0xffff, FILTER_MAX = 16 };

bool packet_link_running(const struct packet_link *l)
{
	return (l->flags & IFF_UP) && (l->flags & IFF_RUNNING);
}

int packet_link_usable(const struct packet_link *l, const char *ifname, struct err *e)
{
	if (l->arptype != ARPHRD_ETHER && l->arptype != ARPHRD_INFINIBAND)
		return err_kind(e, ERR_UNSUPPORTED, -EOPNOTSUPP,
				"probe on '%s': links of type %u have no ARP or NDP", ifname,
				l->arptype);
	if (l->flags & IFF_NOARP)
		return err_kind(e, ERR_UNSUPPORTED, -EOPNOTSUPP,
				"probe on '%s': the link is set to use no ARP (NOARP)", ifname);
	return 0;
}

/* ARP: sender is the address or the gateway, or the target is the address. */
static size_t arp_filter(struct sock_filter *f, uint8_t hlen, const struct probe_ears *q)
{
	uint32_t ip = (uint32_t)ip_num(&q->ip);
	uint32_t gw = q->gateway.family ? (uint32_t)ip_num(&q->gateway) : ip;
	const struct sock_filter prog[] = {
		BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 4), /* both address lengths */
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(hlen << 8 | 4), 0, 5),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 8U + hlen),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ip, 4, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, gw, 3, 0),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 12U + 2 * hlen),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ip, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, 0),
		BPF_STMT(BPF_RET | BPF_K, TAKE_ALL),
	};

	memcpy(f, prog, sizeof(prog));
	return ARRAY_LEN(prog);
}

/* NDP, by the last four bytes of target and source: ndp_judge() looks at all sixteen. */
static size_t ndp_filter(struct sock_filter *f, const struct probe_ears *q)
{
	uint32_t ip = (uint32_t)ip_num(&q->ip);
	uint32_t gw = q->gateway.family ? (uint32_t)ip_num(&q->gateway) : ip;
	const struct sock_filter prog[] = {
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 6),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_ICMPV6, 0, 8),
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 40),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NDP_ADVERTISE, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NDP_SOLICIT, 0, 5),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 60),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ip, 4, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, gw, 3, 0),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 20),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ip, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, 0),
		BPF_STMT(BPF_RET | BPF_K, TAKE_ALL),
	};

	memcpy(f, prog, sizeof(prog));
	return ARRAY_LEN(prog);
}

static int open_socket(int family, const char *what, int *fd, struct err *e)
{
	int r;

	/* Protocol 0: a packet socket takes nothing in until it is bound, filter and all. */
	*fd = socket(family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (*fd >= 0)
		return 0;
	r = -errno;
	return err_kind(e, r == -EPERM ? ERR_UNAVAILABLE : ERR_OTHER, r, "open %s socket: %s%s",
			what, errno_name(r), r == -EPERM ? " (needs CAP_NET_RAW)" : "");
}

int packet_open_send(int *fd, struct err *e)
{
	return open_socket(AF_PACKET, "a packet", fd, e);
}

static uint16_t ethertype(const struct ipaddr *ip)
{
	return htons(ip->family == 4 ? ETH_P_ARP : ETH_P_IPV6);
}

int packet_open_probe(const struct packet_link *l, const struct probe_ears *q, int *ret,
		      struct err *e)
{
	struct sock_filter code[FILTER_MAX];
	struct sock_fprog prog = {.filter = code};
	struct sockaddr_ll ll = {.sll_family = AF_PACKET,
				 .sll_protocol = ethertype(&q->ip),
				 .sll_ifindex = l->index};
	auto_fd int fd = -1;
	int r = open_socket(AF_PACKET, "a packet", &fd, e);

	if (r < 0)
		return r;
	prog.len = (unsigned short)(q->ip.family == 4 ? arp_filter(code, l->mac.len, q)
						      : ndp_filter(code, q));
	if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog)) < 0)
		return err_sys(e, -errno, "filter a packet socket");
	if (bind(fd, (struct sockaddr *)&ll, sizeof(ll)) < 0)
		return err_sys(e, -errno, "bind a packet socket to link %d", l->index);
	*ret = take_fd(&fd);
	return 0;
}

int packet_join(const struct packet_link *l, const struct ipaddr *ip, int *ret, struct err *e)
{
	struct ipaddr group = ndp_solicited_node(ip);
	struct ipv6_mreq want = {.ipv6mr_interface = (unsigned int)l->index};
	auto_fd int fd = -1;
	int r = open_socket(AF_INET6, "an IPv6", &fd, e);

	if (r < 0)
		return r;
	memcpy(&want.ipv6mr_multiaddr, group.b, 16);
	if (setsockopt(fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, &want, sizeof(want)) < 0)
		return err_sys(e, -errno,
			       "join the solicited-node group on link %d (is IPv6 on there?)",
			       l->index);
	*ret = take_fd(&fd);
	return 0;
}

static int send_to(int fd, const struct packet_link *l, uint16_t protocol, const struct mac *dst,
		   const uint8_t *p, size_t n)
{
	union link_addr to = {.ll = {.sll_family = AF_PACKET,
				     .sll_protocol = protocol,
				     .sll_ifindex = l->index,
				     .sll_halen = dst->len}};

	memcpy(to.room + offsetof(struct sockaddr_ll, sll_addr), dst->b, dst->len);
	if (sendto(fd, p, n, MSG_NOSIGNAL, (struct sockaddr *)&to, sizeof(to)) < 0)
		return -errno;
	return 0;
}

static int send_arp(int fd, const struct packet_link *l, const struct arp *a)
{
	uint8_t out[ARP_BYTES_MAX];
	size_t n = arp_write(a, out);

	return send_to(fd, l, htons(ETH_P_ARP), &l->broadcast, out, n);
}

static int send_ndp(int fd, const struct packet_link *l, const struct ndp *m)
{
	struct mac dst = ndp_multicast_mac(&m->dst, &l->broadcast);
	uint8_t out[NDP_BYTES_MAX];
	size_t n = ndp_write(m, out);

	return send_to(fd, l, htons(ETH_P_IPV6), &dst, out, n);
}

int packet_ask(int fd, const struct packet_link *l, const struct mac *mine,
	       const struct probe_ears *q, bool gateway)
{
	if (q->ip.family == 4) {
		struct arp a = gateway ? arp_request(l->arptype, mine, &q->ip, &q->gateway)
				       : arp_probe(l->arptype, mine, &q->ip);

		return send_arp(fd, l, &a);
	}
	struct ndp m = gateway ? ndp_solicitation(mine, &q->ip, &q->gateway)
			       : ndp_probe(&q->ip, q->nonce);

	return send_ndp(fd, l, &m);
}

int packet_announce(int fd, const struct packet_link *l, const struct mac *mine,
		    const struct ipaddr *ip)
{
	if (ip->family == 4) {
		struct arp a = arp_announcement(l->arptype, mine, ip);

		return send_arp(fd, l, &a);
	}
	struct ndp m = ndp_announcement(mine, ip);

	return send_ndp(fd, l, &m);
}

static enum probe_saw judge(struct span p, const struct sockaddr_ll *from, uint8_t mac_len,
			    const struct probe_ears *q, struct mac *other)
{
	struct mac sender = {0};
	struct arp a;
	struct ndp m;

	if (q->ip.family == 4)
		return arp_read(p, &a) ? SAW_NOTHING
				       : arp_judge(&a, from->sll_pkttype == PACKET_HOST, q, other);
	/* IPoIB has no sender in its frames: length 0. */
	if (from->sll_halen == mac_len && mac_len <= sizeof(from->sll_addr)) {
		sender.len = mac_len;
		memcpy(sender.b, from->sll_addr, mac_len);
	}
	return ndp_read(p, mac_len, &m) ? SAW_NOTHING : ndp_judge(&m, &sender, q, other);
}

int packet_hear(int fd, const struct packet_link *l, const struct probe_ears *q,
		enum probe_saw *saw, struct mac *other)
{
	char in[HEAR_MAX];
	union link_addr from = {0};
	socklen_t len = sizeof(from);
	ssize_t n = recvfrom(fd, in, sizeof(in), MSG_DONTWAIT, (struct sockaddr *)&from, &len);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	*saw = from.ll.sll_pkttype == PACKET_OUTGOING
		       ? SAW_NOTHING
		       : judge((struct span){in, (size_t)n}, &from.ll, l->mac.len, q, other);
	return 1;
}
