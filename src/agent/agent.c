/* SPDX-License-Identifier: Apache-2.0 */
/* `unirail agent`: settings, signals, from start to end; agent_parts.c has what belongs to what. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent.h"
#include "agent/agent_priv.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "server/confine.h"
#include "device/allocated.h"
#include "kern/sys/caps.h"

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
	struct lender_conf lender;

	/* Texts of the first ones are pointed to by everybody. */
	if (!a->first.own.v)
		a->first = a->conf;
	else
		agent_conf_done(&a->conf);
	a->conf = *c;
	daemon_log(a->conf.log_level, a->conf.log_format, NULL);
	lender = agent_lender_conf(a);
	lender_settings(a->lender, &lender);
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

/* --- the end --- */

static void on_drained(void *arg)
{
	loop_stop(((struct agent *)arg)->loop, 0);
}

/* The path goes first: who connects from now on finds the next agent, or none. */
static void end(void *arg)
{
	struct agent *a = arg;

	ipam_api_hurry(a->api);
	listener_hide(&a->listener);
	http_server_drain(a->http, DRAIN_MS, on_drained, a);
	listener_close(&a->listener);
}

/* --- from start to end --- */

static int listen_on(struct agent *a, struct err *e)
{
	int r = listener_inherit(&a->listener, e);

	return r != 0 ? (r < 0 ? r : 0) : listener_open(&a->listener, a->conf.socket, e);
}

/*
 * A damaged journal is a lost one: its blocks stay unused until every pod of the node is accounted for. `why` says
 * what is wrong with it.
 */
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

/* An error here is found by whoever starts us, not by the first pod. */
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
	confine_folder(&c, a->conf.cni_dir, a->cni ? SANDBOX_WRITE : SANDBOX_READ);
	confine_folder(&c, cluster_network_dir(a->network), SANDBOX_WRITE);
	/* Read where the kubelet has no PodResources API. */
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
