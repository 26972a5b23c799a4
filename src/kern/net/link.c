/* SPDX-License-Identifier: Apache-2.0 */
#include "kern/net/link.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "kern/net/uapi_link.h"
#include <linux/if.h>
#include <linux/if_arp.h>
#include <linux/rtnetlink.h>
#include <linux/ip.h>
#include <linux/veth.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "kern/net/internal.h"
#include "kern/netlink/attr.h"
#include "kern/sys/netns.h"

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

bool link_name_ok(const char *name)
{
	size_t n = strlen(name);

	if (n == 0 || n >= LINK_NAME_MAX || !strcmp(name, ".") || !strcmp(name, ".."))
		return false;
	/* the kernel refuses isspace() (dev_valid_name()), which includes 0xa0, the no-break space
	 * of Latin-1 */
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

	/* entries of AF_BRIDGE describe ports, not links */
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

/* Requests neither statistics, which are most of a link's bytes, nor VFs, which can be 64 KiB. */
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
	/* a name of this length can only be an alternative name */
	bool alt = n >= LINK_NAME_MAX;
	int r = -ENODEV;

	if (n > 0 && n < ALTIFNAMSIZ) {
		struct nl_msg *m = request(0, 0);

		put_str(m, alt ? IFLA_ALT_IFNAME : IFLA_IFNAME, name);
		r = get_one(w, m, ret, e);
	}
	/* EINVAL: Linux before 5.5, which has no alternative names */
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

/* Adds IPv4 devconf to the message: the values of the sysctls net.ipv4.conf.<link>.*. */
static void put_devconf(struct nl_msg *m, const struct link_change *c)
{
	struct nlattr *spec, *inet, *conf;

	if (!(c->set & (LINK_SET_ARP_NOTIFY | LINK_SET_RP_FILTER)))
		return;
	spec = nest(m, IFLA_AF_SPEC);
	inet = nest(m, AF_INET);
	conf = nest(m, IFLA_INET_CONF);
	if (c->set & LINK_SET_ARP_NOTIFY)
		put_u32(m, IPV4_DEVCONF_ARP_NOTIFY, 1);
	if (c->set & LINK_SET_RP_FILTER)
		put_u32(m, IPV4_DEVCONF_RP_FILTER, (uint32_t)c->rp_filter);
	nest_end(m, conf);
	nest_end(m, inet);
	nest_end(m, spec);
}

static void put_change(struct nl_msg *m, const struct link_change *c)
{
	if (c->set & LINK_SET_NAME)
		put_str(m, IFLA_IFNAME, c->name);
	if (c->set & LINK_SET_MAC)
		put_mac(m, IFLA_ADDRESS, &c->mac);
	if (c->set & LINK_SET_MTU)
		put_u32(m, IFLA_MTU, c->mtu);
	if (c->set & LINK_SET_TXQLEN)
		put_u32(m, IFLA_TXQLEN, c->txqlen);
	if (c->set & LINK_SET_GROUP)
		put_u32(m, IFLA_GROUP, c->group);
	if (c->set & LINK_SET_ALIAS)
		put(m, IFLA_IFALIAS, c->alias, strlen(c->alias)); /* "" removes the alias */
	if (c->set & LINK_SET_MASTER)
		put_u32(m, IFLA_MASTER, (uint32_t)c->master);
	if (c->set & LINK_SET_NETNS)
		put_u32(m, IFLA_NET_NS_FD, (uint32_t)c->netns_fd);
	put_devconf(m, c);
}

/* Describes the change, "set link 'net1' mtu 9000, up", so that the error names what the kernel
 * refused. */
static char *describe(const char *name, const struct link_change *c)
{
	char mac[MAC_TEXT_MAX];
	struct buf b;

	buf_init(&b, 512);
	buf_printf(&b, "set link '%s'", name);
	if (c->set & LINK_SET_NETNS)
		buf_str(&b, " namespace,");
	if (c->set & LINK_SET_NAME)
		buf_printf(&b, " name '%s',", c->name);
	if (c->set & LINK_SET_MAC)
		buf_printf(&b, " address %s,", mac_str(&c->mac, mac));
	if (c->set & LINK_SET_MTU)
		buf_printf(&b, " mtu %u,", c->mtu);
	if (c->set & LINK_SET_TXQLEN)
		buf_printf(&b, " txqueuelen %u,", c->txqlen);
	if (c->set & LINK_SET_GROUP)
		buf_printf(&b, " group 0x%x,", c->group);
	if (c->set & LINK_SET_ALIAS)
		buf_printf(&b, " alias '%s',", c->alias);
	if (c->set & LINK_SET_MASTER)
		buf_printf(&b, " master %d,", c->master);
	if (c->set & LINK_SET_ARP_NOTIFY)
		buf_str(&b, " arp_notify 1,");
	if (c->set & LINK_SET_RP_FILTER)
		buf_printf(&b, " rp_filter %d,", c->rp_filter);
	if (c->set & (LINK_SET_UP | LINK_SET_DOWN))
		buf_str(&b, c->set & LINK_SET_UP ? " up," : " down,");
	if (c->set & LINK_SET_PROMISC)
		buf_printf(&b, " promisc %s,", c->promisc ? "on" : "off");
	if (c->set & LINK_SET_ALLMULTI)
		buf_printf(&b, " allmulticast %s,", c->allmulti ? "on" : "off");
	if (b.p[b.len - 1] == ',')
		b.p[b.len - 1] = '\0';
	return buf_take(&b);
}

static void put_flag(struct ifinfomsg *head, unsigned int flag, bool on)
{
	head->ifi_change |= flag;
	if (on)
		head->ifi_flags |= flag;
}

static void put_flags(struct ifinfomsg *head, const struct link_change *c)
{
	if (c->set & (LINK_SET_UP | LINK_SET_DOWN))
		put_flag(head, IFF_UP, c->set & LINK_SET_UP);
	if (c->set & LINK_SET_PROMISC)
		put_flag(head, IFF_PROMISC, c->promisc);
	if (c->set & LINK_SET_ALLMULTI)
		put_flag(head, IFF_ALLMULTI, c->allmulti);
}

static const char *bad_change(int index, const char *name, const struct link_change *c)
{
	if (!index && !link_name_ok(name))
		return "not an interface name";
	/* in a message without an index the name selects the link */
	if (!index && (c->set & LINK_SET_NAME) && strcmp(name, c->name) != 0)
		return "a new name needs the link's index";
	if ((c->set & LINK_SET_NAME) && !link_name_ok(c->name))
		return "not an interface name: expected 1 to 15 bytes without '/', ':' or white space";
	if ((c->set & LINK_SET_ALIAS) && strlen(c->alias) >= LINK_ALIAS_MAX)
		return "an alias has at most 255 bytes";
	return NULL;
}

size_t link_set(struct nl_batch *b, int index, const char *name, const struct link_change *c)
{
	struct ifinfomsg head = {.ifi_index = index};
	auto_free char *what = describe(name, c);
	const char *bad = bad_change(index, name, c);
	struct nl_msg *m;

	if (bad)
		return nl_batch_refuse(b, -EINVAL, bad, "%s", what);
	put_flags(&head, c);
	m = msg_new(RTM_SETLINK, 0, &head, sizeof(head), MSG_ROOM);
	if (!index && !(c->set & LINK_SET_NAME))
		put_str(m, IFLA_IFNAME, name);
	put_change(m, c);
	return nl_batch_add(b, m, 0, "%s", what);
}

/* A new link, or one end of a veth. */
struct end {
	const char *name;
	int netns_fd;
	struct mac mac;
	uint32_t group;
	bool up;
};

static struct end near_end(const struct link_spec *s)
{
	return (struct end){s->name, s->netns_fd, s->mac, s->group, s->up};
}

static struct end far_end(const struct link_spec *s)
{
	return (struct end){s->peer_name, s->peer_netns_fd, s->peer_mac, 0, s->peer_up};
}

static void put_end(struct nl_msg *m, const struct end *end, const struct link_spec *s)
{
	put_str(m, IFLA_IFNAME, end->name);
	if (end->netns_fd >= 0)
		put_u32(m, IFLA_NET_NS_FD, (uint32_t)end->netns_fd);
	if (end->mac.len)
		put_mac(m, IFLA_ADDRESS, &end->mac);
	/* A veth drops packets longer than the MTU of the other end, so both ends get the MTU. */
	if (s->mtu)
		put_u32(m, IFLA_MTU, s->mtu);
	if (s->txqlen)
		put_u32(m, IFLA_TXQLEN, s->txqlen);
	if (end->group)
		put_u32(m, IFLA_GROUP, end->group);
}

static void put_veth(struct nl_msg *m, const struct link_spec *s, const struct end *inner)
{
	struct ifinfomsg head = {0};
	struct nlattr *peer = nest(m, VETH_INFO_PEER);

	nlmsg_append(m, &head, sizeof(head), NLMSG_ALIGNTO);
	put_end(m, inner, s);
	nest_end(m, peer);
}

static void put_macvlan(struct nl_msg *m, const struct link_spec *s, const struct end *inner)
{
	(void)inner;
	put_u32(m, IFLA_MACVLAN_MODE, s->macvlan_mode ? s->macvlan_mode : MACVLAN_BRIDGE);
	if (s->macvlan_bcqueuelen)
		put_u32(m, IFLA_MACVLAN_BC_QUEUE_LEN, s->macvlan_bcqueuelen);
}

static void put_ipvlan(struct nl_msg *m, const struct link_spec *s, const struct end *inner)
{
	(void)inner;
	put_u16(m, IFLA_IPVLAN_MODE, s->ipvlan_mode);
}

static void put_vlan(struct nl_msg *m, const struct link_spec *s, const struct end *inner)
{
	(void)inner;
	put_u16(m, IFLA_VLAN_ID, s->vlan_id);
}

static void put_ipoib(struct nl_msg *m, const struct link_spec *s, const struct end *inner)
{
	(void)inner;
	if (s->ipoib_pkey)
		put_u16(m, IFLA_IPOIB_PKEY, s->ipoib_pkey);
	put_u16(m, IFLA_IPOIB_MODE, s->ipoib_mode);
	put_u16(m, IFLA_IPOIB_UMCAST, s->ipoib_umcast);
}

static void link_bond_put(struct nl_msg *m, const struct link_bond *b);

static void put_bond(struct nl_msg *m, const struct link_spec *s, const struct end *inner)
{
	(void)inner;
	if (s->bond)
		link_bond_put(m, s->bond);
}

static const struct {
	const char *kind;
	void (*put)(struct nl_msg *m, const struct link_spec *s, const struct end *inner);
} kinds[] = {
	{"macvlan", put_macvlan}, {"ipvlan", put_ipvlan}, {"vlan", put_vlan},
	{"veth", put_veth},	  {"bond", put_bond},	  {"ipoib", put_ipoib},
};

static void put_linkinfo(struct nl_msg *m, const struct link_spec *s, const struct end *inner)
{
	struct nlattr *info = nest(m, IFLA_LINKINFO), *data;

	put_str(m, IFLA_INFO_KIND, s->kind);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (strcmp(kinds[i].kind, s->kind) != 0)
			continue;
		data = nest(m, IFLA_INFO_DATA);
		kinds[i].put(m, s, inner);
		nest_end(m, data);
	}
	nest_end(m, info);
}

