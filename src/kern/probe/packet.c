/* SPDX-License-Identifier: Apache-2.0 */
#include "kern/probe/packet.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <linux/if.h>
#include <linux/if_arp.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/filter.h>
#include <linux/rtnetlink.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "kern/netlink/attr.h"
#include "kern/probe/arp.h"
#include "kern/probe/ndp.h"

/* sockaddr_ll has room for an address of 8 bytes. The kernel accepts a longer address that
 * continues after the end of the struct. */
union link_addr {
	struct sockaddr_ll ll;
	uint8_t room[sizeof(struct sockaddr_ll) + MAC_MAX];
};

bool packet_link_running(const struct packet_link *l)
{
	/* IFF_RUNNING follows the carrier with up to a second of delay; until then the link drops
	 * packets. */
	const unsigned int all = IFF_UP | IFF_LOWER_UP | IFF_RUNNING;

	return (l->flags & all) == all;
}

int packet_link_usable(const struct packet_link *l, const char *ifname, struct err *e)
{
	if (l->arptype != ARPHRD_ETHER && l->arptype != ARPHRD_INFINIBAND)
		return err_kind(e, ERR_UNSUPPORTED, -EOPNOTSUPP,
				"link '%s': ARP and NDP are not supported on links of type %u",
				ifname, l->arptype);
	if (l->flags & IFF_NOARP)
		return err_kind(e, ERR_UNSUPPORTED, -EOPNOTSUPP,
				"link '%s' is set to use no ARP (NOARP)", ifname);
	return 0;
}

static int open_socket(int family, const char *what, int *fd, struct err *e)
{
	int r;

	/* With protocol 0 a packet socket receives nothing until packet_open_probe() binds it,
	 * after it has attached the filter. */
	*fd = socket(family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (*fd >= 0)
		return 0;
	r = -errno;
	return err_kind(e, r == -EPERM ? ERR_UNAVAILABLE : ERR_OTHER, r, "open %s socket: %s%s",
			what, errno_text(r), r == -EPERM ? " (needs CAP_NET_RAW)" : "");
}

int packet_open_send(int *fd, struct err *e)
{
	return open_socket(AF_PACKET, "a packet", fd, e);
}

static int packet_filter(int fd, int family, const struct packet_watch *w, size_t n, struct err *e);

int packet_open_probe(int family, const struct packet_watch *w, size_t n, int *ret, struct err *e)
{
	struct sockaddr_ll any = {.sll_family = AF_PACKET};
	auto_fd int fd = -1;
	int r = open_socket(AF_PACKET, "a packet", &fd, e);

	if (!r)
		r = packet_filter(fd, family, w, n, e);
	if (r < 0)
		return r;
	any.sll_protocol = htons(family == 4 ? ETH_P_ARP : ETH_P_IPV6);
	if (bind(fd, (struct sockaddr *)&any, sizeof(any)) < 0)
		return err_sys(e, -errno, "bind a packet socket");
	*ret = take_fd(&fd);
	return 0;
}

int packet_join(const struct packet_link *l, const struct ipaddr *ip, int *fd, struct err *e)
{
	struct ipaddr group = ndp_solicited_node(ip);
	struct ipv6_mreq want = {.ipv6mr_interface = (unsigned int)l->index};
	int r = *fd < 0 ? open_socket(AF_INET6, "an IPv6", fd, e) : 0;

	if (r < 0)
		return r;
	memcpy(&want.ipv6mr_multiaddr, group.b, 16);
	/* EADDRINUSE: the socket has joined this group on the link already, for another address
	 * with the same last three bytes */
	if (setsockopt(*fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, &want, sizeof(want)) < 0 &&
	    errno != EADDRINUSE)
		return err_sys(e, -errno,
			       "join the solicited-node group (is IPv6 enabled on the link?)");
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

int packet_send_request(int fd, const struct packet_link *l, const struct mac *mine,
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

int packet_recv(int fd, struct packet_in *in)
{
	union link_addr from = {0};
	socklen_t len = sizeof(from);
	ssize_t n = recvfrom(fd, in->bytes, sizeof(in->bytes), MSG_DONTWAIT,
			     (struct sockaddr *)&from, &len);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	in->n = (size_t)n;
	in->index = from.ll.sll_ifindex;
	in->unicast = from.ll.sll_pkttype == PACKET_HOST;
	in->sender = (struct mac){.len = from.ll.sll_halen};
	if (in->sender.len > sizeof(from.ll.sll_addr))
		in->sender.len = 0;
	memcpy(in->sender.b, from.ll.sll_addr, in->sender.len);
	return 1;
}

enum probe_saw packet_judge(const struct packet_in *in, const struct packet_watch *w,
			    struct mac *other)
{
	const struct span p = {in->bytes, in->n};
	struct arp a;
	struct ndp m;

	if (in->index != w->link->index)
		return SAW_NOTHING;
	if (w->ears->ip.family == 4)
		return arp_read(p, &a) ? SAW_NOTHING : arp_judge(&a, in->unicast, w->ears, other);
	return ndp_read(p, w->link->mac.len, &m) ? SAW_NOTHING
						 : ndp_judge(&m, &in->sender, w->ears, other);
}

enum { BLOCK_MAX = 16, TAKE_ALL = 0xffff };

#define LOAD(size, at)	      BPF_STMT(BPF_LD | (size) | BPF_ABS, (uint32_t)(at))
#define EQUALS(what, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(what), yes, no)
#define TAKE(n)		      BPF_STMT(BPF_RET | BPF_K, (uint32_t)(n))

/* Appends the filter of one watch: it accepts the packet or continues with the next watch. Offsets
 * begin at the network header. Accepts an ARP packet whose sender is the address or the gateway, or
 * whose target is the address. */
static size_t arp_block(struct sock_filter *f, const struct packet_watch *w, uint32_t ip,
			uint32_t gw)
{
	uint8_t hlen = w->link->mac.len;
	const struct sock_filter block[] = {
		LOAD(BPF_W, SKF_AD_OFF + SKF_AD_IFINDEX),
		EQUALS(w->link->index, 0, 8),
		LOAD(BPF_H, 4), /* both address lengths */
		EQUALS(hlen << 8 | 4, 0, 6),
		LOAD(BPF_W, 8 + hlen),
		EQUALS(ip, 3, 0),
		EQUALS(gw, 2, 0),
		LOAD(BPF_W, 12 + 2 * hlen),
		EQUALS(ip, 0, 1),
		TAKE(TAKE_ALL),
	};

	memcpy(f, block, sizeof(block));
	return ARRAY_LEN(block);
}

/* Accepts an NDP packet whose target is the address or the gateway, or whose source is the address;
 * compares only their last four bytes: ndp_judge() compares all sixteen. */
static size_t ndp_block(struct sock_filter *f, const struct packet_watch *w, uint32_t ip,
			uint32_t gw)
{
	const struct sock_filter block[] = {
		LOAD(BPF_W, SKF_AD_OFF + SKF_AD_IFINDEX),
		EQUALS(w->link->index, 0, 11),
		LOAD(BPF_B, 6),
		EQUALS(IPPROTO_ICMPV6, 0, 9),
		LOAD(BPF_B, 40),
		EQUALS(NDP_ADVERTISE, 1, 0),
		EQUALS(NDP_SOLICIT, 0, 6),
		LOAD(BPF_W, 60),
		EQUALS(ip, 3, 0),
		EQUALS(gw, 2, 0),
		LOAD(BPF_W, 20),
		EQUALS(ip, 0, 1),
		TAKE(TAKE_ALL),
	};

	memcpy(f, block, sizeof(block));
	return ARRAY_LEN(block);
}

static uint32_t last_word(const struct ipaddr *a)
{
	return (uint32_t)ip_num(a);
}

/* Attaches the filter that packet_open_probe() documents. */
static int packet_filter(int fd, int family, const struct packet_watch *w, size_t n, struct err *e)
{
	auto_free struct sock_filter *code = xcalloc(n + 1, BLOCK_MAX * sizeof(*code));
	size_t len = 0;

	for (size_t i = 0; i < n; i++) {
		const struct probe_ears *q = w[i].ears;
		uint32_t ip = last_word(&q->ip),
			 gw = q->gateway.family ? last_word(&q->gateway) : ip;

		len += family == 4 ? arp_block(code + len, &w[i], ip, gw)
				   : ndp_block(code + len, &w[i], ip, gw);
	}
	code[len++] = (struct sock_filter)TAKE(0);
	struct sock_fprog prog = {.len = (unsigned short)len, .filter = code};

	if (len > BPF_MAXINSNS)
		return err_set(e, -E2BIG,
			       "filter packets: %zu addresses exceed the limit of one "
			       "filter",
			       n);
	if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog)) < 0)
		return err_sys(e, -errno, "filter packets");
	return 0;
}

