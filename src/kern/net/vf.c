/* SPDX-License-Identifier: Apache-2.0 */
#include "kern/net/vf.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kern/net/uapi_link.h"
#include <linux/rtnetlink.h>

#include "base/alloc.h"
#include "base/num.h"
#include "kern/netlink/attr.h"

struct vfs {
	struct vf_info *v;
	size_t n;
	uint32_t reported; /* IFLA_NUM_VF */
	bool link, list;
};

/* Copies a struct from an attribute; returns false if the attribute is missing or short. */
static bool get(const struct nlattr *a, void *ret, size_t size)
{
	if (!a || nla_len(a) < (int)size)
		return false;
	memcpy(ret, nla_data(a), size);
	return true;
}

static void add_vlan(struct vf_info *vf, uint32_t id, uint32_t qos, uint16_t proto)
{
	if (vf->n_vlans < VF_VLANS_MAX)
		vf->vlans[vf->n_vlans++] =
			(struct vf_vlan){(uint16_t)id, (uint8_t)qos, ntohs(proto)};
}

static void read_vlans(struct nlattr **tb, struct vf_info *vf)
{
	struct ifla_vf_vlan_info info;
	struct ifla_vf_vlan old;
	struct nlattr *a;
	int rest;

	if (tb[IFLA_VF_VLAN_LIST]) {
		nla_for_each_nested(a, tb[IFLA_VF_VLAN_LIST], rest)
		{
			if (nla_type(a) == IFLA_VF_VLAN_INFO && get(a, &info, sizeof(info)))
				add_vlan(vf, info.vlan, info.qos, info.vlan_proto);
		}
	}
	/* Linux before 4.9 reports one VLAN without its protocol, and no list of VLANs */
	if (!vf->n_vlans && get(tb[IFLA_VF_VLAN], &old, sizeof(old)))
		add_vlan(vf, old.vlan, old.qos, htons(VF_VLAN_8021Q));
}

static void read_guids(struct nlattr **tb, struct vf_info *vf)
{
	struct ifla_vf_guid node, port;

	if (!get(tb[IFLA_VF_IB_NODE_GUID], &node, sizeof(node)) ||
	    !get(tb[IFLA_VF_IB_PORT_GUID], &port, sizeof(port)))
		return;
	vf->has_guid = true;
	vf->node_guid = node.guid;
	vf->port_guid = port.guid;
}

/* Returns -1 for a setting that the driver does not support, for which the kernel sends -1. */
static int read_switch(const struct nlattr *a)
{
	struct ifla_vf_spoofchk s; /* ifla_vf_trust has the same layout */

	return get(a, &s, sizeof(s)) && s.setting <= 1 ? (int)s.setting : -1;
}

static bool read_vf(const struct nlattr *a, uint8_t mac_len, struct vf_info *ret)
{
	struct nlattr *tb[IFLA_VF_MAX + 1];
	struct ifla_vf_link_state state;
	struct ifla_vf_rate rate;
	struct ifla_vf_mac mac;

	nested_attrs(a, tb, IFLA_VF_MAX);
	if (!get(tb[IFLA_VF_MAC], &mac, sizeof(mac)))
		return false;
	*ret = (struct vf_info){.vf = mac.vf, .mac.len = mac_len};
	memcpy(ret->mac.b, mac.mac, mac_len);
	read_vlans(tb, ret);
	if (get(tb[IFLA_VF_RATE], &rate, sizeof(rate))) {
		ret->min_rate = rate.min_tx_rate;
		ret->max_rate = rate.max_tx_rate;
	}
	ret->spoofchk = read_switch(tb[IFLA_VF_SPOOFCHK]);
	ret->trust = read_switch(tb[IFLA_VF_TRUST]);
	if (get(tb[IFLA_VF_LINK_STATE], &state, sizeof(state)))
		ret->link_state = state.link_state;
	read_guids(tb, ret);
	return true;
}

static int collect(void *msg, void *arg)
{
	const struct nlmsghdr *h = msg;
	struct nlattr *tb[IFLA_MAX + 1], *a;
	struct vfs *all = arg;
	struct vf_info vf;
	struct mac pf;
	int rest, r;

	if (h->nlmsg_type != RTM_NEWLINK)
		return 0;
	r = msg_attrs(h, sizeof(struct ifinfomsg), tb, IFLA_MAX);
	if (r < 0)
		return r;
	get_mac(tb[IFLA_ADDRESS], &pf);
	all->link = true;
	all->list = tb[IFLA_VFINFO_LIST];
	all->reported = get_u32(tb[IFLA_NUM_VF], 0);
	if (!all->list)
		return 0;
	nla_for_each_nested(a, tb[IFLA_VFINFO_LIST], rest)
	{
		if (nla_type(a) == IFLA_VF_INFO && read_vf(a, pf.len, &vf))
			VEC_PUSH(all->v, all->n) = vf;
	}
	return 0;
}

