/* SPDX-License-Identifier: Apache-2.0 */
/* The main() of every plugin: what pkg/skel is to the Go ones. */
#include "cni/protocol/cni.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "cni/protocol/cni_call.h"
#include "kern/sys/netns.h"

/* Where the configuration comes from: a descriptor to be read only once all else is right, or
 * bytes (fd -1). Where a success' answer goes: a descriptor, or (to -1) nowhere yet. */
struct input {
	int fd, to;
	struct span text;
};

static unsigned int supported(const struct cni_plugin *p)
{
	return p->versions ? p->versions : (1U << CNI_VERSIONS) - 1;
}

/* CNI_COMMAND is absent: somebody looks what this is. */
static int print_about(const struct cni_plugin *p)
{
	auto_buf struct buf b;
	const char *before = "";

	buf_init(&b, 4096);
	buf_printf(&b, "%s\nCNI protocol versions supported: ", p->about);
	for (unsigned int v = 0; v < CNI_VERSIONS; v++)
		if (supported(p) & 1U << v) {
			buf_printf(&b, "%s%s", before, cni_version_str((enum cni_version)v));
			before = ", ";
		}
	buf_char(&b, '\n');
	fd_write_all(STDERR_FILENO, b.p, b.len, NULL);
	return 0;
}

static void print_versions(const struct cni_plugin *p, struct buf *out)
{
	struct json_out o;

	jo_init(&o, out, 0);
	jo_obj(&o);
	jo_kstr(&o, "cniVersion", cni_version_str(CNI_VERSIONS - 1));
	jo_key(&o, "supportedVersions");
	jo_arr(&o);
	for (unsigned int v = 0; v < CNI_VERSIONS; v++)
		if (supported(p) & 1U << v)
			jo_str(&o, cni_version_str((enum cni_version)v));
	jo_end_arr(&o);
	jo_end_obj(&o);
	buf_char(out, '\n');
}

static int read_input(struct cni_call *c, const struct input *in, struct buf *text, struct err *e)
{
	int r;

	c->stdin_text = in->text;
	if (in->fd < 0)
		return 0;
	r = fd_read_all(in->fd, CNI_INPUT_MAX, text, e);
	if (r < 0) {
		err_default_kind(e, ERR_IO);
		return err_wrap(e, r, "error reading from stdin");
	}
	c->stdin_text = buf_span(text);
	return 0;
}

/*
 * A container in our own namespace is never meant. The originals find out after the work and
 * leave it done; nothing has happened here. A namespace that is not there is for the plugin.
 */
static int check_netns(const struct cni_call *c, struct err *e)
{
	auto_fd int own = -1, pod = -1;
	int r;

	if (c->netns_override || !*c->netns || netns_open(c->netns, &pod, NULL) < 0)
		return 0;
	r = netns_current(&own, e);
	if (r < 0) {
		err_default_kind(e, ERR_NETNS);
		return err_wrap(e, r, "get plugin's netns failed");
	}
	r = netns_same(own, pod, e);
	if (r <= 0)
		return r;
	return err_kind(e, ERR_NETNS, -EINVAL,
			"plugin's netns and netns from CNI_NETNS should not be the same");
}

static bool is_empty(const struct cni_result *r)
{
	return r->n_ifaces == 0 && r->n_ips == 0 && r->n_routes == 0;
}

static int add(const struct cni_plugin *p, struct cni_call *c, struct buf *out, struct err *e)
{
	auto_result struct cni_result r = {0};
	int n = check_netns(c, e);

	if (n == 0 && p->add)
		n = p->add(c, &r, e);
	if (n < 0 || !p->add)
		return n;
	if (p->relays)
		cni_result_relay(&r, c->version, out);
	else
		n = cni_result_print(p->prints_prev && is_empty(&r) ? &c->prev : &r, c->version,
				     out, e);
	/* The caller sees a failure: it must not find half of a success. */
	if (n < 0 && p->del)
		p->del(c, NULL);
	return n;
}

static int del(const struct cni_plugin *p, struct cni_call *c, struct err *e)
{
	int r = check_netns(c, e);

	return r < 0 || !p->del ? r : p->del(c, e);
}

