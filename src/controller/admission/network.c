/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/num.h"
#include "base/option.h"
#include "controller/admission/internal.h"
#include "controller/nad/render.h"
#include "spec/annotations.h"
#include "spec/definition.h"
#include "spec/multusconfig.h"

/* Validation of a SpiderMultusConfig. */

static const char *const inject_keys[] = {
	ANNOTATION_INJECT_RDMA,
	ANNOTATION_INJECT_NETWORK,
};

static const struct json *annotation(const struct admit *a, const char *key)
{
	return admit_annotation(a->request->object, key);
}

/* --- the NetworkAttachmentDefinition's name --- */

/* Returns whether the name is an RFC 1123 subdomain: at most 253 lower case letters, digits, '-'
 * and '.', with a letter or digit at both ends of each part between dots. */
static bool is_dns_name(const char *s)
{
	size_t n = strlen(s);

	if (n == 0 || n > 253 || strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-.") != n)
		return false;
	for (size_t i = 0; i < n; i++)
		if ((s[i] == '.' || s[i] == '-') &&
		    (i == 0 || i + 1 == n || s[i - 1] == '.' || (s[i] == '.' && s[i - 1] == '-')))
			return false;
	return true;
}

/* Refuses an update that adds the annotation of the NAD's name or changes its value: the
 * controller would delete the NAD with the old name, to which pods refer. */
static int check_renamed(struct admit *a)
{
	const char *is = json_string(annotation(a, ANNOTATION_NAD_NAME));
	const char *was = json_string(admit_annotation(a->request->old, ANNOTATION_NAD_NAME));

	if (a->request->operation != ADMIT_UPDATE || !is || (was && strcmp(is, was) == 0))
		return 0;
	return admit_refuse(a, ADMIT_INVALID,
			    "metadata.annotations[" ANNOTATION_NAD_NAME
			    "]: '%.100s' cannot be %s after creation: create another "
			    "SpiderMultusConfig",
			    is, was ? "changed" : "given");
}

/* Refuses the name of a NAD that another SpiderMultusConfig uses, if the object is new or the
 * update changes the NAD's name. So two SpiderMultusConfigs that already use the same NAD can
 * still be updated. */
static int check_taken(struct admit *a, const char *nad)
{
	const char *owner = "",
		   *was = json_string(admit_annotation(a->request->old, ANNOTATION_NAD_NAME));
	enum admit_nad found = ADMIT_NAD_NONE;

	if (a->request->operation == ADMIT_UPDATE && strcmp(nad, was ? was : a->request->name) == 0)
		return 0;
	if (a->cache->nad)
		found = a->cache->nad(a->cache->arg, a->request->ns, nad, a->request->name, &owner);
	if (found == ADMIT_NAD_TAKEN)
		return admit_refuse(a, ADMIT_INVALID,
				    "metadata.%s: the NetworkAttachmentDefinition %s/%s already "
				    "exists and is managed by SpiderMultusConfig %s/%s: choose "
				    "another name",
				    annotation(a, ANNOTATION_NAD_NAME)
					    ? "annotations[" ANNOTATION_NAD_NAME "]"
					    : "name",
				    a->request->ns, nad, a->request->ns, owner);
	if (found == ADMIT_NAD_FREE)
		admit_warn(a,
			   "the existing NetworkAttachmentDefinition %s/%s is replaced with this "
			   "object's content",
			   a->request->ns, nad);
	return 0;
}

static int check_name(struct admit *a)
{
	const char *given = json_string(annotation(a, ANNOTATION_NAD_NAME));
	int r = check_renamed(a);

	if (r == 0 && given && !is_dns_name(given))
		return admit_refuse(a, ADMIT_INVALID,
				    "metadata.annotations[" ANNOTATION_NAD_NAME
				    "]: invalid custom net-attach-def resource name '%.100s': "
				    "expected at most 253 lower case letters, digits, '-' and '.', "
				    "with a letter or digit at both ends of each part between dots",
				    given);
	return r == 0 ? check_taken(a, given ? given : a->request->name) : r;
}

/* --- annotations of the CNI version and the network's name --- */

static int check_version(struct admit *a)
{
	static const char *const known[] = {"0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"};
	const char *v = json_string(annotation(a, ANNOTATION_CNI_VERSION));

	for (size_t i = 0; v && i < ARRAY_LEN(known); i++)
		if (strcmp(v, known[i]) == 0)
			return 0;
	if (!v)
		return 0;
	return admit_refuse(
		a, ADMIT_NOT_SUPPORTED,
		"metadata.annotations[" ANNOTATION_CNI_VERSION
		"]: '%.60s' is not a CNI version: expected 0.3.0, 0.3.1, 0.4.0, 1.0.0 or "
		"1.1.0",
		v);
}

/* Checks the network's name by the rule of libcni, which refuses every attachment to a network
 * with an invalid name. */
static int check_cni_name(struct admit *a)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789_.-";
	const char *v = json_string(annotation(a, ANNOTATION_CNI_NAME));

	if (!v || !*v || (strspn(v, letters) == strlen(v) && !strchr("_.-", *v)))
		return 0;
	return admit_refuse(a, ADMIT_INVALID,
			    "metadata.annotations[" ANNOTATION_CNI_NAME
			    "]: '%.100s' is not a network name: expected letters, digits, '-', '_' "
			    "and '.', a letter or digit first",
			    v);
}

