/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/controller.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/random.h"
#include "controller/bootstrap.h"
#include "controller/coordinator/coordinators.h"
#include "controller/gc/address_gc.h"
#include "controller/gc/uninjected.h"
#include "controller/cache/cache.h"
#include "controller/conf.h"
#include "controller/webhooks.h"
#include "kube/config.h"
#include "kube/events.h"
#include "kube/leader.h"
#include "server/daemon.h"
#include "server/health.h"
#include "controller/nad/nads.h"
#include "controller/subnet/subnets.h"
#include "kern/sys/caps.h"
#include "server/confine.h"
#include "server/prometheus.h"

enum { CONTROLLER_PARTS_MAX = 16 };

struct controller {
	int argc;
	char **argv;
	struct controller_conf conf;
	/* empty until the first reload, then the initial settings, whose strings other modules
	 * borrow */
	struct controller_conf first;
	struct root root;
	struct loop *loop;
	struct daemon *daemon;
	struct ports *ports;
	struct kube_conf kube_conf;
	struct kube *kube;
	struct cluster_cache *cache;
	struct webhooks *webhooks;   /* NULL: disabled */
	struct nads *nads;	     /* valid while this replica is the leader; NULL: disabled */
	struct addresses *addresses; /* valid while this replica is the leader */
	/* valid while this replica is the leader; NULL: no webhooks */
	struct uninjected *uninjected;
	struct kube_events *events;
	struct kube_lease *lease;
	uint64_t gained; /* how often this replica became leader */
	bool ready;	 /* last answer to /readyz */
	bool registered; /* is_registered() has succeeded once */
	bool drains;	 /* shutdown: the Lease was released, or END_MS have passed */
	/* running parts, one for each row of the tables of the same names; NULL: not running */
	void *every[CONTROLLER_PARTS_MAX], *leads[CONTROLLER_PARTS_MAX];
};

/* --- `unirail controller`: settings, leader election, start and shutdown --- */

#define LEASE "unirail-controller"

/*
 * END_MS: limit for the release of the Lease. SILENT_MS: if no replica led for longer, a restore of
 * etcd may have been missed (cluster_cache_listen()); a change of the leader normally takes less.
 */
enum { METRICS_MAX = 1 << 20, END_MS = 3000, SILENT_MS = 60 * 1000 };

const struct cmd controller_cmds[] = {
	{NULL, NULL, "run the cluster's controller: webhooks, networks, pools, garbage collection",
	 controller_opts, 0, 0},
	{0},
};

/* --- settings --- */

/* Returns the initial settings: values that require a restart to change, and strings that stay
 * valid. */
static const struct controller_conf *controller_first(const struct controller *c)
{
	return c->first.own.v ? &c->first : &c->conf;
}

static void controller_notify_settings(struct controller *c);

static void reload(void *arg)
{
	struct controller *c = arg;
	struct controller_conf conf;
	struct err e = ERR_INIT;
	const char *needs;

	if (controller_conf_read(&conf, &c->root, NULL, c->argc, c->argv, &e) < 0) {
		log_error("settings file rejected, keeping the current settings",
			  LOG_S("error", e.text));
		return;
	}
	needs = settings_needs_restart(&controller_settings, controller_first(c), &conf);
	if (needs)
		log_warn("changed setting takes effect after a restart only",
			 LOG_S("setting", needs));
	/* other modules borrow strings of the first configuration */
	if (!c->first.own.v)
		c->first = c->conf;
	else
		controller_conf_done(&c->conf);
	c->conf = conf;
	daemon_log(c->conf.log_level, c->conf.log_format, NULL);
	controller_notify_settings(c);
	log_info("settings read", LOG_S("file", c->conf.config));
}

/* --- leader election --- */

static void controller_lead(struct controller *c);

static void on_gained(void *arg)
{
	struct controller *c = arg;

	c->gained++;
	log_info("this replica is the leader");
	if (kube_lease_silent_ms(c->lease) > SILENT_MS)
		cluster_cache_listen(c->cache, controller_first(c)->leader_grace_ms);
	controller_lead(c);
}