static struct nl_msg *create_message(const struct link_spec *s, const struct end *outer,
				     const struct end *inner)
{
	struct ifinfomsg head = {.ifi_flags = outer->up ? IFF_UP : 0,
				 .ifi_change = outer->up ? IFF_UP : 0};
	struct nl_msg *m =
		msg_new(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, &head, sizeof(head), MSG_ROOM);

	put_end(m, outer, s);
	if (s->parent)
		put_u32(m, IFLA_LINK, (uint32_t)s->parent);
	if (s->master)
		put_u32(m, IFLA_MASTER, (uint32_t)s->master);
	put_linkinfo(m, s, inner);
	return m;
}

static bool is_veth(const struct link_spec *s)
{
	return !strcmp(s->kind, "veth");
}

/*
 * Returns whether the peer is created as the outer end. While the kernel creates a veth pair, it
 * cannot set the inner end (that in VETH_INFO_PEER) up (ENOTCONN). A second message can, but
 * reaches only the namespace of the wire. So a peer that is to be up in another namespace must be
 * the outer end.
 */
static bool turned(const struct link_spec *s)
{
	return is_veth(s) && s->peer_up && s->peer_netns_fd >= 0;
}

static const char *bad_spec(const struct link_spec *s)
{
	if (!link_name_ok(s->name) || (s->peer_name && !link_name_ok(s->peer_name)))
		return "not an interface name: expected 1 to 15 bytes without '/', ':' or white space";
	if (strlen(s->kind) >= LINK_KIND_MAX)
		return "no such kind of link";
	if (is_veth(s) && !s->peer_name)
		return "a veth needs its peer's name";
	if (turned(s) && (s->master || (s->up && s->netns_fd >= 0)))
		return "if the peer is to be up in another namespace, the link itself can neither be up in another "
		       "namespace nor be a bridge port";
	return NULL;
}

