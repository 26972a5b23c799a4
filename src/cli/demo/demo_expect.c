/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "cli/demo/demo.h"

/* What a pod's namespace ought to hold while it is attached. */

static bool has_default(const struct demo_facts *f, uint32_t table, int index,
			const struct ipaddr *gw)
{
	for (size_t i = 0; i < f->n_routes; i++) {
		const struct route *r = &f->routes[i];

		if (r->table == table && r->index == index && ipnet_is_default(&r->dst) &&
		    ip_eq(&r->gw, gw))
			return true;
	}
	return false;
}

/* The table that packets from this address are sent to. 0: none of its own. */
static uint32_t table_of(const struct demo_facts *f, const struct ipaddr *from)
{
	for (size_t i = 0; i < f->n_rules; i++)
		if (ip_eq(&f->rules[i].src.ip, from) && f->rules[i].src.len == ip_bits(from))
			return f->rules[i].table;
	return 0;
}

static void expect_link(struct demo *d, const struct demo_pod *p, const struct demo_nic *n,
			const struct link *l)
{
	if (!link_is_up(l))
		demo_problem(d, "%s: '%s' is down", p->name, l->name);
	if (strcmp(l->kind, "macvlan") != 0)
		demo_problem(d, "%s: '%s' is a '%s', not a macvlan", p->name, l->name, l->kind);
	if (l->mtu != n->mtu)
		demo_problem(d, "%s: '%s' has MTU %u, its master %u", p->name, l->name, l->mtu,
			     n->mtu);
}

static void expect_nic(struct demo *d, const struct demo_pod *p, size_t nic)
{
	const struct demo_nic *n = &d->nics[nic];
	const struct link *l = link_find(p->facts.links, p->facts.n_links, n->pod_if);
	struct ipnet own = {0};
	uint32_t table = TABLE_MAIN;

	if (!l) {
		demo_problem(d, "%s: '%s' is missing", p->name, n->pod_if);
		return;
	}
	expect_link(d, p, n, l);
	if (!demo_link_ip(&p->facts, n->pod_if, &own) || !ipnet_contains(&n->node, &own.ip)) {
		demo_problem(d, "%s: '%s' has no address of its rail", p->name, n->pod_if);
		return;
	}
	if (nic > 0)
		table = table_of(&p->facts, &own.ip);
	if (!table)
		demo_problem(d, "%s: no rule sends what comes from '%s' to a table of its own",
			     p->name, n->pod_if);
	else if (!has_default(&p->facts, table, l->index, &n->gateway))
		demo_problem(d, "%s: table %u has no default route by '%s'", p->name, table,
			     n->pod_if);
}

void demo_facts_expect(struct demo *d, size_t pod)
{
	const struct demo_pod *p = &d->pods[pod];

	for (size_t i = 0; i < d->n_nics; i++)
		expect_nic(d, p, i);
	if (!link_find(p->facts.links, p->facts.n_links, "veth0"))
		demo_problem(d, "%s: 'veth0', the way to the node, is missing", p->name);
	if (!p->facts.marks)
		demo_problem(d, "%s: the reply path's marks are missing", p->name);
}
