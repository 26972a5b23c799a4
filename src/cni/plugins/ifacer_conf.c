/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <search.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/num.h"
#include "cni/plugins/ifacer.h"

struct raw_bond {
	const char *name, *options;
	int64_t mode;
};

static const struct json_field bond_fields[] = {
	JSON_FIELD("name", J_STR, struct raw_bond, name, JSON_DOC("sp_bond0", "name of the bond")),
	JSON_FIELD("mode", J_INT, struct raw_bond, mode, JSON_DOC("0", "mode of the bond, 0 to 6")),
	JSON_FIELD("options", J_STR, struct raw_bond, options,
		   JSON_DOC(NULL, "options of the bond, NAME=VALUE;NAME=VALUE")),
	{0},
};
static const struct json_table bond_table = {bond_fields, JSON_GO, sizeof(struct raw_bond)};

struct raw {
	struct json_strs interfaces;
	int64_t vlan;
	const struct json *bond;
};

static const struct json_field fields[] = {
	JSON_FIELD("interfaces", J_STRS, struct raw, interfaces,
		   JSON_DOC(NULL,
			    "names of interfaces; two or more: the ports of the bond, if bond is "
			    "set; one: the parent of the VLAN interface, if vlanID is not 0")),
	JSON_FIELD("vlanID", J_INT, struct raw, vlan,
		   JSON_DOC("0", "VLAN id, 0 to 4094; 0: no VLAN interface")),
	JSON_FIELD("bond", J_VAL, struct raw, bond, .sub = &bond_table,
		   JSON_DOC(NULL, "the bond, if there are two or more interfaces")),
	{0},
};
const struct json_table ifacer_table = {fields, JSON_GO, sizeof(struct raw)};

static int read_bond(struct json_doc *d, const struct json *v, struct ifacer_conf *c, struct err *e)
{
	struct raw_bond raw = {0};
	int r;

	if (json_kind(v) == JSON_NULL)
		return 0;
	if (json_kind(v) != JSON_OBJECT)
		return err_kind(e, ERR_CONF, -EINVAL, "conf.bond is %s, expected an object",
				json_kind_name(v));
	r = json_read(d, v, &bond_table, &raw, "conf.bond", e);
	if (r < 0)
		return r;
	c->has_bond = true;
	c->bond_name = raw.name && *raw.name ? raw.name : IFACER_BOND;
	if (!link_name_ok(c->bond_name))
		return err_kind(e, ERR_CONF, -EINVAL,
				"conf.bond.name is '%s', expected an interface's name",
				c->bond_name);
	if (raw.mode < 0 || raw.mode > 6)
		return err_kind(e, ERR_CONF, -EINVAL,
				"unknown bond mode: %lld, available mode: [0,6] (conf.bond.mode)",
				(long long)raw.mode);
	link_bond_set(&c->bond, LINK_BOND_MODE, (uint32_t)raw.mode);
	return raw.options ? ifacer_options(raw.options, c, e) : 0;
}

static int check_name(const struct ifacer_conf *c, size_t i, void **seen, struct err *e)
{
	const char *name = c->interfaces[i];
	const char *const *found;

	if (!link_name_ok(name))
		return err_kind(e, ERR_CONF, -EINVAL,
				"conf.interfaces[%zu] is '%s', expected an interface's name", i,
				name);
	if (ifacer_wants_bond(c) && strcmp(name, c->bond_name) == 0)
		return err_kind(e, ERR_CONF, -EINVAL,
				"conf.interfaces[%zu] is '%s', the same as conf.bond.name", i,
				name);
	found = xtsearch(name, seen, (int (*)(const void *, const void *))strcmp);
	if (*found != name)
		return err_kind(e, ERR_CONF, -EINVAL, "conf.interfaces has '%s' twice", name);
	return 0;
}

static void nothing(void *name)
{
	(void)name;
}

static int check_names(const struct ifacer_conf *c, struct err *e)
{
	void *seen = NULL;
	int r = 0;

	for (size_t i = 0; r == 0 && i < c->n_interfaces; i++)
		r = check_name(c, i, &seen, e);
	tdestroy(seen, nothing);
	return r;
}

/* Checks an option whose value names a port of the bond. */
static int check_port(const struct ifacer_conf *c, const char *option, const char *name,
		      struct err *e)
{
	if (!*name || !ifacer_wants_bond(c))
		return 0;
	for (size_t i = 0; i < c->n_interfaces; i++)
		if (strcmp(c->interfaces[i], name) == 0)
			return 0;
	return err_kind(e, ERR_CONF, -EINVAL,
			"conf.bond.options: %s is '%s', which is not in conf.interfaces", option,
			name);
}

static int check_vlan_name(const struct ifacer_conf *c, struct err *e)
{
	const char *parent = ifacer_wants_bond(c) ? c->bond_name : c->interfaces[0];
	auto_free char *name = xasprintf("%s.%u", parent, c->vlan);

	if (!ifacer_wants_vlan(c) || link_name_ok(name))
		return 0;
	return err_kind(e, ERR_CONF, -EINVAL,
			"VLAN interface '%s' would have a name of more than 15 bytes", name);
}

