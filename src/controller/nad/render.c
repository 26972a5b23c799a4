/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/nad/render.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "controller/nad/internal.h"
#include "kube/object.h"
#include "spec/annotations.h"
#include "spec/multusconfig.h"

#define OVS_RESOURCE "ovs-cni.network.kubevirt.io/"

/* SPEC_MAX: limit in bytes for a completed spec, more than any object of the API server needs. */
enum { SPEC_MAX = 4 << 20 };

static const struct json *annotation(const struct json *smc, const char *key)
{
	return json_get(kube_meta(smc, "annotations"), key);
}

/* --- spec.config --- */

static bool is_type(const struct nad_request *q, const char *type)
{
	return strcmp(q->type, type) == 0;
}

static int64_t number(const struct nad_request *q, const char *key)
{
	return json_int_or(json_get(q->block, key), 0);
}

static void put_type(struct json_out *o, const char *type, int64_t mtu)
{
	jo_obj(o);
	jo_kstr(o, "type", type);
	if (mtu)
		jo_kint(o, "mtu", mtu);
	jo_end_obj(o);
}

/* Writes the user's plugins in the format of Go's encoding/json. */
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
				"spec.chainCNIJsonData[%zu] has no 'type', expected a plugin's "
				"object such as {\"type\": \"tuning\"}",
				i);
		jo_val(o, json_root(doc), true);
	}
	return 0;
}

static void nad_put_coordinator(struct json_out *o, const struct json *c);

static int nad_put_main(struct json_out *o, const struct nad_request *q, struct err *e);

static int put_plugins(struct json_out *o, const struct nad_request *q, struct err *e)
{
	int64_t mtu = is_type(q, "sriov") ? number(q, "mtu") : 0;
	int r = nad_put_main(o, q, e);

	if (r < 0)
		return r;
	if (is_type(q, "sriov") && json_bool(json_get(q->block, "rdmaIsolation")))
		put_type(o, "rdma", 0);
	r = put_chain(o, json_get(q->spec, "chainCNIJsonData"), e);
	if (r < 0)
		return r;
	if (json_bool(json_get(q->spec, "enableCoordinator")))
		nad_put_coordinator(o, json_get(q->spec, "coordinator"));
	if (mtu)
		put_type(o, "tuning", mtu);
	return 0;
}

static int put_list(struct buf *b, const struct json *smc, const struct nad_request *q,
		    struct err *e)
{
	struct json_out o;
	int r;

