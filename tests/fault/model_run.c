/* SPDX-License-Identifier: Apache-2.0 */
/* Executes one schedule on store and model. */
#include "model.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "trace.h"

/* --- conversion of a step to a request --- */

static int pick_container(const struct model *m, uint32_t pick)
{
	return m->n_c ? (int)(pick % m->n_c) : -1;
}

/* Returns the index of the first address from `pick` on, cyclically, for which fits() is true;
 * m->n: there is none. */
static size_t pick_address(const struct model *m, uint32_t pick,
			   bool (*fits)(const struct model *m, const struct address *a))
{
	for (size_t i = 0; i < m->n; i++) {
		size_t k = (pick + i) % m->n;

		if (fits(m, &m->a[k]))
			return k;
	}
	return m->n;
}

static bool is_used(const struct model *m, const struct address *a)
{
	(void)m;
	return a->state == M_USED;
}

/* Returns whether an administrator may release the address: it is not free, and no running pod
 * has it. */
static bool is_stale(const struct model *m, const struct address *a)
{
	if (a->state == M_USED)
		return !m->c[a->owner].live;
	return a->state == M_RETAINED || a->state == M_QUARANTINED;
}

static uint32_t rails_of(const struct running *x, uint32_t request)
{
	uint32_t all = (1U << x->plan->setup.rails) - 1;

	return request & all ? request & all : all;
}

/* Adds a container. Two containers of one pod name do not run at the same time, so the former
 * container of the name ends. -1: there are CONTAINERS_MAX containers. */
static int new_container(struct running *x, const struct step *t)
{
	struct model *m = &x->m;
	struct container *c = &m->c[m->n_c];

	if (m->n_c == CONTAINERS_MAX)
		return -1;
	*c = (struct container){.name = (int)(t->pick % NAMES), .rails = rails_of(x, t->rails)};
	snprintf(c->id, sizeof(c->id), "container-%zu", m->n_c);
	for (size_t i = 0; i < m->n_c; i++)
		if (m->c[i].name == c->name)
			m->c[i].live = false;
	return (int)m->n_c++;
}

/* False: there is no suitable container or address for this step. */
static bool make_request(struct running *x, const struct step *t, struct request *r)
{
	struct model *m = &x->m;

	*r = (struct request){.op = t->op, .container = -1, .rounds = t->ms};
	switch (t->op) {
	case OP_ADD: r->container = new_container(x, t); break;
	case OP_ADD_AGAIN:
		r->container = pick_container(m, t->pick);
		if (r->container >= 0 && !m->c[r->container].live)
			return false;
		break;
	case OP_DEL:
		r->container = pick_container(m, t->pick);
		r->rails = t->pick % 3 ? 0 : rails_of(x, t->rails);
		return r->container >= 0;
	case OP_GC:
		for (size_t i = 0; i < m->n_c; i++)
			r->valid[i] = m->c[i].live;
		return true;
	case OP_QUARANTINE: r->addr = pick_address(m, t->pick, is_used); return r->addr < m->n;
	case OP_RELEASE_IP: r->addr = pick_address(m, t->pick, is_stale); return r->addr < m->n;
	default: return true;
	}
	if (r->container >= 0)
		r->rails = m->c[r->container].rails;
	return r->container >= 0;
}

/* --- execution --- */

static void start(struct running *x, struct doing *d)
{
	*d->a = (struct answer){0};
	d->pid = fork();
	if (d->pid < 0)
		die("fork: %s", errno_text(errno));
	if (d->pid > 0)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	close(STDERR_FILENO); /* a failing allocation would print "out of memory" */
	if (d->step->crash || d->step->fail) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		raise(SIGSTOP);
	}
	store_do(&x->m, &d->r, d->a);
	_exit(0);
}

static bool finish(struct doing *d)
{
	struct shot s = {.act = d->step->crash ? ACT_KILL : ACT_FAIL,
			 .n = d->step->crash ? d->step->crash : d->step->fail,
			 .err = d->step->err,
			 .no_memory = true};
	struct outcome o;
	int st = 0;

	outcome_init(&o);
	if (d->step->crash || d->step->fail)
		st = trace_child(d->pid, &s, &o);
	else if (waitpid(d->pid, &st, 0) < 0)
		die("waitpid: %s", errno_text(errno));
	d->pid = 0;
	outcome_done(&o);
	/* A child may be killed by this process, or exit with an error after this process made
	 * one of the child's calls fail. */
	if (WIFSIGNALED(st))
		return s.act == ACT_KILL && WTERMSIG(st) == SIGKILL;
	return WEXITSTATUS(st) == 0 || s.act == ACT_FAIL;
}

static bool carry_out(struct running *x, struct doing *d, size_t n)
{
	bool ok = true;

	if (n == 1 && !d->step->crash && !d->step->fail) {
		*d->a = (struct answer){0};
		store_do(&x->m, &d->r, d->a);
		return true;
	}
	for (size_t i = 0; i < n; i++)
		start(x, &d[i]);
	for (size_t i = 0; i < n; i++)
		ok &= finish(&d[i]);
	return ok;
}

/* --- steps --- */

