/* SPDX-License-Identifier: Apache-2.0 */
/* drive: runs each scene (a scene with `vf` only if --scene names it) several times for each of
 * its system calls: in one run the process is killed at the call, and in each of the other runs
 * the call fails, with a different errno in each. One such run is a point. Each worker has its
 * own lab and takes the next point from a shared counter. */
#include "fault.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/loop.h"
#include "base/num.h"
#include "base/option.h"

enum { SCENES_MAX = 64, WORKERS_MAX = 16, NICS = 3 };
enum { EIGHT_RAILS = SCENES_MAX - 1 }; /* index of the counters of rails_run() */
enum {
	DONE = 0,
	SPOILT = 4,
	RAILS_SPOILT = 5
	/* exit status of a worker. SPOILT (it ran points of scenes) and RAILS_SPOILT (it ran
	 * trials with eight rails): the worker's lab has leftovers and is not usable for further
	 * points */
};

struct options {
	const char *binary, *scene;
	int64_t workers, every;
	bool quick, kills, one, list, rails, names;
};

#define AT(field) offsetof(struct options, field)
static const struct opt opts[] = {
	{"binary", 0, OPT_STR, "FILE", "the binary under test; build/unirail if not given",
	 AT(binary), 0, 0},
	{"quick", 0, OPT_FLAG, NULL, "fewer points", AT(quick), 0, 0},
	{"kills", 0, OPT_FLAG, NULL, "only the points that kill the binary, all of them", AT(kills),
	 0, 0},
	{"scene", 0, OPT_STR, "NAME", "this scene only", AT(scene), 0, 0},
	{"workers", 'j', OPT_INT, "N", "points tested at a time; 4 if not given", AT(workers), 1,
	 WORKERS_MAX},
	{"every", 0, OPT_INT, "N", "every N-th point only", AT(every), 1, 1000000},
	{"one", 0, OPT_FLAG, NULL, "only the point that the operands name", AT(one), 0, 0},
	{"rails", 0, OPT_FLAG, NULL, "only the trials with eight rails of which one fails",
	 AT(rails), 0, 0},
	{"names", 0, OPT_FLAG, NULL, "print the error texts that do not name the errno", AT(names),
	 0, 0},
	{"list", 0, OPT_FLAG, NULL, "count the calls of each scene", AT(list), 0, 0},
	{0},
};
static const struct cmd usage = {NULL,
				 "[SCENE add|del|gc|lost|run kill|ERRNO N] | [rails MISHAP RAIL N]",
				 "kill the binary at each system call, and make each call fail",
				 opts,
				 0,
				 4};

/* --- state shared by the workers --- */

static struct shared {
	struct tally tallies[SCENES_MAX];
	struct job_counts counts[SCENES_MAX];
	long next, next_rails;
} * shared;

static void share(void)
{
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED)
		die("mmap: %s", errno_text(errno));
}

static bool is_chosen(const struct options *o, const struct scene *sc)
{
	return !o->rails && (o->scene ? strcmp(o->scene, sc->name) == 0 : !sc->vf);
}

/* --- processes: namespaces and mounts end with the process that created them --- */

typedef int (*work_fn)(const struct options *o);

static size_t nics_of(const struct options *o)
{
	return o->scene && scene_find(o->scene)->first ? 0 : NICS;
}

