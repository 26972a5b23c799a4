/* SPDX-License-Identifier: Apache-2.0 */
/* `unirail ipam serve`: options, signals, and wiring. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent.h"
#include "agent/api/api.h"
#include "base/alloc.h"
#include "base/log.h"
#include "base/num.h"
#include "base/paths.h"
#include "kern/sys/caps.h"
#include "server/confine.h"
#include "server/daemon.h"
#include "server/listener.h"

/* FD_RESERVE: descriptors of the store, the log, the event loop, the listener, and connections that
 * are refused at once. */
enum { DRAIN_MS = 10 * 1000, FD_RESERVE = 40, CONNS_MAX = 4096 };

struct serve_opts {
	const char *socket, *pool_dir, *state_dir, *hostlocal_dir, *node, *config;
	const char *log_level, *log_format, *sandbox, *pid_file;
	int64_t conns;
};

static const struct opt serve_opts[] = {
	{"socket", 0, OPT_STR, "PATH", "path of the socket to listen on (" PATH_AGENT_SOCKET ")",
	 offsetof(struct serve_opts, socket), 0, 0},
	{"pool-dir", 0, OPT_STR, "DIR", "directory of pools (" PATH_POOLS ")",
	 offsetof(struct serve_opts, pool_dir), 0, 0},
	{"state-dir", 0, OPT_STR, "DIR",
	 "directory of the journal and its lock (" PATH_IPAM_STATE ")",
	 offsetof(struct serve_opts, state_dir), 0, 0},
	{"hostlocal-dir", 0, OPT_STR, "DIR",
	 "directory of host-local's allocations (" PATH_HOST_LOCAL ")",
	 offsetof(struct serve_opts, hostlocal_dir), 0, 0},
	{"node", 0, OPT_STR, "NAME", "this node's name (default: the host name)",
	 offsetof(struct serve_opts, node), 0, 0},
	{"config", 0, OPT_STR, "FILE", "file of the coordinator's settings (" AGENT_CONF ")",
	 offsetof(struct serve_opts, config), 0, 0},
	{"max-connections", 0, OPT_INT, "N",
	 "maximum number of concurrent connections to the socket (256)",
	 offsetof(struct serve_opts, conns), 1, CONNS_MAX},
	{"log-level", 0, OPT_CHOICE, "debug|info|warn|error", "lowest level that is logged (info)",
	 offsetof(struct serve_opts, log_level), 0, 0},
	{"log-format", 0, OPT_CHOICE, "logfmt|json", "format of log lines (logfmt)",
	 offsetof(struct serve_opts, log_format), 0, 0},
	{"sandbox", 0, OPT_CHOICE, SETTINGS_ON_OFF_LOG,
	 "deny system calls and files that the server does not need (seccomp, Landlock); log: the "
	 "kernel only logs them (on, or UNIRAIL_SANDBOX)",
	 offsetof(struct serve_opts, sandbox), 0, 0},
	{"pid-file", 0, OPT_STR, "FILE", "file that holds the process id from readiness until exit",
	 offsetof(struct serve_opts, pid_file), 0, 0},
	{0},
};

const struct cmd ipam_cmds[] = {
	{"serve", NULL, "allocate addresses on a UNIX socket with the API of Spiderpool's agent",
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
	struct daemon *daemon;
};

/* --- signals --- */

static void reload(void *arg)
{
	ipam_api_reload(((struct server *)arg)->api);
}

static void on_drained(void *arg)
{
	loop_stop(((struct server *)arg)->loop, 0);
}

/* Removes the socket's path first: new clients then connect to the next server, or fail. */
static void end(void *arg)
{
	struct server *s = arg;

	listener_hide(&s->listener);
	http_server_drain(s->http, DRAIN_MS, on_drained, s);
	listener_close(&s->listener);
}

/* --- set-up --- */

/* An unset variable means yes, as in Spiderpool's chart. */
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
			return err_kind(e, ERR_CONF, -EINVAL,
					"--%s is '%s', expected an absolute path", v[i].name,
					v[i].path);
	return 0;
}

