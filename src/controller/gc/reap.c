/* SPDX-License-Identifier: Apache-2.0 */
/* Passes over what is known, and the requests that they begin. */
#include "controller/gc/reap.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "controller/gc/reap_priv.h"
#include "kube/kinds.h"

/* A pass looks at everything: not more than one a second. */
enum { TICK_MS = 15 * 1000, PASS_MS = 1000, SHOWN_MS = 10 * 1000, FAILED_MS = 15 * 1000 };

static void on_timer(void *arg);

int64_t reap_now(const struct reap *g)
{
	return loop_now_ms(kube_loop(g->conf.kube));
}

/* Never later than it was to be. */
void reap_soon(struct reap *g, int64_t ms)
{
	int64_t rest = g->passed + PASS_MS - reap_now(g);

	if (g->passed && ms < rest)
		ms = rest;
	if (g->timer && g->at <= reap_now(g) + ms)
		return;
	loop_del_timer(g->timer);
	g->at = reap_now(g) + ms;
	g->timer = loop_add_timer(kube_loop(g->conf.kube), ms, on_timer, g);
}

/* --- requests --- */

static void flight_free(struct reap_flight *f)
{
	kube_cancel(f->call);
	free(f->ns);
	free(f->name);
	free(f->version);
	free(f->reason);
	free(f->words);
	free(f->about);
	free(f);
}

static bool is_about(const struct reap_flight *f, enum census_kind kind,
		     const struct kube_object *o)
{
	return f->kind == kind && strcmp(f->name, o->name) == 0 && strcmp(f->ns, o->ns) == 0;
}

/* Those that are done, and shown or waited for long enough. */
static void sweep(struct reap *g)
{
	size_t kept = 0;

	for (size_t i = 0; i < g->n_flights; i++) {
		struct reap_flight *f = g->flights[i];
		const struct kube_object *o = census_get(g->conf.census, f->kind, f->ns, f->name);

		if (f->call || (f->until > reap_now(g) && o && strcmp(o->version, f->version) == 0))
			g->flights[kept++] = f;
		else
			flight_free(f);
	}
	g->n_flights = kept;
}

bool reap_is_free(const struct reap *g, enum census_kind kind, const struct kube_object *o)
{
	size_t under_way = 0;

	for (size_t i = 0; i < g->n_flights; i++) {
		under_way += g->flights[i]->call != NULL;
		if (is_about(g->flights[i], kind, o))
			return false;
	}
	return under_way < REAP_FLIGHTS_MAX;
}

static void tell(const struct reap_flight *f)
{
	const char *kind = f->about ? "SpiderIPPool" : "SpiderEndpoint";

	log_info("cleared up", LOG_S("what", f->words), LOG_S("reason", f->reason));
	kube_events_add(f->g->conf.events,
			&(struct kube_event){.api_version = SPIDERPOOL_API,
					     .kind = kind,
					     .ns = f->ns,
					     .name = f->about ? f->about : f->name,
					     .reason = f->reason,
					     .message = f->words});
}

static void say_failure(struct reap *g, const struct err *e)
{
	g->stats.failures++;
	if (g->said && strcmp(g->said, e->text) == 0)
		return;
	free(g->said);
	g->said = xstrdup(e->text);
	log_warn("not cleared up for now, will be tried again", LOG_S("error", e->text));
}

/* 404, 409, 422: it is gone, or not what it was: nothing was done, and nothing is to be. */
static void on_done(void *arg, int status, const struct json *object, const struct err *e)
{
	struct reap_flight *f = arg;
	struct reap *g = f->g;
	bool stale = status == 404 || status == 409 || status == 422;

	(void)object;
	f->call = NULL;
	f->until = reap_now(g) + (e && !stale ? FAILED_MS : SHOWN_MS);
	if (!e) {
		++*f->count;
		g->stats.addresses += f->addresses;
		if (f->words)
			tell(f);
	} else if (!stale) {
		say_failure(g, e);
	}
	reap_soon(g, 0);
}

