/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/ipam/spiderpool/agent_client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cni/ipam/spiderpool/legacy_agent.h"
#include "cni/protocol/error.h"
#include "wire/http/http1.h"

/* Client of unirail's own API, which `unirail ipam serve` and `unirail agent` serve: an ADD
 * sends one request for all rails. src/agent/api has the server's part (plan.c, pods.c). */

#define UNIRAIL_API "/v1/unirail/"

enum { REQUEST_MAX = 4 << 20, NOT_FOUND = 404 };
/* Time to wait for the agent's socket if it is missing: the agent has just answered the request for
 * the pod's networks, so it is restarting. */
enum { RESTART_MS = 30 * 1000 };

static int agent_call_within(int timeout_ms, int restart_ms, const char *socket,
			     const struct root *root, const char *method, const char *path,
			     const struct buf *body, struct agent_reply *ret, struct err *e);

/* POSTs to a path of unirail's own API. *is_unirail is set to false if the server answers 404. */
static int request(const char *socket, int restart_ms, const struct cni_ipam_call *call,
		   const char *path, const struct buf *body, struct agent_reply *ret,
		   bool *is_unirail, struct err *e)
{
	int r = agent_call_within(SPIDERPOOL_SOCKET_MS, restart_ms, socket, &call->call->root,
				  "POST", path, body, ret, e);

	if (r < 0)
		return r;
	*is_unirail = ret->status != NOT_FOUND;
	return 0;
}

/* --- ADD: request for addresses --- */

static void put_addresses(struct json_out *o, const struct rail_request *v)
{
	jo_key(o, "addresses");
	jo_arr(o);
	for (size_t i = 0; i < v->n_want; i++)
		jo_str(o, ip_str(&v->want[i], (char[IP_TEXT_MAX]){0}));
	jo_end_arr(o);
}

static void put_master(struct json_out *o, const struct cni_ipam_call *call)
{
	jo_kstr(o, "master", call->master ? call->master : "");
	jo_key(o, "masterAddresses");
	jo_arr(o);
	for (size_t i = 0; i < call->n_nets; i++)
		jo_str(o, ipnet_str(&call->nets[i], (char[IP_TEXT_MAX]){0}));
	jo_end_arr(o);
}

static void put_rail(struct json_out *o, const struct rail_request *v)
{
	jo_obj(o);
	jo_kstr(o, "ifName", v->call->ifname);
	jo_kstr(o, "network", v->call->name);
	if (v->call->nad)
		jo_kstr(o, "nad", v->call->nad);
	agent_put_pools(o, &v->conf);
	if (v->conf.match_subnet)
		put_master(o, v->call);
	jo_kbool(o, "sticky", v->conf.sticky);
	if (v->n_want)
		put_addresses(o, v);
	jo_end_obj(o);
}

static void put_plan(struct buf *b, const struct rail_request *const *v, size_t n, bool dry_run)
{
	struct json_out o;

	jo_init(&o, b, 0);
	jo_obj(&o);
	agent_put_pod(&o, v[0]->call, &v[0]->request.args);
	jo_kbool(&o, "dryRun", dry_run);
	jo_key(&o, "rails");
	jo_arr(&o);
	for (size_t i = 0; i < n; i++)
		put_rail(&o, v[i]);
	jo_end_arr(&o);
	jo_end_obj(&o);
}

static const struct json *rail_of(const struct json *rails, const char *ifname)
{
	struct json_walk w = json_walk_start(rails);
	const struct json *v;

	while ((v = json_walk_next(&w, NULL))) {
		const char *name = json_string(json_get(v, "ifName"));

		if (name && strcmp(name, ifname) == 0)
			return v;
	}
	return NULL;
}

static int take_rails(const struct agent_reply *reply, const struct rail_request *const *v,
		      size_t n, struct err *e)
{
	const struct json *rails = json_get(reply->doc ? json_root(reply->doc) : NULL, "rails");
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++) {
		const struct json *rail = rail_of(rails, v[i]->call->ifname);

		r = rail ? agent_take_rail(reply, rail, v[i], e)
			 : err_set(e, -EPROTO,
				   "spiderpool IP allocation error: the answer of '%s' has no rail "
				   "%s",
				   v[i]->conf.socket, v[i]->call->ifname);
	}
	return r;
}

static int plan(const struct rail_request *const *v, size_t n, bool dry_run,
		struct agent_reply *reply, bool *is_unirail, struct err *e)
{
	auto_buf struct buf b;
	int r;

