/* SPDX-License-Identifier: Apache-2.0 */
/* `unirail migrate`: options, output, exit status. */
#include "cli/migrate/main.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/manifests/manifests.h"
#include "cli/manifests/render.h"
#include "cli/migrate/act.h"
#include "cli/migrate/migrate.h"
#include "spec/annotations.h"

enum { STATUS_STEPS = 3, OUT_MAX = 64 << 20 };

struct options {
	const char *kubeconfig, *context, *ns, *output;
	struct opt_strs only, files, set;
	int64_t timeout_ms, wait_ms;
	bool dry_run;
};

#define AT(field) offsetof(struct options, field), 0, 0
#define ACCESS                                                                                     \
	KUBE_ACCESS_OPTS(struct options),                                                          \
	{                                                                                          \
		"namespace", 'n', OPT_STR, "NAME", "namespace of unirail (default: unirail)",      \
			AT(ns)                                                                     \
	}
#define VALUES                                                                                      \
	{"values",                                                                                  \
	 'f',                                                                                       \
	 OPT_STRS,                                                                                  \
	 "FILE",                                                                                    \
	 "values file of the Helm chart, with precedence over the originals' settings; may be "     \
	 "given several times",                                                                     \
	 AT(files)},                                                                                \
	{                                                                                           \
		"set", 0, OPT_STRS, "PATH=VALUE[,...]",                                             \
			"values, with precedence over files: image.registry=registry.example; may " \
			"be given several times",                                                   \
			AT(set)                                                                     \
	}
#define OUTPUT                                                                                     \
	{                                                                                          \
		"output", 'o', OPT_CHOICE, "text|json", "output format", AT(output)                \
	}

static const struct opt plan_opts[] = {ACCESS,
				       VALUES,
				       {"node", 0, OPT_STRS, "NODE",
					"do not show the steps of other nodes; may be given "
					"several times",
					AT(only)},
				       OUTPUT,
				       {0}};
static const struct opt values_opts[] = {ACCESS, VALUES, {0}};

#define CHANGE                                                                                     \
	{"wait",                                                                                   \
	 0,                                                                                        \
	 OPT_DUR,                                                                                  \
	 "TIME",                                                                                   \
	 "maximum time to wait for each result of a step (5m)",                                    \
	 offsetof(struct options, wait_ms),                                                        \
	 1,                                                                                        \
	 24 * 3600 * 1000},                                                                        \
	{                                                                                          \
		"dry-run", 0, OPT_FLAG, NULL, "show the steps and change nothing", AT(dry_run)     \
	}
static const struct opt apply_opts[] = {
	ACCESS,
	VALUES,
	{"node", 0, OPT_STRS, "NODE",
	 "migrate only this node, other nodes by a later call; may be given several "
	 "times",
	 AT(only)},
	CHANGE,
	{0}};
static const struct opt undo_opts[] = {ACCESS, CHANGE, {0}};

const struct cmd migrate_cmds[] = {
	{"plan", NULL,
	 "show the steps of the migration, change nothing; exit status 3 if there are steps and "
	 "no problems",
	 plan_opts, 0, 0},
	{"apply", NULL,
	 "carry out the steps of the migration, and record the originals' state in a "
	 "ConfigMap",
	 apply_opts, 0, 0},
	{"undo", NULL, "undo the migration: restore the originals", undo_opts, 0, 0},
	{"values", NULL,
	 "print the originals' settings as values of the chart and of 'unirail "
	 "manifests'",
	 values_opts, 0, 0},
	{0},
};

/* --- output --- */

/* Titles of migrate_plan.follow_up. */
static const char after_apply[] = "Commands to run afterwards, when no undo is needed any more";
static const char after_undo[] = "Objects and files that undo leaves";

static void print_lines(const char *title, const struct migrate_lines *l)
{
	if (l->n)
		printf("%s:\n", title);
	for (size_t i = 0; i < l->n; i++)
		printf("- %s\n", l->v[i]);
}

static void print_text(const struct migrate_plan *p, const struct buf *remarks, const char *after)
{
	print_lines("Problems that prevent the steps", &p->problems);
	print_lines("Warnings", &p->warnings);
	for (struct span rest = buf_span(remarks), line; span_cut(&rest, '\n', &line);)
		if (line.n)
			printf("- %.*s\n", (int)line.n, line.p);
	for (size_t i = 0; i < p->n; i++) {
		const struct migrate_step *s = &p->steps[i];

		printf("%zu. %s\n   now:  %s\n   then: %s\n", i + 1, s->subject, s->current,
		       s->desired);
		if (s->command)
			printf("   as:   %s\n", s->command);
		if (s->undo)
			printf("   undo: %s\n", s->undo);
	}
	if (!p->n && !p->problems.n)
		printf("There is nothing to do.\n");
	print_lines(after, &p->follow_up);
}

