/* SPDX-License-Identifier: Apache-2.0 */
/* Who has an address that several sets have: a sweep over all ranges, in the order of their first addresses. */
#include <stdlib.h>

#include "base/range.h"

struct piece {
	u128 first, last;
	size_t set;
};

struct sweep {
	struct piece *all;  /* by their first address */
	size_t n, next;	    /* next: the first that is not in the heap yet */
	struct piece *heap; /* those that have begun, the lowest set on top */
	size_t n_heap;
};

static int by_first(const void *a, const void *b)
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

static void gather(struct sweep *w, const struct ip_set *sets, size_t n)
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
	qsort(w->all, w->n, sizeof(*w->all), by_first);
}

/* The next piece that one set has; false: that was all. `at`: where the last one ended, and one more. */
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

	gather(&w, sets, n);
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
