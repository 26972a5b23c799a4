/* SPDX-License-Identifier: Apache-2.0 */
/* What others wish for of a block of ours. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "block/block_plan_priv.h"

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

/*
 * With each answer goes how many more there are (as those that there are not: what is given up and what
 * comes back counts by itself), so that others ask where there is something. More than IDLE_MOST need
 * not be known.
 */
enum { IDLE_MOST = 64 };

/* What others may have of it, at most so many: not those that asks of this node are about to get. */
static size_t to_give(const struct planner *p, const struct block_claim *c,
		      const struct block_object *o, const struct block_need *need, size_t max,
		      struct ipaddr **ret)
{
	size_t n;

	*ret = NULL;
	if (need->want)
		return 0;
	n = plan_idle_of(p->f, c, o, need->usable, max + need->keep, ret);
	return n > need->keep ? n - need->keep : 0;
}

static void tell(struct block_op *op, const struct block_object *o, size_t idle)
{
	uint32_t room = block_room(o);

	op->tells = true;
	op->count = room > op->n_ips + idle ? room - (uint32_t)(op->n_ips + idle) : 0;
}

/* Of `idle` addresses it gets n. */
static void answer(struct planner *p, const struct block_object *o, const struct block_wish *w,
		   const char *to, struct ipaddr *ips, size_t idle, size_t n)
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
	tell(op, o, idle - n);
}

/* Of an older release: it looks for what is offered to all, what is offered so already counts, and the
 * wish stays until there is something. */
static void grant_any(struct planner *p, const struct block_claim *c, const struct block_object *o,
		      const struct block_need *need, const struct block_wish *w)
{
	size_t there = offered(o), n = w->count > there ? w->count - there : 0, idle;
	struct ipaddr *ips;

	idle = to_give(p, c, o, need, n + IDLE_MOST, &ips);
	n = n < idle ? n : idle;
	if ((n || there) && !need->want)
		answer(p, o, w, "*", ips, idle, n);
	else
		free(ips);
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
	struct ipaddr *ips;
	size_t idle, n;

	if (plan_grant_named(p, c, o, need) || !(w = first_wish(o)))
		return;
	if (!block_wish_may_promise(w->node, to)) {
		grant_any(p, c, o, need, w);
		return;
	}
	idle = to_give(p, c, o, need, (size_t)w->count + IDLE_MOST, &ips);
	n = w->count < idle ? w->count : idle;
	/* Our own is from when the block was another's. */
	if (block_wish_is_of(w->node, p->f->table->node))
		n = 0;
	answer(p, o, w, to, ips, idle, n);
}

/* It was said that there is nothing, and there is by now: whoever waits looks for that. */
void plan_tell_idle(struct planner *p, const struct block_claim *c, const struct block_object *o,
		    const struct block_need *need)
{
	struct ipaddr *ips;
	struct block_op *op;
	size_t idle;

	if (!o->told || block_spare(o) || !block_room(o))
		return;
	idle = to_give(p, c, o, need, IDLE_MOST, &ips);
	free(ips);
	op = idle ? plan_bound(p, OP_CEDE, o) : NULL;
	if (op)
		tell(op, o, idle);
}
