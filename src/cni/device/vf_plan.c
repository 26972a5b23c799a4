/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/device/vf_plan.h"

const char *vf_attr_name(unsigned int attr)
{
	static const char *const names[] = {"vlan",	"mac",	 "min_tx_rate/max_tx_rate",
					    "spoofchk", "trust", "link_state",
					    "guid"};
	unsigned int i = 0;

	while (i + 1 < sizeof(names) / sizeof(names[0]) && !(attr & 1U << i))
		i++;
	return names[i];
}

/* Of a driver that tells none: VLAN 0, which has one protocol. */
static struct vf_vlan vlan_of(const struct vf_info *v)
{
	struct vf_vlan vlan = v->vlans[0];

	if (!vlan.id && !vlan.qos)
		vlan.proto = VF_VLAN_8021Q;
	return vlan;
}

static bool vlan_eq(const struct vf_info *a, const struct vf_info *b)
{
	struct vf_vlan x = vlan_of(a), y = vlan_of(b);

	return x.id == y.id && x.qos == y.qos && x.proto == y.proto;
}

unsigned int vf_plan_missing(const struct vf_attrs *want, const struct vf_info *now)
{
	const struct vf_info *to = &want->to;
	unsigned int differs = 0;

	if (!vlan_eq(to, now))
		differs |= VF_ATTR_VLAN;
	if (!mac_eq(&to->mac, &now->mac))
		differs |= VF_ATTR_MAC;
	if (to->min_rate != now->min_rate || to->max_rate != now->max_rate)
		differs |= VF_ATTR_RATE;
	if (to->spoofchk != now->spoofchk)
		differs |= VF_ATTR_SPOOFCHK;
	if (to->trust != now->trust)
		differs |= VF_ATTR_TRUST;
	if (to->link_state != now->link_state)
		differs |= VF_ATTR_LINK_STATE;
	if (to->node_guid != now->node_guid || to->port_guid != now->port_guid)
		differs |= VF_ATTR_GUID;
	return want->set & differs;
}

struct vf_attrs vf_plan_restore(const struct vf_info *was, const struct vf_info *now,
				unsigned int asked)
{
	struct vf_attrs back = {.set = VF_ATTR_ALL, .to = *was};

	if (!was->mac.len)
		back.set &= ~(unsigned int)VF_ATTR_MAC;
	if (!was->has_guid)
		back.set &= ~(unsigned int)VF_ATTR_GUID;
	if (was->spoofchk < 0) {
		back.to.spoofchk = 1;
		back.set &= ~(unsigned int)VF_ATTR_SPOOFCHK | asked;
	}
	if (was->trust < 0) {
		back.to.trust = 0;
		back.set &= ~(unsigned int)VF_ATTR_TRUST | asked;
	}
	back.set = vf_plan_missing(&back, now);
	/* Told then, and not now: only what was changed needs to be changed back. */
	if (now->spoofchk < 0)
		back.set &= ~(unsigned int)VF_ATTR_SPOOFCHK | asked;
	if (now->trust < 0)
		back.set &= ~(unsigned int)VF_ATTR_TRUST | asked;
	return back;
}

static bool is_zero(const struct mac *mac)
{
	for (unsigned int i = 0; i < mac->len; i++)
		if (mac->b[i])
			return false;
	return true;
}

struct vf_info vf_plan_guess(const struct vf_info *now, const struct vf_info *sibling,
			     const struct mac *mac)
{
	struct vf_info was = {.vf = now->vf, .mac = {.len = now->mac.len}, .spoofchk = 1};

	if (sibling) {
		was = *sibling;
		was.vf = now->vf;
		was.mac = (struct mac){.len = now->mac.len};
	}
	if (sibling && !is_zero(&sibling->mac))
		was.mac = *mac;
	if (now->spoofchk < 0)
		was.spoofchk = -1;
	if (now->trust < 0)
		was.trust = -1;
	was.has_guid = false;
	return was;
}

static void put_one(struct nl_batch *b, const struct vf_ref *ref, const struct vf_info *to,
		    unsigned int attr)
{
	struct vf_vlan vlan = vlan_of(to);

	switch (attr) {
	case VF_ATTR_VLAN: vf_set_vlan(b, ref, &vlan); break;
	case VF_ATTR_MAC: vf_set_mac(b, ref, &to->mac); break;
	case VF_ATTR_RATE: vf_set_rate(b, ref, to->min_rate, to->max_rate); break;
	case VF_ATTR_SPOOFCHK: vf_set_spoofchk(b, ref, to->spoofchk > 0); break;
	case VF_ATTR_TRUST: vf_set_trust(b, ref, to->trust > 0); break;
	case VF_ATTR_LINK_STATE:
		vf_set_link_state(b, ref, (enum vf_link_state)to->link_state);
		break;
	default: vf_set_node_guid(b, ref, to->node_guid); vf_set_port_guid(b, ref, to->port_guid);
	}
}

size_t vf_plan_batch(const struct vf_attrs *want, const struct vf_ref *ref, struct nl_batch *b,
		     unsigned int attrs[static VF_ATTRS_MAX])
{
	size_t start = nl_batch_len(b), n = 0;

	for (unsigned int attr = 1; attr & VF_ATTR_ALL; attr <<= 1) {
		if (!(want->set & attr))
			continue;
		put_one(b, ref, &want->to, attr);
		while (start + n < nl_batch_len(b))
			attrs[n++] = attr;
	}
	return n;
}
