/* SPDX-License-Identifier: Apache-2.0 */
/* The table of settings, and where their values come from. */
#include "agent/agent_conf.h"

#include <errno.h>
#include <ini.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/num.h"
#include "ipam/ipam.h"

enum { CONF_MAX = 64 << 10, DAY_MS = 24 * 3600 * 1000 };

#define YES_NO "yes|no"

/*
 * X(name, type, what it takes, help, member, min, max, default, variables, whether it can change
 * while the agent runs). Variables: ours first, then those that Spiderpool's agent knows.
 */
#define KEYS(X)                                                                                    \
	X("config", OPT_STR, "FILE", "settings", config, 0, 0, AGENT_CONF, "UNIRAIL_CONFIG", 0)    \
	X("node", OPT_STR, "NAME", "this node's name, as the API server has it", node, 0, 0, "",   \
	  "NODE_NAME SPIDERPOOL_NODE_NAME SPIDERPOOL_NODENAME", 0)                                 \
	X("namespace", OPT_STR, "NS", "of networks that a pool names without one (the agent's)",   \
	  ns, 0, 0, "", "POD_NAMESPACE SPIDERPOOL_POD_NAMESPACE", 0)                               \
	X("kubeconfig", OPT_STR, "FILE",                                                           \
	  "how to reach the API server; else KUBECONFIG, the pod's service account or "            \
	  "~/.kube/config",                                                                        \
	  kubeconfig, 0, 0, "", "UNIRAIL_KUBECONFIG", 0)                                           \
	X("context", OPT_STR, "NAME", "of the kubeconfig, instead of its current one", context, 0, \
	  0, "", "UNIRAIL_CONTEXT", 0)                                                             \
	X("socket", OPT_STR, "PATH", "where CNI plugins ask", socket, 0, 0,                        \
	  "/var/run/spidernet/spiderpool.sock", "UNIRAIL_SOCKET", 0)                               \
	X("state-dir", OPT_STR, "DIR", "journal, blocks and pools last seen", state_dir, 0, 0,     \
	  IPAM_STATE_DIR, "UNIRAIL_STATE_DIR", 0)                                                  \
	X("hostlocal-dir", OPT_STR, "DIR", "addresses of host-local", hostlocal_dir, 0, 0,         \
	  IPAM_HOSTLOCAL_DIR, "UNIRAIL_HOSTLOCAL_DIR", 0)                                          \
	X("max-connections", OPT_INT, "N", "connections to the socket at a time", conns, 1, 4096,  \
	  "256", "UNIRAIL_MAX_CONNECTIONS", 0)                                                     \
	X("listen", OPT_STR, "ADDRESS", "address of the ports below; empty: all of the host's",    \
	  listen, 0, 0, "", "UNIRAIL_LISTEN", 0)                                                   \
	X("health-port", OPT_INT, "PORT", "for /healthz and /readyz; 0: none", health_port, 0,     \
	  65535, "5710", "SPIDERPOOL_HEALTH_PORT", 0)                                              \
	X("metrics-port", OPT_INT, "PORT", "for /metrics; 0: none", metrics_port, 0, 65535,        \
	  "5711", "SPIDERPOOL_METRIC_HTTP_PORT", 0)                                                \
	X("metrics", OPT_CHOICE, YES_NO, "serve /metrics", metrics, 0, 0, "yes",                   \
	  "SPIDERPOOL_ENABLED_METRIC", 0)                                                          \
	X("log-level", OPT_CHOICE, "debug|info|warn|error", "what to log", log_level, 0, 0,        \
	  "info", "UNIRAIL_LOG_LEVEL SPIDERPOOL_LOG_LEVEL", 1)                                     \
	X("log-format", OPT_CHOICE, "logfmt|json", "how", log_format, 0, 0, "logfmt",              \
	  "UNIRAIL_LOG_FORMAT", 1)                                                                 \
	X("reserve", OPT_INT, "N", "free addresses of a pool in use that are held ready here",     \
	  reserve, 1, 1024, "4", "UNIRAIL_RESERVE", 0)                                             \
	X("block-idle", OPT_DUR, "TIME", "after it a block that is not needed is given back",      \
	  idle_ms, 1000, DAY_MS, "300s", "UNIRAIL_BLOCK_IDLE", 0)                                  \
	X("wait", OPT_DUR, "TIME", "how long a pod waits for addresses from the cluster", wait_ms, \
	  0, 60000, "15s", "UNIRAIL_WAIT", 1)                                                      \
	X("rest", OPT_DUR, "TIME", "before a freed address is used again", rest_ms, 0, 3600000,    \
	  "60s", "UNIRAIL_REST", 1)                                                                \
	X("quarantine", OPT_DUR, "TIME", "for an address that somebody else answered for",         \
	  quarantine_ms, 0, 30 * (int64_t)DAY_MS, "10m", "UNIRAIL_QUARANTINE", 1)                  \
	X("conflict-detection", OPT_CHOICE, YES_NO, "ask the link before an address is used",      \
	  conflict_detection, 0, 0, "no", "UNIRAIL_CONFLICT_DETECTION", 1)                         \
	X("gateway-detection", OPT_CHOICE, YES_NO, "ask whether the gateway is there",             \
	  gateway_detection, 0, 0, "no", "UNIRAIL_GATEWAY_DETECTION", 1)                           \
	X("release-conflict-ips", OPT_CHOICE, YES_NO,                                              \
	  "let a plugin give addresses in conflict back", release_conflict, 0, 0, "yes",           \
	  "SPIDERPOOL_ENABLED_RELEASE_CONFLICT_IPS", 1)                                            \
	X("enable-ipv4", OPT_CHOICE, YES_NO, "give out addresses of IPv4 pools", ipv4, 0, 0,       \
	  "yes", "UNIRAIL_ENABLE_IPV4", 1)                                                         \
	X("enable-ipv6", OPT_CHOICE, YES_NO, "and of IPv6 pools", ipv6, 0, 0, "yes",               \
	  "UNIRAIL_ENABLE_IPV6", 1)                                                                \
	X("enable-statefulset", OPT_CHOICE, YES_NO, "pods of a StatefulSet keep their addresses",  \
	  statefulset, 0, 0, "yes", "UNIRAIL_ENABLE_STATEFULSET", 1)                               \
	X("enable-kubevirt-static-ip", OPT_CHOICE, YES_NO, "and KubeVirt machines", kubevirt, 0,   \
	  0, "yes", "UNIRAIL_ENABLE_KUBEVIRT_STATIC_IP", 1)                                        \
	X("gc", OPT_CHOICE, YES_NO, "free addresses of pods that are gone without a DEL", gc, 0,   \
	  0, "yes", "UNIRAIL_GC SPIDERPOOL_GC_IP_ENABLED", 1)                                      \
	X("gc-grace", OPT_DUR, "TIME", "how long such a pod has been gone by then", gc_grace_ms,   \
	  1000, DAY_MS, "60s", "UNIRAIL_GC_GRACE", 1)                                              \
	X("pid-file", OPT_STR, "FILE", "written when ready, removed at the end", pid_file, 0, 0,   \
	  "", "UNIRAIL_PID_FILE", 0)