static void forget(void *arg)
{
	((struct vfs *)arg)->n = 0;
}

static int too_many(const struct vfs *all, const char *pf, struct err *e)
{
	return err_set(e, -EMSGSIZE,
		       "list VFs of '%s': the kernel reported only %zu of %u VFs: its list "
		       "(IFLA_VFINFO_LIST) of at most 64 KiB is full (use fewer VFs), or the "
		       "driver does not report the others",
		       pf, all->n, all->reported);
}

static int request(struct nl_wire *w, int pf_index, const char *pf, struct vfs *all, struct err *e)
{
	struct ifinfomsg head = {.ifi_index = pf_index};
	struct nl_msg *m = msg_new(RTM_GETLINK, 0, &head, sizeof(head), MSG_ROOM);
	int r;

	/* does not request statistics, which are most of a VF's bytes */
	put_u32(m, IFLA_EXT_MASK, RTEXT_FILTER_VF | RTEXT_FILTER_SKIP_STATS);
	r = nl_request(w, m, collect, forget, all, e);
	if (r == -EMSGSIZE)
		return err_set(
			e, r,
			"list VFs of '%s': Message too long (EMSGSIZE): its VFs do not fit the "
			"kernel's list (IFLA_VFINFO_LIST) of 64 KiB: use fewer VFs",
			pf);
	if (r == 0 && !all->link)
		r = -ENODEV;
	return r < 0 ? err_wrap(e, r, "list VFs of '%s'", pf) : 0;
}

static int check(const struct vfs *all, const char *pf, struct err *e)
{
	if (!all->reported || all->n >= all->reported)
		return 0;
	/* the list is missing: most likely the driver has no ndo_get_vf_config */
	if (!all->list)
		return err_kind(e, ERR_UNAVAILABLE, -EOPNOTSUPP,
				"list VFs of '%s': the PF has %u VFs, but its driver reports "
				"nothing about them",
				pf, all->reported);
	return too_many(all, pf, e);
}

static int by_number(const void *a, const void *b)
{
	const struct vf_info *x = a, *y = b;

	return (x->vf > y->vf) - (x->vf < y->vf);
}

int vf_list(struct nl_wire *w, int pf_index, const char *pf, struct vf_info **ret, size_t *n,
	    struct err *e)
{
	struct vfs all = {0};
	int r = request(w, pf_index, pf, &all, e);

	if (r == 0)
		r = check(&all, pf, e);
	if (r < 0) {
		free(all.v);
		return r;
	}
	if (all.n)
		qsort(all.v, all.n, sizeof(*all.v), by_number);
	*ret = all.v;
	*n = all.n;
	return 0;
}

int vf_get(struct nl_wire *w, int pf_index, const char *pf, uint32_t vf, struct vf_info *ret,
	   struct err *e)
{
	struct vfs all = {0};
	bool found = false;
	int r = request(w, pf_index, pf, &all, e);

	for (size_t i = 0; r == 0 && i < all.n && !found; i++) {
		found = all.v[i].vf == vf;
		if (found)
			*ret = all.v[i];
	}
	if (r == 0 && !found)
		r = check(&all, pf, e);
	if (r == 0 && !found)
		r = err_set(e, -ENOENT, "look up VF %u of '%s': the PF has %zu VFs", vf, pf, all.n);
	free(all.v);
	return r;
}

const char *vf_guid_str(uint64_t guid, char buf[static VF_GUID_TEXT_MAX])
{
	for (int i = 0; i < 8; i++)
		snprintf(buf + 3 * i, 4, "%02x%s", (unsigned int)(guid >> (56 - 8 * i) & 0xff),
			 i < 7 ? ":" : "");
	return buf;
}

int vf_guid_parse(struct span s, uint64_t *ret)
{
	struct span rest = s, part;
	uint64_t guid = 0, byte;

	if (s.n != 8 * 3 - 1)
		return -EINVAL;
	while (span_cut(&rest, ':', &part)) {
		if (part.n != 2 || num_hex(part, UINT8_MAX, &byte) < 0)
			return -EINVAL;
		guid = guid << 8 | byte;
	}
	if (!guid)
		return -EINVAL;
	*ret = guid;
	return 0;
}

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

	/* clears the four bytes of padding, which are sent to the kernel as well */
	memset(&a, 0, sizeof(a));
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
