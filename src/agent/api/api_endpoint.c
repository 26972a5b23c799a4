/* SPDX-License-Identifier: Apache-2.0 */
/* GET /v1/workloadendpoint: what a pod has, by its name. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/api/api.h"
#include "base/cleanup.h"

static int read_query(struct api_call *c, const char *key, char *ret, size_t size)
{
	int r = http1_query(c->query, key, ret, size);

	if (r > 0 && *ret)
		return 0;
	if (r < 0)
		api_string(c, 400, "the query is malformed");
	else
		api_refuse(c, 422, 602, "%s in query is required", key);
	return -EINVAL;
}

int api_read_endpoint(struct api_call *c)
{
	struct api_endpoint_args *p = c->args;
	int r = read_query(c, "podName", p->pod_name, sizeof(p->pod_name));

	return r < 0 ? r
		     : read_query(c, "podNamespace", p->pod_namespace, sizeof(p->pod_namespace));
}

static void put_address(struct json_out *o, const struct ipam_grant *g)
{
	bool v6 = ip_bits(&g->address.ip) != 32;

	jo_kstr(o, v6 ? "ipv6" : "ipv4", ipnet_str(&g->address, (char[IP_TEXT_MAX]){0}));
	if (g->gateway.family)
		jo_kstr(o, v6 ? "ipv6Gateway" : "ipv4Gateway",
			ip_str(&g->gateway, (char[IP_TEXT_MAX]){0}));
	if (g->pool)
		jo_kstr(o, v6 ? "ipv6Pool" : "ipv4Pool", g->pool->name);
}

/* Its pool's: whether it has the default route as well depended on its network's cleanGateway. */
static void put_routes(struct json_out *o, const char *ifname, const struct pool *p)
{
	for (size_t i = 0; p && i < p->n_routes; i++) {
		jo_obj(o);
		jo_kstr(o, "dst", ipnet_str(&p->routes[i].dst, (char[IP_TEXT_MAX]){0}));
		jo_kstr(o, "gw", ip_str(&p->routes[i].gw, (char[IP_TEXT_MAX]){0}));
		jo_kstr(o, "ifName", ifname);
		jo_end_obj(o);
	}
}

static void put_interface(struct json_out *o, const struct ipam_grant *g, size_t n, size_t first)
{
	const char *name = g[first].ifname;

	jo_obj(o);
	jo_kstr(o, "interface", name);
	for (size_t i = first; i < n; i++)
		if (strcmp(g[i].ifname, name) == 0)
			put_address(o, &g[i]);
	jo_key(o, "routes");
	jo_arr(o);
	for (size_t i = first; i < n; i++)
		if (strcmp(g[i].ifname, name) == 0)
			put_routes(o, name, g[i].pool);
	jo_end_arr(o);
	jo_end_obj(o);
}

static bool seen(const struct ipam_grant *g, size_t at)
{
	for (size_t i = 0; i < at; i++)
		if (strcmp(g[i].ifname, g[at].ifname) == 0)
			return true;
	return false;
}

static void put_endpoint(struct json_out *o, const struct ipam_record *pod, const char *node,
			 const struct ipam_grant *g, size_t n)
{
	jo_obj(o);
	jo_key(o, "interfaces");
	jo_arr(o);
	for (size_t i = 0; i < n; i++)
		if (!seen(g, i))
			put_interface(o, g, n, i);
	jo_end_arr(o);
	jo_kstr(o, "node", node);
	jo_kstr(o, "podName", pod->pod_name);
	jo_kstr(o, "podNamespace", pod->pod_namespace);
	jo_kstr(o, "podUID", pod->pod_uid);
	jo_end_obj(o);
}

/* A pod whose sandbox was made anew may still have the old one's: the latest is the pod's. */
static const struct ipam_record *find_pod(const struct ipam_record *v, size_t n,
					  const struct api_endpoint_args *p)
{
	const struct ipam_record *found = NULL;

	for (size_t i = 0; i < n; i++)
		if (strcmp(v[i].state, "used") == 0 && strcmp(v[i].pod_name, p->pod_name) == 0 &&
		    strcmp(v[i].pod_namespace, p->pod_namespace) == 0 &&
		    (!found || v[i].since_ms > found->since_ms))
			found = &v[i];
	return found;
}

void api_endpoint(struct api_call *c, struct ipam *store)
{
	const struct api_endpoint_args *p = c->args;
	auto_free struct ipam_record *records = NULL;
	const struct ipam_record *pod;
	struct ipam_grant *g = NULL;
	struct err e = ERR_INIT;
	size_t n_records = 0, n = 0;
	auto_free char *none =
		xasprintf("SpiderEndpoint not found for pod %s/%s", p->pod_namespace, p->pod_name);
	auto_buf struct buf b;
	struct json_out o;
	int r = ipam_records(store, &records, &n_records, &e);

	buf_init(&b, API_ANSWER_MAX);
	pod = r < 0 ? NULL : find_pod(records, n_records, p);
	if (pod)
		r = ipam_held(store, pod->container_id, NULL, &g, &n, &e);
	if (r < 0) {
		api_fail_string(c, &e);
		return;
	}
	if (!pod) {
		api_string(c, 404, none);
		return;
	}
	jo_init(&o, &b, 0);
	put_endpoint(&o, pod, ipam_node(store), g, n);
	buf_char(&b, '\n');
	ipam_grants_free(g, n);
	api_json(c, &b);
}
