/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses on a node of a cluster: there is its part of each pool, and there may be more of it (api_park.c). */
#include <errno.h>

#include "agent/api/api.h"
#include "agent/migration/handover.h"
#include "base/cleanup.h"
#include "base/log.h"

static int64_t now(const struct ipam_api *a)
{
	return loop_now_ms(a->conf.loop);
}

static bool may_wait(const struct api_call *c)
{
	return c->api->conf.wait_ms > 0 && (!c->waited || c->deadline > now(c->api));
}

/* How many are missing, or why none can be had. What a pod had before is waited for as long as there is
 * time left to find it another. */
static int look(struct api_call *c, struct ipam *store, const struct ipam_ask *asks, size_t n,
		struct err *e)
{
	bool no_own = !may_wait(c) || (c->waited && now(c->api) >= c->own_until);
	struct needs before = {0};
	int r;

	needs_done(&c->needs);
	api_promised(c, &before);
	r = ipam_needs(store, asks, n, &before, api_is_dry, c->api, no_own, &c->needs, e);
	needs_done(&before);
	for (size_t i = 0; i < c->needs.n_names; i++)
		if (c->needs.names[i].own)
			c->own = c->needs.names[i].ip;
	return r;
}

/* Somebody has an address that is asked for by name. What the pod had before may be on its way. */
static bool is_refused(const struct api_call *c)
{
	for (size_t i = 0; i < c->needs.n_names; i++)
		if (!c->needs.names[i].own &&
		    lender_refused(c->api->conf.lender, &c->needs.names[i]))
			return true;
	return false;
}

/* "all IP addresses used out: ...", and where else was looked. */
static void add_words(struct api_call *c, struct err *e)
{
	auto_buf struct buf w;

	buf_init(&w, 600);
	for (size_t i = 0; i < c->needs.n; i++)
		if (c->needs.v[i].missing)
			lender_words(c->api->conf.lender, c->needs.v[i].pool, &w);
	for (size_t i = 0; i < c->needs.n_names; i++)
		lender_name_words(c->api->conf.lender, &c->needs.names[i].ip, &w);
	if (w.len)
		err_kind(e, e->kind, e->code, "%s%s", e->text, w.p);
}

static void count_times(struct api_call *c, int64_t from)
{
	struct metrics *m = c->api->conf.metrics;

	if (!m)
		return;
	metrics_phase_time(m, METRICS_STORE, now_mono_us() - from);
	metrics_phase_time(m, METRICS_QUEUE, c->queue_us);
	if (c->waited)
		metrics_phase_time(m, METRICS_BLOCKS, from - c->park_us);
}

static bool has_own(const struct api_call *c, const struct ipam_grant *g, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (ip_eq(&g[i].address.ip, &c->own))
			return true;
	return !c->own.family;
}

/* It asked for none by name, so another will do; but it had one. */
static void say_not_own(const struct api_call *c)
{
	char text[IP_TEXT_MAX];
	auto_buf struct buf why;

	buf_init(&why, 500);
	lender_name_words(c->api->conf.lender, &c->own, &why);
	log_limited(
		LOG_WARN, 2,
		"a pod gets another address than it had before, which was not to be had in time",
		LOG_S("namespace", c->pod.ns), LOG_S("pod", c->pod.name),
		LOG_S("ip", ip_str(&c->own, text)), LOG_S("where", why.len ? why.p : ""));
}

static int take_now(struct api_call *c, struct ipam *store, const struct ipam_ask *asks, size_t n,
		    struct ipam_grant **ret, size_t *n_ret, struct err *e)
{
	int64_t from = now_mono_us();
	int r = ipam_allocate(store, asks, n, ret, n_ret, e);

	count_times(c, from);
	if (r == 0 && !has_own(c, *ret, *n_ret))
		say_not_own(c);
	return r;
}

/* Pods and pools are read within moments of the start. */
static int is_ready(const struct ipam_api *a, struct err *e)
{
	int r = lender_ready(a->conf.lender, e);

	if (r == 0 && !cluster_pools_are_old(a->conf.cluster) &&
	    !cluster_synced(a->conf.cluster, CLUSTER_NAMESPACES))
		r = cluster_trouble(a->conf.cluster, CLUSTER_NAMESPACES, e);
	return r;
}

static int allocate(struct api_call *c, struct ipam *store, const struct ipam_ask *asks, size_t n,
		    struct ipam_grant **ret, size_t *n_ret, struct err *e)
{
	int r = look(c, store, asks, n, e);

	if (r > 0 && may_wait(c) && !is_refused(c)) {
		api_park(c);
		return API_PARKED;
	}
	if (r >= 0)
		r = take_now(c, store, asks, n, ret, n_ret, e);
	if (r == -ENOSPC || r == -EADDRNOTAVAIL)
		add_words(c, e);
	return r;
}

/* What the pod's name had on another node is waited for: API_PARKED, or an error. */
static int await_kept(struct api_call *c, struct ipam *store, const struct api_asks *asks,
		      struct err *e)
{
	struct ipam_api *a = c->api;
	struct identity who;
	int r;

	identity_of(&c->pod, &a->conf.identity, &who);
	if (!a->conf.handover || c->pod_is_asked || !identity_is_sticky(&who))
		return 0;
	r = handover_wait(a->conf.handover, store, &who, c->pod.uid, asks->v, asks->n, !may_wait(c),
			  e);
	if (r > 0) {
		needs_done(&c->needs);
		api_park(c);
		return API_PARKED;
	}
	return r;
}

static void kept_came(struct api_call *c)
{
	struct identity who;

	identity_of(&c->pod, &c->api->conf.identity, &who);
	if (c->api->conf.handover && identity_is_sticky(&who))
		handover_came(c->api->conf.handover, &who);
}

int api_allocate(struct api_call *c, struct ipam *store, const struct ipam_ask *asks, size_t n,
		 bool whole, struct ipam_grant **ret, size_t *n_ret, struct err *e)
{
	struct ipam_api *a = c->api;
	struct api_asks wished;
	int r;

	if (!a->conf.lender)
		return take_now(c, store, asks, n, ret, n_ret, e);
	r = is_ready(a, e);
	if (r < 0 && may_wait(c)) {
		needs_done(&c->needs);
		api_park(c);
		return API_PARKED;
	}
	if (r < 0)
		return r;
	if (!c->has_pod)
		return allocate(c, store, asks, n, ret, n_ret, e);
	r = api_asks_make(c, store, asks, n, whole, &wished, e);
	if (r == -EAGAIN && may_wait(c)) {
		/* A pool that is being made, a namespace that was not seen yet. */
		api_asks_done(&wished);
		needs_done(&c->needs);
		api_park(c);
		return API_PARKED;
	}
	if (r == 0)
		r = await_kept(c, store, &wished, e);
	if (r == 0)
		r = allocate(c, store, wished.v, n, ret, n_ret, e);
	if (r == 0) {
		kept_came(c);
		api_asks_routes(c, store, &wished, *ret, *n_ret);
	}
	api_asks_done(&wished);
	return r;
}
