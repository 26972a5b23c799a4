/* SPDX-License-Identifier: Apache-2.0 */
/* The controller's parts: what each is given, when it runs, what it says of itself. */
#include <errno.h>

#include "base/cleanup.h"
#include "controller/gc/addresses.h"
#include "controller/controller_priv.h"
#include "controller/coordinator/coordinators.h"
#include "controller/defaults.h"
#include "controller/nad/nads.h"
#include "controller/subnet/subnets.h"
#include "controller/gc/uninjected.h"
#include "server/sample.h"

/* One that a setting switches off starts as NULL without an error; all but `start` and `stop` may be
 * NULL. */
struct part {
	int (*start)(struct controller *c, void **ret, struct err *e);
	void (*stop)(void *part);
	void (*settings)(void *part, struct controller *c);
	int (*ready)(void *part, struct err *e);
	void (*metrics)(void *part, struct buf *b);
};

/* --- networks --- */

static int start_nads(struct controller *c, void **ret, struct err *e)
{
	(void)e;
	if (settings_yes(controller_first(c)->multus))
		*ret = nads_new(&(
			struct nads_conf){.kube = c->kube, .world = c->world, .events = c->events});
	return 0;
}

static void stop_nads(void *part)
{
	nads_free(part);
}

static void metrics_nads(void *part, struct buf *b)
{
	const struct nads_counts n = nads_counts(part);

	sample_counter(b, "unirail_nads_writes_total", n.written,
		       "Writes of NetworkAttachmentDefinitions and of their owners' status.");
	sample_counter(b, "unirail_nads_write_failures_total", n.failed,
		       "Those that failed; they are tried again.");
	sample_counter(b, "unirail_nads_removed_total", n.removed, "Removed, of an old name.");
	sample_gauge(b, "unirail_nads_wrong", (int64_t)n.wrong,
		     "SpiderMultusConfigs that are without their network now.");
}

/* --- the cluster's CIDRs --- */

static int start_coordinators(struct controller *c, void **ret, struct err *e)
{
	const struct controller_conf *f = controller_first(c);

	(void)e;
	if (settings_yes(f->coordinator))
		*ret = coordinators_new(
			&(struct coordinators_conf){.kube = c->kube,
						    .root = &c->root,
						    .world = c->world,
						    .events = c->events,
						    .cni = {f->cni_dir, f->network_file},
						    .cilium = f->cilium});
	return 0;
}

static void stop_coordinators(void *part)
{
	coordinators_free(part);
}

static void metrics_coordinators(void *part, struct buf *b)
{
	uint64_t written, failed;

	coordinators_counts(part, &written, &failed);
	sample_counter(b, "unirail_coordinator_writes_total", written,
		       "Writes of SpiderCoordinators' status.");
	sample_counter(b, "unirail_coordinator_write_failures_total", failed,
		       "Those that failed; they are tried again.");
}

/* --- what a new cluster is given --- */

static int start_defaults(struct controller *c, void **ret, struct err *e)
{
	const struct controller_conf *f = controller_first(c);

	(void)e;
	*ret = defaults_new(&(struct defaults_conf){
		.kube = c->kube,
		.root = &c->root,
		.world = c->world,
		.ns = f->ns,
		.cni = {f->cni_dir, f->network_file},
		.coordinator = settings_yes(f->make_coordinator),
		.network = settings_yes(f->make_network),
		.name = f->coordinator_name,
		.mode = f->mode,
		.type = f->cidr_type,
		.hijack = f->hijack,
		.pools = {f->default4, f->default6},
	});
	return 0;
}

static void stop_defaults(void *part)
{
	defaults_free(part);
}

/* --- pods that no webhook saw --- */

static int start_uninjected(struct controller *c, void **ret, struct err *e)
{
	(void)e;
	c->uninjected = NULL;
	if (c->webhooks)
		c->uninjected = uninjected_new(&(struct uninjected_conf){
			.world = c->world, .events = c->events, .webhooks = c->webhooks});
	*ret = c->uninjected;
	return 0;
}

static void stop_uninjected(void *part)
{
	uninjected_free(part);
}

static void metrics_uninjected(void *part, struct buf *b)
{
	uninjected_metrics(part, b);
}

/* --- addresses --- */

static int start_addresses(struct controller *c, void **ret, struct err *e)
{
	const struct controller_conf *f = controller_first(c);

	(void)e;
	*ret = c->addresses = addresses_new(&(struct addresses_conf){
		.kube = c->kube,
		.world = c->world,
		.events = c->events,
		.gc = settings_yes(f->gc),
		.grace_ms = f->gc_grace_ms + f->gc_delay_ms,
		.interval_ms = f->gc_interval_ms,
		.records_max = (size_t)f->records_max,
		.identity = {settings_yes(f->statefulset), settings_yes(f->kubevirt)},
		.uninjected = c->uninjected,
	});
	return 0;
}

static void stop_addresses(void *part)
{
	addresses_free(part);
}

static void addresses_text(void *part, struct buf *b)
{
	addresses_metrics(part, b);
}

/* --- webhooks: every replica answers, the leader registers them and renews the certificate --- */

static int serve_webhooks(struct controller *c, void **ret, struct err *e)
{
	const struct webhooks_conf conf = {c->kube, c->world, &c->root, &c->conf};
	int r = c->conf.webhook_port ? webhooks_new(&c->webhooks, &conf, e) : 0;

	*ret = c->webhooks;
	return r;
}

static void stop_webhooks(void *part)
{
	webhooks_free(part);
}

static void set_webhooks(void *part, struct controller *c)
{
	webhooks_settings(part, &c->conf);
}

static int webhooks_are_ready(void *part, struct err *e)
{
	return webhooks_ready(part, e);
}

