/* SPDX-License-Identifier: Apache-2.0 */
#include "base/ipset.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "base/sorted.h"

enum { QUOTE_MAX = 100 }; /* maximum number of bytes of the user's text in an error */

/* Returns how many bytes of the text an error quotes. */
static int quoted(struct span s)
{
	return (int)(s.n < QUOTE_MAX ? s.n : QUOTE_MAX);
}

static int refuse(struct span s, struct err *e, const char *reason)
{
	return err_kind(e, ERR_CONF, -EINVAL, "'%.*s' %s", quoted(s), s.p, reason);
}

static bool has_blank(struct span s)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] == ' ' || s.p[i] == '\t')
			return true;
	return false;
}

/* Returns whether the text is like "10.0.0.256": four decimal groups, of which at least one
 * exceeds 255. This is the most frequent typing error. */
static bool is_octet_slip(struct span s)
{
	struct span part;
	int groups = 0;
	bool past = false;
	uint64_t v;

	for (; span_cut(&s, '.', &part); groups++) {
		if (num_u64(part, 0, UINT32_MAX, &v) < 0)
			return false;
		past |= v > 255;
	}
	return groups == 4 && past;
}

/* Writes the user's text with each number above 255 replaced: the last number of an address by 254,
 * any other by 255. */
static void mend_octets(struct span whole, struct buf *b)
{
	for (size_t i = 0; i < whole.n;) {
		struct span group = {whole.p + i, 0};
		uint64_t v;

		while (i + group.n < whole.n && whole.p[i + group.n] >= '0' &&
		       whole.p[i + group.n] <= '9')
			group.n++;
		i += group.n;
		if (num_u64(group, 256, UINT32_MAX, &v) == 0)
			buf_str(b, i < whole.n && whole.p[i] == '.' ? "255" : "254");
		else
			buf_add(b, group.p, group.n);
		if (i < whole.n)
			buf_char(b, whole.p[i++]);
	}
}

static int octet_slip(struct span whole, struct err *e)
{
	auto_buf struct buf reason;

	buf_init(&reason, 2 * QUOTE_MAX);
	buf_str(&reason, "has an octet above 255: did you mean '");
	mend_octets(whole, &reason);
	buf_str(&reason, "'?");
	return refuse(whole, e, reason.p);
}

static int parse_end(struct span whole, struct span s, uint8_t family, struct ipaddr *ret,
		     struct err *e)
{
	bool colon = s.n > 0 && memchr(s.p, ':', s.n);
	struct ipaddr a;

	if (s.n > 0 && memchr(s.p, '/', s.n))
		return refuse(whole, e, "is a CIDR, expected 'ADDRESS' or 'FIRST-LAST'");
	if (is_octet_slip(s))
		return octet_slip(whole, e);
	if (ip_parse(s, &a) < 0)
		return refuse(whole, e, "is not an address, expected 'ADDRESS' or 'FIRST-LAST'");
	/* an IPv4-mapped address (::ffff:10.0.0.1) is refused for both families: Go's To4 makes
	 * it IPv4, its text is IPv6 */
	if (a.family != family || colon != (family == 6))
		return err_kind(e, ERR_CONF, -EAFNOSUPPORT,
				"'%.*s' is not IPv%u, the expected address family", quoted(whole),
				whole.p, family);
	*ret = a;
	return 0;
}

int ip_range_parse(struct span s, uint8_t family, struct ip_range *ret, struct err *e)
{
	struct span rest = s, first;
	struct ip_range r;
	int n;

	if (span_trim(s).n == 0 || !span_cut(&rest, '-', &first))
		return refuse(s, e, "is empty, expected 'ADDRESS' or 'FIRST-LAST'");
	first = span_trim(first);
	if (rest.p)
		rest = span_trim(rest);
	if (has_blank(first) || (rest.p && has_blank(rest)))
		return refuse(s, e, "has a blank in an address, expected 'FIRST-LAST'");
	n = parse_end(s, first, family, &r.first, e);
	if (n < 0)
		return n;
	r.last = r.first;
	if (rest.p) {
		n = parse_end(s, rest, family, &r.last, e);
		if (n < 0)
			return n;
	}
	if (ip_cmp(&r.first, &r.last) > 0)
		return refuse(s, e, "is reversed: put the lower address first");
	*ret = r;
	return 0;
}

