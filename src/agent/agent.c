/* SPDX-License-Identifier: Apache-2.0 */
/* `unirail agent`: settings, signals, from start to end; agent_parts.c has what belongs to what. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/agent_priv.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "kern/caps.h"

enum { DRAIN_MS = 10 * 1000, LOOK_MS = 5 * 1000 };

const struct cmd agent_cmds[] = {
	{NULL, NULL, "this node's part of the cluster", agent_opts, 0, 0},
	{0},
};

/* --- settings --- */

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
	lender = agent_lender_conf(a);
	lender_settings(a->lender, &lender);
	gc_settings(a->gc, !agent_conf_is(a->conf.gc), a->conf.gc_grace_ms);
	api = agent_api_conf(a);
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

/* --- from start to end --- */

static int listen_on(struct agent *a, struct err *e)
{
	int r = listener_inherit(&a->listener, e);

	return r != 0 ? (r < 0 ? r : 0) : listener_open(&a->listener, a->conf.socket, e);
}

/* An error here is found by whoever starts us, not by the first pod. */
static int try_store(struct agent *a, struct err *e)
{
	const struct ipam_paths paths = agent_api_conf(a).paths;
	struct ipam *store = NULL;
	int r = ipam_open(&store, &a->root, &paths, e);

	ipam_close(store);
	return r;
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
		r = agent_open_ports(a, e);
	if (r == 0)
		r = caps_files_only(e);
	if (r == 0)
		r = try_store(a, e);
	if (r == 0)
		r = agent_know_cluster(a, e);
	if (r == 0)
		r = agent_serve(a, e);
	a->seen = look_at(a->conf.config);
	a->look = r == 0 ? loop_add_timer(a->loop, LOOK_MS, on_look, a) : NULL;
	return r < 0 ? r : write_pid(a, e);
}

static void stop(struct agent *a)
{
	if (a->conf.pid_file && a->http)
		file_remove(&a->root, a->conf.pid_file, NULL);
	agent_part_from(a);
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
