/* SPDX-License-Identifier: Apache-2.0 */
/* Reports of failures, and the counts of a scene. */
#include "fault.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"

enum { REPORT_MAX = 1 << 16 };

void count(long *n)
{
	__atomic_fetch_add(n, 1, __ATOMIC_RELAXED);
}

static void put_saying(struct buf *b, const char *what, const struct buf *said)
{
	if (said->len)
		buf_printf(b, "\t%s: %.*s%s", what, (int)said->len, said->p,
			   said->p[said->len - 1] == '\n' ? "" : "\n");
}

void report_failure(struct tally *t, const char *where, const char *reason, const struct buf *diff,
		    const struct outcome *o, const char *again)
{
	auto_buf struct buf b;

	buf_init(&b, 2 * REPORT_MAX + 2 * OUTCOME_MAX);
	buf_printf(&b, "FAILED %s: %s\n", where, reason);
	if (diff)
		buf_add(&b, diff->p, diff->len);
	if (o) {
		if (o->sig)
			buf_printf(&b, "\tended by signal %d%s\n", o->sig,
				   o->late ? " after the time limit" : "");
		put_saying(&b, "stdout", &o->out);
		put_saying(&b, "stderr", &o->err);
	}
	if (again)
		buf_printf(&b, "\trepeat with: drive %s\n", again);
	fd_write_all(STDOUT_FILENO, b.p, b.len, NULL);
	count(&t->failed);
}

void report_tally(const char *name, const struct tally *t, struct tally *sum)
{
	printf("%-20s %6ld points: %6ld survived, %6ld undone, %6ld left to the next call, %ld "
	       "failed\n",
	       name, t->points, t->survived, t->undone, t->cleaned, t->failed);
	sum->points += t->points;
	sum->failed += t->failed;
	sum->unnamed += t->unnamed;
}

/* --- points of scenes --- */

static void put_where(const struct stage *s, struct buf *b)
{
	const struct shot *x = s->shot;

	if (!x)
		buf_printf(b, "%s, undisturbed", s->sc->name);
	else
		buf_printf(b, "%s %s %s %ld (%s)", s->sc->name, verb_names[s->verb], act_name(x),
			   x->n, x->hit ? call_name(x->nr) : "not reached");
}

void stage_wrong(struct stage *s, const char *reason, const struct buf *diff)
{
	auto_free char *again = s->shot ? xasprintf("--one %s %s %s %ld", s->sc->name,
						    verb_names[s->verb], act_name(s->shot),
						    s->shot->n)
					: NULL;
	auto_buf struct buf where;

	buf_init(&where, REPORT_MAX);
	put_where(s, &where);
	report_failure(s->tally, where.p, reason, diff, &s->o, again);
}

void stage_unnamed(struct stage *s, const char *text)
{
	auto_buf struct buf b;

	buf_init(&b, REPORT_MAX);
	count(&s->tally->unnamed);
	if (!s->report_unnamed)
		return;
	put_where(s, &b);
	buf_printf(&b, " says only: %s\n", text);
	fd_write_all(STDOUT_FILENO, b.p, b.len, NULL);
}