static int print_json(const struct migrate_plan *p, const struct json_tree *values,
		      const struct buf *remarks)
{
	auto_buf struct buf b;
	struct json_out j;
	struct span rest = buf_span(remarks), line;

	buf_init(&b, OUT_MAX);
	jo_init(&j, &b, 4);
	jo_obj(&j);
	jo_kstrs(&j, "problems", p->problems.v, p->problems.n);
	jo_kstrs(&j, "warnings", p->warnings.v, p->warnings.n);
	jo_key(&j, "notes");
	jo_arr(&j);
	while (span_cut(&rest, '\n', &line)) {
		auto_free char *text = span_dup(line);

		if (line.n)
			jo_str(&j, text);
	}
	jo_end_arr(&j);
	jo_key(&j, "steps");
	jo_arr(&j);
	for (size_t i = 0; i < p->n; i++) {
		const struct migrate_step *s = &p->steps[i];

		jo_obj(&j);
		jo_kstr(&j, "subject", s->subject);
		jo_kstr(&j, "current", s->current);
		jo_kstr(&j, "desired", s->desired);
		jo_kstr(&j, "command", s->command);
		jo_kstr(&j, "undo", s->undo);
		jo_kbool(&j, "runningPodsAffected", false);
		jo_end_obj(&j);
	}
	jo_end_arr(&j);
	jo_kstrs(&j, "followUp", p->follow_up.v, p->follow_up.n);
	jo_key(&j, "values");
	json_tree_write(values, &j);
	jo_end_obj(&j);
	buf_char(&b, '\n');
	return opt_print(&b);
}

/* --- commands --- */

static int check_values(const struct json_tree *values, const char *ns, struct buf *remarks,
			struct err *e)
{
	auto_buf struct buf out;

	buf_init(&out, RENDER_MAX);
	return manifests_render(values, ns, &out, remarks, e);
}

/* Adds the node selector with which agents run only on migrated nodes. */
static void add_selector(struct json_tree *values)
{
	struct json_tree *agent = json_tree_member_object(values, "spiderpoolAgent");

	json_tree_put_text(json_tree_member_object(agent, "nodeSelector"), LABEL_MIGRATED, "yes");
}

static int prevented(const struct migrate_plan *p, struct err *e)
{
	for (size_t i = 0; i + 1 < p->problems.n; i++)
		fprintf(stderr, "unirail migrate: %s\n", p->problems.v[i]);
	return err_set(e, -EPERM, "%s", p->problems.v[p->problems.n - 1]);
}

/* Shows the plan (--dry-run), or carries it out if it has no problems. */
static int carry_out(const struct options *o, const struct migrate_act *x,
		     const struct migrate_plan *p, const char *after, struct err *e)
{
	auto_buf struct buf none;
	int r;

	buf_init(&none, 1);
	if (o->dry_run) {
		print_text(p, &none, after);
		return p->problems.n ? 1 : p->n ? STATUS_STEPS : 0;
	}
	if (p->problems.n)
		return prevented(p, e);
	for (size_t i = 0; i < p->warnings.n; i++)
		fprintf(stderr, "unirail migrate: warning: %s\n", p->warnings.v[i]);
	r = migrate_act(x, p, e);
	if (r < 0)
		return r;
	if (!p->n)
		printf("There is nothing to do.\n");
	print_lines(after, &p->follow_up);
	return fflush(stdout) ? 1 : 0;
}

static int apply(const struct options *o, struct migrate_api *a, const struct migrate_cluster *c,
		 struct json_tree *values, struct err *e)
{
	struct migrate_act x = {a, c, values, o->wait_ms};
	struct migrate_plan p;
	int r;

	add_selector(values);
	migrate_plan(c, o->only.v, o->only.n, &p);
	r = carry_out(o, &x, &p, after_apply, e);
	if (r == 0 && p.n && !o->dry_run)
		r = migrate_check_addresses(a, c, e);
	migrate_plan_done(&p);
	return r;
}

