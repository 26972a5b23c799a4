/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GET /v1/unirail/status: how this node stands, for `unirail status`.
 *
 * {"node", "ready", "why": "" or what is waited for,
 *  "pools": [{"name", "used", "free", "total"}]: those that this node has something of,
 *  "blocks": {"own", "loans", "foreign"}, "waiting": pods without addresses yet,
 *  "kinds": [{"kind", "behind": seconds, "why"}],
 *  "cni": {"used", "file", "network", "why"}: the CNI configuration that is generated; null: none,
 *  "unconfined": what of the sandbox is not in force, and why; "": all of it is}
 */
#include <stdlib.h>

#include "agent/api/api.h"
#include "agent/network/cni_watch.h"
#include "agent/api/gauges.h"
#include "base/cleanup.h"

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
	jo_kint(o, "own", (int64_t)s.claims);
	jo_kint(o, "loans", (int64_t)s.loans);
	jo_kint(o, "foreign", b ? (int64_t)blocks_foreign_count(b) : 0);
	jo_end_obj(o);
}

static void put_kinds(struct json_out *o, const struct cluster *c)
{
	jo_key(o, "kinds");
	jo_arr(o);
	for (int k = 0; k < CLUSTER_KINDS; k++) {
		struct err e = ERR_INIT;
		int64_t ms = cluster_behind_ms(c, k);

		jo_obj(o);
		jo_kstr(o, "kind", cluster_kind_name(k));
		jo_kint(o, "behind", (ms + 999) / 1000);
		jo_kstr(o, "why", cluster_trouble(c, k, &e) < 0 ? e.text : "");
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
	if (!a->conf.lender) {
		api_refuse(c, 404, 404, "this server is no node's of a cluster");
		return;
	}
	ready = lender_ready(a->conf.lender, &e) == 0 && cni_watch_ready(a->conf.cni, &e) == 0;
	jo_init(&o, &b, 0);
	jo_obj(&o);
	jo_kstr(&o, "node", ipam_node(store));
	jo_kbool(&o, "ready", ready);
	jo_kstr(&o, "why", e.text);
	put_pools(&o, store);
	put_blocks(&o, lender_blocks(a->conf.lender));
	jo_kint(&o, "waiting", count_calls(a->parked) + count_calls(a->fetching));
	put_kinds(&o, a->conf.cluster);
	jo_key(&o, "cni");
	cni_watch_put(a->conf.cni, &o);
	jo_kstr(&o, "unconfined", a->conf.unconfined ? a->conf.unconfined : "");
	jo_end_obj(&o);
	buf_char(&b, '\n');
	api_json(c, &b);
}
