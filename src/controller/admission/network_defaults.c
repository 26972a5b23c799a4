/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Defaults of a SpiderMultusConfig, and fields that manifests have in other places or by other
 * names.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "controller/admission/internal.h"
#include "ipam/pool/selector.h"
#include "spec/annotations.h"

static const struct {
	const char *type, *block;
} blocks[] = {
	{"macvlan", "macvlan"}, {"ipvlan", "ipvlan"},	 {"vlan", "vlan"},   {"sriov", "sriov"},
	{"ovs", "ovs"},		{"ib-sriov", "ibsriov"}, {"ipoib", "ipoib"},
};

const char *admit_block_of(const char *type)
{
	for (size_t i = 0; i < ARRAY_LEN(blocks); i++)
		if (strcmp(blocks[i].type, type) == 0)
			return blocks[i].block;
	return NULL;
}

static bool is_one_of(const char *word, const char *const *list)
{
	for (; *list; list++)
		if (strcmp(*list, word) == 0)
			return true;
	return false;
}

static bool has_masters(const char *block)
{
	static const char *const list[] = {"macvlan", "ipvlan", "vlan", NULL};

	return is_one_of(block, list);
}

/* --- alternative spellings --- */

struct move {
	const struct json *from;   /* object with the alternative spelling, as in the request */
	struct json_tree *at, *to; /* the same object in the tree, and the object that has the
	                            * proper field */
	const char *key, *to_key;
	const char *from_place, *to_place; /* paths of the objects, "spec.sriov" */
	/* both objects before this update; NULL: the request is a creation */
	const struct json *old_from, *old_to;
};

static bool says_nothing(const struct json_tree *v)
{
	return json_tree_kind(v) == JSON_NULL ||
	       (json_tree_kind(v) == JSON_BOOL && !json_tree_true(v)) ||
	       (json_tree_text(v) && !*json_tree_text(v)) ||
	       (json_tree_kind(v) == JSON_ARRAY && !json_tree_first(v));
}

/*
 * Copies the spelling's value to the proper field. The spelling stays, so that kubectl apply finds
 * what it sent and reports `unchanged`. If only the field was changed since, the field takes
 * precedence and the spelling is removed; the next kubectl apply adds the spelling again, which
 * then sets the field.
 */
static void take_as(struct admit *a, const struct move *m)
{
	const struct json *v = json_get(m->from, m->key);
	const struct json *old = json_get(m->old_to, m->to_key);
	struct json_tree *there = json_tree_member(m->to, m->to_key);
	bool nothing = says_nothing(there), stays = old && json_tree_same(there, old);

	if (json_kind(v) == JSON_NULL || !m->to || (there && json_tree_same(there, v)))
		return;
	if (!nothing && json_same(v, json_get(m->old_from, m->key))) {
		if (stays)
			return;
		admit_warn(a, "%s.%s is removed: %s.%s was changed", m->from_place, m->key,
			   m->to_place, m->to_key);
		json_tree_drop(m->at, m->key);
	} else if (nothing || stays) {
		admit_warn(a, "%s.%s is read as %s.%s: use that name", m->from_place, m->key,
			   m->to_place, m->to_key);
		json_tree_put(m->to, m->to_key, json_tree_of(v));
	} else {
		admit_warn(a, "%s.%s is ignored: %s.%s takes precedence", m->from_place, m->key,
			   m->to_place, m->to_key);
	}
}

/* Input for the spellings of one block. */
struct spellings {
	const struct json *spec, *old; /* spec of the request, and spec before this update */
	struct json_tree *tree;	       /* of spec */
	const char *block;
};

/* Applies spec.ippools to the block. */
static void take_pools(struct admit *a, const struct spellings *s)
{
	static const char *const keys[] = {"ipv4", "ipv6", "matchMasterSubnet"};
	auto_free char *place = xasprintf("spec.%s.ippools", s->block);
	struct json_tree *from = json_tree_member(s->tree, "ippools"), *to;

	if (json_tree_kind(from) != JSON_OBJECT)
		return;
	to = json_tree_member_object(json_tree_member(s->tree, s->block), "ippools");
	for (size_t i = 0; to && i < ARRAY_LEN(keys); i++)
		take_as(a, &(struct move){json_get(s->spec, "ippools"), from, to, keys[i], keys[i],
					  "spec.ippools", place, json_get(s->old, "ippools"),
					  json_get(json_get(s->old, s->block), "ippools")});
}

/* Applies `matchMasterSubnet` of the spec or of the block to the pools of the block. */
static void take_match(struct admit *a, const struct spellings *s)
{
	auto_free char *place = xasprintf("spec.%s", s->block);
	auto_free char *to_place = xasprintf("spec.%s.ippools", s->block);
	const struct json *old = json_get(s->old, s->block), *was = json_get(old, "ippools");
	struct json_tree *b = json_tree_member(s->tree, s->block), *to;
	const char *key = "matchMasterSubnet";

	if (!json_tree_member(s->tree, key) && !json_tree_member(b, key))
		return;
	to = json_tree_member_object(b, "ippools");
	take_as(a, &(struct move){s->spec, s->tree, to, key, key, "spec", to_place, s->old, was});
	take_as(a, &(struct move){json_get(s->spec, s->block), b, to, key, key, place, to_place,
				  old, was});
}