static int gc(const struct cni_plugin *p, struct cni_call *c, struct err *e)
{
	int r = cni_conf_valid(c, e);

	/* Without a list nobody is said to be gone: it is not an empty one. */
	return r < 0 || !p->gc || !c->has_valid ? r : p->gc(c, e);
}

static bool is(const struct cni_call *c, const char *verb)
{
	return strcmp(c->command, verb) == 0;
}

static bool is_verb(const struct cni_call *c)
{
	return is(c, "ADD") || is(c, "DEL") || is(c, "CHECK") || is(c, "GC") || is(c, "STATUS");
}

static int dispatch(const struct cni_plugin *p, struct cni_call *c, struct buf *out, struct err *e)
{
	if (is(c, "ADD"))
		return add(p, c, out, e);
	if (is(c, "DEL"))
		return del(p, c, e);
	if (is(c, "CHECK"))
		return p->check ? p->check(c, e) : 0;
	if (is(c, "GC"))
		return gc(p, c, e);
	return p->status ? p->status(c, e) : 0;
}

static int answer(const struct cni_plugin *p, struct cni_call *c, const struct input *in,
		  struct buf *text, struct buf *out, struct err *e)
{
	int r;

	if (is(c, "VERSION")) {
		print_versions(p, out);
		return 0;
	}
	r = read_input(c, in, text, e);
	if (r == 0)
		r = cni_conf_read(c, e);
	if (r == 0 && !is_verb(c))
		r = err_kind(e, ERR_ENV, -EINVAL, "unknown CNI_COMMAND: %s", c->command);
	if (r == 0)
		r = cni_conf_version(c, supported(p), e);
	if (r == 0)
		r = cni_conf_prev(c, e);
	return r < 0 ? r : dispatch(p, c, out, e);
}

/* An ADD whose answer the caller does not get is a failed one to it: nothing of it may stay. */
static int deliver(const struct cni_plugin *p, struct cni_call *c, int to, struct buf *out)
{
	struct err e = ERR_INIT;
	int r = to < 0 ? 0 : fd_write_all(to, out->p, out->len, &e);

	if (r == 0)
		return 0;
	log_error("the answer could not be written", LOG_S("error", e.text));
	if (is(c, "ADD") && p->del)
		p->del(c, NULL);
	return r;
}

static void call_done(struct cni_call *c)
{
	cni_result_done(&c->prev);
	json_free(c->doc);
	free(c->valid);
	root_close(&c->root);
}

/* The exit status; what goes to stdout is in `out`, empty when it went there already. */
static int serve(const struct cni_plugin *p, char *const env[], const struct input *in,
		 struct buf *out)
{
	struct cni_call c = {.plugin = p};
	struct err e = ERR_INIT;
	auto_buf struct buf text;
	bool lost = false;
	int r;

	buf_init(&text, CNI_INPUT_MAX);
	if (p->about && !*cni_env_get(env, "CNI_COMMAND"))
		return print_about(p);
	r = root_open(&c.root, cni_env_get(env, "UNIRAIL_ROOT"), &e);
	if (r == 0) {
		c.root.strict = true; /* netconfs name folders */
		r = cni_env_read(&c, env, &e);
		if (r == 0)
			r = answer(p, &c, in, &text, out, &e);
		lost = r >= 0 && deliver(p, &c, in->to, out) < 0;
		call_done(&c);
	}
	if (r >= 0 && in->to >= 0)
		buf_reset(out);
	if (r >= 0)
		return lost;
	buf_reset(out);
	cni_error_print(&e, out);
	return 1;
}

int cni_run_with(const struct cni_plugin *p, char *const env[], struct span in, struct buf *out)
{
	return serve(p, env, &(struct input){-1, -1, in}, out);
}

int cni_run(const struct cni_plugin *p)
{
	const char *level = getenv("UNIRAIL_LOG");
	auto_buf struct buf out;
	int r;

	log_threshold = LOG_WARN;
	if (level)
		log_level_parse(level, &log_threshold);
	buf_init(&out, CNI_INPUT_MAX);
	/* A runtime that is gone must not stop us half way, neither a log line nor the answer. */
	signal(SIGPIPE, SIG_IGN);
	r = serve(p, environ, &(struct input){.fd = STDIN_FILENO, .to = STDOUT_FILENO}, &out);
	if (out.len && fd_write_all(STDOUT_FILENO, out.p, out.len, NULL) < 0)
		return 1;
	return r;
}
