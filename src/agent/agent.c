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
#include "base/paths.h"
#include "device/allocated.h"
#include "device/podres.h"
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

/* --- settings of the agent --- */

static struct ipam_api_conf agent_api_conf(struct agent *a);

static struct node_pools_conf agent_node_pools_conf(struct agent *a);

static struct nri_policy agent_nri_policy(const struct agent_conf *c);

/* Returns the path of the hook for CDI specifications; NULL: no hook. */
static const char *agent_hook(const struct agent_conf *c)
{
	return c->memlock_hook && *c->memlock_hook && c->memlock ? c->memlock_hook : NULL;
}

static void apply(struct agent *a, struct agent_conf *c)
{
	struct ipam_api_conf api;
	struct node_pools_conf node_pools;
	struct nri_policy policy = agent_nri_policy(c);

	/* a->first owns the strings: other parts retain pointers to the settings at the start */
	if (!a->first.own.v)
		a->first = a->conf;
	else
		agent_conf_done(&a->conf);
	a->conf = *c;
	daemon_log(a->conf.log_level, a->conf.log_format, NULL);
	node_pools = agent_node_pools_conf(a);
	node_pools_settings(a->node_pools, &node_pools);
	gc_settings(a->gc, !a->conf.gc, a->conf.gc_grace_ms);
	api = agent_api_conf(a);
	retained_settings(a->retained, a->conf.gc_grace_ms, &api.identity);
	ipam_api_settings(a->api, &api, &a->conf.coordinator);
	if (a->nri)
		nri_settings(a->nri, &policy);
	device_serve_hook(a->devices, agent_hook(&a->conf), a->conf.rdma_memlock);
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
		log_error("settings file rejected, keeping the current settings",
			  LOG_S("error", e.text));
		return;
	}
	needs = settings_needs_restart(&agent_settings, a->first.own.v ? &a->first : &a->conf, &c);
	if (needs)
		log_warn("changed setting takes effect after a restart only",
			 LOG_S("setting", needs));
	apply(a, &c);
	log_info("settings read", LOG_S("file", a->conf.config));
}

/* --- stop on a signal --- */

static void on_drained(void *arg)
{
	loop_stop(((struct agent *)arg)->loop, 0);
}

/* Removes the socket's path before the listener closes: new clients then connect to the next
 * agent, or fail. */
static void end(void *arg)
{
	struct agent *a = arg;

	ipam_api_drain(a->api);
	listener_hide(&a->listener);
	http_server_drain(a->http, DRAIN_MS, on_drained, a);
	listener_close(&a->listener);
}

/* --- start of the agent --- */

static int listen_on(struct agent *a, struct err *e)
{
	int r = listener_inherit(&a->listener, e);

	return r != 0 ? (r < 0 ? r : 0) : listener_open(&a->listener, a->conf.socket, e);
}

/* Moves a damaged journal aside and starts with an empty one, as after the loss of the journal:
 * this node's blocks stay unused until the agent has found the addresses of all pods on this
 * node. `cause` describes the damage. */
static int recreate_state(struct agent *a, const struct ipam_paths *paths, const struct err *cause,
			  struct err *e)
{
	auto_free char *log = blocks_log_path(a->conf.state_dir);
	auto_fd int lock = -1;
	int r = blocks_lock(&a->root, a->conf.state_dir, &lock, e);

	if (r >= 0)
		r = ipam_recreate(&a->root, paths, log, &a->aside, e);
	if (r == 0 && a->aside)
		log_error("journal damaged and renamed: blocks of this node stay unused until the "
			  "address of every pod on this node is known",
			  LOG_S("file", a->aside), LOG_S("error", cause->text));
	return r;
}

/* Opens the store once at the start, so that an error in the store fails the start and not the ADD
 * of the first pod. A damaged journal is replaced by an empty one. */