static void webhooks_put_metrics(void *part, struct buf *b)
{
	webhooks_metrics(part, b);
}

static int lead_webhooks(struct controller *c, void **ret, struct err *e)
{
	(void)e;
	*ret = c->webhooks;
	if (c->webhooks)
		webhooks_lead(c->webhooks, true);
	return 0;
}

static void follow_webhooks(void *part)
{
	webhooks_lead(part, false);
}

void controller_drain(struct controller *c, void (*done)(void *arg))
{
	if (c->webhooks)
		webhooks_drain(c->webhooks, done, c);
	else
		done(c);
}

/* --- pools of subnets --- */

static int start_subnets(struct controller *c, void **ret, struct err *e)
{
	const struct controller_conf *f = controller_first(c);
	struct subnets_conf s = {
		.kube = c->kube,
		.world = c->world,
		.census = addresses_census(c->addresses),
		.events = c->events,
		.more = (uint32_t)f->subnet_more,
		.rest_ms = f->subnet_rest_ms,
	};

	(void)e;
	if (settings_yes(f->subnet))
		*ret = subnets_new(&s);
	return 0;
}

static void stop_subnets(void *part)
{
	subnets_free(part);
}

static void subnets_sample(void *part, struct buf *b)
{
	subnets_metrics(part, b);
}

/* --- what runs --- */

static const struct part every[] = {
	{serve_webhooks, stop_webhooks, set_webhooks, webhooks_are_ready, webhooks_put_metrics},
	{0},
};
static const struct part leads[] = {
	{lead_webhooks, follow_webhooks, NULL, NULL, NULL},
	{start_nads, stop_nads, NULL, NULL, metrics_nads},
	{start_coordinators, stop_coordinators, NULL, NULL, metrics_coordinators},
	{start_defaults, stop_defaults, NULL, NULL, NULL},
	{start_uninjected, stop_uninjected, NULL, NULL, metrics_uninjected},
	{start_addresses, stop_addresses, NULL, NULL, addresses_text},
	{start_subnets, stop_subnets, NULL, NULL, subnets_sample},
	{0},
};

_Static_assert(ARRAY_LEN(every) <= CONTROLLER_PARTS_MAX && ARRAY_LEN(leads) <= CONTROLLER_PARTS_MAX,
	       "a place for each");

static int start(struct controller *c, const struct part *p, void **at, struct err *e)
{
	for (; p->start; p++, at++) {
		int r = p->start(c, at, e);

		if (r < 0)
			return r;
	}
	return 0;
}

static void stop(const struct part *table, size_t n, void **at)
{
	while (n-- > 0) {
		if (at[n])
			table[n].stop(at[n]);
		at[n] = NULL;
	}
}

int controller_serve(struct controller *c, struct err *e)
{
	return start(c, every, c->every, e);
}

void controller_part_from(struct controller *c)
{
	stop(every, ARRAY_LEN(every) - 1, c->every);
}

/* A leader's part has nothing to open that could fail. */
void controller_lead(struct controller *c)
{
	start(c, leads, c->leads, NULL);
}

void controller_follow(struct controller *c)
{
	stop(leads, ARRAY_LEN(leads) - 1, c->leads);
}

/* --- all of them --- */

static void tell_settings(struct controller *c, const struct part *p, void **at)
{
	for (; p->start; p++, at++)
		if (*at && p->settings)
			p->settings(*at, c);
}

void controller_tell_settings(struct controller *c)
{
	tell_settings(c, every, c->every);
	tell_settings(c, leads, c->leads);
}

/* Until then pods are sent to nobody. Once it was ready it does not wait again: the webhooks stay registered
 * whoever leads. */
static int is_registered(struct controller *c, struct err *e)
{
	int r = 0;

	if (c->registered || !c->webhooks)
		return 0;
	if (!*kube_lease_holder(c->lease))
		return err_kind(e, ERR_AGAIN, -EAGAIN,
				"no replica leads yet, which registers the webhooks");
	r = webhooks_registered(c->webhooks, e);
	c->registered = r == 0;
	return r;
}

/* What a replica answers with does not wait for a server that is away: the last state stays. Nor for a
 * kind that is not installed (in our version): nobody can be asked about it, and of the others all
 * is known. */
int controller_ready(struct controller *c, struct err *e)
{
	for (int k = 0; k < WORLD_KINDS; k++) {
		int r = world_synced(c->world, k) ? 0 : world_trouble(c->world, k, e);

		if (r < 0 && r != -ENOENT)
			return r;
	}
	err_clear(e);
	for (size_t i = 0; every[i].start; i++) {
		bool asks = c->every[i] && every[i].ready;
		int r = asks ? every[i].ready(c->every[i], e) : 0;

		if (r < 0)
			return r;
	}
	return is_registered(c, e);
}

static void add_metrics(const struct part *p, void **at, struct buf *b)
{
	for (; p->start; p++, at++)
		if (*at && p->metrics)
			p->metrics(*at, b);
}

void controller_metrics(struct controller *c, struct buf *b)
{
	static const char objects[] = "unirail_controller_objects";

	sample_gauge(b, "unirail_controller_leads", kube_lease_is_held(c->lease),
		     "Whether this replica leads.");
	sample_counter(b, "unirail_controller_led_total", c->gained, "How often it came to lead.");
	sample_name(b, objects, "gauge", "Objects that this replica knows.");
	for (int k = 0; k < WORLD_KINDS; k++)
		sample_value(b, objects, "kind", world_kind_name(k),
			     (int64_t)world_count(c->world, k));
	add_metrics(every, c->every, b);
	add_metrics(leads, c->leads, b);
}