static int undo(const struct options *o, struct migrate_api *a, const struct migrate_cluster *c,
		struct err *e)
{
	auto_tree struct json_tree *values = json_tree_of(json_get(c->journal, "values"));
	struct migrate_act x = {a, c, values, o->wait_ms};
	struct migrate_plan p;
	int r;

	migrate_plan_undo(c, &p);
	r = carry_out(o, &x, &p, after_undo, e);
	migrate_plan_done(&p);
	return r;
}

static int plan(const struct options *o, const struct migrate_cluster *c,
		const struct json_tree *values, const struct buf *remarks)
{
	struct migrate_plan p;
	int status;

	migrate_plan(c, o->only.v, o->only.n, &p);
	if (o->output && strcmp(o->output, "json") == 0)
		print_json(&p, values, remarks);
	else
		print_text(&p, remarks, after_apply);
	status = p.problems.n ? 1 : p.n ? STATUS_STEPS : 0;
	migrate_plan_done(&p);
	return fflush(stdout) ? 1 : status;
}

static int print_values(const struct json_tree *values, const struct buf *remarks)
{
	auto_buf struct buf b;
	struct json_out j;

	for (struct span rest = buf_span(remarks), line; span_cut(&rest, '\n', &line);)
		if (line.n)
			fprintf(stderr, "unirail migrate values: note: %.*s\n", (int)line.n,
				line.p);
	buf_init(&b, OUT_MAX);
	jo_init(&j, &b, 4);
	json_tree_write(values, &j);
	buf_char(&b, '\n');
	return opt_print(&b);
}

/* Runs a command. Returns the exit status, or a negative errno. */
static int run_with(const struct options *o, const char *command, struct migrate_api *a,
		    struct err *e)
{
	auto_tree struct json_tree *values = NULL;
	auto_migrate struct migrate_cluster c = {0};
	auto_buf struct buf remarks;
	int r = migrate_observe(a, o->ns, &c, e);

	buf_init(&remarks, RENDER_MAX);
	if (r < 0)
		return r;
	if (strcmp(command, "undo") == 0)
		return undo(o, a, &c, e);
	values = migrate_values(&c, &remarks);
	r = manifests_values(&o->files, &o->set, values, e);
	if (r == 0)
		r = check_values(values, o->ns, &remarks, e);
	if (r < 0)
		return r;
	if (strcmp(command, "values") == 0)
		return print_values(values, &remarks);
	if (strcmp(command, "apply") == 0)
		return apply(o, a, &c, values, e);
	return plan(o, &c, values, &remarks);
}

static int run(const struct options *o, const char *command, struct err *e)
{
	const struct kube_settings set = {.timeout_ms = (int)o->timeout_ms, .impatient = true};
	auto_free char *path = path_absolute(o->kubeconfig);
	auto_kube_conf struct kube_conf conf = {0};
	struct migrate_api a = {0};
	struct root root;
	int r = root_open(&root, NULL, e);

	if (r < 0)
		return r;
	r = manifests_check_namespace(o->ns, e);
	if (r == 0)
		r = kube_conf_load(&conf, &(struct kube_where){&root, path, o->context}, e);
	if (r == 0)
		r = loop_new(&a.loop, e);
	if (r == 0) {
		a.k = kube_new(a.loop, &root, &conf, &set);
		r = run_with(o, command, &a, e);
		kube_free(a.k);
		loop_free(a.loop);
	}
	root_close(&root);
	return r;
}

int migrate_main(int argc, char **argv)
{
	struct options o = {
		.ns = "unirail", .timeout_ms = KUBE_TIMEOUT_MS, .wait_ms = MIGRATE_WAIT_MS};
	struct err e = ERR_INIT;
	auto_free char *prog = NULL;
	const struct cmd *c;
	int n_args, r = cmd_pick("unirail migrate", migrate_cmds, argc, argv, &c, &n_args, &e);

	if (r < 0)
		return opt_exit("unirail migrate", r, &e);
	prog = xasprintf("unirail migrate %s", c->name);
	r = opt_parse(c, prog, argc - 1 - n_args, argv + 1 + n_args, &o, &e);
	if (r < 0) {
		r = opt_exit(prog, r, &e);
	} else if ((r = run(&o, c->name, &e)) < 0) {
		fprintf(stderr, "%s: %s\n", prog, e.text);
		r = 1;
	}
	free(o.only.v);
	free(o.files.v);
	free(o.set.v);
	return r;
}