struct row {
	const char *fallback, *env;
	bool live;
};

#define OPT_ROW(name, type, arg, help, member, min, max, fallback, env, live)                      \
	{name,                                                                                     \
	 0,                                                                                        \
	 type,                                                                                     \
	 arg,                                                                                      \
	 __builtin_choose_expr(sizeof(fallback) > 1, help " (" fallback ")", help),                \
	 offsetof(struct agent_conf, member),                                                      \
	 min,                                                                                      \
	 max},
#define KEY_ROW(name, type, arg, help, member, min, max, fallback, env, live) {fallback, env, live},

const struct opt agent_opts[] = {KEYS(OPT_ROW){0}};
static const struct row rows[] = {KEYS(KEY_ROW)};

enum { N_KEYS = sizeof(rows) / sizeof(rows[0]) };

/* --- one value --- */

static void *place_of(struct agent_conf *c, size_t i)
{
	return (char *)c + agent_opts[i].offset;
}

static const char *own(struct agent_conf *c, const char *text)
{
	return VEC_PUSH(c->own, c->n_own) = xstrdup(text);
}

static int wants(const struct opt *o, const char *value, struct err *e)
{
	if (o->type == OPT_INT)
		return err_kind(e, ERR_CONF, -EINVAL, "%s is '%.200s', wants %lld to %lld", o->name,
				value, (long long)o->min, (long long)o->max);
	if (o->type == OPT_DUR)
		return err_kind(
			e, ERR_CONF, -EINVAL,
			"%s is '%.200s', wants a time from %lldms to %lldms (60s, 500ms, 10m)",
			o->name, value, (long long)o->min, (long long)o->max);
	return err_kind(e, ERR_CONF, -EINVAL, "%s is '%.200s', wants one of %s", o->name, value,
			o->arg);
}

