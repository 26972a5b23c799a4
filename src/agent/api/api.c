/* SPDX-License-Identifier: Apache-2.0 */
/* Queues requests for the store and runs them in batches; the backend of `unirail ipam serve`. */
#include "agent/api/api.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/api/internal.h"
#include "base/alloc.h"
#include "base/log.h"

/*
 * A batch starts no request after TURN_MS; if requests remain, the next batch begins after
 * PAUSE_MS. A CNI process that waits for the store's lock tries to lock it at least every 50 ms.
 * Under constant load the agent therefore unlocks the store every STINT_MS for GAP_MS, which is
 * longer than 50 ms, so that a CNI process waits about STINT_MS at most.
 */
enum {
	TURN_MS = 20,
	PAUSE_MS = 2,
	STINT_MS = 400,
	GAP_MS = 60,
	/* maximum time that ipam_open() blocks the event loop for the store's lock */
	LOCK_MS = 1,
	RETRY_MS = 5,	     /* retry interval while another process has locked the store */
	WAIT_MS = 30 * 1000, /* maximum wait for the lock, as in a CNI process */
};

static void on_turn(void *arg);

/* --- the backend of `unirail ipam serve` --- */

static int files_ready(const struct ipam_api *a, struct err *e)
{
	if (a->pools.r < 0)
		*e = a->pools.cause;
	return a->pools.r;
}

static struct ipam_pools *files_attach(struct ipam_api *a, struct ipam_pools *p)
{
	(void)p;
	return &a->pools;
}

static void files_detach(struct ipam_api *a, struct ipam_pools *p)
{
	(void)a, (void)p;
}

static bool files_collect(struct api_call *c)
{
	(void)c;
	return false;
}

static int files_allocate(struct api_call *c, struct ipam *store, struct ip_allocation **ret,
			  size_t *n_ret, struct err *e)
{
	return api_allocate_now(c, store, c->requests.body, ret, n_ret, e);
}

static const struct api_backend api_files = {files_ready, files_attach, files_detach, files_collect,
					     files_allocate};

/* --- creation and destruction of the API --- */

struct ipam_api *ipam_api_new(const struct ipam_api_conf *c)
{
	struct ipam_api *a = xcalloc(1, sizeof(*a));

	a->conf = *c;
	a->conf.paths.lock_ms = LOCK_MS;
	if (!a->conf.settings)
		a->conf.settings = AGENT_CONF;
	a->end = &a->first;
	a->backend = c->cluster ? &api_node : &api_files;
	a->timer = LOOP_ALARM(a->conf.loop, on_turn, a);
	api_pending_init(a);
	if (a->conf.node_pools)
		coordinator_settings_init(&a->settings);
	else
		ipam_api_reload(a);
	return a;
}

static void count(struct api_call *c)
{
	struct metrics *m = c->api->conf.metrics;
	struct metrics_ipam *i = m && c->route->count ? c->route->count(m) : NULL;

	if (!i || !c->begin_us)
		return;
	i->done += !c->failed;
	metrics_time(&i->all, now_mono_us() - c->begin_us);
	metrics_time(&i->queued, c->queue_us);
}

void api_call_free(struct api_call *c)
{
	count(c);
	json_free(c->doc);
	free(c->args);
	pod_facts_done(&c->pod);
	app_id_done(&c->app);
	needs_done(&c->needs);
	api_requests_done(&c->requests);
	free(c);
}

void ipam_api_free(struct ipam_api *a)
{
	if (!a)
		return;
	while (a->first) {
		struct api_call *c = a->first;

		a->first = c->next;
		api_call_free(c);
	}
	api_pending_free(a);
	loop_alarm_cancel(&a->timer);
	ipam_pools_done(&a->pools);
	coordinator_settings_done(&a->settings);
	free(a);
}

/* --- reading pools and settings --- */

static void reload_pools(struct ipam_api *a)
{
	bool had = a->pools.r == 0 && a->pools.set.n > 0;
	struct err e = ERR_INIT;

	if (ipam_pools_read(&a->pools, a->conf.root, a->conf.paths.pool_dir, &e) == 0)
		log_info("pools read", LOG_I("pools", (int64_t)a->pools.set.n));
	else
		log_error(had ? "pool files rejected, keeping the current pools"
			      : "pool files rejected, no address can be allocated",
			  LOG_S("error", e.text));
}

static void reload_settings(struct ipam_api *a)
{
	struct coordinator_settings s;
	struct err e = ERR_INIT;

	if (coordinator_settings_read(a->conf.root, a->conf.settings, &s, &e) == 0) {
		coordinator_settings_done(&a->settings);
		a->settings = s;
		return;
	}
	log_error("coordinator settings rejected, keeping the current ones",
		  LOG_S("error", e.text));
}

void ipam_api_settings(struct ipam_api *a, const struct ipam_api_conf *c,
		       struct coordinator_settings *s)
{
	a->conf.wait_ms = c->wait_ms;
	a->conf.pools = c->pools;
	a->conf.identity = c->identity;
	a->conf.no_release_conflict_ips = c->no_release_conflict_ips;
	a->settings_made++;
	coordinator_settings_done(&a->settings);
	a->settings = *s;
	*s = (struct coordinator_settings){0};
}

