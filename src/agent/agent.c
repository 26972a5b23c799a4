/* SPDX-License-Identifier: Apache-2.0 */
/* `unirail agent`: settings, signals, and what belongs to what. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/agent_conf.h"
#include "agent/endpoints.h"
#include "agent/foreign.h"
#include "agent/gauges.h"
#include "agent/gc.h"
#include "agent/ipam_api.h"
#include "agent/kept.h"
#include "agent/listener.h"
#include "agent/nets.h"
#include "agent/ports.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "kern/caps.h"
#include "kube/conf.h"
#include "kube/events.h"

/* FD_RESERVE: the store's files, log, loop, listeners, the API server's connections. */
enum { DRAIN_MS = 10 * 1000, LOOK_MS = 5 * 1000, FD_RESERVE = 64 };

const struct cmd agent_cmds[] = {
	{NULL, NULL, "this node's part of the cluster", agent_opts, 0, 0},
	{0},
};

/* A file as it was when it was read. */
struct seen {
	ino_t ino;
	off_t size;
	struct timespec mtime;
};

struct agent {
	int argc;
	char **argv;
	struct agent_conf conf;
	struct agent_conf first; /* with what others point to, once there was another one */
	struct seen seen;
	struct root root;
	struct loop *loop;
	struct kube_conf kube_conf;
	struct kube *kube;
	struct cluster *cluster;
	struct lender *lender;
	struct endpoints *endpoints;
	struct gc *gc;
	struct foreign *foreign;
	struct kept *kept;
	struct kube_events *events;
	struct nets *nets;
	struct ipam_api *api;
	struct listener listener;
	struct http_server *http;
	struct ports *ports;
	struct metrics metrics;
	bool scraped; /* metrics are waited for */
	int signals;
	struct loop_fd *watch;
	struct loop_timer *look;
	bool ending;
};

/* --- settings --- */

static struct lender_conf lender_conf(struct agent *a);

static int set_log(const struct agent_conf *c, struct err *e)
{
	struct log_conf l = {.format = LOG_LOGFMT};

	log_level_parse(c->log_level, &l.level);
	if (strcmp(c->log_format, "json") == 0)
		l.format = LOG_JSON;
	return log_setup(&l, e);
}

static struct seen look_at(const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return (struct seen){0};
	return (struct seen){st.st_ino, st.st_size, st.st_mtim};
}

static bool is_same(const struct seen *a, const struct seen *b)
{
	return a->ino == b->ino && a->size == b->size && a->mtime.tv_sec == b->mtime.tv_sec &&
	       a->mtime.tv_nsec == b->mtime.tv_nsec;
}

static struct ipam_api_conf api_conf(struct agent *a);

static void apply(struct agent *a, struct agent_conf *c)
{
	struct ipam_api_conf api;
	struct lender_conf lender;

	/* Texts of the first ones are pointed to by everybody. */
	if (!a->first.own)
		a->first = a->conf;
	else
		agent_conf_done(&a->conf);
	a->conf = *c;
	set_log(&a->conf, NULL);
	lender = lender_conf(a);
	lender_settings(a->lender, &lender);
	gc_settings(a->gc, !agent_conf_is(a->conf.gc), a->conf.gc_grace_ms);
	api = api_conf(a);
	kept_settings(a->kept, a->conf.gc_grace_ms, &api.identity);
	ipam_api_settings(a->api, &api, &a->conf.coordinator);
}

static void reload(struct agent *a)
{
	struct agent_conf c;
	struct err e = ERR_INIT;
	const char *needs;
	int r;

	a->seen = look_at(a->conf.config);
	r = agent_conf_read(&c, &a->root, NULL, a->argc, a->argv, &e);
	if (r == 0 && agent_conf_hostname(&c, &e) < 0)
		agent_conf_done(&c);
	if (e.code < 0) {
		log_error("settings are not valid, those read before stay in force",
			  LOG_S("error", e.text));
		return;
	}
	needs = agent_conf_needs_restart(a->first.own ? &a->first : &a->conf, &c);
	if (needs)
		log_warn("a setting changes with the next start only", LOG_S("setting", needs));
	apply(a, &c);
	log_info("settings read", LOG_S("file", a->conf.config));
}

/* A file that is mounted from a ConfigMap changes by a link above it, so it is looked at. */
static void on_look(void *arg)
{
	struct agent *a = arg;
	struct seen now = look_at(a->conf.config);

	a->look = loop_add_timer(a->loop, LOOK_MS, on_look, a);
	if (!is_same(&now, &a->seen))
		reload(a);
}

/* --- signals --- */

static void on_drained(void *arg)
{
	loop_stop(((struct agent *)arg)->loop, 0);
}

/* The path goes first: who connects from now on finds the next agent, or none. */
static void end(struct agent *a)
{
	if (a->ending) {
		loop_stop(a->loop, 0);
		return;
	}
	a->ending = true;
	log_info("ending, what has been asked is answered first");
	ipam_api_hurry(a->api);
	listener_hide(&a->listener);
	http_server_drain(a->http, DRAIN_MS, on_drained, a);
	listener_close(&a->listener);
}

