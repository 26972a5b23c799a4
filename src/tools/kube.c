/* SPDX-License-Identifier: Apache-2.0 */
/* `unirail kube`: what the API server says to us, for looking at access and permissions. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "kube/discover.h"
#include "kube/list.h"
#include "kube/time.h"
#include "tools/columns.h"
#include "tools/tools.h"

enum { OUT_MAX = 8 << 20 };

struct kube_opts {
	const char *kubeconfig, *context, *ns, *labels, *fields, *output;
	bool all;
	int64_t timeout_ms;
};

#define AT(field) offsetof(struct kube_opts, field), 0, 0
#define ACCESS                                                                                      \
	{"kubeconfig",                                                                              \
	 0,                                                                                         \
	 OPT_STR,                                                                                   \
	 "FILE",                                                                                    \
	 "how to reach the API server; KUBECONFIG, the pod's service account or ~/.kube/config if " \
	 "not given",                                                                               \
	 AT(kubeconfig)},                                                                           \
		{"context",  0, OPT_STR, "NAME", "of the kubeconfig, instead of its current one",   \
		 AT(context)},                                                                      \
	{                                                                                           \
		"timeout", 0, OPT_DUR, "TIME", "how long to try (30s)",                             \
			offsetof(struct kube_opts, timeout_ms), 1, 3600 * 1000                      \
	}

static const struct opt get_opts[] = {
	ACCESS,
	{"namespace", 'n', OPT_STR, "NS", "instead of the context's own", AT(ns)},
	{"all-namespaces", 'A', OPT_FLAG, NULL, "of every namespace", AT(all)},
	{"selector", 'l', OPT_STR, "LABELS", "only those with such labels: a=b,c!=d", AT(labels)},
	{"field-selector", 0, OPT_STR, "FIELDS", "only those: spec.nodeName=n1", AT(fields)},
	{"output", 'o', OPT_CHOICE, "text|json", "how to print it", AT(output)},
	{0}};
static const struct opt version_opts[] = {ACCESS, {0}};

const struct cmd kube_cmds[] = {
	{"get", "KIND [NAME]", "objects of the cluster", get_opts, 1, 2},
	{"version", NULL, "the API server's version, and how we come to it", version_opts, 0, 0},
	{0},
};

struct tool {
	const struct kube_opts *o;
	struct kube_conf conf;
	struct loop *loop;
	struct kube *k;
	const char *name, *ns; /* ns: "" is all */
	const struct kube_kind *kind;
	struct columns columns;
	bool json;
	size_t n;
	struct err e;
};

static void stop(struct tool *t, const struct err *e)
{
	if (e)
		t->e = *e;
	loop_stop(t->loop, e ? 1 : 0);
}

static const char *meta(const struct json *object, const char *key)
{
	return json_string(json_get(json_get(object, "metadata"), key));
}

static void age(const struct json *object, char *ret, size_t size)
{
	const char *text = meta(object, "creationTimestamp");
	int64_t at, s;

	str_copy(ret, size, "");
	if (!text || kube_time_parse(text, &at) < 0)
		return;
	s = (now_real_ms() - at) / 1000;
	if (s < 120)
		snprintf(ret, size, "%llds", (long long)s);
	else if (s < 120 * 60)
		snprintf(ret, size, "%lldm", (long long)s / 60);
	else if (s < 48 * 3600)
		snprintf(ret, size, "%lldh", (long long)s / 3600);
	else
		snprintf(ret, size, "%lldd", (long long)s / 86400);
}

static void add_row(struct tool *t, const struct json *object)
{
	char text[32];

	age(object, text, sizeof(text));
	if (t->kind->namespaced)
		columns_add(&t->columns, meta(object, "namespace"));
	columns_add(&t->columns, meta(object, "name"));
	columns_add(&t->columns, text);
}

static void start_rows(struct tool *t)
{
	columns_init(&t->columns, t->kind->namespaced ? 3 : 2, "");
	if (t->kind->namespaced)
		columns_add(&t->columns, "NAMESPACE");
	columns_add(&t->columns, "NAME");
	columns_add(&t->columns, "AGE");
}

static void print_json(const struct json *v, const char *after)
{
	auto_buf struct buf b;
	struct json_out o;

	buf_init(&b, OUT_MAX);
	jo_init(&o, &b, 4);
	jo_val(&o, v, false);
	fwrite(b.p, 1, b.len, stdout);
	fputs(after, stdout);
}

/* --- get --- */

static void on_object(void *arg, int status, const struct json *object, const struct err *e)
{
	struct tool *t = arg;

	(void)status;
	if (!e && t->json) {
		print_json(object, "\n");
	} else if (!e) {
		add_row(t, object);
		columns_print(&t->columns, stdout);
	}
	stop(t, e);
}

