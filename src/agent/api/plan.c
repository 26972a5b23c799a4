/* SPDX-License-Identifier: Apache-2.0 */
/* The route "plan": addresses for all rails of a pod at once. pods.c documents its body. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/api/internal.h"
#include "base/alloc.h"
#include "base/log.h"

struct plan_rail {
	const char *ifname, *network, *nad, *master;
	struct json_strs pools4, pools6, addresses, nets;
	bool clean_gateway, match_subnet, sticky;
};

#define RAIL(key, kind, member, ...) JSON_FIELD(key, kind, struct plan_rail, member, ##__VA_ARGS__)
#define PLAN(key, kind, member, ...)                                                               \
	JSON_FIELD(key, kind, struct api_plan_args, member, ##__VA_ARGS__)

static const struct json_field rail_fields[] = {RAIL("ifName", J_STR, ifname),
						RAIL("network", J_STR, network),
						RAIL("nad", J_STR, nad),
						RAIL("defaultIPv4IPPool", J_STRS, pools4),
						RAIL("defaultIPv6IPPool", J_STRS, pools6),
						RAIL("cleanGateway", J_BOOL, clean_gateway),
						RAIL("matchMasterSubnet", J_BOOL, match_subnet),
						RAIL("master", J_STR, master),
						RAIL("masterAddresses", J_STRS, nets),
						RAIL("sticky", J_BOOL, sticky),
						RAIL("addresses", J_STRS, addresses),
						{0}};
static const struct json_table rail_table = {rail_fields, JSON_CLOSED, sizeof(struct plan_rail)};
static const struct json_field plan_fields[] = {PLAN("containerID", J_STR, container_id),
						PLAN("netNamespace", J_STR, netns),
						PLAN("podNamespace", J_STR, pod_namespace),
						PLAN("podName", J_STR, pod_name),
						PLAN("podUID", J_STR, pod_uid),
						PLAN("dryRun", J_BOOL, dry_run),
						PLAN("rails", J_OBJS, rails, .sub = &rail_table),
						{0}};
static const struct json_table plan_table = {plan_fields, JSON_CLOSED, 0};

static int wrong_text(struct api_call *c, const char *field, const char *text)
{
	api_refuse(c, 422, 601,
		   "%s in body: '%.100s' is not an address (masterAddresses need a prefix length)",
		   field, text);
	return -EINVAL;
}

static int check_names(struct api_call *c, const struct plan_rail *v, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		int r = api_not_empty(c, "rails.ifName", v[i].ifname);

		for (size_t k = 0; k < i && r == 0; k++)
			if (strcmp(v[i].ifname, v[k].ifname) == 0) {
				api_refuse(c, 422, 611,
					   "rails.ifName '%.100s' in body occurs twice",
					   v[i].ifname);
				r = -EINVAL;
			}
		if (r < 0)
			return r;
	}
	return 0;
}

int api_read_plan(struct api_call *c)
{
	struct api_plan_args *p = c->args;
	int r = api_body(c, "plan", &plan_table);

	if (r == 0)
		r = api_not_empty(c, "containerID", p->container_id);
	if (r == 0)
		r = api_rails_count(c, p->rails.n);
	return r < 0 ? r : check_names(c, p->rails.v, p->rails.n);
}

/* A dry run needs no pod. */
bool api_pod_of_plan(const struct api_call *c, struct api_pod *ret)
{
	const struct api_plan_args *p = c->args;

	*ret = (struct api_pod){p->pod_namespace, p->pod_name, p->pod_uid};
	return !p->dry_run || p->pod_name;
}

static struct ip_request request_from(const struct api_call *c, const struct plan_rail *r)
{
	const struct api_plan_args *p = c->args;

	return (struct ip_request){
		.owner = {.container_id = p->container_id,
			  .ifname = r->ifname,
			  .pod_namespace = p->pod_namespace,
			  .pod_name = p->pod_name,
			  .pod_uid = c->has_pod ? c->pod.uid : p->pod_uid,
			  .netns = p->netns,
			  .network = r->network},
		.pools4 = r->pools4.v,
		.n_pools4 = r->pools4.n,
		.pools6 = r->pools6.v,
		.n_pools6 = r->pools6.n,
		.match_subnet = r->match_subnet,
		.n_nets = r->nets.n,
		.master = r->master,
		.sticky = r->sticky,
		.clean_gateway = r->clean_gateway,
		.n_want = r->addresses.n,
	};
}

static int read_addresses(struct api_call *c, const struct plan_rail *r, struct ipaddr *want,
			  struct ipnet *nets)
{
	struct ipnet net;

