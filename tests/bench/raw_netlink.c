/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fewest requests that the kernel requires for a pod of tests/bench/run: an ADD is one netlink batch for the
 * node and one for the pod, with links, addresses, neighbours, rules and routes; a DEL is one batch for the pod. A
 * batch is one sendmsg() and one loop that reads the acks. This program chooses the indexes of new links, so that it
 * reads nothing back, and creates macvlans in the state up (veths cannot be: the kernel requires both ends first).
 *
 *	raw_netlink add NETNS VETH NIC...	NETNS: path of the pod's namespace; VETH: the node's end of veth0
 *	raw_netlink del NETNS RAILS		RAILS: how many NICs the ADD had
 *
 * NIC i has 172.16.i.0/24: .1 is the gateway, .2 the node, .210 the pod.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fib_rules.h>
#include <linux/if_link.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	GROUP = 77, /* link group of the pod's links, by which a DEL deletes them */
	FIRST = 2,  /* index of eth0 in the pod; lo is 1 */
	HOST_VETH = 1000000,
	HOST_TABLE = 501,
	POD_TABLE = 100,
	PRIORITY = 1000,
	POD = 210,
	NODE = 2,
	GATEWAY = 1,
	PREFIX = 24,
	BATCH_BYTES = 64 << 10,
	ACKS_BYTES = 1 << 20,
};

static const unsigned char pod_mac[6] = {0x0a, 0, 0, 0, 0, 1};
static const unsigned char node_mac[6] = {0x0a, 0, 0, 0, 0, 2};

struct batch {
	int fd;
	unsigned int n;
	size_t len;
	struct nlmsghdr *now;
	char bytes[BATCH_BYTES];
};

