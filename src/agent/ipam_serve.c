/* SPDX-License-Identifier: Apache-2.0 */
/* `unirail ipam serve`: options, signals, and what belongs to what. */
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/ipam_api.h"
#include "daemon/listener.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "base/num.h"
#include "kern/caps.h"

#define SOCKET "/var/run/spidernet/spiderpool.sock"

/* FD_RESERVE: the store's files, the log, the loop, the listener, and those that are refused. */
enum { DRAIN_MS = 10 * 1000, FD_RESERVE = 40, CONNS_MAX = 4096 };

struct serve_opts {
	const char *socket, *pool_dir, *state_dir, *hostlocal_dir, *node, *config;
	const char *log_level, *log_format, *pid_file;
	int64_t conns;
};

static const struct opt serve_opts[] = {
	{"socket", 0, OPT_STR, "PATH", "where to listen (" SOCKET ")",
	 offsetof(struct serve_opts, socket), 0, 0},
	{"pool-dir", 0, OPT_STR, "DIR", "pools (" IPAM_POOL_DIR ")",
	 offsetof(struct serve_opts, pool_dir), 0, 0},
	{"state-dir", 0, OPT_STR, "DIR", "journal and lock (" IPAM_STATE_DIR ")",
	 offsetof(struct serve_opts, state_dir), 0, 0},
	{"hostlocal-dir", 0, OPT_STR, "DIR", "addresses of host-local (" IPAM_HOSTLOCAL_DIR ")",
	 offsetof(struct serve_opts, hostlocal_dir), 0, 0},
	{"node", 0, OPT_STR, "NAME", "this node's name (the host's)",
	 offsetof(struct serve_opts, node), 0, 0},
	{"config", 0, OPT_STR, "FILE", "the coordinator's settings (" AGENT_CONF ")",
	 offsetof(struct serve_opts, config), 0, 0},
	{"max-connections", 0, OPT_INT, "N", "connections at a time (256)",
	 offsetof(struct serve_opts, conns), 1, CONNS_MAX},
	{"log-level", 0, OPT_CHOICE, "debug|info|warn|error", "what to log (info)",
	 offsetof(struct serve_opts, log_level), 0, 0},
	{"log-format", 0, OPT_CHOICE, "logfmt|json", "how (logfmt)",
	 offsetof(struct serve_opts, log_format), 0, 0},
	{"pid-file", 0, OPT_STR, "FILE", "written when ready, removed at the end",
	 offsetof(struct serve_opts, pid_file), 0, 0},
	{0},
};

const struct cmd ipam_cmds[] = {
	{"serve", NULL, "give out addresses on a UNIX socket, as Spiderpool's agent does",
	 serve_opts, 0, 0},
	{0},
};

struct server {
	const struct serve_opts *o;
	struct root root;
	struct loop *loop;
	struct listener listener;
	struct ipam_api *api;
	struct http_server *http;
	int signals;
	struct loop_fd *watch;
	bool ending;
};

/* --- signals --- */

static void on_drained(void *arg)
{
	loop_stop(((struct server *)arg)->loop, 0);
}

/* The path goes first: who connects from now on finds the next server, or none. */
static void end(struct server *s)
{
	if (s->ending) {
		loop_stop(s->loop, 0);
		return;
	}
	s->ending = true;
	log_info("ending, what has been asked is answered first");
	listener_hide(&s->listener);
	http_server_drain(s->http, DRAIN_MS, on_drained, s);
	listener_close(&s->listener);
}

static void on_signal(void *arg, uint32_t events)
{
	struct signalfd_siginfo info;
	struct server *s = arg;

	(void)events;
	if (read(s->signals, &info, sizeof(info)) != sizeof(info))
		return;
	if (info.ssi_signo == SIGHUP)
		ipam_api_reload(s->api);
	else
		end(s);
}

static int watch_signals(struct server *s, struct err *e)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	s->signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	if (s->signals < 0)
		return err_sys(e, -errno, "wait for signals");
	return loop_add_fd(s->loop, s->signals, EPOLLIN, on_signal, s, &s->watch, e);
}

/* --- set-up --- */