/* Returns whether the two intervals overlap or are adjacent (b begins at most one after the end
 * of a): they become one interval. */
static bool joins(const struct ip_range *a, const struct ip_range *b)
{
	struct ipaddr next;

	if (ip_cmp(&b->first, &a->last) <= 0)
		return true;
	return ip_add(&a->last, 1, &next) && ip_eq(&next, &b->first);
}

/* Returns the index of the first interval that ends at *a or after; s->n: there is none. */
static size_t at_or_after(const struct ip_set *s, const struct ipaddr *a)
{
	return LOWER_BOUND(i, s->n, ip_cmp(&s->v[i].last, a) < 0);
}

/* Like at_or_after(), from interval `from` on: the cost is the logarithm of the distance. */
static size_t skip_to(const struct ip_set *s, size_t from, const struct ipaddr *a)
{
	struct ip_set part = {.v = s->v ? s->v + from : NULL, .n = s->n - from};
	size_t reach = 1;

	while (reach < part.n && ip_cmp(&part.v[reach - 1].last, a) < 0)
		reach *= 2;
	part.n = reach < part.n ? reach : part.n;
	return from + at_or_after(&part, a);
}

void ip_set_add(struct ip_set *s, const struct ip_range *r)
{
	struct ip_range merged = *r;
	size_t from = at_or_after(s, &r->first), to;

	s->family = r->first.family;
	if (from > 0 && joins(&s->v[from - 1], &merged))
		from--;
	for (to = from; to < s->n && joins(&merged, &s->v[to]); to++) {
		if (ip_cmp(&s->v[to].first, &merged.first) < 0)
			merged.first = s->v[to].first;
		if (ip_cmp(&s->v[to].last, &merged.last) > 0)
			merged.last = s->v[to].last;
	}
	if (to == from) {
		s->v = vec_grow(s->v, s->n, sizeof(*s->v));
		memmove(&s->v[from + 1], &s->v[from], (s->n - from) * sizeof(*s->v));
		s->n++;
	} else {
		memmove(&s->v[from + 1], &s->v[to], (s->n - to) * sizeof(*s->v));
		s->n -= to - from - 1;
	}
	s->v[from] = merged;
}

void ip_set_collect(struct ip_set *s, const struct ip_range *r)
{
	s->family = r->first.family;
	VEC_PUSH(s->v, s->n) = *r;
}

static int by_first(const void *a, const void *b)
{
	const struct ip_range *x = a, *y = b;

	return ip_cmp(&x->first, &y->first);
}

/* A list that is already sorted, as most are, is not sorted again. */
static bool is_sorted(const struct ip_set *s)
{
	for (size_t i = 1; i < s->n; i++)
		if (by_first(&s->v[i - 1], &s->v[i]) > 0)
			return false;
	return true;
}

void ip_set_merge(struct ip_set *s)
{
	size_t n = 0;

	if (!is_sorted(s))
		qsort(s->v, s->n, sizeof(*s->v), by_first);
	for (size_t i = 0; i < s->n; i++) {
		struct ip_range *last = n ? &s->v[n - 1] : NULL;

		if (!last || !joins(last, &s->v[i]))
			s->v[n++] = s->v[i];
		else if (ip_cmp(&s->v[i].last, &last->last) > 0)
			last->last = s->v[i].last;
	}
	s->n = n;
}

/* Both sets are sorted, so they are merged without sorting. */
void ip_set_plus(struct ip_set *s, const struct ip_set *more)
{
	struct ip_set both = {.family = s->n ? s->family : more->family};
	size_t i = 0, j = 0;

	if (more->n == 0)
		return;
	while (i < s->n || j < more->n) {
		bool own = j == more->n || (i < s->n && by_first(&s->v[i], &more->v[j]) <= 0);

		VEC_PUSH(both.v, both.n) = own ? s->v[i++] : more->v[j++];
	}
	ip_set_done(s);
	*s = both;
	ip_set_merge(s);
}

static struct ipaddr step(const struct ipaddr *a, int by)
{
	return ip_from_num(a->family, by < 0 ? ip_num(a) - 1 : ip_num(a) + 1);
}

