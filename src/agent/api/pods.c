/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/api/internal.h"
#include "agent/network/network.h"
#include "base/alloc.h"
#include "base/log.h"

/*
 * unirail's routes that handle all rails of a pod together: request body, response body.
 *
 * plan     {"containerID", "netNamespace", "podNamespace", "podName", "podUID", "dryRun",
 *           "rails": [{"ifName", "network", "nad", "defaultIPv4IPPool": [], "defaultIPv6IPPool":
 *           [],
 *                      "cleanGateway", "matchMasterSubnet", "master", "masterAddresses": [],
 *                      "sticky", "addresses": []}]}
 *          {"rails": [{"ifName", "ips": [...], "routes": [...], "newlyAllocated",
 *                      "enableIPConflictDetection", "enableGatewayDetection"}]}
 *          nad: "ns/name" of the NetworkAttachmentDefinition of the network;
 *          ips and routes as in IpamAddResponse; newlyAllocated: some addresses are new.
 *          dryRun: {"rails": []} if all addresses could be allocated.
 * report   {"containerID", "conflicts": [{"address", "mac"}]}      {"quarantined": N}
 * check    {"containerID", "rails": ["net1"]}                      {"rails": [as in plan]}
 * release  {"containerID", "rails": ["net1"]}                      {"released": N}
 *          without rails: all addresses of the container
 * gc       {"network", "valid": [{"containerID", "ifName"}]}       {"released": N}
 */

enum { RAILS_MAX = 64, VALID_MAX = 16384 };

int api_rails_count(struct api_call *c, size_t n)
{
	if (n > 0 && n <= RAILS_MAX)
		return 0;
	api_refuse(c, 422, 616, "rails in body should have 1 to %d items", RAILS_MAX);
	return -EINVAL;
}

static void put_count(struct api_call *c, const char *key, int64_t n)
{
	auto_buf struct buf b;
	struct json_out o;

	buf_init(&b, API_ANSWER_MAX);
	jo_init(&o, &b, 0);
	jo_obj(&o);
	jo_kint(&o, key, n);
	jo_end_obj(&o);
	api_json(c, &b);
}

/* --- route pods/report --- */

static const struct json_field conflict_fields[] = {
	JSON_FIELD("address", J_IP, struct ipam_conflict, address, .required = true),
	JSON_FIELD("mac", J_MAC, struct ipam_conflict, other),
	{0}};
static const struct json_table conflict_table = {conflict_fields, JSON_CLOSED,
						 sizeof(struct ipam_conflict)};
static const struct json_field report_fields[] = {
	JSON_FIELD("containerID", J_STR, struct api_report_args, container_id),
	JSON_FIELD("conflicts", J_OBJS, struct api_report_args, conflicts, .sub = &conflict_table),
	JSON_FIELD("podNamespace", J_STR, struct api_report_args, pod_namespace),
	JSON_FIELD("podName", J_STR, struct api_report_args, pod_name),
	JSON_FIELD("podUID", J_STR, struct api_report_args, pod_uid),
	JSON_FIELD("networkStatus", J_STR, struct api_report_args, status),
	JSON_FIELD("message", J_STR, struct api_report_args, message),
	{0}};
static const struct json_table report_table = {report_fields, JSON_CLOSED, 0};

int api_read_report(struct api_call *c)
{
	int r = api_body(c, "report", &report_table);

	return r < 0 ? r
		     : api_not_empty(c, "containerID",
				     ((struct api_report_args *)c->args)->container_id);
}

/* If an address is reported more than once, a report with a MAC comes first, and of those the one
 * with the lowest MAC. */
static int by_address(const void *a, const void *b)
{
	const struct ipam_conflict *x = a, *y = b;
	int r = ip_cmp(&x->address, &y->address);

	if (r == 0 && !x->other.len != !y->other.len)
		return x->other.len ? -1 : 1;
	return r ? r : mac_cmp(&x->other, &y->other);
}

/* Returns whether the container still has the address. A late report must not take the address from
 * its present owner. */
