/* SPDX-License-Identifier: Apache-2.0 */
/* SpiderEndpoints whose pod is gone. */
#include <string.h>

#include "base/cleanup.h"
#include "controller/gc/reap_priv.h"
#include "kube/kinds.h"

#define FINALIZER "spiderpool.spidernet.io"

static bool is_live(const struct reap *g, const struct kube_object *o)
{
	const struct kube_object *pod = census_get(g->conf.census, CENSUS_PODS, o->ns, o->name);
	const char *uid = census_endpoint(o)->uid;

	return pod && !census_pod(pod)->finished && (!*uid || strcmp(pod->uid, uid) == 0);
}

/* How long its pod has been gone before it is our business. */
static int64_t patience(const struct reap *g, const struct census_endpoint *x)
{
	if (!x->ours || x->deleting || reap_node_is_gone(g, x->node))
		return g->conf.grace_ms;
	return REAP_SCANS * g->conf.interval_ms;
}

static bool is_due(struct reap *g, const struct kube_object *o)
{
	struct census_endpoint *x = census_endpoint(o);
	int64_t wait;

	if (is_live(g, o) || reap_node_is_cut_off(g, x->node)) {
		x->since = 0;
		return false;
	}
	if (!x->since)
		x->since = reap_now(g) > 0 ? reap_now(g) : 1;
	wait = x->since + patience(g, x) - reap_now(g);
	if (wait > 0)
		return false;
	if (asks_pod(g->conf.asks, o->ns, o->name, x->uid) != ASKS_GONE)
		return false;
	return x->owned || asks_name(g->conf.asks, o->ns, o->name) == ASKS_GONE;
}

/* Nothing of ours waits for the object; others' finalizers stay. */
static void take_off(struct reap *g, const struct kube_object *o)
{
	auto_buf struct buf b;
	struct json_out j;

	buf_init(&b, 4096);
	jo_init(&j, &b, 0);
	jo_obj(&j);
	jo_key(&j, "metadata");
	jo_obj(&j);
	jo_kstr(&j, "resourceVersion", o->version);
	jo_key(&j, "finalizers");
	jo_arr(&j);
	for (const char *f = census_endpoint(o)->others; *f; f += strlen(f) + 1)
		jo_str(&j, f);
	jo_end_arr(&j);
	jo_end_obj(&j);
	jo_end_obj(&j);
	reap_begin(g, CENSUS_ENDPOINTS, o,
		   &(struct kube_request){
			   .verb = KUBE_MERGE_PATCH,
			   .on = {.kind = &kube_endpoints, .ns = o->ns, .name = o->name},
			   .body = buf_span(&b),
			   .once = true,
		   })
		->count = &g->stats.finalizers;
}

static void remove_it(struct reap *g, const struct kube_object *o)
{
	const struct census_endpoint *x = census_endpoint(o);
	struct reap_flight *f =
		reap_begin(g, CENSUS_ENDPOINTS, o,
			   &(struct kube_request){
				   .verb = KUBE_DELETE,
				   .on = {.kind = &kube_endpoints, .ns = o->ns, .name = o->name},
				   .uid = o->uid,
				   .resource_version = o->version,
			   });

	f->count = &g->stats.endpoints;
	/* Spiderpool's addresses are counted with their records, and a node that is there by its agent. */
	f->addresses = x->ours && reap_node_is_gone(g, x->node) ? x->n : 0;
	f->reason = xstrdup("EndpointRemoved");
	f->words = xasprintf("pod '%s/%s' is gone%s; it had %zu addresses", o->ns, o->name,
			     reap_node_is_gone(g, x->node) ? ", and its node too" : "", x->n);
}

void reap_endpoints_pass(struct reap *g)
{
	const struct census *c = g->conf.census;

	for (size_t i = 0; i < census_count(c, CENSUS_ENDPOINTS); i++) {
		const struct kube_object *o = census_at(c, CENSUS_ENDPOINTS, i);
		const struct census_endpoint *x = census_endpoint(o);

		if (!is_due(g, o) || !reap_is_free(g, CENSUS_ENDPOINTS, o))
			continue;
		if (x->finalizer)
			take_off(g, o);
		else if (!x->deleting)
			remove_it(g, o);
	}
}
