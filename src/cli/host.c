/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/host.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "host/apply.h"
#include "host/dropin.h"
#include "host/kinds.h"
#include "host/render.h"
#include "host/watch.h"

/* `unirail host`: reads the options, runs the command and returns the exit status: 0 nothing to
 * do, or everything done; 1 a failure; 2 a usage error; 3 a plan has steps, or steps were
 * blocked. */

enum { OUT_MAX = 64 << 20, CMDS_MAX = 48, STATUS_STEPS = 3, PROG_MAX = 64 };

#define OPTION(m) offsetof(struct host_want, options.m)

static const struct opt common[] = {
	{"root", 0, OPT_STR, "DIR",
	 "root directory of the host: /host in a container, or a recorded host ('unirail doctor --unpack')",
	 OPTION(root), 0, 0},
	{"conf", 0, OPT_STR, "FILE", "requested state (" HOST_CONF ")", OPTION(conf), 0, 0},
	{"state-dir", 0, OPT_STR, "DIR", "directory of the journal (" HOST_STATE_DIR ")",
	 OPTION(state_dir), 0, 0},
	{"output", 'o', OPT_CHOICE, "text|json", "output format", OPTION(output), 0, 0},
	{0},
};

static const struct opt dry_run = {
	"dry-run", 0, OPT_FLAG, NULL, "show the steps and change nothing", OPTION(dry_run), 0, 0};

static const struct opt watch_opts[] = {
	{"interval", 0, OPT_DUR, "TIME",
	 "maximum time between two comparisons with the requested state (30s)", OPTION(interval_ms),
	 HOST_WATCH_DELAY_MIN_MS, 24 * 3600 * 1000},
	{"root", 0, OPT_STR, "DIR", "root directory of the host: /host in a container",
	 OPTION(root), 0, 0},
	{"conf", 0, OPT_STR, "FILE", "requested state (" HOST_CONF ")", OPTION(conf), 0, 0},
	{"state-dir", 0, OPT_STR, "DIR", "directory of the journal (" HOST_STATE_DIR ")",
	 OPTION(state_dir), 0, 0},
	{0},
};

static const struct cmd fixed[] = {
	{"show", "[KIND...]", "the present state of this host", common, 0, -1},
	{"plan", "[KIND...]",
	 "the steps from the present to the requested state; exit status 3 if there are "
	 "any",
	 common, 0, -1},
	{"apply", "[KIND...]",
	 "carry out the steps to the requested state and record them in a journal", NULL, 0, -1},
	{"watch", "[KIND...]",
	 "carry out the steps of 'apply' whenever the host drifts from the requested "
	 "state",
	 watch_opts, 0, -1},
	{"undo", "[KIND...]", "restore the state before the steps of the journal", NULL, 0, -1},
};

struct cmd host_cmds[CMDS_MAX + 1];

/*
 * Builds the options of a kind's command: the keys of the kind, --dry-run and the common options.
 */
static const struct opt *merge(const struct opt *keys)
{
	struct opt *all = NULL;
	size_t n = 0;

	for (; keys && keys->name; keys++)
		VEC_PUSH(all, n) = *keys;
	VEC_PUSH(all, n) = dry_run;
	for (const struct opt *o = common; o->name; o++)
		VEC_PUSH(all, n) = *o;
	(void)VEC_PUSH(all, n);
	return all;
}

static const char *operands(const struct host_kind *k)
{
	if (k->flags & HOST_PAIRS)
		return "[KEY=VALUE...]";
	if (k->flags & HOST_NAMED)
		return "[NAME]";
	return k->keys && k->keys->arg ? "[VALUE]" : NULL;
}

void host_cmds_init(void)
{
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_LEN(fixed); i++) {
		host_cmds[n] = fixed[i];
		if (!host_cmds[n].opts)
			host_cmds[n].opts = merge(NULL);
		n++;
	}
	for (const struct host_kind *const *k = host_kinds; *k && n < CMDS_MAX; k++) {
		const char *args = operands(*k);

		host_cmds[n++] = (struct cmd){(*k)->name, args,
					      (*k)->help, merge((*k)->keys),
					      0,	  (*k)->flags & HOST_PAIRS ? -1 : 1};
	}
}