static bool holds(const struct ipam *store, const char *container_id, const struct ipaddr *a)
{
	const struct lease *l = lease_find(ipam_leases(store), a);

	return l && l->state == LEASE_USED && lease_is(l, container_id, NULL);
}

static void api_networks_report(struct api_call *c, const struct api_report_args *p);

/* Quarantines each reported address that the container still has, once, with the MAC of the
 * report that by_address() puts first. All are in one commit of the journal, because the caller
 * chooses the length of the list. */
void api_report(struct api_call *c, struct ipam *store)
{
	const struct api_report_args *p = c->args;
	struct ipam_conflict *v = p->conflicts.v;
	struct err e = ERR_INIT;
	size_t count = 0;
	int r;

	api_networks_report(c, p);
	if (p->conflicts.n > 0)
		qsort(v, p->conflicts.n, sizeof(*v), by_address);
	for (size_t i = 0; i < p->conflicts.n; i++) {
		if ((count > 0 && ip_eq(&v[count - 1].address, &v[i].address)) ||
		    !holds(store, p->container_id, &v[i].address))
			continue;
		log_warn("quarantining an address in conflict",
			 LOG_S("container_id", p->container_id),
			 LOG_S("ip", ip_str(&v[i].address, (char[IP_TEXT_MAX]){0})),
			 LOG_S("conflict_mac", mac_str(&v[i].other, (char[MAC_TEXT_MAX]){0})));
		v[count++] = v[i];
	}
	r = ipam_quarantine_many(store, v, count, &e);
	if (r < 0)
		api_fail_object(c, &e);
	else
		put_count(c, "quarantined", (int64_t)count);
}

/* --- routes pods/check and pods/release --- */

static const struct json_field release_fields[] = {
	JSON_FIELD("containerID", J_STR, struct api_release_args, container_id),
	JSON_FIELD("rails", J_STRS, struct api_release_args, rails,
		   .has = offsetof(struct api_release_args, has_rails)),
	{0}};
static const struct json_table release_table = {release_fields, JSON_CLOSED, 0};

int api_read_release(struct api_call *c)
{
	const struct api_release_args *p = c->args;
	int r = api_body(c, "release", &release_table);

	if (r == 0)
		r = api_not_empty(c, "containerID", p->container_id);
	if (r == 0 && p->has_rails)
		r = api_rails_count(c, p->rails.n);
	for (size_t i = 0; i < p->rails.n && r == 0; i++)
		r = api_not_empty(c, "rails", p->rails.v[i]);
	return r;
}

void api_release(struct api_call *c, struct ipam *store)
{
	const struct api_release_args *p = c->args;
	size_t n = p->has_rails ? p->rails.n : 1;
	auto_free struct ipam_valid *v = xcalloc(n, sizeof(*v));
	struct err e = ERR_INIT;
	int r;

	for (size_t i = 0; i < n; i++)
		v[i] = (struct ipam_valid){p->container_id, p->has_rails ? p->rails.v[i] : NULL};
	r = ipam_release_many(store, v, n, &e);
	if (r < 0) {
		log_limited(LOG_WARN, 1, "nothing released", LOG_S("container_id", p->container_id),
			    LOG_S("error", e.text));
		api_call_fail(c, &e);
		return;
	}
	put_count(c, "released", r);
}

static bool is_listed(const struct api_release_args *p, const char *ifname)
{
	for (size_t i = 0; i < p->rails.n; i++)
		if (strcmp(p->rails.v[i], ifname) == 0)
			return true;
	return !p->has_rails;
}

/* Sorts allocations by interface, and those of one interface by `request`, here the index of the
 * allocation. */
static int by_interface(const void *a, const void *b)
{
	const struct ip_allocation *x = a, *y = b;
	int r = strcmp(x->ifname, y->ifname);

	return r ? r : (x->request > y->request) - (x->request < y->request);
}

/* An allocation and its former index, for a stable sort by `request`. */
struct ordered {
	struct ip_allocation allocation;
	size_t was;
};

