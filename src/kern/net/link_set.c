/* SPDX-License-Identifier: Apache-2.0 */
#include "kern/net/link.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "kern/net/uapi_link.h"
#include <linux/if.h>
#include <linux/ip.h>
#include <linux/rtnetlink.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "kern/netlink/attr.h"

/* IPv4 devconf in the same message: what net.ipv4.conf.<link>.* would be written to. */
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
		put(m, IFLA_IFALIAS, c->alias, strlen(c->alias)); /* "" takes it away */
	if (c->set & LINK_SET_MASTER)
		put_u32(m, IFLA_MASTER, (uint32_t)c->master);
	if (c->set & LINK_SET_NETNS)
		put_u32(m, IFLA_NET_NS_FD, (uint32_t)c->netns_fd);
	put_devconf(m, c);
}

/* "set link 'net1' up, mtu 9000": one change in two names what the kernel refused. */
static char *words(const char *name, const struct link_change *c)
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
	/* Without an index, a message's name says which link is meant. */
	if (!index && (c->set & LINK_SET_NAME) && strcmp(name, c->name) != 0)
		return "a new name needs the link's index";
	if ((c->set & LINK_SET_NAME) && !link_name_ok(c->name))
		return "not an interface name: wants 1 to 15 bytes without '/', ':' or white space";
	if ((c->set & LINK_SET_ALIAS) && strlen(c->alias) >= LINK_ALIAS_MAX)
		return "an alias has at most 255 bytes";
	return NULL;
}

size_t link_set(struct nl_batch *b, int index, const char *name, const struct link_change *c)
{
	struct ifinfomsg head = {.ifi_index = index};
	auto_free char *what = words(name, c);
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
