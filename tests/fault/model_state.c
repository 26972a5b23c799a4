/* SPDX-License-Identifier: Apache-2.0 */
/* The guarantees of the store, implemented in the simplest way. */
#include "model.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

/* --- pools --- */

enum { OWN, BACKUP, IPV6 };

static void name_pool(struct pool_model *p, int kind)
{
	snprintf(p->name, sizeof(p->name), "%c%d%s", kind == IPV6 ? 'v' : 'r', (int)p->rail,
		 kind == BACKUP ? "b" : "");
}

static struct ipaddr address_of(size_t rail, int kind, size_t i)
{
	char text[IP_TEXT_MAX];
	struct ipaddr ip;

	if (kind == IPV6)
		snprintf(text, sizeof(text), "fd00:%zu::%zu", rail, 10 + i);
	else
		snprintf(text, sizeof(text), "10.%zu.%d.%zu", rail, kind, 10 + i);
	if (ip_parse(span_of(text), &ip) < 0)
		ip = (struct ipaddr){0};
	return ip;
}

static void add_pool(struct model *m, const struct setup *s, size_t rail, int kind)
{
	struct pool_model *p = &m->pools[m->n_pools];

	*p = (struct pool_model){.family = kind == IPV6 ? 6 : 4,
				 .rail = rail,
				 .first = m->n,
				 .n = s->sizes[rail][kind],
				 .reuse_delay_ms = s->reuse_delay_ms[rail]};
	name_pool(p, kind);
	for (size_t i = 0; i < p->n; i++)
		m->a[m->n++] = (struct address){.ip = address_of(rail, kind, i),
						.pool = m->n_pools,
						.rail = rail,
						.owner = -1};
	m->n_pools++;
}

void model_init(struct model *m, const struct setup *s)
{
	*m = (struct model){.now = 1700000000000,
			    .quarantine_ms = s->quarantine_ms,
			    .wildcard = s->wildcard,
			    .n_c = 1,
			    .c[CHURN] = {.id = CHURN_ID, .name = NAMES, .rails = 1}};
	for (size_t i = 0; i < s->rails; i++)
		for (int kind = OWN; kind <= IPV6; kind++)
			if (s->sizes[i][kind])
				add_pool(m, s, i, kind);
}

void model_pools(const struct model *m, struct buf *b)
{
	char text[IP_TEXT_MAX];

	buf_printf(b, "[settings]\nquarantine = %lldms\n", (long long)m->quarantine_ms);
	for (size_t i = 0; i < m->n_pools; i++) {
		const struct pool_model *p = &m->pools[i];

		buf_printf(b, "[pool %s]\nsubnet = %s/%d\nreuse-delay = %lldms\n", p->name,
			   ip_str(&m->a[p->first].ip, text), p->family == 4 ? 24 : 64,
			   (long long)p->reuse_delay_ms);
		for (size_t k = 0; k < p->n; k++)
			buf_printf(b, "ips = %s\n", ip_str(&m->a[p->first + k].ip, text));
	}
}

/* --- state of an address --- */

/* Returns whether a delay that began at `at` still lasts. If `at` is in the future, it was
 * written before the clock was set to an earlier time: such a delay counts as ended. */
static bool lasts(const struct model *m, int64_t at, int64_t period)
{
	return at <= m->now && m->now - at < period;
}

bool model_is_in_cooldown(const struct model *m, const struct address *a)
{
	return a->state == M_FREE && a->is_in_cooldown &&
	       lasts(m, a->at, m->pools[a->pool].reuse_delay_ms);
}

bool model_is_free(const struct model *m, const struct address *a)
{
	if (a->state == M_QUARANTINED)
		return !lasts(m, a->at, m->quarantine_ms);
	return a->state == M_FREE && !model_is_in_cooldown(m, a);
}

static void give_back(struct model *m, struct address *a)
{
	int name = m->c[a->owner].name;

	*a = (struct address){a->ip, a->pool, a->rail, M_FREE, -1, m->now, true};
	if (name < STICKY) {
		a->state = M_RETAINED;
		a->owner = name;
	}
}

/* --- ADD --- */

struct adding {
	struct model *m;
	const struct seen *s;
	int container;
	bool picked[ADDRS_MAX];
};

static bool is_mine(const struct adding *x, size_t i)
{
	return x->s && x->s->state[i] == M_USED && x->s->owner[i] == x->container;
}

static void take_it(struct adding *x, size_t i)
{
	struct address *a = &x->m->a[i];

	x->picked[i] = true;
	*a = (struct address){a->ip, a->pool, a->rail, M_USED, x->container, x->m->now, false};
}

static bool holds(const struct adding *x, size_t rail, uint8_t family)
{
	bool any = false;

	for (size_t i = 0; i < x->m->n; i++) {
		const struct address *a = &x->m->a[i];

		any |= a->state == M_USED && a->owner == x->container && a->rail == rail &&
		       a->ip.family == family;
	}
	return any;
}

/* Takes an address that is retained for the pod's name, or that the pod's former container still
 * has. */
static bool take_retained(struct adding *x, size_t rail, uint8_t family)
{
	int name = x->m->c[x->container].name;

	for (size_t i = 0; name < STICKY && i < x->m->n; i++) {
		const struct address *a = &x->m->a[i];

		if (a->rail != rail || a->ip.family != family || x->picked[i])
			continue;
		if ((a->state == M_RETAINED && a->owner == name) ||
		    (a->state == M_USED && x->m->c[a->owner].name == name)) {
			take_it(x, i);
			return true;
		}
	}
	return false;
}