static int set_log(const struct serve_opts *o, struct err *e)
{
	struct log_conf l = {.level = LOG_INFO, .format = LOG_LOGFMT};

	if (o->log_level && log_level_parse(o->log_level, &l.level) < 0)
		return err_set(e, -EINVAL, "log level '%s' is not known", o->log_level);
	if (o->log_format && strcmp(o->log_format, "json") == 0)
		l.format = LOG_JSON;
	return log_setup(&l, e);
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

/* Unset is yes, as in Spiderpool's chart. */
static bool env_is_no(const char *name)
{
	const char *v = getenv(name);
	int on;

	return v && num_bool(span_of(v), &on) == 0 && !on;
}

static struct ipam_api_conf api_conf(const struct server *s)
{
	const struct serve_opts *o = s->o;

	return (struct ipam_api_conf){
		.loop = s->loop,
		.root = &s->root,
		.paths = {.pool_dir = o->pool_dir,
			  .state_dir = o->state_dir,
			  .hostlocal_dir = o->hostlocal_dir,
			  .node = o->node},
		.settings = o->config,
		.no_release_conflict_ips = env_is_no("SPIDERPOOL_ENABLED_RELEASE_CONFLICT_IPS"),
	};
}

static int check_paths(const struct serve_opts *o, struct err *e)
{
	const struct {
		const char *name, *path;
	} v[] = {{"pool-dir", o->pool_dir},	      {"state-dir", o->state_dir},
		 {"hostlocal-dir", o->hostlocal_dir}, {"config", o->config},
		 {"pid-file", o->pid_file},	      {"socket", o->socket}};

	for (size_t i = 0; i < ARRAY_LEN(v); i++)
		if (v[i].path && *v[i].path != '/')
			return err_kind(e, ERR_CONF, -EINVAL, "--%s '%s' wants an absolute path",
					v[i].name, v[i].path);
	return 0;
}

static int listen_on(struct server *s, struct err *e)
{
	int r = listener_inherit(&s->listener, e);

	if (r != 0)
		return r < 0 ? r : 0;
	return listener_open(&s->listener, s->o->socket ? s->o->socket : SOCKET, e);
}

/* An error here is found by whoever starts us, not by the first pod. */
static int try_store(const struct server *s, const struct ipam_api_conf *c, struct err *e)
{
	struct ipam *store = NULL;
	int r = ipam_open(&store, &s->root, &c->paths, e);

	ipam_close(store);
	return r;
}

static int write_pid(const struct server *s, struct err *e)
{
	char text[32];

	if (!s->o->pid_file)
		return 0;
	snprintf(text, sizeof(text), "%d\n", (int)getpid());
	return file_replace(&s->root, s->o->pid_file, span_of(text), 0644, e);
}

static int start(struct server *s, struct err *e)
{
	struct http_limits limits = HTTP_LIMITS_INIT;
	struct ipam_api_conf conf;
	int r = check_paths(s->o, e);

	if (r == 0)
		r = set_log(s->o, e);
	if (r == 0)
		r = root_open(&s->root, NULL, e);
	if (r == 0)
		r = loop_new(&s->loop, e);
	if (r == 0)
		r = watch_signals(s, e);
	if (r == 0)
		r = listen_on(s, e);
	if (r == 0)
		r = caps_files_only(e);
	if (r < 0)
		return r;
	conf = api_conf(s);
	r = try_store(s, &conf, e);
	if (r < 0)
		return r;
	r = connections(s->o->conns, e);
	if (r < 0)
		return r;
	limits.max_conns = r;
	s->api = ipam_api_new(&conf);
	r = http_server_new(&s->http, s->loop, s->listener.fd, &limits, ipam_api_handle, s->api, e);
	return r < 0 ? r : write_pid(s, e);
}

static void stop(struct server *s)
{
	if (s->o->pid_file && s->http)
		file_remove(&s->root, s->o->pid_file, NULL);
	http_server_free(s->http);
	ipam_api_free(s->api);
	listener_close(&s->listener);
	loop_free(s->loop);
	cleanup_fd(&s->signals);
	if (s->root.fd >= 0)
		root_close(&s->root);
}

static int serve(const struct serve_opts *o)
{
	struct server s = {.o = o, .root = {.fd = -1}, .signals = -1, .listener = LISTENER_INIT};
	struct err e = ERR_INIT;
	int r = start(&s, &e);

	if (r < 0) {
		fprintf(stderr, "unirail ipam serve: %s\n", e.text);
	} else {
		log_info("ready", LOG_S("socket", s.listener.path ? s.listener.path : "systemd's"));
		loop_run(s.loop);
		log_info("ended");
	}
	stop(&s);
	return r < 0 ? 1 : 0;
}

int ipam_main(int argc, char **argv)
{
	struct serve_opts o = {.conns = 256};
	struct err e = ERR_INIT;
	const struct cmd *c;
	int words, r = cmd_pick("unirail ipam", ipam_cmds, argc, argv, &c, &words, &e);

	if (r == 0)
		r = opt_parse(c, "unirail ipam serve", argc - 1 - words, argv + 1 + words, &o, &e);
	if (r < 0)
		return opt_exit("unirail ipam", r, &e);
	return serve(&o);
}
