/* SPDX-License-Identifier: Apache-2.0 */
#include "kern/probe/probe_see.h"

#include <string.h>

enum { IPOIB_LEN = 20 };

bool probe_mac_same(const struct mac *a, const struct mac *b)
{
	size_t skip = a->len == IPOIB_LEN;

	return a->len && a->len == b->len && !memcmp(a->b + skip, b->b + skip, a->len - skip);
}

bool probe_is_mine(const struct probe_ears *q, const struct mac *m)
{
	for (size_t i = 0; i < q->n_mine; i++)
		if (probe_mac_same(&q->mine[i], m))
			return true;
	return false;
}
