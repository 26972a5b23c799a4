/* SPDX-License-Identifier: Apache-2.0 */
#include "kern/net/link.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kern/net/uapi_link.h"
#include <linux/if.h>
#include <linux/if_arp.h>
#include <linux/rtnetlink.h>

#include "base/cleanup.h"
#include "kern/netlink/attr.h"

bool link_is_up(const struct link *l)
{
	return l->flags & IFF_UP;
}

bool link_is_loopback(const struct link *l)
{
	return l->flags & IFF_LOOPBACK;
}

bool link_is_promisc(const struct link *l)
{
	return l->flags & IFF_PROMISC;
}

bool link_is_allmulti(const struct link *l)
{
	return l->flags & IFF_ALLMULTI;
}

bool link_has_carrier(const struct link *l)
{
	return l->flags & IFF_LOWER_UP;
}

bool link_name_ok(const char *name)
{
	size_t n = strlen(name);

	if (n == 0 || n >= LINK_NAME_MAX || !strcmp(name, ".") || !strcmp(name, ".."))
		return false;
	/* dev_valid_name(): its isspace() also takes 0xa0, Latin-1's no-break space */
	return !strpbrk(name, "/: \t\n\v\f\r\xa0");
}

static void parse_ipoib(struct nlattr **data, struct link *l)
{
	l->ipoib_pkey = get_u16(data[IFLA_IPOIB_PKEY], 0);
	l->ipoib_mode = get_u16(data[IFLA_IPOIB_MODE], LINK_IPOIB_DATAGRAM);
	l->ipoib_umcast = get_u16(data[IFLA_IPOIB_UMCAST], 0) != 0;
}

static void parse_kind(const struct nlattr *info, struct link *l)
{
	struct nlattr *tb[IFLA_INFO_MAX + 1], *data[IFLA_MACVLAN_MAX + 1];

	nested_attrs(info, tb, IFLA_INFO_MAX);
	get_str(tb[IFLA_INFO_KIND], l->kind, sizeof(l->kind));
	nested_attrs(tb[IFLA_INFO_DATA], data, IFLA_MACVLAN_MAX);
	if (!strcmp(l->kind, "macvlan") || !strcmp(l->kind, "macvtap"))
		l->macvlan_mode = get_u32(data[IFLA_MACVLAN_MODE], 0);
	else if (!strcmp(l->kind, "ipvlan"))
		l->ipvlan_mode = get_u16(data[IFLA_IPVLAN_MODE], 0);
	else if (!strcmp(l->kind, "vlan"))
		l->vlan_id = get_u16(data[IFLA_VLAN_ID], 0);
	else if (!strcmp(l->kind, "bond"))
		l->bond_mode = get_u8(data[IFLA_BOND_MODE], 0);
	else if (!strcmp(l->kind, "ipoib"))
		parse_ipoib(data, l);
}

static int parse_link(const struct nlmsghdr *h, struct link *l)
{
	const struct ifinfomsg *head = nlmsg_data(h);
	struct nlattr *tb[IFLA_MAX + 1];
	int r = msg_attrs(h, sizeof(*head), tb, IFLA_MAX);

	if (r < 0)
		return r;
	*l = (struct link){.index = head->ifi_index, .flags = head->ifi_flags};
	l->arptype = head->ifi_type;
	get_str(tb[IFLA_IFNAME], l->name, sizeof(l->name));
	get_str(tb[IFLA_IFALIAS], l->alias, sizeof(l->alias));
	get_str(tb[IFLA_PARENT_DEV_NAME], l->device, sizeof(l->device));
	get_mac(tb[IFLA_ADDRESS], &l->mac);
	get_mac(tb[IFLA_PERM_ADDRESS], &l->perm);
	l->mtu = get_u32(tb[IFLA_MTU], 0);
	l->group = get_u32(tb[IFLA_GROUP], 0);
	l->txqlen = get_u32(tb[IFLA_TXQLEN], 0);
	l->promisc = get_u32(tb[IFLA_PROMISCUITY], 0);
	l->master = (int)get_u32(tb[IFLA_MASTER], 0);
	l->parent = (int)get_u32(tb[IFLA_LINK], 0);
	l->parent_netnsid = (int)get_u32(tb[IFLA_LINK_NETNSID], UINT32_MAX);
	l->operstate = get_u8(tb[IFLA_OPERSTATE], 0);
	parse_kind(tb[IFLA_LINKINFO], l);
	return 0;
}