/* --- annotations that request injection --- */

static size_t count_pools(const struct json *block)
{
	const struct json *pools = json_get(block, "ippools");

	return json_len(json_get(pools, "ipv4")) + json_len(json_get(pools, "ipv6"));
}

static int check_injected(struct admit *a, const struct json *spec, const char *key, bool rdma)
{
	const char *type = json_text(json_get(spec, "cniType"));
	const struct multus_type *t = multus_type_of(type);
	/* resource: the block's key that names the resource; for a cniType without such a key,
	 * `master`: the interface whose RDMA device the pods share */
	const char *block = t ? t->block : NULL,
		   *resource = t && t->resource ? t->resource : "master";
	const struct json *b = block ? json_get(spec, block) : NULL;

	if (!t || !t->injectable)
		return admit_refuse(
			a, ADMIT_FORBIDDEN,
			"metadata.annotations[%s]: cniType %s does not support RDMA resource or "
			"network resource injected: remove the annotation",
			key, type);
	if (!*json_text(json_get(b, resource))) {
		if (!rdma)
			return 0;
		return admit_refuse(
			a, ADMIT_REQUIRED,
			"spec.%s.%s: is empty: the annotation %s requires a resource to "
			"inject, such as 'spidernet.io/shared_rdma'",
			block, resource, key);
	}
	if (count_pools(b) == 0 && !json_bool(json_get(spec, "disableIPAM")))
		return admit_refuse(
			a, ADMIT_REQUIRED,
			"spec.%s.ippools: is empty: the annotation %s requires at least "
			"one pool in ipv4 or ipv6",
			block, key);
	return 0;
}

static int check_inject(struct admit *a, const struct json *spec)
{
	int r = 0;

	for (size_t i = 0; i < ARRAY_LEN(inject_keys) && r == 0; i++)
		if (annotation(a, inject_keys[i]))
			r = check_injected(a, spec, inject_keys[i], i == 0);
	return r;
}

/* --- CNI configurations as JSON text: customCNI, chainCNIJsonData --- */

static bool is_trusted(const struct admit *a)
{
	return a->cache->trusts && a->cache->trusts(a->cache->arg, a->request->ns);
}

/* Validates a CNI configuration, or that of a single plugin, by spec/definition.h, unless the
 * namespace is trusted or the spec is unchanged. */
static int admit_check_definition(struct admit *a, const struct json *config, const char *place)
{
	const struct definition_rules rules = {0};
	struct err e = ERR_INIT;

	if (is_trusted(a) || definition_check(config, &rules, &e) == 0 || admit_spec_stays(a))
		return 0;
	return admit_refuse(a, ADMIT_FORBIDDEN, "%s: namespace '%s' is not trusted: %s", place,
			    a->request->ns, e.text);
}

