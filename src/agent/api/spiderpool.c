/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/api/internal.h"
#include "base/alloc.h"
#include "base/log.h"
#include "spec/annotations.h"

/* Spiderpool's routes, request and response bodies. */

#define FIELD(key, kind, member, ...)                                                              \
	JSON_FIELD(key, kind, struct api_pod_args, member, ##__VA_ARGS__)

static const struct json_field pod_fields[] = {FIELD("cleanGateway", J_BOOL, clean_gateway),
					       FIELD("containerID", J_STR, container_id),
					       FIELD("defaultIPv4IPPool", J_STRS, pools4),
					       FIELD("defaultIPv6IPPool", J_STRS, pools6),
					       FIELD("ifName", J_STR, ifname),
					       FIELD("isReleaseConflictIPs", J_BOOL, conflict),
					       FIELD("matchMasterSubnet", J_BOOL, match_subnet),
					       FIELD("netNamespace", J_STR, netns),
					       FIELD("podName", J_STR, pod_name),
					       FIELD("podNamespace", J_STR, pod_namespace),
					       FIELD("podUID", J_STR, pod_uid),
					       {0}};
static const struct json_table pod_table = {pod_fields, JSON_GO, 0};

/* Checks the fields in the alphabetical order of their names and reports the first missing one,
 * like go-openapi. */
static int read_pod(struct api_call *c, const char *name, bool wants_ifname, bool wants_netns)
{
	const struct api_pod_args *p = c->args;
	int r = api_body(c, name, &pod_table);

	if (r == 0)
		r = api_not_empty(c, "containerID", p->container_id);
	if (r == 0 && wants_ifname)
		r = api_not_empty(c, "ifName", p->ifname);
	if (r == 0 && wants_netns)
		r = api_required(c, "netNamespace", p->netns);
	if (r == 0)
		r = api_required(c, "podName", p->pod_name);
	if (r == 0)
		r = api_required(c, "podNamespace", p->pod_namespace);
	if (r == 0)
		r = api_required(c, "podUID", p->pod_uid);
	return r;
}

bool api_pod_of_add(const struct api_call *c, struct api_pod *ret)
{
	const struct api_pod_args *p = c->args;

	*ret = (struct api_pod){p->pod_namespace, p->pod_name, p->pod_uid};
	return true;
}

int api_read_add(struct api_call *c)
{
	return read_pod(c, "ipam-add-args", true, true);
}

int api_read_del(struct api_call *c)
{
	return read_pod(c, "ipam-del-args", true, false);
}

int api_read_batch_del(struct api_call *c)
{
	return read_pod(c, "ipam-batch-del-args", false, false);
}

/* --- routes ipam/ip and ipam/ips --- */

static const char *last_text(const struct ipaddr *a, char buf[static IP_TEXT_MAX])
{
	return a->family ? ip_str(a, buf) : NULL;
}

static void put_ip(struct json_out *o, const struct ip_allocation *g, const struct pool_set *pools)
{
	char text[IP_TEXT_MAX];
	const char *gateway = last_text(&g->gateway, text);

	jo_obj(o);
	jo_kstr(o, "address", ipnet_str(&g->address, (char[IP_TEXT_MAX]){0}));
	if (pools->gateway_detection)
		jo_kbool(o, "enableGatewayDetection", true);
	if (pools->conflict_detection)
		jo_kbool(o, "enableIPConflictDetection", true);
	if (gateway)
		jo_kstr(o, "gateway", gateway);
	if (g->pool)
		jo_kstr(o, "ipPool", g->pool->name);
	jo_kstr(o, "nic", g->ifname);
	jo_kint(o, "version", ip_bits(&g->address.ip) == 32 ? 4 : 6);
	jo_end_obj(o);
}

static void put_routes(struct json_out *o, const struct ip_allocation *g)
{
	for (size_t i = 0; i < g->n_routes; i++) {
		jo_obj(o);
		jo_kstr(o, "dst", ipnet_str(&g->routes[i].dst, (char[IP_TEXT_MAX]){0}));
		jo_kstr(o, "gw", ip_str(&g->routes[i].gw, (char[IP_TEXT_MAX]){0}));
		jo_kstr(o, "ifName", g->ifname);
		jo_end_obj(o);
	}
}

void api_put_allocations(struct json_out *o, const struct ip_allocation *g, size_t n,
			 size_t request, const struct pool_set *pools)
{
	jo_key(o, "ips");
	jo_arr(o);
	for (size_t i = 0; i < n; i++)
		if (g[i].request == request)
			put_ip(o, &g[i], pools);
	jo_end_arr(o);
	jo_key(o, "routes");
	jo_arr(o);
	for (size_t i = 0; i < n; i++)
		if (g[i].request == request)
			put_routes(o, &g[i]);
	jo_end_arr(o);
}

static void log_failure(const struct api_pod_args *p, const char *what, const struct err *e)
{
	log_limited(LOG_WARN, 1, what, LOG_S("container_id", p->container_id),
		    LOG_S("ifname", p->ifname ? p->ifname : ""), LOG_S("error", e->text));
}

/* Refuses matchMasterSubnet: Spiderpool's agent finds the master (for a VF its PF) from the pod's
 * network namespace; this agent gets the master's addresses only in requests to pods/plan. */
static int no_match(const struct api_pod_args *p, struct err *e)
{
	if (!p->match_subnet)
		return 0;
	return err_kind(e, ERR_UNSUPPORTED, -EOPNOTSUPP,
			"matchMasterSubnet: the request has no addresses of the master: use "
			"unirail's spiderpool plugin, which sends them");
}

static void read_request(struct api_call *c)
{
	const struct api_pod_args *p = c->args;

	c->requests.n = 1;
	c->requests.body = xcalloc(1, sizeof(*c->requests.body));
	c->requests.body[0] = (struct ip_request){
		.owner = {.container_id = p->container_id,
			  .ifname = p->ifname,
			  .pod_namespace = p->pod_namespace,
			  .pod_name = p->pod_name,
			  .pod_uid = c->has_pod ? c->pod.uid : p->pod_uid,
			  .netns = p->netns},
		.pools4 = p->pools4.v,
		.n_pools4 = p->pools4.n,
		.pools6 = p->pools6.v,
		.n_pools6 = p->pools6.n,
		.clean_gateway = p->clean_gateway,
	};
}

void api_add(struct api_call *c, struct ipam *store)
{
	const struct api_pod_args *p = c->args;
	struct ip_allocation *g = NULL;
	struct err e = ERR_INIT;
	auto_buf struct buf b;
	struct json_out o;
	size_t n = 0;
	int r = no_match(p, &e);

	buf_init(&b, API_ANSWER_MAX);
	if (!c->requests.n)
		read_request(c);
	if (r == 0)
		r = c->api->backend->allocate(c, store, &g, &n, &e);
	if (r == API_PENDING)
		return;
	if (r < 0) {
		log_failure(p, "no address allocated", &e);
		api_call_fail(c, &e);
		return;
	}
	jo_init(&o, &b, 0);
	jo_obj(&o);
	api_put_allocations(&o, g, n, 0, ipam_pools(store));
	jo_end_obj(&o);
	buf_char(&b, '\n');
	ip_allocations_free(g, n);
	api_json(c, &b);
}

static void release(struct api_call *c, struct ipam *store, const char *ifname)
{
	const struct api_pod_args *p = c->args;
	struct err e = ERR_INIT;

	if (ipam_release(store, p->container_id, ifname, &e) < 0) {
		log_failure(p, "nothing released", &e);
		api_call_fail(c, &e);
		return;
	}
	api_ok(c);
}

void api_del(struct api_call *c, struct ipam *store)
{
	release(c, store, ((struct api_pod_args *)c->args)->ifname);
}

void api_batch_del(struct api_call *c, struct ipam *store)
{
	const struct api_pod_args *p = c->args;

	if (p->conflict && c->api->conf.no_release_conflict_ips)
		api_string(c, 521, "forbid releasing IPs for stateless workload");
	else if (p->conflict && ipam_holds_sticky(store, p->container_id))
		api_string(c, 522, "forbid releasing IPs for stateful workload ");
	else
		release(c, store, NULL);
}

/* --- route coordinator/config --- */

static const struct json_field coordinator_fields[] = {
	JSON_FIELD("podName", J_STR, struct api_coordinator_args, pod_name),
	JSON_FIELD("podNamespace", J_STR, struct api_coordinator_args, pod_namespace),
	{0}};
static const struct json_table coordinator_table = {coordinator_fields, JSON_GO, 0};

int api_read_coordinator(struct api_call *c)
{
	return api_body(c, "get-coordinator-config", &coordinator_table);
}

/* Writes the settings of the SpiderCoordinator object; if it does not exist, those of section *
 * [coordinator] of the settings file. Pod and service CIDRs that the object lacks are taken from
 * * that section. */
void ipam_api_put_settings(const struct ipam_api *a, const struct pod_facts *pod,
			   struct json_out *out)
{
	const struct coordinator_settings *o =
		a->conf.cluster ? cluster_coordinator(a->conf.cluster) : NULL;
	struct coordinator_settings s = o ? *o : a->settings;
	const char *nic;

	if (s.overlay.n == 0)
		s.overlay = a->settings.overlay;
	if (s.service.n == 0)
		s.service = a->settings.service;
	nic = pod ? labels_get(&pod->annotations, ANNOTATION_DEFAULT_ROUTE) : NULL;
	if (nic)
		s.default_nic = (char *)nic;
	coordinator_settings_json(&s, out);
}

static const struct pod_facts *requested_pod(const struct api_call *c)
{
	const struct api_coordinator_args *p = c->args;

	return c->api->conf.cluster && p->pod_namespace && p->pod_name
		       ? cluster_pod(c->api->conf.cluster, p->pod_namespace, p->pod_name)
		       : NULL;
}

void api_coordinator(struct api_call *c)
{
	auto_buf struct buf b;
	struct json_out o;

	buf_init(&b, API_ANSWER_MAX);
	jo_init(&o, &b, 0);
	ipam_api_put_settings(c->api, requested_pod(c), &o);
	buf_char(&b, '\n');
	api_json(c, &b);
}

/* --- GET /v1/workloadendpoint: the addresses of a pod, by its name --- */

static int read_query(struct api_call *c, const char *key, char *ret, size_t size)
{
	int r = http1_query(c->query, key, ret, size);

	if (r > 0 && *ret)
		return 0;
	if (r < 0)
		api_string(c, 400, "the query is malformed, or a value in it is too long");
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

static void put_address(struct json_out *o, const struct ip_allocation *g)
{
	bool v6 = ip_bits(&g->address.ip) != 32;

	jo_kstr(o, v6 ? "ipv6" : "ipv4", ipnet_str(&g->address, (char[IP_TEXT_MAX]){0}));
	if (g->gateway.family)
		jo_kstr(o, v6 ? "ipv6Gateway" : "ipv4Gateway",
			ip_str(&g->gateway, (char[IP_TEXT_MAX]){0}));
	if (g->pool)
		jo_kstr(o, v6 ? "ipv6Pool" : "ipv4Pool", g->pool->name);
}

/* Writes the routes in the pool's spec. Writes no default route through the pool's gateway:
 * whether the pod has that route depends on the network's cleanGateway. */
static void api_endpoint_put_routes(struct json_out *o, const char *ifname, const struct pool *p)
{
	for (size_t i = 0; p && i < p->n_routes; i++) {
		jo_obj(o);
		jo_kstr(o, "dst", ipnet_str(&p->routes[i].dst, (char[IP_TEXT_MAX]){0}));
		jo_kstr(o, "gw", ip_str(&p->routes[i].gw, (char[IP_TEXT_MAX]){0}));
		jo_kstr(o, "ifName", ifname);
		jo_end_obj(o);
	}
}

static void put_interface(struct json_out *o, const struct ip_allocation *g, size_t n, size_t first)
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
			api_endpoint_put_routes(o, name, g[i].pool);
	jo_end_arr(o);
	jo_end_obj(o);
}

static bool seen(const struct ip_allocation *g, size_t at)
{
	for (size_t i = 0; i < at; i++)
		if (strcmp(g[i].ifname, g[at].ifname) == 0)
			return true;
	return false;
}

static void put_endpoint(struct json_out *o, const struct ipam_record *pod, const char *node,
			 const struct ip_allocation *g, size_t n)
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

/* Finds the latest record of the pod: after the pod's sandbox was recreated, the store may still
 * have a record of the previous sandbox. */
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
	struct ip_allocation *g = NULL;
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
	ip_allocations_free(g, n);
	api_json(c, &b);
}
