/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of the handover, beside those of the plan. */
#include <stdlib.h>
#include <string.h>

#include "agent/blocks/blocks_priv.h"
#include "base/cleanup.h"

const struct block_table *blocks_table(const struct blocks *b)
{
	return &b->t;
}

static bool may_ask(struct blocks *b, const struct block_op *op)
{
	return b->leases_known && b->pools_known && b->t.synced &&
	       kube_informer_behind_ms(b->informer) == 0 &&
	       !blocks_rests_until(b, BLOCKS_DISK_KEY) && b->n_flights < BLOCKS_FLIGHTS_MAX &&
	       (op->kind == OP_READ || !blocks_is_held(b)) && !blocks_is_under_way(b, op->name);
}

bool blocks_request(struct blocks *b, struct block_op *op, blocks_done_fn fn, void *arg)
{
	struct blocks_flight *f;

	if (!may_ask(b, op)) {
		block_op_done(op);
		return false;
	}
	if (!blocks_start(b, op))
		return false;
	f = b->flights[b->n_flights - 1];
	f->fn = fn;
	f->arg = arg;
	return true;
}

void blocks_cancel(struct blocks *b, const void *arg)
{
	for (size_t i = 0; i < b->n_flights; i++)
		if (b->flights[i]->arg == arg)
			b->flights[i]->fn = NULL;
}

void blocks_pin(struct blocks *b, const struct ipaddr *v, size_t n)
{
	free(b->pins);
	b->pins = n ? xcalloc(n, sizeof(*v)) : NULL;
	b->n_pins = n;
	if (n)
		memcpy(b->pins, v, n * sizeof(*v));
	blocks_soon(b, 0);
}
