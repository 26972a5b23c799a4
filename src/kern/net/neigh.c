/* SPDX-License-Identifier: Apache-2.0 */
#include "kern/net/addr.h"

#include <stdlib.h>

#include <linux/neighbour.h>
#include <linux/rtnetlink.h>

#include "kern/netlink/attr.h"

struct neighs {
	int family, index; /* family (4, 6) and ifindex to list; 0: all */
	struct neigh *list;
	size_t n;
};

bool neigh_is_permanent(const struct neigh *n)
{
	return n->state & NUD_PERMANENT;
}

/* Returns 1 for a neighbour entry with an IPv4 or IPv6 address, 0 for any other, -EBADMSG for a
 * truncated message. */
static int parse_neigh(const struct nlmsghdr *h, struct neigh *n)
{
	const struct ndmsg *head = nlmsg_data(h);
	struct nlattr *tb[NDA_MAX + 1];
	int r = msg_attrs(h, sizeof(*head), tb, NDA_MAX);

	if (r < 0)
		return r;
	*n = (struct neigh){.index = head->ndm_ifindex, .state = head->ndm_state};
	get_mac(tb[NDA_LLADDR], &n->mac);
	return get_ip(tb[NDA_DST], family_of(head->ndm_family), &n->ip);
}

static int collect(void *msg, void *arg)
{
	const struct nlmsghdr *h = msg;
	struct neighs *all = arg;
	struct neigh n;
	int r = h->nlmsg_type == RTM_NEWNEIGH ? parse_neigh(h, &n) : 0;

	if (r <= 0)
		return r;
	if ((all->index && n.index != all->index) || (all->family && n.ip.family != all->family))
		return 0;
	VEC_PUSH(all->list, all->n) = n;
	return 0;
}

static void forget(void *arg)
{
	((struct neighs *)arg)->n = 0;
}

int neigh_list(struct nl_wire *w, int family, int index, struct neigh **ret, size_t *n,
	       struct err *e)
{
	struct ndmsg head = {.ndm_family = af_of(family)};
	struct nl_msg *m = msg_new(RTM_GETNEIGH, NLM_F_DUMP, &head, sizeof(head), MSG_ROOM);
	struct neighs all = {.family = family, .index = index};
	int r;

	if (index)
		put_u32(m, NDA_IFINDEX, (uint32_t)index);
	r = nl_request(w, m, collect, forget, &all, e);
	if (r < 0) {
		free(all.list);
		return err_wrap(e, r, "list neighbours");
	}
	*ret = all.list;
	*n = all.n;
	return 0;
}

static struct nl_msg *message(int type, int flags, int index, const struct ipaddr *ip)
{
	struct ndmsg head = {
		.ndm_family = af_of(ip->family),
		.ndm_ifindex = index,
		.ndm_state = NUD_PERMANENT,
	};
	struct nl_msg *m = msg_new(type, flags, &head, sizeof(head), MSG_ROOM);

	put_ip(m, NDA_DST, ip);
	return m;
}

size_t neigh_add(struct nl_batch *b, int index, const char *ifname, const struct ipaddr *ip,
		 const struct mac *mac, bool replace)
{
	int how = NLM_F_CREATE | (replace ? NLM_F_REPLACE : NLM_F_EXCL);
	struct nl_msg *m = message(RTM_NEWNEIGH, how, index, ip);
	char text[IP_TEXT_MAX];

	put_mac(m, NDA_LLADDR, mac);
	return nl_batch_add(b, m, 0, "add neighbour %s on '%s'", ip_str(ip, text), ifname);
}

size_t neigh_del(struct nl_batch *b, int index, const char *ifname, const struct ipaddr *ip)
{
	char text[IP_TEXT_MAX];

	return nl_batch_add(b, message(RTM_DELNEIGH, 0, index, ip), NL_OK_ABSENT,
			    "delete neighbour %s from '%s'", ip_str(ip, text), ifname);
}
