/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/agent.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/api/gauges.h"
#include "agent/blocks/predict.h"
#include "agent/internal.h"
#include "base/alloc.h"
#include "base/log.h"
#include "device/allocated.h"
#include "kern/sys/caps.h"
#include "server/confine.h"
#include "server/prometheus.h"

/* `unirail agent`: settings, signals, start and stop, and the wiring of its parts. */

enum { DRAIN_MS = 10 * 1000 };

const struct cmd agent_cmds[] = {
	{NULL, NULL, "run the node's agent: allocate addresses from the cluster's pools",
	 agent_opts, 0, 0},
	{0},
};

/* --- settings --- */

static void apply(struct agent *a, struct agent_conf *c)
{
	struct ipam_api_conf api;
	struct node_pools_conf lender;

	/* Other parts keep pointers to the strings of the first settings. */
	if (!a->first.own.v)
		a->first = a->conf;
	else
		agent_conf_done(&a->conf);
	a->conf = *c;
	daemon_log(a->conf.log_level, a->conf.log_format, NULL);
	lender = agent_lender_conf(a);
	node_pools_settings(a->lender, &lender);
	gc_settings(a->gc, !settings_yes(a->conf.gc), a->conf.gc_grace_ms);
	api = agent_api_conf(a);
	kept_settings(a->kept, a->conf.gc_grace_ms, &api.identity);
	ipam_api_settings(a->api, &api, &a->conf.coordinator);
}

static void reload(void *arg)
{
	struct agent *a = arg;
	struct agent_conf c;
	struct err e = ERR_INIT;
	const char *needs;
	int r;

	r = agent_conf_read(&c, &a->root, NULL, a->argc, a->argv, &e);
	if (r == 0 && agent_conf_hostname(&c, &e) < 0)
		agent_conf_done(&c);
	if (e.code < 0) {
		log_error("settings are not valid, those read before stay in force",
			  LOG_S("error", e.text));
		return;
	}
	needs = settings_needs_restart(&agent_settings, a->first.own.v ? &a->first : &a->conf, &c);
	if (needs)
		log_warn("a setting changes with the next start only", LOG_S("setting", needs));
	apply(a, &c);
	log_info("settings read", LOG_S("file", a->conf.config));
}

/* --- stop --- */

static void on_drained(void *arg)
{
	loop_stop(((struct agent *)arg)->loop, 0);
}

/* The socket's path is removed first: new clients then reach the next agent, or none. */
static void end(void *arg)
{
	struct agent *a = arg;

	ipam_api_hurry(a->api);
	listener_hide(&a->listener);
	http_server_drain(a->http, DRAIN_MS, on_drained, a);
	listener_close(&a->listener);
}

/* --- start --- */

static int listen_on(struct agent *a, struct err *e)
{
	int r = listener_inherit(&a->listener, e);

	return r != 0 ? (r < 0 ? r : 0) : listener_open(&a->listener, a->conf.socket, e);
}

/* A damaged journal is treated as lost: its blocks stay unused until the inventory of the node's
 * pods is complete. `why` describes the damage. */
static int begin_anew(struct agent *a, const struct ipam_paths *paths, const struct err *why,
		      struct err *e)
{
	auto_free char *log = blocks_log_path(a->conf.state_dir);
	auto_fd int lock = -1;
	int r = blocks_lock(&a->root, a->conf.state_dir, &lock, e);

	if (r >= 0)
		r = ipam_begin_anew(&a->root, paths, log, &a->aside, e);
	if (r == 0 && a->aside)
		log_error("the journal is damaged and was moved aside: blocks of this node stay "
			  "unused until every pod of the node is accounted for",
			  LOG_S("file", a->aside), LOG_S("error", why->text));
	return r;
}

/* An error here is reported at the start, not to the first pod. */
static int try_store(struct agent *a, struct err *e)
{
	const struct ipam_paths paths = agent_api_conf(a).paths;
	struct ipam *store = NULL;
	struct err why = ERR_INIT;
	int r = ipam_open(&store, &a->root, &paths, &why);

	if (r == -EBADMSG) {
		r = begin_anew(a, &paths, &why, e);
		if (r == 0)
			r = ipam_open(&store, &a->root, &paths, e);
	} else if (r < 0) {
		*e = why;
	}
	ipam_close(store);
	return r;
}

