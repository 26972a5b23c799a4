/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "cni/ipam/ipam_plugins.h"
#include "cni/protocol/ipam_call.h"
#include "netconf.h"

enum { TEXT_MAX = 8 << 20 };

void netconf_check_rail(const struct rail_conf *c)
{
	must(c->mac.len == 0 || (c->mac.len == 6 && !(c->mac.b[0] & 1)));
	must(c->mtu <= INT32_MAX);
	must(!c->master || *c->master);
}

/* Mode, VLAN and similar attributes must have values that the kernel defines. */
static void check_kind(const struct link_driver *k, const struct rail_conf *c,
		       const struct link *master)
{
	struct link_spec s = LINK_SPEC_INIT;

	netconf_check_rail(c);
	if (!k->spec)
		return;
	k->spec(c, master, &s);
	must(k != &macvlan_kind || strcmp(macvlan_mode_name(s.macvlan_mode), "unknown") != 0);
	must(k != &ipvlan_kind || strcmp(ipvlan_mode_name(s.ipvlan_mode), "unknown") != 0);
	must(s.vlan_id < 4095);
	must(!s.ipoib_pkey || s.ipoib_pkey & 0x7fff);
}

/* Checks that the attributes to set on the VF are known, and that their values are in the
 * kernel's range. */
static void check_sriov(const struct sriov_conf *c)
{
	const struct vf_info *to = &c->want.to;

	must(!(c->want.set & ~(unsigned int)VF_ATTR_ALL));
	must(to->vlans[0].id < 4095 && to->vlans[0].qos < 8);
	must(!to->max_rate || to->min_rate <= to->max_rate);
	must(to->link_state <= VF_LINK_DISABLE);
}

static int read_rail(const struct link_driver *k, struct cni_call *c, struct cni_result *out,
		     struct err *e)
{
	const struct link master = {.mtu = 1500, .name = "ens1"};
	struct cni_ipam_call call = cni_ipam_call_of(c);
	struct rail_source s = {.doc = c->doc, .conf = c->conf};
	struct cni_args args = {0};
	struct rail_conf conf = {0};
	auto_buf struct buf keep;
	int r;

	buf_init(&keep, TEXT_MAX);
	r = cni_args_parse(c->args_text, &args, &keep, e);
	s.args_mac = args.mac;
	if (r == 0)
		r = k->read(&s, &conf, e);
	if (r < 0)
		return r;
	check_kind(k, &conf, &master);
	if (k == &sriov_kind)
		check_sriov(&conf.sriov);
	cni_result_iface(out, c->ifname, "02:00:00:00:00:01", c->netns);
	if (k->fits)
		r = k->fits(&conf, &master, e);
	if (r == 0)
		r = cni_dns_read(c->doc, conf.dns, &out->dns, e);
	return r < 0 ? r : netconf_ipam(&call, out, e);
}

int netconf_macvlan(struct cni_call *c, struct cni_result *out, struct err *e)
{
	return read_rail(&macvlan_kind, c, out, e);
}

int netconf_ipvlan(struct cni_call *c, struct cni_result *out, struct err *e)
{
	return read_rail(&ipvlan_kind, c, out, e);
}

int netconf_vlan(struct cni_call *c, struct cni_result *out, struct err *e)
{
	return read_rail(&vlan_kind, c, out, e);
}

int netconf_ipoib(struct cni_call *c, struct cni_result *out, struct err *e)
{
	return read_rail(&ipoib_kind, c, out, e);
}

int netconf_ib_sriov(struct cni_call *c, struct cni_result *out, struct err *e)
{
	return read_rail(&ib_sriov_kind, c, out, e);
}

int netconf_host_device(struct cni_call *c, struct cni_result *out, struct err *e)
{
	return read_rail(&host_device_kind, c, out, e);
}

int netconf_sriov(struct cni_call *c, struct cni_result *out, struct err *e)
{
	return read_rail(&sriov_kind, c, out, e);
}
