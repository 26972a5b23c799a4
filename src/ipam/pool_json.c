/* SPDX-License-Identifier: Apache-2.0 */
/* Pool files in JSON: the objects that Spiderpool's users have, as `kubectl get -o json` gives
 * them. Key names are the API server's: exact. Unknown ones are refused, since here is no schema
 * that would have told the user. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/opt.h"
#include "ipam/pool_draft.h"
#include "wire/json.h"

enum { POOL_JSON_MAX = 4 << 20, PLACE_MAX = 600 };

/* The object at hand. */
struct obj {
	const char *file, *name;
	const struct json *spec;
};

static int wrong(const struct obj *o, struct err *e, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static int wrong(const struct obj *o, struct err *e, const char *fmt, ...)
{
	char text[ERR_TEXT_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return err_kind(e, ERR_CONF, -EINVAL, "%s: '%s': %s", o->file, o->name, text);
}

static char *place_of(const struct obj *o, const char *key, size_t index, bool in_list)
{
	if (in_list)
		return xasprintf("%s: '%s': spec.%s[%zu]", o->file, o->name, key, index);
	return xasprintf("%s: '%s': spec.%s", o->file, o->name, key);
}

static int get_string(const struct obj *o, const char *key, struct pool_text *ret, struct err *e)
{
	const struct json *v = json_get(o->spec, key);

	if (json_kind(v) == JSON_NULL)
		return 0;
	if (json_kind(v) != JSON_STRING)
		return wrong(o, e, "spec.%s is %s, wants a string", key, json_kind_name(v));
	*ret = (struct pool_text){place_of(o, key, 0, false), xstrdup(json_string(v))};
	return 0;
}

static int get_bool(const struct obj *o, const char *key, struct pool_text *ret, struct err *e)
{
	const struct json *v = json_get(o->spec, key);

	if (json_kind(v) == JSON_NULL)
		return 0;
	if (json_kind(v) != JSON_BOOL)
		return wrong(o, e, "spec.%s is %s, wants true or false", key, json_kind_name(v));
	*ret = (struct pool_text){place_of(o, key, 0, false), xstrdup(json_bool(v) ? "yes" : "no")};
	return 0;
}

static int get_version(const struct obj *o, struct pool_text *ret, struct err *e)
{
	const struct json *v = json_get(o->spec, "ipVersion");
	int64_t n;

	if (json_kind(v) == JSON_NULL)
		return 0;
	if (json_int(v, &n) < 0 || (n != 4 && n != 6))
		return wrong(o, e, "spec.ipVersion wants 4 or 6");
	*ret = (struct pool_text){place_of(o, "ipVersion", 0, false), xasprintf("%d", (int)n)};
	return 0;
}

static int get_strings(const struct obj *o, const char *key, struct pool_texts *ret, struct err *e)
{
	const struct json *list = json_get(o->spec, key), *v;
	struct json_walk w = json_walk_start(list);

	if (json_kind(list) != JSON_NULL && json_kind(list) != JSON_ARRAY)
		return wrong(o, e, "spec.%s is %s, wants a list of strings", key,
			     json_kind_name(list));
	for (size_t i = 0; (v = json_walk_next(&w, NULL)); i++) {
		if (json_kind(v) != JSON_STRING)
			return wrong(o, e, "spec.%s[%zu] is %s, wants a string", key, i,
				     json_kind_name(v));
		VEC_PUSH(ret->v, ret->n) =
			(struct pool_text){place_of(o, key, i, true), xstrdup(json_string(v))};
	}
	return 0;
}

/* Manifests carry "to" and "via" as well. */
static const char *route_end(const struct obj *o, const struct json *v, size_t i, const char *key,
			     const char *other)
{
	const char *s = json_string(json_get(v, key));
	auto_free char *place = NULL;

	if (s || !json_string(json_get(v, other)))
		return s;
	place = place_of(o, "routes", i, true);
	log_warn("a route's key is taken as another", LOG_S("place", place), LOG_S("key", other),
		 LOG_S("taken_as", key));
	return json_string(json_get(v, other));
}

static int get_routes(const struct obj *o, struct pool_texts *ret, struct err *e)
{
	const struct json *list = json_get(o->spec, "routes"), *v;
	struct json_walk w = json_walk_start(list);

	if (json_kind(list) != JSON_NULL && json_kind(list) != JSON_ARRAY)
		return wrong(o, e, "spec.routes is %s, wants a list of {dst, gw}",
			     json_kind_name(list));
	for (size_t i = 0; (v = json_walk_next(&w, NULL)); i++) {
		const char *dst = route_end(o, v, i, "dst", "to");
		const char *gw = route_end(o, v, i, "gw", "via");

		if (!dst || !gw)
			return wrong(o, e, "spec.routes[%zu] wants the strings 'dst' and 'gw'", i);
		VEC_PUSH(ret->v, ret->n) = (struct pool_text){place_of(o, "routes", i, true),
							      xasprintf("%s via %s", dst, gw)};
	}
	return 0;
}

/* What only the API server can answer must not be taken for "everybody may use it". */
static int refuse_selectors(const struct obj *o, struct err *e)
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
			return wrong(
				o, e,
				"spec.%s needs the API server, which a local pool folder does not "
				"ask: %s",
				keys[i].key, keys[i].instead);
	}
	return 0;
}

