/* SPDX-License-Identifier: Apache-2.0 */
#include "kern/net/link.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "kern/net/uapi_link.h"
#include <linux/if.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>

#include "kern/netlink/attr.h"
#include "kern/net/link_bond_put.h"

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
	/* A veth drops what is longer than the other end's MTU: both get it. */
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
 * The kernel cannot bring the inner end of a veth up while it creates the pair (ENOTCONN): that
 * takes a message of its own, which reaches only the wire's namespace. So an end that is elsewhere
 * and shall be up is the outer one.
 */
static bool turned(const struct link_spec *s)
{
	return is_veth(s) && s->peer_up && s->peer_netns_fd >= 0;
}

static const char *bad_spec(const struct link_spec *s)
{
	if (!link_name_ok(s->name) || (s->peer_name && !link_name_ok(s->peer_name)))
		return "not an interface name: wants 1 to 15 bytes without '/', ':' or white space";
	if (strlen(s->kind) >= LINK_KIND_MAX)
		return "no such kind of link";
	if (is_veth(s) && !s->peer_name)
		return "a veth needs its peer's name";
	if (turned(s) && (s->master || (s->up && s->netns_fd >= 0)))
		return "one end can be set up in another namespace, not both and no bridge port";
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

	/* Group 0 is where every link is that nobody put elsewhere. */
	if (!group)
		return nl_batch_refuse(b, -EINVAL, "group 0 is everybody's",
				       "delete links of group 0");
	m = msg_new(RTM_DELLINK, 0, &head, sizeof(head), MSG_ROOM);
	put_u32(m, IFLA_GROUP, group);
	return nl_batch_add(b, m, NL_OK_ABSENT, "delete links of group 0x%x", group);
}

struct mac mac_random(void)
{
	struct mac m = {.len = 6};

	/* Never short for so few bytes; EINTR only before the pool is ready, at boot. */
	while (getrandom(m.b, m.len, 0) != m.len)
		;
	m.b[0] = (uint8_t)((m.b[0] & 0xfe) | 0x02);
	return m;
}
