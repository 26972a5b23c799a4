/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_IPAM_SELECT_INTERNAL_H
#define UNIRAIL_IPAM_SELECT_INTERNAL_H

/* Between select_address.c and select_owner.c. */

#include "ipam/select/select_pool.h"

/* One call's progress. */
struct choice {
	const struct select_facts *f;
	struct decision d;
	struct lease_table given;  /* the picks' addresses, to be found */
	struct ipaddr *from;	   /* by pool: below it nothing is free; family 0: not looked yet */
	const struct lease **near; /* held by an asking container, or sticky: found in one pass */
	size_t n_near;
};

const char *select_text(const char *s); /* NULL is "" */
/* Whether this call has given the address away already. */
bool choice_has(const struct choice *c, const struct ipaddr *a);
void choice_pick(struct choice *c, size_t ask, const struct ipnet *address, const struct pool *p,
		 bool was_there);
/* A new lease for the ask's owner. */
void choice_grant(struct choice *c, const struct ipam_ask *a, size_t ask, const struct pool *p,
		  const struct ipaddr *ip);

/* 1: the owner has addresses of this family already, from an earlier ask. */
int choose_held(struct choice *c, const struct ipam_ask *a, size_t ask, uint8_t family,
		struct err *e);
bool choose_kept(struct choice *c, const struct ipam_ask *a, size_t ask, uint8_t family,
		 const struct pool_list *l);
/* The address that the pod had before: `had`, or by the pool's records. */
bool choose_own(struct choice *c, const struct ipam_ask *a, size_t ask, const struct pool_list *l);
bool wants_family(const struct ipam_ask *a, uint8_t family);
int choose_wanted(struct choice *c, const struct ipam_ask *a, size_t ask, uint8_t family,
		  const struct pool_list *l, struct err *e);

#endif