static int on_item(void *arg, const struct json *object, struct err *e)
{
	struct tool *t = arg;

	(void)e;
	if (t->json) {
		fputs(t->n ? ",\n" : "", stdout);
		print_json(object, "");
	} else {
		add_row(t, object);
	}
	t->n++;
	return 0;
}

static void on_listed(void *arg, const char *version, const struct err *e)
{
	struct tool *t = arg;

	if (!e && t->json)
		printf("%s],\n\"resourceVersion\": \"%s\"}\n", t->n ? "\n" : "", version);
	else if (!e && t->n == 0)
		printf("there are no %s here\n", t->kind->plural);
	else if (!e)
		columns_print(&t->columns, stdout);
	stop(t, e);
}

static void get_one(struct tool *t)
{
	const struct kube_request r = {.verb = KUBE_GET,
				       .on = {.kind = t->kind, .ns = t->ns, .name = t->name}};

	kube_send(t->k, &r, on_object, t);
}

static void on_kind(void *arg, const struct kube_kind *kind, const struct err *e)
{
	static const struct kube_list_ops ops = {on_item, on_listed};
	struct tool *t = arg;
	const struct kube_select s = {t->ns, t->o->labels, t->o->fields};

	if (e) {
		stop(t, e);
		return;
	}
	t->kind = kind;
	start_rows(t);
	if (t->name) {
		get_one(t);
		return;
	}
	if (t->json)
		fputs("{\"items\": [", stdout);
	kube_list(t->k, kind, &s, KUBE_PAGE, &ops, t);
}

static int get(struct tool *t, int argc, char **argv)
{
	struct kube_discover *d;
	int r;

	t->name = argc > 1 ? argv[1] : NULL;
	d = kube_discover(t->k, argv[0], on_kind, t);
	r = loop_run(t->loop);
	columns_done(&t->columns);
	kube_discover_free(d);
	return r;
}

/* --- version --- */

static void on_version(void *arg, int status, const struct json *v, const struct err *e)
{
	struct tool *t = arg;
	const char *text = json_string(json_get(v, "gitVersion"));

	(void)status;
	if (!e)
		printf("API server %s at %s:%u, by %s\n", text ? text : "of no version",
		       t->conf.host, t->conf.port, t->conf.from);
	stop(t, e);
}

static int version(struct tool *t)
{
	kube_send(t->k, &(struct kube_request){.verb = KUBE_GET, .path = "/version"}, on_version,
		  t);
	return loop_run(t->loop);
}

/* --- main --- */

static int with_client(struct tool *t, const struct root *root, const struct cmd *c, int argc,
		       char **argv)
{
	const struct kube_settings set = {.timeout_ms = (int)t->o->timeout_ms, .impatient = true};
	int r = loop_new(&t->loop, &t->e);

	if (r < 0)
		return r;
	t->ns = t->o->all ? "" : t->o->ns ? t->o->ns : t->conf.ns ? t->conf.ns : "default";
	t->json = t->o->output && strcmp(t->o->output, "json") == 0;
	t->k = kube_new(t->loop, root, &t->conf, &set);
	r = strcmp(c->name, "get") == 0 ? get(t, argc, argv) : version(t);
	kube_free(t->k);
	loop_free(t->loop);
	return r;
}

static int run(struct tool *t, const struct cmd *c, int argc, char **argv)
{
	auto_free char *path = path_absolute(t->o->kubeconfig);
	struct root root;
	int r = root_open(&root, NULL, &t->e);

	if (r < 0)
		return r;
	r = kube_conf_load(&t->conf, &(struct kube_where){&root, path, t->o->context}, &t->e);
	if (r == 0)
		r = with_client(t, &root, c, argc, argv);
	kube_conf_done(&t->conf);
	root_close(&root);
	return r;
}

int kube_main(int argc, char **argv)
{
	struct kube_opts o = {.timeout_ms = KUBE_TIMEOUT_MS};
	struct tool t = {.o = &o};
	struct err e = ERR_INIT;
	auto_free char *prog = NULL;
	const struct cmd *c;
	int words, at, r = cmd_pick("unirail kube", kube_cmds, argc, argv, &c, &words, &e);

	if (r < 0)
		return opt_exit("unirail kube", r, &e);
	prog = xasprintf("unirail kube %s", c->name);
	argc -= 1 + words;
	argv += 1 + words;
	at = opt_parse(c, prog, argc, argv, &o, &e);
	if (at < 0)
		return opt_exit(prog, at, &e);
	r = run(&t, c, argc - at, argv + at);
	if (r == 0)
		return fflush(stdout) ? 1 : 0;
	fprintf(stderr, "%s: %s\n", prog, t.e.text);
	return 1;
}