static void on_signal(void *arg, uint32_t events)
{
	struct signalfd_siginfo info;
	struct agent *a = arg;

	(void)events;
	if (read(a->signals, &info, sizeof(info)) != sizeof(info))
		return;
	if (info.ssi_signo == SIGHUP)
		reload(a);
	else
		end(a);
}

static int watch_signals(struct agent *a, struct err *e)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	a->signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	if (a->signals < 0)
		return err_sys(e, -errno, "wait for signals");
	return loop_add_fd(a->loop, a->signals, EPOLLIN, on_signal, a, &a->watch, e);
}

/* --- what happens in the cluster --- */

static void on_pools(void *arg)
{
	struct agent *a = arg;

	lender_pools_changed(a->lender);
	ipam_api_touch(a->api);
}

static void on_node(void *arg, const char *uid)
{
	struct agent *a = arg;
	struct err e = ERR_INIT;

	(void)uid;
	if (lender_node_changed(a->lender, &e) < 0) {
		log_error("this node's blocks cannot be had", LOG_S("error", e.text));
		loop_stop(a->loop, 1);
		return;
	}
	ipam_api_touch(a->api);
}

static void on_pod(void *arg, const struct pod_facts *was, const struct pod_facts *is)
{
	struct agent *a = arg;

	(void)was, (void)is;
	if (a->endpoints)
		endpoints_pod_changed(a->endpoints);
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

/* --- what happens in the store --- */

static void answer_scrape(struct agent *a, struct ipam *store)
{
	auto_buf struct buf b;

	a->scraped = false;
	buf_init(&b, METRICS_TEXT_MAX);
	metrics_text(&b, &a->metrics);
	gauges_text(&b, store, a->cluster, a->lender);
	ports_metrics(a->ports, buf_span(&b));
}

/* Whether the journal can be taken for all that there is. */
static bool is_whole(const struct agent *a)
{
	const struct blocks *b = lender_blocks(a->lender);

	return b && blocks_ready(b) && blocks_foreign_count(b) == 0;
}

static void on_batch(void *arg, struct ipam *store)
{
	struct agent *a = arg;

	gc_batch(a->gc, store);
	foreign_batch(a->foreign, store);
	endpoints_hold(a->endpoints, !is_whole(a));
	kept_batch(a->kept, store);
	lender_leases(a->lender, ipam_leases(store));
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

static int on_ready(void *arg, struct err *e)
{
	struct agent *a = arg;

	return lender_ready(a->lender, e);
}

/* --- set-up --- */

static struct lender_conf lender_conf(struct agent *a)
{
	return (struct lender_conf){
		.kube = a->kube,
		.cluster = a->cluster,
		.root = &a->root,
		.state_dir = a->conf.state_dir,
		.node = a->conf.node,
		.reserve = (uint32_t)a->conf.reserve,
		.idle_ms = a->conf.idle_ms,
		.rest_ms = a->conf.rest_ms,
		.quarantine_ms = a->conf.quarantine_ms,
		.conflict_detection = agent_conf_is(a->conf.conflict_detection),
		.gateway_detection = agent_conf_is(a->conf.gateway_detection),
		.changed = on_more,
		.arg = a,
	};
}

static struct ipam_api_conf api_conf(struct agent *a)
{
	return (struct ipam_api_conf){
		.loop = a->loop,
		.root = &a->root,
		.paths = {.state_dir = a->conf.state_dir,
			  .hostlocal_dir = a->conf.hostlocal_dir,
			  .node = a->conf.node},
		.no_release_conflict_ips = !agent_conf_is(a->conf.release_conflict),
		.metrics = &a->metrics,
		.cluster = a->cluster,
		.lender = a->lender,
		.nets = a->nets,
		.wait_ms = a->conf.wait_ms,
		.pools = {.no4 = !agent_conf_is(a->conf.ipv4), .no6 = !agent_conf_is(a->conf.ipv6)},
		.identity = {.statefulset = agent_conf_is(a->conf.statefulset),
			     .kubevirt = agent_conf_is(a->conf.kubevirt)},
		.hooks = {.batch = on_batch, .failed = on_failed, .arg = a},
	};
}

/* As many connections as there are descriptors for, so that the store always has its own. */
static int connections(int64_t wanted, struct err *e)
{
	struct rlimit r;
	int64_t most;

	if (getrlimit(RLIMIT_NOFILE, &r) < 0)
		return err_sys(e, -errno, "read the limit of open files");
	r.rlim_cur = r.rlim_max;
	setrlimit(RLIMIT_NOFILE, &r);
	getrlimit(RLIMIT_NOFILE, &r);
	most = r.rlim_cur > INT32_MAX ? INT32_MAX : (int64_t)r.rlim_cur - FD_RESERVE;
	if (most < 1)
		return err_kind(
			e, ERR_CONF, -EMFILE,
			"at most %lld open files are allowed, wants %d at least (ulimit -n)",
			(long long)r.rlim_cur, FD_RESERVE + 1);
	if (wanted > most)
		log_warn("fewer connections: open files are limited", LOG_I("connections", most));
	return (int)(wanted < most ? wanted : most);
}

static int listen_on(struct agent *a, struct err *e)
{
	int r = listener_inherit(&a->listener, e);

	return r != 0 ? (r < 0 ? r : 0) : listener_open(&a->listener, a->conf.socket, e);
}

static int open_ports(struct agent *a, struct err *e)
{
	bool metrics = agent_conf_is(a->conf.metrics);

	return ports_new(&a->ports,
			 &(struct ports_conf){.loop = a->loop,
					      .listen = a->conf.listen,
					      .health = (int)a->conf.health_port,
					      .metrics = metrics ? (int)a->conf.metrics_port : 0,
					      .ready = on_ready,
					      .scrape = on_scrape,
					      .arg = a},
			 e);
}

/* An error here is found by whoever starts us, not by the first pod. */
static int try_store(struct agent *a, struct err *e)
{
	const struct ipam_paths paths = api_conf(a).paths;
	struct ipam *store = NULL;
	int r = ipam_open(&store, &a->root, &paths, e);

	ipam_close(store);
	return r;
}

static int know_cluster(struct agent *a, struct err *e)
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
		.arg = a,
	});
	return 0;
}

