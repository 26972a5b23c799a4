/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/protocol/chain.h"
#include "cni/protocol/delegate.h"
#include "base/buf.h"
#include "base/err.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/loop.h"
#include "cni/protocol/cni_call.h"
#include "cni/protocol/error.h"
#include "cni/protocol/quote.h"
#include "spec/definition.h"

enum { OUTPUT_MAX = 4 << 20, STDERR_MAX = 64 << 10, N_VARS = 7 };

static int not_found(const char *type, const char *cni_path, struct err *e)
{
	struct span rest = span_of(cni_path), dir;
	auto_buf struct buf b;

	buf_init(&b, ERR_TEXT_MAX);
	while (span_cut(&rest, ':', &dir))
		buf_printf(&b, "%s%.*s", b.len ? " " : "", (int)dir.n, dir.p);
	return err_kind(e, ERR_UNAVAILABLE, -ENOENT,
			ORIG("failed to find plugin \"%s\" in path [%s]"), type, b.p);
}

int cni_delegate_find(const char *type, const char *cni_path, struct buf *ret, struct err *e)
{
	struct span rest = span_of(cni_path), dir;
	struct stat st;

	if (!*type)
		return err_kind(e, ERR_CONF, -EINVAL, ORIG("no plugin name provided"));
	if (strchr(type, '/'))
		return err_kind(e, ERR_CONF, -EINVAL, "invalid plugin name: %s", type);
	if (!*cni_path)
		return err_kind(e, ERR_ENV, -EINVAL, "no paths provided");
	while (span_cut(&rest, ':', &dir)) {
		buf_reset(ret);
		buf_printf(ret, "%.*s/%s", (int)dir.n, dir.p, type);
		if (dir.n && !ret->over && stat(ret->p, &st) == 0 && S_ISREG(st.st_mode))
			return 0;
	}
	return not_found(type, cni_path, e);
}

static bool is_cni_var(const char *entry, char *const vars[static N_VARS])
{
	for (int i = 0; i < N_VARS; i++)
		if (strncmp(entry, vars[i], strcspn(vars[i], "=") + 1) == 0)
			return true;
	return false;
}

/* Returns this process' environment with the CNI variables replaced; free_env() frees it. */
static char **make_env(const struct cni_delegate *d)
{
	const struct cni_call *c = d->call;
	char *const vars[N_VARS] = {
		xasprintf("CNI_COMMAND=%s", d->command),
		xasprintf("CNI_CONTAINERID=%s", c->container_id),
		xasprintf("CNI_NETNS=%s", c->netns),
		xasprintf("CNI_ARGS=%s", c->args_text),
		xasprintf("CNI_IFNAME=%s", d->ifname ? d->ifname : c->ifname),
		xasprintf("CNI_PATH=%s", c->path),
		xasprintf(CNI_DEPTH "=%lld", (long long)cni_env_depth(environ) + 1),
	};
	char **env = NULL;
	size_t n = 0;

	for (int i = 0; i < N_VARS; i++)
		VEC_PUSH(env, n) = vars[i];
	for (char **at = environ; *at; at++)
		if (!is_cni_var(*at, vars))
			VEC_PUSH(env, n) = *at;
	VEC_PUSH(env, n) = NULL;
	return env;
}

static void free_env(char **env)
{
	for (int i = 0; i < N_VARS; i++)
		free(env[i]);
	free(env);
}

static void status_text(int status, char *ret, size_t size)
{
	if (WIFSIGNALED(status))
		snprintf(ret, size, "signal %d", WTERMSIG(status));
	else
		snprintf(ret, size, "exit status %d", WEXITSTATUS(status));
}

/* Makes the error of a plugin that failed without output on stdout. */
static int fail_mute(const struct buf *err, int status, struct err *e)
{
	auto_buf struct buf quoted;
	char how[32];

	buf_init(&quoted, ERR_TEXT_MAX - 100);
	status_text(status, how, sizeof(how));
	if (err->len == 0)
		return err_set(e, -EIO, ORIG("netplugin failed with no error message: %s"), how);
	cni_quote(&quoted, err->p);
	return err_set(e, -EIO, ORIG("netplugin failed: %s: %s"), quoted.p, how);
}

struct answer {
	int64_t code;
	const char *msg, *details;
};