static void confine(struct agent *a)
{
	struct confine c = {.root = &a->root, .mode = SANDBOX_AGENT};
	const char *files[KUBE_CONF_FILES];

	confine_file(&c, a->conf.config, SANDBOX_READ);
	kube_conf_files(&a->kube_conf, files);
	confine_server(&c, a->kube_conf.host, files,
		       a->kube_conf.exec.argv ? a->kube_conf.exec.argv[0] : NULL);
	confine_folder(&c, a->conf.state_dir, SANDBOX_WRITE);
	confine_folder(&c, a->conf.hostlocal_dir, SANDBOX_WRITE);
	confine_folder(&c, a->conf.cni_cache_dir, SANDBOX_READ);
	confine_folder(&c, a->conf.cni_dir, a->cni ? SANDBOX_WRITE : SANDBOX_READ);
	confine_folder(&c, cluster_network_dir(a->network), SANDBOX_WRITE);
	/* Read if the kubelet has no PodResources API. */
	confine_file(&c, KUBELET_CHECKPOINT, SANDBOX_READ);
	if (a->listener.path)
		confine_file(&c, a->listener.path, SANDBOX_REMOVE);
	confine_file(&c, a->conf.pid_file, SANDBOX_REMOVE);
	confine_enter(&c, a->conf.sandbox, a->unconfined, sizeof(a->unconfined));
}

static int start(struct agent *a, struct err *e)
{
	static const struct daemon_ops ops = {reload, end};
	int r = daemon_log(a->conf.log_level, a->conf.log_format, e);

	if (r == 0)
		r = loop_new(&a->loop, e);
	if (r == 0)
		r = daemon_new(&a->daemon, a->loop, &ops, a, e);
	if (r == 0)
		r = listen_on(a, e);
	if (r == 0)
		r = agent_open_ports(a, e);
	if (r == 0)
		r = caps_files_only(e);
	if (r == 0)
		r = try_store(a, e);
	if (r == 0)
		r = agent_know_cluster(a, e);
	if (r == 0)
		r = agent_serve(a, e);
	if (r < 0)
		return r;
	daemon_watch(a->daemon, a->conf.config);
	r = daemon_pid_file(a->daemon, &a->root, a->conf.pid_file, e);
	if (r == 0)
		confine(a);
	return r;
}

static void stop(struct agent *a)
{
	agent_part_from(a);
	listener_close(&a->listener);
	daemon_free(a->daemon);
	loop_free(a->loop);
	agent_conf_done(&a->conf);
	agent_conf_done(&a->first);
	free(a->aside);
}

static int run(struct agent *a)
{
	struct err e = ERR_INIT;
	int r = start(a, &e), status = 1;

	if (r < 0) {
		fprintf(stderr, "unirail agent: %s\n", e.text);
	} else {
		log_info("ready",
			 LOG_S("socket", a->listener.path ? a->listener.path : "systemd's"));
		status = loop_run(a->loop);
		log_info("ended");
	}
	stop(a);
	return status;
}

int agent_main(int argc, char **argv)
{
	struct agent a = {.argc = argc - 1, .argv = argv + 1, .listener = LISTENER_INIT};
	struct err e = ERR_INIT;
	int r = root_open(&a.root, NULL, &e), status;

	if (r == 0)
		r = agent_conf_read(&a.conf, &a.root, NULL, a.argc, a.argv, &e);
	if (r == 0)
		r = agent_conf_hostname(&a.conf, &e);
	if (r < 0)
		return opt_exit("unirail agent", r, &e);
	status = run(&a);
	root_close(&a.root);
	return status;
}

/* The agent's parts: their configuration, and their callbacks to each other. */

/* FD_RESERVE: the store's files, log, loop, listeners, the API server's connections. */
enum { FD_RESERVE = 64 + PORTS_FDS_MAX };

/* --- events of the cluster --- */

static void on_pools(void *arg)
{
	struct agent *a = arg;

	node_pools_pools_changed(a->lender);
	if (a->api)
		ipam_api_changed(a->api, ""); /* requests waiting for a pool to be created */
	ipam_api_touch(a->api);
}

