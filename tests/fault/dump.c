/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel's state of a namespace, read without the netlink code under test: all attributes
 * except those that change by themselves.
 */
#include "fault.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/fib_rules.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/neighbour.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <rdma/rdma_netlink.h>

#include "base/alloc.h"
#include "base/ip.h"
#include "kern/sys/netns.h"

enum { DUMP_MAX = 1 << 22, RECV_MAX = 1 << 17 };

static int socket_in(int ns, int proto)
{
	struct sockaddr_nl a = {.nl_family = AF_NETLINK};
	struct netns_visit v = NETNS_VISIT_INIT;
	struct err e = ERR_INIT;
	int fd;

	if (netns_enter(ns, &v, &e) < 0)
		die("%s", e.text);
	fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, proto);
	if (fd < 0 && errno == EPROTONOSUPPORT && proto == NETLINK_RDMA) {
		netns_leave(&v);
		return -1;
	}
	if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		die("netlink socket: %s", errno_text(errno));
	netns_leave(&v);
	return fd;
}

void ns_open(struct ns *s, int fd, bool strict)
{
	*s = (struct ns){.fd = fd,
			 .route = socket_in(fd, NETLINK_ROUTE),
			 .netfilter = socket_in(fd, NETLINK_NETFILTER),
			 .rdma = socket_in(fd, NETLINK_RDMA),
			 .strict = strict};
}

void ns_close(struct ns *s)
{
	cleanup_fd(&s->route);
	cleanup_fd(&s->netfilter);
	cleanup_fd(&s->rdma);
	cleanup_fd(&s->fd);
}

/* --- one kind of object --- */

struct kind {
	const char *name;
	uint16_t get;
	size_t head; /* size of the header that precedes the attributes in a message */
	/* bit mask of the attributes that are never compared, by number (under 64) */
	uint64_t skip;
	uint64_t lax; /* attributes to skip as well in a namespace whose settings are not
		        * compared */
	const char *(*describe)(const struct nlmsghdr *h, char *text, size_t size);
	bool (*wanted)(const struct nlmsghdr *h);
};

#define BIT(n) (1ULL << (n))

static const struct nlattr *attr(const struct nlmsghdr *h, size_t head, unsigned int type)
{
	const char *p = (const char *)NLMSG_DATA(h) + NLMSG_ALIGN(head);
	const char *end = (const char *)h + h->nlmsg_len;

	while (end - p >= (int)sizeof(struct nlattr)) {
		const struct nlattr *a = (const struct nlattr *)(const void *)p;

		if (a->nla_len < sizeof(*a) || a->nla_len > end - p)
			break;
		if ((a->nla_type & NLA_TYPE_MASK) == type)
			return a;
		p += NLMSG_ALIGN(a->nla_len);
	}
	return NULL;
}

static const char *describe_ip(const struct nlattr *a, int len, const char *none, char *text)
{
	char ip[INET6_ADDRSTRLEN];

	if (!a)
		return none;
	inet_ntop(a->nla_len - NLA_HDRLEN == 4 ? AF_INET : AF_INET6, (const char *)a + NLA_HDRLEN,
		  ip, sizeof(ip));
	snprintf(text, IP_TEXT_MAX, "%s/%d", ip, len);
	return text;
}

static unsigned int u32_of(const struct nlattr *a)
{
	uint32_t v = 0;

	if (a)
		memcpy(&v, (const char *)a + NLA_HDRLEN, sizeof(v));
	return v;
}

static const char *describe_link(const struct nlmsghdr *h, char *text, size_t size)
{
	const struct nlattr *a = attr(h, sizeof(struct ifinfomsg), IFLA_IFNAME);

	snprintf(text, size, "%s", a ? (const char *)a + NLA_HDRLEN : "?");
	return text;
}

static const char *describe_addr(const struct nlmsghdr *h, char *text, size_t size)
{
	const struct ifaddrmsg *m = NLMSG_DATA(h);
	char ip[IP_TEXT_MAX];

	snprintf(text, size, "%s dev %u",
		 describe_ip(attr(h, sizeof(*m), IFA_ADDRESS), m->ifa_prefixlen, "?", ip),
		 m->ifa_index);
	return text;
}

static const char *describe_route(const struct nlmsghdr *h, char *text, size_t size)
{
	const struct rtmsg *m = NLMSG_DATA(h);
	char ip[IP_TEXT_MAX];

	snprintf(text, size, "%s table %u dev %u",
		 describe_ip(attr(h, sizeof(*m), RTA_DST), m->rtm_dst_len, "default", ip),
		 u32_of(attr(h, sizeof(*m), RTA_TABLE)), u32_of(attr(h, sizeof(*m), RTA_OIF)));
	return text;
}