void ipam_api_reload(struct ipam_api *a)
{
	reload_pools(a);
	reload_settings(a);
}

/* --- queue for the store --- */

static void schedule(struct ipam_api *a, int64_t ms)
{
	if (!loop_alarm_armed(&a->timer))
		loop_alarm_set(&a->timer, ms);
}

/* Inserts the call in the order of arrival, usually at the end. A call that has waited goes before
 * calls that arrived later. */
void api_enqueue(struct api_call *c)
{
	struct ipam_api *a = c->api;
	struct api_call **at = c->late ? &a->first : a->end;

	while (*at && (*at)->seq < c->seq)
		at = &(*at)->next;
	c->state = API_ALLOCATING;
	c->since = loop_now_ms(a->conf.loop);
	c->queue_us -= now_mono_us();
	c->next = *at;
	*at = c;
	if (!c->next)
		a->end = &c->next;
	schedule(a, 0);
}

void ipam_api_touch(struct ipam_api *a)
{
	a->touched = true;
	schedule(a, 0);
}

static struct api_call *dequeue(struct ipam_api *a)
{
	struct api_call *c = a->first;

	a->first = c->next;
	if (!a->first)
		a->end = &a->first;
	c->next = NULL;
	c->queue_us += now_mono_us();
	return c;
}

static void drop(struct api_call *c)
{
	http_answer_error(c->q, 503, 503, "the client has disconnected");
	api_call_free(c);
}

void api_call_fail(struct api_call *c, const struct err *e)
{
	struct metrics *m = c->api->conf.metrics;
	const struct ipam_api_callbacks *h = &c->api->conf.callbacks;

	c->failed = true;
	if (m && c->route->count)
		metrics_failure(c->route->count(m), e, c->waited);
	if (h->failed && c->has_pod && c->route->pod)
		h->failed(h->arg, &c->pod, e);
	c->route->fail(c, e);
}

static void fail(struct api_call *c, const struct err *e)
{
	log_error("address store unavailable", LOG_S("path", c->route->path),
		  LOG_S("error", e->text));
	api_call_fail(c, e);
	api_call_free(c);
}

/* Calls wait for another process that has locked the store, up to WAIT_MS. Any other error is
 * answered at once. */
static void not_now(struct ipam_api *a, int r, const struct err *e)
{
	int64_t now = loop_now_ms(a->conf.loop);

	while (a->first && (r != -EWOULDBLOCK || now - a->first->since > WAIT_MS))
		fail(dequeue(a), e);
	if (a->first)
		schedule(a, RETRY_MS);
	else if (a->touched)
		schedule(a, r == -EWOULDBLOCK ? RETRY_MS : STINT_MS);
	a->gap_at = now;
	/* The next start renames the damaged journal and recovers its contents from the cluster. */
	if (r == -EBADMSG && a->conf.node_pools) {
		log_error("journal damaged while the agent was running: stopping, the next start "
			  "recovers it",
			  LOG_S("error", e->text));
		loop_stop(a->conf.loop, 1);
	}
}

/* Returns how long the store is to stay unlocked for other processes before the next batch; 0: not
 * at all. */
static int64_t others_turn(struct ipam_api *a)
{
	int64_t now = loop_now_ms(a->conf.loop), free_for = now - a->turn_end;

	if (free_for >= GAP_MS)
		a->gap_at = now;
	return now - a->gap_at < STINT_MS ? 0 : GAP_MS - free_for;
}

static void run_one(struct api_call *c, struct ipam *store)
{
	if (c->route->for_caller && http_request_is_closed(c->q)) {
		drop(c);
		return;
	}
	c->route->run(c, store);
	if (c->state != API_WAITING)
		api_call_free(c);
}

/* Attaches the pools: those read from the directory, or this node's part of the cluster's pools. */
static struct ipam_pools *attach_pools(struct ipam_api *a, struct ipam *store, struct ipam_pools *p)
{
	p = a->backend->attach(a, p);
	ipam_attach_pools(store, p);
	if (a->conf.callbacks.begin)
		a->conf.callbacks.begin(a->conf.callbacks.arg, store);
	return p;
}

static void detach_pools(struct ipam_api *a, struct ipam *store, struct ipam_pools *p)
{
	if (a->conf.callbacks.batch)
		a->conf.callbacks.batch(a->conf.callbacks.arg, store);
	ipam_detach_pools(store, p);
	a->backend->detach(a, p);
}

static void on_turn(void *arg)
{
	struct ipam_api *a = arg;
	int64_t end = now_mono_ms() + TURN_MS, wait;
	struct ipam_pools own, *pools;
	struct err e = ERR_INIT;
	struct ipam *store;
	int r;

	if (!a->first && !a->touched)
		return;
	wait = others_turn(a);
	if (wait > 0) {
		schedule(a, wait);
		return;
	}
	r = ipam_open(&store, a->conf.root, &a->conf.paths, &e);
	if (r < 0) {
		not_now(a, r, &e);
		return;
	}
	a->touched = false;
	pools = attach_pools(a, store, &own);
	while (a->first && now_mono_ms() < end)
		run_one(dequeue(a), store);
	detach_pools(a, store, pools);
	ipam_close(store);
	a->turn_end = loop_now_ms(a->conf.loop);
	if (a->first)
		schedule(a, PAUSE_MS);
}
