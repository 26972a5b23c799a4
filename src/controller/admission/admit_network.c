/* SPDX-License-Identifier: Apache-2.0 */
/* What makes a SpiderMultusConfig one that is taken; its block is admit_block.c's. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/opt.h"
#include "controller/admission/admit_priv.h"
#include "controller/nad/nad_write.h"

static const char *const inject_keys[] = {
	"cni.spidernet.io/rdma-resource-inject",
	"cni.spidernet.io/network-resource-inject",
};

static const struct json *note(const struct admit *a, const char *key)
{
	return admit_note(a->ask->object, key);
}

/* --- the NetworkAttachmentDefinition's name --- */

/* As the API server has it: lower case, '-' and '.', a letter or digit at both ends of each part. */
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

/* Another name would leave the definition of the first behind. */
static int check_renamed(struct admit *a)
{
	const char *is = json_string(note(a, NOTE_NAD_NAME));
	const char *was = json_string(admit_note(a->ask->old, NOTE_NAD_NAME));

	if (a->ask->operation != ADMIT_UPDATE || !is || (was && strcmp(is, was) == 0))
		return 0;
	return admit_refuse(a, ADMIT_INVALID,
			    "metadata.annotations[" NOTE_NAD_NAME
			    "]: '%.100s' cannot be %s afterwards: make another SpiderMultusConfig",
			    is, was ? "changed" : "given");
}

/* Only of a name that is new to the object: two that share one already can still be changed. */
static int check_taken(struct admit *a, const char *nad)
{
	const char *owner = "", *was = json_string(admit_note(a->ask->old, NOTE_NAD_NAME));
	enum admit_nad found = ADMIT_NAD_NONE;

	if (a->ask->operation == ADMIT_UPDATE && strcmp(nad, was ? was : a->ask->name) == 0)
		return 0;
	if (a->world->nad)
		found = a->world->nad(a->world->arg, a->ask->ns, nad, a->ask->name, &owner);
	if (found == ADMIT_NAD_TAKEN)
		return admit_refuse(a, ADMIT_INVALID,
				    "metadata.%s: the NetworkAttachmentDefinition %s/%s already "
				    "exists and is managed by SpiderMultusConfig %s/%s: choose "
				    "another name",
				    note(a, NOTE_NAD_NAME) ? "annotations[" NOTE_NAD_NAME "]"
							   : "name",
				    a->ask->ns, nad, a->ask->ns, owner);
	if (found == ADMIT_NAD_FREE)
		admit_warn(a,
			   "the NetworkAttachmentDefinition %s/%s that is there gets this object's "
			   "content",
			   a->ask->ns, nad);
	return 0;
}

static int check_name(struct admit *a)
{
	const char *given = json_string(note(a, NOTE_NAD_NAME));
	int r = check_renamed(a);

	if (r == 0 && given && !is_dns_name(given))
		return admit_refuse(a, ADMIT_INVALID,
				    "metadata.annotations[" NOTE_NAD_NAME
				    "]: invalid custom net-attach-def resource name '%.100s': "
				    "wants lower case letters, digits, '-' and '.'",
				    given);
	return r == 0 ? check_taken(a, given ? given : a->ask->name) : r;
}

/* --- other annotations --- */

static int check_version(struct admit *a)
{
	static const char *const known[] = {"0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"};
	const char *v = json_string(note(a, NOTE_CNI_VERSION));

	for (size_t i = 0; v && i < ARRAY_LEN(known); i++)
		if (strcmp(v, known[i]) == 0)
			return 0;
	if (!v)
		return 0;
	return admit_refuse(a, ADMIT_NOT_SUPPORTED,
			    "metadata.annotations[" NOTE_CNI_VERSION
			    "]: '%.60s' is no CNI version: wants 0.3.0, 0.3.1, 0.4.0, 1.0.0 or "
			    "1.1.0",
			    v);
}