static void controller_follow(struct controller *c);

static void on_lost(void *arg, const struct err *cause)
{
	struct controller *c = arg;

	log_warn("this replica is no longer the leader", LOG_S("error", cause->text));
	controller_follow(c);
}

/* The identity has a random part, since a restarted container has the same host name. */
static void start_lease(struct controller *c)
{
	auto_free char *id = NULL;
	unsigned char r[4];

	random_bytes(r, sizeof(r));
	id = xasprintf("%s_%02x%02x%02x%02x", c->conf.name, r[0], r[1], r[2], r[3]);
	c->lease = kube_lease_new(c->kube, &(struct kube_lease_conf){
						   .ns = c->conf.ns,
						   .name = LEASE,
						   .id = id,
						   .lease_ms = (int)c->conf.lease_ms,
						   .renew_ms = (int)c->conf.renew_ms,
						   .retry_ms = (int)c->conf.retry_ms,
						   .gained = on_gained,
						   .lost = on_lost,
						   .arg = c,
					   });
}

/* --- shutdown --- */

static void on_drained(void *arg)
{
	loop_stop(((struct controller *)arg)->loop, 0);
}

/* Calls done(c) when webhooks_drain() has ended, or at once if there are no webhooks. */
static void controller_drain(struct controller *c, void (*done)(void *arg))
{
	if (c->webhooks)
		webhooks_drain(c->webhooks, done, c);
	else
		done(c);
}

static void on_released(void *arg)
{
	struct controller *c = arg;

	if (c->drains)
		return;
	c->drains = true;
	controller_drain(c, on_drained);
}

static void end(void *arg)
{
	struct controller *c = arg;

	controller_follow(c);
	loop_add_timer(c->loop, END_MS, on_released, c);
	kube_lease_release(c->lease, on_released, c);
}

/* --- health and metrics ports --- */

static int controller_ready(struct controller *c, struct err *e);

static int on_ready(void *arg, struct err *e)
{
	struct controller *c = arg;
	int r = controller_ready(c, e);

	if (r == 0 && !c->ready)
		log_info("ready");
	c->ready = r == 0;
	return r;
}

static void controller_metrics(struct controller *c, struct buf *b);

static void on_scrape(void *arg)
{
	struct controller *c = arg;
	auto_buf struct buf b;

	buf_init(&b, METRICS_MAX);
	controller_metrics(c, &b);
	ports_metrics(c->ports, buf_span(&b));
}

static int open_ports(struct controller *c, struct err *e)
{
	bool metrics = c->conf.metrics;

	return ports_new(&c->ports,
			 &(struct ports_conf){.loop = c->loop,
					      .health_listen = c->conf.health_listen,
					      .metrics_listen = c->conf.metrics_listen
									? c->conf.metrics_listen
									: c->conf.listen,
					      .health = (int)c->conf.health_port,
					      .metrics = metrics ? (int)c->conf.metrics_port : 0,
					      .ready = on_ready,
					      .scrape = on_scrape,
					      .arg = c},
			 e);
}

/* --- start of the controller --- */

static int know_cluster(struct controller *c, struct err *e)
{
	const struct kube_where where = {&c->root, c->conf.kubeconfig, c->conf.context};
	int r = kube_conf_load(&c->kube_conf, &where, e);

	if (r < 0)
		return r;
	log_info("API server", LOG_S("host", c->kube_conf.host), LOG_I("port", c->kube_conf.port),
		 LOG_S("source", c->kube_conf.from), LOG_S("name", c->conf.name));
	c->kube = kube_new(c->loop, &c->root, &c->kube_conf, &(struct kube_settings){0});
	c->cache = cluster_cache_new(c->kube);
	c->events = kube_events_new(c->kube, "unirail-controller", c->conf.name);
	return 0;
}

