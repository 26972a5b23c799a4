/* SPDX-License-Identifier: Apache-2.0 */
/* Resolves the networks of a pod and answers the request. */
#include "agent/network/network.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/api/internal.h"
#include "agent/network/internal.h"
#include "base/alloc.h"
#include "base/child.h"
#include "base/log.h"
#include "cni/protocol/cni.h"
#include "device/podres.h"
#include "spec/annotations.h"
#include "spec/definition.h"

enum { DEVICES_MS = PODRES_TIMEOUT_MS + 1000, DEVICES_MAX = 16 << 20 };
/* SYNC_MS: longest time that a request waits for the first list of definitions; SYNC_POLL_MS:
 * interval of the request's attempts meanwhile. */
enum { SYNC_MS = 10 * 1000, SYNC_POLL_MS = 100 };

struct nets_request {
	struct nets *nets;
	struct http_request *q;
	struct json_doc *doc; /* owns the strings of the request */
	const char *ns, *name;
	struct net_request request;
	struct net_plan plan;
	struct pod_facts pod;
	struct cluster_fetch *fetch;
	struct loop_alarm retry; /* waits for the first list of definitions until sync_end */
	int64_t sync_end;
	uint64_t seq;
	enum {
		LOOKUP_NONE,
		LOOKUP_WAITS,
		LOOKUP_RUNS
	} devices; /* LOOKUP_RUNS: the query in flight includes this request */
	struct nets_request *next;
};

struct nets *nets_new(const struct nets_conf *c)
{
	struct nets *n = xcalloc(1, sizeof(*n));

	n->conf = *c;
	status_recovery_start(n);
	return n;
}

static void request_free(struct nets_request *a)
{
	struct nets_request **p = &a->nets->requests;

	while (*p != a)
		p = &(*p)->next;
	*p = a->next;
	cluster_fetch_cancel(a->fetch);
	loop_alarm_cancel(&a->retry);
	net_plan_done(&a->plan);
	pod_facts_done(&a->pod);
	json_free(a->doc);
	free(a);
}

void nets_free(struct nets *n)
{
	if (!n)
		return;
	child_cancel(n->child);
	while (n->requests)
		request_free(n->requests);
	nets_status_free(n);
	loop_alarm_cancel(&n->scan);
	free(n);
}

void nets_event(struct nets *n, const struct pod_facts *pod, bool warning, const char *reason,
		const char *message)
{
	kube_events_add(n->conf.events, &(struct kube_event){.api_version = "v1",
							     .kind = "Pod",
							     .ns = pod->ns,
							     .name = pod->name,
							     .uid = pod->uid,
							     .warning = warning,
							     .reason = reason,
							     .message = message});
}

/* --- response to a request --- */

static void fail(struct nets_request *a, const struct err *e)
{
	log_limited(LOG_WARN, 2, "cannot determine the networks of a pod",
		    LOG_S("namespace", a->ns), LOG_S("pod", a->name), LOG_S("error", e->text));
	http_answer_error(a->q, 500, cni_code(e), e->text);
	request_free(a);
}

static void answer(struct nets_request *a)
{
	const struct nets_conf *c = &a->nets->conf;
	auto_buf struct buf b;
	struct json_out o;

	buf_init(&b, API_ANSWER_MAX);
	jo_init(&o, &b, 0);
	jo_obj(&o);
	net_plan_put(&a->plan, &o);
	jo_key(&o, "coordinator");
	c->settings(c->settings_arg, &a->pod, &o);
	jo_kstr(&o, "stateDir", c->state_dir);
	jo_end_obj(&o);
	if (b.over)
		http_answer_error(a->q, 500, 999,
				  "the response with the pod's networks is longer than 4 MiB");
	else
		http_answer(a->q, &(struct http1_response){
					  .status = 200, .type = HTTP_JSON, .body = buf_span(&b)});
	request_free(a);
}

/* --- devices that the kubelet allocated to the pod --- */

static void put_devices(const struct nets_request *a, const struct kubelet *k, struct buf *b)
{
	auto_allocated struct allocated found = {0};
	struct err e = ERR_INIT;

	buf_printf(b, "#%llu\n", (unsigned long long)a->seq);
	if (kubelet_devices(k, a->ns, a->name, a->pod.uid, &found, &e) < 0)
		buf_printf(b, "!%s\n", e.text);
	else
		allocated_print(&found, b);
}