/* "warning" and "TRUE", too: as environments of Spiderpool's agent have them. */
static const char *choice(const struct opt *o, const char *value)
{
	static const char *const levels[] = {"debug", "info", "warn", "error"};
	struct span rest = span_of(o->arg), one;
	enum log_level level;
	int on;

	if (strcmp(o->arg, YES_NO) == 0)
		return num_bool(span_of(value), &on) < 0 ? NULL : on ? "yes" : "no";
	if (strcmp(o->name, "log-level") == 0)
		return log_level_parse(value, &level) < 0 ? NULL
		       : level >= LOG_ERROR		  ? "error"
							  : levels[level];
	while (span_cut(&rest, '|', &one))
		if (span_eq(one, value))
			return value;
	return NULL;
}

static int put(struct agent_conf *c, size_t i, const char *value, struct err *e)
{
	const struct opt *o = &agent_opts[i];
	const char *word;
	int64_t n;

	switch (o->type) {
	case OPT_INT:
		if (num_i64(span_of(value), o->min, o->max, &n) < 0)
			return wants(o, value, e);
		*(int64_t *)place_of(c, i) = n;
		return 0;
	case OPT_DUR:
		if (num_duration_ms(span_of(value), o->max, &n) < 0 || n < o->min)
			return wants(o, value, e);
		*(int64_t *)place_of(c, i) = n;
		return 0;
	case OPT_CHOICE:
		word = choice(o, value);
		if (!word)
			return wants(o, value, e);
		*(const char **)place_of(c, i) = own(c, word);
		return 0;
	default: *(const char **)place_of(c, i) = *value ? own(c, value) : NULL; return 0;
	}
}

/* --- the file --- */

struct reading {
	struct agent_conf *c;
	struct err *e;
	int r;
};