int ifacer_conf_read(struct json_doc *d, const struct json *conf, struct ifacer_conf *ret,
		     struct err *e)
{
	struct ifacer_conf c = {0};
	struct raw raw = {0};
	int r = json_read(d, conf, &ifacer_table, &raw, "conf", e);

	if (r < 0)
		return r;
	if (!raw.interfaces.n)
		return err_kind(e, ERR_CONF, -EINVAL,
				"invalid config: interfaces have at least one interface "
				"(conf.interfaces)");
	if (raw.vlan < 0 || raw.vlan > IFACER_VLAN_MAX)
		return err_kind(
			e, ERR_CONF, -EINVAL,
			"invalid vlanID %lld: vlanID must be in range [0,4094] (conf.vlanID)",
			(long long)raw.vlan);
	c.interfaces = raw.interfaces.v;
	c.n_interfaces = raw.interfaces.n;
	c.vlan = (uint16_t)raw.vlan;
	r = read_bond(d, raw.bond, &c, e);
	if (r >= 0)
		r = check_names(&c, e);
	if (r >= 0)
		r = check_port(&c, "primary", c.primary, e);
	if (r >= 0)
		r = check_port(&c, "active_slave", c.active_slave, e);
	if (r >= 0)
		r = check_vlan_name(&c, e);
	if (r < 0)
		return r;
	*ret = c;
	return 0;
}

/* --- bond.options: the original's names, and the driver's names where they differ --- */

enum { NAMES_MAX = 8 };

static const struct option {
	const char *name;
	enum link_bond_option option;
	uint32_t min, max;
	/* true: the value 0 is sent to the kernel; false: 0 is the driver's default and is not
	 * sent, because some modes refuse the option */
	bool zero_counts;
	const char *names[NAMES_MAX];
} options[] = {
	{"ad_actor_sys_prio", LINK_BOND_AD_ACTOR_SYS_PRIO, 1, UINT16_MAX, true, {0}},
	{"ad_select", LINK_BOND_AD_SELECT, 0, 2, false, {"stable", "bandwidth", "count"}},
	{"ad_user_port_key", LINK_BOND_AD_USER_PORT_KEY, 0, 1023, false, {0}},
	{"all_slaves_active", LINK_BOND_ALL_SLAVES_ACTIVE, 0, 1, false, {"off", "on"}},
	{"arp_interval", LINK_BOND_ARP_INTERVAL, 0, INT32_MAX, false, {0}},
	{"arp_validate",
	 LINK_BOND_ARP_VALIDATE,
	 0,
	 6,
	 false,
	 {"none", "active", "backup", "all", "filter", "filter_active", "filter_backup"}},
	{"arp_all_targets", LINK_BOND_ARP_ALL_TARGETS, 0, 1, false, {"any", "all"}},
	{"downdelay", LINK_BOND_DOWNDELAY, 0, INT32_MAX, false, {0}},
	{"down_delay", LINK_BOND_DOWNDELAY, 0, INT32_MAX, false, {0}},
	{"fail_over_mac", LINK_BOND_FAIL_OVER_MAC, 0, 2, false, {"none", "active", "follow"}},
	{"lacp_rate", LINK_BOND_LACP_RATE, 0, 1, false, {"slow", "fast"}},
	{"lp_interval", LINK_BOND_LP_INTERVAL, 1, INT32_MAX, true, {0}},
	{"miimon", LINK_BOND_MIIMON, 0, INT32_MAX, false, {0}},
	{"min_links", LINK_BOND_MIN_LINKS, 0, INT32_MAX, false, {0}},
	{"num_peer_notif", LINK_BOND_NUM_PEER_NOTIF, 0, UINT8_MAX, true, {0}},
	{"num_grat_arp", LINK_BOND_NUM_PEER_NOTIF, 0, UINT8_MAX, true, {0}},
	{"num_unsol_na", LINK_BOND_NUM_PEER_NOTIF, 0, UINT8_MAX, true, {0}},
	{"packets_per_slave", LINK_BOND_PACKETS_PER_SLAVE, 0, UINT16_MAX, true, {0}},
	/* The driver's option, a delay in milliseconds; the original sets the number of
	 * notifications instead. */
	{"peer_notif_delay", LINK_BOND_PEER_NOTIF_DELAY, 0, 300000, false, {0}},
	{"primary_reselect",
	 LINK_BOND_PRIMARY_RESELECT,
	 0,
	 2,
	 false,
	 {"always", "better", "failure"}},
	{"resend_igmp", LINK_BOND_RESEND_IGMP, 0, UINT8_MAX, true, {0}},
	{"tlb_dynamic_lb", LINK_BOND_TLB_DYNAMIC_LB, 0, 1, true, {"off", "on"}},
	{"up_delay", LINK_BOND_UPDELAY, 0, INT32_MAX, false, {0}},
	{"updelay", LINK_BOND_UPDELAY, 0, INT32_MAX, false, {0}},
	{"use_carrier", LINK_BOND_USE_CARRIER, 0, 1, true, {"off", "on"}},
	{"xmit_hash_policy",
	 LINK_BOND_XMIT_HASH_POLICY,
	 0,
	 5,
	 false,
	 {"layer2", "layer3+4", "layer2+3", "encap2+3", "encap3+4", "vlan+srcmac"}},
};