struct reap_flight *reap_begin(struct reap *g, enum census_kind kind, const struct kube_object *o,
			       const struct kube_request *r)
{
	struct reap_flight *f = xcalloc(1, sizeof(*f));

	*f = (struct reap_flight){.g = g,
				  .kind = kind,
				  .ns = xstrdup(o->ns),
				  .name = xstrdup(o->name),
				  .version = xstrdup(o->version)};
	VEC_PUSH(g->flights, g->n_flights) = f;
	f->call = kube_send(g->conf.kube, r, on_done, f);
	return f;
}

/* --- passes --- */

/* One that is fenced has nothing to say any more. */
static void watch_ready(struct reap *g)
{
	g->cut_off = NULL;
	for (size_t i = 0; i < census_count(g->conf.census, CENSUS_NODES); i++) {
		const struct kube_object *o = census_at(g->conf.census, CENSUS_NODES, i);

		if (reap_node_is_cut_off(g, o->name))
			g->cut_off = o->name;
	}
	if (g->cut_off)
		g->ready_since = 0;
	else if (!g->ready_since)
		g->ready_since = reap_now(g) > 0 ? reap_now(g) : 1;
}

static void on_timer(void *arg)
{
	struct reap *g = arg;

	g->timer = NULL;
	if (!census_is_whole(g->conf.census) || !world_synced(g->conf.world, WORLD_POOLS) ||
	    world_hold(g->conf.world) != WORLD_SURE) {
		/* What could not be followed may have come and gone. */
		g->ready_since = 0;
		reap_soon(g, PASS_MS);
		return;
	}
	g->passed = reap_now(g);
	sweep(g);
	watch_ready(g);
	reap_nodes_look(g);
	reap_blocks_pass(g);
	reap_endpoints_pass(g);
	if (!g->scanned || reap_now(g) - g->scanned >= g->conf.interval_ms) {
		g->scanned = reap_now(g);
		reap_scan(g);
	}
	reap_soon(g, TICK_MS < g->conf.grace_ms || !g->n_nodes ? TICK_MS : g->conf.grace_ms);
}

/* --- life --- */

/* A node says every few minutes that it is there. */
static bool is_news(const struct kube_object *was, const struct kube_object *is)
{
	const struct census_node *a = was ? census_node(was) : NULL;
	const struct census_node *b = is ? census_node(is) : NULL;

	return !a || !b || a->ready != b->ready || a->fenced != b->fenced;
}

void reap_changed(struct reap *g, enum census_kind kind, const struct kube_object *was,
		  const struct kube_object *is)
{
	if (kind == CENSUS_BLOCKS && was && is)
		reap_block_changed(census_block(was), census_block(is));
	/* Mostly pods and endpoints come and go as they should: the next tick is early enough. */
	if ((kind == CENSUS_NODES && is_news(was, is)) ||
	    (kind == CENSUS_BLOCKS && g->n_nodes > 0) ||
	    (kind == CENSUS_PODS && g->n_nodes > 0 && was && !is))
		reap_soon(g, 0);
	if (kind == CENSUS_ENDPOINTS && is && census_endpoint(is)->deleting)
		reap_soon(g, 0);
}

void reap_answered(struct reap *g)
{
	reap_soon(g, 0);
}

struct reap *reap_new(const struct reap_conf *c)
{
	struct reap *g = xcalloc(1, sizeof(*g));

	g->conf = *c;
	reap_soon(g, 0);
	return g;
}

void reap_free(struct reap *g)
{
	if (!g)
		return;
	loop_del_timer(g->timer);
	for (size_t i = 0; i < g->n_flights; i++)
		flight_free(g->flights[i]);
	free(g->flights);
	reap_nodes_done(g);
	free(g->kept);
	free(g->findings);
	free(g->said);
	free(g);
}

struct reap_stats reap_stats(const struct reap *g)
{
	return g->stats;
}