/* libcni's rule for a network's name; it would refuse each pod. */
static int check_cni_name(struct admit *a)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789_.-";
	const char *v = json_string(note(a, NOTE_CNI_NAME));

	if (!v || !*v || (strspn(v, letters) == strlen(v) && !strchr("_.-", *v)))
		return 0;
	return admit_refuse(a, ADMIT_INVALID,
			    "metadata.annotations[" NOTE_CNI_NAME
			    "]: '%.100s' is no name of a network: wants letters, digits, '-', '_' "
			    "and '.', a letter or digit first",
			    v);
}

/* --- annotations that inject --- */

static size_t count_pools(const struct json *block)
{
	const struct json *pools = json_get(block, "ippools");

	return json_len(json_get(pools, "ipv4")) + json_len(json_get(pools, "ipv6"));
}

/* What a container is given to have it; NULL: there is no such thing. */
static const char *resource_key(const char *block)
{
	static const struct {
		const char *block, *key;
	} keys[] = {
		{"macvlan", "rdmaResourceName"}, {"ipvlan", "rdmaResourceName"},
		{"vlan", "rdmaResourceName"},	 {"sriov", "resourceName"},
		{"ibsriov", "resourceName"},	 {"ipoib", "master"},
	};

	for (size_t i = 0; block && i < ARRAY_LEN(keys); i++)
		if (strcmp(keys[i].block, block) == 0)
			return keys[i].key;
	return NULL;
}

static int check_injected(struct admit *a, const struct json *spec, const char *key, bool rdma)
{
	const char *type = admit_text(json_get(spec, "cniType"));
	const char *block = admit_block_of(type), *resource = resource_key(block);
	const struct json *b = block ? json_get(spec, block) : NULL;

	if (!resource)
		return admit_refuse(
			a, ADMIT_FORBIDDEN,
			"metadata.annotations[%s]: cniType %s does not support RDMA "
			"resource or network resource injected: take the annotation out",
			key, type);
	if (!*admit_text(json_get(b, resource))) {
		if (!rdma)
			return 0;
		return admit_refuse(a, ADMIT_REQUIRED,
				    "spec.%s.%s: is empty: the annotation %s wants a resource to "
				    "inject, such as 'spidernet.io/shared_rdma'",
				    block, resource, key);
	}
	if (count_pools(b) == 0 && !json_bool(json_get(spec, "disableIPAM")))
		return admit_refuse(a, ADMIT_REQUIRED,
				    "spec.%s.ippools: is empty: the annotation %s wants at least "
				    "one pool in ipv4 or ipv6",
				    block, key);
	return 0;
}

static int check_inject(struct admit *a, const struct json *spec)
{
	int r = 0;

	for (size_t i = 0; i < ARRAY_LEN(inject_keys) && r == 0; i++)
		if (note(a, inject_keys[i]))
			r = check_injected(a, spec, inject_keys[i], i == 0);
	return r;
}

/* --- free JSON --- */

static int check_custom(struct admit *a, const struct json *spec)
{
	const char *text = admit_text(json_get(spec, "customCNI"));
	auto_json struct json_doc *doc = NULL;
	struct err e = ERR_INIT;

	if (!*text)
		return 0;
	if (strlen(text) > NAD_CONFIG_MAX)
		return admit_refuse(a, ADMIT_INVALID,
				    "spec.customCNI: is %zu bytes long, %d are allowed",
				    strlen(text), NAD_CONFIG_MAX);
	if (json_parse(&doc, span_of(text), NAD_CONFIG_MAX, &e) < 0)
		return admit_refuse(a, ADMIT_FORBIDDEN, "spec.customCNI: is no JSON: %s", e.text);
	if (json_kind(json_root(doc)) != JSON_OBJECT)
		return admit_refuse(a, ADMIT_INVALID,
				    "spec.customCNI: is %s, wants a CNI configuration such as "
				    "{\"cniVersion\":\"0.3.1\",\"type\":\"macvlan\",...}",
				    json_kind_name(json_root(doc)));
	if (!json_get(json_root(doc), "type") && !json_get(json_root(doc), "plugins"))
		admit_warn(a,
			   "spec.customCNI has neither 'type' nor 'plugins': no plugin is named");
	return admit_check_definition(a, json_root(doc), "spec.customCNI");
}