	buf_init(&b, REQUEST_MAX);
	put_plan(&b, v, n, dry_run);
	r = request(v[0]->conf.socket, v[0]->call->nad && !dry_run ? RESTART_MS : 0, v[0]->call,
		    UNIRAIL_API "pods/plan", &b, reply, is_unirail, e);
	if (r == 0 && *is_unirail && reply->status != 200)
		r = agent_failure(reply, "spiderpool IP allocation error", e);
	return r;
}

int spiderpool_socket_add(const struct rail_request *const *v, size_t n, struct err *e)
{
	auto_agent_reply struct agent_reply reply = AGENT_REPLY_INIT;
	bool is_unirail;
	int r = plan(v, n, false, &reply, &is_unirail, e);

	if (r == 0)
		r = is_unirail ? take_rails(&reply, v, n, e) : agent_add(v, n, e);
	return r;
}

int spiderpool_socket_try(const struct rail_request *v, struct err *e)
{
	auto_agent_reply struct agent_reply reply = AGENT_REPLY_INIT;
	bool is_unirail;
	int r = plan(&v, 1, true, &reply, &is_unirail, e);

	return r < 0 || is_unirail ? r : agent_healthy(v->conf.socket, v->call, e);
}

/* --- DEL, CHECK, GC and conflicts --- */

static void put_container(struct json_out *o, const struct cni_ipam_call *call)
{
	jo_obj(o);
	jo_kstr(o, "containerID", call->call->container_id);
}

static void put_rails(struct buf *b, const struct cni_ipam_call *const *calls, size_t n)
{
	struct json_out o;

	jo_init(&o, b, 0);
	put_container(&o, calls[0]);
	jo_key(&o, "rails");
	jo_arr(&o);
	for (size_t i = 0; i < n; i++)
		jo_str(&o, calls[i]->ifname);
	jo_end_arr(&o);
	jo_end_obj(&o);
}

int spiderpool_socket_del(const char *socket, int limit_ms,
			  const struct cni_ipam_call *const *calls, size_t n, struct err *e)
{
	auto_agent_reply struct agent_reply reply = AGENT_REPLY_INIT;
	auto_buf struct buf b;
	bool is_unirail;
	int r;

	buf_init(&b, REQUEST_MAX);
	put_rails(&b, calls, n);
	r = agent_call_within(limit_ms, 0, socket, &calls[0]->call->root, "POST",
			      UNIRAIL_API "pods/release", &b, &reply, e);
	is_unirail = reply.status != NOT_FOUND;
	if (r == 0 && !is_unirail)
		r = agent_del(socket, calls, n, e);
	else if (r == 0 && reply.status != 200)
		r = agent_failure(&reply, "spiderpool IP release error", e);
	/* Every error is of kind ERR_AGAIN: the addresses may still be allocated, so the
	 * runtime must retry. */
	if (r < 0 && e)
		e->kind = ERR_AGAIN;
	return r;
}

static int take_held(const struct agent_reply *reply, const struct cni_ipam_call *call,
		     struct ipnet **held, size_t *n, struct err *e)
{
	const struct json *rails = json_get(reply->doc ? json_root(reply->doc) : NULL, "rails");
	struct json_walk w = json_walk_start(json_get(rail_of(rails, call->ifname), "ips"));
	const struct json *v;

	while ((v = json_walk_next(&w, NULL))) {
		const char *text = json_string(json_get(v, "address"));
		struct ipnet net;

		if (!text || ipnet_parse(span_of(text), &net) < 0)
			return err_set(e, -EPROTO,
				       "spiderpool: the server's answer has an entry in 'ips' "
				       "without a valid address");
		VEC_PUSH(*held, *n) = net;
	}
	return 0;
}

int spiderpool_socket_held(const char *socket, const struct cni_ipam_call *call,
			   struct ipnet **held, size_t *n, bool *known, struct err *e)
{
	auto_agent_reply struct agent_reply reply = AGENT_REPLY_INIT;
	auto_buf struct buf b;
	int r;

	buf_init(&b, REQUEST_MAX);
	put_rails(&b, &call, 1);
	r = request(socket, 0, call, UNIRAIL_API "pods/check", &b, &reply, known, e);
	if (r < 0 || !*known)
		return r;
	return reply.status == 200 ? take_held(&reply, call, held, n, e)
				   : agent_failure(&reply, "spiderpool", e);
}

