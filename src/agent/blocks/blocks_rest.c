/* SPDX-License-Identifier: Apache-2.0 */
/* What is left alone for a while: a block, a pool's search, or the log. */
#include <stdlib.h>
#include <string.h>

#include "agent/blocks/blocks_priv.h"
#include "base/cleanup.h"

static struct blocks_rest *rest_find(const struct blocks *b, const char *key)
{
	for (size_t i = 0; i < b->n_rests; i++)
		if (strcmp(b->rests[i].key, key) == 0)
			return &b->rests[i];
	return NULL;
}

void blocks_rest(struct blocks *b, const char *key, int64_t base_ms, int64_t most_ms)
{
	struct blocks_rest *x = rest_find(b, key);
	int64_t ms;

	if (!x) {
		x = &VEC_PUSH(b->rests, b->n_rests);
		x->key = xstrdup(key);
	}
	x->backoff.base = base_ms;
	x->backoff.most = most_ms;
	ms = kube_backoff_next(&x->backoff);
	x->until_ms = blocks_now(b) + ms;
	blocks_soon(b, ms);
}

void blocks_rested(struct blocks *b, const char *key)
{
	struct blocks_rest *x = rest_find(b, key);

	if (!x)
		return;
	free(x->key);
	*x = b->rests[--b->n_rests];
}

int64_t blocks_rests_until(const struct blocks *b, const char *key)
{
	const struct blocks_rest *x = rest_find(b, key);

	return x && x->until_ms > blocks_now(b) ? x->until_ms : 0;
}