static int try_store(struct agent *a, struct err *e)
{
	const struct ipam_paths paths = agent_api_conf(a).paths;
	struct ipam *store = NULL;
	struct err cause = ERR_INIT;
	int r = ipam_open(&store, &a->root, &paths, &cause);

	if (r == -EBADMSG) {
		r = recreate_state(a, &paths, &cause, e);
		if (r == 0)
			r = ipam_open(&store, &a->root, &paths, e);
	} else if (r < 0) {
		*e = cause;
	}
	ipam_close(store);
	return r;
}

static void confine_devices(const struct agent *a, struct confine *c)
{
	const char *dirs[] = {a->conf.device_plugin_dir, a->conf.device_registry_dir};

	for (size_t i = 0; i < ARRAY_LEN(dirs); i++)
		if (file_exists(&a->root, dirs[i]))
			confine_dir(c, dirs[i], SANDBOX_SOCKETS);
	confine_file(c, a->conf.device_config, SANDBOX_READ);
	confine_dir(c, "/sys", SANDBOX_READ);
	confine_dir(c, "/proc/self/net", SANDBOX_READ);
	/* For the UUIDs of GPUs the agent may read all of /proc/driver, because its directory
	 * nvidia appears only when the driver is loaded. */
	if (file_exists(&a->root, "/proc/driver"))
		confine_dir(c, "/proc/driver", SANDBOX_READ);
	confine_dir(c, PATH_DEVINFO_DP, SANDBOX_WRITE);
	if (a->qp_watch)
		confine_dir(c, "/proc", SANDBOX_READ);
	if (a->conf.use_cdi)
		confine_dir(c, PATH_CDI, SANDBOX_WRITE);
	if (a->limits && file_exists(&a->root, CGROUP_DIR))
		confine_dir(c, CGROUP_DIR, SANDBOX_WRITE);
}

/* The drift report is replaced by rename, so the agent needs access to the report's directory. */
static void confine_drift(const struct agent *a, struct confine *c)
{
	const char *slash = strrchr(a->conf.host_drift, '/');
	auto_free char *dir = NULL;

	if (!slash || slash == a->conf.host_drift)
		return;
	dir = span_dup((struct span){a->conf.host_drift, (size_t)(slash - a->conf.host_drift)});
	dir_make(&a->root, dir, 0755, NULL);
	confine_dir(c, dir, SANDBOX_READ);
}

static void confine(struct agent *a)
{
	struct confine c = {.root = &a->root, .mode = SANDBOX_AGENT};
	const char *files[KUBE_CONF_FILES];

	confine_file(&c, a->conf.config, SANDBOX_READ);
	kube_conf_files(&a->kube_conf, files);
	confine_server(&c, a->kube_conf.host, files,
		       a->kube_conf.exec.argv ? a->kube_conf.exec.argv[0] : NULL);
	confine_dir(&c, a->conf.state_dir, SANDBOX_WRITE);
	confine_dir(&c, a->conf.hostlocal_dir, SANDBOX_WRITE);
	confine_dir(&c, a->conf.cni_cache_dir, SANDBOX_READ);
	confine_dir(&c, a->conf.cni_dir, a->cni ? SANDBOX_WRITE : SANDBOX_READ);
	confine_dir(&c, cluster_network_dir(a->network), SANDBOX_WRITE);
	/* the agent reads this file if the kubelet has no PodResources API */
	confine_file(&c, PATH_KUBELET_CHECKPOINT, SANDBOX_READ);
	if (a->listener.path)
		confine_file(&c, a->listener.path, SANDBOX_REMOVE);
	if (a->nri) {
		dir_make(&a->root, RAILS_DIR, 0755, NULL);
		confine_dir(&c, RAILS_DIR, SANDBOX_READ);
	}
	if (a->devices)
		confine_devices(a, &c);
	confine_drift(a, &c);
	confine_file(&c, a->conf.pid_file, SANDBOX_REMOVE);
	confine_enter(&c, a->conf.sandbox, a->unconfined, sizeof(a->unconfined));
}