static int check_keys(const struct obj *o, const char *const *known, size_t n, struct err *e)
{
	struct json_walk w = json_walk_start(o->spec);
	const char *key, *near;

	while (json_walk_next(&w, &key)) {
		size_t i = 0;

		while (i < n && strcmp(known[i], key) != 0)
			i++;
		if (i < n)
			continue;
		near = opt_nearest(key, known, n);
		if (near)
			return wrong(o, e, "spec.%.100s is not known; did you mean '%s'?", key,
				     near);
		return wrong(o, e, "spec.%.100s is not known", key);
	}
	return 0;
}

static int read_pool(const struct obj *o, struct pool_draft *d, struct err *e)
{
	/* vlan: gone since Spiderpool 1.0, still in its samples. */
	static const char *const known[] = {
		"ipVersion", "subnet",	    "ips",	    "excludeIPs",	 "gateway",
		"routes",    "podAffinity", "nodeAffinity", "namespaceAffinity", "namespaceName",
		"nodeName",  "multusName",  "default",	    "disable",		 "vlan",
	};
	int n = check_keys(o, known, ARRAY_LEN(known), e);

	if (n == 0)
		n = refuse_selectors(o, e);
	if (n == 0)
		n = get_version(o, &d->version, e);
	if (n == 0)
		n = get_string(o, "subnet", &d->subnet, e);
	if (n == 0)
		n = get_string(o, "gateway", &d->gateway, e);
	if (n == 0)
		n = get_strings(o, "ips", &d->ips, e);
	if (n == 0)
		n = get_strings(o, "excludeIPs", &d->exclude, e);
	if (n == 0)
		n = get_routes(o, &d->routes, e);
	if (n == 0)
		n = get_strings(o, "nodeName", &d->nodes, e);
	if (n == 0)
		n = get_strings(o, "namespaceName", &d->namespaces, e);
	if (n == 0)
		n = get_bool(o, "default", &d->is_default, e);
	return n == 0 ? get_bool(o, "disable", &d->disable, e) : n;
}

static int add_pool(struct pool_set *s, const struct obj *o, struct err *e)
{
	struct pool_draft d = {.name = xstrdup(o->name)};
	int n;

	d.where = xasprintf("%s: '%s'", o->file, o->name);
	n = read_pool(o, &d, e);
	if (n == 0)
		return pool_set_add(s, &d, e);
	pool_draft_done(&d);
	return n;
}

static int add_reserved(struct pool_set *s, const struct obj *o, struct err *e)
{
	static const char *const known[] = {"ipVersion", "ips"};
	struct pool_texts ips = {0};
	int n = check_keys(o, known, ARRAY_LEN(known), e);

	if (n == 0)
		n = get_strings(o, "ips", &ips, e);
	if (n == 0)
		n = pool_reserve(s, &ips, e);
	pool_texts_done(&ips);
	return n;
}

static int read_object(struct pool_set *s, const char *file, const struct json *v, size_t index,
		       bool in_list, struct err *e)
{
	const char *kind = json_string(json_get(v, "kind"));
	struct obj o = {.file = file, .spec = json_get(v, "spec")};
	char nameless[32] = "the object";

	if (in_list)
		snprintf(nameless, sizeof(nameless), "items[%zu]", index);
	o.name = nameless;
	if (!kind || (strcmp(kind, "SpiderIPPool") != 0 && strcmp(kind, "SpiderReservedIP") != 0))
		return wrong(&o, e, "kind '%.60s' is not SpiderIPPool, SpiderReservedIP or a List",
			     kind ? kind : "");
	if (json_kind(o.spec) != JSON_OBJECT)
		return wrong(&o, e, "spec is %s, wants an object", json_kind_name(o.spec));
	if (!json_string(json_get(json_get(v, "metadata"), "name")))
		return wrong(&o, e, "metadata.name is missing");
	o.name = json_string(json_get(json_get(v, "metadata"), "name"));
	return strcmp(kind, "SpiderIPPool") == 0 ? add_pool(s, &o, e) : add_reserved(s, &o, e);
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
