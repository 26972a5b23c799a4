/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/paths.h"
#include "cni/ipam/whereabouts.h"
#include "cni/protocol/ipam_call.h"

/* --- validation of whereabouts' keys --- */

#define bad(e, ...) err_kind(e, ERR_CONF, -EINVAL, __VA_ARGS__)

enum { PLACE_BYTES = 64, NETWORK_NAME_MAX = 128 };

static int check_type(const char *type, struct err *e)
{
	if (type && strcmp(type, "whereabouts") == 0)
		return 0;
	return bad(e,
		   "only interested in networks whose IPAM type is 'whereabouts'. This one was: %s",
		   type ? type : "");
}

/* whereabouts makes network_name part of an IPPool's name, unirail makes it part of a
 * directory's name. */
static int check_network_name(const char *name, struct err *e)
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyz0123456789-.";

	if (!*name || (strspn(name, allowed) == strlen(name) && *name != '-' && *name != '.' &&
		       strlen(name) <= NETWORK_NAME_MAX))
		return 0;
	return bad(
		e,
		"conf.ipam.network_name is \"%.*s\", expected lower case letters, digits, '-' and "
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

	if (str_if_set(k->range.range))
		r = add_range(c, k->range, &k->exclude, "conf.ipam", e);
	else if (k->exclude.n || str_if_set(k->range.start) || str_if_set(k->range.end))
		log_warn("ignoring exclude, range_start and range_end: conf.ipam has no 'range'");
	for (size_t i = 0; i < k->more.n && r == 0; i++) {
		snprintf(place, sizeof(place), "conf.ipam.ipRanges[%zu]", i);
		r = add_range(c, more[i].text, &more[i].exclude, place, e);
	}
	return r;
}

/* --- addresses, routes and dns that netconf or CNI_ARGS give, not allocated from a range --- */

static int parse_gateway(const char *text, struct ipaddr *ret, struct err *e)
{
	if (!str_if_set(text) || whereabouts_ip_parse(span_of(text), ret) == 0)
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

/* Appends the addresses in CNI_ARGS IP; blanks around the commas are allowed. */
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
	if (r == 0 && str_if_set(c->args.ip))
		r = add_args_ip(c, c->args.ip, e);
	if (r == 0 && str_if_set(c->args.gateway))
		r = set_args_gateway(c, c->args.gateway, e);
	return r;
}

/* Excludes the fixed addresses and the gateway from the addresses that the ranges allocate. */
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

static void replace_texts(char ***to, size_t *n_to, char ***from, size_t *n_from)
{
	if (*n_from == 0)
		return;
	str_list_free(*to, *n_to);
	*to = *from;
	*n_to = *n_from;
	*from = NULL;
	*n_from = 0;
}

/* Overrides the dns of the flat file, which merge() has stored, with that of the netconf, key by
 * key. */
static int whereabouts_keys_dns(const struct cni_ipam_call *call, struct whereabouts_conf *c,
				struct err *e)
{
	auto_result struct cni_result own = {0};
	struct cni_dns *to = &c->fixed.dns, *from = &own.dns;
	int r = cni_result_read_dns(call->doc, c->keys.dns, "conf.ipam.dns", &own, e);

	if (r < 0)
		return r;
	if (from->domain) {
		free(to->domain);
		to->domain = take(from->domain);
	}
	replace_texts(&to->nameservers, &to->n_nameservers, &from->nameservers,
		      &from->n_nameservers);
	replace_texts(&to->search, &to->n_search, &from->search, &from->n_search);
	replace_texts(&to->options, &to->n_options, &from->options, &from->n_options);
	return 0;
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

/* --- features that the local store does not support --- */

int whereabouts_no_cluster(const struct whereabouts_conf *c, struct err *e)
{
	if (!str_if_set(c->keys.kubeconfig))
		return 0;
	return err_kind(
		e, ERR_UNAVAILABLE, -EOPNOTSUPP,
		"kubernetes.kubeconfig is '%s' in %s, but unirail stores whereabouts' addresses "
		"on the node and reads no IPPool objects: remove 'kubernetes' there, and give "
		"each node a separate range",
		c->keys.kubeconfig, c->kubeconfig_in ? c->kubeconfig_in : "the netconf");
}

static int check_local(const struct whereabouts_conf *c, struct err *e)
{
	int r = whereabouts_no_cluster(c, e);

	if (r < 0 || !str_if_set(c->keys.node_slice_size))
		return r;
	return err_kind(
		e, ERR_UNSUPPORTED, -EOPNOTSUPP,
		"conf.ipam.node_slice_size is \"%s\": only a controller in the cluster assigns "
		"slices: give each node its part with range_start "
		"and range_end",
		c->keys.node_slice_size);
}

/* --- the whole configuration --- */

static int count_families(const struct cni_ipam_call *call, const struct whereabouts_conf *c,
			  struct err *e)
{
	size_t n4 = 0, n6 = 0;

