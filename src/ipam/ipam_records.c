/* SPDX-License-Identifier: Apache-2.0 */
/* For people: who holds what, and what is left. */
#include <stdlib.h>

#include "ipam/store.h"

/* The state as a word, or NULL for an address that is free; *until where it ends by itself. */
static const char *state_word(const struct select_facts *f, const struct lease *l,
			      const struct pool *p, int64_t *until)
{
	int64_t rest = p ? pool_rest_ms(f->pools, p) : 0;

	switch (l->state) {
	case LEASE_USED: return "used";
	case LEASE_KEPT: return "sticky";
	case LEASE_ADOPTED: return "adopted";
	case LEASE_FREE:
		*until = l->at_ms + rest;
		return lease_lasts(l, f->now_ms, rest) ? "resting" : NULL;
	case LEASE_QUARANTINED:
		*until = l->at_ms + f->pools->quarantine_ms;
		return lease_lasts(l, f->now_ms, f->pools->quarantine_ms) ? "quarantined" : NULL;
	}
	return NULL;
}

static int by_address(const void *a, const void *b)
{
	return ip_cmp(&((const struct ipam_record *)a)->ip, &((const struct ipam_record *)b)->ip);
}

int ipam_records(struct ipam *i, struct ipam_record **ret, size_t *n_ret, struct err *e)
{
	struct ipam_record *v = NULL;
	struct select_facts f;
	size_t n = 0;
	int r = ipam_load_pools(i, e);

	if (r == 0)
		r = store_adopt(i, e);
	if (r < 0)
		return r;
	f = store_facts(i);
	for (size_t k = 0; k < i->j.leases.n; k++) {
		const struct lease *l = &i->j.leases.v[k];
		const struct pool *p = pool_of(&i->pools, &l->address.ip);
		int64_t until = 0;
		const char *state = state_word(&f, l, p, &until);

		if (!state)
			continue;
		VEC_PUSH(v, n) = (struct ipam_record){
			l->address.ip, p ? p->name : "", state,	      l->container_id,
			l->ifname,     l->pod_namespace, l->pod_name, l->pod_uid,
			l->network,    l->other,	 l->at_ms,    until,
		};
	}
	if (n > 0)
		qsort(v, n, sizeof(*v), by_address);
	*ret = v;
	*n_ret = n;
	return 0;
}

int ipam_free_list(struct ipam *i, const struct pool *p, size_t max, struct ipaddr **ret,
		   size_t *n_ret, struct err *e)
{
	struct ipaddr *v = NULL, a;
	struct select_facts f;
	size_t n = 0;
	int r = store_adopt(i, e);
	bool more;

	if (r < 0)
		return r;
	f = store_facts(i);
	more = ip_set_next(&p->usable, NULL, &a);
	while (more && n < max) {
		if (select_state(&f, p, &a) == SEL_FREE)
			VEC_PUSH(v, n) = a;
		more = ip_add(&a, 1, &a) && ip_set_next(&p->usable, &a, &a);
	}
	*ret = v;
	*n_ret = n;
	return 0;
}
