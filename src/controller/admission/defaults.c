/* SPDX-License-Identifier: Apache-2.0 */
/* Defaults of the kinds that have ranges. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "block/codec.h"
#include "controller/admission/internal.h"
#include "kube/kinds.h"
#include "kube/object.h"
#include "spec/annotations.h"
#include "spec/subnet_annotation.h"

static bool is_new_finalizer(const struct json_tree *list)
{
	for (struct json_tree *f = json_tree_first(list); f; f = json_tree_next(f))
		if (strcmp(json_tree_text(f) ? json_tree_text(f) : "", SPIDERPOOL_FINALIZER) == 0)
			return false;
	return true;
}

static void add_finalizer(struct json_tree *object)
{
	struct json_tree *meta = json_tree_member_object(object, "metadata");

	if (json_tree_kind(json_tree_member(meta, "finalizers")) == JSON_NULL)
		json_tree_put(meta, "finalizers", json_tree_new(JSON_ARRAY));
	if (is_new_finalizer(json_tree_member(meta, "finalizers")))
		json_tree_push_text(json_tree_member(meta, "finalizers"), SPIDERPOOL_FINALIZER);
}

void admit_drop_finalizer(struct json_tree *object)
{
	struct json_tree *meta = json_tree_member(object, "metadata");
	struct json_tree *list = json_tree_member(meta, "finalizers"), *remaining;

	if (!list || is_new_finalizer(list))
		return;
	remaining = json_tree_new(JSON_ARRAY);
	for (struct json_tree *f = json_tree_first(list); f; f = json_tree_next(f))
		if (json_tree_text(f) && strcmp(json_tree_text(f), SPIDERPOOL_FINALIZER) != 0)
			json_tree_push_text(remaining, json_tree_text(f));
	json_tree_put(meta, "finalizers", remaining);
}

static void put_label(struct json_tree *object, const char *key, const char *value)
{
	struct json_tree *meta = json_tree_member_object(object, "metadata");

	json_tree_put_text(json_tree_member_object(meta, "labels"), key, value);
}

/* --- normalized texts --- */

static bool is_readable(const char *range)
{
	struct ip_range r;

	return ip_range_parse(span_of(range), strchr(range, ':') ? 6 : 4, &r, NULL) == 0;
}

/* Removes blanks from an address. A range that is valid keeps its blanks, because every reader
 * ignores blanks around the ends of a range. */
static void squeeze(struct admit *a, struct json_tree *v, const char *place, bool is_range)
{
	const char *text = json_tree_text(v);
	auto_free char *to = NULL;
	char *end;

	if (!text || !strpbrk(text, " \t\n"))
		return;
	to = end = xcalloc(strlen(text) + 1, 1);
	for (const char *p = text; *p; p++)
		if (!strchr(" \t\n", *p))
			*end++ = *p;
	admit_warn(a, "%s: '%.60s' is read as '%.60s'", place, text, to);
	if (!is_range || !is_readable(text))
		json_tree_set_text(v, to);
}

static void squeeze_list(struct admit *a, const struct json_tree *list, const char *key)
{
	size_t i = 0;

	for (struct json_tree *v = json_tree_first(list); v; v = json_tree_next(v)) {
		auto_free char *place = xasprintf("spec.%s[%zu]", key, i++);

		squeeze(a, v, place, true);
	}
}

/* Warns about a route with the key `other`, an alias of `key`. Leaves the route unchanged: readers
 * of routes know both keys. */
static void route_key(struct admit *a, const struct json_tree *route, size_t i, const char *key,
		      const char *other)
{
	const char *text = json_tree_text(json_tree_member(route, other));
	const char *own = json_tree_text(json_tree_member(route, key));

	if (!text)
		return;
	if (own && strcmp(own, text) != 0)
		admit_warn(a, "spec.routes[%zu].%s: '%.60s' is ignored: '%s' is '%.60s'", i, other,
			   text, key, own);
	else
		admit_warn(a, "spec.routes[%zu].%s is read as '%s': use that name", i, other, key);
}

