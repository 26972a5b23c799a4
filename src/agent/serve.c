/* SPDX-License-Identifier: Apache-2.0 */
/* `unirail ipam serve`: options, signals, and wiring. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "agent/agent.h"
#include "agent/api/api.h"
#include "base/alloc.h"
#include "base/log.h"
#include "base/paths.h"
#include "kern/sys/caps.h"
#include "server/confine.h"
#include "server/daemon.h"
#include "server/listener.h"

/* FD_RESERVE: descriptors of the store, the log, the event loop, the listener, and connections that
 * are refused at once. */
enum { DRAIN_MS = 10 * 1000, FD_RESERVE = 40, CONNS_MAX = 4096 };

struct serve_conf {
	const char *socket, *pool_dir, *state_dir, *hostlocal_dir, *node, *config;
	const char *log_level, *log_format, *sandbox, *pid_file;
	bool release_conflict;
	int64_t conns;
	struct settings_own own;
};

/* server/settings.h describes the columns. The environment variables are as in agent/conf.c. */
#define KEYS(X)                                                                                    \
	X("socket", OPT_STR, "PATH", "path of the socket to listen on", socket, 0, 0,              \
	  PATH_AGENT_SOCKET, "UNIRAIL_SOCKET", 0)                                                  \
	X("pool-dir", OPT_STR, "DIR", "directory of pools", pool_dir, 0, 0, PATH_POOLS, "", 0)     \
	X("state-dir", OPT_STR, "DIR", "directory of the journal and its lock", state_dir, 0, 0,   \
	  PATH_IPAM_STATE, "UNIRAIL_STATE_DIR", 0)                                                 \
	X("hostlocal-dir", OPT_STR, "DIR", "directory of host-local's allocations", hostlocal_dir, \
	  0, 0, PATH_HOST_LOCAL, "UNIRAIL_HOSTLOCAL_DIR", 0)                                       \
	X("node", OPT_STR, "NAME", "this node's name (default: the host name)", node, 0, 0, "",    \
	  "NODE_NAME SPIDERPOOL_NODE_NAME SPIDERPOOL_NODENAME", 0)                                 \
	X("config", OPT_STR, "FILE", "file of the coordinator's settings", config, 0, 0,           \
	  AGENT_CONF, "UNIRAIL_CONFIG", 0)                                                         \
	X("max-connections", OPT_INT, "N",                                                         \
	  "maximum number of concurrent connections to the socket", conns, 1, CONNS_MAX, "256",    \
	  "UNIRAIL_MAX_CONNECTIONS", 0)                                                            \
	X("release-conflict-ips", OPT_BOOL, SETTINGS_YES_NO,                                       \
	  "allow CNI plugins to release addresses that are in conflict", release_conflict, 0, 0,   \
	  "yes", "SPIDERPOOL_ENABLED_RELEASE_CONFLICT_IPS", 0)                                     \
	SETTINGS_LOG(X, 0)                                                                         \
	SETTINGS_SANDBOX(X)                                                                        \
	SETTINGS_PID_FILE(X)

#define AS_OPT(...) SETTINGS_OPT(struct serve_conf, __VA_ARGS__)

static const struct opt serve_opts[] = {KEYS(AS_OPT){0}};
static const struct settings_row rows[] = {KEYS(SETTINGS_ROW)};

#define HELP "allocate addresses on a UNIX socket with the API of Spiderpool's agent"

const struct settings ipam_serve_settings = {.opts = serve_opts,
					     .rows = rows,
					     .n = ARRAY_LEN(rows),
					     .prog = "unirail ipam serve",
					     .help = HELP,
					     .own = offsetof(struct serve_conf, own)};

const struct cmd ipam_cmds[] = {
	{"serve", NULL, HELP, serve_opts, 0, 0},
	{0},
};

struct server {
	const struct serve_conf *o;
	struct root root;
	struct loop *loop;
	struct listener listener;
	struct ipam_api *api;
	struct http_server *http;
	struct daemon *daemon;
};

/* --- reload and stop on signals --- */

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

/* --- start and stop of the server --- */

static struct ipam_api_conf api_conf(const struct server *s)
{
	const struct serve_conf *o = s->o;

	return (struct ipam_api_conf){
		.loop = s->loop,
		.root = &s->root,
		.paths = {.pool_dir = o->pool_dir,
			  .state_dir = o->state_dir,
			  .hostlocal_dir = o->hostlocal_dir,
			  .node = o->node},
		.settings = o->config,
		.no_release_conflict_ips = !o->release_conflict,
	};
}

static int listen_on(struct server *s, struct err *e)
{
	int r = listener_inherit(&s->listener, e);

	if (r != 0)
		return r < 0 ? r : 0;
	return listener_open(&s->listener, s->o->socket, e);
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
	const struct serve_conf *o = s->o;
	char message[256];

	confine_file(&c, o->config, SANDBOX_READ);
	confine_dir(&c, o->pool_dir, SANDBOX_READ);
	confine_dir(&c, o->state_dir, SANDBOX_WRITE);
	confine_dir(&c, o->hostlocal_dir, SANDBOX_WRITE);
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
	int r = daemon_log(s->o->log_level, s->o->log_format, e);

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

static int serve(const struct serve_conf *o)
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

int ipam_main(int argc, char **argv)
{
	struct serve_conf o = {.conns = 0};
	struct err e = ERR_INIT;
	const struct cmd *c;
	int message, r = cmd_pick("unirail ipam", ipam_cmds, argc, argv, &c, &message, &e);

	if (r == 0)
		r = settings_read(&ipam_serve_settings, &o, NULL, NULL, argc - 1 - message,
				  argv + 1 + message, &e);
	r = r < 0 ? opt_exit("unirail ipam", r, &e) : serve(&o);
	settings_done(&ipam_serve_settings, &o);
	return r;
}
