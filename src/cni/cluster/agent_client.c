/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/cluster/agent_client.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "cni/ipam/spiderpool/legacy_agent.h"
#include "wire/http/http1.h"

#define UNIRAIL_API "/v1/unirail/"

/* Time limits of requests. REQUEST_MS: the agent may have to read a pod that its watch has not
 * delivered, and to query the kubelet. */
enum {
	REQUEST_MS = 30 * 1000,
	RELEASE_MS = 10 * 1000,
	REPORT_MS = 1000,
	/* additional wait for an agent that restarts: an update of its DaemonSet ends the old agent
	 * before it starts the new one. */
	RESTART_MS = 30 * 1000,
	BODY_MAX = 4 << 20,
	PATH_BYTES = 160
};

static void call_of(const struct cni_call *c, const struct pod_conf *conf, const char *method,
		    const char *path, const struct buf *body, char at[static PATH_BYTES],
		    struct http1_call *ret)
{
	*ret = (struct http1_call){
		.socket = conf->agent,
		.request = {.method = method, .target = path},
		.timeout_ms = REPORT_MS,
		.max = BODY_MAX,
	};
	if (!c->root.host) {
		snprintf(at, PATH_BYTES, "/proc/self/fd/%d%s", c->root.fd, conf->agent);
		ret->socket = at;
	}
	if (body) {
		ret->request.type = HTTP_JSON;
		ret->request.body = buf_span(body);
	}
}

static int unavailable(const struct pod_conf *conf, int r, struct err *e)
{
	err_wrap(e, r,
		 "unirail's agent does not answer on '%s' (is 'unirail agent' running on this "
		 "node?)",
		 conf->agent);
	if (e)
		e->kind = ERR_AGAIN;
	return r;
}

/* Sets ret to the HTTP status and the agent's answer. Returns 0 or -errno. */
static int request(const struct cni_call *c, const struct pod_conf *conf, int limit_ms,
		   int restart_ms, const char *method, const char *path, const struct buf *body,
		   struct agent_reply *ret, struct err *e)
{
	struct http1_call call;
	char at[PATH_BYTES];
	int r;

	call_of(c, conf, method, path, body, at, &call);
	call.timeout_ms = limit_ms + restart_ms;
	call.restart_ms = restart_ms;
	r = http1_call(&call, &ret->body, e);
	if (r < 0)
		return unavailable(conf, r, e);
	ret->status = r;
	if (ret->body.len && json_parse(&ret->doc, buf_span(&ret->body), BODY_MAX, NULL) < 0)
		ret->doc = NULL;
	return 0;
}

static int failed(const struct agent_reply *reply, struct err *e)
{
	int r = agent_failure(reply, "unirail's agent", e);

	if (e && reply->status == 503)
		e->kind = ERR_AGAIN;
	if (e && reply->status == 404)
		err_wrap(e, r,
			 "the server on the socket has no API for networks of pods: is the server "
			 "'unirail ipam serve' and not 'unirail agent'?");
	return r;
}

/* --- request of a pod's networks --- */

static void put_list(struct json_out *o, const char *key, const struct json_strs *l)
{
	jo_key(o, key);
	jo_strs(o, l);
}

static void put_pod(struct json_out *o, const struct cni_call *c, const struct cni_args *a)
{
	jo_kstr(o, "containerID", c->container_id);
	jo_kstr(o, "podNamespace", a->pod_namespace ? a->pod_namespace : "");
	jo_kstr(o, "podName", a->pod_name ? a->pod_name : "");
	jo_kstr(o, "podUID", a->pod_uid ? a->pod_uid : "");
}

static void put_question(struct buf *b, const struct cni_call *c, const struct pod_conf *conf,
			 const struct cni_args *a)
{
	struct json_out o;

	jo_init(&o, b, 0);
	jo_obj(&o);
	put_pod(&o, c, a);
	jo_kstr(&o, "ifName", c->ifname);
	jo_kint(&o, "netconfNetworks", (int64_t)pod_conf_networks(conf));
	if (conf->cluster_network)
		jo_kstr(&o, "clusterNetwork", conf->cluster_network);
	put_list(&o, "defaultNetworks", &conf->default_networks);
	if (conf->has_system)
		put_list(&o, "systemNamespaces", &conf->system_namespaces);
	jo_kbool(&o, "namespaceIsolation", conf->isolation);
	jo_kstr(&o, "globalNamespaces", conf->global_namespaces);
	jo_kstr(&o, "multusNamespace", conf->multus_namespace);
	jo_end_obj(&o);
}

static void log_warnings(const struct json *answer)
{
	struct json_walk w = json_walk_start(json_get(answer, "warnings"));
	const struct json *v;

	while ((v = json_walk_next(&w, NULL)))
		if (json_string(v))
			log_warn("the agent warns about the pod's networks",
				 LOG_S("warning", json_string(v)));
}

