/* SPDX-License-Identifier: Apache-2.0 */
#include "kern/net/uapi_link.h"
#include "kern/net/link.h"

#include <errno.h>

#include <linux/rtnetlink.h>

#include "kern/net/link_bond_put.h"

/* Widths are bonding's own policy: an attribute of another length is refused. */
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

void link_bond_put(struct nl_msg *m, const struct link_bond *b)
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
 * A link that the kernel refuses after it has found the kind (and loaded its module), before it
 * makes anything and without a line in its log: no interface has a multicast address.
 */
int link_kind_known(struct nl_wire *w, const char *kind, struct err *e)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	struct link_spec s = LINK_SPEC_INIT;
	int r;

	s.name = "unirail-kind";
	s.kind = kind;
	s.mac = (struct mac){.len = 6, .b = {0x01, 0x00, 0x5e, 0x00, 0x00, 0x01}};
	link_add(b, &s);
	r = nl_batch_commit(w, b, e);
	if (r == -EOPNOTSUPP)
		return 0;
	/* Permission and the wire's own failures; anything else is about what was asked for. */
	if (r == -EPERM || r == -ETIMEDOUT || r == -ENOBUFS)
		return r;
	err_clear(e);
	return 1;
}