	jo_init(&o, b, 0);
	jo_obj(&o);
	jo_kstr(&o, "cniVersion", nad_text(annotation(smc, ANNOTATION_CNI_VERSION), "0.3.1"));
	jo_kstr(&o, "name", nad_text(annotation(smc, ANNOTATION_CNI_NAME), multus_nad_name(smc)));
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

/* Accepts any JSON unchanged, because Multus validates it. */
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

/* Makes a copy of the spec, owned by *doc, and adds the defaults to it as admission does. */
static int complete(const struct json *smc, struct json_doc **doc, struct err *e)
{
	const struct multus_completion c = {.sent = json_get(smc, "spec")};
	auto_tree struct json_tree *spec = json_kind(c.sent) == JSON_OBJECT
						   ? json_tree_over(c.sent)
						   : json_tree_new(JSON_OBJECT);
	auto_buf struct buf b;
	struct json_out o;

	multus_complete(spec, &c);
	buf_init(&b, SPEC_MAX);
	jo_init(&o, &b, 0);
	json_tree_write(spec, &o);
	return json_parse(doc, buf_span(&b), SPEC_MAX, e);
}

static int request_from(const struct json *spec, struct nad_request *q, struct err *e)
{
	const struct multus_type *t;

	q->spec = spec;
	q->type = nad_text(json_get(spec, "cniType"), "");
	if (is_type(q, "custom"))
		return 0;
	t = multus_type_of(q->type);
	if (!t)
		return err_kind(e, ERR_CONF, -EINVAL,
				"spec.cniType is '%.100s', expected " MULTUS_TYPE_NAMES, q->type);
	q->block = json_get(spec, t->block);
	if (json_kind(q->block) != JSON_OBJECT)
		return err_kind(e, ERR_CONF, -EINVAL,
				"spec.%s is missing: it has the settings of cniType '%s'", t->block,
				q->type);
	return 0;
}

static int config_of(const struct json *smc, const struct nad_request *q, char **ret, struct err *e)
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

/* --- annotations of a NAD --- */

static void put_resource(struct labels *l, const struct nad_request *q)
{
	const char *name = nad_text(json_get(q->block, "resourceName"), NULL);

	if ((is_type(q, "sriov") || is_type(q, "ib-sriov")) && name)
		labels_put(l, ANNOTATION_RESOURCE_NAME, name);
	if (is_type(q, "ovs") && nad_text(json_get(q->block, "deviceID"), NULL)) {
		auto_free char *bridge =
			xasprintf(OVS_RESOURCE "%s", nad_text(json_get(q->block, "bridge"), ""));

		labels_put(l, ANNOTATION_RESOURCE_NAME, bridge);
	}
}

static void put_annotations(struct labels *l, const struct json *smc, const struct nad_request *q)
{
	struct json_walk w = json_walk_start(kube_meta(smc, "annotations"));
	const struct json *v;
	const char *key;

	while ((v = json_walk_next(&w, &key)))
		if (strcmp(key, ANNOTATION_LAST_APPLIED) != 0 &&
		    strcmp(key, ANNOTATION_MISSING_RESOURCE) != 0 && json_string(v))
			labels_collect(l, key, json_string(v));
	labels_merge(l);
	put_resource(l, q);
}

int nad_write(const struct json *smc, struct nad *ret, struct err *e)
{
	auto_json struct json_doc *doc = NULL;
	struct nad_request q = {0};
	struct nad n = {0};
	int r = complete(smc, &doc, e);

	if (r == 0)
		r = request_from(json_root(doc), &q, e);
	if (r == 0)
		r = config_of(smc, &q, &n.config, e);
	if (r < 0)
		return r;
	n.name = xstrdup(multus_nad_name(smc));
	put_annotations(&n.annotations, smc, &q);
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

/* --- the main plugin of each type, and ifacer in front of it --- */

/* --- parts that several types share --- */

static void put_pools(struct json_out *o, const char *key, const struct json *names)
{
	if (json_len(names) == 0)
		return;
	jo_key(o, key);
	jo_val(o, names, false);
}

static void put_ipam(struct json_out *o, const struct nad_request *q)
{
	const struct json *pools = json_get(q->block, "ippools");

	if (json_bool(json_get(q->spec, "disableIPAM")))
		return;
	jo_key(o, "ipam");
	jo_obj(o);
	jo_kstr(o, "type", "spiderpool");
	put_pools(o, "default_ipv4_ippool", json_get(pools, "ipv4"));
	put_pools(o, "default_ipv6_ippool", json_get(pools, "ipv6"));
	if (multus_type_of(q->type)->match && json_bool(json_get(pools, "matchMasterSubnet")))
		jo_kbool(o, "match_master_subnet", true);
	jo_end_obj(o);
}

/* --- master interfaces --- */

static size_t masters(const struct nad_request *q)
{
	return json_len(json_get(q->block, "master"));
}

static const struct json *bond_of(const struct nad_request *q)
{
	const struct json *bond = json_get(q->block, "bond");

	return json_kind(bond) == JSON_OBJECT ? bond : NULL;
}

static int check_masters(const struct nad_request *q, struct err *e)
{
	if (masters(q) == 0)
		return err_kind(e, ERR_CONF, -EINVAL,
				"spec.%s.master is empty, expected the node's interface", q->type);
	if (masters(q) > 1 && !nad_text(json_get(bond_of(q), "name"), NULL))
		return err_kind(e, ERR_CONF, -EINVAL,
				"spec.%s.bond.name is missing: several masters need a bond with "
				"name and mode",
				q->type);
	return 0;
}

/* Writes the field `master`: if the list of plugins has ifacer, the interface that ifacer
 * creates, otherwise the node's interface. */
static void put_master(struct json_out *o, const struct nad_request *q, int64_t vlan)
{
	const char *name = masters(q) == 1 ? nad_text(json_at(json_get(q->block, "master"), 0), "")
					   : nad_text(json_get(bond_of(q), "name"), "");
	auto_free char *tagged = xasprintf("%s.%lld", name, (long long)vlan);

	jo_kstr(o, "master", vlan ? tagged : name);
}

static void put_ifacer(struct json_out *o, const struct nad_request *q, int64_t vlan)
{
	const struct json *bond = bond_of(q);

	jo_obj(o);
	if (vlan)
		jo_kint(o, "vlanID", vlan);
	jo_kstr(o, "type", "ifacer");
	jo_key(o, "interfaces");
	jo_val(o, json_get(q->block, "master"), false);
	if (bond) {
		jo_key(o, "bond");
		jo_obj(o);
		jo_kstr(o, "name", nad_text(json_get(bond, "name"), ""));
		jo_kint(o, "mode", json_int_or(json_get(bond, "mode"), 0));
		jo_kstr(o, "options", nad_text(json_get(bond, "options"), ""));
		jo_end_obj(o);
	}
	jo_end_obj(o);
}

/* --- one function per type; put_macvlan() serves macvlan and ipvlan --- */

static int put_macvlan(struct json_out *o, const struct nad_request *q, struct err *e)
{
	int64_t vlan = number(q, "vlanID");
	int r = check_masters(q, e);

	if (r < 0)
		return r;
	if (vlan || masters(q) > 1)
		put_ifacer(o, q, vlan);
	jo_obj(o);
	jo_kstr(o, "type", q->type);
	put_master(o, q, vlan);
	if (strcmp(q->type, "macvlan") == 0)
		jo_kstr(o, "mode", "bridge");
	jo_kint(o, "mtu", number(q, "mtu"));
	return 0;
}

/* Passes no VLAN to ifacer, because the vlan plugin tags packets itself. */
static int put_vlan(struct json_out *o, const struct nad_request *q, struct err *e)
{
	const char *mode = nad_text(json_get(q->block, "vlanMode"), "");
	int r = check_masters(q, e);

	if (r < 0)
		return r;
	if (masters(q) > 1)
		put_ifacer(o, q, 0);
	jo_obj(o);
	jo_kstr(o, "type", "vlan");
	put_master(o, q, 0);
	jo_kstr(o, "vlanMode", mode);
	if (strcmp(mode, "manual") == 0)
		jo_kint(o, "vlanId", number(q, "vlanID"));
	jo_kint(o, "mtu", number(q, "mtu"));
	return 0;
}

static int put_sriov(struct json_out *o, const struct nad_request *q, struct err *e)
{
	(void)e;
	jo_obj(o);
	jo_kint(o, "vlan", number(q, "vlanID"));
	jo_kint(o, "min_tx_rate", number(q, "minTxRateMbps"));
	jo_kint(o, "max_tx_rate", number(q, "maxTxRateMbps"));
	jo_kstr(o, "type", "sriov");
	return 0;
}

/* The plugin's pkey is a string, but the CRD also allows a number: writes a number as a string
 * of its digits. */
static int put_ib_sriov(struct json_out *o, const struct nad_request *q, struct err *e)
{
	const struct json *pkey = json_get(q->block, "pkey");
	char digits[32] = "";
	int64_t n;

	(void)e;
	if (json_int(pkey, &n) == 0)
		snprintf(digits, sizeof(digits), "%lld", (long long)n);
	jo_obj(o);
	jo_kstr(o, "type", "ib-sriov");
	jo_kstr(o, "pkey", nad_text(pkey, digits));
	jo_kstr(o, "link_state", nad_text(json_get(q->block, "linkState"), ""));
	jo_kbool(o, "rdmaIsolation", json_bool(json_get(q->block, "rdmaIsolation")));
	jo_kbool(o, "ibKubernetesEnabled", json_bool(json_get(q->block, "enableIbKubernetes")));
	return 0;
}

static int put_ipoib(struct json_out *o, const struct nad_request *q, struct err *e)
{
	const char *master = nad_text(json_get(q->block, "master"), NULL);

	if (!master)
		return err_kind(e, ERR_CONF, -EINVAL,
				"spec.ipoib.master is empty, expected the node's interface");
	jo_obj(o);
	jo_kstr(o, "type", "ipoib");
	jo_kstr(o, "master", master);
	return 0;
}

static void put_trunk(struct json_out *o, const struct json *trunk)
{
	static const char *const keys[] = {"minID", "maxID", "id"};
	struct json_walk w = json_walk_start(trunk);
	const struct json *v;
	int64_t n;

	if (json_len(trunk) == 0)
		return;
	jo_key(o, "trunk");
	jo_arr(o);
	while ((v = json_walk_next(&w, NULL))) {
		jo_obj(o);
		for (size_t i = 0; i < ARRAY_LEN(keys); i++)
			if (json_int(json_get(v, keys[i]), &n) == 0)
				jo_kint(o, keys[i], n);
		jo_end_obj(o);
	}
	jo_end_arr(o);
}

static int put_ovs(struct json_out *o, const struct nad_request *q, struct err *e)
{
	const char *bridge = nad_text(json_get(q->block, "bridge"), NULL);
	const char *device = nad_text(json_get(q->block, "deviceID"), NULL);

	if (!bridge)
		return err_kind(e, ERR_CONF, -EINVAL,
				"spec.ovs.bridge is empty, expected the node's bridge");
	jo_obj(o);
	jo_kint(o, "vlan", number(q, "vlan"));
	jo_kstr(o, "type", "ovs");
	jo_kstr(o, "bridge", bridge);
	if (device)
		jo_kstr(o, "deviceID", device);
	return 0;
}

/* Writes [ifacer] and the main plugin. `puts` has, in the order of multus_types, the functions that
 * write the fields before ipam. */
static int nad_put_main(struct json_out *o, const struct nad_request *q, struct err *e)
{
	static int (*const puts[MULTUS_TYPES])(struct json_out *, const struct nad_request *,
					       struct err *) = {
		put_macvlan, put_macvlan, put_vlan, put_sriov, put_ib_sriov, put_ipoib, put_ovs,
	};
	int r = puts[multus_type_of(q->type) - multus_types](o, q, e);

	if (r < 0)
		return r;
	put_ipam(o, q);
	if (is_type(q, "ovs"))
		put_trunk(o, json_get(q->block, "trunk"));
	jo_end_obj(o);
	return 0;
}

/* --- the coordinator plugin, written if enableCoordinator is true and the type is not `custom`
 * --- */

static void put_text(struct json_out *o, const char *key, const struct json *v)
{
	const char *s = nad_text(v, NULL);

	if (s)
		jo_kstr(o, key, s);
}

static void put_filled(struct json_out *o, const char *key, const struct json *v)
{
	if (json_len(v) == 0)
		return;
	jo_key(o, key);
	jo_val(o, v, false);
}

static void put_routes(struct json_out *o, const struct json *v)
{
	struct json_walk w = json_walk_start(v);

	if (json_len(v) == 0)
		return;
	jo_key(o, "policyRoutes");
	jo_arr(o);
	while ((v = json_walk_next(&w, NULL))) {
		jo_obj(o);
		jo_kstr(o, "dst", nad_text(json_get(v, "dst"), ""));
		jo_kstr(o, "gw", nad_text(json_get(v, "gw"), ""));
		jo_end_obj(o);
	}
	jo_end_arr(o);
}

/* Writes podRPFilter and hostRuleTable, each only if it differs from its default; but
 * podRPFilter always if podCIDRType is given, as Spiderpool does by mistake. */
static void put_numbers(struct json_out *o, const struct json *c)
{
	int64_t filter = json_int_or(json_get(c, "podRPFilter"), 0);
	int64_t table = json_int_or(json_get(c, "hostRuleTable"), MULTUS_RULE_TABLE);

	if (filter != 0 || nad_text(json_get(c, "podCIDRType"), NULL))
		jo_kint(o, "podRPFilter", filter);
	if (table != MULTUS_RULE_TABLE)
		jo_kint(o, "hostRuleTable", table);
}

static void nad_put_coordinator(struct json_out *o, const struct json *c)
{
	int64_t mtu;

	jo_obj(o);
	jo_kint(o, "txQueueLen", json_int_or(json_get(c, "txQueueLen"), 0));
	put_text(o, "vethLinkAddress", json_get(c, "vethLinkAddress"));
	if (json_int(json_get(c, "vethMTU"), &mtu) == 0)
		jo_kint(o, "vethMTU", mtu);
	jo_kbool(o, "tunePodRoutes", json_bool(json_get(c, "tunePodRoutes")));
	put_text(o, "podMACPrefix", json_get(c, "podMACPrefix"));
	jo_kstr(o, "mode", nad_text(json_get(c, "mode"), ""));
	jo_kstr(o, "type", "coordinator");
	put_text(o, "podDefaultRouteNic", json_get(c, "podDefaultRouteNIC"));
	put_numbers(o, c);
	put_filled(o, "hijackCIDR", json_get(c, "hijackCIDR"));
	put_routes(o, json_get(c, "policyRoutes"));
	jo_end_obj(o);
}