static int read_answer(const struct buf *out, struct err *e)
{
	static const struct json_field fields[] = {
		JSON_FIELD("code", J_INT, struct answer, code, .max = UINT32_MAX),
		JSON_FIELD("msg", J_STR, struct answer, msg),
		JSON_FIELD("details", J_STR, struct answer, details),
		{0}};
	static const struct json_table table = {fields, JSON_GO, 0};
	auto_json struct json_doc *d = NULL;
	struct answer a = {0};
	int r = json_parse(&d, buf_span(out), OUTPUT_MAX, e);

	if (r == 0)
		r = json_read(d, json_root(d), &table, &a, "error", e);
	if (r < 0)
		return r;
	err_set(e, -EREMOTEIO, "%s", a.msg ? a.msg : "");
	if (a.details)
		err_details(e, "%s", a.details);
	cni_code_set(e, (unsigned int)a.code);
	return 0;
}

static int fail_plugin(const struct buf *out, const struct buf *err, int status, struct err *e)
{
	auto_buf struct buf quoted;
	struct err reason = ERR_INIT;

	buf_init(&quoted, ERR_TEXT_MAX / 2);
	if (out->len == 0)
		return fail_mute(err, status, e);
	if (read_answer(out, &reason) == 0) {
		if (e)
			*e = reason;
		return -EREMOTEIO;
	}
	cni_quote(&quoted, out->p);
	return err_set(e, -EREMOTEIO,
		       ORIG("netplugin failed but error parsing its diagnostic message %s: %s"),
		       quoted.p, reason.text);
}

static int delegate_exec(const char *path, char *const env[], struct span in, struct buf *out,
			 struct buf *err, int *status, struct err *e);

static int run(const struct cni_delegate *d, struct buf *out, struct err *e)
{
	auto_buf struct buf path, err;
	int r, status = 0;
	char **env;

	buf_init(&path, PATH_MAX);
	buf_init(&err, STDERR_MAX);
	r = cni_delegate_find(d->type, d->call->path, &path, e);
	if (r < 0)
		return r;
	env = make_env(d);
	r = delegate_exec(path.p, env, d->conf, out, &err, &status, e);
	free_env(env);
	if (r < 0)
		return r;
	/* If the plugin failed without output on stdout, fail_mute() makes stderr the error's
	 * message. Otherwise stderr contains logs. */
	if (err.len && (status == 0 || out->len))
		fd_write_all(STDERR_FILENO, err.p, err.len, NULL);
	return status ? fail_plugin(out, &err, status, e) : 0;
}

int cni_delegate_run(const struct cni_delegate *d, struct err *e)
{
	auto_buf struct buf out;

	buf_init(&out, OUTPUT_MAX);
	return run(d, &out, e);
}

/* Replaces *version, the configuration's version, by the result's cniVersion if the result has
 * one. */
static int result_version(const struct json *v, enum cni_version *version, struct err *e)
{
	const char *text = json_string(json_get(v, "cniVersion"));

	if (!text || !*text || cni_version_parse(text, version) == 0)
		return 0;
	return err_kind(e, ERR_DECODE, -EINVAL, "unsupported CNI result version \"%s\"", text);
}

int cni_delegate_add(const struct cni_delegate *d, enum cni_version version, struct cni_result *ret,
		     struct err *e)
{
	auto_json struct json_doc *doc = NULL;
	const struct json *root;
	auto_buf struct buf out;
	int r;

	buf_init(&out, OUTPUT_MAX);
	r = run(d, &out, e);
	if (r < 0)
		return r;
	r = json_parse(&doc, buf_span(&out), OUTPUT_MAX, e);
	if (r < 0)
		return err_wrap(e, r, ORIG("failed to unmarshal raw result"));
	root = json_root(doc);
	if (json_kind(root) == JSON_NULL) {
		*ret = (struct cni_result){0};
		return 0;
	}
	r = result_version(root, &version, e);
	return r < 0 ? r : cni_result_parse(doc, root, version, ret, e);
}

enum { BUSY_MS = 5000, BUSY_STEP_MS = 50 };

/* Creates a file in memory as the child's stdin, so that the parent never waits for a child that
 * reads slowly or not at all. */
static int input_file(struct span in, int *ret, struct err *e)
{
	auto_fd int fd = memfd_create("cni-stdin", MFD_CLOEXEC);
	int r;

	if (fd < 0)
		return err_sys(e, -errno, "memfd_create");
	r = fd_write_all(fd, in.p, in.n, e);
	if (r < 0)
		return r;
	if (lseek(fd, 0, SEEK_SET) < 0)
		return err_sys(e, -errno, "lseek");
	*ret = take_fd(&fd);
	return 0;
}

/* The program starts with an empty signal mask and the default action for SIGPIPE, which this
 * process ignores. */