static void fail(const char *what)
{
	fprintf(stderr, "raw_netlink: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void open_batch(struct batch *b)
{
	int size = ACKS_BYTES, on = 1;

	b->fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	if (b->fd < 0 || setsockopt(b->fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)) < 0 ||
	    setsockopt(b->fd, SOL_NETLINK, NETLINK_CAP_ACK, &on, sizeof(on)) < 0)
		fail("open netlink");
}

/* --- messages --- */

static void *room(struct batch *b, size_t n)
{
	void *p = b->bytes + b->len;

	if (b->len + NLMSG_ALIGN(n) > sizeof(b->bytes))
		abort();
	memset(p, 0, NLMSG_ALIGN(n));
	b->len += NLMSG_ALIGN(n);
	b->now->nlmsg_len = (unsigned int)(b->bytes + b->len - (char *)b->now);
	return p;
}

static void message(struct batch *b, int type, int flags, const void *head, size_t n)
{
	b->now = (struct nlmsghdr *)(b->bytes + b->len);
	room(b, sizeof(*b->now));
	b->now->nlmsg_type = (unsigned short)type;
	b->now->nlmsg_flags = (unsigned short)(NLM_F_REQUEST | NLM_F_ACK | flags);
	b->now->nlmsg_seq = ++b->n;
	memcpy(room(b, n), head, n);
}

static struct rtattr *attr(struct batch *b, int type, const void *p, size_t n)
{
	struct rtattr *a = room(b, RTA_LENGTH(n));

	a->rta_type = (unsigned short)type;
	a->rta_len = (unsigned short)RTA_LENGTH(n);
	if (n)
		memcpy(RTA_DATA(a), p, n);
	return a;
}

static void attr_u32(struct batch *b, int type, unsigned int v)
{
	attr(b, type, &v, sizeof(v));
}

static void attr_str(struct batch *b, int type, const char *s)
{
	attr(b, type, s, strlen(s) + 1);
}

/* 172.16.<rail>.<host> */
static void attr_ip(struct batch *b, int type, unsigned int rail, unsigned int host)
{
	attr_u32(b, type, htonl(172U << 24 | 16U << 16 | rail << 8 | host));
}

static void nest_end(struct batch *b, struct rtattr *nest)
{
	nest->rta_len = (unsigned short)(b->bytes + b->len - (char *)nest);
}

/* Sends the whole batch; the first failure ends the program. */
static void commit(struct batch *b)
{
	struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
	struct iovec iov = {b->bytes, b->len};
	struct msghdr m = {.msg_name = &kernel,
			   .msg_namelen = sizeof(kernel),
			   .msg_iov = &iov,
			   .msg_iovlen = 1};
	unsigned int acks = 0;
	char bytes[8192];

	if (sendmsg(b->fd, &m, 0) < 0)
		fail("send");
	while (acks < b->n) {
		ssize_t got = recv(b->fd, bytes, sizeof(bytes), 0);
		size_t n = got > 0 ? (size_t)got : 0;

		if (got <= 0)
			fail("receive");
		for (struct nlmsghdr *h = (void *)bytes; NLMSG_OK(h, n); h = NLMSG_NEXT(h, n)) {
			errno = -((struct nlmsgerr *)NLMSG_DATA(h))->error;
			if (errno) {
				fprintf(stderr, "message %u: ", h->nlmsg_seq);
				fail("refused");
			}
			acks++;
		}
	}
}

/* --- links, addresses, neighbours, routes, rules --- */

static struct ifinfomsg link_up(int index)
{
	return (struct ifinfomsg){.ifi_index = index, .ifi_flags = IFF_UP, .ifi_change = IFF_UP};
}

static void set_up(struct batch *b, int index)
{
	const struct ifinfomsg head = link_up(index);

	message(b, RTM_NEWLINK, 0, &head, sizeof(head));
}

static void add_veth(struct batch *b, const char *name, int index, int pod)
{
	const struct ifinfomsg own = {.ifi_index = HOST_VETH}, peer = {.ifi_index = index};
	struct rtattr *info, *data, *end;

	message(b, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, &own, sizeof(own));
	attr_str(b, IFLA_IFNAME, name);
	attr(b, IFLA_ADDRESS, node_mac, sizeof(node_mac));
	info = attr(b, IFLA_LINKINFO, NULL, 0);
	attr_str(b, IFLA_INFO_KIND, "veth");
	data = attr(b, IFLA_INFO_DATA, NULL, 0);
	end = attr(b, VETH_INFO_PEER, &peer, sizeof(peer));
	attr_str(b, IFLA_IFNAME, "veth0");
	attr(b, IFLA_ADDRESS, pod_mac, sizeof(pod_mac));
	attr_u32(b, IFLA_GROUP, GROUP);
	attr_u32(b, IFLA_NET_NS_FD, (unsigned int)pod);
	nest_end(b, end);
	nest_end(b, data);
	nest_end(b, info);
	set_up(b, HOST_VETH);
}

static void add_macvlan(struct batch *b, const char *nic, const char *name, int index, int pod)
{
	const struct ifinfomsg own = link_up(index);
	unsigned int master = if_nametoindex(nic);
	struct rtattr *info, *data;

	if (!master)
		fail(nic);
	message(b, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, &own, sizeof(own));
	attr_str(b, IFLA_IFNAME, name);
	attr_u32(b, IFLA_LINK, master);
	attr_u32(b, IFLA_GROUP, GROUP);
	attr_u32(b, IFLA_NET_NS_FD, (unsigned int)pod);
	info = attr(b, IFLA_LINKINFO, NULL, 0);
	attr_str(b, IFLA_INFO_KIND, "macvlan");
	data = attr(b, IFLA_INFO_DATA, NULL, 0);
	attr_u32(b, IFLA_MACVLAN_MODE, MACVLAN_MODE_BRIDGE);
	nest_end(b, data);
	nest_end(b, info);
}

static void add_address(struct batch *b, int index, unsigned int rail)
{
	const struct ifaddrmsg head = {
		.ifa_family = AF_INET, .ifa_prefixlen = PREFIX, .ifa_index = (unsigned int)index};

	message(b, RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, &head, sizeof(head));
	attr_ip(b, IFA_LOCAL, rail, POD);
	attr_ip(b, IFA_ADDRESS, rail, POD);
	attr_ip(b, IFA_BROADCAST, rail, 255);
}

static void add_neigh(struct batch *b, int index, unsigned int rail, unsigned int host,
		      const unsigned char mac[6])
{
	const struct ndmsg head = {
		.ndm_family = AF_INET, .ndm_ifindex = index, .ndm_state = NUD_PERMANENT};

	message(b, RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_EXCL, &head, sizeof(head));
	attr_ip(b, NDA_DST, rail, host);
	attr(b, NDA_LLADDR, mac, 6);
}

/* Begins a route; the caller appends its destination, gateway and source. */
static void add_route(struct batch *b, int index, unsigned int table, unsigned char prefix,
		      unsigned char scope)
{
	const struct rtmsg head = {.rtm_family = AF_INET,
				   .rtm_dst_len = prefix,
				   .rtm_protocol = RTPROT_BOOT,
				   .rtm_scope = scope,
				   .rtm_type = RTN_UNICAST};

	message(b, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, &head, sizeof(head));
	attr_u32(b, RTA_TABLE, table);
	attr_u32(b, RTA_OIF, (unsigned int)index);
}

static void routes_to_node(struct batch *b, int veth, unsigned int n, unsigned int table)
{
	for (unsigned int h = 0; h < n; h++) {
		add_route(b, veth, table, 32, RT_SCOPE_LINK);
		attr_ip(b, RTA_DST, h, NODE);
		attr_ip(b, RTA_PREFSRC, 0, POD);
	}
}

static void rule(struct batch *b, int type, int flags, unsigned int table, unsigned char src_len)
{
	const struct fib_rule_hdr head = {
		.family = AF_INET, .src_len = src_len, .action = FR_ACT_TO_TBL};

	message(b, type, flags, &head, sizeof(head));
	attr_u32(b, FRA_TABLE, table);
}

/* Adds or deletes rules: packets with mark 1 use table 100; packets from the pod's address on
 * NIC i, i >= 1, use table 100 + i. */
static void rules(struct batch *b, int type, int flags, unsigned int n)
{
	rule(b, type, flags, POD_TABLE, 0);
	attr_u32(b, FRA_FWMARK, 1);
	attr_u32(b, FRA_PRIORITY, PRIORITY);
	for (unsigned int i = 1; i < n; i++) {
		rule(b, type, flags, POD_TABLE + i, 32);
		attr_ip(b, FRA_SRC, i, POD);
		attr_u32(b, FRA_PRIORITY, PRIORITY - i);
	}
}

static void routes_of_rail(struct batch *b, int veth, unsigned int i, unsigned int n)
{
	int index = FIRST + (int)i;

	add_route(b, index, POD_TABLE + i, PREFIX, RT_SCOPE_LINK);
	attr_ip(b, RTA_DST, i, 0);
	attr_ip(b, RTA_PREFSRC, i, POD);
	add_route(b, index, POD_TABLE + i, 0, RT_SCOPE_UNIVERSE);
	attr_ip(b, RTA_GATEWAY, i, GATEWAY);
	routes_to_node(b, veth, n, POD_TABLE + i);
}

static void fill_pod(struct batch *b, unsigned int n)
{
	int veth = FIRST + (int)n;

	set_up(b, veth);
	for (unsigned int i = 0; i < n; i++)
		add_address(b, FIRST + (int)i, i);
	for (unsigned int h = 0; h < n; h++)
		add_neigh(b, veth, h, NODE, node_mac);
	routes_to_node(b, veth, n, RT_TABLE_MAIN);
	add_route(b, FIRST, RT_TABLE_MAIN, 0, RT_SCOPE_UNIVERSE);
	attr_ip(b, RTA_GATEWAY, 0, GATEWAY);
	add_route(b, veth, POD_TABLE, 0, RT_SCOPE_UNIVERSE);
	attr_ip(b, RTA_GATEWAY, 0, NODE);
	attr_ip(b, RTA_PREFSRC, 0, POD);
	rules(b, RTM_NEWRULE, NLM_F_CREATE | NLM_F_EXCL, n);
	for (unsigned int i = 1; i < n; i++)
		routes_of_rail(b, veth, i, n);
}

static void fill_node(struct batch *b, const char *veth, char **nics, unsigned int n, int pod)
{
	add_veth(b, veth, FIRST + (int)n, pod);
	for (unsigned int i = 0; i < n; i++) {
		char name[IF_NAMESIZE] = "eth0";

		if (i)
			snprintf(name, sizeof(name), "net%u", i);
		add_macvlan(b, nics[i], name, FIRST + (int)i, pod);
		add_neigh(b, HOST_VETH, i, POD, pod_mac);
		add_route(b, HOST_VETH, HOST_TABLE, 32, RT_SCOPE_LINK);
		attr_ip(b, RTA_DST, i, POD);
	}
}

static void delete_links(struct batch *b)
{
	const struct ifinfomsg any = {0};

	message(b, RTM_DELLINK, 0, &any, sizeof(any));
	attr_u32(b, IFLA_GROUP, GROUP);
}

int main(int argc, char **argv)
{
	static struct batch node, pod;
	bool add = argc > 4 && strcmp(argv[1], "add") == 0;
	int ns = argc > 3 ? open(argv[2], O_RDONLY | O_CLOEXEC) : -1;

	if (ns < 0)
		fail("open the pod's namespace");
	if (add) {
		open_batch(&node);
		fill_node(&node, argv[3], &argv[4], (unsigned int)argc - 4, ns);
		commit(&node);
	}
	if (setns(ns, CLONE_NEWNET) < 0)
		fail("enter the pod's namespace");
	open_batch(&pod);
	if (add) {
		fill_pod(&pod, (unsigned int)argc - 4);
	} else {
		rules(&pod, RTM_DELRULE, 0, (unsigned int)atoi(argv[3]));
		delete_links(&pod);
	}
	commit(&pod);
	return 0;
}