static int by_request(const void *a, const void *b)
{
	const struct ordered *x = a, *y = b;

	if (x->allocation.request != y->allocation.request)
		return x->allocation.request < y->allocation.request ? -1 : 1;
	return (x->was > y->was) - (x->was < y->was);
}

/* Moves the allocations of each interface together; their `request` becomes the index of the
 * interface's first one. */
static void group(struct ip_allocation *g, size_t n)
{
	auto_free struct ordered *v = xcalloc(n + 1, sizeof(*v));

	for (size_t i = 0; i < n; i++)
		g[i].request = i;
	if (n > 0)
		qsort(g, n, sizeof(*g), by_interface);
	for (size_t i = 0; i < n; i++) {
		v[i] = (struct ordered){g[i], g[i].request};
		if (i > 0 && strcmp(g[i].ifname, g[i - 1].ifname) == 0)
			v[i].allocation.request = v[i - 1].allocation.request;
	}
	if (n > 0)
		qsort(v, n, sizeof(*v), by_request);
	for (size_t i = 0; i < n; i++)
		g[i] = v[i].allocation;
}

/* Returns how many allocations from g[0] on are of the same interface. */
static size_t run_of(const struct ip_allocation *g, size_t n)
{
	size_t k = 1;

	while (k < n && g[k].request == g[0].request)
		k++;
	return k;
}

void api_check(struct api_call *c, struct ipam *store)
{
	const struct api_release_args *p = c->args;
	struct ip_allocation *g = NULL;
	struct err e = ERR_INIT;
	auto_buf struct buf b;
	struct json_out o;
	size_t n = 0;

	buf_init(&b, API_ANSWER_MAX);
	if (ipam_held(store, p->container_id, NULL, &g, &n, &e) < 0) {
		api_fail_object(c, &e);
		return;
	}
	group(g, n);
	jo_init(&o, &b, 0);
	jo_obj(&o);
	jo_key(&o, "rails");
	jo_arr(&o);
	for (size_t i = 0, k; i < n; i += k) {
		k = run_of(&g[i], n - i);
		if (is_listed(p, g[i].ifname))
			api_put_rail(&o, g[i].ifname, &g[i], k, g[i].request, ipam_pools(store));
	}
	jo_end_arr(&o);
	jo_end_obj(&o);
	ip_allocations_free(g, n);
	api_json(c, &b);
}

/* --- route networks/gc --- */

static const struct json_field valid_fields[] = {
	JSON_FIELD("containerID", J_STR, struct ipam_valid, container_id, .required = true),
	JSON_FIELD("ifName", J_STR, struct ipam_valid, ifname, .required = true),
	{0}};
static const struct json_table valid_table = {valid_fields, JSON_CLOSED, sizeof(struct ipam_valid)};
static const struct json_field gc_fields[] = {
	JSON_FIELD("network", J_STR, struct api_gc_args, network),
	JSON_FIELD("valid", J_OBJS, struct api_gc_args, valid,
		   .has = offsetof(struct api_gc_args, has_valid), .sub = &valid_table),
	{0}};
static const struct json_table gc_table = {gc_fields, JSON_CLOSED, 0};

/* Refuses a request without `valid`: it would count as an empty list, which releases all
 * addresses of the network. */
int api_read_gc(struct api_call *c)
{
	const struct api_gc_args *p = c->args;
	int r = api_body(c, "gc", &gc_table);

	if (r == 0)
		r = api_not_empty(c, "network", p->network);
	if (r == 0)
		r = api_required(c, "valid", p->has_valid ? "" : NULL);
	if (r < 0 || p->valid.n <= VALID_MAX)
		return r;
	api_refuse(c, 422, 615, "valid in body should have at most %d items", VALID_MAX);
	return -EINVAL;
}

void api_gc(struct api_call *c, struct ipam *store)
{
	const struct api_gc_args *p = c->args;
	struct err e = ERR_INIT;
	int r = ipam_gc(store, p->network, p->valid.v, p->valid.n, &e);

	if (r < 0)
		api_fail_object(c, &e);
	else
		put_count(c, "released", r);
}

