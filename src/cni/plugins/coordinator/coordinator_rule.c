/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The node's rule for the table of its pods' routes: there while a pod has a route in the table.
 * The original leaves it for ever.
 *
 * No lock guards it. An ADD puts its route first and then the rule, whatever it saw before; who
 * takes the rule away looks at the table once more afterwards and puts it back when a route has
 * come in between. So in any order of the two there is a rule where there is a route.
 */
#include <stdlib.h>

#include "base/cleanup.h"
#include "cni/plugins/coordinator/coordinator_private.h"

struct rule co_host_rule(uint8_t family, uint32_t table)
{
	return (struct rule){.family = family,
			     .priority = CO_HOST_RULE_PRIORITY,
			     .has_priority = true,
			     .table = table};
}

bool co_host_rule_is_idle(uint8_t family, const struct route *routes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (routes[i].family == family)
			return false;
	return true;
}

/* Which families have no route in the table. */
static int idle(struct nl_wire *w, uint32_t table, unsigned int *ret, struct err *e)
{
	struct route *routes;
	size_t n;
	int r = route_list(w, 0, table, &routes, &n, e);

	if (r < 0)
		return r;
	*ret = (co_host_rule_is_idle(4, routes, n) ? CO_V4 : 0) |
	       (co_host_rule_is_idle(6, routes, n) ? CO_V6 : 0);
	route_list_free(routes, n);
	return 0;
}

static int commit(struct nl_wire *w, struct nl_batch *b, struct err *e)
{
	return nl_batch_len(b) ? nl_batch_commit(w, b, e) : 0;
}

/* Exactly ours: a rule of the user's with a selector of its own stays. Returns the families. */
static int take_away(struct nl_wire *w, uint32_t table, unsigned int families, unsigned int *ret,
		     struct err *e)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	auto_free struct rule *rules = NULL;
	size_t n;
	int r = rule_list(w, 0, &rules, &n, e);

	*ret = 0;
	for (size_t i = 0; r >= 0 && i < n; i++) {
		unsigned int bit = rules[i].family == 4 ? CO_V4 : CO_V6;
		const struct rule want = co_host_rule(rules[i].family, table);

		if (!(families & bit) || !rule_eq(&rules[i], &want))
			continue;
		rule_del(b, &rules[i]);
		*ret |= bit;
	}
	return r < 0 ? r : commit(w, b, e);
}

static int put_back(struct nl_wire *w, uint32_t table, unsigned int families, struct err *e)
{
	auto_batch struct nl_batch *b = nl_batch_new();

	for (uint8_t family = 4; family <= 6; family += 2) {
		const struct rule rule = co_host_rule(family, table);

		if (families & (family == 4 ? CO_V4 : CO_V6))
			rule_add(b, &rule, NL_OK_EXIST);
	}
	return commit(w, b, e);
}

int co_host_rule_release(struct nl_wire *host, uint32_t table, struct err *e)
{
	unsigned int families, gone = 0, still = 0;
	int r = idle(host, table, &families, e);

	if (r >= 0 && families)
		r = take_away(host, table, families, &gone, e);
	if (r < 0 || !gone)
		return r;
	r = idle(host, table, &still, e);
	return r < 0 ? r : put_back(host, table, gone & ~still, e);
}
