/* SPDX-License-Identifier: Apache-2.0 */
#include "ipam/pool/pool_spec.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/option.h"
#include "ipam/pool/pool_cluster.h"
#include "wire/json/json.h"

/* This file reads the specs of SpiderIPPool and SpiderReservedIP objects. */

static int pool_spec_wrong(const struct pool_spec *o, struct err *e, const char *fmt, ...)
{
	char text[ERR_TEXT_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return err_kind(e, ERR_CONF, -EINVAL, "%s: %s", o->origin, text);
}

static char *place_of(const struct pool_spec *o, const char *key, size_t index, bool in_list)
{
	if (in_list)
		return xasprintf("%s: spec.%s[%zu]", o->origin, key, index);
	return xasprintf("%s: spec.%s", o->origin, key);
}

static int get_string(const struct pool_spec *o, const char *key, struct pool_text *ret,
		      struct err *e)
{
	const struct json *v = json_get(o->spec, key);

	if (json_kind(v) == JSON_NULL)
		return 0;
	if (json_kind(v) != JSON_STRING)
		return pool_spec_wrong(o, e, "spec.%s is %s, expected a string", key,
				       json_kind_name(v));
	*ret = (struct pool_text){place_of(o, key, 0, false), xstrdup(json_string(v))};
	return 0;
}

static int get_bool(const struct pool_spec *o, const char *key, struct pool_text *ret,
		    struct err *e)
{
	const struct json *v = json_get(o->spec, key);

	if (json_kind(v) == JSON_NULL)
		return 0;
	if (json_kind(v) != JSON_BOOL)
		return pool_spec_wrong(o, e, "spec.%s is %s, expected true or false", key,
				       json_kind_name(v));
	*ret = (struct pool_text){place_of(o, key, 0, false), xstrdup(json_bool(v) ? "yes" : "no")};
	return 0;
}

static int get_version(const struct pool_spec *o, struct pool_text *ret, struct err *e)
{
	const struct json *v = json_get(o->spec, "ipVersion");
	uint8_t family;
	int64_t n;

	if (json_kind(v) == JSON_NULL)
		return 0;
	if (json_string(v) && ip_family_parse(span_of(json_string(v)), &family) == 0)
		n = family;
	else if (json_int(v, &n) < 0 || (n != 4 && n != 6))
		return pool_spec_wrong(o, e, "spec.ipVersion: expected 4 or 6");
	*ret = (struct pool_text){place_of(o, "ipVersion", 0, false), xasprintf("%d", (int)n)};
	return 0;
}

static int get_strings(const struct pool_spec *o, const char *key, struct pool_texts *ret,
		       struct err *e)
{
	const struct json *list = json_get(o->spec, key), *v;
	struct json_walk w = json_walk_start(list);

	if (json_kind(list) != JSON_NULL && json_kind(list) != JSON_ARRAY)
		return pool_spec_wrong(o, e, "spec.%s is %s, expected a list of strings", key,
				       json_kind_name(list));
	for (size_t i = 0; (v = json_walk_next(&w, NULL)); i++) {
		if (json_kind(v) != JSON_STRING)
			return pool_spec_wrong(o, e, "spec.%s[%zu] is %s, expected a string", key,
					       i, json_kind_name(v));
		VEC_PUSH(ret->v, ret->n) =
			(struct pool_text){place_of(o, key, i, true), xstrdup(json_string(v))};
	}
	return 0;
}

/* Returns a route's destination or gateway. Existing manifests also use the keys "to" and "via". */
static const char *route_end(const struct pool_spec *o, const struct json *v, size_t i,
			     const char *key, const char *other)
{
	const char *s = json_string(json_get(v, key));
	auto_free char *place = NULL;

	if (s || !json_string(json_get(v, other)))
		return s;
	if (o->agent_ns) /* the webhook has warned the user, so nothing is logged */
		return json_string(json_get(v, other));
	place = place_of(o, "routes", i, true);
	log_warn("accepting another spelling of a route's key", LOG_S("origin", place),
		 LOG_S("key", other), LOG_S("interpreted_as", key));
	return json_string(json_get(v, other));
}

static int get_routes(const struct pool_spec *o, struct pool_texts *ret, struct err *e)
{
	const struct json *list = json_get(o->spec, "routes"), *v;
	struct json_walk w = json_walk_start(list);

	if (json_kind(list) != JSON_NULL && json_kind(list) != JSON_ARRAY)
		return pool_spec_wrong(o, e, "spec.routes is %s, expected a list of {dst, gw}",
				       json_kind_name(list));
	for (size_t i = 0; (v = json_walk_next(&w, NULL)); i++) {
		const char *dst = route_end(o, v, i, "dst", "to");
		const char *gw = route_end(o, v, i, "gw", "via");

		if (!dst || !gw)
			return pool_spec_wrong(
				o, e, "spec.routes[%zu]: expected the strings 'dst' and 'gw'", i);
		VEC_PUSH(ret->v, ret->n) = (struct pool_text){place_of(o, "routes", i, true),
							      xasprintf("%s via %s", dst, gw)};
	}
	return 0;
}

/* Fields that only a cluster can evaluate must not be ignored: the pool would be usable by all
 * pods. */
static int refuse_selectors(const struct pool_spec *o, struct err *e)
{
	static const struct {
		const char *key, *instead;
	} keys[] = {
		{"nodeAffinity", "use nodeName"},
		{"namespaceAffinity", "use namespaceName"},
		{"podAffinity", "name the pool in the network's configuration"},
		{"multusName", "name the pool in the network's configuration"},
	};

	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		const struct json *v = json_get(o->spec, keys[i].key);

		if (json_kind(v) != JSON_NULL && json_len(v) > 0)
			return pool_spec_wrong(
				o, e,
				"spec.%s needs the API server, which pools of a local directory do "
				"not use: %s",
				keys[i].key, keys[i].instead);
	}
	return 0;
}