static void take_resource(struct admit *a, const struct spellings *s)
{
	static const char *const of_vfs[] = {"sriov", "ibsriov", NULL};
	auto_free char *place = xasprintf("spec.%s", s->block);
	const char *key = has_masters(s->block)		? "rdmaResourceName"
			  : is_one_of(s->block, of_vfs) ? "resourceName"
							: NULL;

	if (key)
		take_as(a, &(struct move){s->spec, s->tree, json_tree_member(s->tree, s->block),
					  "rdmaResourceName", key, "spec", place, s->old,
					  json_get(s->old, s->block)});
	else if (*(json_tree_text(json_tree_member(s->tree, "rdmaResourceName")) ?: ""))
		admit_warn(a, "spec.rdmaResourceName has no effect for spec.%s", s->block);
}

/* Handles `enableRdma`, a field of Spiderpool up to 0.9. */
static void take_rdma(struct admit *a, const struct spellings *s)
{
	struct json_tree *b = json_tree_member(s->tree, s->block);
	const char *resource = json_tree_text(json_tree_member(b, "rdmaResourceName"));
	const struct json *old = json_get(s->old, s->block);

	if (strcmp(s->block, "sriov") == 0) {
		take_as(a, &(struct move){json_get(s->spec, s->block), b, b, "enableRdma",
					  "rdmaIsolation", "spec.sriov", "spec.sriov", old, old});
		return;
	}
	if (!json_tree_true(json_tree_member(b, "enableRdma")) || (resource && *resource))
		return;
	admit_warn(a,
		   "spec.%s.enableRdma is deprecated: set the resource of the device plugin in "
		   "spec.%s.rdmaResourceName",
		   s->block, s->block);
}

/* Normalizes a number however it was written: 0x8001 in YAML arrives as 32769. */
static void take_pkey(struct admit *a, struct json_tree *block)
{
	auto_free char *text = NULL;
	int64_t n;

	if (json_tree_int(json_tree_member(block, "pkey"), &n) < 0 || n < 0)
		return;
	text = xasprintf("0x%04llx", (unsigned long long)n);
	admit_warn(a, "spec.ibsriov.pkey: the number %lld is read as '%s': write it as a string",
		   (long long)n, text);
	json_tree_put_text(block, "pkey", text);
}

static void take_spellings(struct admit *a, struct json_tree *spec, const char *block)
{
	const struct spellings s = {json_get(a->request->object, "spec"),
				    json_get(a->request->old, "spec"), spec, block};

	take_pools(a, &s);
	take_match(a, &s);
	take_resource(a, &s);
	take_rdma(a, &s);
	if (strcmp(block, "ibsriov") == 0)
		take_pkey(a, json_tree_member(spec, block));
}

/* --- defaults --- */

/* Default of a key in some blocks: `n` or `text`, depending on `kind`; the default of an object or
 * array is an empty one. */
struct fill {
	const char *blocks, *key;
	enum json_kind kind;
	int64_t n;
	const char *text;
};

/*
 * Defaults of Spiderpool's webhook, and of the CRD for clusters whose CRD has none. Defaults that
 * are empty strings are left out: API servers up to at least 1.20 read them as null, and every
 * reader treats an absent field in the same way.
 */
static const struct fill fills[] = {
	{"macvlan ipvlan", "vlanID", JSON_NUMBER, 0, NULL},
	{"macvlan ipvlan vlan sriov", "mtu", JSON_NUMBER, 0, NULL},
	{"vlan", "vlanMode", JSON_STRING, 0, "manual"},
	{"sriov", "vlanID", JSON_NUMBER, 0, NULL},
	{"sriov", "minTxRateMbps", JSON_NUMBER, 0, NULL},
	{"sriov", "maxTxRateMbps", JSON_NUMBER, 0, NULL},
	{"sriov", "rdmaIsolation", JSON_BOOL, false, NULL},
	{"ibsriov", "enableIbKubernetes", JSON_BOOL, false, NULL},
	{"ibsriov", "rdmaIsolation", JSON_BOOL, true, NULL},
	{"ibsriov", "linkState", JSON_STRING, 0, "enable"},
	{"ovs", "vlan", JSON_NUMBER, 0, NULL},
	{"macvlan ipvlan vlan sriov ibsriov ipoib ovs", "ippools", JSON_OBJECT, 0, NULL},
	{"coordinator", "mode", JSON_STRING, 0, "auto"},
	{"coordinator", "tunePodRoutes", JSON_BOOL, true, NULL},
	{"coordinator", "hostRuleTable", JSON_NUMBER, 500, NULL},
	{"coordinator", "txQueueLen", JSON_NUMBER, 0, NULL},
	{"coordinator", "podRPFilter", JSON_NUMBER, 0, NULL},
	{"coordinator-new", "hijackCIDR", JSON_ARRAY, 0, NULL},
	{"coordinator-new", "policyRoutes", JSON_ARRAY, 0, NULL},
};

