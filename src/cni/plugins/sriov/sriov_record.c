/* SPDX-License-Identifier: Apache-2.0 */
/* The record of a VF as the original's cache file: its keys, its order. */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/cleanup.h"
#include "cni/plugins/sriov/sriov.h"
#include "cni/device/vf_conf.h"

/* --- writing: Go writes the keys of a map sorted, those of a struct as they are declared --- */

static void put_mac(struct json_out *o, const char *key, const struct mac *mac)
{
	char text[MAC_TEXT_MAX];

	jo_kstr(o, key, mac->len ? mac_str(mac, text) : "");
}

static void put_state(struct json_out *o, const struct vf_record *r)
{
	const struct vf_info *was = &r->was;
	struct vf_vlan vlan = was->vlans[0];

	jo_key(o, "OrigVfState");
	jo_obj(o);
	jo_kstr(o, "HostIFName", r->name);
	jo_kbool(o, "SpoofChk", was->spoofchk > 0);
	jo_kbool(o, "Trust", was->trust > 0);
	put_mac(o, "AdminMAC", &was->mac);
	put_mac(o, "EffectiveMAC", &r->mac);
	jo_kint(o, "Vlan", vlan.id);
	jo_kint(o, "VlanQoS", vlan.qos);
	jo_kint(o, "VlanProto", vlan.proto ? vlan.proto : VF_VLAN_8021Q);
	jo_kint(o, "MinTxRate", was->min_rate);
	jo_kint(o, "MaxTxRate", was->max_rate);
	jo_kint(o, "LinkState", was->link_state);
	jo_kint(o, "MTU", r->link_mtu);
	jo_end_obj(o);
}

static void put_opt(struct json_out *o, const char *key, bool has, int64_t v)
{
	jo_key(o, key);
	if (has)
		jo_int(o, v);
	else
		jo_null(o);
}

/* What the configuration has and the original keeps as it is. */
static void put_same(struct json_out *o, const struct json *conf, const char *key)
{
	const struct json *v = json_get_go(conf, key);

	if (json_kind(v) == JSON_NULL)
		return;
	jo_key(o, key);
	jo_val(o, v, true);
}

static void put_vlan(struct json_out *o, const struct sriov_conf *c)
{
	const struct vf_vlan *vlan = &c->want.to.vlans[0];

	put_opt(o, "vlan", c->has_vlan, vlan->id);
	jo_key(o, "vlanProto");
	if (c->has_vlan)
		jo_str(o, vlan->proto == VF_VLAN_8021AD ? "802.1ad" : "802.1q");
	else
		jo_null(o);
	put_opt(o, "vlanQoS", c->has_vlan, vlan->qos);
}

void sriov_record_print(const struct vf_record *r, const struct sriov_netconf *n, struct buf *b)
{
	const struct sriov_conf *c = n->c;
	struct json_out o;

	jo_init(&o, b, 0);
	jo_obj(&o);
	put_mac(&o, "MAC", &r->pod_mac);
	jo_kint(&o, "MTU", r->mtu);
	jo_kstr(&o, "Master", r->pf);
	put_state(&o, r);
	jo_kint(&o, "VFID", r->was.vf);
	put_same(&o, n->conf, "capabilities");
	vf_record_put_text(&o, "cniVersion", n->version);
	jo_kstr(&o, "deviceID", r->device);
	put_same(&o, n->conf, "dns");
	vf_record_put_inner(&o, "ipam", "type", n->ipam_type);
	vf_record_put_text(&o, "link_state", c->link_state);
	vf_record_put_text(&o, "logFile", c->log_file);
	vf_record_put_text(&o, "logLevel", c->log_level);
	put_opt(&o, "max_tx_rate", c->has_max, c->want.to.max_rate);
	put_opt(&o, "min_tx_rate", c->has_min, c->want.to.min_rate);
	vf_record_put_text(&o, "name", r->network);
	put_same(&o, n->conf, "prevResult");
	vf_record_put_inner(&o, "runtimeConfig", "mac", c->runtime_mac);
	vf_record_put_text(&o, "spoofchk", c->spoofchk);
	vf_record_put_text(&o, "trust", c->trust);
	vf_record_put_text(&o, "type", "sriov");
	jo_key(&o, "unirail");
	vf_record_put(&o, r);
	put_vlan(&o, c);
	jo_end_obj(&o);
}

/* --- reading --- */

struct state {
	const char *name;
	bool spoofchk, trust;
	struct mac admin, effective;
	int64_t vlan, qos, proto, min_rate, max_rate, link_state, mtu;
};