static void put_gc(struct buf *b, const struct cni_ipam_call *call)
{
	struct json_out o;

	jo_init(&o, b, 0);
	jo_obj(&o);
	jo_kstr(&o, "network", call->name);
	jo_key(&o, "valid");
	jo_arr(&o);
	for (size_t i = 0; i < call->call->n_valid; i++) {
		jo_obj(&o);
		jo_kstr(&o, "containerID", call->call->valid[i].container_id);
		jo_kstr(&o, "ifName", call->call->valid[i].ifname);
		jo_end_obj(&o);
	}
	jo_end_arr(&o);
	jo_end_obj(&o);
}

int spiderpool_socket_gc(const char *socket, const struct cni_ipam_call *call, struct err *e)
{
	auto_agent_reply struct agent_reply reply = AGENT_REPLY_INIT;
	auto_buf struct buf b;
	bool is_unirail;
	int r;

	buf_init(&b, REQUEST_MAX);
	put_gc(&b, call);
	r = request(socket, 0, call, UNIRAIL_API "networks/gc", &b, &reply, &is_unirail, e);
	if (r < 0 || !is_unirail || reply.status == 200)
		return r;
	return agent_failure(&reply, "spiderpool", e);
}

static void put_conflict(struct buf *b, const struct cni_ipam_call *call, const struct ipaddr *a,
			 const struct mac *other)
{
	struct json_out o;

	jo_init(&o, b, 0);
	put_container(&o, call);
	jo_key(&o, "conflicts");
	jo_arr(&o);
	jo_obj(&o);
	jo_kstr(&o, "address", ip_str(a, (char[IP_TEXT_MAX]){0}));
	if (other && other->len)
		jo_kstr(&o, "mac", mac_str(other, (char[MAC_TEXT_MAX]){0}));
	jo_end_obj(&o);
	jo_end_arr(&o);
	jo_end_obj(&o);
}

int spiderpool_socket_conflict(const char *socket, const struct cni_ipam_call *call,
			       const struct ipaddr *a, const struct mac *other, struct err *e)
{
	auto_agent_reply struct agent_reply reply = AGENT_REPLY_INIT;
	auto_buf struct buf b;
	bool is_unirail;
	int r;

	buf_init(&b, REQUEST_MAX);
	put_conflict(&b, call, a, other);
	r = request(socket, 0, call, UNIRAIL_API "pods/report", &b, &reply, &is_unirail, e);
	if (r == 0 && !is_unirail)
		return agent_conflict(socket, call, a, other, e);
	if (r == 0 && reply.status != 200)
		r = agent_failure(&reply, "spiderpool", e);
	return r;
}

/* --- sends one request to an IPAM server and parses the answer --- */

enum { BODY_MAX = 4 << 20, PATH_BYTES = 512, DESC_MAX = 700 };

void agent_reply_done(struct agent_reply *r)
{
	json_free(r->doc);
	buf_done(&r->body);
}

/* Prefixes the socket's path with the root, which is not "/" in tests. */
static const char *under(const struct root *root, const char *socket, char path[static PATH_BYTES])
{
	if (root->host)
		return socket;
	snprintf(path, PATH_BYTES, "/proc/self/fd/%d%s", root->fd, socket);
	return path;
}

static int unhealthy(struct err *e, int r, const char *remedy)
{
	return err_wrap(e, r, ORIG("unhealthy spiderpool-agent backend, failed to check%s"),
			remedy);
}

int agent_call(const char *socket, const struct root *root, const char *method, const char *path,
	       const struct buf *body, struct agent_reply *ret, struct err *e)
{
	return agent_call_within(SPIDERPOOL_SOCKET_MS, 0, socket, root, method, path, body, ret, e);
}

/* Like agent_call(), but with the time limit timeout_ms, and waits up to restart_ms for a missing
 * socket of a server that restarts. */
