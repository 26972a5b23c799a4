/* SPDX-License-Identifier: Apache-2.0 */
/* What the facts say of an address, a net or an object. */
#include <string.h>

#include "block/block_plan_priv.h"

bool block_is_busy(const struct block_facts *f, const struct ipaddr *a)
{
	for (size_t i = 0; i < f->n_pins; i++)
		if (ip_eq(&f->pins[i], a))
			return true;
	return block_has_lease(f, a);
}

bool block_has_lease(const struct block_facts *f, const struct ipaddr *a)
{
	const struct lease *l = lease_find(f->leases, a);

	if (!l)
		return false;
	if (l->state == LEASE_FREE)
		return lease_lasts(l, f->real_ms, f->rest_ms);
	if (l->state == LEASE_QUARANTINED)
		return lease_lasts(l, f->real_ms, f->quarantine_ms);
	return true;
}

bool block_has_pod(const struct block_facts *f, const struct ipaddr *a)
{
	const struct lease *l = lease_find(f->leases, a);

	return l && (l->state == LEASE_USED || l->state == LEASE_KEPT);
}

bool plan_net_has_pods(const struct block_facts *f, const struct ipnet *net)
{
	for (size_t i = 0; i < f->leases->n; i++) {
		const struct ipaddr *a = &f->leases->v[i].address.ip;

		if (ipnet_contains(net, a) && block_has_pod(f, a))
			return true;
	}
	return false;
}

bool block_net_is_busy(const struct block_facts *f, const struct ipnet *net)
{
	for (size_t i = 0; i < f->leases->n; i++) {
		const struct ipaddr *a = &f->leases->v[i].address.ip;

		if (ipnet_contains(net, a) && block_is_busy(f, a))
			return true;
	}
	for (size_t i = 0; i < f->n_pins; i++)
		if (ipnet_contains(net, &f->pins[i]))
			return true;
	return false;
}

bool block_is_foreign(const struct block_facts *f, const struct block_object *o)
{
	return strcmp(o->node, f->table->node) == 0 && !block_log_is_ours(f->log, o->claim);
}

const struct block_need *plan_need(const struct block_facts *f, const char *pool)
{
	for (size_t i = 0; i < f->n_needs; i++)
		if (strcmp(f->needs[i].pool, pool) == 0)
			return &f->needs[i];
	return NULL;
}