static int read_args(const struct cni_call *c, struct buf *keep, struct cni_args *ret,
		     struct err *e)
{
	int r = cni_args_parse(c->args_text, ret, keep, e);

	if (r < 0 || (ret->pod_namespace && *ret->pod_namespace && ret->pod_name && *ret->pod_name))
		return r;
	return err_kind(e, ERR_ENV, -EINVAL,
			"no pod in the request: CNI_ARGS must contain K8S_POD_NAMESPACE and "
			"K8S_POD_NAME");
}

int pod_agent_networks(const struct cni_call *c, const struct pod_conf *conf, struct json_doc **ret,
		       struct err *e)
{
	auto_agent_reply struct agent_reply reply = AGENT_REPLY_INIT;
	auto_buf struct buf b, keep;
	struct cni_args args = {0};
	int r;

	buf_init(&b, BODY_MAX);
	buf_init(&keep, 1 << 16);
	r = read_args(c, &keep, &args, e);
	if (r < 0)
		return r;
	put_question(&b, c, conf, &args);
	r = request(c, conf, REQUEST_MS, RESTART_MS, "POST", UNIRAIL_API "pods/networks", &b,
		    &reply, e);
	if (r < 0)
		return r;
	if (reply.status != 200)
		return failed(&reply, e);
	if (!reply.doc || json_kind(json_get(json_root(reply.doc), "networks")) != JSON_ARRAY)
		return err_set(e, -EPROTO, "the answer of '%s' has no networks", conf->agent);
	log_warnings(json_root(reply.doc));
	*ret = take(reply.doc);
	return 0;
}

/* --- report of an ADD, readiness, release of addresses --- */

/* Stores the report in a file for the agent, without fsync: after a power loss the container no
 * longer exists. */
static bool leave_word(const struct cni_call *c, const char *state_dir, const struct buf *b)
{
	auto_free char *path = NULL;
	auto_fd int fd = -1;

	if (!state_dir)
		return false;
	path = xasprintf("%s" POD_STATUS_DIR "/%s", state_dir, c->container_id);
	fd = file_open(&c->root, path, O_WRONLY | O_CREAT | O_TRUNC, 0600, NULL);
	return fd >= 0 && fd_write_all(fd, b->p, b->len, NULL) == 0;
}

static void put_report(struct buf *b, const struct cni_call *c, const struct cni_args *args,
		       const struct buf *status, const struct buf *message)
{
	struct json_out o;

	jo_init(&o, b, 0);
	jo_obj(&o);
	put_pod(&o, c, args);
	jo_kstr(&o, "networkStatus", status->p);
	jo_kstr(&o, "message", message->p);
	jo_end_obj(&o);
}

void pod_agent_report(const struct cni_call *c, const struct pod_conf *conf, const char *state_dir,
		      const struct buf *status, const struct buf *message)
{
	auto_buf struct buf b, keep;
	struct cni_args args = {0};
	struct err reason = ERR_INIT;
	struct http1_call call;
	char at[PATH_BYTES];
	bool left = false;

	buf_init(&b, BODY_MAX);
	buf_init(&keep, 1 << 16);
	if (read_args(c, &keep, &args, &reason) == 0) {
		put_report(&b, c, &args, status, message);
		left = leave_word(c, state_dir, &b);
		call_of(c, conf, "POST", UNIRAIL_API "pods/report", &b, at, &call);
		http1_send(&call, &reason);
	}
	if (reason.code)
		log_warn(
			left ? "cannot reach the agent: it writes the pod's network-status when it "
			       "runs again"
			     : "the pod's network-status is not written",
			LOG_S("error", reason.text));
}

int pod_agent_status(const struct cni_call *c, const struct pod_conf *conf, struct err *e)
{
	auto_agent_reply struct agent_reply reply = AGENT_REPLY_INIT;
	int r = request(c, conf, RELEASE_MS, 0, "GET", "/v1/runtime/readiness", NULL, &reply, e);

	if (r == 0 && reply.status != 200)
		r = failed(&reply, e);
	if (r < 0 && e)
		e->kind = ERR_UNAVAILABLE;
	return r;
}

int pod_agent_release(const struct cni_call *c, const struct pod_conf *conf, struct err *e)
{
	auto_agent_reply struct agent_reply reply = AGENT_REPLY_INIT;
	auto_buf struct buf b;
	struct json_out o;
	int r;

	buf_init(&b, BODY_MAX);
	jo_init(&o, &b, 0);
	jo_obj(&o);
	jo_kstr(&o, "containerID", c->container_id);
	jo_end_obj(&o);
	r = request(c, conf, RELEASE_MS, 0, "POST", UNIRAIL_API "pods/release", &b, &reply, e);
	return r < 0 || reply.status == 200 ? r : failed(&reply, e);
}
