/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "agent/api/gauges.h"
#include "agent/api/internal.h"
#include "agent/network/cni_watch.h"
#include "base/alloc.h"
#include "ipam/report.h"

/*
 * POST /v1/unirail/pools: `unirail pool` on this server's store (ipam/report.h).
 *
 * {"command": "show", "args": ["rail0"], "json": false, "release": "confirm" | "dry-run" | "do"}
 *	-> {"stdout", "stderr", "status"}: output and exit status of the command.
 * If the command fails, "error" replaces "status".
 *
 * The texts are for people and may change in any release.
 */

static const struct json_field fields[] = {
	JSON_FIELD("command", J_STR, struct api_pools_args, command),
	JSON_FIELD("args", J_STRS, struct api_pools_args, args),
	JSON_FIELD("json", J_BOOL, struct api_pools_args, json),
	JSON_FIELD("release", J_STR, struct api_pools_args, release),
	{0}};
static const struct json_table table = {fields, JSON_CLOSED, 0};

int api_read_pools(struct api_call *c)
{
	const struct api_pools_args *p = c->args;
	int r = api_body(c, "pools", &table);

	return r < 0 ? r : api_not_empty(c, "command", p->command);
}

static enum report_release release_of(const char *text)
{
	if (text && strcmp(text, "do") == 0)
		return REPORT_DO;
	return text && strcmp(text, "dry-run") == 0 ? REPORT_DRY_RUN : REPORT_CONFIRM;
}

static void put_text(struct json_out *o, const char *key, const struct buf *b)
{
	jo_kstr(o, key, b->len ? b->p : "");
}

void api_pools(struct api_call *c, struct ipam *store)
{
	const struct api_pools_args *p = c->args;
	auto_buf struct buf out, messages, answer;
	const struct report report = {.store = store,
				      .json = p->json,
				      .out = &out,
				      .messages = &messages,
				      .empty = "the IPAM server of this node has no pools\n"};
	const struct report_call call = {.command = p->command,
					 .args = (const char *const *)p->args.v,
					 .n_args = p->args.n,
					 .release = release_of(p->release)};
	struct err e = ERR_INIT;
	struct json_out o;
	int r;

	buf_init(&out, API_ANSWER_MAX / 2);
	buf_init(&messages, API_ANSWER_MAX / 8);
	buf_init(&answer, API_ANSWER_MAX);
	r = report_run(&report, &call, &e);
	if (out.over) {
		api_refuse(c, 500, 500, "the response is longer than %d MiB: request one pool",
			   API_ANSWER_MAX >> 21);
		return;
	}
	jo_init(&o, &answer, 0);
	jo_obj(&o);
	put_text(&o, "stdout", &out);
	put_text(&o, "stderr", &messages);
	if (r < 0)
		jo_kstr(&o, "error", e.text);
	else
		jo_kint(&o, "status", r);
	jo_end_obj(&o);
	buf_char(&answer, '\n');
	api_json(c, &answer);
}

/*
 * GET /v1/unirail/status: the state of this node, for `unirail status`.
 *
 * {"node", "ready", "reason": the reason why it is not ready, or "",
 *  "pools": [{"name", "used", "free", "total"}]: pools with blocks or addresses on this node,
 *  "blocks": {"owned": blocks, "borrowed": addresses, "unadopted": blocks},
 *  "pending": pods without addresses yet,
 *  "kinds": [{"kind", "staleSeconds": time since the last successful watch, "reason"}],
 *  "cni": {"used", "file", "network", "reason"}: the CNI configuration that the agent generates, or
 *  null if it generates none,
 *  "missing_resources": [{"namespace", "network", "group", "resource", "suggestion"}]: networks
 *   whose device resource no node has (spec/missing_resource.h), at most MISSING_MAX; group and
 *   suggestion: "" for none,
 *  "unconfined": parts of the sandbox that are not in force, and the reason; "": all are in force}
 */

static void put_pools(struct json_out *o, struct ipam *store)
{
	const struct pool_set *s = ipam_pools(store);
	auto_free struct gauges_pool *v = xcalloc(s->n + 1, sizeof(*v));

	gauges_pools(store, v);
	jo_key(o, "pools");
	jo_arr(o);
	for (size_t i = 0; i < s->n; i++) {
		if (v[i].used == 0 && s->v[i].usable.n == 0)
			continue;
		jo_obj(o);
		jo_kstr(o, "name", s->v[i].name);
		jo_kint(o, "used", v[i].used);
		jo_kint(o, "free", v[i].free);
		jo_kint(o, "total", v[i].total);
		jo_end_obj(o);
	}
	jo_end_arr(o);
}