void ip_set_subtract(struct ip_set *s, const struct ip_range *r)
{
	struct ip_range *old = s->v;
	size_t n = s->n;

	s->v = NULL;
	s->n = 0;
	for (size_t i = 0; i < n; i++) {
		const struct ip_range *o = &old[i];

		if (ip_cmp(&o->last, &r->first) < 0 || ip_cmp(&o->first, &r->last) > 0) {
			VEC_PUSH(s->v, s->n) = *o;
			continue;
		}
		if (ip_cmp(&o->first, &r->first) < 0)
			VEC_PUSH(s->v, s->n) = (struct ip_range){o->first, step(&r->first, -1)};
		if (ip_cmp(&o->last, &r->last) > 0)
			VEC_PUSH(s->v, s->n) = (struct ip_range){step(&r->last, 1), o->last};
	}
	free(old);
}

void ip_set_minus(struct ip_set *s, const struct ip_set *out)
{
	struct ip_set left = {.family = s->family};

	/* skips the intervals of `out` that end before s begins: to read all of a long `out` for a
	 * short s would cost too much */
	for (size_t i = 0, j = s->n ? at_or_after(out, &s->v[0].first) : 0; i < s->n; i++) {
		struct ip_range r = s->v[i];
		bool more = true;

		j = skip_to(out, j, &r.first);
		for (size_t k = j; more && k < out->n && ip_cmp(&out->v[k].first, &r.last) <= 0;
		     k++) {
			const struct ip_range *o = &out->v[k];

			if (ip_cmp(&r.first, &o->first) < 0)
				VEC_PUSH(left.v, left.n) =
					(struct ip_range){r.first, step(&o->first, -1)};
			more = ip_cmp(&o->last, &r.last) < 0;
			if (more)
				r.first = step(&o->last, 1);
		}
		if (more)
			VEC_PUSH(left.v, left.n) = r;
	}
	ip_set_done(s);
	*s = left;
}

bool ip_set_has(const struct ip_set *s, const struct ipaddr *a)
{
	size_t i = at_or_after(s, a);

	return i < s->n && a->family == s->v[i].first.family && ip_cmp(&s->v[i].first, a) <= 0;
}

bool ip_set_meets(const struct ip_set *a, const struct ip_set *b, struct ipaddr *ret)
{
	for (size_t i = 0, j = 0; i < a->n && j < b->n;) {
		const struct ip_range *x = &a->v[i], *y = &b->v[j];
		const struct ipaddr *first = ip_cmp(&x->first, &y->first) > 0 ? &x->first
									      : &y->first;

		if (ip_cmp(first, &x->last) <= 0 && ip_cmp(first, &y->last) <= 0) {
			*ret = *first;
			return true;
		}
		if (ip_cmp(&x->last, &y->last) < 0)
			i = skip_to(a, i + 1, &y->first);
		else
			j = skip_to(b, j + 1, &x->first);
	}
	return false;
}

u128 ip_set_count(const struct ip_set *s)
{
	u128 sum = 0;

	for (size_t i = 0; i < s->n; i++) {
		u128 width = ip_num(&s->v[i].last) - ip_num(&s->v[i].first);

		if (width >= UINT64_MAX || sum + width + 1 >= UINT64_MAX)
			return UINT64_MAX;
		sum += width + 1;
	}
	return sum;
}

bool ip_set_next(const struct ip_set *s, const struct ipaddr *from, struct ipaddr *ret)
{
	size_t i = from ? at_or_after(s, from) : 0;

	if (i >= s->n)
		return false;
	*ret = from && ip_cmp(from, &s->v[i].first) > 0 ? *from : s->v[i].first;
	return true;
}

void ip_set_done(struct ip_set *s)
{
	free(s->v);
	*s = (struct ip_set){0};
}

void ip_set_str(const struct ip_set *s, struct buf *b)
{
	char first[IP_TEXT_MAX], last[IP_TEXT_MAX];

	for (size_t i = 0; i < s->n; i++) {
		const struct ip_range *r = &s->v[i];

		buf_printf(b, "%s%s", i ? ", " : "", ip_str(&r->first, first));
		if (!ip_eq(&r->first, &r->last))
			buf_printf(b, "-%s", ip_str(&r->last, last));
	}
}

