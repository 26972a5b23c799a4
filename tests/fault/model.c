/* SPDX-License-Identifier: Apache-2.0 */
/* model: generates schedules from seeds and runs them. From a schedule that fails, it removes
 * the steps and faults that the failure does not need. */
#include "model.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/option.h"
#include "trace.h"

enum { REPORT_MAX = 1 << 16 };

struct options {
	int64_t runs, first, workers;
	bool one;
};

#define AT(field) offsetof(struct options, field)
static const struct opt opts[] = {
	{"runs", 'n', OPT_INT, "N", "schedules; 10000 if not given", AT(runs), 1, 1000000000},
	{"first", 0, OPT_INT, "SEED", "the first seed; the current time if not given", AT(first), 1,
	 INT64_MAX},
	{"one", 0, OPT_FLAG, NULL, "run the first seed only, and print its steps", AT(one), 0, 0},
	{"workers", 'j', OPT_INT, "N", "schedules at a time; 2 if not given", AT(workers), 1, 16},
	{0},
};
static const struct cmd usage = {NULL, NULL, "compare the address store with a model of it",
				 opts, 0,    0};

static struct shared {
	int64_t next, done, failed, steps;
} * shared;

/* --- shrinking --- */

static bool still_fails(const struct plan *p)
{
	auto_buf struct buf b;

	buf_init(&b, REPORT_MAX);
	return p->n > 0 && !plan_run(p, &b);
}

static void drop(struct plan *p, size_t i)
{
	memmove(&p->steps[i], &p->steps[i + 1], (p->n - i - 1) * sizeof(p->steps[0]));
	p->n--;
}

static bool try_plain(struct plan *p, size_t i)
{
	const struct step was = p->steps[i];
	struct step *t = &p->steps[i];

	t->crash = t->fail = t->with_next = 0;
	t->full = false;
	if (memcmp(&was, t, sizeof(was)) != 0 && still_fails(p))
		return true;
	*t = was;
	return false;
}

/* Removes each step without which the schedule still fails; if a step is needed, removes all its
 * faults and its concurrency, provided that the schedule still fails. Repeats this until no step
 * can be removed and no step becomes simpler. */
static void shrink(struct plan *p)
{
	bool smaller = true;

	while (smaller) {
		smaller = false;
		for (size_t i = p->n; i-- > 0;) {
			struct plan less = *p;

			drop(&less, i);
			if (still_fails(&less)) {
				*p = less;
				smaller = true;
			} else {
				smaller |= try_plain(p, i);
			}
		}
	}
}

/* --- running --- */

static void report(const struct plan *whole, const struct buf *text)
{
	struct plan p = *whole;
	auto_buf struct buf b;

	buf_init(&b, REPORT_MAX);
	buf_printf(&b, "FAILED seed %llu: %s", (unsigned long long)p.seed, text->p);
	shrink(&p);
	buf_printf(&b, "\tshrunk to %zu of %zu steps:\n", p.n, whole->n);
	plan_print(&p, &b);
	buf_str(&b, "\twhich reports: ");
	plan_run(&p, &b);
	buf_printf(&b, "\trepeat with: model --one --first %llu\n", (unsigned long long)p.seed);
	fd_write_all(STDOUT_FILENO, b.p, b.len, NULL);
}

static void run_seed(uint64_t seed)
{
	auto_buf struct buf b;
	struct plan p;

	buf_init(&b, REPORT_MAX);
	plan_make(&p, seed);
	if (!plan_run(&p, &b)) {
		__atomic_fetch_add(&shared->failed, 1, __ATOMIC_RELAXED);
		report(&p, &b);
	}
	__atomic_fetch_add(&shared->done, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&shared->steps, (int64_t)p.n, __ATOMIC_RELAXED);
}

static void work(const struct options *o)
{
	int64_t i;

	store_mount();
	while ((i = __atomic_fetch_add(&shared->next, 1, __ATOMIC_RELAXED)) < o->runs)
		run_seed((uint64_t)(o->first + i));
}

static void start(const struct options *o)
{
	pid_t parent = getpid(), pid = fork();

	if (pid < 0)
		die("fork: %s", errno_text(errno));
	if (pid > 0)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() == parent)
		work(o);
	_exit(0);
}

static int work_all(const struct options *o)
{
	int st, bad = 0;

	for (int64_t i = 0; i < o->workers; i++)
		start(o);
	while (wait(&st) > 0) {
		if (WIFSIGNALED(st))
			fprintf(stderr, "fault: a worker ended by signal %d\n", WTERMSIG(st));
		bad += st != 0;
	}
	return bad;
}

static void show(uint64_t seed)
{
	auto_buf struct buf b;
	struct plan p;

	buf_init(&b, REPORT_MAX);
	plan_make(&p, seed);
	plan_print(&p, &b);
	fd_write_all(STDOUT_FILENO, b.p, b.len, NULL);
}

int main(int argc, char **argv)
{
	struct options o = {.runs = 10000, .first = now_real_ms() / 1000, .workers = 2};
	int64_t start = now_mono_ms();
	struct err e = ERR_INIT;
	int r = opt_parse(&usage, "model", argc - 1, argv + 1, &o, &e), bad;

	if (r < 0)
		return opt_exit("model", r, &e);
	log_threshold = LOG_NONE;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED)
		die("mmap: %s", errno_text(errno));
	if (o.one) {
		o.runs = o.workers = 1;
		show((uint64_t)o.first);
	}
	bad = work_all(&o);
	printf("%lld schedules of %lld steps in %lld s, seeds %lld to %lld: %lld failed\n",
	       (long long)shared->done, (long long)shared->steps,
	       (long long)(now_mono_ms() - start) / 1000, (long long)o.first,
	       (long long)(o.first + o.runs - 1), (long long)shared->failed);
	return shared->failed > 0 || bad;
}
