/* SPDX-License-Identifier: Apache-2.0 */
/* The links as packet sockets need them: kern/link.h's facts leave the broadcast address out. */
#include "kern/packet.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <linux/rtnetlink.h>
#include <netlink/attr.h>
#include <netlink/msg.h>

#include "base/cleanup.h"

struct list {
	struct packet_link *v;
	size_t n;
};

static void get_mac(const struct nlattr *a, struct mac *ret)
{
	if (!a || nla_len(a) <= 0 || nla_len(a) > MAC_MAX)
		return;
	ret->len = (uint8_t)nla_len(a);
	memcpy(ret->b, nla_data(a), ret->len);
}

static int take_link(void *msg, void *arg)
{
	struct nlmsghdr *h = msg;
	const struct ifinfomsg *ifi = nlmsg_data(h);
	struct list *list = arg;
	struct packet_link *l;

	if (h->nlmsg_type != RTM_NEWLINK || !nlmsg_valid_hdr(h, sizeof(*ifi)))
		return 0;
	l = &VEC_PUSH(list->v, list->n);
	l->index = ifi->ifi_index;
	l->flags = ifi->ifi_flags;
	l->arptype = ifi->ifi_type;
	get_mac(nlmsg_find_attr(h, sizeof(*ifi), IFLA_ADDRESS), &l->mac);
	get_mac(nlmsg_find_attr(h, sizeof(*ifi), IFLA_BROADCAST), &l->broadcast);
	return 0;
}

static void forget(void *arg)
{
	((struct list *)arg)->n = 0;
}

int packet_links(struct nl_wire *w, struct packet_link **ret, size_t *n, struct err *e)
{
	struct nl_msg *m = nlmsg_alloc_simple(RTM_GETLINK, NLM_F_DUMP);
	struct ifinfomsg ifi = {0};
	struct list list = {0};
	int r;

	if (!m || nlmsg_append(m, &ifi, sizeof(ifi), NLMSG_ALIGNTO) < 0 ||
	    nla_put_u32(m, IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS) < 0)
		abort(); /* out of memory: the message is far below its size */
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