static size_t add_veth(struct nl_batch *b, const struct link_spec *s)
{
	struct end outer = turned(s) ? far_end(s) : near_end(s);
	struct end inner = turned(s) ? near_end(s) : far_end(s);
	struct link_change up = {.set = LINK_SET_UP};
	size_t i =
		nl_batch_add(b, create_message(s, &outer, &inner), 0, "create veth '%s'", s->name);

	if (inner.up)
		link_set(b, 0, inner.name, &up);
	return i;
}

size_t link_add(struct nl_batch *b, const struct link_spec *s)
{
	const char *bad = bad_spec(s);
	struct end end = near_end(s);

	if (bad)
		return nl_batch_refuse(b, -EINVAL, bad, "create %s '%s'", s->kind, s->name);
	if (is_veth(s))
		return add_veth(b, s);
	return nl_batch_add(b, create_message(s, &end, NULL), 0, "create %s '%s'", s->kind,
			    s->name);
}

size_t link_del(struct nl_batch *b, int index, const char *name)
{
	struct ifinfomsg head = {.ifi_index = index};
	struct nl_msg *m;

	if (!index && !link_name_ok(name))
		return nl_batch_refuse(b, -EINVAL, "not an interface name", "delete link '%s'",
				       name);
	m = msg_new(RTM_DELLINK, 0, &head, sizeof(head), MSG_ROOM);
	if (!index)
		put_str(m, IFLA_IFNAME, name);
	return nl_batch_add(b, m, NL_OK_ABSENT, "delete link '%s'", name);
}

