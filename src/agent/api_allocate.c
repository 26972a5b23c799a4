/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses on a node of a cluster: there is its part of each pool, and there may be more of it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/api.h"
#include "agent/handover.h"
#include "base/cleanup.h"
#include "base/log.h"

enum { DRY_MS = 10 * 1000, DRY_MAX = 256 };

static void retime(struct ipam_api *a);

static int64_t now(const struct ipam_api *a)
{
	return loop_now_ms(a->conf.loop);
}

/* --- pools that could not be had --- */

static bool is_dry(void *arg, const char *pool)
{
	const struct ipam_api *a = arg;

	for (size_t i = 0; i < a->n_dry; i++)
		if (strcmp(a->dry[i].pool, pool) == 0)
			return a->dry[i].until_ms > now(a);
	return false;
}

static void set_dry(struct ipam_api *a, const char *pool)
{
	size_t i = 0;

	while (i < a->n_dry && strcmp(a->dry[i].pool, pool) != 0)
		i++;
	if (i == a->n_dry) {
		if (a->n_dry == DRY_MAX) {
			free(a->dry[0].pool);
			memmove(a->dry, a->dry + 1, --a->n_dry * sizeof(*a->dry));
			i--;
		}
		VEC_PUSH(a->dry, a->n_dry) = (struct api_dry){.pool = xstrdup(pool)};
	}
	a->dry[i].until_ms = now(a) + DRY_MS;
}

/* --- what is wanted of the cluster --- */

static uint32_t waiting_for(const struct ipam_api *a, const char *pool)
{
	uint32_t n = 0;

	for (const struct api_call *c = a->parked; c; c = c->next) {
		const struct need *x = needs_find(&c->needs, pool);

		n += x ? x->count : 0;
	}
	return n;
}

/* Tells the lender what changed. */
static void tell(struct ipam_api *a, const char *pool)
{
	uint32_t n = waiting_for(a, pool);
	const struct need *told = needs_find(&a->wanted, pool);

	if (n == (told ? told->count : 0))
		return;
	needs_add(&a->wanted, pool, n - (told ? told->count : 0));
	lender_want(a->conf.lender, pool, n);
}

/* The strings are the calls'. */
static void tell_names(struct ipam_api *a)
{
	auto_free struct need_name *v = NULL;
	size_t n = 0;

	for (const struct api_call *c = a->parked; c; c = c->next)
		for (size_t i = 0; i < c->needs.n_names; i++)
			VEC_PUSH(v, n) = c->needs.names[i];
	if (n || a->named)
		lender_names(a->conf.lender, v, n);
	a->named = n > 0;
}

static void tell_all(struct ipam_api *a)
{
	tell_names(a);
	for (size_t i = 0; i < a->wanted.n; i++)
		tell(a, a->wanted.v[i].pool);
	for (const struct api_call *c = a->parked; c; c = c->next)
		for (size_t i = 0; i < c->needs.n; i++)
			tell(a, c->needs.v[i].pool);
}

/* What those have been promised that came before. */
static void promised(const struct api_call *c, struct needs *ret)
{
	for (const struct api_call *p = c->api->parked; p && p->seq < c->seq; p = p->next)
		for (size_t i = 0; i < p->needs.n; i++)
			needs_add(ret, p->needs.v[i].pool, p->needs.v[i].count);
}

/* --- waiting --- */

static void park(struct api_call *c)
{
	struct ipam_api *a = c->api;
	struct api_call **at = &a->parked;

	if (!c->waited) {
		c->park_us = now_mono_us();
		c->deadline = now(a) + a->conf.wait_ms;
		c->own_until = now(a) + a->conf.wait_ms / 3;
	}
	c->stage = now(a) + a->conf.wait_ms / 3;
	c->waited = c->parked = true;
	while (*at && (*at)->seq < c->seq)
		at = &(*at)->next;
	c->next = *at;
	*at = c;
	tell_all(a);
	retime(a);
}

/* Back into the queue. */
static void unpark(struct api_call **at)
{
	struct api_call *c = *at;

	*at = c->next;
	c->parked = false;
	c->late = true;
	api_enqueue(c);
}

static void on_park_timer(void *arg)
{
	struct ipam_api *a = arg;
	struct api_call **at = &a->parked;

	a->park_timer = NULL;
	while (*at) {
		struct api_call *c = *at;

		if (c->stage > now(a) && c->deadline > now(a)) {
			at = &c->next;
			continue;
		}
		for (size_t i = 0; i < c->needs.n; i++)
			if (c->needs.v[i].missing)
				set_dry(a, c->needs.v[i].pool);
		unpark(at);
	}
	tell_all(a);
	retime(a);
}

static void retime(struct ipam_api *a)
{
	int64_t next = INT64_MAX, wait;

	loop_del_timer(a->park_timer);
	a->park_timer = NULL;
	for (const struct api_call *c = a->parked; c; c = c->next) {
		next = c->stage < next ? c->stage : next;
		next = c->deadline < next ? c->deadline : next;
	}
	if (!a->parked)
		return;
	wait = next - now(a);
	a->park_timer = loop_add_timer(a->conf.loop, wait > 0 ? wait : 0, on_park_timer, a);
}

static bool waits_for(const struct api_call *c, const char *pool)
{
	for (size_t i = 0; i < c->needs.n_names; i++)
		if (strcmp(c->needs.names[i].pool, pool) == 0)
			return true;
	return c->needs.n == 0 || needs_find(&c->needs, pool);
}

void ipam_api_changed(struct ipam_api *a, const char *pool)
{
	struct api_call **at = &a->parked;

	while (*at) {
		if (!pool || waits_for(*at, pool))
			unpark(at);
		else
			at = &(*at)->next;
	}
	tell_all(a);
	retime(a);
}

void ipam_api_hurry(struct ipam_api *a)
{
	a->conf.wait_ms = 0;
	ipam_api_changed(a, NULL);
}

void api_park_free(struct ipam_api *a)
{
	struct api_call *lists[] = {a->parked, a->fetching};

	loop_del_timer(a->park_timer);
	for (size_t i = 0; i < ARRAY_LEN(lists); i++)
		while (lists[i]) {
			struct api_call *c = lists[i];

			lists[i] = c->next;
			cluster_fetch_cancel(c->fetch);
			cluster_ask_cancel(c->ask);
			api_call_free(c);
		}
	needs_done(&a->wanted);
	for (size_t i = 0; i < a->n_dry; i++)
		free(a->dry[i].pool);
	free(a->dry);
}

/* --- allocating --- */

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
	promised(c, &before);
	r = ipam_needs(store, asks, n, &before, is_dry, c->api, no_own, &c->needs, e);
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
	log_warn("a pod gets another address than it had before, which was not to be had in time",
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
		park(c);
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
		park(c);
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
		park(c);
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
		park(c);
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