/* --- signals that stop a command --- */

static volatile sig_atomic_t interrupted;

static void on_signal(int sig)
{
	(void)sig;
	interrupted = 1;
}

static bool stop(void *arg)
{
	(void)arg;
	return interrupted != 0;
}

static void catch_signals(void)
{
	struct sigaction sa = {.sa_handler = on_signal};

	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGHUP, &sa, NULL);
}

/* --- state of one run of `unirail host`, and the functions that print or change it --- */

struct call {
	struct host_options o;
	struct host h;
	struct host_conf conf;
	struct host_select select;
	struct host_plan plan;
	struct host_journal journal;
	bool json;
};

static int print(struct buf *b)
{
	return opt_print(b);
}

static void on_step(void *arg, size_t i, size_t n, const char *kind, const char *subject,
		    const char *text)
{
	const struct call *c = arg;

	if (!c->json)
		printf("[%zu/%zu] %s %s: %s\n", i + 1, n, kind, subject, text ? text : "");
	fflush(stdout);
}

static int show_plan(struct call *c)
{
	auto_buf struct buf b;
	int status;

	buf_init(&b, OUT_MAX);
	if (c->json)
		host_render_plan_json(&c->plan, &b);
	else
		host_render_plan(&c->plan, &b);
	if (!c->json && c->plan.n == 0)
		buf_str(&b, "nothing to do\n");
	status = print(&b);
	return status ? status : c->plan.n ? STATUS_STEPS : 0;
}

static void show_outcome(const struct call *c, const char *verb, const struct host_outcome *o)
{
	if (c->json)
		printf("{\"%s\": %zu, \"blocked\": %zu, \"left\": %zu}\n", verb, o->done,
		       o->blocked, o->left);
	else if (o->done + o->blocked + o->left == 0)
		printf("nothing to do\n");
	else
		printf("steps: %zu %s, %zu blocked, %zu failed or not attempted\n", o->done, verb,
		       o->blocked, o->left);
}

static void show_blocked(const struct call *c)
{
	for (size_t i = 0; i < c->plan.n; i++) {
		const struct host_step *s = &c->plan.v[i];

		if (s->blocked)
			fprintf(stderr, "unirail host: %s %s: %s: blocked: %s\n", s->kind,
				s->subject, s->desired ? s->desired : "", s->blocked);
	}
	for (size_t i = 0; i < c->plan.n_remarks; i++)
		fprintf(stderr, "unirail host: note: %s %s: %s\n", c->plan.remarks[i].kind,
			c->plan.remarks[i].subject, c->plan.remarks[i].text);
}

static int run_apply(struct call *c, struct err *e)
{
	const struct host_progress progress = {on_step, stop, c};
	struct host_outcome outcome = {0};
	int r = host_apply_check(&c->h, &c->plan, e);

	if (r < 0)
		return r;
	catch_signals();
	r = host_apply(&c->h, &c->plan, &c->journal, &progress, &outcome, e);
	show_outcome(c, "done", &outcome);
	show_blocked(c);
	if (r < 0)
		err_wrap(e, r, "%zu of %zu steps are done%s", outcome.done, c->plan.n,
			 outcome.done ? " ('unirail host undo' reverts them)" : "");
	return r < 0 ? r : outcome.blocked ? STATUS_STEPS : 0;
}

static int open_journal(struct call *c, struct err *e)
{
	if (c->h.recorded)
		return err_kind(
			e, ERR_CONF, -EROFS,
			"'%s' is a snapshot, which cannot be changed; use 'plan' or --dry-run",
			c->o.root);
	if (c->h.kernel && geteuid() != 0)
		return err_kind(e, ERR_UNAVAILABLE, -EPERM, "changes need root");
	return host_journal_open(&c->journal, &c->h.root, c->o.state_dir, true, e);
}