static void put_blocks(struct json_out *o, const struct blocks *b)
{
	struct blocks_stats s = {0};

	if (b)
		s = blocks_stats(b);
	jo_key(o, "blocks");
	jo_obj(o);
	jo_kint(o, "owned", (int64_t)s.claims);
	jo_kint(o, "borrowed", (int64_t)s.borrowed_now);
	jo_kint(o, "unadopted", b ? (int64_t)blocks_unadopted_count(b) : 0);
	jo_end_obj(o);
}

static void put_kinds(struct json_out *o, const struct kube_cache *c)
{
	jo_key(o, "kinds");
	jo_arr(o);
	for (int k = 0; k < CLUSTER_KINDS; k++) {
		int64_t ms = kube_cache_stale_ms(c, k);
		struct err e = ERR_INIT;

		jo_obj(o);
		jo_kstr(o, "kind", kube_cache_kind_name(c, k));
		jo_kint(o, "staleSeconds", (ms + 999) / 1000);
		jo_kstr(o, "reason", kube_cache_error(c, k, &e) < 0 ? e.text : "");
		jo_end_obj(o);
	}
	jo_end_arr(o);
}

/* Limits the list, because tenants can create any number of networks. */
enum { MISSING_MAX = 1000 };

static void put_missing(struct json_out *o, const struct kube_cache *c)
{
	size_t n = 0;

	jo_key(o, "missing_resources");
	jo_arr(o);
	for (size_t i = 0; i < kube_cache_count(c, CLUSTER_NADS) && n < MISSING_MAX; i++) {
		const struct kube_object *nad = kube_cache_at(c, CLUSTER_NADS, i);
		const struct cluster_nad *v = nad->value;

		if (!v->missing)
			continue;
		n++;
		jo_obj(o);
		jo_kstr(o, "namespace", nad->ns);
		jo_kstr(o, "network", nad->name);
		jo_kstr(o, "group", v->group);
		jo_kstr(o, "resource", v->missing->resource);
		jo_kstr(o, "suggestion", v->missing->suggestion ? v->missing->suggestion : "");
		jo_end_obj(o);
	}
	jo_end_arr(o);
}

static int64_t count_calls(const struct api_call *c)
{
	int64_t n = 0;

	for (; c; c = c->next)
		n++;
	return n;
}

void api_status(struct api_call *c, struct ipam *store)
{
	const struct ipam_api *a = c->api;
	struct err e = ERR_INIT;
	auto_buf struct buf b;
	struct json_out o;
	bool ready;

	buf_init(&b, API_ANSWER_MAX);
	if (!a->conf.node_pools) {
		api_refuse(c, 404, 404, "this server is not a cluster node's agent");
		return;
	}
	ready = node_pools_ready(a->conf.node_pools, &e) == 0 &&
		cni_watch_ready(a->conf.cni, &e) == 0;
	jo_init(&o, &b, 0);
	jo_obj(&o);
	jo_kstr(&o, "node", ipam_node(store));
	jo_kbool(&o, "ready", ready);
	jo_kstr(&o, "reason", e.text);
	put_pools(&o, store);
	put_blocks(&o, node_pools_blocks(a->conf.node_pools));
	jo_kint(&o, "pending", count_calls(a->pending) + count_calls(a->resolving));
	put_kinds(&o, cluster_objects(a->conf.cluster));
	jo_key(&o, "cni");
	cni_watch_put(a->conf.cni, &o);
	put_missing(&o, cluster_objects(a->conf.cluster));
	jo_kstr(&o, "unconfined", a->conf.unconfined ? a->conf.unconfined : "");
	jo_end_obj(&o);
	buf_char(&b, '\n');
	api_json(c, &b);
}

/*
 * GET /v1/unirail/devices: the resources of this node (device/serve/serve.h), for
 * `unirail device list`.
 *
 * {"resources": [{"resource": "prefix/name", "registered", "reason": the reason why it is not
 * registered, or "",
 *	"devices": [{"id": PCI address or auxiliary device, "unhealthy": the reason, or ""}]}]}
 */

void api_devices(struct api_call *c)
{
	const struct ipam_api_conf *conf = &c->api->conf;
	auto_buf struct buf b;
	struct json_out o;

	buf_init(&b, API_ANSWER_MAX);
	if (!conf->put_devices) {
		api_refuse(c, 404, 404, "this server has no device plugin");
		return;
	}
	jo_init(&o, &b, 0);
	jo_obj(&o);
	jo_key(&o, "resources");
	conf->put_devices(conf->devices_arg, &o);
	jo_end_obj(&o);
	buf_char(&b, '\n');
	api_json(c, &b);
}
