/* SPDX-License-Identifier: Apache-2.0 */
/* Compares the current state with the expected one. */
#include "fault.h"

#include <string.h>
#include <unistd.h>

#include "base/alloc.h"

enum { STATE_MAX = 1 << 22, REPORT_MAX = 1 << 16 };
enum { POLL_MS = 20, SETTLE_MS = 3000, STABLE_MS = 60, STABLE_LIMIT_MS = 30000 };

bool lab_becomes(const struct lab *l, const struct buf *wanted, differ_fn differ, struct buf *now,
		 struct buf *diff)
{
	for (int waited = 0;; waited += POLL_MS) {
		lab_dump(l, now);
		buf_reset(diff);
		if (!differ(wanted, now, diff))
			return true;
		if (waited >= SETTLE_MS)
			return false;
		if (waited == 0)
			vf_reset(l);
		usleep(POLL_MS * 1000);
	}
}

void lab_dump_stable(const struct lab *l, struct buf *b)
{
	auto_buf struct buf last;

	buf_init(&last, STATE_MAX);
	lab_dump(l, b);
	for (int waited = 0; waited < STABLE_LIMIT_MS; waited += STABLE_MS) {
		buf_reset(&last);
		buf_add(&last, b->p, b->len);
		usleep(STABLE_MS * 1000);
		lab_dump(l, b);
		if (!text_differs(&last, b, NULL))
			return;
	}
	die("the lab's state keeps changing");
}

/* --- stages --- */

/* Writes the label ("node", "pod") and the kind of each object except files: addresses and the
 * names of links differ between runs, the number of objects of a kind does not. */
static void put_kinds(const struct buf *state, struct buf *b)
{
	struct span rest = buf_span(state), line, side, kind;

	while (span_cut(&rest, '\n', &line)) {
		span_cut(&line, ' ', &side);
		if (span_eq(side, "other"))
			span_cut(&line, ' ', &side);
		if (span_cut(&line, ' ', &kind) && !span_eq(side, "file"))
			buf_printf(b, "%.*s %.*s\n", (int)side.n, side.p,
				   span_eq(side, "address") ? 0 : (int)kind.n, kind.p);
	}
}

static bool kinds_differ(const struct buf *was, const struct buf *is, struct buf *text)
{
	auto_buf struct buf a, b;

	buf_init(&a, STATE_MAX);
	buf_init(&b, STATE_MAX);
	put_kinds(was, &a);
	put_kinds(is, &b);
	return text_differs(&a, &b, text);
}

/*
 * The runtime deletes the pod's namespace, so after a GC only the state outside of the namespace is
 * compared, without the NICs' promiscuity, which lasts as long as the pod's macvlans.
 */
static void keep_outside(const struct buf *state, struct buf *b)
{
	static const char promiscuity[] = " 30=";
	struct span rest = buf_span(state), line;

	while (span_cut(&rest, '\n', &line)) {
		const char *p = memmem(line.p, line.n, promiscuity, sizeof(promiscuity) - 1);
		size_t before = p ? (size_t)(p - line.p) : line.n, skip = p ? 12 : 0;

		if (!span_has_prefix(line, "pod "))
			buf_printf(b, "%.*s%.*s\n", (int)before, line.p,
				   (int)(line.n - before - skip), line.p + before + skip);
	}
}

static bool outside_differs(const struct buf *was, const struct buf *is, struct buf *text)
{
	auto_buf struct buf a, b;

	buf_init(&a, STATE_MAX);
	buf_init(&b, STATE_MAX);
	keep_outside(was, &a);
	keep_outside(is, &b);
	return text_differs(&a, &b, text);
}

static bool settles(struct stage *s, const struct buf *wanted, differ_fn differ, const char *reason)
{
	auto_buf struct buf diff;

	buf_init(&diff, REPORT_MAX);
	if (lab_becomes(s->l, wanted, differ, &s->now, &diff))
		return true;
	stage_wrong(s, reason, &diff);
	return false;
}

bool stage_same(struct stage *s, const struct buf *wanted, const char *reason)
{
	return settles(s, wanted, text_differs, reason);
}

bool stage_is_attached(struct stage *s, const char *reason)
{
	return settles(s, &s->attached, kinds_differ, reason);
}

bool stage_is_collected(struct stage *s, const char *reason)
{
	return settles(s, &s->base, outside_differs, reason);
}