static int get_affinity(const struct pool_spec *o, const char *key, struct selector *ret,
			struct err *e)
{
	auto_free char *place = place_of(o, key, 0, false);

	return selector_read(json_get(o->spec, key), place, ret, e);
}

/* A multusName without a namespace refers to the agent's namespace. */
static int get_networks(const struct pool_spec *o, struct pool_texts *ret, struct err *e)
{
	int r = get_strings(o, "multusName", ret, e);

	for (size_t i = 0; i < ret->n && r == 0; i++) {
		struct pool_text *t = &ret->v[i];
		const char *slash = strchr(t->text, '/');
		char *whole;

		if (!*t->text || t->text == slash ||
		    (slash && (!slash[1] || strchr(slash + 1, '/'))))
			return pool_wrong(t, e, "'%.100s' is not 'NAME' or 'NAMESPACE/NAME'",
					  t->text);
		if (slash)
			continue;
		whole = xasprintf("%s/%s", o->agent_ns, t->text);
		free(t->text);
		t->text = whole;
	}
	return r;
}

/* Reads the fields that only a cluster can evaluate. */
static int get_bindings(const struct pool_spec *o, struct pool_draft *d, struct err *e)
{
	int r = get_affinity(o, "nodeAffinity", &d->node_affinity, e);

	if (r == 0)
		r = get_affinity(o, "namespaceAffinity", &d->namespace_affinity, e);
	if (r == 0)
		r = get_affinity(o, "podAffinity", &d->pod_affinity, e);
	return r == 0 ? get_networks(o, &d->networks, e) : r;
}

static int check_keys(const struct pool_spec *o, const char *const *known, size_t n, struct err *e)
{
	struct json_walk w = json_walk_start(o->spec);
	const char *key, *near;

	while (json_walk_next(&w, &key)) {
		size_t i = 0;

		while (i < n && strcmp(known[i], key) != 0)
			i++;
		if (i < n)
			continue;
		near = opt_suggest(key, known, n);
		if (near)
			return pool_spec_wrong(o, e, "spec.%.100s is not known; did you mean '%s'?",
					       key, near);
		return pool_spec_wrong(o, e, "spec.%.100s is not known", key);
	}
	return 0;
}

int pool_spec_read(const struct pool_spec *o, struct pool_draft *d, struct err *e)
{
	/* vlan: Spiderpool 1.0 removed the field, but its samples still set it. */
	static const char *const known[] = {
		"ipVersion", "subnet",	    "ips",	    "excludeIPs",	 "gateway",
		"routes",    "podAffinity", "nodeAffinity", "namespaceAffinity", "namespaceName",
		"nodeName",  "multusName",  "default",	    "disable",		 "vlan",
	};
	/* Fields that define addresses are read first: even if a later field is invalid, the
	 * addresses of the pool are known and are not treated as free. */
	int n = o->agent_ns ? 0 : check_keys(o, known, ARRAY_LEN(known), e);

	d->from_cluster = o->agent_ns != NULL;
	if (n == 0 && !o->agent_ns)
		n = refuse_selectors(o, e);
	if (n == 0)
		n = get_string(o, "subnet", &d->subnet, e);
	if (n == 0)
		n = get_strings(o, "ips", &d->ips, e);
	if (n == 0)
		n = get_strings(o, "excludeIPs", &d->exclude, e);
	if (n == 0)
		n = get_version(o, &d->version, e);
	if (n == 0)
		n = get_string(o, "gateway", &d->gateway, e);
	if (n == 0)
		n = get_routes(o, &d->routes, e);
	if (n == 0)
		n = get_strings(o, "nodeName", &d->nodes, e);
	if (n == 0)
		n = get_strings(o, "namespaceName", &d->namespaces, e);
	if (n == 0)
		n = get_bool(o, "default", &d->is_default, e);
	if (n == 0)
		n = get_bool(o, "disable", &d->disable, e);
	return n == 0 && o->agent_ns ? get_bindings(o, d, e) : n;
}

