/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/log.h"
#include "cni/device/vf_conf.h"
#include "cni/plugins/sriov/internal.h"
#include "cni/plugins/sriov/sriov.h"

/* sriov's netconf. */

struct runtime_conf {
	const char *device_id, *mac;
};

struct raw {
	const char *device_id, *vlan_proto, *mac, *spoofchk, *trust, *link_state, *log_level,
		*log_file;
	int64_t vlan, qos, mtu, min_rate, max_rate;
	bool has_vlan, has_qos, has_proto, has_min, has_max;
	struct runtime_conf runtime;
};

#define STR(key, member, ...) JSON_FIELD(key, J_STR, struct raw, member, ##__VA_ARGS__)
#define OPT(key, kind, member, flag, ...)                                                          \
	JSON_FIELD(key, kind, struct raw, member, .has = offsetof(struct raw, flag), ##__VA_ARGS__)

static const struct json_field runtime_fields[] = {
	JSON_FIELD("deviceID", J_STR, struct runtime_conf, device_id,
		   JSON_DOC(NULL, "PCI address of the VF, usually from the device plugin; used if "
				  "deviceID is absent")),
	JSON_FIELD("mac", J_STR, struct runtime_conf, mac,
		   JSON_DOC(NULL, "MAC of the VF; takes precedence over MAC of CNI_ARGS and over "
				  "the key mac")),
	{0},
};
static const struct json_table runtime_table = {runtime_fields, JSON_GO,
						sizeof(struct runtime_conf)};

static const struct json_field fields[] = {
	STR("deviceID", device_id, JSON_DOC(NULL, "PCI address of the VF")),
	OPT("vlan", J_INT, vlan, has_vlan,
	    JSON_DOC(NULL, "VLAN id, 0 to 4094; 0: none; without this key the VF keeps its "
			   "setting")),
	OPT("vlanQoS", J_INT, qos, has_qos,
	    JSON_DOC("0", "VLAN priority, 0 to 7; allowed only if "
			  "vlan is set")),
	OPT("vlanProto", J_STR, vlan_proto, has_proto,
	    JSON_DOC("802.1q", "802.1q or 802.1ad; allowed only if vlan is set")),
	STR("mac", mac,
	    JSON_DOC(NULL,
		     "MAC of the VF, used if neither runtimeConfig.mac nor CNI_ARGS MAC is set")),
	JSON_FIELD("mtu", J_INT, struct raw, mtu,
		   JSON_OWN(NULL, "MTU in the pod, at most the PF's")),
	OPT("min_tx_rate", J_INT, min_rate, has_min,
	    JSON_DOC(NULL, "guaranteed transmit rate in Mbit/s; 0: none; also 0 if only "
			   "max_tx_rate is set")),
	OPT("max_tx_rate", J_INT, max_rate, has_max,
	    JSON_DOC(NULL, "maximum transmit rate in Mbit/s; 0: no limit; also 0 if only "
			   "min_tx_rate is set")),
	STR("spoofchk", spoofchk,
	    JSON_DOC(NULL, "on, or any other word for off; without this key the VF keeps its "
			   "setting")),
	STR("trust", trust,
	    JSON_DOC(NULL, "on, or any other word for off; without this key the VF keeps its "
			   "setting")),
	STR("link_state", link_state,
	    JSON_DOC(NULL, "auto, enable or disable; without this key the VF keeps its setting")),
	STR("logLevel", log_level,
	    JSON_DOC("info", "error, warning, info, debug, panic or verbose")),
	STR("logFile", log_file,
	    JSON_DOC(NULL, "path of the log file; without this key the log "
			   "goes to stderr")),
	JSON_FIELD("runtimeConfig", J_OBJ, struct raw, runtime, .sub = &runtime_table,
		   JSON_DOC(NULL, "from the runtime")),
	{0},
};
const struct json_table sriov_table = {fields, JSON_GO, sizeof(struct raw)};

#define BAD(e, ...) err_kind(e, ERR_CONF, -EINVAL, __VA_ARGS__)

static int check_vlan(const struct raw *raw, bool ad, struct err *e)
{
	if (raw->has_qos && !raw->has_vlan)
		return BAD(e, "vlan id must be configured to set vlan QoS to a non-nil value "
			      "(conf.vlanQoS without conf.vlan)");
	if (raw->has_proto && !raw->has_vlan)
		return BAD(e, "vlan id must be configured to set vlan proto to a non-nil value "
			      "(conf.vlanProto without conf.vlan)");
	if (raw->vlan < 0 || raw->vlan > 4094)
		return BAD(e, "vlan id %lld invalid: value must be in the range 0-4094 (conf.vlan)",
			   (long long)raw->vlan);
	if (raw->qos < 0 || raw->qos > 7)
		return BAD(e,
			   "vlan QoS PCP %lld invalid: value must be in the range 0-7 "
			   "(conf.vlanQoS)",
			   (long long)raw->qos);
	if (raw->qos && !raw->vlan)
		return BAD(e, "non-zero vlan id must be configured to set vlan QoS to a non-zero "
			      "value (conf.vlanQoS, conf.vlan)");
	if (ad && !raw->vlan)
		return BAD(e, "non-zero vlan id must be configured to set vlan proto 802.1ad "
			      "(conf.vlanProto, conf.vlan)");
	return 0;
}

static int read_vlan(const struct raw *raw, struct sriov_conf *c, struct err *e)
{
	bool ad = raw->has_proto && strcasecmp(raw->vlan_proto, "802.1ad") == 0;
	int r = check_vlan(raw, ad, e);

	if (r < 0)
		return r;
	if (raw->has_proto && !ad && strcasecmp(raw->vlan_proto, "802.1q") != 0)
		return BAD(e,
			   "vlan Proto %s invalid: value must be '802.1Q' or '802.1ad' "
			   "(conf.vlanProto)",
			   raw->vlan_proto);
	c->has_vlan = raw->has_vlan;
	if (!raw->has_vlan)
		return 0;
	c->want.set |= VF_ATTR_VLAN;
	c->want.to.n_vlans = 1;
	c->want.to.vlans[0] = (struct vf_vlan){(uint16_t)raw->vlan, (uint8_t)raw->qos,
					       ad ? VF_VLAN_8021AD : VF_VLAN_8021Q};
	return 0;
}

static int read_one_rate(const char *key, int64_t v, uint32_t *ret, struct err *e)
{
	if (v < 0 || v > INT32_MAX)
		return BAD(e, "conf.%s is %lld, expected 0 to %d Mbit/s", key, (long long)v,
			   INT32_MAX);
	*ret = (uint32_t)v;
	return 0;
}

static int read_rate(const struct raw *raw, struct sriov_conf *c, struct err *e)
{
	struct vf_info *to = &c->want.to;
	int r = read_one_rate("min_tx_rate", raw->min_rate, &to->min_rate, e);

	if (r >= 0)
		r = read_one_rate("max_tx_rate", raw->max_rate, &to->max_rate, e);
	if (r < 0)
		return r;
	if (to->max_rate && to->min_rate > to->max_rate)
		return BAD(e, "conf.min_tx_rate is %u, more than conf.max_tx_rate, which is %u",
			   to->min_rate, to->max_rate);
	c->has_min = raw->has_min;
	c->has_max = raw->has_max;
	if (c->has_min || c->has_max)
		c->want.set |= VF_ATTR_RATE;
	return 0;
}

/* Any value except "on" means off, as in the original. */
static int read_switch(const char *key, const char *text)
{
	if (strcmp(text, "on") == 0)
		return 1;
	if (strcmp(text, "off") != 0)
		log_warn("unknown value is treated as off", LOG_S("field", key),
			 LOG_S("value", text), LOG_S("expected", "on or off"));
	return 0;
}

static void read_switches(const struct raw *raw, struct sriov_conf *c)
{
	c->spoofchk = str_if_set(raw->spoofchk);
	c->trust = str_if_set(raw->trust);
	if (c->spoofchk) {
		c->want.set |= VF_ATTR_SPOOFCHK;
		c->want.to.spoofchk = read_switch("conf.spoofchk", c->spoofchk);
	}
	if (c->trust) {
		c->want.set |= VF_ATTR_TRUST;
		c->want.to.trust = read_switch("conf.trust", c->trust);
	}
}

static int read_link_state(const struct raw *raw, struct sriov_conf *c, struct err *e)
{
	int r;

	c->link_state = str_if_set(raw->link_state);
	if (!c->link_state)
		return 0;
	r = vf_conf_link_state(c->link_state, &c->want.to.link_state, e);
	if (r == 0)
		c->want.set |= VF_ATTR_LINK_STATE;
	return r;
}

static int read_mac(const struct raw *raw, const char *args_mac, struct rail_conf *c, struct err *e)
{
	const char *text = str_if_set(raw->runtime.mac), *place = "runtimeConfig.mac";

	if (!text) {
		text = str_if_set(args_mac);
		place = "CNI_ARGS MAC";
	}
	if (!text) {
		text = str_if_set(raw->mac);
		place = "conf.mac";
	}
	if (!text)
		return 0;
	if (mac_parse(span_of(text), &c->mac) < 0 || c->mac.len != 6 || c->mac.b[0] & 1)
		return BAD(e,
			   ORIG("failed to parse MAC address %s (%s: expected one such as "
				"02:00:5e:10:00:01)"),
			   text, place);
	c->sriov.want.set |= VF_ATTR_MAC;
	c->sriov.want.to.mac = c->mac;
	return 0;
}

static int read_mtu(const struct raw *raw, struct rail_conf *c, struct err *e)
{
	/* The upper limit is the MTU of the PF, which is not known yet. */
	if (raw->mtu && (raw->mtu < 68 || raw->mtu > INT32_MAX))
		return BAD(e, "conf.mtu is %lld, expected 68 to the PF's MTU", (long long)raw->mtu);
	c->mtu = (uint32_t)raw->mtu;
	return 0;
}

static int read_values(const struct rail_source *s, const struct raw *raw, struct rail_conf *c,
		       struct err *e)
{
	int r = read_vlan(raw, &c->sriov, e);

	if (r >= 0)
		r = read_rate(raw, &c->sriov, e);
	if (r >= 0)
		r = read_link_state(raw, &c->sriov, e);
	if (r >= 0)
		r = read_mac(raw, s->args_mac, c, e);
	if (r >= 0)
		r = read_mtu(raw, c, e);
	read_switches(raw, &c->sriov);
	return r < 0 ? err_wrap(e, r, ORIG("LoadConf()")) : 0;
}

int sriov_read(const struct rail_source *s, struct rail_conf *ret, struct err *e)
{
	struct rail_conf c = {0};
	struct raw raw = {0};
	int r = rail_read_common(s, &c, e);

	if (r >= 0)
		r = rail_read_own(s, &sriov_table, &raw, e);
	if (r < 0)
		return err_wrap(e, r, ORIG("SRIOV-CNI failed to load netconf"));
	c.sriov.device_id = str_if_set(raw.device_id) ? raw.device_id
						      : str_if_set(raw.runtime.device_id);
	c.sriov.runtime_mac = str_if_set(raw.runtime.mac);
	c.sriov.log_level = str_if_set(raw.log_level);
	c.sriov.log_file = str_if_set(raw.log_file);
	r = read_values(s, &raw, &c, e);
	if (r < 0) {
		ret->ipam = c.ipam;
		ret->sriov.device_id = c.sriov.device_id;
		return err_wrap(e, r, ORIG("SRIOV-CNI failed to load netconf"));
	}
	*ret = c;
	return 0;
}

/* sriov_record_print() writes the record of a VF as the original's cache file: the original's
 * keys in the original's order, and the key unirail. */

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

/* Writes a member of the configuration, which the original stores unchanged. */
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
	jo_kstr_if_set(&o, "cniVersion", n->version);
	jo_kstr(&o, "deviceID", r->device);
	put_same(&o, n->conf, "dns");
	vf_record_put_inner(&o, "ipam", "type", n->ipam_type);
	jo_kstr_if_set(&o, "link_state", c->link_state);
	jo_kstr_if_set(&o, "logFile", c->log_file);
	jo_kstr_if_set(&o, "logLevel", c->log_level);
	put_opt(&o, "max_tx_rate", c->has_max, c->want.to.max_rate);
	put_opt(&o, "min_tx_rate", c->has_min, c->want.to.min_rate);
	jo_kstr_if_set(&o, "name", r->network);
	put_same(&o, n->conf, "prevResult");
	vf_record_put_inner(&o, "runtimeConfig", "mac", c->runtime_mac);
	jo_kstr_if_set(&o, "spoofchk", c->spoofchk);
	jo_kstr_if_set(&o, "trust", c->trust);
	jo_kstr_if_set(&o, "type", "sriov");
	jo_key(&o, "unirail");
	vf_record_put(&o, r);
	put_vlan(&o, c);
	jo_end_obj(&o);
}
