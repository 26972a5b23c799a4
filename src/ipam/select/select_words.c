/* SPDX-License-Identifier: Apache-2.0 */
/* What a user is told when there is nothing left. */
#include <inttypes.h>

#include "ipam/select/select.h"

struct tally {
	uint64_t used, adopted, kept, quarantined, resting;
};

void select_words_names(const char *const *names, size_t n, struct buf *b)
{
	buf_char(b, '[');
	for (size_t i = 0; i < n; i++)
		buf_printf(b, "%s%s", i ? " " : "", names[i]);
	buf_char(b, ']');
}

void select_words_pools(const struct pool_list *l, struct buf *b)
{
	buf_char(b, '[');
	for (size_t i = 0; i < l->n; i++)
		buf_printf(b, "%s%s", i ? " " : "", l->v[i]->name);
	buf_char(b, ']');
}

static uint64_t *count_of(struct tally *t, const struct select_facts *f, const struct pool *p,
			  const struct lease *l)
{
	switch (l->state) {
	case LEASE_USED: return &t->used;
	case LEASE_ADOPTED: return &t->adopted;
	case LEASE_KEPT: return &t->kept;
	case LEASE_QUARANTINED:
		return lease_lasts(l, f->now_ms, f->pools->quarantine_ms) ? &t->quarantined : NULL;
	case LEASE_FREE:
		return lease_lasts(l, f->now_ms, pool_rest_ms(f->pools, p)) ? &t->resting : NULL;
	}
	return NULL;
}

/* The first few owners; the rest is a number. */
static void add_owner(const struct lease *l, uint64_t nth, size_t owners, struct buf *b)
{
	char text[IP_TEXT_MAX];

	if (nth > owners)
		return;
	buf_str(b, nth == 1 ? "" : ", ");
	lease_owner_str(l, b);
	buf_printf(b, " %s", ip_str(&l->address.ip, text));
}

static void add_part(struct buf *b, uint64_t n, const char *what)
{
	if (n > 0)
		buf_printf(b, ", %" PRIu64 " %s", n, what);
}

void select_words_full(const struct select_facts *f, const struct pool *p, size_t owners,
		       struct buf *b)
{
	uint64_t total = (uint64_t)ip_set_count(&p->ips);
	uint64_t usable = (uint64_t)ip_set_count(&p->usable), open, adopted;
	struct tally t = {0};
	auto_buf struct buf who;

	buf_init(&who, 400);
	for (size_t i = 0; i < f->leases->n; i++) {
		const struct lease *l = &f->leases->v[i];
		uint64_t *count;

		if (l->address.ip.family != p->family || !ip_set_has(&p->ips, &l->address.ip))
			continue;
		count = count_of(&t, f, p, l);
		if (!count)
			continue;
		++*count;
		if (count == &t.used)
			add_owner(l, t.used, owners, &who);
	}
	buf_printf(b, "pool '%s' has %" PRIu64 " addresses: %" PRIu64 " in use", p->name, total,
		   t.used);
	if (t.used > 0 && owners > 0)
		buf_printf(b, " (%s%s)", who.p, t.used > owners ? ", ..." : "");
	add_part(b, t.adopted, "in use by host-local");
	add_part(b, t.kept, "kept for sticky pods");
	add_part(b, t.quarantined, "in quarantine after a conflict");
	add_part(b, t.resting, "resting");
	if (!p->shared) {
		add_part(b, total - usable, "reserved");
		return;
	}
	/* What others have of it is the blocks' to tell. */
	open = (uint64_t)ip_set_count(&p->open);
	adopted = (uint64_t)ip_set_count(&p->adopted);
	add_part(b, adopted, "with pods of before");
	add_part(b, total - open - adopted, "reserved");
	buf_printf(b, ", %" PRIu64 " are this node's to hand out", usable);
}
