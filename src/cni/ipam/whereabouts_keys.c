/* SPDX-License-Identifier: Apache-2.0 */
/* whereabouts' keys as written: the netconf, and the flat file that fills its gaps. */
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "cni/ipam/whereabouts_priv.h"

enum { FLAT_MAX = 1 << 20 };

#define MORE(key, kind, member)                                                                    \
	{                                                                                          \
		key, kind, .offset = offsetof(struct whereabouts_more, member)                     \
	}
#define STATIC(key, member)                                                                        \
	{                                                                                          \
		key, J_STR, .offset = offsetof(struct whereabouts_static, member)                  \
	}
#define KEY(key, kind, member, ...)                                                                \
	{                                                                                          \
		key, kind, .offset = offsetof(struct whereabouts_keys, member), __VA_ARGS__        \
	}

static const struct json_field more_fields[] = {MORE("range", J_STR, text.range),
						MORE("range_start", J_STR, text.start),
						MORE("range_end", J_STR, text.end),
						MORE("exclude", J_STRS, exclude),
						{0}};
static const struct json_table more_table = {more_fields, JSON_GO, sizeof(struct whereabouts_more)};

static const struct json_field static_fields[] = {
	STATIC("address", address),
	STATIC("gateway", gateway),
	/* what Go writes beside "address" */
	{"Address", J_VAL, .offset = offsetof(struct whereabouts_static, ignored)},
	{0}};
static const struct json_table static_table = {static_fields, JSON_GO,
					       sizeof(struct whereabouts_static)};

/* A sub-object fills the one struct, hence offset 0. */
static const struct json_field cluster_fields[] = {KEY("kubeconfig", J_STR, kubeconfig), {0}};
static const struct json_table cluster_table = {cluster_fields, JSON_GO, 0};

static const struct json_field fields[] = {
	KEY("type", J_STR, type),
	KEY("range", J_STR, range.range),
	KEY("range_start", J_STR, range.start),
	KEY("range_end", J_STR, range.end),
	KEY("exclude", J_STRS, exclude),
	KEY("ipRanges", J_OBJS, more, .sub = &more_table),
	KEY("gateway", J_STR, gateway),
	KEY("routes", J_VAL, routes),
	KEY("dns", J_VAL, dns),
	KEY("addresses", J_OBJS, addresses, .sub = &static_table),
	KEY("enable_overlapping_ranges", J_BOOL, overlapping,
	    .has = offsetof(struct whereabouts_keys, has_overlapping)),
	KEY("network_name", J_STR, network_name),
	KEY("node_slice_size", J_STR, node_slice_size),
	KEY("configuration_path", J_STR, path),
	KEY("log_file", J_STR, log_file),
	KEY("log_level", J_STR, log_level),
	KEY("state_dir", J_STR, state_dir),
	{"kubernetes", J_OBJ, .sub = &cluster_table},
	{0}};
static const struct json_table table = {fields, JSON_GO, 0};

static int check_path(const char *key, const char *path, struct err *e)
{
	if (!path || !*path || *path == '/')
		return 0;
	return err_kind(e, ERR_CONF, -EINVAL, "conf.ipam.%s is \"%s\", wants an absolute path", key,
			path);
}

int whereabouts_keys_read(const struct cni_ipam_call *call, struct whereabouts_conf *c,
			  struct err *e)
{
	const struct json *ipam = json_get_go(call->conf, "ipam");
	int r;

	if (!ipam)
		return err_kind(e, ERR_CONF, -EINVAL, "IPAM config missing 'ipam' key");
	r = json_read(call->doc, ipam, &table, &c->keys, "conf.ipam", e);
	if (r == 0)
		r = check_path("state_dir", c->keys.state_dir, e);
	if (r == 0)
		r = check_path("configuration_path", c->keys.path, e);
	return r;
}

static const char *absolute(const char *path)
{
	return path && *path == '/' ? path : NULL;
}

void whereabouts_keys_salvage(const struct cni_ipam_call *call, struct whereabouts_conf *c)
{
	const struct json *ipam = json_get_go(call->conf, "ipam");

	c->keys = (struct whereabouts_keys){
		.state_dir = absolute(json_string(json_get_go(ipam, "state_dir"))),
		.path = absolute(json_string(json_get_go(ipam, "configuration_path"))),
		.network_name = json_string(json_get_go(ipam, "network_name")),
	};
}

/* --- the flat file --- */

/* 1: read; 0: it is not there. */
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
	/* Not the original's copy of the whole file: it may hold passwords. */
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
		"/etc/cni/net.d/whereabouts.d/whereabouts.conf",
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

/* Each key of "dns" is empty or not by itself; the netconf's are read onto the result later. */
static int merge(struct whereabouts_conf *c, struct err *e)
{
	struct whereabouts_keys flat = {0};
	int r = json_read(c->flat, json_root(c->flat), &table, &flat, "ipam", e);

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

int whereabouts_keys_merge(const struct cni_ipam_call *call, struct whereabouts_conf *c,
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

int whereabouts_keys_dns(const struct cni_ipam_call *call, struct whereabouts_conf *c,
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
