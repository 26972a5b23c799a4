/* SPDX-License-Identifier: Apache-2.0 */
/* Multus' and libcni's files as they write them: the second half of multus_scratch.h. */
#include <stdlib.h>

#include "base/cleanup.h"
#include "cni/multus/multus_scratch.h"
#include "wire/tls/base64.h"

enum { CONF_MAX = 4 << 20 };

static void put_string(struct json_out *o, const struct json *v, const char *key)
{
	const char *text = json_string(json_get_go(v, key));

	if (text)
		jo_kstr(o, key, text);
}

/* The keys that are common to all plugins, which is all that Multus' types have of one. */
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

/* A list without a version Multus would write anew from these keys, and lose all others. */
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

/* multus_scratch.h says what it is. */
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

int multus_scratch_put(struct json_out *o, const struct multus_entry *d, struct err *e)
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

/* [["K8S_POD_NAME","pod"], ...] */
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