static int serve(struct agent *a, struct err *e)
{
	struct http_limits limits = HTTP_LIMITS_INIT;
	struct lender_conf lender = lender_conf(a);
	struct ipam_api_conf api;
	int r = lender_new(&a->lender, &lender, e);

	if (r == 0)
		r = connections(a->conf.conns, e);
	if (r < 0)
		return r;
	limits.max_conns = r;
	a->events = kube_events_new(a->kube, "unirail-agent", a->conf.node);
	a->endpoints = endpoints_new(&(struct endpoints_conf){.kube = a->kube,
							      .cluster = a->cluster,
							      .node = a->conf.node,
							      .metrics = &a->metrics});
	a->gc = gc_new(&(struct gc_conf){.loop = a->loop,
					 .root = &a->root,
					 .cluster = a->cluster,
					 .metrics = &a->metrics,
					 .off = !agent_conf_is(a->conf.gc),
					 .grace_ms = a->conf.gc_grace_ms,
					 .touch = on_due,
					 .arg = a});
	a->kept = kept_new(&(struct kept_conf){.kube = a->kube,
					       .node = a->conf.node,
					       .grace_ms = a->conf.gc_grace_ms,
					       .identity = api_conf(a).identity,
					       .touch = on_due,
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
							.hold_ms = a->conf.gc_grace_ms,
							.touch = on_due,
							.arg = a});
	api = api_conf(a);
	a->api = ipam_api_new(&api);
	ipam_api_settings(a->api, &api, &a->conf.coordinator);
	ipam_api_touch(a->api);
	return http_server_new(&a->http, a->loop, a->listener.fd, &limits, ipam_api_handle, a->api,
			       e);
}

static int write_pid(const struct agent *a, struct err *e)
{
	char text[32];

	if (!a->conf.pid_file)
		return 0;
	snprintf(text, sizeof(text), "%d\n", (int)getpid());
	return file_replace(&a->root, a->conf.pid_file, span_of(text), 0644, e);
}

static int start(struct agent *a, struct err *e)
{
	int r = set_log(&a->conf, e);

	if (r == 0)
		r = loop_new(&a->loop, e);
	if (r == 0)
		r = watch_signals(a, e);
	if (r == 0)
		r = listen_on(a, e);
	if (r == 0)
		r = open_ports(a, e);
	if (r == 0)
		r = caps_files_only(e);
	if (r == 0)
		r = try_store(a, e);
	if (r == 0)
		r = know_cluster(a, e);
	if (r == 0)
		r = serve(a, e);
	a->seen = look_at(a->conf.config);
	a->look = r == 0 ? loop_add_timer(a->loop, LOOK_MS, on_look, a) : NULL;
	return r < 0 ? r : write_pid(a, e);
}

static void stop(struct agent *a)
{
	if (a->conf.pid_file && a->http)
		file_remove(&a->root, a->conf.pid_file, NULL);
	ports_free(a->ports);
	http_server_free(a->http);
	ipam_api_free(a->api);
	foreign_free(a->foreign);
	gc_free(a->gc);
	kept_free(a->kept);
	nets_free(a->nets);
	endpoints_free(a->endpoints);
	kube_events_free(a->events);
	lender_free(a->lender);
	cluster_free(a->cluster);
	kube_free(a->kube);
	kube_conf_done(&a->kube_conf);
	listener_close(&a->listener);
	loop_free(a->loop);
	cleanup_fd(&a->signals);
	agent_conf_done(&a->conf);
	agent_conf_done(&a->first);
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
	struct agent a = {
		.argc = argc - 1, .argv = argv + 1, .signals = -1, .listener = LISTENER_INIT};
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