struct raw {
	struct mac mac;
	const char *pf, *device, *network, *spoofchk, *trust;
	struct state state;
	bool has_state;
	int64_t mtu, vf;
	const struct json *own;
};

#define NUMBER(key, type_of, member, largest)                                                      \
	{                                                                                          \
		.name = key, .type = J_INT, .offset = offsetof(struct type_of, member),            \
		.max = (largest)                                                                   \
	}
#define FIELD(key, kind, type_of, member)                                                          \
	{                                                                                          \
		.name = key, .type = (kind), .offset = offsetof(struct type_of, member)            \
	}

static const struct json_field state_fields[] = {
	FIELD("HostIFName", J_STR, state, name),
	FIELD("SpoofChk", J_BOOL, state, spoofchk),
	FIELD("Trust", J_BOOL, state, trust),
	FIELD("AdminMAC", J_MAC, state, admin),
	FIELD("EffectiveMAC", J_MAC, state, effective),
	NUMBER("Vlan", state, vlan, 4095),
	NUMBER("VlanQoS", state, qos, 7),
	NUMBER("VlanProto", state, proto, UINT16_MAX),
	NUMBER("MinTxRate", state, min_rate, UINT32_MAX),
	NUMBER("MaxTxRate", state, max_rate, UINT32_MAX),
	NUMBER("LinkState", state, link_state, VF_LINK_DISABLE),
	NUMBER("MTU", state, mtu, INT32_MAX),
	{0},
};
static const struct json_table state_table = {state_fields, JSON_GO, sizeof(struct state)};

static const struct json_field fields[] = {
	FIELD("MAC", J_MAC, raw, mac),
	NUMBER("MTU", raw, mtu, INT32_MAX),
	FIELD("Master", J_STR, raw, pf),
	{.name = "OrigVfState",
	 .type = J_OBJ,
	 .offset = offsetof(struct raw, state),
	 .has = offsetof(struct raw, has_state),
	 .sub = &state_table,
	 .required = true},
	NUMBER("VFID", raw, vf, UINT16_MAX),
	FIELD("deviceID", J_STR, raw, device),
	FIELD("name", J_STR, raw, network),
	FIELD("spoofchk", J_STR, raw, spoofchk),
	FIELD("trust", J_STR, raw, trust),
	FIELD("unirail", J_VAL, raw, own),
	{0},
};
static const struct json_table table = {fields, JSON_GO, sizeof(struct raw)};

static void take_state(const struct state *s, struct vf_record *r)
{
	struct vf_info *was = &r->was;

	was->mac = s->admin;
	was->spoofchk = s->spoofchk;
	was->trust = s->trust;
	was->n_vlans = 1;
	was->vlans[0] = (struct vf_vlan){(uint16_t)s->vlan, (uint8_t)s->qos, (uint16_t)s->proto};
	/* Before version 2.8 there was no protocol. */
	if (!s->proto)
		was->vlans[0].proto = VF_VLAN_8021Q;
	was->min_rate = (uint32_t)s->min_rate;
	was->max_rate = (uint32_t)s->max_rate;
	was->link_state = (uint32_t)s->link_state;
	r->mac = s->effective;
	r->link_mtu = (uint32_t)s->mtu;
}

static int parse(struct span text, struct vf_record *ret, struct err *e)
{
	auto_json struct json_doc *d = NULL;
	auto_vf_record struct vf_record r = {0};
	struct raw raw = {0};
	int code = json_parse(&d, text, VF_RECORD_MAX, e);

	if (code >= 0)
		code = json_read(d, json_root(d), &table, &raw, "record", e);
	if (code >= 0)
		code = vf_record_take_names(&r, raw.device, "OrigVfState.HostIFName",
					    raw.state.name, raw.pf, e);
	if (code < 0)
		return code;
	take_state(&raw.state, &r);
	r.was.vf = (uint32_t)raw.vf;
	r.mtu = (uint32_t)raw.mtu;
	r.pod_mac = raw.mac;
	r.network = xstrdup(raw.network ? raw.network : "");
	if (raw.spoofchk && *raw.spoofchk)
		r.asked |= VF_ATTR_SPOOFCHK;
	if (raw.trust && *raw.trust)
		r.asked |= VF_ATTR_TRUST;
	/* The original forgets that a VF was with DPDK; one without a netdev was. */
	r.dpdk = !*r.name;
	code = vf_record_take(d, raw.own, &r, e);
	if (code < 0)
		return code;
	*ret = r;
	r = (struct vf_record){0};
	return 0;
}

const struct vf_store sriov_store = {"/var/lib/cni/sriov", parse};
