/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that wait for more of their pools, and what the cluster is told of them. */
#include <stdlib.h>
#include <string.h>

#include "agent/api/internal.h"
#include "base/alloc.h"

enum { DRY_MS = 10 * 1000, DRY_MAX = 256 };

static void retime(struct ipam_api *a);

static int64_t now(const struct ipam_api *a)
{
	return loop_now_ms(a->conf.loop);
}

/* --- pools that could not be had --- */

bool api_is_dry(void *arg, const char *pool)
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
	node_pools_want(a->conf.lender, pool, n);
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
		node_pools_names(a->conf.lender, v, n);
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

void api_promised(const struct api_call *c, struct needs *ret)
{
	for (const struct api_call *p = c->api->parked; p && p->seq < c->seq; p = p->next)
		for (size_t i = 0; i < p->needs.n; i++)
			needs_add(ret, p->needs.v[i].pool, p->needs.v[i].count);
}

/* --- waiting --- */

void api_pending_add(struct api_call *c)
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
static void pending_remove(struct api_call **at)
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
		pending_remove(at);
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
			pending_remove(at);
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