static void on_node(void *arg, const char *uid)
{
	struct agent *a = arg;
	struct err e = ERR_INIT;

	(void)uid;
	if (node_pools_node_changed(a->lender, &e) < 0) {
		log_error("this node's blocks cannot be had", LOG_S("error", e.text));
		loop_stop(a->loop, 1);
		return;
	}
	ipam_api_touch(a->api);
}

static void on_expected(void *arg, const char *pool)
{
	node_pools_expect(arg, pool, 1);
}

/* The pool may already have its addresses. */
static void on_found(void *arg, const char *pool)
{
	node_pools_expect(arg, pool, 0);
}

static struct pod_pools_conf pools_conf(const struct agent *a)
{
	return (struct pod_pools_conf){.no4 = !settings_yes(a->conf.ipv4),
				       .no6 = !settings_yes(a->conf.ipv6),
				       .subnets = settings_yes(a->conf.subnet),
				       .auto_pools = settings_yes(a->conf.subnet)};
}

static void on_pod(void *arg, const struct pod_facts *was, const struct pod_facts *is)
{
	struct agent *a = arg;

	if (a->endpoints)
		endpoints_pod_changed(a->endpoints);
	if (is && !was && a->lender)
		expect_pod(&(struct expect){.cluster = a->cluster,
					    .node = a->conf.node,
					    .conf = pools_conf(a),
					    .pool = cluster_synced(a->cluster, CLUSTER_PODS)
							    ? on_expected
							    : on_found,
					    .arg = a->lender},
			   is);
}

/* A node's blocks may not change for long: other kinds detect a restore earlier. */
static void on_etcd_restored(void *arg)
{
	struct agent *a = arg;

	if (a->lender && node_pools_blocks(a->lender))
		blocks_etcd_restored(node_pools_blocks(a->lender));
}

static void on_more(void *arg, const char *pool)
{
	struct agent *a = arg;

	if (a->api)
		ipam_api_changed(a->api, pool);
}

static void on_settings(void *arg, const struct pod_facts *pod, struct json_out *o)
{
	const struct agent *a = arg;

	ipam_api_put_settings(a->api, pod, o);
}

/* --- events of the store --- */

static void answer_scrape(struct agent *a, struct ipam *store)
{
	auto_buf struct buf b;

	a->scraped = false;
	buf_init(&b, METRICS_TEXT_MAX);
	metrics_text(&b, &a->metrics);
	gauges_text(&b, store, a->cluster, a->lender);
	if (a->cni)
		sample_gauge(&b, "unirail_cni_config_used", cni_watch_used(a->cni),
			     "Whether the container runtime uses unirail's CNI configuration.");
	ports_metrics(a->ports, buf_span(&b));
}

/* Returns whether the journal is known to have all addresses of pods. */
static bool is_whole(const struct agent *a)
{
	const struct blocks *b = node_pools_blocks(a->lender);

	return b && blocks_ready(b) && blocks_unadopted_count(b) == 0;
}

static void on_begin(void *arg, struct ipam *store)
{
	struct agent *a = arg;

	migration_begin(a->handover, store);
}

static void on_batch(void *arg, struct ipam *store)
{
	struct agent *a = arg;

	gc_batch(a->gc, store);
	foreign_batch(a->foreign, store);
	endpoints_hold(a->endpoints, !is_whole(a));
	kept_batch(a->kept, store);
	migration_batch(a->handover, store, is_whole(a));
	node_pools_leases(a->lender, ipam_leases(store));
	endpoints_leases(a->endpoints, ipam_leases(store), ipam_pools(store));
	if (a->scraped)
		answer_scrape(a, store);
}

static void on_failed(void *arg, const struct pod_facts *pod, const struct err *why)
{
	struct agent *a = arg;

	kube_events_add(a->events, &(struct kube_event){.api_version = "v1",
							.kind = "Pod",
							.ns = pod->ns,
							.name = pod->name,
							.uid = pod->uid,
							.warning = true,
							.reason = "FailedAllocateIPs",
							.message = why->text});
}

static void on_scrape(void *arg)
{
	struct agent *a = arg;

	a->scraped = true;
	ipam_api_touch(a->api);
}