static int check_chained(struct admit *a, const struct json *v, size_t i)
{
	auto_free char *place = xasprintf("spec.chainCNIJsonData[%zu]", i);
	auto_json struct json_doc *doc = NULL;
	struct err e = ERR_INIT;

	if (!json_string(v) || json_parse(&doc, span_of(json_string(v)), SIZE_MAX, &e) < 0)
		return admit_refuse(a, ADMIT_FORBIDDEN,
				    "spec.chainCNIJsonData[%zu]: is no JSON: %s", i,
				    json_string(v) ? e.text : json_kind_name(v));
	if (!*admit_text(json_get(json_root(doc), "type")))
		return admit_refuse(a, ADMIT_FORBIDDEN,
				    "spec.chainCNIJsonData[%zu]: wants an object with the plugin's "
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
		sum += strlen(admit_text(v));
		if (sum > NAD_CONFIG_MAX)
			return admit_refuse(a, ADMIT_INVALID,
					    "spec.chainCNIJsonData[%zu]: the list is longer than "
					    "the %d bytes that are allowed",
					    i, NAD_CONFIG_MAX);
		r = check_chained(a, v, i);
	}
	return r;
}

/* --- blocks --- */

static int check_blocks(struct admit *a, const struct json *spec, const char *type,
			const char *block)
{
	static const char *const all[] = {"macvlan", "ipvlan", "vlan", "sriov",
					  "ibsriov", "ipoib",  "ovs",  "customCNI"};
	const char *own = block ? block : "customCNI";

	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		const struct json *v = json_get(spec, all[i]);

		if (strcmp(all[i], own) == 0 || json_kind(v) == JSON_NULL)
			continue;
		if (strcmp(all[i], "customCNI") == 0 && !*admit_text(v))
			continue;
		return admit_refuse(a, ADMIT_FORBIDDEN,
				    "spec.%s: the cniType %s only supports spec.%s, please remove "
				    "other CNI configs (or is 'cniType: %s' missing?)",
				    all[i], type, own,
				    strcmp(all[i], "ibsriov") == 0     ? "ib-sriov"
				    : strcmp(all[i], "customCNI") == 0 ? "custom"
								       : all[i]);
	}
	return 0;
}

static int check_type(struct admit *a, const struct json *spec, const char *type, const char *block)
{
	static const char *const types[] = {"macvlan",	"ipvlan", "vlan", "sriov",
					    "ib-sriov", "ipoib",  "ovs",  "custom"};
	const char *near = opt_nearest(type, types, ARRAY_LEN(types));

	if (!block && strcmp(type, "custom") != 0)
		return admit_refuse(a, ADMIT_NOT_SUPPORTED,
				    "spec.cniType: '%.60s' is not known%s%s%s: wants macvlan, "
				    "ipvlan, vlan, sriov, ib-sriov, ipoib, ovs or custom",
				    type, near ? "; did you mean '" : "", near ? near : "",
				    near ? "'?" : "");
	if (block && json_kind(json_get(spec, block)) != JSON_OBJECT)
		return admit_refuse(a, ADMIT_REQUIRED,
				    "spec.%s: is missing: cniType %s wants it (no spec.%s "
				    "specified)",
				    block, type, block);
	return check_blocks(a, spec, type, block);
}

static void say_unused(struct admit *a, const struct json *spec, const char *block)
{
	if (block && json_bool(json_get(spec, "disableIPAM")) &&
	    count_pools(json_get(spec, block)) > 0)
		admit_warn(a, "spec.%s.ippools is not used: disableIPAM is true", block);
}

int admit_check_network(struct admit *a)
{
	const struct json *spec = json_get(a->ask->object, "spec");
	const struct json *c = json_get(spec, "coordinator");
	const char *type = json_string(json_get(spec, "cniType")), *block;
	int r;

	if (a->ask->operation == ADMIT_DELETE || admit_is_going(a->ask->object))
		return 0;
	type = type ? type : "custom";
	block = admit_block_of(type);
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