/* Runs in a child process, because the kubelet may be slow: one query for all waiting requests.
 * Writes for each request a line "#" with its `seq`, followed by the lines of allocated_print(),
 * or by one line "!" with an error. If the query itself fails, writes only its error and returns
 * 1. */
static int find_devices(void *arg)
{
	const struct nets *n = arg;
	auto_kubelet struct kubelet k = {0};
	struct err e = ERR_INIT;
	auto_buf struct buf b;
	int r = kubelet_query(&k, n->conf.root, &e);

	buf_init(&b, DEVICES_MAX);
	if (r < 0)
		buf_str(&b, e.text);
	for (const struct nets_request *a = n->requests; a && r >= 0; a = a->next)
		if (a->devices == LOOKUP_RUNS)
			put_devices(a, &k, &b);
	return fd_write_all(STDOUT_FILENO, b.p, b.len, NULL) < 0 || r < 0;
}

/* Returns the lines of the request with that number; p NULL: there are none. */
static struct span part_of(struct span out, uint64_t seq)
{
	auto_free char *head = xasprintf("#%llu", (unsigned long long)seq);
	struct span rest = out, line, part = {NULL, 0};

	while (span_cut(&rest, '\n', &line)) {
		if (part.p && (span_has_prefix(line, "#") || !rest.p))
			return (struct span){part.p, (size_t)(line.p - part.p)};
		if (span_eq(line, head) && rest.p)
			part = rest;
	}
	return part;
}

static int take_devices(struct nets_request *a, int status, struct span out,
			const struct err *cause, struct err *e)
{
	auto_allocated struct allocated found = {0};
	struct span part = status == 0 ? part_of(out, a->seq) : out;

	if (cause) {
		*e = *cause;
		return err_wrap(e, cause->code, "query the kubelet");
	}
	if (!part.p)
		return err_set(
			e, -EPROTO,
			"the process that queries the kubelet returned no answer for the pod");
	if (status != 0 || span_has_prefix(part, "!"))
		return err_set(e, -EIO, "%.*s", (int)(part.n < 800 ? part.n : 800), part.p);
	allocated_parse(&found, part);
	net_plan_devices(&a->plan, &found);
	return 0;
}

static void query_kubelet(struct nets *n);

static void end_devices(struct nets_request *a, int status, struct span out,
			const struct err *cause)
{
	struct err e = ERR_INIT;
	int r = take_devices(a, status, out, cause, &e);

	if (r == 0) {
		answer(a);
		return;
	}
	err_wrap(&e, r, "pod '%s/%s': read its devices", a->ns, a->name);
	e.kind = ERR_AGAIN;
	fail(a, &e);
}

static void on_devices(void *arg, int status, struct span out, const struct err *cause)
{
	struct nets *n = arg;
	struct nets_request *next;

	n->child = NULL;
	for (struct nets_request *a = n->requests; a; a = next) {
		next = a->next;
		if (a->devices == LOOKUP_RUNS)
			end_devices(a, status, out, cause);
	}
	query_kubelet(n);
}

/* Queries the kubelet for all waiting requests; requests that arrive later are part of the next
 * query. */
static void query_kubelet(struct nets *n)
{
	const struct child_conf c = {
		.run = find_devices, .run_arg = n, .timeout_ms = DEVICES_MS, .max = DEVICES_MAX};
	struct err e = ERR_INIT;
	bool any = false;

	if (n->child)
		return;
	for (struct nets_request *a = n->requests; a; a = a->next)
		if (a->devices == LOOKUP_WAITS) {
			a->devices = LOOKUP_RUNS;
			any = true;
		}
	if (any && child_start(&n->child, n->conf.loop, &c, on_devices, n, &e) < 0)
		on_devices(n, 0, (struct span){NULL, 0}, &e);
}

/* --- networks of the pod --- */

/* A namespace that the cache does not have counts as untrusted, because its annotation
 * ANNOTATION_TRUSTED may be "false". */
static void judge_ns(const struct cluster *c, const char *ns, struct net_nad *ret)
{
	const struct labels *annotations = cluster_ns_annotations(c, ns);
	const char *logged = annotations ? labels_get(annotations, ANNOTATION_TRUSTED) : NULL;

	ret->trusted = annotations && definition_trusted(ns, logged, cluster_ns(c));
	ret->distrusted = !ret->trusted && (!annotations || logged);
}

