/* SPDX-License-Identifier: Apache-2.0 */
/* What others wish for of a block of ours. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "ipam/block_plan_priv.h"

size_t plan_idle_of(const struct block_facts *f, const struct block_claim *c,
		    const struct block_object *o, const struct ip_set *usable, size_t max,
		    struct ipaddr **ret)
{
	struct ip_set s = {.family = usable->family};
	struct ipaddr a;
	size_t n = 0;

	*ret = NULL;
	block_addresses(usable, &c->net, &s);
	for (size_t i = s.n; i-- > 0 && n < max;)
		for (u128 k = ip_num(&s.v[i].last) + 1; k > ip_num(&s.v[i].first) && n < max; k--) {
			a = ip_from_num(s.family, k - 1);
			if (!block_is_ceded(c, &a) && !block_entry_find(o, &a) &&
			    !block_is_busy(f, &a))
				VEC_PUSH(*ret, n) = a;
		}
	ip_set_done(&s);
	return n;
}

static size_t offered(const struct block_object *o)
{
	size_t n = 0;

	for (size_t i = 0; i < o->n_ceded; i++)
		n += block_entry_open(&o->ceded[i]);
	return n;
}

/* For any addresses. NULL: there is none. */
static const struct block_wish *first_wish(const struct block_object *o)
{
	struct ipaddr a;

	for (size_t i = 0; i < o->n_wanted; i++)
		if (!block_wish_named(o->wanted[i].node, &a))
			return &o->wanted[i];
	return NULL;
}

static void answer(struct planner *p, const struct block_object *o, const struct block_wish *w,
		   const char *to, struct ipaddr *ips, size_t n)
{
	struct block_op *op = plan_bound(p, OP_CEDE, o);

	if (!op) {
		free(ips);
		return;
	}
	op->ips = ips;
	op->n_ips = n;
	str_copy(op->to, sizeof(op->to), to);
	str_copy(op->wish_of, sizeof(op->wish_of), w->node);
}

/* Of an older release: it looks for what is offered to all, what is offered so already counts, and the
 * wish stays until there is something. */
static void grant_any(struct planner *p, const struct block_claim *c, const struct block_object *o,
		      const struct block_need *need, const struct block_wish *w)
{
	size_t there = offered(o), n = w->count > there ? w->count - there : 0;
	struct ipaddr *ips = NULL;

	if (need->want)
		return;
	n = n ? plan_idle_of(p->f, c, o, need->usable, n, &ips) : 0;
	if (n || there)
		answer(p, o, w, "*", ips, n);
}

/*
 * One wish at a time. Who asks comes back for it at once, so it is promised to that node, and no other
 * goes for it in vain. A wish that goes without a promise is an answer, too: another is to be asked.
 */
void plan_grant_wish(struct planner *p, const struct block_claim *c, const struct block_object *o,
		     const struct block_need *need)
{
	const struct block_wish *w;
	char to[BLOCK_NAME_MAX + 3];
	struct ipaddr *ips = NULL;
	size_t n = 0;

	if (plan_grant_named(p, c, o, need) || !(w = first_wish(o)))
		return;
	if (!block_wish_may_promise(w->node, to)) {
		grant_any(p, c, o, need, w);
		return;
	}
	/* Our own is from when the block was another's. */
	if (!need->want && !block_wish_is_of(w->node, p->f->table->node))
		n = plan_idle_of(p->f, c, o, need->usable, w->count, &ips);
	answer(p, o, w, to, ips, n);
}