/* ip_sets_part() decides which set keeps an address that several sets have. It sweeps over the
 * ranges of all sets in the order of their first addresses. */

struct piece {
	u128 first, last;
	size_t set;
};

struct sweep {
	struct piece *all; /* sorted by first address */
	size_t n, next;	   /* next: index of the first piece that is not in the heap yet */
	/* pieces that begin at or before the current address; on top: that of the set with the
	 * lowest index */
	struct piece *heap;
	size_t n_heap;
};

static int range_part_by_first(const void *a, const void *b)
{
	const struct piece *x = a, *y = b;

	return x->first < y->first ? -1 : x->first > y->first;
}

static void push(struct sweep *w, const struct piece *p)
{
	size_t i = w->n_heap++;

	for (; i > 0 && w->heap[(i - 1) / 2].set > p->set; i = (i - 1) / 2)
		w->heap[i] = w->heap[(i - 1) / 2];
	w->heap[i] = *p;
}

static void pop(struct sweep *w)
{
	struct piece p = w->heap[--w->n_heap];
	size_t i = 0, child;

	for (; (child = 2 * i + 1) < w->n_heap; i = child) {
		child += child + 1 < w->n_heap && w->heap[child + 1].set < w->heap[child].set;
		if (w->heap[child].set >= p.set)
			break;
		w->heap[i] = w->heap[child];
	}
	w->heap[i] = p;
}

static void collect(struct sweep *w, const struct ip_set *sets, size_t n)
{
	for (size_t i = 0; i < n; i++)
		w->n += sets[i].n;
	w->all = xcalloc(w->n + 1, sizeof(*w->all));
	w->heap = xcalloc(w->n + 1, sizeof(*w->heap));
	w->n = 0;
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < sets[i].n; k++)
			w->all[w->n++] = (struct piece){ip_num(&sets[i].v[k].first),
							ip_num(&sets[i].v[k].last), i};
	qsort(w->all, w->n, sizeof(*w->all), range_part_by_first);
}

/* Sets *ret to the next piece and the set that keeps it; returns false if there are no more.
 * `at`: the address after the end of the previous piece. */
static bool next_piece(struct sweep *w, u128 at, struct piece *ret)
{
	while (w->n_heap > 0 && w->heap[0].last < at)
		pop(w);
	if (w->n_heap == 0) {
		if (w->next == w->n)
			return false;
		at = w->all[w->next].first;
	}
	while (w->next < w->n && w->all[w->next].first <= at)
		push(w, &w->all[w->next++]);
	*ret = (struct piece){at, w->heap[0].last, w->heap[0].set};
	if (w->next < w->n && w->all[w->next].first <= ret->last)
		ret->last = w->all[w->next].first - 1;
	return true;
}

void ip_sets_part(struct ip_set *sets, size_t n)
{
	uint8_t family = 0;
	struct sweep w = {0};
	struct piece p;
	bool more;

	collect(&w, sets, n);
	for (size_t i = 0; i < n; i++) {
		family = sets[i].n ? sets[i].family : family;
		sets[i].n = 0;
	}
	for (more = next_piece(&w, 0, &p); more;
	     more = p.last + 1 && next_piece(&w, p.last + 1, &p))
		ip_set_collect(&sets[p.set], &(struct ip_range){ip_from_num(family, p.first),
								ip_from_num(family, p.last)});
	for (size_t i = 0; i < n; i++)
		ip_set_merge(&sets[i]);
	free(w.all);
	free(w.heap);
}

void ip_set_copy(const struct ip_set *s, struct ip_set *ret)
{
	*ret = (struct ip_set){.family = s->family};
	for (size_t i = 0; i < s->n; i++)
		VEC_PUSH(ret->v, ret->n) = s->v[i];
}

/* computed as a - (a - b) */
void ip_set_intersect(const struct ip_set *a, const struct ip_set *b, struct ip_set *ret)
{
	struct ip_set rest;

	ip_set_copy(a, &rest);
	ip_set_minus(&rest, b);
	ip_set_copy(a, ret);
	ip_set_minus(ret, &rest);
	ip_set_done(&rest);
}
