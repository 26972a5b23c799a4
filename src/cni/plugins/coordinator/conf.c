/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "cni/plugins/coordinator/coordinator.h"

struct raw_policy {
	const char *dst, *gw;
};

struct raw {
	const char *mode, *default_nic, *default_route_nic, *mac_prefix, *veth_addr;
	struct json_strs overlay, service, hijack;
	struct json_list policy;
	bool tune, has_tune, has_rp_filter, has_veth_mtu;
	int64_t host_table, rp_filter, txqlen, veth_mtu;
};

static const struct json_field policy_fields[] = {
	JSON_FIELD("dst", J_STR, struct raw_policy, dst, .required = true,
		   JSON_DOC(NULL, "subnet")),
	JSON_FIELD("gw", J_STR, struct raw_policy, gw, .required = true, JSON_DOC(NULL, "gateway")),
	{0},
};
static const struct json_table policy_table = {policy_fields, JSON_GO, sizeof(struct raw_policy)};

#define FIELD(key, kind, member, ...) JSON_FIELD(key, kind, struct raw, member, ##__VA_ARGS__)
static const struct json_field fields[] = {
	FIELD("mode", J_STR, mode, JSON_DOC("auto", "auto, underlay, overlay or disabled")),
	FIELD("podDefaultCniNic", J_STR, default_nic,
	      JSON_DOC("eth0", "interface of the pod's default network")),
	FIELD("podDefaultRouteNic", J_STR, default_route_nic,
	      JSON_DOC("the first", "interface that keeps the default route of the main table")),
	FIELD("podMACPrefix", J_STR, mac_prefix,
	      JSON_DOC(NULL,
		       "first two bytes of the interface's MAC, such as 0a:1b; the other four are "
		       "the last four bytes of its first IP address")),
	FIELD("vethLinkAddress", J_STR, veth_addr, JSON_DOC(NULL, "IPv4 address of veth0")),
	FIELD("overlayPodCIDR", J_STRS, overlay,
	      JSON_DOC(NULL, "subnets of pods, which are reached by way of the node")),
	FIELD("serviceCIDR", J_STRS, service,
	      JSON_DOC(NULL, "subnets of services, which are reached by way of the node")),
	FIELD("hijackCIDR", J_STRS, hijack,
	      JSON_DOC(NULL, "further subnets that are reached by way of the node")),
	FIELD("policyRoutes", J_OBJS, policy, .sub = &policy_table,
	      JSON_DOC(NULL, "routes by way of this interface")),
	FIELD("tunePodRoutes", J_BOOL, tune, .has = offsetof(struct raw, has_tune),
	      JSON_DOC("true", "move the routes of later interfaces to tables of their own")),
	FIELD("hostRuleTable", J_INT, host_table, .min = 0, .max = UINT32_MAX,
	      JSON_DOC("500", "routing table of the node for routes to the pod")),
	FIELD("podRPFilter", J_INT, rp_filter, .has = offsetof(struct raw, has_rp_filter),
	      JSON_DOC("0", "rp_filter of the pod: 0, 1 or 2; negative: unchanged")),
	FIELD("txQueueLen", J_INT, txqlen, .min = 0, .max = UINT32_MAX,
	      JSON_DOC("0", "length of the interface's transmit queue; 0: unchanged")),
	FIELD("vethMTU", J_INT, veth_mtu, .has = offsetof(struct raw, has_veth_mtu),
	      JSON_DOC("1500", "MTU of veth0")),
	{0},
};
#undef FIELD
const struct json_table coordinator_table = {fields, JSON_GO, sizeof(struct raw)};

static int read_mode(const char *text, enum coordinator_mode *ret, struct err *e)
{
	static const struct {
		const char *name;
		enum coordinator_mode mode;
	} modes[] = {
		{"auto", COORD_AUTO},	     {"underlay", COORD_UNDERLAY},
		{"overlay", COORD_OVERLAY},  {"disabled", COORD_DISABLED},
		{"disable", COORD_DISABLED},
	};

	*ret = COORD_AUTO;
	if (!str_if_set(text))
		return 0;
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		if (strcmp(text, modes[i].name) == 0) {
			*ret = modes[i].mode;
			return 0;
		}
	}
	return err_kind(e, ERR_CONF, -EINVAL,
			"conf.mode is '%s', expected auto, underlay, overlay or disabled", text);
}

static int hex_byte(struct span s, uint8_t *ret)
{
	uint64_t n;

	if (s.n != 2 || num_hex(s, 0xff, &n) < 0)
		return -EINVAL;
	*ret = (uint8_t)n;
	return 0;
}

/* Parses a prefix such as "0a:1b". The original's pattern is meant to refuse multicast prefixes,
 * but refuses other prefixes instead. */
static int read_mac_prefix(const char *text, struct coordinator_conf *c, struct err *e)
{
	if (!str_if_set(text))
		return 0;
	if (strlen(text) != 5 || (text[2] != ':' && text[2] != '-') ||
	    hex_byte((struct span){text, 2}, &c->mac_prefix[0]) < 0 ||
	    hex_byte((struct span){text + 3, 2}, &c->mac_prefix[1]) < 0)
		return err_kind(e, ERR_CONF, -EINVAL,
				"conf.podMACPrefix is '%s', expected two bytes such as 0a:1b",
				text);
	if (c->mac_prefix[0] & 1)
		return err_kind(
			e, ERR_CONF, -EINVAL,
			"conf.podMACPrefix is '%s', expected a unicast prefix (first byte even)",
			text);
	c->has_mac_prefix = true;
	return 0;
}

