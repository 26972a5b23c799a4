/* SPDX-License-Identifier: Apache-2.0 */
/* Routes that a pod requests, and their assignment to its interfaces. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "spec/internal.h"

/* Some manifests use "to" and "via" instead. */
static const char *end_of(const struct annotation *n, const struct json *v, const char *key,
			  const char *other)
{
	const char *s = json_string(json_get_go(v, key));

	if (s || !json_string(json_get_go(v, other)))
		return s ? s : "";
	annotation_log_default(n, other, key);
	return json_string(json_get_go(v, other));
}

static int read_route(const struct annotation *n, const struct json *v, struct pool_route *ret,
		      struct err *e)
{
	const char *dst = end_of(n, v, "dst", "to"), *gw = end_of(n, v, "gw", "via");
	struct ipnet net;
	struct ipaddr via;

	if (ipnet_parse(span_of(dst), &net) < 0 || ip_parse(span_of(gw), &via) < 0 ||
	    net.ip.family != via.family)
		return annotation_error(n, e,
					"invalid route format 'dst: %.60s, gw: %.60s': wants "
					"{\"dst\":\"10.9.0.0/16\",\"gw\":\"10.6.0.1\"}",
					dst, gw);
	*ret = (struct pool_route){ipnet_network(&net), via};
	return 0;
}

static int read_list(const struct annotation *n, const struct json *v, struct pool_route **ret,
		     size_t *count, struct err *e)
{
	struct json_walk w = json_walk_start(v);
	const struct json *x;
	int r = 0;

	if (json_kind(v) == JSON_OBJECT) {
		annotation_log_default(n, "an object", "a list of one");
		return read_route(n, v, &VEC_PUSH(*ret, *count), e);
	}
	if (json_kind(v) != JSON_ARRAY && json_kind(v) != JSON_NULL)
		return annotation_error(n, e, "it is %s, wants a list of {\"dst\", \"gw\"}",
					json_kind_name(v));
	while (r == 0 && (x = json_walk_next(&w, NULL)))
		r = read_route(n, x, &VEC_PUSH(*ret, *count), e);
	return r;
}

int pod_routes_read(const struct pod_facts *p, struct pool_route **ret, size_t *n, struct err *e)
{
	struct annotation annotation = {ANNOTATION_ROUTES,
					labels_get(&p->annotations, ANNOTATION_ROUTES), false,
					p->ns, p->name};
	auto_json struct json_doc *doc = NULL;
	struct pool_route *v = NULL;
	size_t count = 0;
	int r = annotation.value ? annotation_parse(&annotation, &doc, e) : 0;

	if (r == 0 && annotation.value)
		r = read_list(&annotation, json_root(doc), &v, &count, e);
	if (r < 0) {
		free(v);
		return r;
	}
	*ret = v;
	*n = count;
	return 0;
}

static bool has_route(const struct ip_allocation *g, const struct pool_route *r)
{
	for (size_t i = 0; i < g->n_routes; i++)
		if (ipnet_eq(&g->routes[i].dst, &r->dst))
			return true;
	return false;
}

static void put_route(struct ip_allocation *g, const struct pool_route *r)
{
	size_t at = g->n_routes;

	if (has_route(g, r))
		return; /* the route of the pool takes precedence */
	if (at > 0 && ipnet_is_default(&g->routes[at - 1].dst))
		at--;
	(void)VEC_PUSH(g->routes, g->n_routes);
	memmove(&g->routes[at + 1], &g->routes[at], (g->n_routes - 1 - at) * sizeof(*g->routes));
	g->routes[at] = *r;
}

static bool holds(const struct ipnet *v, size_t n, const struct ipaddr *gw)
{
	for (size_t i = 0; i < n; i++)
		if (v[i].ip.family == gw->family && ipnet_contains(&v[i], gw))
			return true;
	return false;
}

size_t pod_routes_give(const struct pool_route *v, size_t n, const struct ipnet *had, size_t n_had,
		       struct ip_allocation *grants, size_t n_grants)
{
	size_t homeless = 0;

	for (size_t i = 0; i < n; i++) {
		size_t k = 0;

		if (holds(had, n_had, &v[i].gw))
			continue;
		while (k < n_grants && !holds(&grants[k].address, 1, &v[i].gw))
			k++;
		if (k < n_grants)
			put_route(&grants[k], &v[i]);
		else
			homeless++;
	}
	return homeless;
}