static void confine(struct controller *c)
{
	struct confine s = {.root = &c->root, .mode = SANDBOX_CONTROLLER};
	const char *files[KUBE_CONF_FILES];
	char message[256];

	confine_file(&s, c->conf.config, SANDBOX_READ);
	kube_conf_files(&c->kube_conf, files);
	confine_server(&s, c->kube_conf.host, files,
		       c->kube_conf.exec.argv ? c->kube_conf.exec.argv[0] : NULL);
	confine_dir(&s, c->conf.cni_dir, SANDBOX_READ);
	confine_file(&s, c->conf.network_file, SANDBOX_READ);
	confine_file(&s, c->conf.webhook_cert, SANDBOX_READ);
	confine_file(&s, c->conf.webhook_key, SANDBOX_READ);
	confine_file(&s, c->conf.webhook_ca, SANDBOX_READ);
	confine_file(&s, c->conf.webhook_client_ca, SANDBOX_READ);
	confine_file(&s, c->conf.pid_file, SANDBOX_REMOVE);
	confine_enter(&s, c->conf.sandbox, message, sizeof(message));
}

static int controller_serve(struct controller *c, struct err *e);

static int start(struct controller *c, struct err *e)
{
	static const struct daemon_ops ops = {reload, end};
	int r = daemon_log(c->conf.log_level, c->conf.log_format, e);

	if (r == 0)
		r = loop_new(&c->loop, e);
	if (r == 0)
		r = daemon_new(&c->daemon, c->loop, &ops, c, e);
	if (r == 0)
		r = open_ports(c, e);
	if (r == 0)
		r = caps_files_only(e);
	if (r == 0)
		r = know_cluster(c, e);
	if (r == 0)
		r = controller_serve(c, e);
	if (r < 0)
		return r;
	start_lease(c);
	daemon_watch(c->daemon, c->conf.config);
	r = daemon_pid_file(c->daemon, &c->root, c->conf.pid_file, e);
	if (r == 0)
		confine(c);
	return r;
}

static void controller_part_from(struct controller *c);

static void stop(struct controller *c)
{
	kube_lease_free(c->lease);
	controller_follow(c);
	controller_part_from(c);
	ports_free(c->ports);
	kube_events_free(c->events);
	cluster_cache_free(c->cache);
	kube_free(c->kube);
	kube_conf_done(&c->kube_conf);
	daemon_free(c->daemon);
	loop_free(c->loop);
	controller_conf_done(&c->conf);
	controller_conf_done(&c->first);
}

static int run(struct controller *c)
{
	struct err e = ERR_INIT;
	int r = start(c, &e), status = 1;

	if (r < 0) {
		fprintf(stderr, "unirail controller: %s\n", e.text);
	} else {
		status = loop_run(c->loop);
		log_info("ended");
	}
	stop(c);
	return status;
}

int controller_main(int argc, char **argv)
{
	struct controller c = {.argc = argc - 1, .argv = argv + 1};
	struct err e = ERR_INIT;
	int r = root_open(&c.root, NULL, &e), status;

	if (r == 0)
		r = controller_conf_read(&c.conf, &c.root, NULL, c.argc, c.argv, &e);
	if (r < 0)
		return opt_exit("unirail controller", r, &e);
	status = run(&c);
	root_close(&c.root);
	return status;
}

/* --- the parts of the controller: start, stop, readiness, metrics --- */

/* `start` returns 0 and no part (*ret is NULL) if a setting disables the part. All members except
 * `start` and `stop` may be NULL. */
struct part {
	int (*start)(struct controller *c, void **ret, struct err *e);
	void (*stop)(void *part);
	void (*settings)(void *part, struct controller *c);
	int (*ready)(void *part, struct err *e);
	void (*metrics)(void *part, struct buf *b);
};

/* --- NADs of SpiderMultusConfigs --- */

/* Called from the loop, after all parts of the leader have started: c->addresses is set. */
static char *missing_resource(void *arg, const struct kube_object *smc, const char *is)
{
	const struct controller *c = arg;

	return addresses_missing(c->addresses, smc, is);
}