int pool_spec_reserve(const struct pool_spec *o, struct pool_set *s, struct err *e)
{
	static const char *const known[] = {"ipVersion", "ips"};
	struct pool_texts ips = {0};
	int n = o->agent_ns ? 0 : check_keys(o, known, ARRAY_LEN(known), e);

	if (n == 0)
		n = get_strings(o, "ips", &ips, e);
	if (n == 0)
		n = pool_reserve(s, &ips, e);
	pool_texts_done(&ips);
	return n;
}

/*
 * Pool files in JSON: Spiderpool's objects as printed by `kubectl get -o json`. Keys are
 * case-sensitive, as at the API server. Unknown keys of a spec are refused, because no API server
 * has reported them to the user.
 */

enum { POOL_JSON_MAX = 4 << 20 };

static int add_pool(struct pool_set *s, const struct pool_spec *o, const char *name, struct err *e)
{
	struct pool_draft d = {.name = xstrdup(name), .origin = xstrdup(o->origin)};
	int n = pool_spec_read(o, &d, e);

	if (n == 0)
		return pool_set_add(s, &d, e);
	pool_draft_done(&d);
	return n;
}

static int read_named(struct pool_set *s, const char *file, const struct json *v, const char *kind,
		      const char *name, struct err *e)
{
	auto_free char *where = xasprintf("%s: '%s'", file, name);
	struct pool_spec o = {.origin = where, .spec = json_get(v, "spec")};
	bool is_pool = kind && strcmp(kind, "SpiderIPPool") == 0;

	if (!is_pool && (!kind || strcmp(kind, "SpiderReservedIP") != 0))
		return pool_spec_wrong(
			&o, e,
			"kind '%.60s' is not SpiderIPPool, SpiderReservedIP or a List with items",
			kind ? kind : "");
	if (json_kind(o.spec) != JSON_OBJECT)
		return pool_spec_wrong(&o, e, "spec is %s, expected an object",
				       json_kind_name(o.spec));
	if (!json_string(json_get(json_get(v, "metadata"), "name")))
		return pool_spec_wrong(&o, e, "metadata.name is missing");
	return is_pool ? add_pool(s, &o, name, e) : pool_spec_reserve(&o, s, e);
}

static int read_object(struct pool_set *s, const char *file, const struct json *v, size_t index,
		       bool in_list, struct err *e)
{
	const char *name = json_string(json_get(json_get(v, "metadata"), "name"));
	const char *kind = json_string(json_get(v, "kind"));
	char nameless[32] = "the object";

	if (in_list)
		snprintf(nameless, sizeof(nameless), "items[%zu]", index);
	return read_named(s, file, v, kind, name ? name : nameless, e);
}

int pool_read_json(struct pool_set *s, const char *file, struct span text, struct err *e)
{
	const struct json *root, *items, *v;
	auto_json struct json_doc *doc = NULL;
	int n = json_parse(&doc, text, POOL_JSON_MAX, e);
	struct json_walk w;

	if (n < 0) {
		if (e)
			e->kind = ERR_CONF;
		return err_wrap(e, n, "%s", file);
	}
	root = json_root(doc);
	items = json_get(root, "items");
	if (json_kind(items) != JSON_ARRAY)
		return read_object(s, file, root, 0, false, e);
	w = json_walk_start(items);
	for (size_t i = 0; n == 0 && (v = json_walk_next(&w, NULL)); i++)
		n = read_object(s, file, v, i, true, e);
	return n;
}

/* --- records of addresses, as Spiderpool keeps them in a pool's status: JSON in a string --- */

uint64_t pool_record_key(const char *text)
{
	return xxh64(text, strlen(text));
}

int pool_records_read(const char *text, pool_record_fn fn, void *arg, struct err *e)
{
	auto_json struct json_doc *doc = NULL;
	const struct json *v;
	struct json_walk w;
	const char *key;
	int r;

	if (!text || !*text)
		return 0;
	r = json_parse(&doc, span_of(text), POOL_KUBE_TEXT_MAX, e);
	if (r < 0)
		return r;
	if (json_kind(json_root(doc)) == JSON_NULL)
		return 0;
	if (json_kind(json_root(doc)) != JSON_OBJECT)
		return json_wants(json_root(doc), "the text", "an object", e);
	w = json_walk_start(json_root(doc));
	while ((v = json_walk_next(&w, &key))) {
		struct ipaddr ip;

		if (ip_parse(span_of(key), &ip) < 0)
			return err_kind(e, ERR_CONF, -EINVAL, "'%.60s' is not an address", key);
		fn(arg, &ip, json_get_text(v, "pod"), json_get_text(v, "podUid"));
	}
	return 0;
}
