/* SPDX-License-Identifier: Apache-2.0 */
#include "kern/net/addr.h"

#include <errno.h>
#include <stdlib.h>

#include <linux/if_addr.h>
#include <linux/rtnetlink.h>

#include "kern/netlink/attr.h"

bool addr_is_tentative(const struct addr *a)
{
	return a->flags & IFA_F_TENTATIVE;
}

bool addr_is_dadfailed(const struct addr *a)
{
	return a->flags & IFA_F_DADFAILED;
}

bool addr_is_permanent(const struct addr *a)
{
	return a->flags & IFA_F_PERMANENT;
}

bool addr_has_no_prefix_route(const struct addr *a)
{
	return a->flags & IFA_F_NOPREFIXROUTE;
}

struct addrs {
	int family, index; /* family (4, 6) and ifindex to list; 0: all */
	struct addr *list;
	size_t n;
};

/* Returns 1 if the message is an address; 0 if it has no IPv4 or IPv6 address, or its prefix
 * length is invalid. */
static int parse_addr(const struct nlmsghdr *h, struct addr *a)
{
	const struct ifaddrmsg *head = nlmsg_data(h);
	struct nlattr *tb[IFA_MAX + 1];
	int r = msg_attrs(h, sizeof(*head), tb, IFA_MAX);

	if (r < 0)
		return r;
	*a = (struct addr){.index = (int)head->ifa_index, .scope = head->ifa_scope};
	a->net.len = head->ifa_prefixlen;
	a->flags = get_u32(tb[IFA_FLAGS], head->ifa_flags);
	/* on a point-to-point link IFA_ADDRESS is the peer's address; the kernel sends IFA_LOCAL of
	 * IPv6 only for such a link */
	return get_ip(tb[tb[IFA_LOCAL] ? IFA_LOCAL : IFA_ADDRESS], family_of(head->ifa_family),
		      &a->net.ip) &&
	       a->net.len <= ip_bits(&a->net.ip);
}

static int collect(void *msg, void *arg)
{
	const struct nlmsghdr *h = msg;
	struct addrs *all = arg;
	struct addr a;
	int r = h->nlmsg_type == RTM_NEWADDR ? parse_addr(h, &a) : 0;

	if (r <= 0)
		return r;
	/* a kernel before 4.20 does not filter by link, a kernel without IPv6 does not filter by
	 * family */
	if ((all->index && a.index != all->index) ||
	    (all->family && a.net.ip.family != all->family))
		return 0;
	VEC_PUSH(all->list, all->n) = a;
	return 0;
}

static void forget(void *arg)
{
	((struct addrs *)arg)->n = 0;
}

int addr_list(struct nl_wire *w, int family, int index, struct addr **ret, size_t *n, struct err *e)
{
	struct ifaddrmsg head = {.ifa_family = af_of(family), .ifa_index = (unsigned int)index};
	struct nl_msg *m = msg_new(RTM_GETADDR, NLM_F_DUMP, &head, sizeof(head), 0);
	struct addrs all = {.family = family, .index = index};
	int r = nl_request(w, m, collect, forget, &all, e);

	/* a link that does not exist has no addresses: kernels since 4.20 report ENODEV */
	if (r == -ENODEV) {
		err_clear(e);
		r = 0;
	}
	if (r < 0) {
		free(all.list);
		return err_wrap(e, r, "list addresses");
	}
	*ret = all.list;
	*n = all.n;
	return 0;
}

static struct nl_msg *message(int type, int nlflags, int index, const struct ipnet *net,
			      unsigned int flags)
{
	struct ifaddrmsg head = {
		.ifa_family = af_of(net->ip.family),
		.ifa_prefixlen = net->len,
		.ifa_scope = flags & ADDR_SCOPE_LINK ? RT_SCOPE_LINK : RT_SCOPE_UNIVERSE,
		.ifa_index = (unsigned int)index,
	};
	struct nl_msg *m = msg_new(type, nlflags, &head, sizeof(head), MSG_ROOM);

	put_ip(m, IFA_LOCAL, &net->ip);
	put_ip(m, IFA_ADDRESS, &net->ip);
	return m;
}

static uint32_t ifa_flags(unsigned int flags)
{
	return (flags & ADDR_NODAD ? IFA_F_NODAD : 0) |
	       (flags & ADDR_OPTIMISTIC ? IFA_F_OPTIMISTIC : 0) |
	       (flags & ADDR_NOPREFIXROUTE ? IFA_F_NOPREFIXROUTE : 0);
}

size_t addr_add(struct nl_batch *b, int index, const char *ifname, const struct ipnet *net,
		unsigned int flags)
{
	struct nl_msg *m = message(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, index, net, flags);
	char text[IP_TEXT_MAX];

	/* sets a broadcast address if the prefix is shorter than /31 (RFC 3021), as the library of
	 * the original plugins does */
	if (net->ip.family == 4 && net->len < 31) {
		struct ipaddr last = ipnet_last(net);

		put_ip(m, IFA_BROADCAST, &last);
	}
	if (ifa_flags(flags))
		put_u32(m, IFA_FLAGS, ifa_flags(flags));
	return nl_batch_add(b, m, 0, "add address %s to '%s'", ipnet_str(net, text), ifname);
}

size_t addr_del(struct nl_batch *b, int index, const char *ifname, const struct ipnet *net)
{
	struct nl_msg *m = message(RTM_DELADDR, 0, index, net, 0);
	char text[IP_TEXT_MAX];

	return nl_batch_add(b, m, NL_OK_ABSENT, "delete address %s from '%s'", ipnet_str(net, text),
			    ifname);
}