static bool find_nad(void *arg, const char *ns, const char *name, struct net_nad *ret)
{
	const struct nets *n = arg;
	const struct cluster_nad *nad = cluster_nad(n->conf.cluster, ns, name);

	if (!nad)
		return false;
	*ret = (struct net_nad){
		.config = nad->config, .resource = nad->resource, .left_out = nad->left_out};
	judge_ns(n->conf.cluster, ns, ret);
	return true;
}

/* Handles a missing definition: writes an event with the error. While the first list of
 * definitions is incomplete, replaces the error by one of kind ERR_AGAIN instead, because the
 * definition may exist. */
static void judge_lack(struct nets_request *a, struct err *e)
{
	struct cluster *c = a->nets->conf.cluster;
	struct err cause = ERR_INIT;

	if (kube_cache_synced(cluster_objects(c), CLUSTER_NADS)) {
		nets_event(a->nets, &a->pod, true, "NoNetworkFound", e->text);
		return;
	}
	if (kube_cache_error(cluster_objects(c), CLUSTER_NADS, &cause) == 0)
		err_set(&cause, -EAGAIN, "the first list from the API server is not complete");
	err_kind(e, ERR_AGAIN, cause.code,
		 "pod '%s/%s': cannot look up network-attachment-definitions: %s", a->ns, a->name,
		 cause.text);
}

static void on_pod(struct nets_request *a);

static void on_retry(void *arg)
{
	struct nets_request *a = arg;

	net_plan_done(&a->plan);
	on_pod(a);
}

/* An agent that has just started does not have the definitions yet, so the request waits for them
 * instead of failing. */
static bool wait_for_sync(struct nets_request *a)
{
	const struct nets_conf *c = &a->nets->conf;

	if (kube_cache_synced(cluster_objects(c->cluster), CLUSTER_NADS) ||
	    now_mono_ms() >= a->sync_end)
		return false;
	loop_alarm_set(&a->retry, SYNC_POLL_MS);
	return true;
}

static void on_pod(struct nets_request *a)
{
	const struct net_lookup lookup = {find_nad, a->nets};
	struct allocated none = {0};
	struct err e = ERR_INIT;
	int r = net_plan_make(&a->request, &a->pod, &lookup, &a->plan, &e);

	if (r < 0) {
		if (a->plan.lacks_nad && wait_for_sync(a))
			return;
		if (a->plan.lacks_nad)
			judge_lack(a, &e);
		fail(a, &e);
		return;
	}
	if (net_plan_wants_devices(&a->plan)) {
		a->devices = LOOKUP_WAITS;
		query_kubelet(a->nets);
		return;
	}
	net_plan_devices(&a->plan, &none);
	answer(a);
}

static void on_fetched(void *arg, const struct pod_facts *p, const struct err *cause)
{
	struct nets_request *a = arg;
	struct err e = ERR_INIT;

	a->fetch = NULL;
	if (p) {
		pod_facts_copy(p, &a->pod);
		on_pod(a);
		return;
	}
	e = *cause;
	err_wrap(&e, cause->code, "read pod '%s/%s'", a->ns, a->name);
	fail(a, &e);
}

static bool is_it(const struct pod_facts *p, const struct net_request *w)
{
	return p &&
	       (!w->pod_uid || !*w->pod_uid || strcmp(p->uid, w->pod_uid) == 0 || pod_is_static(p));
}

void nets_request(struct nets *n, struct http_request *q, struct json_doc *doc, const char *ns,
		  const char *name, const struct net_request *w)
{
	const struct pod_facts *p = cluster_pod(n->conf.cluster, ns, name);
	struct nets_request *a = xcalloc(1, sizeof(*a));

	*a = (struct nets_request){.nets = n,
				   .q = q,
				   .doc = doc,
				   .ns = ns,
				   .name = name,
				   .request = *w,
				   .retry = LOOP_ALARM(n->conf.loop, on_retry, a),
				   .sync_end = now_mono_ms() + SYNC_MS,
				   .seq = ++n->seq,
				   .next = n->requests};
	n->requests = a;
	if (is_it(p, w)) {
		pod_facts_copy(p, &a->pod);
		on_pod(a);
	} else {
		a->fetch = cluster_fetch_pod(n->conf.cluster, ns, name, on_fetched, a);
	}
}
