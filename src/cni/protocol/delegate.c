/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/protocol/delegate.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cni/protocol/cni_call.h"
#include "cni/protocol/code.h"
#include "cni/protocol/delegate_exec.h"
#include "cni/protocol/quote.h"

enum { OUTPUT_MAX = 4 << 20, STDERR_MAX = 64 << 10, N_VARS = 7 };

static int not_found(const char *type, const char *cni_path, struct err *e)
{
	struct span rest = span_of(cni_path), dir;
	auto_buf struct buf b;

	buf_init(&b, ERR_TEXT_MAX);
	while (span_cut(&rest, ':', &dir))
		buf_printf(&b, "%s%.*s", b.len ? " " : "", (int)dir.n, dir.p);
	return err_kind(e, ERR_UNAVAILABLE, -ENOENT, "failed to find plugin \"%s\" in path [%s]",
			type, b.p);
}

int cni_delegate_find(const char *type, const char *cni_path, struct buf *ret, struct err *e)
{
	struct span rest = span_of(cni_path), dir;
	struct stat st;

	if (!*type)
		return err_kind(e, ERR_CONF, -EINVAL, "no plugin name provided");
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

/* Our own environment without these, then these. The list and they are the caller's. */
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

/* A plugin that failed without an error object. */
static int fail_mute(const struct buf *err, int status, struct err *e)
{
	auto_buf struct buf quoted;
	char how[32];

	buf_init(&quoted, ERR_TEXT_MAX - 100);
	status_text(status, how, sizeof(how));
	if (err->len == 0)
		return err_set(e, -EIO, "netplugin failed with no error message: %s", how);
	cni_quote(&quoted, err->p);
	return err_set(e, -EIO, "netplugin failed: %s: %s", quoted.p, how);
}

struct answer {
	int64_t code;
	const char *msg, *details;
};

static int read_answer(const struct buf *out, struct err *e)
{
	static const struct json_field fields[] = {
		{"code", J_INT, .offset = offsetof(struct answer, code), .max = UINT32_MAX},
		{"msg", J_STR, .offset = offsetof(struct answer, msg)},
		{"details", J_STR, .offset = offsetof(struct answer, details)},
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
	struct err why = ERR_INIT;

	buf_init(&quoted, ERR_TEXT_MAX / 2);
	if (out->len == 0)
		return fail_mute(err, status, e);
	if (read_answer(out, &why) == 0) {
		if (e)
			*e = why;
		return -EREMOTEIO;
	}
	cni_quote(&quoted, out->p);
	return err_set(e, -EREMOTEIO,
		       "netplugin failed but error parsing its diagnostic message %s: %s", quoted.p,
		       why.text);
}

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
	/* Without an error object stderr is the message; else it is logs. */
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

/* The result's own version says what class it is of; without one it is the configuration's. */
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
		return err_wrap(e, r, "failed to unmarshal raw result");
	root = json_root(doc);
	if (json_kind(root) == JSON_NULL) {
		*ret = (struct cni_result){0};
		return 0;
	}
	r = result_version(root, &version, e);
	return r < 0 ? r : cni_result_parse(doc, root, version, ret, e);
}