static const char *describe_rule(const struct nlmsghdr *h, char *text, size_t size)
{
	const struct fib_rule_hdr *m = NLMSG_DATA(h);
	char ip[IP_TEXT_MAX];

	snprintf(text, size, "%u from %s table %u", u32_of(attr(h, sizeof(*m), FRA_PRIORITY)),
		 describe_ip(attr(h, sizeof(*m), FRA_SRC), m->src_len, "all", ip),
		 u32_of(attr(h, sizeof(*m), FRA_TABLE)));
	return text;
}

static const char *describe_neigh(const struct nlmsghdr *h, char *text, size_t size)
{
	const struct ndmsg *m = NLMSG_DATA(h);
	char ip[IP_TEXT_MAX];

	snprintf(text, size, "%s dev %d", describe_ip(attr(h, sizeof(*m), NDA_DST), 0, "?", ip),
		 m->ndm_ifindex);
	return text;
}

/* Excludes IPv6 multicast routes, which the kernel adds shortly after a link gets carrier. */
static bool is_stable(const struct nlmsghdr *h)
{
	return ((const struct rtmsg *)NLMSG_DATA(h))->rtm_type != RTN_MULTICAST;
}

static bool is_permanent(const struct nlmsghdr *h)
{
	return ((const struct ndmsg *)NLMSG_DATA(h))->ndm_state & NUD_PERMANENT;
}

static const char *describe_table(const struct nlmsghdr *h, char *text, size_t size)
{
	/* every object has the name of its table in this attribute */
	const struct nlattr *a = attr(h, sizeof(struct nfgenmsg), 1);

	snprintf(text, size, "%s", a ? (const char *)a + NLA_HDRLEN : "?");
	return text;
}

static const char *describe_rdma(const struct nlmsghdr *h, char *text, size_t size)
{
	const struct nlattr *a = attr(h, 0, RDMA_NLDEV_ATTR_DEV_NAME);

	snprintf(text, size, "%s", a ? (const char *)a + NLA_HDRLEN : "?");
	return text;
}

#define NFT(what) NFNL_SUBSYS_NFTABLES << 8 | (what)
static const struct kind kinds[] = {
	{"link", RTM_GETLINK, sizeof(struct ifinfomsg),
	 BIT(IFLA_STATS) | BIT(IFLA_STATS64) | BIT(IFLA_CARRIER_CHANGES) |
		 BIT(IFLA_CARRIER_UP_COUNT) | BIT(IFLA_CARRIER_DOWN_COUNT),
	 BIT(IFLA_AF_SPEC) | BIT(IFLA_OPERSTATE), describe_link, NULL},
	{"addr", RTM_GETADDR, sizeof(struct ifaddrmsg), BIT(IFA_CACHEINFO), 0, describe_addr, NULL},
	{"route", RTM_GETROUTE, sizeof(struct rtmsg), BIT(RTA_CACHEINFO), 0, describe_route,
	 is_stable},
	{"rule", RTM_GETRULE, sizeof(struct fib_rule_hdr), 0, 0, describe_rule, NULL},
	{"neigh", RTM_GETNEIGH, sizeof(struct ndmsg), BIT(NDA_CACHEINFO), 0, describe_neigh,
	 is_permanent},
};
static const struct kind nft_kinds[] = {
	{"nft table", NFT(NFT_MSG_GETTABLE), sizeof(struct nfgenmsg), 0, 0, describe_table, NULL},
	{"nft chain", NFT(NFT_MSG_GETCHAIN), sizeof(struct nfgenmsg), 0, 0, describe_table, NULL},
	{"nft rule", NFT(NFT_MSG_GETRULE), sizeof(struct nfgenmsg), 0, 0, describe_table, NULL},
};

/*
 * Only the name is compared: an InfiniBand function that is bound again has another index and node
 * GUID.
 */
static const struct kind rdma_kind = {"rdma", RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_GET),
				      0,      ~BIT(RDMA_NLDEV_ATTR_DEV_NAME),
				      0,      describe_rdma,
				      NULL};

/* IFLA_AF_SPEC: only its IPv4 part is compared, since the IPv6 part also has counters and times. */
static bool is_inet6_part(const struct kind *k, const struct nlattr *a)
{
	return k->get == RTM_GETLINK && (a->nla_type & NLA_TYPE_MASK) == IFLA_AF_SPEC;
}

static void put_hex(struct buf *b, const void *p, size_t n)
{
	const unsigned char *c = p;

	for (size_t i = 0; i < n; i++) {
		buf_char(b, "0123456789abcdef"[c[i] >> 4]);
		buf_char(b, "0123456789abcdef"[c[i] & 15]);
	}
}

static void put_spec(struct buf *b, const struct nlattr *spec)
{
	const char *p = (const char *)spec + NLA_HDRLEN, *end = (const char *)spec + spec->nla_len;

	while (p < end) {
		const struct nlattr *a = (const struct nlattr *)(const void *)p;

		if ((a->nla_type & NLA_TYPE_MASK) == AF_INET)
			put_hex(b, a, a->nla_len);
		p += NLMSG_ALIGN(a->nla_len);
	}
}

