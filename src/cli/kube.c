/* SPDX-License-Identifier: Apache-2.0 */
/* `unirail kube`: what the API server says to us, for looking at access and permissions. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/kube.h"
#include "cli/tools.h"

#define AT(field) offsetof(struct kube_opts, field), 0, 0
#define ACCESS                                                                                     \
	{"kubeconfig",                                                                             \
	 0,                                                                                        \
	 OPT_STR,                                                                                  \
	 "FILE",                                                                                   \
	 "kubeconfig for the API server; without it $KUBECONFIG, the pod's service account or "    \
	 "~/.kube/config is used",                                                                 \
	 AT(kubeconfig)},                                                                          \
		{"context",                                                                        \
		 0,                                                                                \
		 OPT_STR,                                                                          \
		 "NAME",                                                                           \
		 "context of the kubeconfig to use instead of its current context",                \
		 AT(context)},                                                                     \
	{                                                                                          \
		"timeout", 0, OPT_DUR, "TIME",                                                     \
			"maximum time to try to reach the API server (30s)",                       \
			offsetof(struct kube_opts, timeout_ms), 1, 3600 * 1000                     \
	}

static const struct opt get_opts[] = {
	ACCESS,
	{"namespace", 'n', OPT_STR, "NS", "namespace to list instead of the context's namespace",
	 AT(ns)},
	{"all-namespaces", 'A', OPT_FLAG, NULL, "list objects of all namespaces", AT(all)},
	{"selector", 'l', OPT_STR, "LABELS",
	 "list objects that match this label selector: a=b,c!=d", AT(labels)},
	{"field-selector", 0, OPT_STR, "FIELDS",
	 "list objects that match this field selector: spec.nodeName=n1", AT(fields)},
	{"watch", 'w', OPT_FLAG, NULL, "after the list print changes until interrupted", AT(watch)},
	{"cached", 0, OPT_FLAG, NULL, "with --watch: list from the API server's cache", AT(cached)},
	{"output", 'o', OPT_CHOICE, "text|json", "output format", AT(output)},
	{0}};
static const struct opt version_opts[] = {ACCESS, {0}};

const struct cmd kube_cmds[] = {
	{"get", "KIND[,KIND...] [NAME]", "list objects of the cluster", get_opts, 1, 2},
	{"version", NULL, "the API server's version, and how we come to it", version_opts, 0, 0},
	{0},
};

void kube_tool_stop(struct kube_tool *t, const struct err *e)
{
	if (e)
		t->e = *e;
	loop_stop(t->loop, e ? 1 : 0);
}

/* --- version --- */

static void on_version(void *arg, int status, const struct json *v, const struct err *e)
{
	struct kube_tool *t = arg;
	const char *text = json_string(json_get(v, "gitVersion"));

	(void)status;
	if (!e)
		printf("API server %s at %s:%u, by %s\n", text ? text : "of no version",
		       t->conf.host, t->conf.port, t->conf.from);
	kube_tool_stop(t, e);
}

static int version(struct kube_tool *t)
{
	kube_send(t->k, &(struct kube_request){.verb = KUBE_GET, .path = "/version"}, on_version,
		  t);
	return loop_run(t->loop);
}

/* --- main --- */

static int with_client(struct kube_tool *t, const struct root *root, const struct cmd *c, int argc,
		       char **argv)
{
	const struct kube_settings set = {.timeout_ms = (int)t->o->timeout_ms,
					  .impatient = !t->o->watch};
	int r = loop_new(&t->loop, &t->e);

	if (r < 0)
		return r;
	t->ns = t->o->all ? "" : t->o->ns ? t->o->ns : t->conf.ns ? t->conf.ns : "default";
	t->json = t->o->output && strcmp(t->o->output, "json") == 0;
	t->k = kube_new(t->loop, root, &t->conf, &set);
	if (strcmp(c->name, "get") == 0)
		r = kube_tool_get(t, argv[0], argc > 1 ? argv[1] : NULL);
	else
		r = version(t);
	kube_free(t->k);
	loop_free(t->loop);
	return r;
}

static int run(struct kube_tool *t, const struct cmd *c, int argc, char **argv)
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
	struct kube_tool t = {.o = &o};
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
