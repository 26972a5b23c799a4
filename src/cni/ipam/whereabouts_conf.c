/* SPDX-License-Identifier: Apache-2.0 */
/* whereabouts' keys, judged. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "cni/protocol/ipam_request.h"
#include "cni/ipam/whereabouts_priv.h"

#define bad(e, ...) err_kind(e, ERR_CONF, -EINVAL, __VA_ARGS__)

enum { PLACE_BYTES = 64, NETWORK_NAME_MAX = 128 };

static bool given(const char *s)
{
	return s && *s;
}

static int check_type(const char *type, struct err *e)
{
	if (type && strcmp(type, "whereabouts") == 0)
		return 0;
	return bad(e,
		   "only interested in networks whose IPAM type is 'whereabouts'. This one was: %s",
		   type ? type : "");
}

/* It is part of an object's name in the cluster, and of a folder's here. */
static int check_network_name(const char *name, struct err *e)
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyz0123456789-.";

	if (!*name || (strspn(name, allowed) == strlen(name) && *name != '-' && *name != '.' &&
		       strlen(name) <= NETWORK_NAME_MAX))
		return 0;
	return bad(e,
		   "conf.ipam.network_name is \"%.*s\", wants lower case letters, digits, '-' and "
		   "'.', %d at most, a letter or digit first",
		   NETWORK_NAME_MAX, name, NETWORK_NAME_MAX);
}

/* --- ranges --- */

static int add_range(struct whereabouts_conf *c, struct whereabouts_text text,
		     const struct json_strs *exclude, const char *place, struct err *e)
{
	struct whereabouts_range r;
	int n;

	text.exclude = exclude->v;
	text.n_exclude = exclude->n;
	n = whereabouts_range_make(&text, place, &r, e);
	if (n == 0)
		VEC_PUSH(c->ranges, c->n_ranges) = r;
	return n;
}

static int add_ranges(struct whereabouts_conf *c, struct err *e)
{
	const struct whereabouts_keys *k = &c->keys;
	const struct whereabouts_more *more = k->more.v;
	char place[PLACE_BYTES];
	int r = 0;

	if (given(k->range.range))
		r = add_range(c, k->range, &k->exclude, "conf.ipam", e);
	else if (k->exclude.n || given(k->range.start) || given(k->range.end))
		log_warn("exclude, range_start and range_end are of 'range', which is not given");
	for (size_t i = 0; i < k->more.n && r == 0; i++) {
		snprintf(place, sizeof(place), "conf.ipam.ipRanges[%zu]", i);
		r = add_range(c, more[i].text, &more[i].exclude, place, e);
	}
	return r;
}

/* --- what is the same for every pod --- */

static int parse_gateway(const char *text, struct ipaddr *ret, struct err *e)
{
	if (!given(text) || whereabouts_ip_parse(span_of(text), ret) == 0)
		return 0;
	return bad(e, "couldn't parse gateway IP: %s", text);
}

static int add_static(struct whereabouts_conf *c, const struct whereabouts_static *s, struct err *e)
{
	const char *text = s->address ? s->address : "";
	struct cni_ip ip = {.iface = -1};

	if (whereabouts_net_parse(span_of(text), &ip.address) < 0)
		return bad(e, "invalid CIDR in addresses %s: invalid CIDR address: %s", text, text);
	if (parse_gateway(s->gateway, &ip.gateway, e) < 0)
		return -EINVAL;
	cni_result_ip(&c->fixed, &ip);
	return 0;
}

/* CNI_ARGS IP: more of them, blanks around the commas allowed. */
static int add_args_ip(struct whereabouts_conf *c, const char *list, struct err *e)
{
	struct span rest = span_of(list), item;
	struct cni_ip ip = {.iface = -1};

	while (span_cut(&rest, ',', &item)) {
		item = span_trim(item);
		if (whereabouts_net_parse(item, &ip.address) < 0)
			return err_kind(e, ERR_ENV, -EINVAL,
					"invalid CIDR %.*s: invalid CIDR address: %.*s",
					(int)item.n, item.p, (int)item.n, item.p);
		cni_result_ip(&c->fixed, &ip);
	}
	return 0;
}