size_t link_del_group(struct nl_batch *b, uint32_t group)
{
	struct ifinfomsg head = {0};
	struct nl_msg *m;

	if (!group)
		return nl_batch_refuse(b, -EINVAL, "group 0 is the default group of all links",
				       "delete links of group 0");
	m = msg_new(RTM_DELLINK, 0, &head, sizeof(head), MSG_ROOM);
	put_u32(m, IFLA_GROUP, group);
	return nl_batch_add(b, m, NL_OK_ABSENT, "delete links of group 0x%x", group);
}

struct mac mac_random(void)
{
	struct mac m = {.len = 6};

	/* getrandom() always fills such a short buffer, and returns EINTR only at boot, before the
	 * kernel's pool is ready */
	while (getrandom(m.b, m.len, 0) != m.len)
		;
	m.b[0] = (uint8_t)((m.b[0] & 0xfe) | 0x02);
	return m;
}

/* The bonding driver's netlink attributes and their sizes in bytes; it refuses a shorter
 * attribute. */
static const struct {
	unsigned char attr, width;
} attrs[LINK_BOND_OPTIONS] = {
	[LINK_BOND_MODE] = {IFLA_BOND_MODE, 1},
	[LINK_BOND_ACTIVE_SLAVE] = {IFLA_BOND_ACTIVE_SLAVE, 4},
	[LINK_BOND_MIIMON] = {IFLA_BOND_MIIMON, 4},
	[LINK_BOND_UPDELAY] = {IFLA_BOND_UPDELAY, 4},
	[LINK_BOND_DOWNDELAY] = {IFLA_BOND_DOWNDELAY, 4},
	[LINK_BOND_USE_CARRIER] = {IFLA_BOND_USE_CARRIER, 1},
	[LINK_BOND_ARP_INTERVAL] = {IFLA_BOND_ARP_INTERVAL, 4},
	[LINK_BOND_ARP_VALIDATE] = {IFLA_BOND_ARP_VALIDATE, 4},
	[LINK_BOND_ARP_ALL_TARGETS] = {IFLA_BOND_ARP_ALL_TARGETS, 4},
	[LINK_BOND_PRIMARY] = {IFLA_BOND_PRIMARY, 4},
	[LINK_BOND_PRIMARY_RESELECT] = {IFLA_BOND_PRIMARY_RESELECT, 1},
	[LINK_BOND_FAIL_OVER_MAC] = {IFLA_BOND_FAIL_OVER_MAC, 1},
	[LINK_BOND_XMIT_HASH_POLICY] = {IFLA_BOND_XMIT_HASH_POLICY, 1},
	[LINK_BOND_RESEND_IGMP] = {IFLA_BOND_RESEND_IGMP, 4},
	[LINK_BOND_NUM_PEER_NOTIF] = {IFLA_BOND_NUM_PEER_NOTIF, 1},
	[LINK_BOND_ALL_SLAVES_ACTIVE] = {IFLA_BOND_ALL_SLAVES_ACTIVE, 1},
	[LINK_BOND_MIN_LINKS] = {IFLA_BOND_MIN_LINKS, 4},
	[LINK_BOND_LP_INTERVAL] = {IFLA_BOND_LP_INTERVAL, 4},
	[LINK_BOND_PACKETS_PER_SLAVE] = {IFLA_BOND_PACKETS_PER_SLAVE, 4},
	[LINK_BOND_LACP_RATE] = {IFLA_BOND_AD_LACP_RATE, 1},
	[LINK_BOND_AD_SELECT] = {IFLA_BOND_AD_SELECT, 1},
	[LINK_BOND_AD_ACTOR_SYS_PRIO] = {IFLA_BOND_AD_ACTOR_SYS_PRIO, 2},
	[LINK_BOND_AD_USER_PORT_KEY] = {IFLA_BOND_AD_USER_PORT_KEY, 2},
	[LINK_BOND_TLB_DYNAMIC_LB] = {IFLA_BOND_TLB_DYNAMIC_LB, 1},
	[LINK_BOND_PEER_NOTIF_DELAY] = {IFLA_BOND_PEER_NOTIF_DELAY, 4},
};

