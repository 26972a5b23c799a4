/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses that asks wait for by name. */
#include <stdlib.h>
#include <string.h>

#include "agent/blocks/blocks_priv.h"
#include "base/cleanup.h"

/* A pod that waits for an address is looked at again within a turn of the loop, or one of the store. */
enum { PIN_MS = 3000, PIN_NAMED_MS = 60 * 1000 };

static void pin(struct blocks *b, const struct ipaddr *a, int64_t ms)
{
	size_t i = 0;

	while (i < b->n_named && !ip_eq(&b->named[i].ip, a))
		i++;
	if (i == b->n_named)
		VEC_PUSH(b->named, b->n_named).ip = *a;
	b->named[i].until_ms = blocks_now(b) + ms;
}

size_t blocks_pinned(struct blocks *b)
{
	size_t n = b->n_pins;

	for (size_t i = b->n_named; i-- > 0;)
		if (b->named[i].until_ms <= blocks_now(b))
			b->named[i] = b->named[--b->n_named];
	free(b->busy);
	b->busy = xcalloc(n + b->n_named + 1, sizeof(*b->busy));
	if (n)
		memcpy(b->busy, b->pins, n * sizeof(*b->busy));
	for (size_t i = 0; i < b->n_named; i++)
		b->busy[n++] = b->named[i].ip;
	return n;
}

static void drop_names(struct blocks *b, struct blocks_pool *p)
{
	for (size_t i = 0; i < p->n_names; i++)
		pin(b, &p->names[i], PIN_MS);
	free(p->names);
	p->names = NULL;
	p->n_names = 0;
}

void blocks_names(struct blocks *b, const struct need_name *v, size_t n)
{
	for (size_t i = 0; i < b->n_pools; i++)
		drop_names(b, b->pools[i]);
	for (size_t i = 0; i < n; i++) {
		struct blocks_pool *p = blocks_pool_get(b, v[i].pool);

		VEC_PUSH(p->names, p->n_names) = v[i].ip;
		pin(b, &v[i].ip, PIN_NAMED_MS);
	}
	if (n)
		blocks_soon(b, 0);
}