static int run_undo(struct call *c, struct err *e)
{
	const struct host_progress progress = {on_step, stop, c};
	struct host_outcome outcome = {0};
	int r = open_journal(c, e);

	if (r < 0)
		return r;
	catch_signals();
	r = host_undo(&c->h, &c->journal, &c->select, &progress, &outcome, e);
	show_outcome(c, "undone", &outcome);
	return r;
}

/* `undo --dry-run` */
static int show_undo(struct call *c, struct err *e)
{
	int r = host_journal_open(&c->journal, &c->h.root, c->o.state_dir, false, e), n = 0;

	for (size_t i = c->journal.n; i > 0 && r >= 0; i--) {
		const struct host_record *rec = &c->journal.v[i - 1];

		if (!host_record_is_active(rec) || !host_selected(&c->select, rec->kind))
			continue;
		printf("%s %s: %s -> %s\n", rec->kind, rec->subject, rec->desired, rec->current);
		n++;
	}
	return r < 0 ? r : n ? STATUS_STEPS : 0;
}

static int run_show(struct call *c, struct err *e)
{
	struct host_rows rows = {0};
	auto_buf struct buf b;
	int r;

	buf_init(&b, OUT_MAX);
	r = host_show(&c->h, &c->conf, &c->select, &rows, e);
	if (r >= 0 && c->json)
		host_render_rows_json(&rows, &b);
	else if (r >= 0)
		host_render_rows(&rows, &b);
	host_rows_done(&rows);
	return r < 0 ? r : print(&b);
}

/*
 * Adds a note to the plan for each subject that no section requires any more, but of which the
 * journal still has active steps; host_plan_unwanted() has the exceptions. If the journal cannot be
 * read, the plan has a note about that instead. open: the journal is open.
 */
static void remark_unwanted(struct call *c, bool open)
{
	struct err e = ERR_INIT;

	if (!open && host_journal_open(&c->journal, &c->h.root, c->o.state_dir, false, &e) < 0) {
		host_plan_remark(&c->plan, "journal", "host", "%s", e.text);
		return;
	}
	host_plan_unwanted(&c->conf, &c->journal, &c->select, &c->plan);
}

/* Fails if the program that a step runs is not installed, before `unirail host KIND` changes
 * host.d or a device. */
static int check_programs(const struct host_plan *p, struct err *e)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->v[i].lacks_program)
			return err_kind(e, ERR_UNAVAILABLE, -ENOENT, "%s %s: %s: %s", p->v[i].kind,
					p->v[i].subject, p->v[i].desired, p->v[i].blocked);
	return 0;
}

/* If `change` is set, locks the journal first, so that no other `unirail host` changes the host
 * between plan and apply. */
static int plan_and_apply(struct call *c, const struct host_kind *only, bool change, struct err *e)
{
	struct host_wants *w = only ? host_conf_wants(&c->conf, only) : NULL;
	int r = change ? open_journal(c, e) : 0;

	for (size_t i = 0; w && !(only->flags & HOST_BARE) && i < w->n && r >= 0; i++)
		r = host_dropin_plan(&c->h, only, w->v[i], &c->plan, e);
	if (r >= 0)
		r = host_plan_make(&c->h, &c->conf, &c->select, &c->plan, e);
	if (r >= 0 && only && change)
		r = check_programs(&c->plan, e);
	if (r < 0)
		return r;
	/* `unirail host KIND` does not read host.conf, so it cannot know which sections were
	 * removed from it. */
	if (!only)
		remark_unwanted(c, change);
	return change ? run_apply(c, e) : show_plan(c);
}

