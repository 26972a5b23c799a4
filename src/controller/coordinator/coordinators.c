/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/coordinator/coordinators.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/backoff.h"
#include "base/log.h"
#include "controller/coordinator/cidr_sources.h"
#include "kube/kinds.h"
#include "kube/object.h"

/*
 * RESCAN_MS: delay that groups changes. PROBE_MS: interval of checks of the node's CNI, which may
 * change. UNREADABLE_PROBE_MS: the same interval while the CNI is unknown. UNREADABLE_MS: time for
 * which no status is written for podCIDRType `auto` after the CNI was found unknown, so that the
 * agent of a new node can publish it. SCHEDULE_MS: delay of the next scan after a write that
 * succeeded or conflicted. AGAIN_MS, AGAIN_MOST_MS: first and longest delay after a write that
 * failed otherwise.
 */
enum {
	BODY_MAX = 256 << 10,
	RESCAN_MS = 200,
	PROBE_MS = 60 * 1000,
	UNREADABLE_MS = 60 * 1000,
	UNREADABLE_PROBE_MS = 2000,
	SCHEDULE_MS = 500,
	AGAIN_MS = 1000,
	AGAIN_MOST_MS = 60 * 1000
};

struct coordinators {
	struct coordinators_conf c;
	struct loop *loop;
	struct cidr_sources *sources;
	struct loop_alarm scan, probe;
	int64_t unreadable_ms;	/* since when the CNI is unknown; 0: known */
	struct kube_call *call; /* one at a time: normally there is one object */
	struct backoff backoff;
	uint64_t written, failed;
};

static void schedule_in(struct coordinators *c, int64_t ms);

/* --- write of a SpiderCoordinator --- */

static void on_done(void *arg, int status, const struct json *object, const struct err *e)
{
	struct coordinators *c = arg;

	(void)object;
	c->call = NULL;
	if (!e) {
		c->written++;
		backoff_reset(&c->backoff);
		schedule_in(c, SCHEDULE_MS);
		return;
	}
	/* Not an error: the object was changed by another writer (409) or deleted (404); the
	 * watch shows this. */
	if (status == 409 || status == 404) {
		schedule_in(c, SCHEDULE_MS);
		return;
	}
	c->failed++;
	log_error("failed to update a SpiderCoordinator, will retry", LOG_S("error", e->text));
	schedule_in(c, backoff_next(&c->backoff));
}

static void begin(struct json_out *o, struct buf *b, const struct kube_object *at)
{
	buf_init(b, BODY_MAX);
	jo_init(o, b, 0);
	kube_patch_begin(o, at->version);
}

static void send(struct coordinators *c, const struct kube_object *at, const char *sub,
		 const struct buf *b)
{
	const struct kube_request r = {
		.verb = KUBE_MERGE_PATCH,
		.on = {&kube_coordinators, NULL, at->name, sub},
		.body = buf_span(b),
	};

	c->call = kube_send(c->c.kube, &r, on_done, c);
}

/* --- status of a SpiderCoordinator --- */

static bool same_list(const struct json *v, const struct cidr_list *l)
{
	struct json_walk w = json_walk_start(v);
	const struct json *s;

	if (json_kind(v) != JSON_ARRAY || json_len(v) != l->n)
		return false;
	for (size_t i = 0; (s = json_walk_next(&w, NULL)); i++)
		if (!json_string(s) || strcmp(json_string(s), l->v[i]) != 0)
			return false;
	return true;
}

static bool same_text(const struct json *v, const char *text)
{
	const char *s = json_string(v);

	return strcmp(s ? s : "", text) == 0;
}

static const char *phase_name(const struct cidr_plan *p)
{
	return p->phase == CIDR_SYNCED ? "Synced" : "NotReady";
}

static bool status_is_current(const struct json *status, const struct cidr_plan *p)
{
	/* The status stays, because a source that cannot be read now was read before. */
	if (p->unread && same_text(json_get(status, "phase"), "Synced"))
		return true;
	return same_text(json_get(status, "phase"), phase_name(p)) &&
	       same_text(json_get(status, "reason"), p->reason) &&
	       same_list(json_get(status, "overlayPodCIDR"), &p->pods) &&
	       same_list(json_get(status, "serviceCIDR"), &p->services);
}

static void report(struct coordinators *c, const struct kube_object *o, const struct cidr_plan *p)
{
	log_info("updating the cluster's CIDRs in the status of a SpiderCoordinator",
		 LOG_S("coordinator", o->name), LOG_S("phase", phase_name(p)),
		 LOG_S("reason", p->reason));
	if (p->reason[0])
		kube_events_add(c->c.events,
				&(struct kube_event){.api_version = SPIDERPOOL_API,
						     .kind = "SpiderCoordinator",
						     .name = o->name,
						     .uid = o->uid,
						     .warning = true,
						     .reason = p->phase == CIDR_SYNCED
								       ? "CIDRNotKnown"
								       : "ClusterNotReady",
						     .message = p->reason});
}

static void put_status(struct coordinators *c, const struct kube_object *o,
		       const struct cidr_plan *p)
{
	auto_buf struct buf b;
	struct json_out out;

	begin(&out, &b, o);
	jo_end_obj(&out);
	jo_key(&out, "status");
	jo_obj(&out);
	jo_kstr(&out, "phase", phase_name(p));
	jo_kstr(&out, "reason", p->reason[0] ? p->reason : NULL);
	jo_kstrs(&out, "overlayPodCIDR", p->pods.v, p->pods.n);
	jo_kstrs(&out, "serviceCIDR", p->services.v, p->services.n);
	jo_end_obj(&out);
	jo_end_obj(&out);
	send(c, o, "status", &b);
}

