/* SPDX-License-Identifier: Apache-2.0 */
#include "spec/multusconfig.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "spec/annotations.h"

const struct multus_type multus_types[MULTUS_TYPES] = {
	{"macvlan", "macvlan", "rdmaResourceName", .masters = true, .match = true,
	 .injectable = true},
	{"ipvlan", "ipvlan", "rdmaResourceName", .masters = true, .match = true,
	 .injectable = true},
	{"vlan", "vlan", "rdmaResourceName", .masters = true, .injectable = true},
	{"sriov", "sriov", "resourceName", .devices = true, .match = true, .injectable = true},
	{"ib-sriov", "ibsriov", "resourceName", .devices = true, .injectable = true},
	{"ipoib", "ipoib", .injectable = true},
	{"ovs", "ovs", .resource = NULL},
};

const struct multus_type *multus_type_of(const char *type)
{
	for (size_t i = 0; type && i < MULTUS_TYPES; i++)
		if (strcmp(multus_types[i].type, type) == 0)
			return &multus_types[i];
	return NULL;
}

const char *multus_nad_name(const struct json *smc)
{
	const struct json *meta = json_get(smc, "metadata");
	const char *given =
		json_string(json_get(json_get(meta, "annotations"), ANNOTATION_NAD_NAME));
	const char *own = json_string(json_get(meta, "name"));

	return given && *given ? given : own ? own : "";
}

/* --- checks of fields --- */

#define VLAN .min = 0, .max = 4094, .is_vlan = true

/*
 * A field, and the blocks that have it; `kind` JSON_NULL: no default. Two names of blocks are for
 * defaults only: spidercoordinator (the spec of a SpiderCoordinator), and coordinator-new
 * (spec.coordinator, if the object was sent without it). Without `choices` and `max` any value is
 * valid. The fields of a block get their defaults, and are checked, in this order.
 */
static const struct field {
	const char *blocks, *key;
	/* kind of the default, which is `n` or `text`, or an empty object or array */
	enum json_kind kind;
	int64_t n;
	const char *text;
	const char *choices;	/* the valid strings */
	int64_t min, max;	/* of a number */
	const char *wanted;	/* expected values, in messages; NULL: from min to max */
	bool is_vlan, optional; /* optional: the empty string is valid, too */
} fields[] = {
	{"macvlan ipvlan sriov", "vlanID", JSON_NUMBER, VLAN},
	{"vlan", "vlanID", VLAN},
	{"macvlan ipvlan vlan sriov", "mtu", JSON_NUMBER, .max = INT32_MAX},
	{"vlan", "vlanMode", JSON_STRING, .text = "manual", .choices = "manual or auto",
	 .optional = true},
	{"sriov", "minTxRateMbps", JSON_NUMBER, .max = INT32_MAX},
	{"sriov", "maxTxRateMbps", JSON_NUMBER, .max = INT32_MAX},
	{"sriov", "rdmaIsolation", JSON_BOOL, .n = false},
	{"ibsriov", "enableIbKubernetes", JSON_BOOL, .n = false},
	{"ibsriov", "rdmaIsolation", JSON_BOOL, .n = true},
	{"ibsriov", "linkState", JSON_STRING, .text = "enable",
	 .choices = "auto, enable or disable", .optional = true},
	{"ovs", "vlan", JSON_NUMBER, VLAN},
	{"macvlan ipvlan vlan sriov ibsriov ipoib ovs", "ippools", .kind = JSON_OBJECT},
	{"coordinator spidercoordinator", "mode", JSON_STRING, .text = "auto",
	 .choices = "auto, underlay, overlay or disabled"},
	{"coordinator", "podCIDRType", .choices = "auto, cluster, calico, cilium or none"},
	{"coordinator", "tunePodRoutes", JSON_BOOL, .n = true},
	{"coordinator", "txQueueLen", JSON_NUMBER, .max = INT32_MAX},
	{"coordinator", "podRPFilter", JSON_NUMBER, .min = INT64_MIN, .max = 2,
	 .wanted = "0, 1 or 2, or a negative number to leave rp_filter unchanged"},
	{"coordinator", "hostRuleTable", JSON_NUMBER, MULTUS_RULE_TABLE, .min = 1,
	 .max = UINT32_MAX},
	{"coordinator", "vethMTU", .min = 68, .max = 65535},
	{"spidercoordinator", "vethMTU", JSON_NUMBER, .n = 1500},
	{"coordinator-new", "hijackCIDR", .kind = JSON_ARRAY},
	{"coordinator-new", "policyRoutes", .kind = JSON_ARRAY},
};

/* Returns whether the list, such as "auto, enable or disable" or "macvlan ipvlan", contains the
 * word. */