void link_bond_set(struct link_bond *b, enum link_bond_option o, uint32_t value)
{
	b->set |= 1U << o;
	b->value[o] = value;
}

bool link_bond_has(const struct link_bond *b, enum link_bond_option o)
{
	return b->set & 1U << o;
}

static void put_option(struct nl_msg *m, const struct link_bond *b, enum link_bond_option o)
{
	if (attrs[o].width == 1)
		put_u8(m, attrs[o].attr, (uint8_t)b->value[o]);
	else if (attrs[o].width == 2)
		put_u16(m, attrs[o].attr, (uint16_t)b->value[o]);
	else
		put_u32(m, attrs[o].attr, b->value[o]);
}

/* Adds the options to an open IFLA_INFO_DATA. */
static void link_bond_put(struct nl_msg *m, const struct link_bond *b)
{
	struct nlattr *targets;

	for (unsigned int o = 0; o < LINK_BOND_OPTIONS; o++)
		if (link_bond_has(b, o))
			put_option(m, b, o);
	if (b->ad_actor_system.len)
		put_mac(m, IFLA_BOND_AD_ACTOR_SYSTEM, &b->ad_actor_system);
	if (!b->n_arp_targets)
		return;
	targets = nest(m, IFLA_BOND_ARP_IP_TARGET);
	for (size_t i = 0; i < b->n_arp_targets && i < LINK_BOND_ARP_TARGETS; i++)
		put_ip(m, (int)i, &b->arp_targets[i]);
	nest_end(m, targets);
}

