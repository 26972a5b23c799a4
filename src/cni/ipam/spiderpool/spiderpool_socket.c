/* SPDX-License-Identifier: Apache-2.0 */
/* `unirail ipam serve` asked: one request for all rails. src/agent/api/api_plan.c has the other side. */
#include "cni/ipam/spiderpool/spiderpool_socket.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cni/ipam/spiderpool/spiderpool_agent.h"

#define OURS "/v1/unirail/"

enum { REQUEST_MAX = 4 << 20, NOT_OURS = 404 };

/* The server's answer to one of our routes; *ours false: it does not know them. */
static int ask(const char *socket, const struct cni_ipam_call *call, const char *path,
	       const struct buf *body, struct agent_reply *ret, bool *ours, struct err *e)
{
	int r = agent_call(socket, &call->call->root, "POST", path, body, ret, e);

	if (r < 0)
		return r;
	*ours = ret->status != NOT_OURS;
	return 0;
}

/* --- ADD --- */

static void put_addresses(struct json_out *o, const struct socket_rail *v)
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

static void put_rail(struct json_out *o, const struct socket_rail *v)
{
	jo_obj(o);
	jo_kstr(o, "ifName", v->call->ifname);
	jo_kstr(o, "network", v->call->name);
	if (v->call->nad)
		jo_kstr(o, "nad", v->call->nad);
	agent_put_pools(o, v->conf);
	if (v->conf->match_subnet)
		put_master(o, v->call);
	jo_kbool(o, "sticky", v->conf->sticky);
	if (v->n_want)
		put_addresses(o, v);
	jo_end_obj(o);
}

static void put_plan(struct buf *b, const struct socket_rail *v, size_t n, bool dry_run)
{
	struct json_out o;

	jo_init(&o, b, 0);
	jo_obj(&o);
	agent_put_pod(&o, v->call, v->args);
	jo_kbool(&o, "dryRun", dry_run);
	jo_key(&o, "rails");
	jo_arr(&o);
	for (size_t i = 0; i < n; i++)
		put_rail(&o, &v[i]);
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

static int take_rails(const struct agent_reply *reply, const struct socket_rail *v, size_t n,
		      struct err *e)
{
	const struct json *rails = json_get(reply->doc ? json_root(reply->doc) : NULL, "rails");
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++) {
		const struct json *rail = rail_of(rails, v[i].call->ifname);

		r = rail ? agent_take_rail(reply, rail, &v[i], e)
			 : err_set(e, -EPROTO,
				   "spiderpool IP allocation error: the answer of '%s' has no rail "
				   "%s",
				   v[i].conf->socket, v[i].call->ifname);
	}
	return r;
}

static int plan(const struct socket_rail *v, size_t n, bool dry_run, struct agent_reply *reply,
		bool *ours, struct err *e)
{
	auto_buf struct buf b;
	int r;

	buf_init(&b, REQUEST_MAX);
	put_plan(&b, v, n, dry_run);
	r = ask(v->conf->socket, v->call, OURS "pods/plan", &b, reply, ours, e);
	if (r == 0 && *ours && reply->status != 200)
		r = agent_failure(reply, "spiderpool IP allocation error", e);
	return r;
}

int spiderpool_socket_add(const struct socket_rail *v, size_t n, struct err *e)
{
	auto_agent_reply struct agent_reply reply = AGENT_REPLY_INIT;
	bool ours;
	int r = plan(v, n, false, &reply, &ours, e);

	if (r == 0)
		r = ours ? take_rails(&reply, v, n, e) : agent_add(v, n, e);
	return r;
}

int spiderpool_socket_try(const struct socket_rail *v, struct err *e)
{
	auto_agent_reply struct agent_reply reply = AGENT_REPLY_INIT;
	bool ours;
	int r = plan(v, 1, true, &reply, &ours, e);

	return r < 0 || ours ? r : agent_healthy(v->conf->socket, v->call, e);
}

/* --- the others --- */

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
	bool ours;
	int r;

	buf_init(&b, REQUEST_MAX);
	put_rails(&b, calls, n);
	r = agent_call_within(limit_ms, socket, &calls[0]->call->root, "POST", OURS "pods/release",
			      &b, &reply, e);
	ours = reply.status != NOT_OURS;
	if (r == 0 && !ours)
		r = agent_del(socket, calls, n, e);
	else if (r == 0 && reply.status != 200)
		r = agent_failure(&reply, "spiderpool IP release error", e);
	/* Whatever it was: the addresses are still held, and the runtime must come again. */
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
				       "spiderpool: the server's answer has no address");
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
	r = ask(socket, call, OURS "pods/check", &b, &reply, known, e);
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
	bool ours;
	int r;

	buf_init(&b, REQUEST_MAX);
	put_gc(&b, call);
	r = ask(socket, call, OURS "networks/gc", &b, &reply, &ours, e);
	if (r < 0 || !ours || reply.status == 200)
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
	bool ours;
	int r;

	buf_init(&b, REQUEST_MAX);
	put_conflict(&b, call, a, other);
	r = ask(socket, call, OURS "pods/done", &b, &reply, &ours, e);
	if (r == 0 && !ours)
		return agent_conflict(socket, call, a, other, e);
	if (r == 0 && reply.status != 200)
		r = agent_failure(&reply, "spiderpool", e);
	return r;
}