static int check_custom(struct admit *a, const struct json *spec)
{
	const char *text = json_text(json_get(spec, "customCNI"));
	auto_json struct json_doc *doc = NULL;
	struct err e = ERR_INIT;

	if (!*text)
		return 0;
	if (strlen(text) > NAD_CONFIG_MAX)
		return admit_refuse(a, ADMIT_INVALID,
				    "spec.customCNI: is %zu bytes long, %d are allowed",
				    strlen(text), NAD_CONFIG_MAX);
	if (json_parse(&doc, span_of(text), NAD_CONFIG_MAX, &e) < 0)
		return admit_refuse(a, ADMIT_FORBIDDEN, "spec.customCNI: is not JSON: %s", e.text);
	if (json_kind(json_root(doc)) != JSON_OBJECT)
		return admit_refuse(a, ADMIT_INVALID,
				    "spec.customCNI: is %s, expected a CNI configuration such as "
				    "{\"cniVersion\":\"0.3.1\",\"type\":\"macvlan\",...}",
				    json_kind_name(json_root(doc)));
	if (!json_get(json_root(doc), "type") && !json_get(json_root(doc), "plugins"))
		admit_warn(a, "spec.customCNI has no 'type' and no 'plugins': name a plugin");
	return admit_check_definition(a, json_root(doc), "spec.customCNI");
}

static int check_chained(struct admit *a, const struct json *v, size_t i)
{
	auto_free char *place = xasprintf("spec.chainCNIJsonData[%zu]", i);
	auto_json struct json_doc *doc = NULL;
	struct err e = ERR_INIT;

	if (!json_string(v))
		return admit_refuse(a, ADMIT_FORBIDDEN,
				    "spec.chainCNIJsonData[%zu]: is %s, expected a string with "
				    "JSON such as '{\"type\":\"tuning\"}'",
				    i, json_kind_name(v));
	if (json_parse(&doc, span_of(json_string(v)), SIZE_MAX, &e) < 0)
		return admit_refuse(a, ADMIT_FORBIDDEN,
				    "spec.chainCNIJsonData[%zu]: is not JSON: %s", i, e.text);
	if (!*json_text(json_get(json_root(doc), "type")))
		return admit_refuse(
			a, ADMIT_FORBIDDEN,
			"spec.chainCNIJsonData[%zu]: expected an object with the plugin's "
			"name as 'type', such as {\"type\":\"tuning\"}",
			i);
	return admit_check_definition(a, json_root(doc), place);
}

static int check_chain(struct admit *a, const struct json *spec)
{
	struct json_walk w = json_walk_start(json_get(spec, "chainCNIJsonData"));
	const struct json *v;
	size_t sum = 0;
	int r = 0;

	for (size_t i = 0; r == 0 && (v = json_walk_next(&w, NULL)); i++) {
		sum += strlen(json_text(v));
		if (sum > NAD_CONFIG_MAX)
			return admit_refuse(a, ADMIT_INVALID,
					    "spec.chainCNIJsonData[%zu]: the list is longer than "
					    "the %d bytes that are allowed",
					    i, NAD_CONFIG_MAX);
		r = check_chained(a, v, i);
	}
	return r;
}

/* --- blocks of other cniTypes, which must be absent --- */

static int check_block_alone(struct admit *a, const struct json *spec, const char *type,
			     const char *own, const char *key, const char *of)
{
	const struct json *v = json_get(spec, key);

	if (strcmp(key, own) == 0 || json_kind(v) == JSON_NULL ||
	    (strcmp(key, "customCNI") == 0 && !*json_text(v)))
		return 0;
	return admit_refuse(a, ADMIT_FORBIDDEN,
			    "spec.%s: the cniType %s only supports spec.%s, please remove "
			    "other CNI configs (or is 'cniType: %s' missing?)",
			    key, type, own, of);
}

static int check_blocks(struct admit *a, const struct json *spec, const char *type,
			const char *block)
{
	const char *own = block ? block : "customCNI";
	int r = 0;

	for (size_t i = 0; i < MULTUS_TYPES && r == 0; i++)
		r = check_block_alone(a, spec, type, own, multus_types[i].block,
				      multus_types[i].type);
	return r == 0 ? check_block_alone(a, spec, type, own, "customCNI", "custom") : r;
}