static void fill_routes(struct admit *a, const struct json_tree *spec)
{
	size_t i = 0;

	for (struct json_tree *r = json_tree_first(json_tree_member(spec, "routes")); r;
	     r = json_tree_next(r), i++) {
		route_key(a, r, i, "dst", "to");
		route_key(a, r, i, "gw", "via");
	}
}

/*
 * Warns about a subnet with host bits, such as "172.16.11.0/16". If all addresses are in
 * 172.16.11.0/24, the prefix length is probably a mistake, and the warning suggests that network.
 */
static void warn_host_bits(struct admit *a, const struct ipnet *written, const char *text,
			   const char *network)
{
	struct admit_answer ignored = {0};
	struct admit silent = {a->cache, a->request, &ignored};
	char meant[IP_TEXT_MAX];
	struct pool p = {0};
	struct ipnet net;
	bool found = false;

	if (admit_pool_of(&silent, a->request->name, json_get(a->request->object, "spec"), &p) == 0)
		found = admit_narrower(&p, &net) && ipnet_contains(&net, &written->ip);
	admit_warn(a, "spec.subnet: '%s' has host bits, its network '%s' is used%s%s%s", text,
		   network, found ? ": did you mean " : "", found ? ipnet_str(&net, meant) : "",
		   found ? "?" : "");
	pool_done(&p);
	admit_answer_done(&ignored);
}

/* Sets *ret to the subnet's network; returns false if spec.subnet is missing or invalid. */
static bool fill_subnet(struct admit *a, struct json_tree *spec, struct ipnet *ret)
{
	struct json_tree *v = json_tree_member(spec, "subnet");
	char text[IP_TEXT_MAX];
	struct ipnet net;

	squeeze(a, v, "spec.subnet", false);
	if (!json_tree_text(v) || ipnet_parse(span_of(json_tree_text(v)), &net) < 0)
		return false;
	*ret = ipnet_network(&net);
	if (ipnet_has_host_bits(&net)) {
		ipnet_str(ret, text);
		warn_host_bits(a, &net, json_tree_text(v), text);
	}
	return true;
}

static void fill_version(struct json_tree *spec, uint8_t family)
{
	if (json_tree_kind(json_tree_member(spec, "ipVersion")) == JSON_NULL)
		json_tree_put_int(spec, "ipVersion", family);
}

/*
 * Stores "4" as the number 4, which every client of this API expects. A text that is not an IP
 * version stays, and the schema rejects it.
 */
static void number_version(struct admit *a, struct json_tree *spec)
{
	const char *text = json_tree_text(json_tree_member(spec, "ipVersion"));
	uint8_t family;

	if (!text || ip_family_parse(span_of(text), &family) < 0)
		return;
	admit_warn(a, "spec.ipVersion: '%.60s' is read as the number %u", text, family);
	json_tree_put_int(spec, "ipVersion", family);
}

/* --- address ranges --- */

static bool fill_ranges(struct admit *a, struct json_tree *object, const char *label,
			struct ipnet *net)
{
	struct json_tree *spec = json_tree_member(object, "spec");
	auto_free char *value = NULL;
	char network[IP_TEXT_MAX];

	squeeze_list(a, json_tree_member(spec, "ips"), "ips");
	squeeze_list(a, json_tree_member(spec, "excludeIPs"), "excludeIPs");
	squeeze(a, json_tree_member(spec, "gateway"), "spec.gateway", false);
	fill_routes(a, spec);
	number_version(a, spec);
	if (!fill_subnet(a, spec, net))
		return false;
	fill_version(spec, net->ip.family);
	value = auto_pool_cidr_label(ipnet_str(net, network));
	put_label(object, label, value);
	return true;
}

/* --- a pool's subnet --- */

static bool is_of(const struct json *subnet, const struct ipnet *net)
{
	struct ipnet n;

	if (ipnet_parse(span_of(json_text(json_get(json_get(subnet, "spec"), "subnet"))), &n) < 0)
		return false;
	n = ipnet_network(&n);
	return ipnet_eq(&n, net);
}