static bool is_word_of(const char *list, const char *word)
{
	struct span rest = span_of(list), one;

	while (span_cut(&rest, ' ', &one)) {
		if (one.n && one.p[one.n - 1] == ',')
			one.n--;
		if (span_eq(one, word))
			return true;
	}
	return false;
}

int multus_check_choices(const struct json *v, const char *block, const char *place, struct err *e)
{
	for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
		const struct field *f = &fields[i];
		const char *text = json_string(json_get(v, f->key));

		if (!f->choices || !text || (!*text && f->optional) ||
		    !is_word_of(f->blocks, block) ||
		    (strcmp(text, "or") != 0 && is_word_of(f->choices, text)))
			continue;
		return err_kind(e, ERR_CONF, -ENOTSUP, "%s.%s: '%.60s' is not known, expected %s",
				place, f->key, text, f->choices);
	}
	return 0;
}

static int check_number(const struct field *f, const struct json *v, const char *place,
			struct err *e)
{
	int64_t n;

	if (json_int(v, &n) < 0)
		return err_kind(e, ERR_CONF, -EINVAL, "%s.%s: is %s, expected a whole number",
				place, f->key, json_kind_name(v));
	if (n >= f->min && n <= f->max)
		return 0;
	if (f->is_vlan)
		return err_kind(e, ERR_CONF, -EINVAL,
				"%s.%s: invalid vlanId %" PRId64
				", please make sure vlanId in range [0,4094]",
				place, f->key, n);
	if (f->wanted)
		return err_kind(e, ERR_CONF, -ENOTSUP, "%s.%s: is %" PRId64 ", expected %s", place,
				f->key, n, f->wanted);
	return err_kind(e, ERR_CONF, -EINVAL,
			"%s.%s: is %" PRId64 ", expected %" PRId64 " to %" PRId64, place, f->key, n,
			f->min, f->max);
}

int multus_check_numbers(const struct json *v, const char *block, const char *place, struct err *e)
{
	int r = 0;

	for (size_t i = 0; i < ARRAY_LEN(fields) && r == 0; i++) {
		const struct json *n = json_get(v, fields[i].key);

		if (fields[i].max && is_word_of(fields[i].blocks, block) &&
		    json_kind(n) != JSON_NULL)
			r = check_number(&fields[i], n, place, e);
	}
	return r;
}

/* --- alternative spellings --- */

__attribute__((format(printf, 2, 3))) static void say(const struct multus_completion *c,
						      const char *fmt, ...)
{
	char *text = NULL;
	va_list args;

	if (!c->warn)
		return;
	va_start(args, fmt);
	if (vasprintf(&text, fmt, args) >= 0)
		c->warn(c->arg, text);
	va_end(args);
	free(text);
}

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
 * Copies the value of an alternative spelling (m->key) to the proper field (m->to_key). The
 * spelling stays, so that kubectl apply finds what it sent and reports `unchanged`. If this update
 * changed the field but not the spelling, the field takes precedence and the spelling is removed.
 * The next kubectl apply adds the spelling again, which then sets the field.
 */
static void take_as(const struct multus_completion *c, const struct move *m)
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
		say(c, "%s.%s is removed: %s.%s was changed", m->from_place, m->key, m->to_place,
		    m->to_key);
		json_tree_drop(m->at, m->key);
	} else if (nothing || stays) {
		say(c, "%s.%s is read as %s.%s: use that name", m->from_place, m->key, m->to_place,
		    m->to_key);
		json_tree_put(m->to, m->to_key, json_tree_of(v));
	} else {
		say(c, "%s.%s is ignored: %s.%s takes precedence", m->from_place, m->key,
		    m->to_place, m->to_key);
	}
}

/* Input for the alternative spellings of one block's fields. */
struct spellings {
	/* the request's spec; the spec before this update, or NULL */
	const struct json *spec, *old;
	struct json_tree *tree; /* of spec */
	const struct multus_type *type;
	const char *block;
};

/* Applies spec.ippools to the `ippools` of the block. */
static void take_pools(const struct multus_completion *c, const struct spellings *s)
{
	static const char *const keys[] = {"ipv4", "ipv6", "matchMasterSubnet"};
	auto_free char *place = xasprintf("spec.%s.ippools", s->block);
	struct json_tree *from = json_tree_member(s->tree, "ippools"), *to;

	if (json_tree_kind(from) != JSON_OBJECT)
		return;
	to = json_tree_member_object(json_tree_member(s->tree, s->block), "ippools");
	for (size_t i = 0; to && i < ARRAY_LEN(keys); i++)
		take_as(c, &(struct move){json_get(s->spec, "ippools"), from, to, keys[i], keys[i],
					  "spec.ippools", place, json_get(s->old, "ippools"),
					  json_get(json_get(s->old, s->block), "ippools")});
}

