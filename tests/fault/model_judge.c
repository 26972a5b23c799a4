/* SPDX-License-Identifier: Apache-2.0 */
/* Compares answers and state of the store with the model. */
#include "model.h"

#include "base/alloc.h"

bool plan_fails(struct running *x, size_t step, const char *part)
{
	buf_printf(x->b, "step %zu (%s): %s\n", step, op_names[x->plan->steps[step].op], part);
	return false;
}

/* How far the store applied a call. NOT: not at all; WHOLE: completely; HALF: OP_CHURN allocated
 * an address and did not release it. */
enum done { NOT, WHOLE, HALF };

static bool do_so(struct model *m, const struct request *r, const struct seen *s, enum done how)
{
	struct request half = *r;

	if (how == HALF)
		half.rounds = 0;
	return model_do(m, &half, s);
}

/* Returns whether the answer is consistent with this outcome: how far the store applied the call,
 * and whether the model accepts it. */
static bool may_be(const struct doing *d, enum done applied, bool accepted)
{
	const struct answer *a = d->a;

	if (!a->done) /* crashed */
		return applied != HALF || d->r.op == OP_CHURN;
	if (applied == HALF)
		return d->r.op == OP_CHURN && a->code < 0;
	if (d->r.op == OP_ADD || d->r.op == OP_ADD_AGAIN || d->r.op == OP_RELEASE_IP) {
		if (a->code < 0)
			return !applied && (!accepted || d->troubled);
		return applied && accepted;
	}
	/* Other calls may have been applied although they returned an error. */
	return a->code < 0 || applied;
}

/* Returns whether the addresses in the answer of an ADD are those that the model allocated. */
static bool same_allocations(const struct model *m, const struct doing *d)
{
	size_t held = 0;

	if (!d->a->done || d->a->code < 0 || (d->r.op != OP_ADD && d->r.op != OP_ADD_AGAIN))
		return true;
	for (size_t i = 0; i < m->n; i++)
		held += m->a[i].state == M_USED && m->a[i].owner == d->r.container &&
			d->r.rails & 1U << m->a[i].rail;
	for (size_t k = 0; k < d->a->n; k++) {
		size_t i = 0;

		while (i < m->n && !ip_eq(&m->a[i].ip, &d->a->v[k].ip))
			i++;
		if (i == m->n || m->a[i].state != M_USED || m->a[i].owner != d->r.container ||
		    m->a[i].rail != d->a->v[k].rail)
			return false;
	}
	return held == d->a->n;
}

/* Returns whether some order of the steps, each executed or not, explains all answers and the
 * current state, which m takes over. `left`: mask of the steps not ordered yet. */
static bool explain(struct model *m, const struct doing *d, size_t n, uint32_t left,
		    const struct seen *s, struct buf *reason)
{
	if (!left)
		return model_matches(m, s, reason);
	for (size_t i = 0; i < n; i++) {
		if (!(left & 1U << i))
			continue;
		for (enum done how = NOT; how <= HALF; how++) {
			struct model t = *m;
			bool accepted = do_so(&t, &d[i].r, s, how);

			if ((how && !accepted) || !may_be(&d[i], how, accepted))
				continue;
			if (how == NOT)
				t = *m;
			else if (!same_allocations(&t, &d[i]))
				continue;
			if (explain(&t, d, n, left & ~(1U << i), s, reason)) {
				*m = t;
				return true;
			}
		}
	}
	return false;
}

/* As explain(), for a store that may have lost reuse delays and quarantines. */
static bool explain_forgotten(struct model *m, const struct doing *d, size_t n,
			      const struct seen *s)
{
	struct model t = *m;

	model_believe(&t, s);
	if (!explain(&t, d, n, (1U << n) - 1, s, NULL))
		return false;
	*m = t;
	return true;
}

/* After an ADD the container runs if the ADD returned its addresses; after a DEL it does not
 * run. */
static void settle(struct running *x, struct doing *d, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct container *c = d[i].r.container >= 0 ? &x->m.c[d[i].r.container] : NULL;

		if (d[i].r.op == OP_ADD && c)
			c->live = d[i].a->done && d[i].a->code >= 0;
		if (d[i].r.op == OP_DEL && c)
			c->live = false;
	}
}

static void put_answers(const struct doing *d, size_t n, struct buf *b)
{
	for (size_t i = 0; i < n; i++) {
		char text[IP_TEXT_MAX];

		buf_printf(b, "\t%s", op_names[d[i].r.op]);
		if (d[i].r.container >= 0)
			buf_printf(b, " of container %d", d[i].r.container);
		if (!d[i].a->done)
			buf_str(b, " crashed");
		else if (d[i].a->code < 0)
			buf_printf(b, " failed: %s", d[i].a->text);
		for (size_t k = 0; d[i].a->done && k < d[i].a->n; k++)
			buf_printf(b, " %s", ip_str(&d[i].a->v[k].ip, text));
		buf_char(b, '\n');
	}
}

bool doing_explained(struct running *x, size_t step, struct doing *d, size_t n)
{
	auto_buf struct buf wrong, reason;
	struct seen s;

	buf_init(&wrong, 4096);
	buf_init(&reason, 4096);
	store_read(&x->m, &s, &wrong);
	if (wrong.len) {
		put_answers(d, n, &wrong);
		return plan_fails(x, step, wrong.p);
	}
	if (explain(&x->m, d, n, (1U << n) - 1, &s, &reason) ||
	    (x->m.turned_back && explain_forgotten(&x->m, d, n, &s))) {
		settle(x, d, n);
		return true;
	}
	buf_reset(&reason);
	model_matches(&x->m, &s, &reason);
	buf_printf(&wrong,
		   "no order of the calls explains the state: compared with the state "
		   "before them, %s\n",
		   reason.len ? reason.p : "nothing has changed");
	put_answers(d, n, &wrong);
	return plan_fails(x, step, wrong.p);
}