static void set_signals(posix_spawnattr_t *attr)
{
	sigset_t set;

	sigemptyset(&set);
	posix_spawnattr_setsigmask(attr, &set);
	sigaddset(&set, SIGPIPE);
	posix_spawnattr_setsigdefault(attr, &set);
	posix_spawnattr_setflags(attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
}

static int spawn(const char *path, char *const env[], const int fds[static 3], pid_t *pid)
{
	char *argv[] = {(char *)path, NULL};
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	int r;

	posix_spawn_file_actions_init(&actions);
	posix_spawnattr_init(&attr);
	for (int i = 0; i < 3; i++)
		posix_spawn_file_actions_adddup2(&actions, fds[i], i);
	set_signals(&attr);
	r = posix_spawn(pid, path, &actions, &attr, argv, env);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&actions);
	return -r;
}

static int spawn_patiently(const char *path, char *const env[], const int fds[static 3], pid_t *pid,
			   struct err *e)
{
	int64_t deadline = now_mono_ms() + BUSY_MS;
	int r;

	while ((r = spawn(path, env, fds, pid)) == -ETXTBSY && now_mono_ms() < deadline)
		nanosleep(&(struct timespec){.tv_nsec = BUSY_STEP_MS * 1000000L}, NULL);
	return r < 0 ? err_sys(e, r, "execute '%s'", path) : 0;
}

/* Reads once; returns false at the end. Output beyond the buffer's limit is read and discarded. */
static bool drain(int fd, struct buf *b)
{
	char chunk[4096];
	ssize_t n;

	do
		n = read(fd, chunk, sizeof(chunk));
	while (n < 0 && errno == EINTR);
	if (n > 0)
		buf_add(b, chunk, (size_t)n);
	return n > 0;
}

/* Reads until both pipes are at their end, or the child has ended and both are empty. pidfd is -1
 * on a kernel without pidfd_open; poll() ignores it. */
static void collect(int pidfd, int out, struct buf *out_buf, int err, struct buf *err_buf)
{
	struct pollfd fds[] = {{out, POLLIN, 0}, {err, POLLIN, 0}, {pidfd, POLLIN, 0}};
	struct buf *bufs[] = {out_buf, err_buf};

	while (fds[0].fd >= 0 || fds[1].fd >= 0) {
		bool ended = fds[2].revents;
		int n = poll(fds, ARRAY_LEN(fds), ended ? 0 : -1);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 || (ended && !fds[0].revents && !fds[1].revents))
			return;
		for (int i = 0; i < 2; i++)
			if (fds[i].fd >= 0 && fds[i].revents && !drain(fds[i].fd, bufs[i]))
				fds[i].fd = -1;
	}
}

static int wait_for(pid_t pid, int *status, struct err *e)
{
	pid_t r;

	do
		r = waitpid(pid, status, 0);
	while (r < 0 && errno == EINTR);
	return r < 0 ? err_sys(e, -errno, "waitpid") : 0;
}

/*
 * Runs a program with `in` on stdin and waits until it exits; `out` and `err` receive its output,
 * each up to the buffer's limit. If the kernel has pidfd_open, this function does not wait for a
 * grandchild that keeps the pipes open. Returns 0 with the wait status in *status, or -errno if the
 * program could not be started or waited for.
 */
static int delegate_exec(const char *path, char *const env[], struct span in, struct buf *out,
			 struct buf *err, int *status, struct err *e)
{
	auto_fd int input = -1, out_r = -1, out_w = -1, err_r = -1, err_w = -1, pidfd = -1;
	int p[2], q[2], r = input_file(in, &input, e);
	pid_t pid;

	if (r < 0)
		return r;
	if (pipe2(p, O_CLOEXEC) < 0)
		return err_sys(e, -errno, "pipe2");
	out_r = p[0];
	out_w = p[1];
	if (pipe2(q, O_CLOEXEC) < 0)
		return err_sys(e, -errno, "pipe2");
	err_r = q[0];
	err_w = q[1];
	r = spawn_patiently(path, env, (int[]){input, out_w, err_w}, &pid, e);
	if (r < 0)
		return r;
	close(take_fd(&out_w));
	close(take_fd(&err_w));
	pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	collect(pidfd, out_r, out, err_r, err);
	return wait_for(pid, status, e);
}

/* Returns whether libcni sets this key itself: chain_conf() then does not copy the key from the
 * plugin's object. */
static bool is_cni_variable(const char *key)
{
	static const char *const keys[] = {"cniVersion",
					   "name",
					   "prevResult",
					   "runtimeConfig",
					   "cni.dev/valid-attachments",
					   "cni.dev/attachments"};

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (strcasecmp(key, keys[i]) == 0)
			return true;
	return false;
}

/* Writes runtimeConfig: the runtime's keys that plugin.capabilities.<key> requests; if there are
 * none, the plugin's own runtimeConfig. */
