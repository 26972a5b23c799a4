/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_BASE_SORTED_H
#define UNIRAIL_BASE_SORTED_H

#include <stddef.h>

/*
 * The position of the first element of a sorted list that is not before the key; `n` if all
 * elements are before the key. A new element with that key is inserted at this position. `before`
 * is an expression with `i`: true if the element at position `i` is before the key. Costs log n
 * comparisons.
 *
 *	size_t at = LOWER_BOUND(i, t->n, strcmp(t->v[i].name, name) < 0);
 *	bool found = at < t->n && strcmp(t->v[at].name, name) == 0;
 */
#define LOWER_BOUND(i, n, before)                                                                  \
	({                                                                                         \
		size_t low_ = 0, high_ = (n);                                                      \
                                                                                                   \
		while (low_ < high_) {                                                             \
			size_t i = low_ + (high_ - low_) / 2;                                      \
                                                                                                   \
			if (before)                                                                \
				low_ = i + 1;                                                      \
			else                                                                       \
				high_ = i;                                                         \
		}                                                                                  \
		low_;                                                                              \
	})

#endif
