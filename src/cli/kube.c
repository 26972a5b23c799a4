/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/client.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/table.h"
#include "cli/cli.h"
#include "kube/discover.h"
#include "kube/informer.h"
#include "kube/object.h"
#include "kube/time.h"

/* `unirail kube`: requests to the API server, to test access and permissions. */

struct kube_opts {
	const char *kubeconfig, *context, *ns, *labels, *fields, *output;
	bool all, watch, cached;
	int64_t timeout_ms;
};

struct kube_tool {
	const struct kube_opts *o;
	struct kube_conf conf;
	struct loop *loop;
	struct kube *k;
	const char *ns; /* "": all namespaces */
	bool json;
	struct err e;
};

#define AT(field) offsetof(struct kube_opts, field), 0, 0
#define ACCESS	  KUBE_ACCESS_OPTS(struct kube_opts)

static const struct opt get_opts[] = {
	ACCESS,
	{"namespace", 'n', OPT_STR, "NS",
	 "namespace of the objects, instead of the context's namespace", AT(ns)},
	{"all-namespaces", 'A', OPT_FLAG, NULL, "list objects of all namespaces", AT(all)},
	{"selector", 'l', OPT_STR, "LABELS",
	 "list objects that match this label selector: a=b,c!=d", AT(labels)},
	{"field-selector", 0, OPT_STR, "FIELDS",
	 "list objects that match this field selector: spec.nodeName=n1", AT(fields)},
	{"watch", 'w', OPT_FLAG, NULL, "list the objects, then print changes until interrupted",
	 AT(watch)},
	{"cached", 0, OPT_FLAG, NULL, "with --watch: list from the API server's cache", AT(cached)},
	{"output", 'o', OPT_CHOICE, "text|json", "output format", AT(output)},
	{0}};
static const struct opt version_opts[] = {ACCESS, {0}};

const struct cmd kube_cmds[] = {
	{"get", "KIND[,KIND...] [NAME]", "list objects of the cluster", get_opts, 1, 2},
	{"version", NULL, "the API server's version and the source of its address", version_opts, 0,
	 0},
	{0},
};

/* Stops the loop: loop_run() returns 0, or 1 if there is an error, which is copied to t->e. */
static void kube_tool_stop(struct kube_tool *t, const struct err *e)
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
		printf("API server %s at %s:%u, address from %s\n",
		       text ? text : "of unknown version", t->conf.host, t->conf.port,
		       t->conf.from);
	kube_tool_stop(t, e);
}

static int version(struct kube_tool *t)
{
	kube_send(t->k, &(struct kube_request){.verb = KUBE_GET, .path = "/version"}, on_version,
		  t);
	return loop_run(t->loop);
}

/* --- entry point of 'unirail kube' --- */

static int kube_tool_get(struct kube_tool *t, const char *kinds, const char *name);

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
	int used, at, r = cmd_pick("unirail kube", kube_cmds, argc, argv, &c, &used, &e);

	if (r < 0)
		return opt_exit("unirail kube", r, &e);
	prog = xasprintf("unirail kube %s", c->name);
	argc -= 1 + used;
	argv += 1 + used;
	at = opt_parse(c, prog, argc, argv, &o, &e);
	if (at < 0)
		return opt_exit(prog, at, &e);
	r = run(&t, c, argc - at, argv + at);
	if (r == 0)
		return fflush(stdout) ? 1 : 0;
	fprintf(stderr, "%s: %s\n", prog, t.e.text);
	return 1;
}

/* `unirail kube get`: finds each kind in the API server's discovery, then reads the object NAME,
 * or lists or watches the kind's objects. */

enum { OUT_MAX = 8 << 20 };

struct get {
	struct kube_tool *t;
	struct span rest; /* kinds not processed yet */
	const char *name;
	struct target **targets;
	size_t n;
};

/* One of the kinds of the command line, whose objects are read, listed or watched. */
struct target {
	struct get *g;
	struct kube_discover *d;
	const struct kube_kind *kind;
	struct columns columns;
	size_t n;
	struct kube_informer *informer;
};

static void next(struct get *g);