static void put_runtime(const struct chain_call *c, struct json_out *o)
{
	const struct json *caps = json_get(c->plugin, "capabilities");
	const struct json *own = json_get(c->plugin, "runtimeConfig");
	bool open = false;

	for (size_t i = 0; json_kind(c->runtime) == JSON_OBJECT && i < json_len(c->runtime); i++) {
		const char *key;
		const struct json *v = json_pair(c->runtime, i, &key);

		if (json_kind(caps) != JSON_OBJECT || !json_bool(json_get(caps, key)))
			continue;
		if (!open) {
			jo_key(o, "runtimeConfig");
			jo_obj(o);
			open = true;
		}
		jo_key(o, key);
		jo_val(o, v, true);
	}
	if (open) {
		jo_end_obj(o);
	} else if (own) {
		jo_key(o, "runtimeConfig");
		jo_val(o, own, true);
	}
}

static int put_prev(const struct chain_call *c, struct json_out *o, struct err *e)
{
	enum { PREV_MAX = 1 << 20 };
	auto_json struct json_doc *d = NULL;
	auto_buf struct buf text;
	int r;

	buf_init(&text, PREV_MAX);
	cni_result_relay(c->prev, c->call->version, &text);
	r = json_parse(&d, buf_span(&text), PREV_MAX, e);
	if (r < 0)
		return err_wrap(e, r, "prevResult for '%s'", c->type);
	jo_key(o, "prevResult");
	jo_val(o, json_root(d), false);
	return 0;
}

int chain_conf(const struct chain_call *c, bool gc, struct buf *b, struct err *e)
{
	struct json_out o;
	int r = 0;

	jo_init(&o, b, 0);
	jo_obj(&o);
	if (!c->call->no_version)
		jo_kstr(&o, "cniVersion", cni_version_str(c->call->version));
	jo_kstr(&o, "name", c->network);
	for (size_t i = 0; i < json_len(c->plugin); i++) {
		const char *key;
		const struct json *v = json_pair(c->plugin, i, &key);

		if (is_cni_variable(key))
			continue;
		jo_key(&o, key);
		jo_val(&o, v, false);
	}
	put_runtime(c, &o);
	if (c->prev)
		r = put_prev(c, &o, e);
	if (gc)
		cni_put_valid(&o, c->valid, c->n_valid);
	jo_end_obj(&o);
	if (r >= 0 && b->over)
		r = err_set(e, -E2BIG, "netconf for '%s' is too long", c->type);
	return r;
}

enum { CONF_MAX = 4 << 20 };

static int wrap(const struct chain_call *c, int code, struct err *e)
{
	err_wrap(e, code, "plugin '%s'", c->type);
	return c->label ? err_wrap(e, code, "%s", c->label) : code;
}

/* Refuses an ipam.type that makes interfaces: executed with the same netconf, it would execute its
 * ipam.type again, without end. */
static int check_ipam(const struct chain_call *c, struct err *e)
{
	const char *type = cni_ipam_type(c->plugin);

	if (!definition_is_interface_plugin(type))
		return 0;
	return err_kind(e, ERR_CONF, -ELOOP,
			"conf.ipam.type is '%s', which is not an IPAM plugin, expected one such as "
			"'host-local'",
			type);
}

int chain_add(const struct chain_call *c, struct cni_result *out, struct err *e)
{
	auto_buf struct buf conf;
	int r;

	buf_init(&conf, CONF_MAX);
	r = check_ipam(c, e);
	if (r >= 0)
		r = chain_conf(c, false, &conf, e);
	if (r >= 0) {
		const struct cni_delegate d = {c->type, "ADD", c->call, c->ifname, buf_span(&conf)};

		r = cni_delegate_add(&d, c->call->version, out, e);
	}
	return r < 0 ? wrap(c, r, e) : 0;
}

int chain_run(const struct chain_call *c, const char *command, struct err *e)
{
	auto_buf struct buf conf;
	int r;

	buf_init(&conf, CONF_MAX);
	r = check_ipam(c, e);
	/* ADD refuses this ipam.type as well, so there is nothing to delete. */
	if (r < 0 && (strcmp(command, "DEL") == 0 || strcmp(command, "GC") == 0)) {
		err_clear(e);
		return 0;
	}
	if (r >= 0)
		r = chain_conf(c, strcmp(command, "GC") == 0, &conf, e);
	if (r >= 0) {
		const struct cni_delegate d = {c->type, command, c->call, c->ifname,
					       buf_span(&conf)};

		r = cni_delegate_run(&d, e);
	}
	return r < 0 ? wrap(c, r, e) : 0;
}