static pid_t start(const struct options *o, work_fn fn)
{
	pid_t parent = getpid(), pid = fork();

	if (pid < 0)
		die("fork: %s", errno_text(errno));
	if (pid > 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	_exit(getppid() == parent ? fn(o) : 1);
}

static int count_calls(const struct options *o)
{
	struct lab l;

	lab_open(&l, o->binary, nics_of(o));
	for (size_t i = 0; scenes[i].name; i++) {
		struct stage s;

		if (!is_chosen(o, &scenes[i]))
			continue;
		stage_open(&s, &l, &scenes[i], &shared->tallies[i]);
		job_counts_take(&shared->counts[i], &s);
		stage_close(&s);
	}
	return DONE;
}

static bool is_wanted(const struct options *o, long j, const struct job *job)
{
	if (o->kills)
		return job_is_kill(job);
	return o->quick ? job_is_quick(job) : j % o->every == 0;
}

/* A worker: runs jobs until none is left (DONE) or its lab is no longer usable (SPOILT). After
 * SPOILT the parent starts another worker. */
static int do_points(const struct options *o)
{
	struct stage s;
	struct job job;
	struct lab l;
	long open = -1, j;

	lab_open(&l, o->binary, nics_of(o));
	while (job_find(shared->counts, j = __atomic_fetch_add(&shared->next, 1, __ATOMIC_RELAXED),
			&job)) {
		if (!is_wanted(o, j, &job))
			continue;
		if (open != (long)job.scene) {
			if (open >= 0)
				stage_close(&s);
			open = (long)job.scene;
			stage_open(&s, &l, &scenes[open], &shared->tallies[open]);
			s.report_unnamed = o->names;
		}
		job_do(&s, &job, &shared->counts[open]);
		if (s.dirty)
			return SPOILT;
	}
	return DONE;
}

static int do_rails(const struct options *o)
{
	struct tally *t = &shared->tallies[EIGHT_RAILS];
	struct lab l;
	long j;

	lab_open(&l, o->binary, RAILS_NICS);
	while ((j = __atomic_fetch_add(&shared->next_rails, 1, __ATOMIC_RELAXED)) < rails_jobs())
		if (!rails_run(&l, t, j, o->quick))
			return RAILS_SPOILT;
	return DONE;
}

/* Handles the end of a worker: if the lab of the ended worker is not usable for further points,
 * starts another worker. False: the ended worker failed. */
static bool has_ended(const struct options *o, int st)
{
	if (WIFSIGNALED(st))
		fprintf(stderr, "fault: a worker ended by signal %d\n", WTERMSIG(st));
	if (!WIFEXITED(st))
		return false;
	if (WEXITSTATUS(st) == SPOILT)
		start(o, do_points);
	else if (WEXITSTATUS(st) == RAILS_SPOILT)
		start(o, do_rails);
	else
		return WEXITSTATUS(st) == DONE;
	return true;
}

/* --- progress, on a terminal --- */

static void ring(int sig)
{
	(void)sig;
}

static void begin_progress(void)
{
	struct sigaction sa = {.sa_handler = ring}; /* the signal interrupts wait() */
	struct itimerval second = {{1, 0}, {1, 0}};

	if (!isatty(STDERR_FILENO))
		return;
	sigaction(SIGALRM, &sa, NULL);
	setitimer(ITIMER_REAL, &second, NULL);
}

static void show_progress(void)
{
	long all = jobs_total(shared->counts), done = shared->next;

	fprintf(stderr, "\r%ld of %ld points, %ld of %ld trials with eight rails \r",
		done < all ? done : all, all, shared->next_rails, rails_jobs());
}

static bool work_all(const struct options *o)
{
	bool good = true;
	int st;

	begin_progress();
	if (!o->scene)
		start(o, do_rails);
	for (int64_t i = 0; i < o->workers && !o->rails; i++)
		start(o, do_points);
	for (;;) {
		if (wait(&st) > 0)
			good &= has_ended(o, st);
		else if (errno == EINTR)
			show_progress();
		else
			return good;
	}
}

static bool work_alone(const struct options *o, work_fn fn)
{
	pid_t pid = start(o, fn);
	int st;

	return waitpid(pid, &st, 0) == pid && WIFEXITED(st) && WEXITSTATUS(st) == DONE;
}

/* --- reports --- */

static void report_counts(const struct options *o)
{
	for (size_t i = 0; scenes[i].name; i++) {
		const long *n = shared->counts[i].calls;

		if (!is_chosen(o, &scenes[i]))
			continue;
		printf("%-20s", scenes[i].name);
		if (n[V_COMMAND])
			printf(" run %ld\n", n[V_COMMAND]);
		else
			printf(" add %ld, del %ld, gc %ld\n", n[V_ADD], n[V_DEL], n[V_GC]);
	}
}

/* True: no point failed. */
static bool report(const struct options *o, int64_t ms)
{
	struct tally sum = {0};

	for (size_t i = 0; scenes[i].name; i++)
		if (is_chosen(o, &scenes[i]))
			report_tally(scenes[i].name, &shared->tallies[i], &sum);
	if (!o->scene)
		report_tally("eight rails", &shared->tallies[EIGHT_RAILS], &sum);
	printf("%ld points in %lld s, %ld failed; %ld error texts do not name the errno\n",
	       sum.points, (long long)ms / 1000, sum.failed, sum.unnamed);
	return sum.failed == 0;
}

/* --- a single point --- */

static struct {
	struct shot shot;
	enum verb verb;
	long rails; /* number of a job of rails_run(); -1: the point belongs to a scene */
} one = {.rails = -1};

static int do_one(const struct options *o)
{
	const struct scene *sc = scene_find(o->scene);
	struct stage s;
	struct lab l;

	lab_open(&l, o->binary, nics_of(o));
	stage_open(&s, &l, sc, &shared->tallies[sc - scenes]);
	s.report_unnamed = true;
	job_do_one(&s, one.verb, &one.shot);
	printf("%s\n%.*s%.*s", one.shot.hit ? call_name(one.shot.nr) : "not reached",
	       (int)s.o.out.len, s.o.out.p, (int)s.o.err.len, s.o.err.p);
	fflush(stdout);
	if (!s.dirty)
		stage_close(&s);
	return DONE;
}

static int do_one_of_rails(const struct options *o)
{
	struct lab l;

	lab_open(&l, o->binary, RAILS_NICS);
	rails_run_one(&l, &shared->tallies[EIGHT_RAILS], one.rails, one.shot.n);
	return DONE;
}

static int read_one(struct options *o, int n, char **args)
{
	int64_t call;

	if (n != 4 || num_i64(span_of(args[3]), 1, 1000000, &call) < 0)
		return -EINVAL;
	one.shot.n = call;
	if (strcmp(args[0], "rails") == 0) {
		o->rails = true;
		one.rails = rails_find(args[1], args[2]);
		return one.rails < 0 ? -EINVAL : 0;
	}
	o->scene = args[0];
	if (!scene_find(args[0]) || verb_parse(args[1], &one.verb) < 0)
		return -EINVAL;
	return act_parse(args[2], &one.shot);
}

static bool run_all(const struct options *o)
{
	if (!o->rails && !work_alone(o, count_calls))
		return false;
	report_counts(o);
	return o->list || work_all(o);
}

int main(int argc, char **argv)
{
	struct options o = {.binary = "build/unirail", .workers = 4, .every = 1};
	int64_t start_ms = now_mono_ms();
	struct err e = ERR_INIT;
	bool good;
	int r;

	setvbuf(stdout, NULL, _IOLBF, 0);
	r = opt_parse(&usage, "drive", argc - 1, argv + 1, &o, &e);
	if (r >= 0 && o.one && read_one(&o, argc - 1 - r, argv + 1 + r) < 0)
		r = err_set(&e, -EINVAL, "--one needs %s", usage.args);
	if (r >= 0 && o.scene && !scene_find(o.scene))
		r = err_set(&e, -EINVAL, "no scene '%s'", o.scene);
	if (r < 0)
		return opt_exit("drive", r, &e);
	share();
	if (o.one)
		good = work_alone(&o, one.rails < 0 ? do_one : do_one_of_rails);
	else
		good = run_all(&o);
	if (!o.list)
		good &= report(&o, now_mono_ms() - start_ms);
	return !good;
}