struct links {
	struct link *list;
	size_t n;
};

static int collect(void *msg, void *arg)
{
	const struct nlmsghdr *h = msg;
	struct links *links = arg;
	struct link l;
	int r;

	/* AF_BRIDGE entries are about ports, not links. */
	if (h->nlmsg_type != RTM_NEWLINK || nlmsg_datalen(h) < 1 ||
	    *(uint8_t *)nlmsg_data(h) != AF_UNSPEC)
		return 0;
	r = parse_link(h, &l);
	if (r < 0)
		return r;
	VEC_PUSH(links->list, links->n) = l;
	return 0;
}

static void forget(void *arg)
{
	((struct links *)arg)->n = 0;
}

/* Statistics are most of a link's bytes, VFs can be 64 KiB: neither is asked for. */
static struct nl_msg *request(int flags, int index)
{
	struct ifinfomsg head = {.ifi_index = index};
	struct nl_msg *m = msg_new(RTM_GETLINK, flags, &head, sizeof(head), MSG_ROOM);

	put_u32(m, IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS);
	return m;
}

static int get_one(struct nl_wire *w, struct nl_msg *m, struct link *ret, struct err *e)
{
	struct links found = {0};
	int r = nl_request(w, m, collect, forget, &found, e);

	if (r == 0 && !found.n)
		r = -ENODEV;
	if (r == 0)
		*ret = found.list[0];
	free(found.list);
	return r;
}

int link_get(struct nl_wire *w, const char *name, struct link *ret, struct err *e)
{
	size_t n = strlen(name);
	bool alt = n >= LINK_NAME_MAX; /* an alternative name */
	int r = -ENODEV;

	if (n > 0 && n < ALTIFNAMSIZ) {
		struct nl_msg *m = request(0, 0);

		put_str(m, alt ? IFLA_ALT_IFNAME : IFLA_IFNAME, name);
		r = get_one(w, m, ret, e);
	}
	/* EINVAL: before Linux 5.5, without alternative names */
	if (r == -ENODEV || (alt && r == -EINVAL))
		return err_set(e, -ENODEV, "look up link '%s': Link not found", name);
	return r < 0 ? err_wrap(e, r, "look up link '%s'", name) : 0;
}

int link_get_index(struct nl_wire *w, int index, struct link *ret, struct err *e)
{
	int r = index > 0 ? get_one(w, request(0, index), ret, e) : -ENODEV;

	if (r == -ENODEV)
		return err_set(e, r, "look up link %d: Link not found", index);
	return r < 0 ? err_wrap(e, r, "look up link %d", index) : 0;
}

static int by_index(const void *a, const void *b)
{
	const struct link *x = a, *y = b;

	return (x->index > y->index) - (x->index < y->index);
}

int link_list(struct nl_wire *w, struct link **ret, size_t *n, struct err *e)
{
	struct links links = {0};
	int r = nl_request(w, request(NLM_F_DUMP, 0), collect, forget, &links, e);

	if (r < 0) {
		free(links.list);
		return err_wrap(e, r, "list links");
	}
	if (links.n)
		qsort(links.list, links.n, sizeof(*links.list), by_index);
	*ret = links.list;
	*n = links.n;
	return 0;
}

const struct link *link_find(const struct link *list, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++) {
		if (!strcmp(list[i].name, name))
			return &list[i];
	}
	return NULL;
}

const struct link *link_find_index(const struct link *list, size_t n, int index)
{
	for (size_t i = 0; i < n; i++) {
		if (list[i].index == index)
			return &list[i];
	}
	return NULL;
}
