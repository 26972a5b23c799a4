/* SPDX-License-Identifier: Apache-2.0 */
#include "ipam/journal/lease.h"

#include <stdlib.h>
#include <string.h>

enum { SLOTS_MIN = 64, ID_SHOWN = 12 };

void lease_table_done(struct lease_table *t)
{
	free(t->v);
	free(t->slots);
	*t = (struct lease_table){0};
}

/* Fibonacci hashing (2^64 / phi) spreads consecutive addresses. The 4 bytes of IPv4 are followed by
 * zeros. */
static size_t slot_of(const struct lease_table *t, const struct ipaddr *a)
{
	uint64_t part[2] = {0};

	memcpy(part, a->b, ip_size(a));
	part[0] = (part[0] ^ part[1] * 0x9e3779b97f4a7c15U) * 0x9e3779b97f4a7c15U;
	return (size_t)(part[0] >> 32) & (t->n_slots - 1);
}

/* Returns the slot of *a, or the empty slot where *a belongs. */
static uint32_t *probe(const struct lease_table *t, const struct ipaddr *a)
{
	size_t i = slot_of(t, a);

	while (t->slots[i] && !ip_eq(&t->v[t->slots[i] - 1].address.ip, a))
		i = (i + 1) & (t->n_slots - 1);
	return &t->slots[i];
}

static void set_slots(struct lease_table *t, size_t n)
{
	free(t->slots);
	t->n_slots = n;
	t->slots = xcalloc(n, sizeof(*t->slots));
	for (size_t i = 0; i < t->n; i++)
		*probe(t, &t->v[i].address.ip) = (uint32_t)i + 1;
}

void lease_table_reserve(struct lease_table *t, size_t n)
{
	size_t slots = t->n_slots ? t->n_slots : SLOTS_MIN;

	if (n <= t->cap)
		return;
	t->cap = n;
	t->v = xrealloc(t->v, n * sizeof(*t->v));
	while (slots < 2 * n)
		slots *= 2;
	if (slots != t->n_slots)
		set_slots(t, slots);
}

struct lease *lease_find(const struct lease_table *t, const struct ipaddr *a)
{
	uint32_t i = t->n_slots ? *probe(t, a) : 0;

	return i ? &t->v[i - 1] : NULL;
}

void lease_put(struct lease_table *t, const struct lease *l)
{
	uint32_t *slot;

	if (t->n == t->cap)
		lease_table_reserve(t, t->cap ? 2 * t->cap : SLOTS_MIN / 2);
	slot = probe(t, &l->address.ip);
	if (*slot) {
		t->v[*slot - 1] = *l;
		return;
	}
	t->v[t->n++] = *l;
	*slot = (uint32_t)t->n;
}

bool lease_is(const struct lease *l, const char *container_id, const char *ifname)
{
	return strcmp(l->container_id, container_id) == 0 &&
	       (!ifname || strcmp(l->ifname, ifname) == 0);
}

void lease_owner_str(const struct lease *l, struct buf *b)
{
	if (*l->pod_name)
		buf_printf(b, "%s/%s", l->pod_namespace, l->pod_name);
	else if (*l->container_id)
		buf_printf(b, "container %.*s", ID_SHOWN, l->container_id);
	else
		buf_str(b, "unknown owner");
	if (*l->ifname)
		buf_printf(b, " %s", l->ifname);
}

bool lease_lasts(const struct lease *l, int64_t now_ms, int64_t period_ms)
{
	/* unsigned: the difference of times in a journal can exceed int64_t */
	return l->at_ms <= now_ms && (uint64_t)now_ms - (uint64_t)l->at_ms < (uint64_t)period_ms;
}
