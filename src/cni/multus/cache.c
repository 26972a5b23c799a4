/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/multus/cache.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "wire/tls/base64.h"

/* Writes and reads cache files in the formats of Multus and libcni. */

enum { CONF_MAX = 4 << 20 };

static void put_string(struct json_out *o, const struct json *v, const char *key)
{
	const char *text = json_string(json_get_go(v, key));

	if (text)
		jo_kstr(o, key, text);
}

/* Writes only keys that all plugins have in common: Multus' Go types have no fields for the keys
 * of individual plugins. */
static void put_plugin(struct json_out *o, const struct json *v)
{
	jo_obj(o);
	put_string(o, v, "cniVersion");
	put_string(o, v, "name");
	put_string(o, v, "type");
	jo_key(o, "ipam");
	jo_obj(o);
	put_string(o, json_get_go(v, "ipam"), "type");
	jo_end_obj(o);
	jo_key(o, "dns");
	jo_obj(o);
	jo_end_obj(o);
	jo_end_obj(o);
}

/* Writes the common keys of a list, which must have a cniVersion: Multus would rewrite a list
 * without cniVersion from the common keys, and lose all others. */
static void put_list(struct json_out *o, const struct json *conf)
{
	const struct json *plugins = json_get_go(conf, "plugins");

	jo_obj(o);
	put_string(o, conf, "cniVersion");
	put_string(o, conf, "name");
	jo_key(o, "plugins");
	jo_arr(o);
	for (size_t i = 0; i < json_len(plugins); i++)
		put_plugin(o, json_at(plugins, i));
	jo_end_arr(o);
	jo_end_obj(o);
}

/* Writes "unirailState" (cache.h). */
static void put_state(struct json_out *o, const struct multus_entry *d)
{
	jo_key(o, "unirailState");
	jo_obj(o);
	jo_kint(o, "version", 1);
	if (d->args)
		jo_kstr(o, "cniArgs", d->args);
	if (d->version)
		jo_kstr(o, "cniVersion", d->version);
	jo_end_obj(o);
}

static void put_full(struct json_out *o, const struct json *result)
{
	jo_key(o, "unirailResult");
	jo_obj(o);
	jo_kint(o, "version", 1);
	jo_key(o, "result");
	jo_val(o, result, false);
	jo_end_obj(o);
}

int multus_delegates_put(struct json_out *o, const struct multus_entry *d, struct err *e)
{
	auto_free char *bytes = base64_encode(d->conf);
	auto_json struct json_doc *doc = NULL;
	int r = json_parse(&doc, d->conf, CONF_MAX, e);

	if (r < 0)
		return r;
	jo_obj(o);
	jo_key(o, "Conf");
	jo_obj(o);
	jo_end_obj(o);
	jo_key(o, "ConfList");
	put_list(o, json_root(doc));
	jo_kstr(o, "Name", d->name);
	if (d->ifname)
		jo_kstr(o, "ifnameRequest", d->ifname);
	jo_kbool(o, "IsFilterV4Gateway", false);
	jo_kbool(o, "IsFilterV6Gateway", false);
	if (d->device)
		jo_kstr(o, "deviceID", d->device);
	jo_kstr(o, "Bytes", bytes);
	jo_kstr(o, "unirail", d->keeper);
	put_state(o, d);
	jo_end_obj(o);
	return 0;
}

/* Writes CNI_ARGS as [["K8S_POD_NAME","pod"], ...]. */
static void put_args(struct json_out *o, const char *args)
{
	struct span rest = span_of(args), pair, key;

	jo_arr(o);
	while (span_cut(&rest, ';', &pair)) {
		auto_free char *k = NULL, *v = NULL;

		span_cut(&pair, '=', &key);
		k = xasprintf("%.*s", (int)key.n, key.p);
		v = xasprintf("%.*s", (int)pair.n, pair.p);
		jo_arr(o);
		jo_str(o, k);
		jo_str(o, v);
		jo_end_arr(o);
	}
	jo_end_arr(o);
}

int libcni_cached_put(struct json_out *o, const struct libcni_entry *c, struct err *e)
{
	auto_free char *config = base64_encode(c->conf);
	auto_json struct json_doc *doc = NULL, *full = NULL;
	int r = json_parse(&doc, c->result, CONF_MAX, e);

	if (r >= 0 && c->full.n)
		r = json_parse(&full, c->full, CONF_MAX, e);
	if (r < 0)
		return r;
	jo_obj(o);
	jo_kstr(o, "kind", "cniCacheV1");
	jo_kstr(o, "containerId", c->container_id);
	jo_kstr(o, "config", config);
	jo_kstr(o, "ifName", c->ifname);
	jo_kstr(o, "networkName", c->network);
	jo_kstr(o, "netns", c->netns);
	jo_key(o, "cniArgs");
	put_args(o, c->args);
	jo_key(o, "result");
	jo_val(o, json_root(doc), false);
	if (full)
		put_full(o, json_root(full));
	jo_end_obj(o);
	return 0;
}

enum { SCRATCH_MAX = 4 << 20, OWN_VERSION = 1 };

/*
 * Returns the value of one of unirail's own keys if this release knows its version; otherwise NULL.
 */
static const struct json *own(const struct json *v)
{
	int64_t version = 0;

	if (json_kind(v) != JSON_OBJECT || json_int(json_get(v, "version"), &version) < 0)
		return NULL;
	return version == OWN_VERSION ? v : NULL;
}