/* --- list of links with the broadcast address, which struct link (kern/net/link.h) lacks --- */

struct list {
	struct packet_link *v;
	size_t n;
};

static int take_link(void *msg, void *arg)
{
	struct nlmsghdr *h = msg;
	struct nlattr *tb[IFLA_CARRIER_CHANGES + 1];
	const struct ifinfomsg *ifi = nlmsg_data(h);
	struct list *list = arg;
	struct packet_link *l;
	int r;

	if (h->nlmsg_type != RTM_NEWLINK)
		return 0;
	r = msg_attrs(h, sizeof(*ifi), tb, IFLA_CARRIER_CHANGES);
	if (r < 0)
		return r;
	l = &VEC_PUSH(list->v, list->n);
	l->index = ifi->ifi_index;
	l->flags = ifi->ifi_flags;
	l->arptype = ifi->ifi_type;
	l->changes = get_u32(tb[IFLA_CARRIER_CHANGES], 0);
	get_mac(tb[IFLA_ADDRESS], &l->mac);
	get_mac(tb[IFLA_BROADCAST], &l->broadcast);
	return 0;
}

static void forget(void *arg)
{
	((struct list *)arg)->n = 0;
}

int packet_links(struct nl_wire *w, struct packet_link **ret, size_t *n, struct err *e)
{
	const struct ifinfomsg head = {0};
	struct nl_msg *m = msg_new(RTM_GETLINK, NLM_F_DUMP, &head, sizeof(head), MSG_ROOM);
	struct list list = {0};
	int r;

	put_u32(m, IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS);
	r = nl_request(w, m, take_link, forget, &list, e);
	if (r < 0) {
		free(list.v);
		return err_wrap(e, r, "list links");
	}
	*ret = list.v;
	*n = list.n;
	return 0;
}

const struct packet_link *packet_link_find(const struct packet_link *list, size_t n, int index)
{
	for (size_t i = 0; i < n; i++)
		if (list[i].index == index)
			return &list[i];
	return NULL;
}
