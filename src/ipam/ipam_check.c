/* SPDX-License-Identifier: Apache-2.0 */
/* `unirail pool check`: what does not fit together, one line a finding. */
#include <inttypes.h>

#include "ipam/store.h"

static void subject(const struct lease *l, struct buf *b)
{
	char text[IP_TEXT_MAX];

	buf_printf(b, "%s (", ip_str(&l->address.ip, text));
	lease_owner_str(l, b);
	buf_str(b, ") ");
}

static bool is_reserved(const struct pool *p, const struct ipaddr *a)
{
	if (!p->shared)
		return !ip_set_has(&p->usable, a);
	return !ip_set_has(&p->open, a) && !ip_set_has(&p->adopted, a);
}

static bool is_away(const struct pool *p, const struct ipaddr *a)
{
	return p->shared && !ip_set_has(&p->usable, a) && !ip_set_has(&p->adopted_here, a);
}

static int check_pool(const struct ipam *i, const struct lease *l, struct buf *b)
{
	const struct pool *p = pool_of(&i->pools, &l->address.ip);

	if (i->pools_r < 0)
		return 0;
	if (!p) {
		subject(l, b);
		buf_printf(b,
			   "is in no pool any more, it came from '%s': it stays with its owner\n",
			   l->pool);
		return 1;
	}
	if (is_reserved(p, &l->address.ip)) {
		subject(l, b);
		buf_str(b, "is reserved now: it stays with its owner\n");
		return 1;
	}
	if (is_away(p, &l->address.ip)) {
		subject(l, b);
		buf_printf(b,
			   "is in no block of this node now: another node may hand it out; if that "
			   "lasts, delete the pod\n");
		return 1;
	}
	return 0;
}

static int check_owner(const struct ipam *i, const struct lease *l, struct buf *b)
{
	char text[IP_TEXT_MAX];

	ip_str(&l->address.ip, text);
	if (!*l->container_id) {
		buf_printf(b,
			   "%s is held back since the journal was repaired: give it back with "
			   "'unirail pool release %s' when no running pod has it\n",
			   text, text);
		return 1;
	}
	if (*l->netns == '/' && !file_exists(i->root, l->netns)) {
		subject(l, b);
		buf_printf(b,
			   "has no namespace any more ('%s'): if its pod is gone, 'unirail pool "
			   "release %s'\n",
			   l->netns, text);
		return 1;
	}
	return 0;
}

static int check_lease(const struct ipam *i, const struct lease *l, struct buf *b)
{
	if (l->state == LEASE_USED)
		return check_pool(i, l, b) + check_owner(i, l, b);
	return l->state == LEASE_KEPT ? check_pool(i, l, b) : 0;
}

static int check_pools(struct ipam *i, struct buf *b)
{
	struct err e = ERR_INIT;

	if (ipam_load_pools(i, &e) < 0) {
		buf_printf(b, "%s\n", e.text);
		return 1;
	}
	if (i->pools.n == 0) {
		buf_printf(b, "no pool in '%s'\n", i->pool_dir);
		return 1;
	}
	return 0;
}

static int check_tail(const struct ipam *i, struct buf *b)
{
	if (i->j.size <= i->j.end)
		return 0;
	buf_printf(b,
		   "journal '%s' ends in %" PRId64 " bytes that a crash tore: nobody had been told "
		   "of them, and the next change cuts them\n",
		   i->j.path, i->j.size - i->j.end);
	return 1;
}

int ipam_check(struct ipam *i, struct buf *b, struct err *e)
{
	int n = check_pools(i, b) + check_tail(i, b), both;

	for (size_t k = 0; k < i->j.leases.n; k++)
		n += check_lease(i, &i->j.leases.v[k], b);
	both = adopt_conflicts(i, b, e);
	return both < 0 ? both : n + both;
}