static bool is_ipoib(const struct kind *k, const struct nlmsghdr *h)
{
	return k->get == RTM_GETLINK &&
	       ((const struct ifinfomsg *)NLMSG_DATA(h))->ifi_type == ARPHRD_INFINIBAND;
}

/* Writes only what unirail restores when it returns the device: name, alias, GUID and whether
 * the link is up. Each move of an InfiniBand device to another namespace recreates its IPoIB
 * link, whose hardware address then contains another queue pair number. */
static void put_ipoib(const struct nlmsghdr *h, const char *label, struct buf *b)
{
	const struct ifinfomsg *m = NLMSG_DATA(h);
	const struct nlattr *alias = attr(h, sizeof(*m), IFLA_IFALIAS),
			    *mac = attr(h, sizeof(*m), IFLA_ADDRESS);
	char describe[128];

	buf_printf(b, "%s link %s up %d alias '%s' GUID ", label,
		   describe_link(h, describe, sizeof(describe)), !!(m->ifi_flags & IFF_UP),
		   alias ? (const char *)alias + NLA_HDRLEN : "");
	if (mac && mac->nla_len == NLA_HDRLEN + 20)
		put_hex(b, (const char *)mac + NLA_HDRLEN + 12, 8);
	buf_char(b, '\n');
}

static void put_thing(const struct kind *k, const struct nlmsghdr *h, uint64_t skip,
		      const char *label, struct buf *b)
{
	const char *p = (const char *)NLMSG_DATA(h) + NLMSG_ALIGN(k->head);
	const char *end = (const char *)h + h->nlmsg_len;
	char describe[128];

	buf_printf(b, "%s %s %s ", label, k->name, k->describe(h, describe, sizeof(describe)));
	put_hex(b, NLMSG_DATA(h), k->head);
	while (end - p >= (int)sizeof(struct nlattr)) {
		const struct nlattr *a = (const struct nlattr *)(const void *)p;
		unsigned int type = a->nla_type & NLA_TYPE_MASK;

		if (type >= 64 || !(skip & BIT(type))) {
			buf_printf(b, " %u=", type);
			if (is_inet6_part(k, a))
				put_spec(b, a);
			else
				put_hex(b, (const char *)a + NLA_HDRLEN,
					(size_t)a->nla_len - NLA_HDRLEN);
		}
		p += NLMSG_ALIGN(a->nla_len);
	}
	buf_char(b, '\n');
}

static void request_dump(int fd, const struct kind *k)
{
	struct {
		struct nlmsghdr h;
		char body[64];
	} m = {.h = {.nlmsg_len = (uint32_t)NLMSG_LENGTH(k->head),
		     .nlmsg_type = k->get,
		     .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP}};

	if (send(fd, &m, m.h.nlmsg_len, 0) < 0)
		die("dump of %ss: %s", k->name, errno_text(errno));
}

/* Adds a line for each object of a datagram that k->wanted() does not exclude. False: the
 * datagram ends the dump. */
static bool put_answer(const struct kind *k, const char *p, ssize_t n, uint64_t skip,
		       const char *label, struct buf *b)
{
	for (const struct nlmsghdr *h = (const void *)p; NLMSG_OK(h, (size_t)n);
	     h = NLMSG_NEXT(h, n)) {
		if (h->nlmsg_type == NLMSG_DONE)
			return false;
		if (h->nlmsg_type == NLMSG_ERROR)
			die("dump of %ss was refused", k->name);
		if (is_ipoib(k, h))
			put_ipoib(h, label, b);
		else if (!k->wanted || k->wanted(h))
			put_thing(k, h, skip, label, b);
	}
	return true;
}

static void dump_kind(int fd, const struct kind *k, bool strict, const char *label, struct buf *b)
{
	static char chunk[RECV_MAX];
	uint64_t skip = k->skip | (strict ? 0 : k->lax);
	ssize_t n;

	request_dump(fd, k);
	do {
		n = recv(fd, chunk, sizeof(chunk), 0);
		if (n < 0)
			die("dump of %ss: %s", k->name, errno_text(errno));
	} while (put_answer(k, chunk, n, skip, label, b));
}

void ns_dump(const struct ns *s, const char *label, struct buf *b)
{
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		dump_kind(s->route, &kinds[i], s->strict, label, b);
	for (size_t i = 0; i < ARRAY_LEN(nft_kinds); i++)
		dump_kind(s->netfilter, &nft_kinds[i], s->strict, label, b);
	if (s->rdma >= 0)
		dump_kind(s->rdma, &rdma_kind, s->strict, label, b);
}