static bool has_controller(const struct json_tree *list)
{
	for (struct json_tree *o = json_tree_first(list); o; o = json_tree_next(o))
		if (json_tree_true(json_tree_member(o, "controller")))
			return true;
	return false;
}

static void add_owner(struct json_tree *object, const char *name, const char *uid)
{
	struct json_tree *meta = json_tree_member_object(object, "metadata"), *o;
	char text[BLOCK_LABEL_MAX];

	if (has_controller(json_tree_member(meta, "ownerReferences")))
		return;
	if (json_tree_kind(json_tree_member(meta, "ownerReferences")) == JSON_NULL)
		json_tree_put(meta, "ownerReferences", json_tree_new(JSON_ARRAY));
	o = json_tree_new(JSON_OBJECT);
	json_tree_put_text(o, "apiVersion", SPIDERPOOL_API);
	json_tree_put_text(o, "kind", "SpiderSubnet");
	json_tree_put_text(o, "name", name);
	json_tree_put_text(o, "uid", uid);
	json_tree_put_bool(o, "controller", true);
	json_tree_put_bool(o, "blockOwnerDeletion", true);
	json_tree_push(json_tree_member(meta, "ownerReferences"), o);
	put_label(object, LABEL_OWNER_SUBNET, block_label(name, text));
}

static void inherit(struct json_tree *object, const struct json *subnet)
{
	struct json_tree *spec = json_tree_member(object, "spec");
	const struct json *from = json_get(subnet, "spec");

	if (json_tree_kind(json_tree_member(spec, "gateway")) == JSON_NULL &&
	    *json_text(json_get(from, "gateway")))
		json_tree_put_text(spec, "gateway", json_string(json_get(from, "gateway")));
	if (json_tree_kind(json_tree_member(spec, "routes")) == JSON_NULL &&
	    json_kind(json_get(from, "routes")) == JSON_ARRAY)
		json_tree_put(spec, "routes", json_tree_over(json_get(from, "routes")));
}

/* Sets owner, and missing gateway and routes, from the matching SpiderSubnet whose name sorts
 * first. More than one can match only if an older webhook admitted overlapping subnets. */
static void fill_owner(struct admit *a, struct json_tree *object, const struct ipnet *net)
{
	for (size_t i = 0; i < a->cache->n_subnets; i++) {
		const struct json *subnet = a->cache->subnets[i];

		if (!is_of(subnet, net) || admit_is_going(subnet))
			continue;
		inherit(object, subnet);
		add_owner(object, json_text(kube_meta(subnet, "name")),
			  json_text(kube_meta(subnet, "uid")));
		return;
	}
}

void admit_default_pool(struct admit *a, struct json_tree *object)
{
	struct ipnet net;

	if (admit_is_going(a->request->object))
		return;
	add_finalizer(object);
	if (!fill_ranges(a, object, LABEL_POOL_CIDR, &net))
		return;
	fill_owner(a, object, &net);
}

void admit_default_subnet(struct admit *a, struct json_tree *object)
{
	struct ipnet net;

	admit_drop_finalizer(object);
	if (admit_is_going(a->request->object) || !fill_ranges(a, object, LABEL_SUBNET_CIDR, &net))
		return;
}

/* Sets a missing ipVersion to the family of the first address. */
void admit_default_reserved(struct admit *a, struct json_tree *object)
{
	struct json_tree *spec = json_tree_member(object, "spec"), *first;
	struct ip_range r;

	admit_drop_finalizer(object);
	squeeze_list(a, json_tree_member(spec, "ips"), "ips");
	number_version(a, spec);
	first = json_tree_first(json_tree_member(spec, "ips"));
	if (!json_tree_text(first))
		return;
	for (uint8_t family = 4; family <= 6; family += 2)
		if (ip_range_parse(span_of(json_tree_text(first)), family, &r, NULL) == 0)
			fill_version(spec, family);
}
