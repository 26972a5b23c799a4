/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that wait for addresses, and their demand, which is reported to agent/blocks. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "agent/api/internal.h"
#include "base/alloc.h"

/*
 * EXHAUSTED_MS: how long requests skip a pool that was found exhausted; EXHAUSTED_MAX: maximum
 * number of pools that are skipped. PARTIAL_MS: a request is retried when all pools that lack
 * addresses for it have changed, because an earlier retry usually fails. But an address that is
 * released on this node, or was reserved for another request, is not reported as a change: so the
 * request is also retried PARTIAL_MS after the first of these pools has changed.
 */
enum { EXHAUSTED_MS = 10 * 1000, EXHAUSTED_MAX = 256, PARTIAL_MS = 100 };

static void retime(struct ipam_api *a);

static int64_t now(const struct ipam_api *a)
{
	return loop_now_ms(a->conf.loop);
}

/* --- exhausted pools --- */

bool api_is_exhausted(void *arg, const char *pool)
{
	const struct ipam_api *a = arg;

	for (size_t i = 0; i < a->n_exhausted; i++)
		if (strcmp(a->exhausted[i].pool, pool) == 0)
			return a->exhausted[i].until_ms > now(a);
	return false;
}

static void set_exhausted(struct ipam_api *a, const char *pool)
{
	size_t i = 0;

	while (i < a->n_exhausted && strcmp(a->exhausted[i].pool, pool) != 0)
		i++;
	if (i == a->n_exhausted) {
		if (a->n_exhausted == EXHAUSTED_MAX) {
			free(a->exhausted[0].pool);
			memmove(a->exhausted, a->exhausted + 1,
				--a->n_exhausted * sizeof(*a->exhausted));
			i--;
		}
		VEC_PUSH(a->exhausted, a->n_exhausted) =
			(struct api_exhausted){.pool = xstrdup(pool)};
	}
	a->exhausted[i].until_ms = now(a) + EXHAUSTED_MS;
}

/* --- demand reported to agent/blocks --- */

/* Sums up the needs of the pending calls that arrived before `end`; NULL: of all pending calls. */
static void sum_before(const struct ipam_api *a, const struct api_call *end, struct needs *ret)
{
	auto_free const struct needs **v = NULL;
	size_t n = 0;

	for (const struct api_call *c = a->pending; c && (!end || c->seq < end->seq); c = c->next)
		VEC_PUSH(v, n) = &c->needs;
	needs_sum(v, n, ret);
}

/* Reports the pools whose demand has changed; the old and the new list are sorted by name. */
static void report_pools(struct ipam_api *a, struct blocks *b)
{
	struct needs old = a->wanted;
	size_t i = 0, k = 0;

	a->wanted = (struct needs){0};
	sum_before(a, NULL, &a->wanted);
	while (i < old.n || k < a->wanted.n) {
		int order = i == old.n	       ? 1
			    : k == a->wanted.n ? -1
					       : strcmp(old.v[i].pool, a->wanted.v[k].pool);
		uint32_t was = order <= 0 ? old.v[i].count : 0;
		uint32_t is = order >= 0 ? a->wanted.v[k].count : 0;

		if (b && was != is)
			blocks_want(b, order <= 0 ? old.v[i].pool : a->wanted.v[k].pool, is);
		i += order <= 0;
		k += order >= 0;
	}
	needs_done(&old);
}

/* Reports the explicitly requested addresses. Their strings belong to the calls. */
static void report_names(struct ipam_api *a, struct blocks *b)
{
	auto_free struct need_name *v = NULL;
	size_t n = 0;

	for (const struct api_call *c = a->pending; c; c = c->next)
		for (size_t i = 0; i < c->needs.n_names; i++)
			VEC_PUSH(v, n) = c->needs.names[i];
	if (b && (n || a->named))
		blocks_names(b, v, n);
	a->named = n > 0;
}

static void on_report(void *arg)
{
	struct ipam_api *a = arg;
	struct blocks *b = node_pools_blocks(a->conf.node_pools);

	report_names(a, b);
	report_pools(a, b);
}

/* Schedules one report for all calls of this iteration of the loop: many pods may begin or stop
 * waiting together. */
static void report_all(struct ipam_api *a)
{
	loop_alarm_within(&a->report_timer, 0);
}

void api_reserved(const struct api_call *c, struct needs *ret)
{
	sum_before(c->api, c, ret);
}

/* --- calls that wait for addresses --- */

static int64_t next_of(const struct api_call *c)
{
	int64_t ms = c->stage < c->deadline ? c->stage : c->deadline;

	return c->partial_at < ms ? c->partial_at : ms;
}