static int start_nads(struct controller *c, void **ret, struct err *e)
{
	(void)e;
	c->nads = NULL;
	if (controller_first(c)->multus)
		c->nads = nads_new(&(struct nads_conf){.kube = c->kube,
						       .cache = c->cache->objects,
						       .events = c->events,
						       .missing = missing_resource,
						       .arg = c});
	*ret = c->nads;
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
		       "Writes of NetworkAttachmentDefinitions and their owners' status.");
	sample_counter(b, "unirail_nads_write_failures_total", n.failed,
		       "Failed writes and removals of NetworkAttachmentDefinitions, and failed "
		       "writes of their owners' status.");
	sample_counter(
		b, "unirail_nads_removed_total", n.removed,
		"NetworkAttachmentDefinitions removed because the name in their SpiderMultusConfig "
		"changed.");
	sample_gauge(b, "unirail_nads_outdated", (int64_t)n.outdated,
		     "SpiderMultusConfigs without an up-to-date NetworkAttachmentDefinition.");
}

/* --- the cluster's CIDRs --- */

static int start_coordinators(struct controller *c, void **ret, struct err *e)
{
	const struct controller_conf *f = controller_first(c);

	(void)e;
	if (f->coordinator)
		*ret = coordinators_new(
			&(struct coordinators_conf){.kube = c->kube,
						    .root = &c->root,
						    .cache = c->cache->objects,
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
		       "Writes of a SpiderCoordinator's status or finalizers.");
	sample_counter(b, "unirail_coordinator_write_failures_total", failed,
		       "Failed writes of a SpiderCoordinator's status or finalizers, each of "
		       "which is retried.");
}

/* --- default objects --- */

static int start_defaults(struct controller *c, void **ret, struct err *e)
{
	const struct controller_conf *f = controller_first(c);

	(void)e;
	*ret = defaults_new(&(struct defaults_conf){
		.kube = c->kube,
		.root = &c->root,
		.cache = c->cache->objects,
		.ns = f->ns,
		.cni = {f->cni_dir, f->network_file},
		.coordinator = f->make_coordinator,
		.network = f->make_network,
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

/* --- uninjected pods --- */

static bool injects(const void *webhooks, const char *ns)
{
	return webhooks_inject(webhooks, ns);
}

static int start_uninjected(struct controller *c, void **ret, struct err *e)
{
	(void)e;
	c->uninjected = NULL;
	if (c->webhooks)
		c->uninjected = uninjected_new(
			&(struct uninjected_conf){.cache = c->cache->objects,
						  .events = c->events,
						  .injects = injects,
						  .arg = c->webhooks,
						  .ns = webhooks_namespace(c->webhooks)});
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

/* --- addresses: garbage collection and pool status --- */

static void missing_changed(void *arg, const char *ns, const char *name)
{
	nads_check(((struct controller *)arg)->nads, ns, name);
}

static int start_addresses(struct controller *c, void **ret, struct err *e)
{
	const struct controller_conf *f = controller_first(c);

	(void)e;
	*ret = c->addresses = addresses_new(&(struct addresses_conf){
		.kube = c->kube,
		.cache = c->cache,
		.events = c->events,
		.gc = f->gc,
		.grace_ms = f->gc_grace_ms + f->gc_delay_ms,
		.interval_ms = f->gc_interval_ms,
		.records_max = (size_t)f->records_max,
		.identity = {f->statefulset, f->kubevirt},
		.uninjected = c->uninjected,
		.missing_changed = missing_changed,
		.arg = c,
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
	const struct webhooks_conf conf = {c->kube, c->cache->objects, &c->root, &c->conf};
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

/* --- pools of subnets --- */

static int start_subnets(struct controller *c, void **ret, struct err *e)
{
	const struct controller_conf *f = controller_first(c);
	struct subnets_conf s = {
		.kube = c->kube,
		.cache = c->cache,
		.gc_cache = addresses_cache(c->addresses),
		.events = c->events,
		.redundant_ips = (uint32_t)f->subnet_redundant_ips,
		.reuse_delay_ms = f->subnet_reuse_delay_ms,
	};

	(void)e;
	if (f->subnet)
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

/* --- tables of parts --- */

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
	       "CONTROLLER_PARTS_MAX is less than the rows of a table");

static int parts_start(struct controller *c, const struct part *p, void **at, struct err *e)
{
	for (; p->start; p++, at++) {
		int r = p->start(c, at, e);

		if (r < 0)
			return r;
	}
	return 0;
}

static void parts_stop(const struct part *table, size_t n, void **at)
{
	while (n-- > 0) {
		if (at[n])
			table[n].stop(at[n]);
		at[n] = NULL;
	}
}

/* Starts what every replica runs, in table order; it is stopped in reverse order. */
static int controller_serve(struct controller *c, struct err *e)
{
	return parts_start(c, every, c->every, e);
}

static void controller_part_from(struct controller *c)
{
	parts_stop(every, ARRAY_LEN(every) - 1, c->every);
}

/* Cannot fail, because `start` of each part of the leader always returns 0. */
static void controller_lead(struct controller *c)
{
	parts_start(c, leads, c->leads, NULL);
}

static void controller_follow(struct controller *c)
{
	parts_stop(leads, ARRAY_LEN(leads) - 1, c->leads);
}

/* --- all parts --- */

static void notify_settings(struct controller *c, const struct part *p, void **at)
{
	for (; p->start; p++, at++)
		if (*at && p->settings)
			p->settings(*at, c);
}

static void controller_notify_settings(struct controller *c)
{
	notify_settings(c, every, c->every);
	notify_settings(c, leads, c->leads);
}

/*
 * Until the leader has registered the webhooks, pods are not reviewed. So the leader is not ready
 * before, and no replica is ready before there is a leader. A replica that was ready once does not
 * wait again: the webhooks stay registered when the leader changes.
 */
static int is_registered(struct controller *c, struct err *e)
{
	int r = 0;

	if (c->registered || !c->webhooks)
		return 0;
	if (!*kube_lease_holder(c->lease))
		return err_kind(e, ERR_AGAIN, -EAGAIN,
				"no replica is the leader yet: the leader registers the webhooks");
	r = webhooks_registered(c->webhooks, e);
	c->registered = r == 0;
	return r;
}

/*
 * An API server that becomes unreachable does not make a replica unready, since the replica answers
 * from its cache. Nor does a kind that is not installed: there are no requests for it.
 */
static int controller_ready(struct controller *c, struct err *e)
{
	for (int k = 0; k < CLUSTER_CACHE_KINDS; k++) {
		int r = kube_cache_synced(c->cache->objects, k)
				? 0
				: kube_cache_error(c->cache->objects, k, e);

		if (r < 0 && r != -ENOENT)
			return r;
	}
	err_clear(e);
	for (size_t i = 0; every[i].start; i++) {
		bool requests = c->every[i] && every[i].ready;
		int r = requests ? every[i].ready(c->every[i], e) : 0;

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

static void controller_metrics(struct controller *c, struct buf *b)
{
	const struct metric *objects = METRIC("unirail_controller_objects", "gauge",
					      "Objects in the cluster cache of this replica.");

	sample_gauge(b, "unirail_controller_leader", kube_lease_is_held(c->lease),
		     "1 if this replica is the leader, otherwise 0.");
	sample_counter(b, "unirail_controller_leader_acquired_total", c->gained,
		       "Times that this replica became leader.");
	sample_name(b, objects);
	for (int k = 0; k < CLUSTER_CACHE_KINDS; k++)
		sample_value(b, objects->name, "kind", kube_cache_kind_name(c->cache->objects, k),
			     (int64_t)kube_cache_count(c->cache->objects, k));
	add_metrics(every, c->every, b);
	add_metrics(leads, c->leads, b);
}