static void age(const struct json *object, char *ret, size_t size)
{
	const char *text = kube_meta_string(object, "creationTimestamp");
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

static void add_row(struct target *x, const struct json *object)
{
	char text[32];

	age(object, text, sizeof(text));
	if (x->kind->namespaced)
		columns_add(&x->columns, kube_meta_string(object, "namespace"));
	columns_add(&x->columns, kube_meta_string(object, "name"));
	columns_add(&x->columns, text);
}

static void start_rows(struct target *x)
{
	columns_init(&x->columns, x->kind->namespaced ? 3 : 2, "");
	if (x->kind->namespaced)
		columns_add(&x->columns, "NAMESPACE");
	columns_add(&x->columns, "NAME");
	columns_add(&x->columns, "AGE");
}

static char *text_of(const struct json *v, int indent)
{
	struct json_out o;
	struct buf b;

	buf_init(&b, OUT_MAX);
	jo_init(&o, &b, indent);
	jo_val(&o, v, false);
	return buf_take(&b);
}

static void print_json(const struct json *v, const char *after)
{
	auto_free char *text = text_of(v, 4);

	printf("%s%s", text, after);
}

/* --- one object --- */

static void on_object(void *arg, int status, const struct json *object, const struct err *e)
{
	struct target *x = arg;

	(void)status;
	if (e) {
		kube_tool_stop(x->g->t, e);
		return;
	}
	if (x->g->t->json) {
		print_json(object, "\n");
	} else {
		add_row(x, object);
		columns_print(&x->columns, stdout);
	}
	next(x->g);
}

/* --- a list --- */

static int on_item(void *arg, const struct json *object, struct err *e)
{
	struct target *x = arg;

	(void)e;
	if (x->g->t->json) {
		fputs(x->n ? ",\n" : "", stdout);
		print_json(object, "");
	} else {
		add_row(x, object);
	}
	x->n++;
	return 0;
}

static void on_listed(void *arg, const char *version, const struct err *e)
{
	struct target *x = arg;

	if (e) {
		kube_tool_stop(x->g->t, e);
		return;
	}
	if (x->g->t->json)
		printf("%s],\n\"resourceVersion\": \"%s\"}\n", x->n ? "\n" : "", version);
	else if (x->n == 0)
		printf("no %s found\n", x->kind->plural);
	else
		columns_print(&x->columns, stdout);
	next(x->g);
}

/* --- changes --- */

/* What the informer stores for each watched object with -o json: the object's JSON. */
struct watched {
	char *text;
	struct target *x;
};

static int decode_text(void *value, const struct json *object, struct err *e)
{
	struct watched *w = value;

	(void)e;
	w->text = text_of(object, 0);
	return 0;
}

static int decode_nothing(void *value, const struct json *object, struct err *e)
{
	(void)value, (void)object, (void)e;
	return 0;
}

static void drop_text(void *value)
{
	free(((struct watched *)value)->text);
}

static void on_changed(void *arg, const struct kube_object *was, const struct kube_object *is)
{
	const char *change = !was ? "ADDED" : is ? "MODIFIED" : "DELETED";
	const struct kube_object *o = is ? is : was;
	struct target *x = arg;

	if (x->g->t->json)
		printf("{\"type\":\"%s\",\"object\":%s}\n", change,
		       ((struct watched *)o->value)->text);
	else
		printf("%s %s %s%s%s %s\n", change, x->kind->name, o->ns, *o->ns ? "/" : "",
		       o->name, o->version);
	fflush(stdout);
}

static void on_synced(void *arg)
{
	struct target *x = arg;

	if (!x->g->t->json)
		printf("SYNCED %s %zu\n", x->kind->plural, kube_informer_count(x->informer));
	fflush(stdout);
}

static struct kube_select selection(const struct kube_tool *t)
{
	return (struct kube_select){t->ns, t->o->labels, t->o->fields};
}

static void watch(struct target *x)
{
	bool json = x->g->t->json;

	x->informer =
		kube_informer_new(x->g->t->k, &(struct kube_informer_conf){
						      .kind = x->kind,
						      .select = selection(x->g->t),
						      .cached = x->g->t->o->cached,
						      .size = json ? sizeof(struct watched) : 0,
						      .decode = json ? decode_text : decode_nothing,
						      .drop = json ? drop_text : NULL,
						      .changed = on_changed,
						      .synced = on_synced,
						      .arg = x,
					      });
}

/* --- the requests for each kind, one kind after the other --- */

static void print_kind(struct target *x)
{
	static const struct kube_list_ops ops = {on_item, on_listed};
	struct kube_tool *t = x->g->t;
	const struct kube_select s = selection(t);
	const struct kube_request r = {.verb = KUBE_GET,
				       .on = {.kind = x->kind, .ns = t->ns, .name = x->g->name}};

	start_rows(x);
	if (x->g->name) {
		kube_send(t->k, &r, on_object, x);
		return;
	}
	if (t->json)
		fputs("{\"items\": [", stdout);
	kube_list(t->k, x->kind, &s, KUBE_PAGE, &ops, x);
}

static void on_kind(void *arg, const struct kube_kind *kind, const struct err *e)
{
	struct target *x = arg;

	if (e) {
		kube_tool_stop(x->g->t, e);
		return;
	}
	x->kind = kind;
	if (!x->g->t->o->watch) {
		print_kind(x);
		return;
	}
	watch(x);
	next(x->g);
}

static void next(struct get *g)
{
	struct span word;
	auto_free char *kind = NULL;
	struct target *x;

	if (!span_cut(&g->rest, ',', &word)) {
		if (!g->t->o->watch)
			kube_tool_stop(g->t, NULL);
		return;
	}
	kind = span_dup(word);
	x = xcalloc(1, sizeof(*x));
	x->g = g;
	VEC_PUSH(g->targets, g->n) = x;
	x->d = kube_discover(g->t->k, kind, on_kind, x);
}

/* Runs `kube get` with KIND[,KIND...] [NAME]. Returns 0, or not 0 with the reason in t->e. */
static int kube_tool_get(struct kube_tool *t, const char *kinds, const char *name)
{
	struct get g = {.t = t, .rest = span_of(kinds), .name = name};
	int r;

	if (name && t->o->watch)
		return err_set(&t->e, -EINVAL,
			       "--watch does not accept NAME: use --field-selector "
			       "metadata.name=NAME");
	next(&g);
	r = loop_run(t->loop);
	for (size_t i = 0; i < g.n; i++) {
		kube_informer_free(g.targets[i]->informer);
		kube_discover_free(g.targets[i]->d);
		columns_done(&g.targets[i]->columns);
		free(g.targets[i]);
	}
	free(g.targets);
	return r;
}