void api_pending_add(struct api_call *c)
{
	struct ipam_api *a = c->api;
	struct api_call **at = &a->pending;

	/* Usually this call arrived last. A call that waits for the second time may have arrived
	 * before others. */
	if (a->last_pending && a->last_pending->seq < c->seq)
		at = &a->last_pending->next;
	if (!c->waited) {
		c->pending_us = now_mono_us();
		c->deadline = now(a) + a->conf.wait_ms;
		c->own_until = now(a) + a->conf.wait_ms / 3;
	}
	c->stage = now(a) + a->conf.wait_ms / 3;
	c->partial_at = INT64_MAX;
	c->waited = true;
	c->state = API_WAITING;
	while (*at && (*at)->seq < c->seq)
		at = &(*at)->next;
	c->next = *at;
	*at = c;
	if (!c->next)
		a->last_pending = c;
	report_all(a);
	loop_alarm_within(&a->pending_timer, next_of(c) - now(a));
}

/* Moves a call from the pending ones back to the queue. */
static void pending_remove(struct ipam_api *a, struct api_call **at)
{
	struct api_call *c = *at;

	if (a->last_pending == c)
		a->last_pending =
			at == &a->pending
				? NULL
				: (struct api_call *)((char *)at - offsetof(struct api_call, next));
	*at = c->next;
	c->late = true;
	api_enqueue(c);
}

static void on_pending_timer(void *arg)
{
	struct ipam_api *a = arg;
	struct api_call **at = &a->pending;

	while (*at) {
		struct api_call *c = *at;

		if (next_of(c) > now(a)) {
			at = &c->next;
			continue;
		}
		for (size_t i = 0; i < c->needs.n; i++)
			if (c->needs.v[i].missing && (c->stage <= now(a) || c->deadline <= now(a)))
				set_exhausted(a, c->needs.v[i].pool);
		pending_remove(a, at);
	}
	report_all(a);
	retime(a);
}

static void retime(struct ipam_api *a)
{
	int64_t next = INT64_MAX;

	loop_alarm_cancel(&a->pending_timer);
	for (const struct api_call *c = a->pending; c; c = c->next)
		next = next_of(c) < next ? next_of(c) : next;
	if (a->pending)
		loop_alarm_set(&a->pending_timer, next - now(a));
}

static bool has_changed(const struct ipam_api *a, const char *pool)
{
	return bsearch(&pool, a->changed, a->n_changed, sizeof(*a->changed), str_order) != NULL;
}

/* Sets `missing` of each changed pool to 0 in the needs of a call. Returns whether to retry the
 * call at once. */
static bool apply_changed(struct api_call *c)
{
	bool any = false, all = true;

	for (size_t i = 0; i < c->needs.n_names; i++)
		if (has_changed(c->api, c->needs.names[i].pool))
			return true;
	for (size_t i = 0; i < c->needs.n; i++) {
		struct need *x = &c->needs.v[i];

		if (has_changed(c->api, x->pool)) {
			any = true;
			x->missing = 0;
		}
		all &= !x->missing;
	}
	if (any && c->partial_at == INT64_MAX)
		c->partial_at = now(c->api) + PARTIAL_MS;
	return c->needs.n == 0 || (any && all);
}

static void retry(struct ipam_api *a, bool all)
{
	struct api_call **at = &a->pending;

	while (*at) {
		if (all || apply_changed(*at))
			pending_remove(a, at);
		else
			at = &(*at)->next;
	}
	report_all(a);
	retime(a);
}

static void forget_changed(struct ipam_api *a)
{
	loop_alarm_cancel(&a->changed_timer);
	for (size_t i = 0; i < a->n_changed; i++)
		free(a->changed[i]);
	free(take(a->changed));
	a->n_changed = 0;
}

static void on_changed(void *arg)
{
	struct ipam_api *a = arg;

	qsort(a->changed, a->n_changed, sizeof(*a->changed), str_order);
	retry(a, false);
	forget_changed(a);
}

/* Schedules one retry for all pools of this iteration of the loop: after a relist all of them may
 * have more addresses. */
void ipam_api_changed(struct ipam_api *a, const char *pool)
{
	if (!pool) {
		forget_changed(a);
		retry(a, true);
	} else if (a->pending) {
		VEC_PUSH(a->changed, a->n_changed) = xstrdup(pool);
		loop_alarm_within(&a->changed_timer, 0);
	}
}

void ipam_api_drain(struct ipam_api *a)
{
	a->conf.wait_ms = 0;
	ipam_api_changed(a, NULL);
}

void api_pending_init(struct ipam_api *a)
{
	a->pending_timer = LOOP_ALARM(a->conf.loop, on_pending_timer, a);
	a->report_timer = LOOP_ALARM(a->conf.loop, on_report, a);
	a->changed_timer = LOOP_ALARM(a->conf.loop, on_changed, a);
}

void api_pending_free(struct ipam_api *a)
{
	struct api_call *lists[] = {a->pending, a->resolving};

	forget_changed(a);
	loop_alarm_cancel(&a->pending_timer);
	loop_alarm_cancel(&a->report_timer);
	for (size_t i = 0; i < ARRAY_LEN(lists); i++)
		while (lists[i]) {
			struct api_call *c = lists[i];

			lists[i] = c->next;
			cluster_fetch_cancel(c->fetch);
			cluster_lookup_cancel(c->request);
			api_call_free(c);
		}
	needs_done(&a->wanted);
	for (size_t i = 0; i < a->n_exhausted; i++)
		free(a->exhausted[i].pool);
	free(a->exhausted);
}