	for (size_t i = 0; i < r->addresses.n; i++, *want++ = net.ip)
		if (ipnet_parse_loose(span_of(r->addresses.v[i]), &net) < 0)
			return wrong_text(c, "rails.addresses", r->addresses.v[i]);
	for (size_t i = 0; i < r->nets.n; i++)
		if (ipnet_parse(span_of(r->nets.v[i]), nets++) < 0)
			return wrong_text(c, "rails.masterAddresses", r->nets.v[i]);
	return 0;
}

/* Reads and checks the request; negative: the call was answered. */
static int read_requests(struct api_call *c)
{
	const struct api_plan_args *p = c->args;
	const struct plan_rail *rails = p->rails.v;
	struct api_requests *q = &c->requests;
	size_t n_want = 0, n_nets = 0;
	int r = 0;

	for (size_t i = 0; i < p->rails.n; i++) {
		n_want += rails[i].addresses.n;
		n_nets += rails[i].nets.n;
	}
	*q = (struct api_requests){.n = p->rails.n,
				   .body = xcalloc(p->rails.n, sizeof(*q->body)),
				   .want = xcalloc(n_want + 1, sizeof(*q->want)),
				   .nets = xcalloc(n_nets + 1, sizeof(*q->nets)),
				   .whole = true};
	n_want = n_nets = 0;
	for (size_t i = 0; i < q->n && r == 0; i++) {
		q->body[i] = request_from(c, &rails[i]);
		q->body[i].want = q->want + n_want;
		q->body[i].nets = q->nets + n_nets;
		r = read_addresses(c, &rails[i], q->want + n_want, q->nets + n_nets);
		n_want += rails[i].addresses.n;
		n_nets += rails[i].nets.n;
	}
	return r;
}

static bool is_new(const struct ip_allocation *g, size_t n, size_t request)
{
	for (size_t i = 0; i < n; i++)
		if (g[i].request == request && !g[i].was_there)
			return true;
	return false;
}

void api_put_rail(struct json_out *o, const char *ifname, const struct ip_allocation *g, size_t n,
		  size_t request, const struct pool_set *pools)
{
	jo_obj(o);
	jo_kstr(o, "ifName", ifname);
	api_put_allocations(o, g, n, request, pools);
	jo_kbool(o, "newlyAllocated", is_new(g, n, request));
	jo_kbool(o, "enableIPConflictDetection", pools->conflict_detection);
	jo_kbool(o, "enableGatewayDetection", pools->gateway_detection);
	jo_end_obj(o);
}

static void log_allocations(const struct api_plan_args *p, const struct ip_allocation *g, size_t n)
{
	if (log_threshold > LOG_DEBUG)
		return;
	for (size_t i = 0; i < n; i++)
		log_debug("address allocated", LOG_S("container_id", p->container_id),
			  LOG_S("ifname", g[i].ifname),
			  LOG_S("ip", ipnet_str(&g[i].address, (char[IP_TEXT_MAX]){0})));
}

static int plan(struct api_call *c, struct ipam *store, struct buf *b, struct err *e)
{
	const struct api_plan_args *p = c->args;
	const struct api_requests *q = &c->requests;
	struct ip_allocation *g = NULL;
	struct json_out o;
	size_t n = 0;
	int r = p->dry_run ? ipam_try(store, q->body, q->n, e)
			   : c->api->backend->allocate(c, store, &g, &n, e);

	if (r != 0)
		return r;
	log_allocations(p, g, n);
	jo_init(&o, b, 0);
	jo_obj(&o);
	jo_key(&o, "rails");
	jo_arr(&o);
	for (size_t i = 0; i < q->n && !p->dry_run; i++)
		api_put_rail(&o, q->body[i].owner.ifname, g, n, i, ipam_pools(store));
	jo_end_arr(&o);
	jo_end_obj(&o);
	ip_allocations_free(g, n);
	return 0;
}

void api_plan(struct api_call *c, struct ipam *store)
{
	const struct api_plan_args *p = c->args;
	struct err e = ERR_INIT;
	auto_buf struct buf b;
	int r;

	buf_init(&b, API_ANSWER_MAX);
	if (!c->requests.n && read_requests(c) < 0)
		return;
	r = plan(c, store, &b, &e);
	if (r == API_PENDING)
		return;
	if (r < 0) {
		log_limited(LOG_WARN, 1, "no addresses allocated",
			    LOG_S("container_id", p->container_id), LOG_S("error", e.text));
		api_call_fail(c, &e);
		return;
	}
	api_json(c, &b);
}