static int unknown(const char *key, struct err *e)
{
	const char *names[N_KEYS], *near;

	for (size_t i = 0; i < N_KEYS; i++)
		names[i] = agent_opts[i].name;
	near = opt_nearest(key, names, N_KEYS);
	return err_kind(e, ERR_CONF, -EINVAL, "key '%.100s' is not known here%s%s%s", key,
			near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

/* inih's: 0 stops. */
static int handle(void *arg, const char *section, const char *name, const char *value)
{
	struct reading *p = arg;
	size_t i = 0;

	if (strcmp(section, "agent") != 0) {
		/* coordinator_settings_read() has its own. */
		if (strcmp(section, "coordinator") != 0)
			p->r = err_kind(p->e, ERR_CONF, -EINVAL,
					"section '%.100s' is not known, wants 'agent' or "
					"'coordinator'",
					section);
		return p->r == 0;
	}
	while (i < N_KEYS && strcasecmp(agent_opts[i].name, name) != 0)
		i++;
	if (i == N_KEYS)
		p->r = unknown(name, p->e);
	else if (strcmp(agent_opts[i].name, "config") == 0)
		p->r = err_kind(p->e, ERR_CONF, -EINVAL,
				"config is this file: name it by --config");
	else
		p->r = put(p->c, i, value, p->e);
	return p->r == 0;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static int parse(struct agent_conf *c, const char *text, struct err *e)
{
	struct err none = ERR_INIT;
	struct reading p = {.c = c, .e = e ? e : &none};
	int line = ini_parse_string(text, handle, &p);

	if (line == 0)
		return 0;
	if (p.r == 0)
		p.r = err_kind(p.e, ERR_CONF, -EINVAL,
			       "is neither 'key = value' nor a section nor a comment");
	return err_wrap(p.e, p.r, "%s:%d", base_name(c->config), line);
}

static int from_file(struct agent_conf *c, const struct root *root, bool must, struct err *e)
{
	auto_buf struct buf b;
	int r;

	buf_init(&b, CONF_MAX);
	r = file_read(root, c->config, CONF_MAX, &b, e);
	if (r == -ENOENT && !must) {
		err_clear(e);
		r = 0;
	} else if (r >= 0) {
		r = parse(c, b.len ? b.p : "", e);
	}
	if (r >= 0)
		r = coordinator_settings_read(root, c->config, &c->coordinator, e);
	return r < 0 ? r : 0;
}

/* --- the environment --- */

static const char *env_get(const struct agent_env *env, const char *name)
{
	return env && env->get ? env->get(env->arg, name) : getenv(name);
}

/* Empty is not given, as in a manifest whose value was left out. */
static int from_env(struct agent_conf *c, size_t i, const struct agent_env *env, struct err *e)
{
	struct span rest = span_of(rows[i].env), one;

	while (span_cut(&rest, ' ', &one)) {
		auto_free char *name = span_dup(one);
		const char *value = env_get(env, name);
		int r;

		if (!value || !*value)
			continue;
		r = put(c, i, value, e);
		return r < 0 ? err_wrap(e, r, "variable %s", name) : 0;
	}
	return 0;
}

/* --- all of it --- */

static int key_config(void)
{
	size_t i = 0;

	while (strcmp(agent_opts[i].name, "config") != 0)
		i++;
	return (int)i;
}

static int check_paths(const struct agent_conf *c, struct err *e)
{
	const struct {
		const char *name, *path;
	} v[] = {{"config", c->config},	      {"socket", c->socket},
		 {"state-dir", c->state_dir}, {"hostlocal-dir", c->hostlocal_dir},
		 {"pid-file", c->pid_file},   {"kubeconfig", c->kubeconfig}};

	for (size_t i = 0; i < ARRAY_LEN(v); i++)
		if (v[i].path && *v[i].path != '/')
			return err_kind(e, ERR_CONF, -EINVAL, "%s '%s' wants an absolute path",
					v[i].name, v[i].path);
	return 0;
}

static int read_all(struct agent_conf *c, const struct root *root, const struct agent_env *env,
		    int argc, char **argv, struct err *e)
{
	static const struct cmd cmd = {NULL,	   NULL, "this node's part of the cluster",
				       agent_opts, 0,	 0};
	struct agent_conf flags = {0};
	int r = opt_parse(&cmd, "unirail agent", argc, argv, &flags, e);

	for (size_t i = 0; i < N_KEYS && r >= 0; i++)
		r = put(c, i, rows[i].fallback, e);
	if (r >= 0)
		r = from_env(c, (size_t)key_config(), env, e);
	if (r < 0)
		return r;
	if (flags.config)
		c->config = flags.config;
	r = check_paths(c, e);
	if (r == 0)
		r = from_file(c, root, flags.config != NULL, e);
	for (size_t i = 0; i < N_KEYS && r >= 0; i++)
		if ((int)i != key_config())
			r = from_env(c, i, env, e);
	if (r >= 0)
		r = opt_parse(&cmd, "unirail agent", argc, argv, c, e);
	return r < 0 ? r : check_paths(c, e);
}

int agent_conf_read(struct agent_conf *ret, const struct root *root, const struct agent_env *env,
		    int argc, char **argv, struct err *e)
{
	struct agent_conf c = {0};
	int r = read_all(&c, root, env, argc, argv, e);

	if (r < 0) {
		agent_conf_done(&c);
		return r;
	}
	*ret = c;
	return 0;
}

void agent_conf_done(struct agent_conf *c)
{
	coordinator_settings_done(&c->coordinator);
	str_list_free(c->own, c->n_own);
	*c = (struct agent_conf){0};
}

bool agent_conf_is(const char *yes_or_no)
{
	return strcmp(yes_or_no, "yes") == 0;
}

static bool is_same(const struct agent_conf *a, const struct agent_conf *b, size_t i)
{
	const struct opt *o = &agent_opts[i];
	const void *x = (const char *)a + o->offset, *y = (const char *)b + o->offset;
	const char *s, *t;

	if (o->type == OPT_INT || o->type == OPT_DUR)
		return *(const int64_t *)x == *(const int64_t *)y;
	s = *(const char *const *)x;
	t = *(const char *const *)y;
	return strcmp(s ? s : "", t ? t : "") == 0;
}

const char *agent_conf_needs_restart(const struct agent_conf *was, const struct agent_conf *is)
{
	for (size_t i = 0; i < N_KEYS; i++)
		if (!rows[i].live && !is_same(was, is, i))
			return agent_opts[i].name;
	return NULL;
}

int agent_conf_hostname(struct agent_conf *c, struct err *e)
{
	char name[256] = "";

	if (c->node)
		return 0;
	if (gethostname(name, sizeof(name) - 1) < 0)
		return err_sys(e, -errno, "read the host's name");
	/* As the kubelet has it. */
	for (char *s = name; *s; s++)
		if (*s >= 'A' && *s <= 'Z')
			*s = (char)(*s - 'A' + 'a');
	c->node = own(c, name);
	return 0;
}

bool agent_conf_key(size_t i, struct agent_key *ret)
{
	if (i >= N_KEYS)
		return false;
	*ret = (struct agent_key){agent_opts[i].name, rows[i].fallback, rows[i].env};
	return true;
}