static bool take_lowest(struct adding *x, const struct pool_model *p)
{
	for (size_t i = p->first; i < p->first + p->n; i++)
		if (!x->picked[i] && model_is_free(x->m, &x->m->a[i])) {
			take_it(x, i);
			return true;
		}
	return false;
}

/* Takes the address released longest ago; among equals, the address that the store selected. */
static bool take_oldest(struct adding *x, const struct pool_model *p)
{
	size_t best = x->m->n;

	for (size_t i = p->first; i < p->first + p->n; i++) {
		const struct address *a = &x->m->a[i];

		if (a->state != M_FREE || !a->is_in_cooldown || x->picked[i])
			continue;
		if (best == x->m->n || a->at < x->m->a[best].at ||
		    (a->at == x->m->a[best].at && is_mine(x, i)))
			best = i;
	}
	if (best < x->m->n)
		take_it(x, best);
	return best < x->m->n;
}

static bool take_new(struct adding *x, size_t rail, uint8_t family)
{
	bool any = false;

	for (size_t i = 0; i < x->m->n_pools; i++) {
		const struct pool_model *p = &x->m->pools[i];

		if (p->rail != rail || p->family != family)
			continue;
		any = true;
		if (take_lowest(x, p) || take_oldest(x, p))
			return true;
	}
	return !any; /* a family without a pool is not requested */
}

static bool add(struct model *m, const struct request *r, const struct seen *s)
{
	struct model t = *m;
	struct adding x = {.m = &t, .s = s, .container = r->container};

	for (size_t rail = 0; rail < RAILS_MAX; rail++)
		for (uint8_t family = 4; family <= 6 && r->rails & 1U << rail; family += 2)
			if (!holds(&x, rail, family) && !take_retained(&x, rail, family) &&
			    !take_new(&x, rail, family))
				return false;
	*m = t;
	return true;
}

/* --- DEL, GC and others --- */

/* Many allocations and releases: the model applies only the last allocation and, unless
 * r->rounds is 0, its release. */
static void churn(struct model *m, const struct request *r, const struct seen *s)
{
	struct adding x = {.m = m, .s = s, .container = CHURN};

	if (!holds(&x, 0, 4) && !take_new(&x, 0, 4))
		return;
	for (size_t i = 0; r->rounds && i < m->n; i++) {
		struct address *a = &m->a[i];

		if (a->state == M_USED && a->owner == CHURN)
			*a = (struct address){a->ip, a->pool, a->rail, M_FREE, -1, 0, true};
	}
}

static bool is_asked_for(const struct request *r, const struct address *a)
{
	if (a->state != M_USED)
		return false;
	if (r->op == OP_GC)
		return !r->valid[a->owner];
	return a->owner == r->container && (!r->rails || r->rails & 1U << a->rail);
}

bool model_do(struct model *m, const struct request *r, const struct seen *s)
{
	struct address *a = &m->a[r->addr];

	switch (r->op) {
	case OP_ADD:
	case OP_ADD_AGAIN: return add(m, r, s);
	case OP_DEL:
	case OP_GC:
		for (size_t i = 0; i < m->n; i++)
			if (is_asked_for(r, &m->a[i]))
				give_back(m, &m->a[i]);
		return true;
	case OP_QUARANTINE:
		*a = (struct address){a->ip, a->pool, a->rail, M_QUARANTINED, -1, m->now, false};
		return true;
	case OP_RELEASE_IP:
		if (a->state == M_FREE)
			return false; /* the address is free: there is nothing to release */
		*a = (struct address){a->ip, a->pool, a->rail, M_FREE, -1, 0, true};
		return true;
	case OP_CHURN: churn(m, r, s); return true;
	default: return true;
	}
}

/* --- comparison --- */

static enum state shown(const struct model *m, const struct address *a)
{
	return a->state == M_QUARANTINED && model_is_free(m, a) ? M_FREE : a->state;
}

static void put_state(struct buf *b, enum state state, int owner, bool is_in_cooldown)
{
	static const char *const states[] = {"free", "used by", "kept for", "in quarantine"};

	buf_str(b, is_in_cooldown ? "cooldown" : states[state]);
	if (state == M_USED || state == M_RETAINED)
		buf_printf(b, " %d", owner);
}

bool model_matches(const struct model *m, const struct seen *s, struct buf *b)
{
	char text[IP_TEXT_MAX];

	for (size_t i = 0; i < m->n; i++) {
		const struct address *a = &m->a[i];
		enum state state = shown(m, a);
		bool is_in_cooldown = model_is_in_cooldown(m, a);

		if (state == s->state[i] && is_in_cooldown == s->is_in_cooldown[i] &&
		    (state == M_FREE || state == M_QUARANTINED || a->owner == s->owner[i]))
			continue;
		if (b) {
			buf_printf(b, "%s is ", ip_str(&a->ip, text));
			put_state(b, s->state[i], s->owner[i], s->is_in_cooldown[i]);
			buf_str(b, ", should be ");
			put_state(b, state, a->owner, is_in_cooldown);
		}
		return false;
	}
	return true;
}

/* The store has no record of an address whose reuse delay or quarantine was over when the
 * journal was compacted, so the model ends it as well. */
void model_believe(struct model *m, const struct seen *s)
{
	for (size_t i = 0; i < m->n; i++) {
		struct address *a = &m->a[i];
		bool idle = a->state == M_FREE || a->state == M_QUARANTINED;

		if (idle && s->state[i] == M_FREE && !s->is_in_cooldown[i] && !model_is_free(m, a))
			*a = (struct address){a->ip, a->pool, a->rail, M_FREE, -1, 0, false};
	}
}