static bool is_word_of(const char *message, const char *word)
{
	struct span rest = span_of(message), one;

	while (span_cut(&rest, ' ', &one))
		if (span_eq(one, word))
			return true;
	return false;
}

static void put_fill(struct json_tree *t, const struct fill *f)
{
	switch (f->kind) {
	case JSON_NUMBER: json_tree_put_int(t, f->key, f->n); return;
	case JSON_BOOL: json_tree_put_bool(t, f->key, f->n != 0); return;
	case JSON_STRING: json_tree_put_text(t, f->key, f->text); return;
	default: json_tree_put(t, f->key, json_tree_new(f->kind)); return;
	}
}

static void fill(struct json_tree *t, const char *block)
{
	if (json_tree_kind(t) != JSON_OBJECT)
		return;
	for (size_t i = 0; i < ARRAY_LEN(fills); i++)
		if (is_word_of(fills[i].blocks, block) &&
		    json_tree_kind(json_tree_member(t, fills[i].key)) == JSON_NULL)
			put_fill(t, &fills[i]);
}

static void fill_block(struct json_tree *spec, const char *block)
{
	struct json_tree *b = json_tree_member(spec, block), *pools;
	const char *mode;

	if (json_tree_kind(b) != JSON_OBJECT)
		return;
	fill(b, block);
	mode = json_tree_text(json_tree_member(b, "vlanMode"));
	if (mode && strcmp(mode, "manual") == 0 &&
	    json_tree_kind(json_tree_member(b, "vlanID")) == JSON_NULL)
		json_tree_put_int(b, "vlanID", 0);
	pools = json_tree_member(b, "ippools");
	if (json_tree_kind(pools) == JSON_OBJECT &&
	    json_tree_kind(json_tree_member(pools, "matchMasterSubnet")) == JSON_NULL)
		json_tree_put_bool(pools, "matchMasterSubnet", false);
}

static void fill_coordinator(struct admit *a, struct json_tree *spec, bool custom)
{
	bool is_new = json_tree_kind(json_tree_member(spec, "coordinator")) == JSON_NULL;

	if (custom) {
		if (!is_new)
			admit_warn(a, "spec.coordinator is ignored: a custom configuration has its "
				      "own coordinator plugin, or none");
		json_tree_put_bool(spec, "enableCoordinator", false);
		return;
	}
	if (json_tree_kind(json_tree_member(spec, "enableCoordinator")) == JSON_NULL)
		json_tree_put_bool(spec, "enableCoordinator", true);
	fill(json_tree_member_object(spec, "coordinator"), "coordinator");
	if (is_new)
		fill(json_tree_member(spec, "coordinator"), "coordinator-new");
}

/* --- labels that pods are matched by --- */

/*
 * Copies the annotation to the label. When the annotation is removed, a label with its old value is
 * removed; a label with another value stays.
 */
static void mirror(struct admit *a, struct json_tree *object, const char *key)
{
	const struct json *old = admit_annotation(a->request->old, key);
	struct json_tree *meta = json_tree_member_object(object, "metadata");
	const char *value =
		json_tree_text(json_tree_member(json_tree_member(meta, "annotations"), key));
	struct json_tree *labels = json_tree_member(meta, "labels");

	if (value && *value && selector_is_label_value(value)) {
		json_tree_put_text(json_tree_member_object(meta, "labels"), key, value);
		return;
	}
	if (json_tree_text(json_tree_member(labels, key)) && json_string(old) &&
	    strcmp(json_tree_text(json_tree_member(labels, key)), json_string(old)) == 0)
		json_tree_drop(labels, key);
}

void admit_default_network(struct admit *a, struct json_tree *object)
{
	struct json_tree *spec = json_tree_member_object(object, "spec");
	const char *type, *block;

	if (!spec)
		return;
	if (json_tree_kind(json_tree_member(spec, "cniType")) == JSON_NULL)
		json_tree_put_text(spec, "cniType", "custom");
	type = json_tree_text(json_tree_member(spec, "cniType"));
	block = type ? admit_block_of(type) : NULL;
	if (block && json_tree_kind(json_tree_member(spec, block)) == JSON_OBJECT)
		take_spellings(a, spec, block);
	for (size_t i = 0; i < ARRAY_LEN(blocks); i++)
		fill_block(spec, blocks[i].block);
	if (json_tree_kind(json_tree_member(spec, "disableIPAM")) == JSON_NULL)
		json_tree_put_bool(spec, "disableIPAM", false);
	fill_coordinator(a, spec, type && strcmp(type, "custom") == 0);
	if (json_tree_kind(json_tree_member(spec, "chainCNIJsonData")) == JSON_NULL)
		json_tree_put(spec, "chainCNIJsonData", json_tree_new(JSON_ARRAY));
	mirror(a, object, ANNOTATION_INJECT_RDMA);
	mirror(a, object, ANNOTATION_INJECT_NETWORK);
}