static int set_args_gateway(struct whereabouts_conf *c, const char *list, struct err *e)
{
	struct span rest = span_of(list), item;
	struct ipaddr gw;

	while (span_cut(&rest, ',', &item)) {
		if (whereabouts_ip_parse(span_trim(item), &gw) < 0)
			return err_kind(e, ERR_ENV, -EINVAL, "invalid gateway address: %.*s",
					(int)item.n, item.p);
		for (size_t i = 0; i < c->fixed.n_ips; i++)
			if (ipnet_contains(&c->fixed.ips[i].address, &gw))
				c->fixed.ips[i].gateway = gw;
	}
	return 0;
}

static int add_statics(struct whereabouts_conf *c, struct err *e)
{
	const struct whereabouts_static *v = c->keys.addresses.v;
	int r = 0;

	for (size_t i = 0; i < c->keys.addresses.n && r == 0; i++) {
		r = add_static(c, &v[i], e);
		if (r < 0)
			err_wrap(e, r, "conf.ipam.addresses[%zu]", i);
	}
	if (r == 0 && given(c->args.ip))
		r = add_args_ip(c, c->args.ip, e);
	if (r == 0 && given(c->args.gateway))
		r = set_args_gateway(c, c->args.gateway, e);
	return r;
}

/* What is somebody's already is not given out. */
static void keep_apart(struct whereabouts_conf *c)
{
	struct ip_set out[2] = {{.family = 4}, {.family = 6}};

	for (size_t k = 0; k < c->fixed.n_ips; k++) {
		const struct ipaddr *a = &c->fixed.ips[k].address.ip;

		ip_set_collect(&out[a->family == 6], &(struct ip_range){*a, *a});
	}
	if (c->gateway.family)
		ip_set_collect(&out[c->gateway.family == 6],
			       &(struct ip_range){c->gateway, c->gateway});
	ip_set_merge(&out[0]);
	ip_set_merge(&out[1]);
	for (size_t i = 0; i < c->n_ranges; i++)
		ip_set_minus(&c->ranges[i].usable, &out[c->ranges[i].net.ip.family == 6]);
	ip_set_done(&out[0]);
	ip_set_done(&out[1]);
}

static int read_fixed(const struct cni_ipam_call *call, struct whereabouts_conf *c, struct err *e)
{
	int r = parse_gateway(c->keys.gateway, &c->gateway, e);

	if (r == 0)
		r = add_statics(c, e);
	if (r == 0)
		r = cni_result_read_routes(call->doc, c->keys.routes, "conf.ipam.routes", &c->fixed,
					   e);
	return r < 0 ? r : whereabouts_keys_dns(call, c, e);
}

/* --- what the local store cannot do --- */

int whereabouts_no_cluster(const struct whereabouts_conf *c, struct err *e)
{
	if (!given(c->keys.kubeconfig))
		return 0;
	return err_kind(e, ERR_UNAVAILABLE, -EOPNOTSUPP,
			"kubernetes.kubeconfig is '%s' in %s, but this build keeps whereabouts' "
			"addresses on the node and knows no IPPool objects: remove 'kubernetes' "
			"there, and give each node a range of its own",
			c->keys.kubeconfig, c->kubeconfig_in ? c->kubeconfig_in : "the netconf");
}

static int check_local(const struct whereabouts_conf *c, struct err *e)
{
	int r = whereabouts_no_cluster(c, e);

	if (r < 0 || !given(c->keys.node_slice_size))
		return r;
	return err_kind(e, ERR_UNSUPPORTED, -EOPNOTSUPP,
			"conf.ipam.node_slice_size is \"%s\": slices are dealt out in the cluster, "
			"the store of this node cannot: give each node its part with range_start "
			"and range_end",
			c->keys.node_slice_size);
}

/* --- all of it --- */

static int count_families(const struct cni_ipam_call *call, const struct whereabouts_conf *c,
			  struct err *e)
{
	size_t n4 = 0, n6 = 0;