static int check_type(struct admit *a, const struct json *spec, const char *type, const char *block)
{
	const char *types[MULTUS_TYPES + 1] = {"custom"};
	const char *near;

	for (size_t i = 0; i < MULTUS_TYPES; i++)
		types[i + 1] = multus_types[i].type;
	near = opt_suggest(type, types, ARRAY_LEN(types));

	if (!block && strcmp(type, "custom") != 0)
		return admit_refuse(
			a, ADMIT_NOT_SUPPORTED,
			"spec.cniType: '%.60s' is not known%s%s%s: expected " MULTUS_TYPE_NAMES,
			type, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
	if (block && json_kind(json_get(spec, block)) != JSON_OBJECT)
		return admit_refuse(a, ADMIT_REQUIRED,
				    "spec.%s: is missing: cniType %s requires it (no spec.%s "
				    "specified)",
				    block, type, block);
	return check_blocks(a, spec, type, block);
}

static void say_unused(struct admit *a, const struct json *spec, const char *block)
{
	if (block && json_bool(json_get(spec, "disableIPAM")) &&
	    count_pools(json_get(spec, block)) > 0)
		admit_warn(a, "spec.%s.ippools is ignored: disableIPAM is true", block);
}

static int admit_check_block(struct admit *a, const char *type, const char *name,
			     const struct json *spec);

static int admit_check_ifacer(struct admit *a, const char *block, const struct json *spec);

int admit_check_network(struct admit *a)
{
	const struct json *spec = json_get(a->request->object, "spec");
	const struct json *c = json_get(spec, "coordinator");
	const char *type = json_string(json_get(spec, "cniType")), *block;
	int r;

	if (a->request->operation == ADMIT_DELETE || admit_is_going(a->request->object))
		return 0;
	type = type ? type : "custom";
	block = multus_type_of(type) ? multus_type_of(type)->block : NULL;
	r = check_name(a);
	if (r == 0)
		r = check_version(a);
	if (r == 0)
		r = check_cni_name(a);
	if (r == 0)
		r = check_type(a, spec, type, block);
	if (r == 0)
		r = block ? admit_check_block(a, type, block, spec) : check_custom(a, spec);
	if (r == 0 && block)
		r = admit_check_ifacer(a, block, spec);
	if (r == 0)
		r = check_inject(a, spec);
	if (r == 0 && block && json_kind(c) != JSON_NULL)
		r = admit_check_coordinator_spec(a, c, "spec.coordinator");
	if (r == 0)
		r = check_chain(a, spec);
	if (r == 0)
		say_unused(a, spec, block);
	return r;
}

/* --- validation of the block that the cniType of a SpiderMultusConfig requires --- */

enum {
	VLAN_MAX = 4094,
	BOND_MODE_MAX = 6,
	IFNAME_MAX = 15,
	PKEY_MAX = 0xffff,
	FULL_MEMBER = 0x8000
};

/* The block that is being checked. */
struct block {
	struct admit *a;
	const char *type, *name, *place;
	const struct json *v;
};

static const struct json *get(const struct block *b, const char *key)
{
	return json_get(b->v, key);
}

static int check_choices(const struct block *b)
{
	return admit_check_choices(b->a, b->v, b->name, b->place);
}

static int check_numbers(const struct block *b)
{
	return admit_check_numbers(b->a, b->v, b->name, b->place);
}

static int check_mode(const struct block *b)
{
	const char *mode = json_text(get(b, "vlanMode"));
	int64_t n = 0;
	int r = check_choices(b);

	if (r < 0)
		return r;
	if (strcmp(mode, "auto") == 0 && json_kind(get(b, "vlanID")) != JSON_NULL)
		return admit_refuse(b->a, ADMIT_FORBIDDEN,
				    "spec.vlan.vlanID: does not go with vlanMode auto, which "
				    "detects it: remove one of the two");
	if (strcmp(mode, "auto") != 0 && json_int(get(b, "vlanID"), &n) < 0)
		return admit_refuse(b->a, ADMIT_REQUIRED,
				    "spec.vlan.vlanID: is missing: vlanMode manual requires it");
	return 0;
}

static int check_match(const struct block *b)
{
	if (!json_bool(json_get(get(b, "ippools"), "matchMasterSubnet")))
		return 0;
	return admit_refuse(
		b->a, ADMIT_INVALID,
		"spec.%s.ippools.matchMasterSubnet: MatchMasterSubnet feature is not supported for "
		"%s: remove it, or use cniType sriov, macvlan or ipvlan",
		b->name, b->type);
}

/* --- master interfaces --- */

static int check_bond(const struct block *b, size_t n_masters)
{
	const struct json *bond = get(b, "bond");
	const char *name = json_text(json_get(bond, "name"));
	int64_t mode = 0;

	if (n_masters < 2) {
		if (json_kind(bond) != JSON_NULL)
			admit_warn(b->a, "spec.%s.bond is ignored: spec has only one master",
				   b->name);
		return 0;
	}
	if (json_kind(bond) == JSON_NULL)
		return admit_refuse(
			b->a, ADMIT_REQUIRED,
			"spec.%s.bond: is missing: %zu masters require a bond with name "
			"and mode, such as {name: bond0, mode: 1}",
			b->name, n_masters);
	if (!*name || strlen(name) > IFNAME_MAX)
		return admit_refuse(
			b->a, ADMIT_INVALID,
			"spec.%s.bond.name: '%.60s' is not an interface name: expected 1 to 15 "
			"characters, such as bond0",
			b->name, name);
	if (json_int(json_get(bond, "mode"), &mode) < 0 || mode < 0 || mode > BOND_MODE_MAX)
		return admit_refuse(b->a, ADMIT_INVALID,
				    "spec.%s.bond.mode: expected 0 to 6 (1 is active-backup, 4 is "
				    "802.3ad)",
				    b->name);
	return 0;
}

static int check_masters(const struct block *b)
{
	const struct json *list = get(b, "master"), *v;
	struct json_walk w = json_walk_start(list);

	if (json_len(list) == 0)
		return admit_refuse(b->a, ADMIT_REQUIRED,
				    "spec.%s.master: master can't be empty: give the node's "
				    "interface, such as [eth0]",
				    b->name);
	for (size_t i = 0; (v = json_walk_next(&w, NULL)); i++)
		if (!*json_text(v) || strlen(json_text(v)) > IFNAME_MAX ||
		    strpbrk(json_text(v), "/ \t"))
			return admit_refuse(b->a, ADMIT_INVALID,
					    "spec.%s.master[%zu]: '%.60s' is not an interface name",
					    b->name, i, json_text(v));
	return check_bond(b, json_len(list));
}

/* Checks the block of cniType macvlan, ipvlan or vlan. */
static int check_on_master(const struct block *b)
{
	bool vlan = strcmp(b->name, "vlan") == 0;
	int r = vlan ? check_mode(b) : 0;

	if (r == 0)
		r = check_numbers(b);
	if (r == 0 && vlan)
		r = check_match(b);
	return r == 0 ? check_masters(b) : r;
}

/* --- device resources --- */

static int check_resource(const struct block *b)
{
	if (*json_text(get(b, "resourceName")))
		return 0;
	return admit_refuse(b->a, ADMIT_REQUIRED,
			    "spec.%s.resourceName: is empty: give the device plugin's resource, "
			    "such as 'spidernet.io/sriov_netdevice'",
			    b->name);
}

static int check_sriov(const struct block *b)
{
	int64_t least = 0, most = 0;
	int r = check_numbers(b);

	if (r < 0)
		return r;
	json_int(get(b, "minTxRateMbps"), &least);
	json_int(get(b, "maxTxRateMbps"), &most);
	/* maxTxRateMbps 0: no limit */
	if (most > 0 && least > most)
		return admit_refuse(b->a, ADMIT_INVALID,
				    "spec.sriov.minTxRateMbps: %" PRId64
				    " is more than maxTxRateMbps %" PRId64,
				    least, most);
	return check_resource(b);
}

static int check_pkey(const struct block *b)
{
	const char *text = json_text(get(b, "pkey"));
	uint64_t n = 0;
	bool hex = strncmp(text, "0x", 2) == 0 || strncmp(text, "0X", 2) == 0;
	int r = hex ? num_hex(span_of(text), PKEY_MAX, &n)
		    : num_u64(span_of(text), 0, PKEY_MAX, &n);

	if (!*text || (r == 0 && n > 0 && n != FULL_MEMBER))
		return 0;
	return admit_refuse(b->a, ADMIT_INVALID,
			    "spec.ibsriov.pkey: '%.60s' is not a partition key: expected 0x0001 to "
			    "0x7fff, with or without the membership bit 0x8000",
			    text);
}

static int check_ibsriov(const struct block *b)
{
	int r = check_resource(b);

	if (r == 0)
		r = check_choices(b);
	return r == 0 ? check_pkey(b) : r;
}

static int check_ipoib(const struct block *b)
{
	if (*json_text(get(b, "master")))
		return 0;
	return admit_refuse(b->a, ADMIT_REQUIRED,
			    "spec.ipoib.master: is empty: give the node's interface, such as ib0");
}

/* --- fields of cniType ovs --- */

static int check_trunk(const struct block *b, const struct json *v, size_t i)
{
	static const char *const keys[] = {"minID", "maxID", "id"};
	int64_t n[3] = {0, 0, 0};

	for (size_t k = 0; k < 3; k++)
		if (json_int(json_get(v, keys[k]), &n[k]) == 0 && (n[k] < 0 || n[k] > VLAN_MAX))
			return admit_refuse(b->a, ADMIT_INVALID,
					    "spec.ovs.trunk[%zu].%s: is %" PRId64
					    ", expected 0 to 4094",
					    i, keys[k], n[k]);
	if (!json_get(v, "minID") != !json_get(v, "maxID"))
		return admit_refuse(b->a, ADMIT_REQUIRED,
				    "spec.ovs.trunk[%zu].%s: is missing: a range of VLANs has both "
				    "minID and maxID",
				    i, json_get(v, "minID") ? "maxID" : "minID");
	if (n[1] < n[0])
		return admit_refuse(b->a, ADMIT_INVALID,
				    "spec.ovs.trunk[%zu].maxID: %" PRId64 " is less than minID "
				    "%" PRId64,
				    i, n[1], n[0]);
	return 0;
}

static int check_ovs(const struct block *b)
{
	struct json_walk w = json_walk_start(get(b, "trunk"));
	const struct json *v;
	int r = check_numbers(b);

	if (r == 0 && !*json_text(get(b, "bridge")))
		return admit_refuse(b->a, ADMIT_REQUIRED,
				    "spec.ovs.bridge: is empty: give the bridge, such as br0");
	for (size_t i = 0; r == 0 && (v = json_walk_next(&w, NULL)); i++)
		r = check_trunk(b, v, i);
	return r;
}

/* Validates the block of a SpiderMultusConfig that its cniType requires. */
static int admit_check_block(struct admit *a, const char *type, const char *name,
			     const struct json *spec)
{
	static const struct {
		const char *name;
		int (*check)(const struct block *b);
	} checks[] = {
		{"macvlan", check_on_master}, {"ipvlan", check_on_master},
		{"vlan", check_on_master},    {"sriov", check_sriov},
		{"ibsriov", check_ibsriov},   {"ipoib", check_ipoib},
		{"ovs", check_ovs},
	};
	auto_free char *place = xasprintf("spec.%s", name);
	const struct block b = {a, type, name, place, json_get(spec, name)};

	for (size_t i = 0; i < ARRAY_LEN(checks); i++)
		if (strcmp(checks[i].name, name) == 0)
			return checks[i].check(&b);
	return 0;
}

/* --- fields that only administrators may set: CNI plugins run as root on the nodes --- */

/* Denies settings for which the controller would put the plugin ifacer into a definition of a
 * namespace that is not trusted. */
static int admit_check_ifacer(struct admit *a, const char *block, const struct json *spec)
{
	const struct json *b = json_get(spec, block);
	bool tags = strcmp(block, "macvlan") == 0 || strcmp(block, "ipvlan") == 0;
	bool masters = tags || strcmp(block, "vlan") == 0;
	int64_t vlan = 0;

	if (tags)
		(void)json_int(json_get(b, "vlanID"), &vlan);
	if (!masters || (!vlan && json_len(json_get(b, "master")) < 2))
		return 0;
	if (is_trusted(a) || admit_spec_stays(a))
		return 0;
	return admit_refuse(
		a, ADMIT_FORBIDDEN,
		"spec.%s.%s: creates an interface on each node, which only a definition of a "
		"trusted namespace may do: set the annotation " ANNOTATION_TRUSTED
		"=true on Namespace '%s', or %s",
		block, vlan ? "vlanID" : "master", a->request->ns,
		vlan ? "use cniType vlan" : "name one master");
}
