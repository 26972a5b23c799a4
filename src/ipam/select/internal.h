/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_IPAM_SELECT_INTERNAL_H
#define UNIRAIL_IPAM_SELECT_INTERNAL_H

/* Shared by the files of this directory. */

#include "ipam/select/select_pool.h"

/* State of one call. */
struct choice {
	const struct select_facts *f;
	struct decision d;
	struct lease_table given; /* the addresses of the picks, as an index */
	/* per pool: no address below it is free; family 0: not searched yet */
	struct ipaddr *from;
	/* leases of the requesting containers, and sticky ones; found in one pass */
	const struct lease **near;
	size_t n_near;
};

const char *select_text(const char *s); /* maps NULL to "" */
/* Returns whether this call has already allocated the address. */
bool choice_has(const struct choice *c, const struct ipaddr *a);
void choice_pick(struct choice *c, size_t request, const struct ipnet *address,
		 const struct pool *p, bool was_there);
/* Adds a new lease for the request's owner. */
void choice_allocation(struct choice *c, const struct ip_request *a, size_t request,
		       const struct pool *p, const struct ipaddr *ip);

/* Returns 1 if the owner already has addresses of this family from an earlier request. */
int choose_held(struct choice *c, const struct ip_request *a, size_t request, uint8_t family,
		struct err *e);
bool choose_retained(struct choice *c, const struct ip_request *a, size_t request, uint8_t family,
		     const struct pool_list *l);
/* Picks the address that the pod had before: one of `had`, or by the pool's records. */
bool choose_own(struct choice *c, const struct ip_request *a, size_t request,
		const struct pool_list *l);
bool wants_family(const struct ip_request *a, uint8_t family);
int choose_wanted(struct choice *c, const struct ip_request *a, size_t request, uint8_t family,
		  const struct pool_list *l, struct err *e);

#endif