static int agent_call_within(int timeout_ms, int restart_ms, const char *socket,
			     const struct root *root, const char *method, const char *path,
			     const struct buf *body, struct agent_reply *ret, struct err *e)
{
	char at[PATH_BYTES];
	struct http1_call c = {
		.socket = under(root, socket, at),
		.request = {.method = method, .target = path},
		.timeout_ms = timeout_ms,
		.restart_ms = restart_ms,
		.max = BODY_MAX,
	};
	int r;

	if (body && body->over)
		return err_set(e, -EFBIG, "request '%s' is longer than %d MiB", path,
			       BODY_MAX >> 20);
	if (body) {
		c.request.type = HTTP_JSON;
		c.request.body = buf_span(body);
	}
	*ret = (struct agent_reply)AGENT_REPLY_INIT;
	r = http1_call(&c, &ret->body, e);
	if (r < 0)
		return unhealthy(e, r,
				 r == -ENOENT || r == -ECONNREFUSED
					 ? " (is 'unirail agent' or 'unirail ipam serve' "
					   "running?)"
					 : "");
	ret->status = r;
	if (ret->body.len > 0 && json_parse(&ret->doc, buf_span(&ret->body), BODY_MAX, NULL) < 0)
		ret->doc = NULL;
	if (r == 503) {
		agent_failure(ret, ORIG("unhealthy spiderpool-agent backend, failed to check"), e);
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
		err_set(e, -EREMOTEIO, "%s: %.*s", what, raw.n < DESC_MAX ? (int)raw.n : DESC_MAX,
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
	bool is_new, conflict, gateway_detection;
	bool has_is_new;
};

#define OF(type, key, kind, member, ...) JSON_FIELD(key, kind, struct type, member, ##__VA_ARGS__)

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
	OF(reply, "newlyAllocated", J_BOOL, is_new, .has = offsetof(struct reply, has_is_new)),
	OF(reply, "enableIPConflictDetection", J_BOOL, conflict),
	OF(reply, "enableGatewayDetection", J_BOOL, gateway_detection),
	{0}};
static const struct json_table reply_table = {reply_fields, JSON_GO, 0};

static void fill_flags(const struct rail_request *rail, const struct reply *p)
{
	const struct spiderpool_conf *c = &rail->conf;
	const struct reply_ip *ips = p->ips.v;
	bool conflict = p->conflict, gateway = p->gateway_detection;

	for (size_t i = 0; i < p->ips.n; i++) {
		conflict |= ips[i].conflict;
		gateway |= ips[i].gateway_detection;
	}
	*rail->call->flags = (struct cni_ipam_flags){
		.is_new = !p->has_is_new || p->is_new,
		.conflict_detection = c->has_conflict ? c->conflict : conflict,
		.gateway_detection = c->has_gateway ? c->gateway : gateway,
		.tries = (int)c->tries,
		.interval_ms = (int)c->interval_ms,
		.total_ms = (int)c->total_ms,
		.carrier_ms = (int)c->carrier_ms,
	};
}

/* Takes the addresses and routes of this interface from an answer: that of Spiderpool's agent
 * lists all interfaces of the pod that the agent knows. Returns the number of addresses. */
static size_t fill_result(const struct rail_request *rail, const struct reply *p)
{
	const struct reply_ip *ips = p->ips.v;
	const struct reply_route *routes = p->routes.v;
	size_t found = 0;

	for (size_t i = 0; i < p->ips.n; i++) {
		struct cni_ip ip = {ips[i].address, ips[i].gateway, -1};

		if (strcmp(ips[i].nic, rail->call->ifname) != 0)
			continue;
		cni_result_ip(rail->call->out, &ip);
		found++;
	}
	for (size_t i = 0; i < p->routes.n; i++) {
		struct cni_route rt = {.dst = routes[i].dst, .gw = routes[i].gw};

		if (strcmp(routes[i].ifname, rail->call->ifname) == 0)
			cni_result_route(rail->call->out, &rt);
	}
	return found;
}

int agent_take_rail(const struct agent_reply *reply, const struct json *obj,
		    const struct rail_request *rail, struct err *e)
{
	struct reply p = {0};
	int r = json_kind(obj) == JSON_OBJECT
			? json_read(reply->doc, obj, &reply_table, &p, "answer", e)
			: json_wants(obj, "answer", "an object", e);

	if (r == 0)
		r = cni_result_read_dns(reply->doc, p.dns, "answer.dns", rail->call->out, e);
	if (r < 0) {
		if (e)
			e->kind = ERR_OTHER;
		return err_wrap(e, r, "spiderpool IP allocation error");
	}
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
	put_text(o, "podName", args->pod_name);
	put_text(o, "podNamespace", args->pod_namespace);
	put_text(o, "podUID", args->pod_uid);
}

static void put_list(struct json_out *o, const char *key, const struct json_strs *l)
{
	if (l->n == 0)
		return;
	jo_key(o, key);
	jo_strs(o, l);
}

void agent_put_pools(struct json_out *o, const struct spiderpool_conf *c)
{
	jo_kbool(o, "cleanGateway", c->clean_gateway);
	put_list(o, "defaultIPv4IPPool", &c->pools4);
	put_list(o, "defaultIPv6IPPool", &c->pools6);
	jo_kbool(o, "matchMasterSubnet", c->match_subnet);
}
