/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_SERVER_SETTINGS_H
#define UNIRAIL_SERVER_SETTINGS_H

/*
 * A daemon's settings, defined by one table. Each has a flag, a key of the same name in the
 * daemon's section of an INI file, a default, and usually an environment variable. The flag takes
 * precedence over the variable, the variable over the key, and the key over the default.
 *
 *	[agent]
 *	log-level   = info
 *	reuse-delay = 60s
 *
 * The table consists of rows X(name, type, argument, help, member, min, max, default, variables,
 * whether it can change while the daemon runs). The variables are separated by blanks, unirail's
 * own first, then those of Spiderpool's daemons:
 *
 *	#define KEYS(X)                                                                           \
 *		X("config", OPT_STR, "FILE", "path of the settings file", config, 0, 0, CONF, "UNIRAIL_CONFIG", 0) \
 *		X("metrics", OPT_BOOL, SETTINGS_YES_NO, "serve /metrics", metrics, 0, 0, "yes", "", 0)
 *	#define AS_OPT(...) SETTINGS_OPT(struct my_conf, __VA_ARGS__)
 *	const struct opt my_opts[] = {KEYS(AS_OPT){0}};
 *	static const struct settings_row rows[] = {KEYS(SETTINGS_ROW)};
 *	const struct settings my_settings = {.opts = my_opts, .rows = rows, ...};
 *
 * The table must have a row "config" (the file), and the struct a member `struct settings_own own`.
 * If settings.section is NULL, the file is not read. Strings that are not given and have no default
 * are NULL; values with the argument FILE, PATH or DIR are absolute paths.
 *
 * A mistake in the file or in a variable is one error (kind ERR_CONF) that names the file and line,
 * or the variable, and the expected value. For a path that is not absolute, the error names only
 * the setting. A mistake in a flag is an error of opt_parse().
 */

#include "base/file.h"
#include "base/option.h"

#define SETTINGS_YES_NO "yes|no"

/* Owns the strings of the settings, except those from argv. */
struct settings_own {
	char **v;
	size_t n;
};

struct settings_row {
	const char *fallback, *env;
	bool live;
};

struct settings {
	const struct opt *opts;
	const struct settings_row *rows; /* rows of the table, one for each option */
	size_t n;
	const char *prog, *help; /* for --help: "unirail agent", and a line about it */
	const char *section;	 /* "agent"; NULL: none */
	/* section of the same file that other code reads: "coordinator"; NULL: none */
	const char *other;
	size_t own; /* offset of the member struct settings_own */
};

#define SETTINGS_OPT(S, name, type, arg, help, member, min, max, fallback, env, live)              \
	{name,                                                                                     \
	 0,                                                                                        \
	 type,                                                                                     \
	 arg,                                                                                      \
	 __builtin_choose_expr(sizeof(fallback) > 1, help " (" fallback ")", help),                \
	 offsetof(S, member),                                                                      \
	 min,                                                                                      \
	 max},
#define SETTINGS_ROW(name, type, arg, help, member, min, max, fallback, env, live)                 \
	{fallback, env, live},

/* Rows that daemons share: access to the API server, TCP ports, log, pid file. The daemon's
 * struct must have the members that the rows name. health, of_metrics: default ports, as
 * strings; live: 1 if a reload applies changed log settings. */
#define SETTINGS_KUBE(X)                                                                           \
	X("kubeconfig", OPT_STR, "FILE",                                                           \
	  "kubeconfig for the API server; without it $KUBECONFIG, the pod's service account or "   \
	  "~/.kube/config is used",                                                                \
	  kubeconfig, 0, 0, "", "UNIRAIL_KUBECONFIG", 0)                                           \
	X("context", OPT_STR, "NAME",                                                              \
	  "context of the kubeconfig to use instead of its current context", context, 0, 0, "",    \
	  "UNIRAIL_CONTEXT", 0)
#define SETTINGS_PORTS(X, health, of_metrics)                                                                                 \
	X("listen", OPT_STR, "ADDRESS",                                                                                       \
	  "address on which all TCP ports but health-port listen; empty: all addresses of the host",                          \
	  listen, 0, 0, "", "UNIRAIL_LISTEN", 0)                                                                              \
	X("health-listen", OPT_STR, "ADDRESS",                                                                                \
	  "address on which health-port listens; the kubelet probes from the node itself",                                    \
	  health_listen, 0, 0, "127.0.0.1", "UNIRAIL_HEALTH_LISTEN", 0)                                                       \
	X("metrics-listen", OPT_STR, "ADDRESS",                                                                               \
	  "address on which metrics-port listens instead of the listen address; metrics are readable without authentication", \
	  metrics_listen, 0, 0, "", "UNIRAIL_METRICS_LISTEN", 0)                                                              \
	X("health-port", OPT_INT, "PORT", "TCP port of /healthz and /readyz; 0: disabled",                                    \
	  health_port, 0, 65535, health, "SPIDERPOOL_HEALTH_PORT", 0)                                                         \
	X("metrics-port", OPT_INT, "PORT", "TCP port of /metrics; 0: disabled", metrics_port, 0,                              \
	  65535, of_metrics, "SPIDERPOOL_METRIC_HTTP_PORT", 0)                                                                \
	X("metrics", OPT_BOOL, SETTINGS_YES_NO, "serve /metrics", metrics, 0, 0, "yes",                                       \
	  "SPIDERPOOL_ENABLED_METRIC", 0)                                                                                     \
	SETTINGS_LOG(X, 1)
#define SETTINGS_LOG(X, live)                                                                      \
	X("log-level", OPT_CHOICE, "debug|info|warn|error", "lowest level that is logged",         \
	  log_level, 0, 0, "info", "UNIRAIL_LOG_LEVEL SPIDERPOOL_LOG_LEVEL", live)                 \
	X("log-format", OPT_CHOICE, "logfmt|json", "format of log lines", log_format, 0, 0,        \
	  "logfmt", "UNIRAIL_LOG_FORMAT", live)
#define SETTINGS_PID_FILE(X)                                                                       \
	X("pid-file", OPT_STR, "FILE", "file that holds the process id from readiness until exit", \
	  pid_file, 0, 0, "", "UNIRAIL_PID_FILE", 0)

struct settings_env {
	const char *(*get)(void *arg, const char *name); /* NULL: getenv() */
	void *arg;
};

/* Reads the settings. `into` must be zeroed; argv[0] is the first option, as in opt_parse().
 * Returns 0 or -errno; -ECANCELED: --help was given and printed. Call settings_done() after a
 * failure, too. */
int settings_read(const struct settings *s, void *into, const struct root *root,
		  const struct settings_env *env, int argc, char **argv, struct err *e);
void settings_done(const struct settings *s, void *of);
/* Copies a string into storage that lives as long as the settings. */
const char *settings_own(const struct settings *s, void *of, const char *text);

/* Returns the name of the first setting that differs and requires a restart; NULL: none. */
const char *settings_needs_restart(const struct settings *s, const void *was, const void *is);

/* settings_key() sets *ret to the i-th key, with its default as text ("": none) and its
 * variables, for documentation and tests; returns false if there are no more keys. */
struct settings_key {
	const char *name, *fallback, *env;
	/* arg: such as "TIME"; help ends with the default, if there is one, in parentheses */
	const char *arg, *help;
	bool live; /* can change while the daemon runs */
};
bool settings_key(const struct settings *s, size_t i, struct settings_key *ret);

#endif