/* Decodes base64; returns NULL if the text is not base64, or is empty. */
static char *decode(const char *text, size_t *len)
{
	char *bytes = NULL;

	if (!text || !*text || base64_decode(span_of(text), &bytes) < 0)
		return NULL;
	*len = strlen(bytes);
	return bytes;
}

struct raw_delegate {
	const char *name, *ifname, *device_id, *bytes, *keeper;
	const struct json *state;
};

static const struct json_field delegate_fields[] = {
	JSON_FIELD("Name", J_STR, struct raw_delegate, name),
	JSON_FIELD("ifnameRequest", J_STR, struct raw_delegate, ifname),
	JSON_FIELD("deviceID", J_STR, struct raw_delegate, device_id),
	JSON_FIELD("Bytes", J_STR, struct raw_delegate, bytes),
	JSON_FIELD("unirail", J_STR, struct raw_delegate, keeper),
	JSON_FIELD("unirailState", J_VAL, struct raw_delegate, state),
	{0}};
static const struct json_table delegate_table = {delegate_fields, JSON_GO, 0};

/* A delegate that cannot be read stays in the list: interfaces of delegates are named by their
 * position. */
static void read_delegate(struct json_doc *d, const struct json *v, struct multus_delegate *ret)
{
	struct raw_delegate raw = {0};
	const char *version;

	if (json_kind(v) == JSON_OBJECT)
		json_read(d, v, &delegate_table, &raw, "delegate", NULL);
	ret->name = xstrdup(raw.name ? raw.name : "");
	ret->ifname = str_dup(str_if_set(raw.ifname));
	ret->device_id = str_dup(str_if_set(raw.device_id));
	ret->keeper = str_dup(str_if_set(raw.keeper));
	ret->args = str_dup(str_if_set(json_string(json_get(own(raw.state), "cniArgs"))));
	version = json_string(json_get(own(raw.state), "cniVersion"));
	ret->version = version ? xstrdup(version) : NULL;
	ret->conf = decode(raw.bytes, &ret->conf_len);
}

int multus_delegates_parse(struct span text, struct multus_delegate **ret, size_t *n, struct err *e)
{
	auto_json struct json_doc *d = NULL;
	struct multus_delegate *list = NULL;
	const struct json *v;
	struct json_walk w;
	size_t count = 0;
	int r = json_parse(&d, text, SCRATCH_MAX, e);

	if (r < 0)
		return r;
	if (json_kind(json_root(d)) != JSON_ARRAY)
		return json_wants(json_root(d), "the file", "an array of delegates", e);
	w = json_walk_start(json_root(d));
	while ((v = json_walk_next(&w, NULL)))
		read_delegate(d, v, &VEC_PUSH(list, count));
	*ret = list;
	*n = count;
	return 0;
}

void multus_delegates_free(struct multus_delegate *list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(list[i].name);
		free(list[i].ifname);
		free(list[i].device_id);
		free(list[i].conf);
		free(list[i].keeper);
		free(list[i].args);
		free(list[i].version);
	}
	free(list);
}

struct raw_cached {
	const char *kind, *container_id, *config, *ifname, *network;
	const struct json *runtime, *result, *own;
};

static const struct json_field cached_fields[] = {
	JSON_FIELD("kind", J_STR, struct raw_cached, kind),
	JSON_FIELD("containerId", J_STR, struct raw_cached, container_id),
	JSON_FIELD("config", J_STR, struct raw_cached, config),
	JSON_FIELD("ifName", J_STR, struct raw_cached, ifname),
	JSON_FIELD("networkName", J_STR, struct raw_cached, network),
	JSON_FIELD("capabilityArgs", J_VAL, struct raw_cached, runtime),
	JSON_FIELD("result", J_VAL, struct raw_cached, result),
	JSON_FIELD("unirailResult", J_VAL, struct raw_cached, own),
	{0}};
static const struct json_table cached_table = {cached_fields, JSON_GO, 0};

static int read_cached(struct libcni_cached *c, struct err *e)
{
	struct raw_cached raw = {0};
	const struct json *root = json_root(c->doc);
	int r;

	if (json_kind(root) != JSON_OBJECT)
		return json_wants(root, "the file", "an object", e);
	r = json_read(c->doc, root, &cached_table, &raw, "cache", e);
	if (r < 0)
		return r;
	if (!raw.kind) {
		c->result = root;
		return 0;
	}
	if (strcmp(raw.kind, "cniCacheV1") != 0)
		return err_kind(e, ERR_DECODE, -EINVAL, "cache.kind is '%s', expected 'cniCacheV1'",
				raw.kind);
	c->container_id = raw.container_id;
	c->network = raw.network;
	c->ifname = raw.ifname;
	c->runtime = raw.runtime;
	c->result = raw.result;
	c->full = json_get(own(raw.own), "result");
	c->conf = decode(raw.config, &c->conf_len);
	return 0;
}

int libcni_cached_parse(struct span text, struct libcni_cached *ret, struct err *e)
{
	struct libcni_cached c = {0};
	int r = json_parse(&c.doc, text, SCRATCH_MAX, e);

	if (r >= 0)
		r = read_cached(&c, e);
	if (r < 0) {
		libcni_cached_done(&c);
		return r;
	}
	*ret = c;
	return 0;
}

void libcni_cached_done(struct libcni_cached *c)
{
	json_free(c->doc);
	free(c->conf);
	*c = (struct libcni_cached){0};
}