size_t link_bond_change(struct nl_batch *b, int index, const char *name,
			const struct link_bond *options)
{
	struct ifinfomsg head = {.ifi_index = index};
	struct nl_msg *m = msg_new(RTM_NEWLINK, 0, &head, sizeof(head), MSG_ROOM);
	struct nlattr *info = nest(m, IFLA_LINKINFO), *data;

	put_str(m, IFLA_INFO_KIND, "bond");
	data = nest(m, IFLA_INFO_DATA);
	link_bond_put(m, options);
	nest_end(m, data);
	nest_end(m, info);
	return nl_batch_add(b, m, 0, "set options of bond '%s'", name);
}

/*
 * Requests a link without a parent and with a multicast address, which no interface may have: the
 * kernel refuses it after it has found the kind (and loaded its module), before it creates
 * anything, and without a line in its log.
 */
int link_kind_known(struct nl_wire *w, const char *kind, struct err *e)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	struct link_spec s = LINK_SPEC_INIT;
	int r;

	s.name = "unirail-kind";
	s.kind = kind;
	s.peer_name = strcmp(kind, "veth") == 0 ? "unirail-peer"
						: NULL; /* link_add() requires it for a veth */
	s.mac = (struct mac){.len = 6, .b = {0x01, 0x00, 0x5e, 0x00, 0x00, 0x01}};
	link_add(b, &s);
	r = nl_batch_commit(w, b, e);
	if (r == -EOPNOTSUPP)
		return 0;
	/* an error of permission or of the wire does not show whether the kernel knows the kind */
	if (r == -EPERM || r == -ETIMEDOUT || r == -ENOBUFS)
		return r;
	err_clear(e);
	return 1;
}

/* --- a new network namespace --- */

enum { LOOPBACK_INDEX = 1 }; /* ifindex of lo in every namespace since Linux 3.7 */

static int loopback_up(struct err *e)
{
	struct link_change up = {.set = LINK_SET_UP};
	auto_batch struct nl_batch *b = NULL;
	auto_nl struct nl_wire *w = NULL;
	int r = nl_open(&w, NL_ROUTE, -1, e);

	if (r < 0)
		return r;
	b = nl_batch_new();
	link_set(b, LOOPBACK_INDEX, "lo", &up);
	return nl_batch_commit(w, b, e);
}

static int unshare_here(bool lo_up, int *fd, struct err *e)
{
	int r = lo_up ? loopback_up(e) : 0;

	return r < 0 ? r : netns_current(fd, e);
}

int netns_new(bool lo_up, int *ret, struct err *e)
{
	struct netns_visit v = NETNS_VISIT_INIT;
	auto_fd int fd = -1;
	int r = netns_current(&v.origin, e);

	if (r < 0)
		return r;
	if (unshare(CLONE_NEWNET) < 0) {
		r = -errno;
		err_kind(e, ERR_NETNS, r, "create network namespace: %s%s", errno_text(r),
			 r == -EPERM ? ": needs CAP_SYS_ADMIN: run as root" : "");
	} else
		r = unshare_here(lo_up, &fd, e);
	netns_leave(&v);
	if (r < 0)
		return r;
	*ret = take_fd(&fd);
	return 0;
}

/* Compares the name with Spiderpool's patterns. The last is the regular expression `^cilium*`,
 * which is "ciliu" and any number of m. */
bool link_is_nodes_own(const char *name)
{
	static const char *const prefixes[] = {"docker", "cbr",	      "dummy",	       "virbr",
					       "lxcbr",	 "veth",      "cali",	       "flannel",
					       "cni",	 "kube-ipvs", "vx-submariner", "ciliu"};

	if (strcmp(name, "lo") == 0)
		return false;
	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
		if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
			return false;
	return true;
}

bool link_name_is_kernels(const char *name)
{
	return strncmp(name, "dev", 3) == 0 && name[3] &&
	       strspn(name + 3, "0123456789") == strlen(name + 3);
}
