/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "kern/net/uapi_link.h"
#include <linux/rtnetlink.h>

#include "kern/netlink/attr.h"
#include "kern/net/vf.h"

struct change {
	struct nl_msg *m;
	struct nlattr *list, *info;
};

static struct change begin(const struct vf_ref *v)
{
	struct ifinfomsg head = {.ifi_index = v->pf_index};
	struct change c = {.m = msg_new(RTM_SETLINK, 0, &head, sizeof(head), MSG_ROOM)};

	c.list = nest(c.m, IFLA_VFINFO_LIST);
	c.info = nest(c.m, IFLA_VF_INFO);
	return c;
}

static struct nl_msg *end(struct change *c)
{
	nest_end(c->m, c->info);
	nest_end(c->m, c->list);
	return c->m;
}

static struct nl_msg *one(const struct vf_ref *v, int type, const void *p, size_t n)
{
	struct change c = begin(v);

	put(c.m, type, p, n);
	return end(&c);
}

size_t vf_set_mac(struct nl_batch *b, const struct vf_ref *v, const struct mac *mac)
{
	struct ifla_vf_mac a = {.vf = v->vf};
	char text[MAC_TEXT_MAX];

	memcpy(a.mac, mac->b, mac->len);
	return nl_batch_add(b, one(v, IFLA_VF_MAC, &a, sizeof(a)), 0, "set VF %u of '%s': mac %s",
			    v->vf, v->pf, mac_str(mac, text));
}

size_t vf_set_vlan(struct nl_batch *b, const struct vf_ref *v, const struct vf_vlan *vlan)
{
	struct ifla_vf_vlan_info a = {
		.vf = v->vf, .vlan = vlan->id, .qos = vlan->qos, .vlan_proto = htons(vlan->proto)};
	struct change c = begin(v);
	struct nlattr *list = nest(c.m, IFLA_VF_VLAN_LIST);

	put(c.m, IFLA_VF_VLAN_INFO, &a, sizeof(a));
	nest_end(c.m, list);
	return nl_batch_add(b, end(&c), 0, "set VF %u of '%s': vlan %u qos %u proto %s", v->vf,
			    v->pf, vlan->id, vlan->qos,
			    vlan->proto == VF_VLAN_8021AD ? "802.1ad" : "802.1q");
}

size_t vf_set_rate(struct nl_batch *b, const struct vf_ref *v, uint32_t min, uint32_t max)
{
	struct ifla_vf_rate a = {.vf = v->vf, .min_tx_rate = min, .max_tx_rate = max};

	return nl_batch_add(b, one(v, IFLA_VF_RATE, &a, sizeof(a)), 0,
			    "set VF %u of '%s': min_tx_rate %u max_tx_rate %u", v->vf, v->pf, min,
			    max);
}

size_t vf_set_spoofchk(struct nl_batch *b, const struct vf_ref *v, bool on)
{
	struct ifla_vf_spoofchk a = {.vf = v->vf, .setting = on};

	return nl_batch_add(b, one(v, IFLA_VF_SPOOFCHK, &a, sizeof(a)), 0,
			    "set VF %u of '%s': spoofchk %s", v->vf, v->pf, on ? "on" : "off");
}

size_t vf_set_trust(struct nl_batch *b, const struct vf_ref *v, bool on)
{
	struct ifla_vf_trust a = {.vf = v->vf, .setting = on};

	return nl_batch_add(b, one(v, IFLA_VF_TRUST, &a, sizeof(a)), 0,
			    "set VF %u of '%s': trust %s", v->vf, v->pf, on ? "on" : "off");
}

size_t vf_set_link_state(struct nl_batch *b, const struct vf_ref *v, enum vf_link_state state)
{
	static const char *const names[] = {"auto", "enable", "disable"};
	struct ifla_vf_link_state a = {.vf = v->vf, .link_state = state};

	return nl_batch_add(b, one(v, IFLA_VF_LINK_STATE, &a, sizeof(a)), 0,
			    "set VF %u of '%s': link_state %s", v->vf, v->pf, names[state]);
}

static size_t set_guid(struct nl_batch *b, const struct vf_ref *v, int type, const char *what,
		       uint64_t guid)
{
	struct ifla_vf_guid a;
	char text[VF_GUID_TEXT_MAX];

	memset(&a, 0, sizeof(a)); /* the four bytes between the members go to the kernel too */
	a.vf = v->vf;
	a.guid = guid;
	return nl_batch_add(b, one(v, type, &a, sizeof(a)), 0, "set VF %u of '%s': %s %s", v->vf,
			    v->pf, what, vf_guid_str(guid, text));
}

size_t vf_set_node_guid(struct nl_batch *b, const struct vf_ref *v, uint64_t guid)
{
	return set_guid(b, v, IFLA_VF_IB_NODE_GUID, "node_guid", guid);
}

size_t vf_set_port_guid(struct nl_batch *b, const struct vf_ref *v, uint64_t guid)
{
	return set_guid(b, v, IFLA_VF_IB_PORT_GUID, "port_guid", guid);
}
