/* SPDX-License-Identifier: Apache-2.0 */
/* One request to an IPAM server, and what its answers say. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "cni/protocol/code.h"
#include "cni/ipam/spiderpool/spiderpool_agent.h"
#include "wire/http/http1.h"

enum { BODY_MAX = 4 << 20, PATH_BYTES = 512, WORDS_MAX = 700 };

void agent_reply_done(struct agent_reply *r)
{
	json_free(r->doc);
	buf_done(&r->body);
}

/* Tests have a root of their own. */
static const char *under(const struct root *root, const char *socket, char path[static PATH_BYTES])
{
	if (root->host)
		return socket;
	snprintf(path, PATH_BYTES, "/proc/self/fd/%d%s", root->fd, socket);
	return path;
}

static int unhealthy(struct err *e, int r, const char *remedy)
{
	return err_wrap(e, r, "unhealthy spiderpool-agent backend, failed to check%s", remedy);
}

int agent_call(const char *socket, const struct root *root, const char *method, const char *path,
	       const struct buf *body, struct agent_reply *ret, struct err *e)
{
	return agent_call_within(SPIDERPOOL_SOCKET_MS, socket, root, method, path, body, ret, e);
}

int agent_call_within(int timeout_ms, const char *socket, const struct root *root,
		      const char *method, const char *path, const struct buf *body,
		      struct agent_reply *ret, struct err *e)
{
	char at[PATH_BYTES];
	struct http1_call c = {
		.socket = under(root, socket, at),
		.request = {.method = method, .target = path},
		.timeout_ms = timeout_ms,
		.max = BODY_MAX,
	};
	int r;

	if (body && body->over)
		return err_set(e, -EFBIG, "request '%s' is longer than %d MiB", path,
			       BODY_MAX >> 20);
	if (body) {
		c.request.type = "application/json";
		c.request.body = buf_span(body);
	}
	*ret = (struct agent_reply)AGENT_REPLY_INIT;
	r = http1_call(&c, &ret->body, e);
	if (r < 0)
		return unhealthy(e, r,
				 r == -ENOENT || r == -ECONNREFUSED
					 ? " (is 'unirail ipam serve' running?)"
					 : "");
	ret->status = r;
	if (ret->body.len > 0 && json_parse(&ret->doc, buf_span(&ret->body), BODY_MAX, NULL) < 0)
		ret->doc = NULL;
	if (r == 503) {
		agent_failure(ret, "unhealthy spiderpool-agent backend, failed to check", e);
		if (e)
			e->kind = ERR_AGAIN;
		return -EAGAIN;
	}
	return 0;
}

int agent_failure(const struct agent_reply *r, const char *what, struct err *e)
{
	const struct json *root = r->doc ? json_root(r->doc) : NULL;
	const char *text = json_string(root), *message = json_string(json_get(root, "message"));
	struct span raw = span_trim(buf_span(&r->body));
	int64_t code;

	if (text)
		raw = span_of(text);
	else if (message)
		raw = span_of(message);
	if (raw.n == 0)
		err_set(e, -EREMOTEIO, "%s: status %d", what, r->status);
	else
		err_set(e, -EREMOTEIO, "%s: %.*s", what, raw.n < WORDS_MAX ? (int)raw.n : WORDS_MAX,
			raw.p);
	if (message && json_int(json_get(root, "code"), &code) == 0 && code > 0 && code < 400)
		cni_code_set(e, (unsigned int)code);
	return -EREMOTEIO;
}

/* --- ips and routes --- */

struct reply_ip {
	struct ipnet address;
	struct ipaddr gateway;
	const char *nic;
	bool conflict, gateway_detection;
};

struct reply_route {
	struct ipnet dst;
	struct ipaddr gw;
	const char *ifname;
};

struct reply {
	struct json_list ips, routes;
	const struct json *dns;
	bool fresh, conflict, gateway_detection;
	bool has_fresh;
};

#define OF(type, key, kind, member, ...)                                                           \
	{                                                                                          \
		key, kind, .offset = offsetof(struct type, member), __VA_ARGS__                    \
	}

static const struct json_field ip_fields[] = {
	OF(reply_ip, "address", J_NET, address, .required = true),
	OF(reply_ip, "gateway", J_IP, gateway),
	OF(reply_ip, "nic", J_STR, nic, .required = true),
	OF(reply_ip, "enableIPConflictDetection", J_BOOL, conflict),
	OF(reply_ip, "enableGatewayDetection", J_BOOL, gateway_detection),
	{0}};
static const struct json_table ip_table = {ip_fields, JSON_GO, sizeof(struct reply_ip)};
static const struct json_field route_fields[] = {
	OF(reply_route, "dst", J_NET, dst, .required = true),
	OF(reply_route, "gw", J_IP, gw),
	OF(reply_route, "ifName", J_STR, ifname, .required = true),
	{0}};