static int bad(struct err *e, const char *name, const char *value, const char *wants)
{
	return err_kind(e, ERR_CONF, -EINVAL, "conf.bond.options: %s is '%s', expected %s", name,
			value, wants);
}

static int set_number(const struct option *o, const char *value, struct ifacer_conf *c,
		      struct err *e)
{
	uint64_t n = 0;

	for (size_t i = 0; i < NAMES_MAX && o->names[i]; i++)
		if (strcmp(o->names[i], value) == 0) {
			if (i || o->zero_counts)
				link_bond_set(&c->bond, o->option, (uint32_t)i);
			return 0;
		}
	if (num_u64(span_of(value), o->min, o->max, &n) < 0)
		return err_kind(e, ERR_CONF, -EINVAL,
				"conf.bond.options: %s is '%s', expected %u to %u%s%s", o->name,
				value, o->min, o->max, o->names[0] ? ", or a word such as " : "",
				o->names[0] ? o->names[0] : "");
	if (n || o->zero_counts)
		link_bond_set(&c->bond, o->option, (uint32_t)n);
	return 0;
}

static int set_name(const char *name, const char *value, char ret[static LINK_NAME_MAX],
		    struct err *e)
{
	if (!link_name_ok(value))
		return bad(e, name, value, "an interface's name");
	str_copy(ret, LINK_NAME_MAX, value);
	return 0;
}

/* Parses a list of addresses: ["10.0.0.1","10.0.0.2"], or the driver's form 10.0.0.1,10.0.0.2. */
static int set_targets(const char *value, struct ifacer_conf *c, struct err *e)
{
	struct span rest = span_trim(span_of(value)), one;

	if (rest.n >= 2 && rest.p[0] == '[' && rest.p[rest.n - 1] == ']')
		rest = (struct span){rest.p + 1, rest.n - 2};
	while (span_cut(&rest, ',', &one)) {
		struct ipaddr ip;

		one = span_trim(one);
		if (one.n >= 2 && one.p[0] == '"' && one.p[one.n - 1] == '"')
			one = (struct span){one.p + 1, one.n - 2};
		if (one.n == 0)
			continue;
		if (ip_parse(one, &ip) < 0 || ip.family != 4)
			return bad(e, "arp_ip_target", value, "IPv4 addresses");
		if (c->bond.n_arp_targets == LINK_BOND_ARP_TARGETS)
			return bad(e, "arp_ip_target", value, "16 addresses at most");
		c->bond.arp_targets[c->bond.n_arp_targets++] = ip;
	}
	return 0;
}

static int set_system(const char *value, struct ifacer_conf *c, struct err *e)
{
	struct mac m;

	if (mac_parse(span_of(value), &m) < 0 || m.len != 6)
		return bad(e, "ad_actor_system", value, "a MAC address");
	c->bond.ad_actor_system = m;
	return 0;
}

static int set_option(const char *name, const char *value, struct ifacer_conf *c, struct err *e)
{
	if (strcmp(name, "primary") == 0)
		return set_name(name, value, c->primary, e);
	if (strcmp(name, "active_slave") == 0)
		return set_name(name, value, c->active_slave, e);
	if (strcmp(name, "ad_actor_system") == 0)
		return set_system(value, c, e);
	if (strcmp(name, "arp_ip_target") == 0)
		return set_targets(value, c, e);
	for (size_t i = 0; i < ARRAY_LEN(options); i++)
		if (strcmp(options[i].name, name) == 0)
			return set_number(&options[i], value, c, e);
	log_warn("unknown bond option is ignored", LOG_S("option", name));
	return 0;
}

int ifacer_options(const char *text, struct ifacer_conf *c, struct err *e)
{
	struct span rest = span_of(text), item;
	int r = 0;

	while (r >= 0 && span_cut(&rest, ';', &item)) {
		auto_free char *name = NULL, *value = NULL;
		struct span key;

		item = span_trim(item);
		if (item.n == 0)
			continue;
		span_cut(&item, '=', &key);
		name = span_dup(span_trim(key));
		value = span_dup(span_trim(item));
		/* The original also ignores an option that is not key=value, except as the first
		 * option: then it fails. */
		if (!item.p || strchr(value, '='))
			log_warn("bond option that is not key=value is ignored",
				 LOG_S("option", name));
		else
			r = set_option(name, value, c, e);
	}
	return r;
}