static void do_event(struct running *x, const struct step *t)
{
	int container;

	switch (t->op) {
	case OP_CLOCK:
		x->m.now += t->ms;
		x->m.turned_back |= t->ms < 0;
		store_clock = x->m.now;
		break;
	case OP_LOSE:
		container = pick_container(&x->m, t->pick);
		if (container >= 0)
			x->m.c[container].live = false;
		break;
	case OP_TEAR: store_tear(t->pick); break;
	case OP_LITTER: store_litter(); break;
	default: break;
	}
}

/* Damages the journal, then restores it. The store must refuse the damaged journal, or its state
 * must equal the model. */
static bool cut_is_noticed(struct running *x, size_t at, const struct step *t)
{
	auto_free char *was = NULL;
	auto_buf struct buf reason;
	struct doing d;
	bool ok = true;
	size_t n = 0;
	int r;

	buf_init(&reason, 4096);
	/* After a kill the anchor may lag behind the journal, and a loss of the lines after the
	 * anchor would not be detected. So the store is opened first, which updates the anchor. */
	if (store_opens(&reason) < 0)
		return plan_fails(x, at, reason.p);
	if (!store_spoil(t->pick, &was, &n))
		return true;
	r = store_opens(&reason);
	if (r == 0)
		ok = doing_explained(x, at, &d, 0);
	else if (r != -EBADMSG && r != -EPROTO)
		ok = plan_fails(x, at, reason.p);
	store_mend(was, n);
	return ok && doing_explained(x, at, &d, 0);
}

/* Converts step `at` and the steps that run concurrently with it to *n requests; returns the
 * number of these steps. A step for which there is no suitable container or address gets no
 * request. */
static size_t collect(struct running *x, size_t at, struct doing *d, size_t *n)
{
	const struct plan *p = x->plan;
	size_t used = 0, wanted = 1 + (size_t)p->steps[at].with_next;

	*n = 0;
	for (; used < wanted && at + used < p->n; used++) {
		const struct step *t = &p->steps[at + used];

		/*
		 * No other step runs at the same time as a churn, whose rounds are several changes:
		 * explain() orders whole steps only.
		 */
		if (used &&
		    (!op_is_call(t->op) || t->op == OP_CHURN || p->steps[at].op == OP_CHURN))
			break;
		d[*n] = (struct doing){.step = t, .a = &x->answers[*n]};
		if (make_request(x, t, &d[*n].r))
			++*n;
	}
	return used;
}

static bool run_steps(struct running *x, size_t at, size_t *used)
{
	struct doing d[TOGETHER];
	bool full = false, ok;
	size_t n;

	*used = 1;
	if (x->plan->steps[at].op == OP_CUT)
		return cut_is_noticed(x, at, &x->plan->steps[at]);
	if (!op_is_call(x->plan->steps[at].op)) {
		do_event(x, &x->plan->steps[at]);
		return doing_explained(x, at, d, 0);
	}
	*used = collect(x, at, d, &n);
	for (size_t i = 0; i < n; i++)
		full |= d[i].step->full;
	for (size_t i = 0; i < n; i++)
		d[i].troubled = full || d[i].step->fail;
	store_fill(full);
	ok = n == 0 || carry_out(x, d, n);
	store_fill(false);
	if (!ok)
		return plan_fails(x, at,
				  "a process was killed by a signal that was not planned, or "
				  "failed although a kill was planned");
	return doing_explained(x, at, d, n);
}

/*
 * Ends all containers, runs GC and sets the clock 30 days ahead, so that all delays are over: every
 * address except the retained ones can be allocated again.
 */
static bool wind_up(struct running *x)
{
	struct step t = {.op = OP_GC};
	struct doing d = {.step = &t, .a = &x->answers[0]};

	for (size_t i = 0; i < x->m.n_c; i++)
		x->m.c[i].live = false;
	make_request(x, &t, &d.r);
	carry_out(x, &d, 1);
	if (d.a->code < 0)
		return plan_fails(x, x->plan->n - 1, d.a->text);
	if (!doing_explained(x, x->plan->n - 1, &d, 1))
		return false;
	x->m.now += (int64_t)30 * 86400 * 1000;
	store_clock = x->m.now;
	if (!doing_explained(x, x->plan->n - 1, &d, 0))
		return false;
	for (size_t i = 0; i < x->m.n; i++)
		if (x->m.a[i].state == M_USED)
			return plan_fails(
				x, x->plan->n - 1,
				"an address is still in use after GC released all containers");
	return true;
}

bool plan_run(const struct plan *p, struct buf *b)
{
	static struct answer *answers;
	struct running x = {.plan = p, .b = b};
	size_t used = 0;

	if (!answers)
		answers = mmap(NULL, TOGETHER * sizeof(*answers), PROT_READ | PROT_WRITE,
			       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (answers == MAP_FAILED)
		die("mmap: %s", errno_text(errno));
	x.answers = answers;
	model_init(&x.m, &p->setup);
	store_create(&x.m);
	for (size_t i = 0; i < p->n; i += used)
		if (!run_steps(&x, i, &used))
			return false;
	return wind_up(&x);
}