	for (size_t i = 0; i < c->n_ranges; i++)
		++*(c->ranges[i].net.ip.family == 4 ? &n4 : &n6);
	for (size_t i = 0; i < c->fixed.n_ips; i++)
		++*(c->fixed.ips[i].address.ip.family == 4 ? &n4 : &n6);
	if (n4 + n6 == 0)
		return bad(e, "conf.ipam has no addresses: give 'range' or 'ipRanges'");
	return ipam_check_families(call, n4, n6, e);
}

static void settle(struct whereabouts_conf *c)
{
	c->network_name = given(c->keys.network_name) ? c->keys.network_name : "";
	c->overlapping = !c->keys.has_overlapping || c->keys.overlapping;
}

static int judge(const struct cni_ipam_call *call, struct whereabouts_conf *c, struct err *e)
{
	int r = check_network_name(c->network_name, e);

	if (r == 0)
		r = add_ranges(c, e);
	if (r == 0)
		r = read_fixed(call, c, e);
	if (r == 0)
		r = count_families(call, c, e);
	if (r < 0 && c->flat)
		return err_wrap(e, r, "with the defaults of '%s'", c->flat_path);
	return r;
}

static int read_args(const struct cni_ipam_call *call, struct whereabouts_conf *c, struct err *e)
{
	int r = cni_args_parse(call->call->args_text, &c->args, &c->args_text, e);

	return r < 0 ? err_wrap(e, r, "LoadArgs - CNI Args Parsing Error") : 0;
}

static void init(struct whereabouts_conf *c)
{
	*c = (struct whereabouts_conf){.network_name = "", .overlapping = true};
	buf_init(&c->args_text, SIZE_MAX / 2);
}

int whereabouts_conf_read(const struct cni_ipam_call *call, struct whereabouts_conf *ret,
			  struct err *e)
{
	int r;

	init(ret);
	r = whereabouts_keys_read(call, ret, e);
	if (r == 0)
		r = check_type(ret->keys.type, e);
	if (r == 0)
		r = read_args(call, ret, e);
	if (r == 0)
		r = whereabouts_keys_merge(call, ret, e);
	if (r < 0)
		return r;
	settle(ret);
	if (given(ret->keys.path) && !ret->flat)
		log_warn("flat configuration file is not there, nor another one",
			 LOG_S("configuration_path", ret->keys.path));
	r = judge(call, ret, e);
	if (r == 0)
		r = check_local(ret, e);
	if (r == 0)
		keep_apart(ret);
	return r;
}

void whereabouts_conf_store(const struct cni_ipam_call *call, struct whereabouts_conf *ret)
{
	struct err e = ERR_INIT;

	init(ret);
	if (whereabouts_keys_read(call, ret, &e) < 0) {
		log_warn("configuration is not valid", LOG_S("error", e.text));
		whereabouts_keys_salvage(call, ret);
	}
	err_clear(&e);
	if (whereabouts_keys_merge(call, ret, &e) < 0)
		log_warn("flat configuration file is not used", LOG_S("error", e.text));
	settle(ret);
}

void whereabouts_conf_log(const struct cni_ipam_call *call, struct whereabouts_conf *c,
			  struct log_conf *ret)
{
	const char *level;

	init(c);
	if (whereabouts_keys_read(call, c, NULL) == 0)
		whereabouts_keys_merge(call, c, NULL);
	level = c->keys.log_level;
	*ret = (struct log_conf){.level = LOG_WARN, .path = c->keys.log_file};
	if (!given(level))
		return;
	if (strcasecmp(level, "verbose") == 0)
		ret->level = LOG_INFO;
	else if (log_level_parse(level, &ret->level) < 0)
		log_warn("conf.ipam.log_level wants debug, verbose, error or panic",
			 LOG_S("log_level", level));
}

void whereabouts_conf_done(struct whereabouts_conf *c)
{
	for (size_t i = 0; i < c->n_ranges; i++)
		whereabouts_range_done(&c->ranges[i]);
	free(c->ranges);
	cni_result_done(&c->fixed);
	buf_done(&c->args_text);
	json_free(c->flat);
	free(c->kubeconfig_in);
	*c = (struct whereabouts_conf){.network_name = ""};
}