/* --- deletion of a SpiderCoordinator --- */

static void let_go(struct coordinators *c, const struct kube_object *o)
{
	struct json_out out;
	auto_buf struct buf b;

	begin(&out, &b, o);
	kube_put_finalizers(&out, cluster_cache_json(o), SPIDERPOOL_FINALIZER, false);
	jo_end_obj(&out);
	jo_end_obj(&out);
	send(c, o, NULL, &b);
}

/* --- all SpiderCoordinators --- */

/* A missing podCIDRType counts as `auto`, and so does an invalid one, which was stored while no
 * webhook validated it. */
static enum cidr_type type_of(const struct kube_object *o)
{
	const char *text =
		json_string(json_get(json_get(cluster_cache_json(o), "spec"), "podCIDRType"));
	enum cidr_type t;

	return text && cidr_type_parse(text, &t) == 0 ? t : CIDR_AUTO;
}

/*
 * Returns the CNI of this node. If its configuration is readable by root only, *wait is true for
 * the first UNREADABLE_MS, so that the agent can publish the network's name: a pod that starts
 * while the status is wrong would have wrong routes until it is recreated.
 */
static enum cidr_type probe(struct coordinators *c, bool *wait)
{
	int64_t now = loop_now_ms(c->loop);
	struct err e = ERR_INIT;
	enum cidr_type cni = cidr_probe(c->c.root, &c->c.cni, &e);

	*wait = false;
	if (cni != CIDR_UNREADABLE) {
		c->unreadable_ms = 0;
		return cni;
	}
	if (!c->unreadable_ms) {
		log_warn("cannot detect the cluster's CNI", LOG_S("error", e.text));
		c->unreadable_ms = now;
	}
	*wait = now - c->unreadable_ms < UNREADABLE_MS;
	schedule_in(c, UNREADABLE_PROBE_MS);
	return cni;
}

static unsigned int inspect(struct coordinators *c, const struct kube_object *o,
			    const struct cidr_known *known)
{
	bool wait;
	enum cidr_type type, cni;

	struct cidr_plan p;
	unsigned int wants;

	if (cluster_cache_object(o)->deleting) {
		if (!c->call && kube_has_finalizer(cluster_cache_json(o), SPIDERPOOL_FINALIZER))
			let_go(c, o);
		return 0;
	}
	type = type_of(o);
	cni = type == CIDR_AUTO ? probe(c, &wait) : type;
	if (type == CIDR_AUTO && wait)
		return 0;
	cidr_plan(type, cni, known, &p);
	if (p.phase != CIDR_WAIT && !c->call &&
	    !status_is_current(json_get(cluster_cache_json(o), "status"), &p)) {
		report(c, o, &p);
		put_status(c, o, &p);
	}
	wants = p.wants;
	cidr_plan_done(&p);
	return wants;
}

static void on_rescan(void *arg)
{
	struct coordinators *c = arg;
	struct cidr_known known[CIDR_SOURCES];
	unsigned int wants = 0;

	cidr_sources_known(c->sources, known);
	for (size_t i = 0; i < kube_cache_count(c->c.cache, CLUSTER_CACHE_COORDINATORS); i++)
		wants |=
			inspect(c, kube_cache_at(c->c.cache, CLUSTER_CACHE_COORDINATORS, i), known);
	cidr_known_done(known);
	cidr_sources_want(c->sources, wants);
}

static void schedule_in(struct coordinators *c, int64_t ms)
{
	loop_alarm_within(&c->scan, ms);
}

static void on_source(void *arg)
{
	schedule_in(arg, RESCAN_MS);
}

static void on_coordinator(void *arg, const struct kube_object *was, const struct kube_object *is)
{
	(void)was, (void)is;
	schedule_in(arg, 0);
}

static void on_probe(void *arg)
{
	struct coordinators *c = arg;

	loop_alarm_set(&c->probe, PROBE_MS);
	schedule_in(c, 0);
}

/* --- creation and destruction --- */

struct coordinators *coordinators_new(const struct coordinators_conf *conf)
{
	struct coordinators *c = xcalloc(1, sizeof(*c));

	*c = (struct coordinators){
		.c = *conf, .loop = kube_loop(conf->kube), .backoff = {AGAIN_MS, AGAIN_MOST_MS, 0}};
	c->scan = LOOP_ALARM(c->loop, on_rescan, c);
	c->probe = LOOP_ALARM(c->loop, on_probe, c);
	c->sources = cidr_sources_new(conf->kube, conf->cilium, on_source, c);
	loop_alarm_set(&c->probe, PROBE_MS);
	kube_cache_on(conf->cache, CLUSTER_CACHE_COORDINATORS, on_coordinator, c);
	schedule_in(c, 0);
	return c;
}

void coordinators_free(struct coordinators *c)
{
	if (!c)
		return;
	kube_cache_off(c->c.cache, c);
	kube_cancel(c->call);
	loop_alarm_cancel(&c->scan);
	loop_alarm_cancel(&c->probe);
	cidr_sources_free(c->sources);
	free(c);
}

void coordinators_counts(const struct coordinators *c, uint64_t *written, uint64_t *failed)
{
	*written = c->written;
	*failed = c->failed;
}