static int select_kinds(struct call *c, int argc, char **argv, struct err *e)
{
	for (int i = 0; i < argc; i++) {
		const struct host_kind *k = host_kind_find(argv[i]);
		auto_free const char **names = NULL;
		const char *near;
		size_t n = 0;

		if (k) {
			VEC_PUSH(c->select.v, c->select.n) = k;
			continue;
		}
		for (const struct host_kind *const *p = host_kinds; *p; p++)
			VEC_PUSH(names, n) = (*p)->name;
		near = opt_suggest(argv[i], names, n);
		return err_kind(
			e, ERR_ENV, -EINVAL,
			"unknown kind of step '%s': 'unirail host --help' lists the kinds%s%s%s",
			argv[i], near ? "; did you mean '" : "", near ? near : "",
			near ? "'?" : "");
	}
	return 0;
}

static bool is(const struct cmd *c, const char *name)
{
	return strcmp(c->name, name) == 0;
}

static void on_drift(void *arg, const struct host_step *s, bool done)
{
	(void)arg;
	if (done)
		log_info("host step carried out", LOG_S("kind", s->kind),
			 LOG_S("subject", s->subject), LOG_S("desired", s->desired));
	else
		log_warn("host drifted", LOG_S("kind", s->kind), LOG_S("subject", s->subject),
			 LOG_S("current", s->current), LOG_S("desired", s->desired),
			 LOG_S("blocked", s->blocked ? s->blocked : ""));
}

static void on_failure(void *arg, const struct err *e)
{
	(void)arg;
	log_error("cannot reconcile the host, will retry", LOG_S("error", e->text));
}

/* Writes the report if it changed; the agent publishes it (agent/device/host_drift.h). */
static void on_round_end(void *arg, const struct host_plan *p, const struct err *failure)
{
	const struct call *c = arg;
	auto_free char *path = xasprintf("%s/" HOST_WATCH_REPORT, c->o.state_dir);
	auto_buf struct buf b, was;
	struct err e = ERR_INIT;

	buf_init(&b, OUT_MAX);
	buf_init(&was, OUT_MAX);
	host_watch_report(p, failure, &b);
	if (file_read(&c->h.root, path, OUT_MAX, &was, NULL) == 0 && was.len == b.len &&
	    memcmp(was.p, b.p, b.len) == 0)
		return;
	if (dir_make(&c->h.root, c->o.state_dir, 0755, &e) < 0 ||
	    file_replace(&c->h.root, path, buf_span(&b), 0644, &e) < 0)
		log_warn("cannot write the drift report", LOG_S("error", e.text));
}

/* Locks the report: if its lock file exists but no process holds the lock, the agent treats the
 * report as removed. A watch that cannot get the lock logs that and goes on. */
static void lock_reports(struct call *c, int *fd)
{
	enum { WAIT_MS = 2000 };
	auto_free char *path = xasprintf("%s/" HOST_WATCH_LOCK, c->o.state_dir);
	struct err e = ERR_INIT;

	if (dir_make(&c->h.root, c->o.state_dir, 0755, &e) < 0 ||
	    lock_take(&c->h.root, path, WAIT_MS, fd, &e) < 0)
		log_warn("cannot lock the drift report; does another 'unirail host watch' run?",
			 LOG_S("error", e.text));
}

static int run_watch(struct call *c, struct err *e)
{
	const struct host_watch_conf conf = {.root = c->o.root,
					     .conf = c->o.conf ? c->o.conf : HOST_CONF,
					     .state_dir = c->o.state_dir,
					     .conf_given = c->o.conf != NULL,
					     .interval_ms = c->o.interval_ms,
					     .select = &c->select,
					     .drift = on_drift,
					     .failed = on_failure,
					     .ended = on_round_end,
					     .arg = c};
	auto_free char *path = xasprintf("%s/" HOST_WATCH_REPORT, c->o.state_dir);
	struct err late = ERR_INIT;
	auto_fd int lock = -1;
	int r;

	if (!c->h.kernel)
		return err_kind(
			e, ERR_CONF, -EOPNOTSUPP,
			"'%s' is not the running host: 'watch' needs the running kernel; run "
			"'watch' without --root, or in a container with the host's / at --root",
			c->o.root);
	lock_reports(c, &lock);
	r = host_watch(&conf, e);
	/* Removes the report, which nothing updates from now on. */
	if (r >= 0 && file_remove(&c->h.root, path, &late) < 0)
		log_warn("cannot remove the drift report", LOG_S("error", late.text));
	return r;
}

