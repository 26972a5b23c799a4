/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/nad/nad_write.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "controller/nad/nad_priv.h"

#define VERSION_NOTE "multus.spidernet.io/cni-version"
#define CONFIG_NOTE  "cni.spidernet.io/cniconfig-name"
#define OVS_RESOURCE "ovs-cni.network.kubevirt.io/"

static const struct json *note(const struct json *smc, const char *key)
{
	return json_get(json_get(json_get(smc, "metadata"), "annotations"), key);
}

const char *nad_name(const struct json *smc)
{
	const struct json *own = json_get(json_get(smc, "metadata"), "name");

	return nad_text(note(smc, NAD_NAME_NOTE), nad_text(own, ""));
}

/* --- spec.config --- */

static bool is_type(const struct nad_ask *q, const char *type)
{
	return strcmp(q->type, type) == 0;
}

static bool isolates(const struct nad_ask *q)
{
	const struct json *v = json_get(q->block, "rdmaIsolation");

	return is_type(q, "sriov") && nad_bool(v ? v : json_get(q->block, "enableRdma"), false);
}

static void put_type(struct json_out *o, const char *type, int64_t mtu)
{
	jo_obj(o);
	jo_kstr(o, "type", type);
	if (mtu)
		jo_kint(o, "mtu", mtu);
	jo_end_obj(o);
}

/* The user's plugins, as Go writes what it has read. */
static int put_chain(struct json_out *o, const struct json *list, struct err *e)
{
	struct json_walk w = json_walk_start(list);
	const struct json *v;

	for (size_t i = 0; (v = json_walk_next(&w, NULL)); i++) {
		auto_json struct json_doc *doc = NULL;
		int r = json_parse(&doc, span_of(nad_text(v, "")), NAD_CONFIG_MAX, e);

		if (r < 0)
			return err_wrap(e, r, "spec.chainCNIJsonData[%zu]", i);
		if (!nad_text(json_get(json_root(doc), "type"), NULL))
			return err_kind(
				e, ERR_CONF, -EINVAL,
				"spec.chainCNIJsonData[%zu] has no 'type', wants a plugin's "
				"object such as {\"type\": \"tuning\"}",
				i);
		jo_val(o, json_root(doc), true);
	}
	return 0;
}

static int put_plugins(struct json_out *o, const struct nad_ask *q, struct err *e)
{
	int64_t mtu = is_type(q, "sriov") ? nad_int(json_get(q->block, "mtu"), 0) : 0;
	int r = nad_put_main(o, q, e);

	if (r < 0)
		return r;
	if (isolates(q))
		put_type(o, "rdma", 0);
	r = put_chain(o, json_get(q->spec, "chainCNIJsonData"), e);
	if (r < 0)
		return r;
	if (nad_bool(json_get(q->spec, "enableCoordinator"), true))
		nad_put_coordinator(o, json_get(q->spec, "coordinator"));
	if (mtu)
		put_type(o, "tuning", mtu);
	return 0;
}

static int put_list(struct buf *b, const struct json *smc, const struct nad_ask *q, struct err *e)
{
	struct json_out o;
	int r;

	jo_init(&o, b, 0);
	jo_obj(&o);
	jo_kstr(&o, "cniVersion", nad_text(note(smc, VERSION_NOTE), "0.3.1"));
	jo_kstr(&o, "name", nad_text(note(smc, CONFIG_NOTE), nad_name(smc)));
	jo_key(&o, "plugins");
	jo_arr(&o);
	r = put_plugins(&o, q, e);
	if (r < 0)
		return r;
	jo_end_arr(&o);
	jo_end_obj(&o);
	if (b->over)
		return err_kind(e, ERR_CONF, -EFBIG,
				"the network's configuration is longer than %d bytes",
				NAD_CONFIG_MAX);
	return 0;
}

/* Any JSON is taken, as it is: Multus says what it wants of it. */
static int custom(const struct json *spec, char **ret, struct err *e)
{
	const char *text = nad_text(json_get(spec, "customCNI"), NULL);
	auto_json struct json_doc *doc = NULL;
	int r = text ? json_parse(&doc, span_of(text), NAD_CONFIG_MAX, e) : 0;

	if (r < 0)
		return err_wrap(e, r, "spec.customCNI");
	*ret = text ? xstrdup(text) : NULL;
	return 0;
}

static int ask_of(const struct json *smc, struct nad_ask *q, struct err *e)
{
	const char *block;

	q->spec = json_get(smc, "spec");
	q->type = nad_text(json_get(q->spec, "cniType"), "custom");
	if (is_type(q, "custom"))
		return 0;
	block = nad_block(q->type);
	if (!block)
		return err_kind(e, ERR_CONF, -EINVAL,
				"spec.cniType is '%.100s', wants macvlan, ipvlan, vlan, sriov, "
				"ib-sriov, ipoib, ovs or custom",
				q->type);
	q->block = json_get(q->spec, block);
	if (json_kind(q->block) != JSON_OBJECT)
		return err_kind(e, ERR_CONF, -EINVAL,
				"spec.%s is missing: cniType is '%s', whose settings stand there",
				block, q->type);
	return 0;
}

static int config_of(const struct json *smc, const struct nad_ask *q, char **ret, struct err *e)
{
	struct buf b;
	int r;

	if (is_type(q, "custom"))
		return custom(q->spec, ret, e);
	buf_init(&b, NAD_CONFIG_MAX);
	r = put_list(&b, smc, q, e);
	if (r == 0)
		*ret = buf_take(&b);
	buf_done(&b);
	return r;
}

/* --- annotations --- */

static void put_resource(struct labels *l, const struct nad_ask *q)
{
	const char *name = nad_text(json_get(q->block, "resourceName"), NULL);

	if ((is_type(q, "sriov") || is_type(q, "ib-sriov")) && name)
		labels_put(l, NAD_RESOURCE_NOTE, name);
	if (is_type(q, "ovs") && nad_text(json_get(q->block, "deviceID"), NULL)) {
		auto_free char *bridge =
			xasprintf(OVS_RESOURCE "%s", nad_text(json_get(q->block, "bridge"), ""));

		labels_put(l, NAD_RESOURCE_NOTE, bridge);
	}
}

static void put_notes(struct labels *l, const struct json *smc, const struct nad_ask *q)
{
	struct json_walk w = json_walk_start(json_get(json_get(smc, "metadata"), "annotations"));
	const struct json *v;
	const char *key;

	while ((v = json_walk_next(&w, &key)))
		if (strcmp(key, NAD_LAST_APPLIED) != 0 && json_string(v))
			labels_collect(l, key, json_string(v));
	labels_merge(l);
	put_resource(l, q);
}

int nad_write(const struct json *smc, struct nad *ret, struct err *e)
{
	struct nad_ask q = {0};
	struct nad n = {0};
	int r = ask_of(smc, &q, e);

	if (r == 0)
		r = config_of(smc, &q, &n.config, e);
	if (r < 0)
		return r;
	n.name = xstrdup(nad_name(smc));
	put_notes(&n.annotations, smc, &q);
	*ret = n;
	return 0;
}

void nad_done(struct nad *n)
{
	free(n->name);
	free(n->config);
	labels_done(&n->annotations);
	*n = (struct nad){0};
}