static void on_due(void *arg)
{
	struct agent *a = arg;

	ipam_api_touch(a->api);
}

/* A name's addresses have been migrated here: retry the pending requests. */
static void on_came(void *arg)
{
	struct agent *a = arg;

	if (a->api)
		ipam_api_changed(a->api, NULL);
}

static int on_ready(void *arg, struct err *e)
{
	struct agent *a = arg;
	int r;

	r = node_pools_ready(a->lender, e);
	return r < 0 ? r : cni_watch_ready(a->cni, e);
}

/* --- set-up --- */

struct node_pools_conf agent_lender_conf(struct agent *a)
{
	return (struct node_pools_conf){
		.kube = a->kube,
		.cluster = a->cluster,
		.root = &a->root,
		.state_dir = a->conf.state_dir,
		.node = a->conf.node,
		.reserve = (uint32_t)a->conf.reserve,
		.idle_ms = a->conf.idle_ms,
		.rest_ms = a->conf.rest_ms,
		.quarantine_ms = a->conf.quarantine_ms,
		.conflict_detection = settings_yes(a->conf.conflict_detection),
		.gateway_detection = settings_yes(a->conf.gateway_detection),
		.changed = on_more,
		.arg = a,
	};
}

struct ipam_api_conf agent_api_conf(struct agent *a)
{
	return (struct ipam_api_conf){
		.loop = a->loop,
		.root = &a->root,
		.paths = {.state_dir = a->conf.state_dir,
			  .hostlocal_dir = a->conf.hostlocal_dir,
			  .node = a->conf.node},
		.no_release_conflict_ips = !settings_yes(a->conf.release_conflict),
		.metrics = &a->metrics,
		.cluster = a->cluster,
		.lender = a->lender,
		.handover = a->handover,
		.nets = a->nets,
		.cni = a->cni,
		.unconfined = a->unconfined,
		.wait_ms = a->conf.wait_ms,
		.pools = pools_conf(a),
		.identity = {.statefulset = settings_yes(a->conf.statefulset),
			     .kubevirt = settings_yes(a->conf.kubevirt)},
		.hooks = {.begin = on_begin, .batch = on_batch, .failed = on_failed, .arg = a},
	};
}

int agent_open_ports(struct agent *a, struct err *e)
{
	bool metrics = settings_yes(a->conf.metrics);

	return ports_new(&a->ports,
			 &(struct ports_conf){.loop = a->loop,
					      .health_listen = a->conf.health_listen,
					      .metrics_listen = a->conf.metrics_listen
									? a->conf.metrics_listen
									: a->conf.listen,
					      .health = (int)a->conf.health_port,
					      .metrics = metrics ? (int)a->conf.metrics_port : 0,
					      .ready = on_ready,
					      .scrape = on_scrape,
					      .arg = a},
			 e);
}

int agent_know_cluster(struct agent *a, struct err *e)
{
	const struct kube_where where = {&a->root, a->conf.kubeconfig, a->conf.context};
	int r = kube_conf_load(&a->kube_conf, &where, e);

	if (r < 0)
		return r;
	log_info("API server", LOG_S("host", a->kube_conf.host), LOG_I("port", a->kube_conf.port),
		 LOG_S("by", a->kube_conf.from), LOG_S("node", a->conf.node));
	a->kube = kube_new(a->loop, &a->root, &a->kube_conf, &(struct kube_settings){0});
	a->cluster = cluster_new(&(struct cluster_conf){
		.kube = a->kube,
		.root = &a->root,
		.node = a->conf.node,
		.ns = a->conf.ns	? a->conf.ns
		      : a->kube_conf.ns ? a->kube_conf.ns
					: "default",
		.state_dir = a->conf.state_dir,
		.pod_changed = on_pod,
		.pools_changed = on_pools,
		.node_changed = on_node,
		.set_back = on_etcd_restored,
		.arg = a,
	});
	return 0;
}