	for (size_t i = 0; i < c->n_ranges; i++)
		++*(c->ranges[i].net.ip.family == 4 ? &n4 : &n6);
	for (size_t i = 0; i < c->fixed.n_ips; i++)
		++*(c->fixed.ips[i].address.ip.family == 4 ? &n4 : &n6);
	if (n4 + n6 == 0)
		return bad(e, "conf.ipam has no addresses: set 'range' or 'ipRanges'");
	return ipam_check_families(call, n4, n6, e);
}

static void settle(struct whereabouts_conf *c)
{
	c->network_name = str_if_set(c->keys.network_name) ? c->keys.network_name : "";
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

static int whereabouts_keys_merge(const struct cni_ipam_call *call, struct whereabouts_conf *c,
				  struct err *e);

static int whereabouts_keys_read(const struct cni_ipam_call *call, struct whereabouts_conf *c,
				 struct err *e);

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
	if (str_if_set(ret->keys.path) && !ret->flat)
		log_warn("no flat configuration file exists",
			 LOG_S("configuration_path", ret->keys.path));
	r = judge(call, ret, e);
	if (r == 0)
		r = check_local(ret, e);
	if (r == 0)
		keep_apart(ret);
	return r;
}

static const char *absolute(const char *path)
{
	return path && *path == '/' ? path : NULL;
}

/* For a netconf that whereabouts_keys_read() refuses: reads only the keys that are needed to
 * release addresses. */
static void whereabouts_keys_salvage(const struct cni_ipam_call *call, struct whereabouts_conf *c)
{
	const struct json *ipam = json_get_go(call->conf, "ipam");

	c->keys = (struct whereabouts_keys){
		.state_dir = absolute(json_string(json_get_go(ipam, "state_dir"))),
		.path = absolute(json_string(json_get_go(ipam, "configuration_path"))),
		.network_name = json_string(json_get_go(ipam, "network_name")),
	};
}

void whereabouts_conf_store(const struct cni_ipam_call *call, struct whereabouts_conf *ret)
{
	struct err e = ERR_INIT;

	init(ret);
	if (whereabouts_keys_read(call, ret, &e) < 0) {
		log_warn("netconf is invalid, ignoring all keys that are not needed to release "
			 "addresses",
			 LOG_S("error", e.text));
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
	if (!str_if_set(level))
		return;
	if (strcasecmp(level, "verbose") == 0)
		ret->level = LOG_INFO;
	else if (log_level_parse(level, &ret->level) < 0)
		log_warn("conf.ipam.log_level: expected debug, verbose, error or panic",
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

/* --- reads whereabouts' keys from the netconf, and missing ones from the flat file --- */

enum { FLAT_MAX = 1 << 20 };

#define MORE(key, kind, member, ...)                                                               \
	JSON_FIELD(key, kind, struct whereabouts_more, member, ##__VA_ARGS__)
#define STATIC(key, member, ...)                                                                   \
	JSON_FIELD(key, J_STR, struct whereabouts_static, member, ##__VA_ARGS__)
#define KEY(key, kind, member, ...)                                                                \
	JSON_FIELD(key, kind, struct whereabouts_keys, member, ##__VA_ARGS__)

static const struct json_field more_fields[] = {
	MORE("range", J_STR, text.range, JSON_DOC(NULL, "10.0.0.0/24, or 10.0.0.5-10.0.0.9/24")),
	MORE("range_start", J_STR, text.start, JSON_DOC(NULL, "first address of the range")),
	MORE("range_end", J_STR, text.end, JSON_DOC(NULL, "last address of the range")),
	MORE("exclude", J_STRS, exclude,
	     JSON_DOC(NULL, "subnets and addresses that are not allocated")),
	{0}};
static const struct json_table more_table = {more_fields, JSON_GO, sizeof(struct whereabouts_more)};

static const struct json_field static_fields[] = {
	STATIC("address", address, JSON_DOC(NULL, "address with prefix length")),
	STATIC("gateway", gateway, JSON_DOC(NULL, "gateway of the address")),
	/* ignored: the original writes this key in addition to "address" */
	JSON_FIELD("Address", J_VAL, struct whereabouts_static, ignored),
	{0}};
static const struct json_table static_table = {static_fields, JSON_GO,
					       sizeof(struct whereabouts_static)};

/* The field "kubernetes" has no offset: its keys fill the same struct whereabouts_keys. */
static const struct json_field cluster_fields[] = {
	KEY("kubeconfig", J_STR, kubeconfig,
	    JSON_DOC(NULL, "kubeconfig of the cluster's store; refused, because unirail stores "
			   "addresses on the node")),
	{0}};
static const struct json_table cluster_table = {cluster_fields, JSON_GO, 0};

static const struct json_field fields[] = {
	KEY("type", J_STR, type, JSON_DOC(NULL, "whereabouts")),
	KEY("range", J_STR, range.range, JSON_DOC(NULL, "10.0.0.0/24, or 10.0.0.5-10.0.0.9/24")),
	KEY("range_start", J_STR, range.start, JSON_DOC(NULL, "first address that is allocated")),
	KEY("range_end", J_STR, range.end, JSON_DOC(NULL, "last address that is allocated")),
	KEY("exclude", J_STRS, exclude,
	    JSON_DOC(NULL, "subnets and addresses that are not allocated")),
	KEY("ipRanges", J_OBJS, more, .sub = &more_table,
	    JSON_DOC(NULL, "further ranges; a pod gets an address of each")),
	KEY("gateway", J_STR, gateway,
	    JSON_DOC(NULL, "gateway of the ranges' addresses of its family; the address of the "
			   "gateway itself is not allocated")),
	KEY("routes", J_VAL, routes, JSON_DOC(NULL, "list of routes, {dst, gw}")),
	KEY("dns", J_VAL, dns, JSON_DOC(NULL, "nameservers, domain, search and options")),
	KEY("addresses", J_OBJS, addresses, .sub = &static_table,
	    JSON_DOC(NULL, "fixed addresses, for every pod")),
	KEY("enable_overlapping_ranges", J_BOOL, overlapping,
	    .has = offsetof(struct whereabouts_keys, has_overlapping),
	    JSON_DOC("true", "allocate an address only once, even if several ranges contain it")),
	KEY("network_name", J_STR, network_name,
	    JSON_DOC(NULL, "equal ranges with different network_name are allocated independently")),
	KEY("node_slice_size", J_STR, node_slice_size,
	    JSON_DOC(NULL, "refused: needs the controller of whereabouts")),
	KEY("configuration_path", J_STR, path,
	    JSON_DOC("whereabouts.d/whereabouts.conf",
		     "absolute path of a file with further keys, tried before the default in "
		     "/etc/kubernetes/cni/net.d, /etc/cni/net.d and /host/etc/cni/net.d")),
	KEY("log_file", J_STR, log_file, JSON_DOC(NULL, "file to which the plugin writes its log")),
	KEY("log_level", J_STR, log_level, JSON_DOC(NULL, "debug, verbose, error or panic")),
	KEY("state_dir", J_STR, state_dir, JSON_OWN(PATH_IPAM_STATE, "directory of the store")),
	{"kubernetes", J_OBJ, .sub = &cluster_table,
	 JSON_DOC(NULL, "access to the cluster's store; refused, because unirail stores "
			"addresses on the node")},
	{0}};
const struct json_table whereabouts_table = {fields, JSON_GO, 0};

static int check_path(const char *key, const char *path, struct err *e)
{
	if (!path || !*path || *path == '/')
		return 0;
	return err_kind(e, ERR_CONF, -EINVAL, "conf.ipam.%s is \"%s\", expected an absolute path",
			key, path);
}

/* Reads the keys of the netconf as the user wrote them. */
static int whereabouts_keys_read(const struct cni_ipam_call *call, struct whereabouts_conf *c,
				 struct err *e)
{
	const struct json *ipam = json_get_go(call->conf, "ipam");
	int r;

	if (!ipam)
		return err_kind(e, ERR_CONF, -EINVAL, "IPAM config missing 'ipam' key");
	r = json_read(call->doc, ipam, &whereabouts_table, &c->keys, "conf.ipam", e);
	if (r == 0)
		r = check_path("state_dir", c->keys.state_dir, e);
	if (r == 0)
		r = check_path("configuration_path", c->keys.path, e);
	return r;
}

/* --- the flat file --- */

/* Returns 1 if the file was read, 0 if it does not exist. */
static int try_flat(const struct root *root, const char *path, struct whereabouts_conf *c,
		    struct err *e)
{
	auto_buf struct buf text;
	int r;

	buf_init(&text, FLAT_MAX);
	r = file_read(root, path, FLAT_MAX, &text, e);
	if (r == -ENOENT || r == -ENOTDIR) {
		err_clear(e);
		return 0;
	}
	if (r < 0) {
		err_default_kind(e, ERR_CONF);
		return err_wrap(e, r, "error opening flat configuration file @ %s with", path);
	}
	/* Unlike the original, the error does not quote the file, which may contain passwords. */
	r = json_parse(&c->flat, buf_span(&text), FLAT_MAX, e);
	if (r < 0)
		return err_wrap(e, r, "LoadIPAMConfig Flatfile (%s) - JSON Parsing Error", path);
	c->flat_path = path;
	return 1;
}

static int find_flat(const struct root *root, struct whereabouts_conf *c, struct err *e)
{
	const char *const paths[] = {
		c->keys.path,
		"/etc/kubernetes/cni/net.d/whereabouts.d/whereabouts.conf",
		PATH_WHEREABOUTS,
		"/host/etc/cni/net.d/whereabouts.d/whereabouts.conf",
	};
	int r = 0;

	for (size_t i = 0; i < ARRAY_LEN(paths) && r == 0; i++)
		if (paths[i] && *paths[i])
			r = try_flat(root, paths[i], c, e);
	return r;
}

static bool empty_text(const char *s)
{
	return !s || !*s;
}

static bool empty_value(const struct json *v)
{
	return json_kind(v) == JSON_NULL || (!json_string(v) && json_len(v) == 0);
}

static void merge_text(const char **into, const char *from)
{
	if (empty_text(*into))
		*into = from;
}

static void merge_texts(struct whereabouts_keys *k, const struct whereabouts_keys *f)
{
	merge_text(&k->range.range, f->range.range);
	merge_text(&k->range.start, f->range.start);
	merge_text(&k->range.end, f->range.end);
	merge_text(&k->gateway, f->gateway);
	merge_text(&k->network_name, f->network_name);
	merge_text(&k->node_slice_size, f->node_slice_size);
	merge_text(&k->log_file, f->log_file);
	merge_text(&k->log_level, f->log_level);
	merge_text(&k->kubeconfig, f->kubeconfig);
}

static void merge_lists(struct whereabouts_keys *k, const struct whereabouts_keys *f)
{
	if (k->exclude.n == 0)
		k->exclude = f->exclude;
	if (k->more.n == 0)
		k->more = f->more;
	if (k->addresses.n == 0)
		k->addresses = f->addresses;
	if (empty_value(k->routes))
		k->routes = f->routes;
}

/* Sets from the flat file the keys that the netconf does not have. Keys of "dns" are merged one by
 * one: merge() reads those of the flat file, whereabouts_keys_dns() then those of the netconf. */
static int merge(struct whereabouts_conf *c, struct err *e)
{
	struct whereabouts_keys flat = {0};
	int r = json_read(c->flat, json_root(c->flat), &whereabouts_table, &flat, "ipam", e);

	if (r == 0)
		r = cni_result_read_dns(c->flat, flat.dns, "ipam.dns", &c->fixed, e);
	if (r < 0)
		return err_wrap(e, r, "LoadIPAMConfig Flatfile (%s)", c->flat_path);
	if (empty_text(c->keys.kubeconfig))
		c->kubeconfig_in = xasprintf("'%s'", c->flat_path);
	merge_texts(&c->keys, &flat);
	merge_lists(&c->keys, &flat);
	return 0;
}

/* Copies the flat file's values to empty keys. */
static int whereabouts_keys_merge(const struct cni_ipam_call *call, struct whereabouts_conf *c,
				  struct err *e)
{
	int r = find_flat(&call->call->root, c, e);

	if (r < 0)
		return r;
	if (r > 0)
		return merge(c, e);
	if (!empty_text(c->keys.kubeconfig))
		return err_kind(e, ERR_CONF, -ENOENT, "config file not found");
	return 0;
}