/* Applies `matchMasterSubnet` of the spec or of the block to the pools of the block. */
static void take_match(const struct multus_completion *c, const struct spellings *s)
{
	auto_free char *place = xasprintf("spec.%s", s->block);
	auto_free char *to_place = xasprintf("spec.%s.ippools", s->block);
	const struct json *old = json_get(s->old, s->block), *was = json_get(old, "ippools");
	struct json_tree *b = json_tree_member(s->tree, s->block), *to;
	const char *key = "matchMasterSubnet";

	if (!json_tree_member(s->tree, key) && !json_tree_member(b, key))
		return;
	to = json_tree_member_object(b, "ippools");
	take_as(c, &(struct move){s->spec, s->tree, to, key, key, "spec", to_place, s->old, was});
	take_as(c, &(struct move){json_get(s->spec, s->block), b, to, key, key, place, to_place,
				  old, was});
}

static void take_resource(const struct multus_completion *c, const struct spellings *s)
{
	auto_free char *place = xasprintf("spec.%s", s->block);
	const char *key = s->type->resource;

	if (key)
		take_as(c, &(struct move){s->spec, s->tree, json_tree_member(s->tree, s->block),
					  "rdmaResourceName", key, "spec", place, s->old,
					  json_get(s->old, s->block)});
	else if (*(json_tree_text(json_tree_member(s->tree, "rdmaResourceName")) ?: ""))
		say(c, "spec.rdmaResourceName has no effect for spec.%s", s->block);
}

/* Handles `enableRdma`, a field of Spiderpool up to 0.9. */
static void take_rdma(const struct multus_completion *c, const struct spellings *s)
{
	struct json_tree *b = json_tree_member(s->tree, s->block);
	const char *resource = json_tree_text(json_tree_member(b, "rdmaResourceName"));
	const struct json *old = json_get(s->old, s->block);

	if (strcmp(s->block, "sriov") == 0) {
		take_as(c, &(struct move){json_get(s->spec, s->block), b, b, "enableRdma",
					  "rdmaIsolation", "spec.sriov", "spec.sriov", old, old});
		return;
	}
	if (!json_tree_true(json_tree_member(b, "enableRdma")) || (resource && *resource))
		return;
	say(c,
	    "spec.%s.enableRdma is deprecated: set the resource of the device plugin in "
	    "spec.%s.rdmaResourceName",
	    s->block, s->block);
}

static void take_spellings(const struct multus_completion *c, struct json_tree *spec,
			   const struct multus_type *t)
{
	const struct spellings s = {c->sent, c->old, spec, t, t->block};

	take_pools(c, &s);
	take_match(c, &s);
	take_resource(c, &s);
	take_rdma(c, &s);
}

/* --- defaults --- */

static void put_default(struct json_tree *t, const struct field *f)
{
	switch (f->kind) {
	case JSON_NULL: return;
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
	for (size_t i = 0; i < ARRAY_LEN(fields); i++)
		if (is_word_of(fields[i].blocks, block) &&
		    json_tree_kind(json_tree_member(t, fields[i].key)) == JSON_NULL)
			put_default(t, &fields[i]);
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

static void fill_coordinator(const struct multus_completion *c, struct json_tree *spec, bool custom)
{
	bool is_new = json_tree_kind(json_tree_member(spec, "coordinator")) == JSON_NULL;

	if (custom) {
		if (!is_new)
			say(c, "spec.coordinator is ignored: a custom configuration has its "
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

void multus_complete(struct json_tree *spec, const struct multus_completion *c)
{
	const struct multus_type *t;
	const char *type;

	if (json_tree_kind(json_tree_member(spec, "cniType")) == JSON_NULL)
		json_tree_put_text(spec, "cniType", "custom");
	type = json_tree_text(json_tree_member(spec, "cniType"));
	t = multus_type_of(type);
	if (t && json_tree_kind(json_tree_member(spec, t->block)) == JSON_OBJECT)
		take_spellings(c, spec, t);
	for (size_t i = 0; i < MULTUS_TYPES; i++)
		fill_block(spec, multus_types[i].block);
	if (json_tree_kind(json_tree_member(spec, "disableIPAM")) == JSON_NULL)
		json_tree_put_bool(spec, "disableIPAM", false);
	fill_coordinator(c, spec, type && strcmp(type, "custom") == 0);
	if (json_tree_kind(json_tree_member(spec, "chainCNIJsonData")) == JSON_NULL)
		json_tree_put(spec, "chainCNIJsonData", json_tree_new(JSON_ARRAY));
}

void coordinator_complete(struct json_tree *spec)
{
	fill(spec, "spidercoordinator");
}