static int listen_on(struct server *s, struct err *e)
{
	int r = listener_inherit(&s->listener, e);

	if (r != 0)
		return r < 0 ? r : 0;
	return listener_open(&s->listener, s->o->socket ? s->o->socket : PATH_AGENT_SOCKET, e);
}

/* Opens the store once at the start, so that an error in the store fails the start and not the ADD
 * of the first pod. */
static int try_store(const struct server *s, const struct ipam_api_conf *c, struct err *e)
{
	struct ipam *store = NULL;
	int r = ipam_open(&store, &s->root, &c->paths, e);

	ipam_close(store);
	return r;
}

static void confine(struct server *s)
{
	struct confine c = {.root = &s->root, .mode = SANDBOX_IPAM_SERVE};
	const struct serve_opts *o = s->o;
	char message[256];

	confine_file(&c, o->config ? o->config : AGENT_CONF, SANDBOX_READ);
	confine_dir(&c, o->pool_dir ? o->pool_dir : PATH_POOLS, SANDBOX_READ);
	confine_dir(&c, o->state_dir ? o->state_dir : PATH_IPAM_STATE, SANDBOX_WRITE);
	confine_dir(&c, o->hostlocal_dir ? o->hostlocal_dir : PATH_HOST_LOCAL, SANDBOX_WRITE);
	if (s->listener.path)
		confine_file(&c, s->listener.path, SANDBOX_REMOVE);
	confine_file(&c, o->pid_file, SANDBOX_REMOVE);
	confine_enter(&c, o->sandbox, message, sizeof(message));
}

static int start(struct server *s, struct err *e)
{
	static const struct daemon_ops ops = {reload, end};
	struct http_limits limits = HTTP_LIMITS_INIT;
	struct ipam_api_conf conf;
	int r = check_paths(s->o, e);

	if (r == 0)
		r = daemon_log(s->o->log_level, s->o->log_format, e);
	if (r == 0)
		r = root_open(&s->root, NULL, e);
	if (r == 0)
		r = loop_new(&s->loop, e);
	if (r == 0)
		r = daemon_new(&s->daemon, s->loop, &ops, s, e);
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
	r = daemon_connections(s->o->conns, FD_RESERVE, e);
	if (r < 0)
		return r;
	limits.max_conns = r;
	s->api = ipam_api_new(&conf);
	r = http_server_new(&s->http, s->loop, s->listener.fd, &limits, ipam_api_handle, s->api, e);
	if (r == 0)
		r = daemon_pid_file(s->daemon, &s->root, s->o->pid_file, e);
	if (r == 0)
		confine(s);
	return r;
}

static void stop(struct server *s)
{
	http_server_free(s->http);
	ipam_api_free(s->api);
	listener_close(&s->listener);
	daemon_free(s->daemon);
	loop_free(s->loop);
	if (s->root.fd >= 0)
		root_close(&s->root);
}

static int serve(const struct serve_opts *o)
{
	struct server s = {.o = o, .root = {.fd = -1}, .listener = LISTENER_INIT};
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

/* Reads the variable that daemons with a settings file use for the sandbox. */
static int sandbox_from_env(struct serve_opts *o, struct err *e)
{
	const char *v = getenv("UNIRAIL_SANDBOX");

	if (!v || !*v)
		return 0;
	if (strcmp(v, "on") != 0 && strcmp(v, "off") != 0 && strcmp(v, "log") != 0)
		return err_kind(
			e, ERR_CONF, -EINVAL,
			"variable UNIRAIL_SANDBOX is '%.100s', expected one of " SETTINGS_ON_OFF_LOG,
			v);
	o->sandbox = v;
	return 0;
}

int ipam_main(int argc, char **argv)
{
	struct serve_opts o = {
		.conns = 256, .log_level = "info", .log_format = "logfmt", .sandbox = "on"};
	struct err e = ERR_INIT;
	const struct cmd *c;
	int message, r = cmd_pick("unirail ipam", ipam_cmds, argc, argv, &c, &message, &e);

	if (r == 0)
		r = sandbox_from_env(&o, &e);
	if (r == 0)
		r = opt_parse(c, "unirail ipam serve", argc - 1 - message, argv + 1 + message, &o,
			      &e);
	if (r < 0)
		return opt_exit("unirail ipam", r, &e);
	return serve(&o);
}
