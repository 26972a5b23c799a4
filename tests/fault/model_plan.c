/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules: all random choices, from one seed. */
#include "model.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"

const char *const op_names[] = {"add",	 "add again", "del",  "gc",   "quarantine", "release",
				"churn", "clock",     "lose", "tear", "litter",	    "cut"};

static const int errors[] = {ENOBUFS, EINTR, ENOMEM, EBUSY, ENOSPC, EIO};

/* splitmix64 */
static uint64_t next(uint64_t *s)
{
	uint64_t z = *s += 0x9e3779b97f4a7c15U;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9U;
	z = (z ^ z >> 27) * 0x94d049bb133111ebU;
	return z ^ z >> 31;
}

static uint32_t below(uint64_t *s, uint32_t n)
{
	return (uint32_t)(next(s) % n);
}

static bool once_in(uint64_t *s, uint32_t n)
{
	return below(s, n) == 0;
}

static void make_setup(struct setup *u, uint64_t *s)
{
	static const int64_t delays[] = {0, 5000, 60000, 600000};

	u->rails = 1 + below(s, RAILS_MAX);
	u->wildcard = once_in(s, 3);
	u->quarantine_ms = once_in(s, 2) ? 20000 : 600000;
	for (size_t i = 0; i < u->rails; i++) {
		u->sizes[i][0] = 1 + below(s, POOL_SIZE);
		u->sizes[i][1] = once_in(s, 2) ? 0 : 1 + below(s, 3);
		u->sizes[i][2] = once_in(s, 3) ? 1 + below(s, POOL_SIZE) : 0;
		u->reuse_delay_ms[i] = delays[below(s, ARRAY_LEN(delays))];
	}
}

static enum op make_op(uint64_t *s)
{
	static const enum op often[] = {OP_ADD,	       OP_ADD,	      OP_ADD, OP_ADD,
					OP_ADD,	       OP_DEL,	      OP_DEL, OP_DEL,
					OP_DEL,	       OP_ADD_AGAIN,  OP_GC,  OP_CLOCK,
					OP_QUARANTINE, OP_RELEASE_IP, OP_LOSE};
	static const enum op seldom[] = {OP_CHURN, OP_TEAR, OP_LITTER, OP_CUT, OP_CUT};

	return once_in(s, 12) ? seldom[below(s, ARRAY_LEN(seldom))]
			      : often[below(s, ARRAY_LEN(often))];
}

/* Returns a change of the clock: mostly a short time forward, so that reuse delays end;
 * sometimes a long time forward, or backwards. */
static int64_t make_ms(uint64_t *s)
{
	if (once_in(s, 8))
		return -(int64_t)below(s, 3600 * 1000);
	return once_in(s, 6) ? below(s, 86400 * 1000) : below(s, 30 * 1000);
}

bool op_is_call(enum op op)
{
	return op <= OP_CHURN;
}

static void make_fault(struct step *t, uint64_t *s)
{
	switch (below(s, 6)) {
	case 0: t->crash = 1 + (int)below(s, t->op == OP_CHURN ? 4000 : 60); break;
	case 1:
		t->fail = 1 + (int)below(s, t->op == OP_CHURN ? 4000 : 60);
		t->err = errors[below(s, ARRAY_LEN(errors))];
		break;
	case 2: t->full = once_in(s, 2); break;
	default: break;
	}
}

static void make_step(struct step *t, uint64_t *s)
{
	t->op = make_op(s);
	t->pick = below(s, 1000);
	t->rails = below(s, 1 << RAILS_MAX);
	t->ms = t->op == OP_CHURN ? 20 + below(s, 120) : make_ms(s);
	if (!op_is_call(t->op))
		return;
	make_fault(t, s);
	if (once_in(s, 5))
		t->with_next = 1 + (int)below(s, TOGETHER - 1);
}

void plan_make(struct plan *p, uint64_t seed)
{
	uint64_t s = seed * 0x2545f4914f6cdd1dU + 1;

	*p = (struct plan){.seed = seed};
	make_setup(&p->setup, &s);
	p->n = 6 + below(&s, STEPS_MAX_ - 6);
	for (size_t i = 0; i < p->n; i++)
		make_step(&p->steps[i], &s);
}

static void print_setup(const struct setup *u, struct buf *b)
{
	buf_printf(b, "\t%zu rails%s, quarantine %lld ms\n", u->rails,
		   u->wildcard ? ", wildcards" : "", (long long)u->quarantine_ms);
	for (size_t i = 0; i < u->rails; i++)
		buf_printf(b,
			   "\trail %zu: %zu addresses, backup %zu, IPv6 %zu, reuse delay %lld ms\n",
			   i, u->sizes[i][0], u->sizes[i][1], u->sizes[i][2],
			   (long long)u->reuse_delay_ms[i]);
}

void plan_print(const struct plan *p, struct buf *b)
{
	print_setup(&p->setup, b);
	for (size_t i = 0; i < p->n; i++) {
		const struct step *t = &p->steps[i];

		buf_printf(b, "\t%2zu %s", i, op_names[t->op]);
		if (t->op == OP_CLOCK || t->op == OP_CHURN)
			buf_printf(b, " %lld", (long long)t->ms);
		buf_printf(b, " pick %u rails %u", t->pick, t->rails);
		if (t->crash)
			buf_printf(b, ", killed at call %d", t->crash);
		if (t->fail)
			buf_printf(b, ", call %d fails with %s", t->fail, errno_text(t->err));
		if (t->full)
			buf_str(b, ", disk full");
		if (t->with_next)
			buf_printf(b, ", concurrent with the next %d", t->with_next);
		buf_char(b, '\n');
	}
}