static const struct json_table route_table = {route_fields, JSON_GO, sizeof(struct reply_route)};
static const struct json_field reply_fields[] = {
	OF(reply, "ips", J_OBJS, ips, .sub = &ip_table),
	OF(reply, "routes", J_OBJS, routes, .sub = &route_table),
	OF(reply, "dns", J_VAL, dns),
	OF(reply, "fresh", J_BOOL, fresh, .has = offsetof(struct reply, has_fresh)),
	OF(reply, "enableIPConflictDetection", J_BOOL, conflict),
	OF(reply, "enableGatewayDetection", J_BOOL, gateway_detection),
	{0}};
static const struct json_table reply_table = {reply_fields, JSON_GO, 0};

static void fill_flags(const struct socket_rail *rail, const struct reply *p)
{
	const struct spiderpool_conf *c = rail->conf;
	const struct reply_ip *ips = p->ips.v;
	bool conflict = p->conflict, gateway = p->gateway_detection;

	for (size_t i = 0; i < p->ips.n; i++) {
		conflict |= ips[i].conflict;
		gateway |= ips[i].gateway_detection;
	}
	*rail->flags = (struct cni_ipam_flags){
		.conflict_detection = c->has_conflict ? c->conflict : conflict,
		.gateway_detection = c->has_gateway ? c->gateway : gateway,
		.tries = (int)c->tries,
		.interval_ms = (int)c->interval_ms,
		.total_ms = (int)c->total_ms,
		.carrier_ms = (int)c->carrier_ms,
	};
}

/* A pod of which the agent knows more interfaces gets them all told; ours is one. */
static size_t fill_result(const struct socket_rail *rail, const struct reply *p)
{
	const struct reply_ip *ips = p->ips.v;
	const struct reply_route *routes = p->routes.v;
	size_t found = 0;

	for (size_t i = 0; i < p->ips.n; i++) {
		struct cni_ip ip = {ips[i].address, ips[i].gateway, -1};

		if (strcmp(ips[i].nic, rail->call->ifname) != 0)
			continue;
		cni_result_ip(rail->out, &ip);
		found++;
	}
	for (size_t i = 0; i < p->routes.n; i++) {
		struct cni_route rt = {.dst = routes[i].dst, .gw = routes[i].gw};

		if (strcmp(routes[i].ifname, rail->call->ifname) == 0)
			cni_result_route(rail->out, &rt);
	}
	return found;
}

int agent_take_rail(const struct agent_reply *reply, const struct json *obj,
		    const struct socket_rail *rail, struct err *e)
{
	struct reply p = {0};
	int r = json_kind(obj) == JSON_OBJECT
			? json_read(reply->doc, obj, &reply_table, &p, "answer", e)
			: json_wants(obj, "answer", "an object", e);

	if (r == 0)
		r = cni_result_read_dns(reply->doc, p.dns, "answer.dns", rail->out, e);
	if (r < 0) {
		if (e)
			e->kind = ERR_OTHER;
		return err_wrap(e, r, "spiderpool IP allocation error");
	}
	*rail->fresh = p.has_fresh ? p.fresh : true;
	fill_flags(rail, &p);
	if (fill_result(rail, &p) == 0)
		return err_set(
			e, -ENODATA,
			"spiderpool IP allocation error: no Interface %s IP allocation found",
			rail->call->ifname);
	return 0;
}

/* --- requests --- */

static void put_text(struct json_out *o, const char *key, const char *v)
{
	jo_kstr(o, key, v ? v : "");
}

void agent_put_pod(struct json_out *o, const struct cni_ipam_call *call,
		   const struct cni_args *args)
{
	put_text(o, "containerID", call->call->container_id);
	put_text(o, "netNamespace", call->call->netns);
	put_text(o, "podName", args ? args->pod_name : NULL);
	put_text(o, "podNamespace", args ? args->pod_namespace : NULL);
	put_text(o, "podUID", args ? args->pod_uid : NULL);
}

static void put_list(struct json_out *o, const char *key, const struct json_strs *l)
{
	if (l->n == 0)
		return;
	jo_key(o, key);
	jo_arr(o);
	for (size_t i = 0; i < l->n; i++)
		jo_str(o, l->v[i]);
	jo_end_arr(o);
}

void agent_put_pools(struct json_out *o, const struct spiderpool_conf *c)
{
	jo_kbool(o, "cleanGateway", c->clean_gateway);
	put_list(o, "defaultIPv4IPPool", &c->pools4);
	put_list(o, "defaultIPv6IPPool", &c->pools6);
	jo_kbool(o, "matchMasterSubnet", c->match_subnet);
}
