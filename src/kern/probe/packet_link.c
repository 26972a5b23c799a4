/* SPDX-License-Identifier: Apache-2.0 */
/* The links as packet sockets need them: kern/net/link.h's facts leave the broadcast address out. */
#include "kern/probe/packet.h"

#include <stdlib.h>

#include <linux/rtnetlink.h>

#include "base/buf.h"
#include "kern/netlink/attr.h"

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