static int agent_connect(struct agent *a, struct err *e);

static int agent_open_ports(struct agent *a, struct err *e);

static int agent_serve(struct agent *a, struct err *e);

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
		r = agent_connect(a, e);
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

static void agent_teardown(struct agent *a);

static void stop(struct agent *a)
{
	agent_teardown(a);
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

/* --- configuration of the agent's parts, and the callbacks between them --- */

/* FD_RESERVE: descriptors of the store, the log, the event loop, the listeners, the connections
 * to the health and metrics ports, and those to the API server. */
enum { FD_RESERVE = 64 + PORTS_FDS_MAX };

/* --- events of the cluster --- */

static void on_pools(void *arg, bool addresses)
{
	struct agent *a = arg;

	node_pools_pools_changed(a->node_pools, addresses);
	if (!addresses)
		return;
	/* "" is the name of no pool: ipam_api_changed() then does not retry the requests that
	 * lack addresses of a pool, only the others, for example those that wait until a pool is
	 * created */
	if (a->api)
		ipam_api_changed(a->api, "");
	ipam_api_touch(a->api);
}

static void on_node(void *arg, const char *uid)
{
	struct agent *a = arg;
	struct err e = ERR_INIT;

	(void)uid;
	if (node_pools_node_changed(a->node_pools, &e) < 0) {
		log_error("cannot open this node's blocks, stopping", LOG_S("error", e.text));
		loop_stop(a->loop, 1);
		return;
	}
	ipam_api_touch(a->api);
}

static void on_expected(void *arg, const char *pool)
{
	blocks_prefetch(arg, pool, 1);
}

/* Called for a pod of the initial list: the pod may already have its addresses, so the node
 * claims none for it and only pre-allocates addresses of the pool. */
static void on_found(void *arg, const char *pool)
{
	blocks_prefetch(arg, pool, 0);
}

static struct pod_pools_conf pools_conf(const struct agent *a)
{
	return (struct pod_pools_conf){.no4 = !a->conf.ipv4,
				       .no6 = !a->conf.ipv6,
				       .subnets = a->conf.subnet,
				       .auto_pools = a->conf.subnet};
}

static void on_pod(void *arg, const struct pod_facts *was, const struct pod_facts *is)
{
	struct agent *a = arg;

	if (a->endpoints)
		endpoints_pod_changed(a->endpoints);
	if (is && !was && a->node_pools && node_pools_blocks(a->node_pools))
		expect_pod(&(struct expect){.cluster = a->cluster,
					    .node = a->conf.node,
					    .conf = pools_conf(a),
					    .pool = kube_cache_synced(cluster_objects(a->cluster),
								      CLUSTER_PODS)
							    ? on_expected
							    : on_found,
					    .arg = node_pools_blocks(a->node_pools)},
			   is);
}

/* The watch of objects of another kind has detected that etcd was restored. The watch of the
 * node's blocks may detect it much later, because blocks may stay unchanged for a long time. */
static void on_etcd_restored(void *arg)
{
	struct agent *a = arg;

	if (a->node_pools && node_pools_blocks(a->node_pools))
		blocks_etcd_restored(node_pools_blocks(a->node_pools));
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

/* --- response to a scrape of metrics --- */

static void put_devices(const struct device_serve *d, struct buf *b)
{
	const struct device_serve_count c = device_serve_count(d);

	sample_gauge(b, "unirail_device_resources", (int64_t)c.resources,
		     "Resources that this node advertises to the kubelet.");
	sample_gauge(b, "unirail_device_resources_registered", (int64_t)c.registered,
		     "Resources that the kubelet has registered.");
	sample_gauge(b, "unirail_devices", (int64_t)c.devices, "Device ids of all resources.");
	sample_gauge(b, "unirail_devices_unhealthy", (int64_t)c.unhealthy,
		     "Device ids that are unhealthy.");
}

static void put_drift(const struct host_drift_state *s, struct buf *b)
{
	if (!s->known)
		return;
	sample_gauge(b, "unirail_host_drift_steps", s->steps,
		     "Steps of host preparation that 'unirail host watch' has not carried out.");
	sample_gauge(b, "unirail_host_drift_blocked_steps", s->blocked,
		     "Steps of host preparation that 'unirail host watch' cannot carry out now, "
		     "because they are blocked.");
}

static void put_nri(const struct nri *n, struct buf *b)
{
	const struct nri_counters c = nri_count(n);

	sample_gauge(b, "unirail_nri_connected", c.connected,
		     "1 if the container runtime has registered unirail's NRI plugin, otherwise "
		     "0.");
	sample_counter(b, "unirail_nri_containers_adjusted_total", c.adjusted,
		       "Containers with RDMA devices that got a memlock limit or variables.");
}

static void answer_scrape(struct agent *a, struct ipam *store)
{
	auto_buf struct buf b;

	a->scraped = false;
	buf_init(&b, METRICS_TEXT_MAX);
	metrics_text(&b, &a->metrics);
	gauges_text(&b, store, a->cluster, a->node_pools);
	if (a->cni)
		sample_gauge(
			&b, "unirail_cni_config_used", cni_watch_used(a->cni),
			"1 if the container runtime uses unirail's CNI configuration, otherwise 0.");
	if (a->nri)
		put_nri(a->nri, &b);
	if (a->devices)
		put_devices(a->devices, &b);
	if (a->drift)
		put_drift(host_drift_state(a->drift), &b);
	ports_metrics(a->ports, buf_span(&b));
}

/* --- events of the store --- */

/* Returns whether the journal has the addresses of all pods on this node. */
static bool is_whole(const struct agent *a)
{
	const struct blocks *b = node_pools_blocks(a->node_pools);

	return b && blocks_ready(b) && blocks_unadopted_count(b) == 0;
}

static void on_begin(void *arg, struct ipam *store)
{
	struct agent *a = arg;

	migration_begin(a->migration, store);
}

static void on_batch(void *arg, struct ipam *store)
{
	struct agent *a = arg;

	gc_batch(a->gc, store);
	adopt_batch(a->adoption, store);
	endpoints_hold(a->endpoints, !is_whole(a));
	retained_batch(a->retained, store);
	migration_batch(a->migration, store, is_whole(a));
	if (node_pools_blocks(a->node_pools))
		blocks_leases(node_pools_blocks(a->node_pools), ipam_leases(store));
	endpoints_leases(a->endpoints, ipam_leases(store), ipam_pools(store));
	if (a->scraped)
		answer_scrape(a, store);
}

static void on_failed(void *arg, const struct pod_facts *pod, const struct err *cause)
{
	struct agent *a = arg;

	kube_events_add(a->events, &(struct kube_event){.api_version = "v1",
							.kind = "Pod",
							.ns = pod->ns,
							.name = pod->name,
							.uid = pod->uid,
							.warning = true,
							.reason = "FailedAllocateIPs",
							.message = cause->text});
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

/* The import of the retained addresses of a pod's name has ended: retries all pending requests. */
static void on_imported(void *arg)
{
	struct agent *a = arg;

	if (a->api)
		ipam_api_changed(a->api, NULL);
}

static int on_ready(void *arg, struct err *e)
{
	struct agent *a = arg;
	int r;

	r = node_pools_ready(a->node_pools, e);
	return r < 0 ? r : cni_watch_ready(a->cni, e);
}

/* --- creating the parts of the agent --- */

static struct nri_policy agent_nri_policy(const struct agent_conf *c)
{
	return (struct nri_policy){
		.memlock = c->memlock,
		.environment = c->rdma_environment,
		.nccl_net_ib = strcmp(c->nccl_net, "IB") == 0,
		.primary = c->primary,
	};
}

static struct node_pools_conf agent_node_pools_conf(struct agent *a)
{
	return (struct node_pools_conf){
		.kube = a->kube,
		.cluster = a->cluster,
		.root = &a->root,
		.state_dir = a->conf.state_dir,
		.node = a->conf.node,
		.pre_allocate = (uint32_t)a->conf.pre_allocate,
		.idle_ms = a->conf.idle_ms,
		.reuse_delay_ms = a->conf.reuse_delay_ms,
		.quarantine_ms = a->conf.quarantine_ms,
		.conflict_detection = a->conf.conflict_detection,
		.gateway_detection = a->conf.gateway_detection,
		.changed = on_more,
		.arg = a,
	};
}

static void write_devices(void *arg, struct json_out *o)
{
	device_serve_write(arg, o);
}

static struct ipam_api_conf agent_api_conf(struct agent *a)
{
	return (struct ipam_api_conf){
		.loop = a->loop,
		.root = &a->root,
		.paths = {.state_dir = a->conf.state_dir,
			  .hostlocal_dir = a->conf.hostlocal_dir,
			  .node = a->conf.node},
		.no_release_conflict_ips = !a->conf.release_conflict,
		.metrics = &a->metrics,
		.cluster = a->cluster,
		.node_pools = a->node_pools,
		.migration = a->migration,
		.nets = a->nets,
		.cni = a->cni,
		.put_devices = a->devices ? write_devices : NULL,
		.devices_arg = a->devices,
		.unconfined = a->unconfined,
		.wait_ms = a->conf.wait_ms,
		.pools = pools_conf(a),
		.identity = {.statefulset = a->conf.statefulset, .kubevirt = a->conf.kubevirt},
		.callbacks = {.begin = on_begin, .batch = on_batch, .failed = on_failed, .arg = a},
	};
}

/* start() calls agent_open_ports(), agent_connect() and agent_serve() in this order; after a
 * failure agent_teardown() closes the parts that are open. */
static int agent_open_ports(struct agent *a, struct err *e)
{
	bool metrics = a->conf.metrics;

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

static const char *agent_namespace(const struct agent *a)
{
	if (a->conf.ns)
		return a->conf.ns;
	return a->kube_conf.ns ? a->kube_conf.ns : "default";
}

static int agent_connect(struct agent *a, struct err *e)
{
	const struct kube_where where = {&a->root, a->conf.kubeconfig, a->conf.context};
	int r = kube_conf_load(&a->kube_conf, &where, e);

	if (r < 0)
		return r;
	log_info("API server", LOG_S("host", a->kube_conf.host), LOG_I("port", a->kube_conf.port),
		 LOG_S("source", a->kube_conf.from), LOG_S("node", a->conf.node));
	a->kube = kube_new(a->loop, &a->root, &a->kube_conf, &(struct kube_settings){0});
	a->cluster = cluster_new(&(struct cluster_conf){
		.kube = a->kube,
		.root = &a->root,
		.node = a->conf.node,
		.ns = agent_namespace(a),
		.state_dir = a->conf.state_dir,
		.pod_changed = on_pod,
		.pools_changed = on_pools,
		.node_changed = on_node,
		.etcd_restored = on_etcd_restored,
		.arg = a,
	});
	return 0;
}

static void report_journal(struct agent *a)
{
	auto_free char *text = NULL;

	if (!a->aside)
		return;
	text = xasprintf("unirail's journal on this node was damaged and renamed to '%s': the "
			 "addresses of the node's blocks stay unused until the address of every "
			 "pod on this node is known; check the node's disk for errors",
			 a->aside);
	kube_events_add(a->events, &(struct kube_event){.api_version = "v1",
							.kind = "Node",
							.name = a->conf.node,
							/* the UID of the Event's object is the
							 * node's name, as in the kubelet's
							 * Events */
							.uid = a->conf.node,
							.warning = true,
							.reason = "JournalDamaged",
							.message = text});
}

static void on_device_event(void *arg, bool is_warning, const char *reason, const char *resource,
			    const char *text)
{
	struct agent *a = arg;
	auto_free char *message = resource ? xasprintf("%s: %s", resource, text) : xstrdup(text);

	kube_events_add(a->events, &(struct kube_event){.api_version = "v1",
							.kind = "Node",
							.name = a->conf.node,
							.uid = a->conf.node,
							.warning = is_warning,
							.reason = reason,
							.message = message});
}

static void on_configmaps(void *arg)
{
	const struct agent *a = arg;

	if (a->devices)
		device_serve_reload(a->devices);
}

static void on_configmap_event(void *arg, bool is_warning, const char *text)
{
	on_device_event(arg, is_warning, "ResourceConfig", NULL, text);
}

static int open_configmaps(struct agent *a, struct err *e)
{
	return device_configmaps_new(
		&a->configmaps,
		&(struct device_configmaps_conf){.kube = a->kube,
						 .root = &a->root,
						 .names = a->conf.device_configmap,
						 .ns = agent_namespace(a),
						 .node = a->conf.node,
						 .state_dir = a->conf.state_dir,
						 .changed = on_configmaps,
						 .event = on_configmap_event,
						 .arg = a},
		e);
}

static size_t served_names(void *arg, const char **v, size_t max)
{
	const struct agent *a = arg;

	return device_serve_names(a->devices, v, max);
}

static void on_served(void *arg)
{
	device_sweep_changed(((struct agent *)arg)->sweep);
}

static void on_sweep_event(void *arg, bool is_warning, const char *text)
{
	on_device_event(arg, is_warning,
			is_warning ? "StaleResourceNotRemoved" : "StaleResourceRemoved", NULL,
			text);
}

static void on_drift_event(void *arg, bool is_warning, const char *reason, const char *text)
{
	on_device_event(arg, is_warning, reason, NULL, text);
}

static void open_drift(struct agent *a)
{
	if (*a->conf.host_drift)
		a->drift = host_drift_new(&(struct host_drift_conf){.kube = a->kube,
								    .root = &a->root,
								    .node = a->conf.node,
								    .path = a->conf.host_drift,
								    .event = on_drift_event,
								    .arg = a});
}

static void open_sweep(struct agent *a)
{
	if (a->conf.device_sweep_ms > 0)
		a->sweep = device_sweep_new(
			&(struct device_sweep_conf){.kube = a->kube,
						    .root = &a->root,
						    .node = a->conf.node,
						    .state_dir = a->conf.state_dir,
						    .prefixes = a->conf.device_sweep_prefixes,
						    .grace_ms = a->conf.device_sweep_ms,
						    .served = served_names,
						    .event = on_sweep_event,
						    .arg = a});
}

/* --- limits of RDMA objects --- */

static void shared_devices(void *arg, const char *resource, const char *id,
			   rdma_limits_device_fn each, void *each_arg)
{
	device_serve_rdma(((struct agent *)arg)->devices, resource, id, true, each, each_arg);
}

static const char *uid_of_pod(void *arg, const char *ns, const char *name)
{
	const struct pod_facts *p = cluster_pod(((struct agent *)arg)->cluster, ns, name);

	if (!p)
		return NULL;
	return p->finished ? "" : p->uid;
}

static void on_limits_event(void *arg, const char *text)
{
	on_device_event(arg, true, "RdmaLimitsNotSet", NULL, text);
}

static void on_allocated(void *arg)
{
	rdma_limits_allocated(((struct agent *)arg)->limits);
}

static bool has_limits(const struct agent_conf *c)
{
	return c->rdma_max_handles > 0 || c->rdma_max_objects > 0;
}

static uint32_t limit_of(int64_t setting)
{
	return setting > 0 ? (uint32_t)setting : CGROUP_RDMA_MAX;
}

static void open_limits(struct agent *a)
{
	if (has_limits(&a->conf))
		a->limits = rdma_limits_new(
			&(struct rdma_limits_conf){.loop = a->loop,
						   .root = &a->root,
						   .podres = PODRES_SOCKET,
						   .per_id = {limit_of(a->conf.rdma_max_handles),
							      limit_of(a->conf.rdma_max_objects)},
						   .devices = shared_devices,
						   .uid = uid_of_pod,
						   .event = on_limits_event,
						   .arg = a});
}

/* --- containers without a queue pair --- */

static void rdma_devices(void *arg, const char *resource, const char *id, qp_device_fn each,
			 void *each_arg)
{
	device_serve_rdma(((struct agent *)arg)->devices, resource, id, false, each, each_arg);
}

static void on_qp_event(void *arg, bool is_warning, const char *ns, const char *pod,
			const char *uid, const char *reason, const char *text)
{
	struct agent *a = arg;

	kube_events_add(a->events, &(struct kube_event){.api_version = "v1",
							.kind = "Pod",
							.ns = ns,
							.name = pod,
							.uid = uid,
							.warning = is_warning,
							.reason = reason,
							.message = text});
}

static void open_qp_watch(struct agent *a)
{
	if (a->conf.queue_pair_wait_ms > 0)
		a->qp_watch =
			qp_watch_new(&(struct qp_watch_conf){.kube = a->kube,
							     .root = &a->root,
							     .podres = PODRES_SOCKET,
							     .after_ms = a->conf.queue_pair_wait_ms,
							     .devices = rdma_devices,
							     .uid = uid_of_pod,
							     .event = on_qp_event,
							     .arg = a});
}

static int open_devices(struct agent *a, size_t n_sources, struct err *e)
{
	const struct device_serve_conf conf = {
		.loop = a->loop,
		.root = &a->root,
		.sources = a->device_sources,
		.n_sources = n_sources,
		.optional = true,
		.plan = !a->configmaps,
		.node = a->conf.node,
		.podres = PODRES_SOCKET,
		.use_cdi = a->conf.use_cdi,
		.hook_path = agent_hook(&a->conf),
		.hook_memlock = a->conf.rdma_memlock,
		.plugins = {.dir = a->conf.device_plugin_dir,
			    .registry = a->conf.device_registry_dir},
		.event = on_device_event,
		.changed = on_served,
		.allocated = on_allocated,
		.arg = a,
	};

	return device_serve_new(&a->devices, &conf, e);
}

static int serve_devices(struct agent *a, struct err *e)
{
	size_t n = 0;
	int r;

	if (!a->conf.device_plugin)
		return 0;
	r = open_configmaps(a, e);
	if (r < 0)
		return r;
	a->device_sources[n++] = a->conf.device_config;
	for (size_t i = 0; i < device_configmaps_count(a->configmaps); i++)
		a->device_sources[n++] = device_configmaps_dir(a->configmaps, i);
	r = open_devices(a, n, e);
	if (r < 0)
		return r;
	open_sweep(a);
	open_limits(a);
	open_qp_watch(a);
	return 0;
}

/* Creates the modules that keep this node's addresses consistent with its pods and with the
 * objects in the cluster. */
static void open_addresses(struct agent *a)
{
	a->endpoints = endpoints_new(&(struct endpoints_conf){.kube = a->kube,
							      .cluster = a->cluster,
							      .node = a->conf.node,
							      .metrics = &a->metrics});
	a->gc = gc_new(&(struct gc_conf){.loop = a->loop,
					 .root = &a->root,
					 .cluster = a->cluster,
					 .metrics = &a->metrics,
					 .off = !a->conf.gc,
					 .grace_ms = a->conf.gc_grace_ms,
					 .touch = on_due,
					 .arg = a});
	a->retained = retained_new(&(struct retained_conf){.kube = a->kube,
							   .node = a->conf.node,
							   .grace_ms = a->conf.gc_grace_ms,
							   .identity = agent_api_conf(a).identity,
							   .touch = on_due,
							   .arg = a});
	a->migration = migration_new(&(struct migration_conf){.kube = a->kube,
							      .cluster = a->cluster,
							      .node_pools = a->node_pools,
							      .node = a->conf.node,
							      .touch = on_due,
							      .changed = on_imported,
							      .arg = a});
	a->nets = nets_new(&(struct nets_conf){.loop = a->loop,
					       .root = &a->root,
					       .kube = a->kube,
					       .events = a->events,
					       .cluster = a->cluster,
					       .state_dir = a->conf.state_dir,
					       .settings = on_settings,
					       .settings_arg = a});
	a->adoption = adopt_new(&(struct adopt_conf){.loop = a->loop,
						     .cluster = a->cluster,
						     .node_pools = a->node_pools,
						     .endpoints = a->endpoints,
						     .root = &a->root,
						     .cni_cache_dir = a->conf.cni_cache_dir,
						     .hold_ms = a->conf.gc_grace_ms,
						     .touch = on_due,
						     .arg = a});
}

static int open_cni_watch(struct agent *a, struct err *e)
{
	if (!a->conf.cni_name || !*a->conf.cni_name)
		return 0;
	return cni_watch_new(&a->cni,
			     &(struct cni_watch_conf){.loop = a->loop,
						      .root = &a->root,
						      .events = a->events,
						      .dir = a->conf.cni_dir,
						      .name = a->conf.cni_name,
						      .socket = a->conf.socket,
						      .node = a->conf.node},
			     e);
}

static int agent_serve(struct agent *a, struct err *e)
{
	struct http_limits limits = HTTP_LIMITS_INIT;
	struct node_pools_conf node_pools = agent_node_pools_conf(a);
	struct ipam_api_conf api;
	int r = node_pools_new(&a->node_pools, &node_pools, e);

	if (r == 0)
		r = daemon_connections(a->conf.conns, FD_RESERVE, e);
	if (r < 0)
		return r;
	limits.max_conns = r;
	a->events = kube_events_new(a->kube, "unirail-agent", a->conf.node);
	report_journal(a);
	open_drift(a);
	open_addresses(a);
	r = open_cni_watch(a, e);
	if (r < 0)
		return r;
	a->network = cluster_network_new(&(struct cluster_network_conf){.loop = a->loop,
									.root = &a->root,
									.cni_dir = a->conf.cni_dir,
									.socket = a->conf.socket});
	if (a->conf.nri)
		a->nri = nri_new(&(struct nri_conf){.loop = a->loop,
						    .root = &a->root,
						    .socket = a->conf.nri_socket,
						    .fd = -1,
						    .policy = agent_nri_policy(&a->conf)});
	r = serve_devices(a, e);
	if (r < 0)
		return r;
	api = agent_api_conf(a);
	a->api = ipam_api_new(&api);
	ipam_api_settings(a->api, &api, &a->conf.coordinator);
	ipam_api_touch(a->api);
	return http_server_new(&a->http, a->loop, a->listener.fd, &limits, ipam_api_handle, a->api,
			       e);
}

static void agent_teardown(struct agent *a)
{
	ports_free(a->ports);
	http_server_free(a->http);
	ipam_api_free(a->api);
	adopt_free(a->adoption);
	gc_free(a->gc);
	retained_free(a->retained);
	migration_free(a->migration);
	nets_free(a->nets);
	cluster_network_free(a->network);
	cni_watch_free(a->cni);
	nri_free(a->nri);
	device_configmaps_free(a->configmaps);
	device_sweep_free(a->sweep);
	host_drift_free(a->drift);
	rdma_limits_free(a->limits);
	qp_watch_free(a->qp_watch);
	device_serve_free(a->devices);
	endpoints_free(a->endpoints);
	kube_events_free(a->events);
	node_pools_free(a->node_pools);
	cluster_free(a->cluster);
	kube_free(a->kube);
	kube_conf_done(&a->kube_conf);
}