static void tell_of_journal(struct agent *a)
{
	auto_free char *text = NULL;

	if (!a->aside)
		return;
	text = xasprintf("unirail's journal on this node was damaged and was moved to '%s': the "
			 "addresses of its blocks stay unused until every pod of the node is "
			 "accounted for; look for errors of the node's disk",
			 a->aside);
	kube_events_add(a->events, &(struct kube_event){.api_version = "v1",
							.kind = "Node",
							.name = a->conf.node,
							.uid = a->conf.node, /* as the kubelet's */
							.warning = true,
							.reason = "JournalDamaged",
							.message = text});
}

int agent_serve(struct agent *a, struct err *e)
{
	struct http_limits limits = HTTP_LIMITS_INIT;
	struct node_pools_conf lender = agent_lender_conf(a);
	struct ipam_api_conf api;
	int r = node_pools_new(&a->lender, &lender, e);

	if (r == 0)
		r = daemon_connections(a->conf.conns, FD_RESERVE, e);
	if (r < 0)
		return r;
	limits.max_conns = r;
	a->events = kube_events_new(a->kube, "unirail-agent", a->conf.node);
	tell_of_journal(a);
	a->endpoints = endpoints_new(&(struct endpoints_conf){.kube = a->kube,
							      .cluster = a->cluster,
							      .node = a->conf.node,
							      .metrics = &a->metrics});
	a->gc = gc_new(&(struct gc_conf){.loop = a->loop,
					 .root = &a->root,
					 .cluster = a->cluster,
					 .metrics = &a->metrics,
					 .off = !settings_yes(a->conf.gc),
					 .grace_ms = a->conf.gc_grace_ms,
					 .touch = on_due,
					 .arg = a});
	a->kept = kept_new(&(struct kept_conf){.kube = a->kube,
					       .node = a->conf.node,
					       .grace_ms = a->conf.gc_grace_ms,
					       .identity = agent_api_conf(a).identity,
					       .touch = on_due,
					       .arg = a});
	a->handover = migration_new(&(struct migration_conf){.kube = a->kube,
							     .cluster = a->cluster,
							     .lender = a->lender,
							     .node = a->conf.node,
							     .touch = on_due,
							     .changed = on_came,
							     .arg = a});
	a->nets = nets_new(&(struct nets_conf){.loop = a->loop,
					       .root = &a->root,
					       .kube = a->kube,
					       .events = a->events,
					       .cluster = a->cluster,
					       .state_dir = a->conf.state_dir,
					       .settings = on_settings,
					       .settings_arg = a});
	a->foreign = foreign_new(&(struct foreign_conf){.loop = a->loop,
							.cluster = a->cluster,
							.lender = a->lender,
							.endpoints = a->endpoints,
							.root = &a->root,
							.cni_cache_dir = a->conf.cni_cache_dir,
							.hold_ms = a->conf.gc_grace_ms,
							.touch = on_due,
							.arg = a});
	if (a->conf.cni_name && *a->conf.cni_name) {
		r = cni_watch_new(&a->cni,
				  &(struct cni_watch_conf){.loop = a->loop,
							   .root = &a->root,
							   .events = a->events,
							   .dir = a->conf.cni_dir,
							   .name = a->conf.cni_name,
							   .socket = a->conf.socket,
							   .node = a->conf.node},
				  e);
		if (r < 0)
			return r;
	}
	a->network = cluster_network_new(&(struct cluster_network_conf){.loop = a->loop,
									.root = &a->root,
									.cni_dir = a->conf.cni_dir,
									.socket = a->conf.socket});
	api = agent_api_conf(a);
	a->api = ipam_api_new(&api);
	ipam_api_settings(a->api, &api, &a->conf.coordinator);
	ipam_api_touch(a->api);
	return http_server_new(&a->http, a->loop, a->listener.fd, &limits, ipam_api_handle, a->api,
			       e);
}

void agent_part_from(struct agent *a)
{
	ports_free(a->ports);
	http_server_free(a->http);
	ipam_api_free(a->api);
	foreign_free(a->foreign);
	gc_free(a->gc);
	kept_free(a->kept);
	migration_free(a->handover);
	nets_free(a->nets);
	cluster_network_free(a->network);
	cni_watch_free(a->cni);
	endpoints_free(a->endpoints);
	kube_events_free(a->events);
	node_pools_free(a->lender);
	cluster_free(a->cluster);
	kube_free(a->kube);
	kube_conf_done(&a->kube_conf);
}