static int add_cidrs(const struct json_strs *from, const char *key, struct coordinator_conf *c,
		     struct err *e)
{
	for (size_t i = 0; i < from->n; i++) {
		struct ipnet net;

		if (ipnet_parse_loose(span_of(from->v[i]), &net) < 0)
			return err_kind(
				e, ERR_CONF, -EINVAL,
				"conf.%s[%zu] is '%s', expected a subnet such as 10.233.64.0/18",
				key, i, from->v[i]);
		VEC_PUSH(c->cidrs, c->n_cidrs) = ipnet_network(&net);
	}
	return 0;
}

static int add_policy(const struct raw_policy *raw, size_t i, struct coordinator_conf *c,
		      struct err *e)
{
	struct coordinator_policy p;

	if (ipnet_parse_loose(span_of(raw->dst), &p.dst) < 0)
		return err_kind(
			e, ERR_CONF, -EINVAL,
			"conf.policyRoutes[%zu].dst is '%s', expected a subnet (invalid route dst)",
			i, raw->dst);
	if (ip_parse(span_of(raw->gw), &p.gw) < 0)
		return err_kind(
			e, ERR_CONF, -EINVAL,
			"conf.policyRoutes[%zu].gw is '%s', expected an address (invalid route gw)",
			i, raw->gw);
	if (p.dst.ip.family != p.gw.family)
		return err_kind(e, ERR_CONF, -EINVAL,
				"conf.policyRoutes[%zu]: dst '%s' and gw '%s' are of different "
				"families",
				i, raw->dst, raw->gw);
	p.dst = ipnet_network(&p.dst);
	VEC_PUSH(c->policy, c->n_policy) = p;
	return 0;
}

static int read_numbers(const struct raw *raw, struct coordinator_conf *c, struct err *e)
{
	c->tune_routes = raw->has_tune ? raw->tune : true;
	c->host_table = raw->host_table ? (uint32_t)raw->host_table : COORD_HOST_TABLE;
	c->txqlen = (uint32_t)raw->txqlen;
	if (raw->has_rp_filter && raw->rp_filter > 2)
		return err_kind(
			e, ERR_CONF, -EINVAL,
			"invalid rp_filter value: conf.podRPFilter is %lld, expected 0, 1 or 2 "
			"(negative: leave it unchanged)",
			(long long)raw->rp_filter);
	c->rp_filter = raw->has_rp_filter ? (int)(raw->rp_filter < 0 ? -1 : raw->rp_filter) : 0;
	if (raw->has_veth_mtu && (raw->veth_mtu < 68 || raw->veth_mtu > 65535))
		return err_kind(
			e, ERR_CONF, -EINVAL,
			"conf.vethMTU is %lld, expected 68 to 65535 (vethMTU must be greater "
			"than 0)",
			(long long)raw->veth_mtu);
	c->veth_mtu = raw->has_veth_mtu ? (uint32_t)raw->veth_mtu : COORD_VETH_MTU;
	return 0;
}

static int read_addresses(const struct raw *raw, struct coordinator_conf *c, struct err *e)
{
	const struct raw_policy *policy = raw->policy.v;
	int r = add_cidrs(&raw->overlay, "overlayPodCIDR", c, e);

	if (r >= 0)
		r = add_cidrs(&raw->service, "serviceCIDR", c, e);
	if (r >= 0)
		r = add_cidrs(&raw->hijack, "hijackCIDR", c, e);
	for (size_t i = 0; r >= 0 && i < raw->policy.n; i++)
		r = add_policy(&policy[i], i, c, e);
	if (r >= 0 && str_if_set(raw->veth_addr) &&
	    (ip_parse(span_of(raw->veth_addr), &c->veth_addr) < 0 || c->veth_addr.family != 4))
		r = err_kind(e, ERR_CONF, -EINVAL,
			     "conf.vethLinkAddress is '%s', expected an IPv4 address such as "
			     "169.254.200.1",
			     raw->veth_addr);
	return r;
}

int coordinator_conf_read(struct json_doc *d, const struct json *conf, struct coordinator_conf *ret,
			  struct err *e)
{
	struct raw raw = {0};
	struct coordinator_conf c = {0};
	int r = json_read(d, conf, &coordinator_table, &raw, "conf", e);

	if (r < 0)
		return r;
	c.default_nic = str_if_set(raw.default_nic) ? raw.default_nic : "eth0";
	c.default_route_nic = str_if_set(raw.default_route_nic) ? raw.default_route_nic : NULL;
	r = read_mode(raw.mode, &c.mode, e);
	if (r >= 0)
		r = read_numbers(&raw, &c, e);
	if (r >= 0)
		r = read_mac_prefix(raw.mac_prefix, &c, e);
	if (r >= 0)
		r = read_addresses(&raw, &c, e);
	if (r < 0) {
		coordinator_conf_done(&c);
		return r;
	}
	*ret = c;
	return 0;
}

void coordinator_conf_done(struct coordinator_conf *c)
{
	free(c->cidrs);
	free(c->policy);
	*c = (struct coordinator_conf){0};
}
