/* SPDX-License-Identifier: Apache-2.0 */
/* Client of Spiderpool's own agent, with the requests of its plugin: one for each interface. */
#include "cni/ipam/spiderpool/legacy_agent.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"

enum { REQUEST_MAX = 1 << 20, WHAT_MAX = 128 };

int agent_healthy(const char *socket, const struct cni_ipam_call *call, struct err *e)
{
	auto_agent_reply struct agent_reply reply = AGENT_REPLY_INIT;
	int r = agent_call(socket, &call->call->root, "GET", "/v1/ipam/healthy", NULL, &reply, e);

	if (r < 0 || reply.status == 200)
		return r;
	return agent_failure(&reply, ORIG("unhealthy spiderpool-agent backend, failed to check"),
			     e);
}

/* Formats an error as go-openapi's client does, which users know from the kubelet's events: "[POST
 * /ipam/ip][500] postIpamIpFailure  the agent's text". */
static int failure(const struct agent_reply *r, const char *what, const char *call,
		   const char *name, struct err *e)
{
	const char *text = json_string(r->doc ? json_root(r->doc) : NULL);
	char desc[WHAT_MAX];

	if (r->status == 500 && text)
		return err_set(e, -EREMOTEIO, "%s: [%s][500] %s  %s", what, call, name, text);
	snprintf(desc, sizeof(desc), "%s: [%s][%d]", what, call, r->status);
	return agent_failure(r, desc, e);
}

static int add_one(const struct rail_request *v, struct err *e)
{
	auto_agent_reply struct agent_reply reply = AGENT_REPLY_INIT;
	auto_buf struct buf b;
	struct json_out o;
	int r;

	buf_init(&b, REQUEST_MAX);
	jo_init(&o, &b, 0);
	jo_obj(&o);
	agent_put_pools(&o, &v->conf);
	jo_kstr(&o, "ifName", v->call->ifname);
	agent_put_pod(&o, v->call, &v->request.args);
	jo_end_obj(&o);
	r = agent_call(v->conf.socket, &v->call->call->root, "POST", "/v1/ipam/ip", &b, &reply, e);
	if (r < 0)
		return r;
	if (reply.status != 200)
		return failure(&reply, "spiderpool IP allocation error", "POST /ipam/ip",
			       "postIpamIpFailure", e);
	return agent_take_rail(&reply, reply.doc ? json_root(reply.doc) : NULL, v, e);
}

/* Refuses a requested address, and logs that sticky is ignored: the API cannot express either. */
static int sayable(const struct rail_request *v, struct err *e)
{
	if (v->n_want)
		return err_kind(
			e, ERR_UNSUPPORTED, -EOPNOTSUPP,
			"%s requests %s, but Spiderpool's agent at '%s' accepts no request for a "
			"specific address",
			v->call->ifname, ip_str(&v->want[0], (char[IP_TEXT_MAX]){0}),
			v->conf.socket);
	if (v->conf.sticky)
		log_warn(
			"ignoring sticky: Spiderpool's agent retains addresses of StatefulSets only",
			LOG_S("ifname", v->call->ifname));
	return 0;
}

int agent_add(const struct rail_request *const *v, size_t n, struct err *e)
{
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++)
		r = sayable(v[i], e);
	if (r == 0)
		r = agent_healthy(v[0]->conf.socket, v[0]->call, e);
	for (size_t i = 0; i < n && r == 0; i++) {
		/* Set before the request: the agent may have allocated the address even if it
		 * answers with an error or the answer is lost. */
		v[i]->call->flags->is_new = true;
		r = add_one(v[i], e);
	}
	return r;
}

/* --- release --- */

/* Releases the address of call->ifname, or with `whole` those of all interfaces of the pod. Returns
 * 1 if the agent refuses the request: its GC then releases the addresses. With invalid CNI_ARGS the
 * request names no pod. */
static int del_one(const char *socket, const struct cni_ipam_call *call, const char *path,
		   bool whole, struct err *e)
{
	auto_agent_reply struct agent_reply reply = AGENT_REPLY_INIT;
	auto_buf struct buf b, keep;
	struct cni_args args = {0};
	struct json_out o;
	int r;

	buf_init(&b, REQUEST_MAX);
	buf_init(&keep, REQUEST_MAX);
	if (cni_args_parse(call->call->args_text, &args, &keep, NULL) < 0)
		args = (struct cni_args){0};
	jo_init(&o, &b, 0);
	jo_obj(&o);
	agent_put_pod(&o, call, &args);
	if (!whole)
		jo_kstr(&o, "ifName", call->ifname);
	jo_end_obj(&o);
	r = agent_call(socket, &call->call->root, "DELETE", path, &b, &reply, e);
	if (r < 0 || reply.status == 200)
		return r;
	failure(&reply, "spiderpool IP release error", "DELETE /ipam/ip", "deleteIpamIpFailure", e);
	return 1;
}

int agent_del(const char *socket, const struct cni_ipam_call *const *calls, size_t n, struct err *e)
{
	int r = agent_healthy(socket, calls[0], e);

	for (size_t i = 0; i < n && r >= 0; i++) {
		struct err reason = ERR_INIT;

		r = del_one(socket, calls[i], "/v1/ipam/ip", false, &reason);
		if (r > 0)
			log_warn("cannot release the address, the agent's GC will release it",
				 LOG_S("ifname", calls[i]->ifname), LOG_S("error", reason.text));
		else if (r < 0 && e)
			*e = reason;
	}
	return r < 0 ? r : 0;
}

/* The agent has no quarantine, and this release frees the addresses of all interfaces of the
 * pod. So this ADD fails, and the runtime retries it. */
int agent_conflict(const char *socket, const struct cni_ipam_call *call, const struct ipaddr *a,
		   const struct mac *other, struct err *e)
{
	struct err reason = ERR_INIT;

	if (del_one(socket, call, "/v1/ipam/ips", true, &reason) != 0)
		log_warn("cannot release the pod's addresses", LOG_S("error", reason.text));
	return err_kind(
		e, ERR_AGAIN, -EADDRINUSE,
		"ip conflict: pod's interface %s with an conflicting ip %s, which is located "
		"at %s",
		call->ifname, ip_str(a, (char[IP_TEXT_MAX]){0}),
		other && other->len ? mac_str(other, (char[MAC_TEXT_MAX]){0})
				    : "an unknown link address");
}
