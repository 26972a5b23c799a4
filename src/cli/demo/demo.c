/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/demo/demo.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/opt.h"
#include "cli/tools.h"

volatile sig_atomic_t demo_stop;

static const struct opt options[] = {
	{"rails", 'n', OPT_INT, "N", "number of rails (8)", offsetof(struct demo_options, rails), 1,
	 DEMO_RAILS_MAX},
	{"plan", 'p', OPT_CHOICE, "shared|exclusive",
	 "address plan: one subnet per rail (shared), or one per rail and node (exclusive)",
	 offsetof(struct demo_options, plan), 0, 0},
	{"output", 'o', OPT_CHOICE, "text|json", "output format",
	 offsetof(struct demo_options, output), 0, 0},
	{"keep", 'k', OPT_FLAG, NULL,
	 "leave the pods attached, with their namespaces in /run/netns",
	 offsetof(struct demo_options, keep), 0, 0},
	{"clean", 0, OPT_FLAG, NULL, "remove what an earlier run with --keep left",
	 offsetof(struct demo_options, clean), 0, 0},
	{0}};

const struct cmd demo_cmds[] = {{NULL, NULL, "attach two pods to eight rails, verify, detach",
				 options, 0, 0},
				{0}};

void demo_problem(struct demo *d, const char *fmt, ...)
{
	struct buf b;
	va_list ap;

	buf_init(&b, 4096);
	va_start(ap, fmt);
	buf_vprintf(&b, fmt, ap);
	va_end(ap);
	VEC_PUSH(d->problems, d->n_problems) = buf_take(&b);
}

void demo_progress(struct demo *d, const char *fmt, ...)
{
	va_list ap;

	if (!isatty(STDERR_FILENO))
		return;
	fputs("\r\033[K", stderr);
	if (fmt) {
		fprintf(stderr, "[%d/%d] ", ++d->step, d->steps);
		va_start(ap, fmt);
		vfprintf(stderr, fmt, ap);
		va_end(ap);
	}
	fflush(stderr);
}

static void on_signal(int sig)
{
	demo_stop = sig;
}

/* Without SA_RESTART: a wait ends at once and the cleanup runs. */
static void catch_signals(void)
{
	static const int sigs[] = {SIGINT, SIGTERM, SIGHUP};
	struct sigaction sa = {.sa_handler = on_signal};

	for (size_t i = 0; i < sizeof(sigs) / sizeof(sigs[0]); i++)
		sigaction(sigs[i], &sa, NULL);
	signal(SIGPIPE, SIG_IGN);
}

static int stopped(struct err *e)
{
	return demo_stop ? err_set(e, -EINTR, "stopped by signal %d", (int)demo_stop) : 0;
}

static int build(struct demo *d, struct err *e)
{
	int r;

	demo_progress(d, "make fabric, node and pods");
	r = demo_place_open(d, e);
	if (r == 0)
		r = demo_fabric_build(d, e);
	if (r == 0)
		r = demo_conf_pools(d, e);
	return r < 0 ? r : demo_facts_remember(d, e);
}

static int attach(struct demo *d, size_t pod, struct err *e)
{
	struct demo_pod *p = &d->pods[pod];
	int r = stopped(e);

	if (r < 0)
		return r;
	demo_progress(d, "attach %s to %d rails", p->name, (int)d->opt.rails);
	r = demo_run(d, pod, "ADD", &p->add, e);
	if (r == 0)
		r = demo_facts_read(d->ns[NS_POD + pod], &p->facts, e);
	if (r < 0)
		return err_wrap(e, r, "attach %s", p->name);
	demo_facts_expect(d, pod);
	return 0;
}

static int detach(struct demo *d, size_t pod, struct err *e)
{
	struct demo_pod *p = &d->pods[pod];
	int r = stopped(e);

	if (r < 0)
		return r;
	demo_progress(d, "detach %s", p->name);
	r = demo_run(d, pod, "DEL", &p->del, e);
	return r < 0 ? err_wrap(e, r, "detach %s", p->name) : 0;
}

static int ping(struct demo *d, struct err *e)
{
	int r = stopped(e);

	demo_progress(d, "ping gateways and pods through every rail");
	return r < 0 ? r : demo_ping_all(d, e);
}

static int events(struct demo *d, struct err *e)
{
	int r = build(d, e);

	for (size_t i = 0; r == 0 && i < DEMO_PODS; i++)
		r = attach(d, i, e);
	if (r == 0)
		r = ping(d, e);
	if (d->opt.keep)
		return r < 0 ? r : stopped(e);
	for (size_t i = 0; r == 0 && i < DEMO_PODS; i++)
		r = detach(d, i, e);
	if (r == 0)
		r = stopped(e);
	demo_progress(d, "compare with before");
	return r < 0 ? r : demo_facts_compare(d, e);
}

static void show(const struct demo *d)
{
	if (strcmp(d->opt.output, "json") == 0) {
		demo_json(d);
		return;
	}
	demo_show_head(d);
	for (size_t i = 0; i < DEMO_PODS; i++)
		demo_show_pod(d, i);
	demo_show_pings(d);
	demo_show_end(d);
}

static void done(struct demo *d)
{
	for (size_t i = 0; i < DEMO_PODS; i++) {
		demo_facts_done(&d->pods[i].facts);
		free(d->pods[i].add.output);
		free(d->pods[i].del.output);
	}
	for (size_t i = 0; i < NS_COUNT; i++)
		str_list_free(d->before[i], d->n_before[i]);
	str_list_free(d->problems, d->n_problems);
	free(d->pings);
	root_close(&d->root);
}

static int run(struct demo *d, struct err *e)
{
	int r;

	demo_plan(d);
	d->steps = d->opt.keep ? 4 : 7;
	r = events(d, e);
	demo_progress(d, NULL);
	/* Ctrl-C reaches the plugin as well: that it ended by it is no news. */
	if (demo_stop)
		r = stopped(e);
	if (r == 0)
		show(d);
	/* Kept things stay only when everything went well enough to look at them. */
	if (r < 0 || !d->opt.keep)
		demo_place_close(d);
	return r;
}

static int clean(struct demo *d, struct err *e)
{
	int r = demo_place_clean(d, e);

	if (r >= 0)
		printf("%d things of an earlier --keep removed\n", r);
	return r < 0 ? r : 0;
}

int demo_main(int argc, char **argv)
{
	struct demo d = {.opt = {.rails = 8, .plan = "shared", .output = "text"}};
	struct err e = ERR_INIT;
	int r = opt_parse(demo_cmds, "unirail demo", argc - 1, argv + 1, &d.opt, &e);

	if (r < 0)
		return opt_exit("unirail demo", r, &e);
	catch_signals();
	r = root_open(&d.root, NULL, &e);
	if (r == 0)
		r = d.opt.clean ? clean(&d, &e) : run(&d, &e);
	if (r < 0)
		fprintf(stderr, "unirail demo: %s\n", e.text);
	r = demo_stop ? 128 + demo_stop : r < 0 || d.n_problems ? 1 : 0;
	done(&d);
	return r;
}