/* Runs show, plan, apply, watch or undo. */
static int run_fixed(struct call *c, const struct cmd *cmd, struct err *e)
{
	int r = host_open(&c->h, c->o.root, e);
	const char *path = c->o.conf ? c->o.conf : HOST_CONF;

	if (r >= 0 && is(cmd, "watch"))
		return run_watch(c, e);
	if (r >= 0 && is(cmd, "undo"))
		return c->o.dry_run ? show_undo(c, e) : run_undo(c, e);
	if (r >= 0)
		r = host_dropin_read(&c->conf, &c->h.root, path, c->o.conf != NULL, e);
	if (r < 0)
		return r;
	if (is(cmd, "show"))
		return run_show(c, e);
	return plan_and_apply(c, NULL, is(cmd, "apply") && !c->o.dry_run, e);
}

/* `unirail host KIND ...`: if `given` (see host_conf_command()), prints, plans or applies the
 * section; else shows the present state. */
static int run_kind(struct call *c, const struct host_kind *k, bool given, struct err *e)
{
	const struct host_wants *w = host_conf_wants(&c->conf, k);
	auto_buf struct buf b;
	int r = 0;

	buf_init(&b, OUT_MAX);
	if (given && k->print && w->n)
		r = k->print(w->v[w->n - 1], &b, e);
	if (r != 0)
		return r < 0 ? r : print(&b);
	r = host_open(&c->h, c->o.root, e);
	if (r < 0)
		return r;
	VEC_PUSH(c->select.v, c->select.n) = k;
	return given ? plan_and_apply(c, k, !c->o.dry_run, e) : run_show(c, e);
}

static int parse(struct call *c, const struct cmd *cmd, const char *prog, int argc, char **argv,
		 const struct host_kind **kind, bool *given, struct err *e)
{
	auto_free struct host_want *w = xcalloc(1, sizeof(*w));
	int r;

	*kind = host_kind_find(cmd->name);
	if (*kind && host_conf_is_query(*kind, cmd, prog, argc, argv, &c->o))
		return 0;
	if (*kind)
		return host_conf_command(&c->conf, *kind, cmd, prog, NULL, argc, argv, &c->o, given,
					 e);
	w->options = c->o;
	r = opt_parse(cmd, prog, argc, argv, w, e);
	if (r < 0)
		return r;
	c->o = w->options;
	return select_kinds(c, argc - r, argv + r, e);
}

int host_main(int argc, char **argv)
{
	struct call c = {.o = {.output = "text", .state_dir = HOST_STATE_DIR, .interval_ms = 30000},
			 .h = {.root = {.fd = -1}},
			 .journal = HOST_JOURNAL_INIT};
	const struct host_kind *kind = NULL;
	const struct cmd *cmd = NULL;
	char prog[PROG_MAX] = "unirail host";
	struct err e = ERR_INIT;
	bool given = false;
	int used, r = cmd_pick(prog, host_cmds, argc, argv, &cmd, &used, &e);

	host_conf_init(&c.conf);
	if (r == 0) {
		snprintf(prog, sizeof(prog), "unirail host %s", cmd->name);
		r = parse(&c, cmd, prog, argc - 1 - used, argv + 1 + used, &kind, &given, &e);
	}
	if (r < 0) {
		host_conf_done(&c.conf);
		return opt_exit("unirail host", r, &e);
	}
	c.json = strcmp(c.o.output, "json") == 0;
	r = kind ? run_kind(&c, kind, given, &e) : run_fixed(&c, cmd, &e);
	if (r < 0)
		fprintf(stderr, "unirail host: %s\n", e.text);
	host_plan_done(&c.plan);
	host_journal_close(&c.journal);
	host_conf_done(&c.conf);
	host_close(&c.h);
	free(c.select.v);
	return r < 0 ? 1 : r;
}