/*
 * unirail's routes about the networks of a pod (agent/network/network.h): request body, response
 * body.
 *
 * networks {"containerID", "podNamespace", "podName", "podUID", "ifName", "netconfNetworks",
 *           "clusterNetwork", "defaultNetworks": [], "systemNamespaces": [], "namespaceIsolation",
 *           "globalNamespaces", "multusNamespace"}
 *          netconfNetworks: number of networks in the netconf itself; the keys after it are as in
 *          a Multus configuration
 *          {"networks": [as in cni/cluster/add.h], "replacesFirst", "warnings": [], "coordinator":
 *           {as in /v1/coordinator/config}, "stateDir"}
 *          replacesFirst: the first network replaces the first one of the netconf
 * report   in addition to the keys of pods/report at the head of this file: {"podNamespace",
 *           "podName", "podUID", "networkStatus", "message"}: the annotation to write, and the message of the event
 */

#define FIELD(key, kind, member, ...)                                                              \
	JSON_FIELD(key, kind, struct api_networks_args, member, ##__VA_ARGS__)

static const struct json_field fields[] = {
	FIELD("containerID", J_STR, container_id),
	FIELD("podNamespace", J_STR, pod_namespace),
	FIELD("podName", J_STR, pod_name),
	FIELD("podUID", J_STR, pod_uid),
	FIELD("ifName", J_STR, ifname),
	FIELD("netconfNetworks", J_INT, n_netconf, .min = 0, .max = NET_SELECT_MAX),
	FIELD("clusterNetwork", J_STR, cluster_network),
	FIELD("defaultNetworks", J_STRS, defaults),
	FIELD("systemNamespaces", J_STRS, system_ns,
	      .has = offsetof(struct api_networks_args, has_system)),
	FIELD("namespaceIsolation", J_BOOL, isolation),
	FIELD("globalNamespaces", J_STR, global_ns),
	FIELD("multusNamespace", J_STR, multus_ns),
	{0}};
static const struct json_table table = {fields, JSON_CLOSED, 0};

int api_read_networks(struct api_call *c)
{
	const struct api_networks_args *p = c->args;
	int r = api_body(c, "networks", &table);

	if (r == 0)
		r = api_not_empty(c, "podNamespace", p->pod_namespace);
	if (r == 0)
		r = api_not_empty(c, "podName", p->pod_name);
	return r;
}

static const char *or_else(const char *s, const char *otherwise)
{
	return s && *s ? s : otherwise;
}

void api_networks(struct api_call *c)
{
	static const char *system_ns[] = {"kube-system"};
	const struct api_networks_args *p = c->args;
	const struct net_request w = {
		.ifname = or_else(p->ifname, "eth0"),
		.pod_uid = p->pod_uid,
		.n_netconf = p->n_netconf,
		.cluster_network = p->cluster_network && *p->cluster_network ? p->cluster_network
									     : NULL,
		.multus_ns = or_else(p->multus_ns, "kube-system"),
		.global_ns = or_else(p->global_ns, "default"),
		.defaults = p->defaults,
		.system_ns = p->has_system ? p->system_ns : (struct json_strs){system_ns, 1},
		.isolation = p->isolation,
	};
	struct json_doc *doc = c->doc;

	if (!c->api->conf.nets) {
		api_refuse(c, 404, 404,
			   "this server is not connected to a cluster: it does not know the "
			   "networks of pods");
		return;
	}
	c->doc = NULL;
	nets_request(c->api->conf.nets, c->q, doc, p->pod_namespace, p->pod_name, &w);
}

static void api_networks_report(struct api_call *c, const struct api_report_args *p)
{
	const struct nets_status s = {.container_id = p->container_id,
				      .ns = or_else(p->pod_namespace, ""),
				      .name = or_else(p->pod_name, ""),
				      .uid = or_else(p->pod_uid, ""),
				      .annotation = p->status,
				      .message = p->message};

	if (p->status && c->api->conf.nets && *s.ns && *s.name)
		nets_notify(c->api->conf.nets, &s);
}
