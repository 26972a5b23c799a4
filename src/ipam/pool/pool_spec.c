/* SPDX-License-Identifier: Apache-2.0 */
/* The fields of a SpiderIPPool's and a SpiderReservedIP's spec. */
#include "ipam/pool/pool_spec.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/opt.h"

int pool_spec_wrong(const struct pool_spec *o, struct err *e, const char *fmt, ...)
{
	char text[ERR_TEXT_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return err_kind(e, ERR_CONF, -EINVAL, "%s: %s", o->where, text);
}

static char *place_of(const struct pool_spec *o, const char *key, size_t index, bool in_list)
{
	if (in_list)
		return xasprintf("%s: spec.%s[%zu]", o->where, key, index);
	return xasprintf("%s: spec.%s", o->where, key);
}

static int get_string(const struct pool_spec *o, const char *key, struct pool_text *ret,
		      struct err *e)
{
	const struct json *v = json_get(o->spec, key);

	if (json_kind(v) == JSON_NULL)
		return 0;
	if (json_kind(v) != JSON_STRING)
		return pool_spec_wrong(o, e, "spec.%s is %s, wants a string", key,
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
		return pool_spec_wrong(o, e, "spec.%s is %s, wants true or false", key,
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
		return pool_spec_wrong(o, e, "spec.ipVersion wants 4 or 6");
	*ret = (struct pool_text){place_of(o, "ipVersion", 0, false), xasprintf("%d", (int)n)};
	return 0;
}

static int get_strings(const struct pool_spec *o, const char *key, struct pool_texts *ret,
		       struct err *e)
{
	const struct json *list = json_get(o->spec, key), *v;
	struct json_walk w = json_walk_start(list);

	if (json_kind(list) != JSON_NULL && json_kind(list) != JSON_ARRAY)
		return pool_spec_wrong(o, e, "spec.%s is %s, wants a list of strings", key,
				       json_kind_name(list));
	for (size_t i = 0; (v = json_walk_next(&w, NULL)); i++) {
		if (json_kind(v) != JSON_STRING)
			return pool_spec_wrong(o, e, "spec.%s[%zu] is %s, wants a string", key, i,
					       json_kind_name(v));
		VEC_PUSH(ret->v, ret->n) =
			(struct pool_text){place_of(o, key, i, true), xstrdup(json_string(v))};
	}
	return 0;
}

/* Manifests carry "to" and "via" as well. */
static const char *route_end(const struct pool_spec *o, const struct json *v, size_t i,
			     const char *key, const char *other)
{
	const char *s = json_string(json_get(v, key));
	auto_free char *place = NULL;

	if (s || !json_string(json_get(v, other)))
		return s;
	if (o->agent_ns) /* the webhook has warned */
		return json_string(json_get(v, other));
	place = place_of(o, "routes", i, true);
	log_warn("a route's key is taken as another", LOG_S("place", place), LOG_S("key", other),
		 LOG_S("taken_as", key));
	return json_string(json_get(v, other));
}

static int get_routes(const struct pool_spec *o, struct pool_texts *ret, struct err *e)
{
	const struct json *list = json_get(o->spec, "routes"), *v;
	struct json_walk w = json_walk_start(list);

	if (json_kind(list) != JSON_NULL && json_kind(list) != JSON_ARRAY)
		return pool_spec_wrong(o, e, "spec.routes is %s, wants a list of {dst, gw}",
				       json_kind_name(list));
	for (size_t i = 0; (v = json_walk_next(&w, NULL)); i++) {
		const char *dst = route_end(o, v, i, "dst", "to");
		const char *gw = route_end(o, v, i, "gw", "via");

		if (!dst || !gw)
			return pool_spec_wrong(
				o, e, "spec.routes[%zu] wants the strings 'dst' and 'gw'", i);
		VEC_PUSH(ret->v, ret->n) = (struct pool_text){place_of(o, "routes", i, true),
							      xasprintf("%s via %s", dst, gw)};
	}
	return 0;
}

/* What only the API server can answer must not be taken for "everybody may use it". */
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
				"spec.%s needs the API server, which a local pool folder does not "
				"ask: %s",
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

/* "name" is of the agent's namespace. */
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

/* What a cluster can answer. */
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
		near = opt_nearest(key, known, n);
		if (near)
			return pool_spec_wrong(o, e, "spec.%.100s is not known; did you mean '%s'?",
					       key, near);
		return pool_spec_wrong(o, e, "spec.%.100s is not known", key);
	}
	return 0;
}

int pool_spec_read(const struct pool_spec *o, struct pool_draft *d, struct err *e)
{
	/* vlan: gone since Spiderpool 1.0, still in its samples. */
	static const char *const known[] = {
		"ipVersion", "subnet",	    "ips",	    "excludeIPs",	 "gateway",
		"routes",    "podAffinity", "nodeAffinity", "namespaceAffinity", "namespaceName",
		"nodeName",  "multusName",  "default",	    "disable",		 "vlan",
	};
	/* First what says which addresses: of a pool that is left out they are not free. */
	int n = o->agent_ns ? 0 : check_keys(o, known, ARRAY_LEN(known), e);

	d->quiet = o->agent_ns != NULL;
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
