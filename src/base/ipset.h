/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_BASE_IPSET_H
#define UNIRAIL_BASE_IPSET_H

/*
 * Sets of addresses as sorted, disjoint intervals; never expanded, so an IPv6 /64 costs as much as
 * an IPv4 /30. The grammar is SpiderIPPool's: "a" or "a-b", one family, a <= b, blanks around each
 * address allowed (a reversed range is refused; Spiderpool accepts it, but cannot use it).
 */

#include "base/err.h"
#include "base/ip.h"

struct ip_range {
	struct ipaddr first, last; /* inclusive */
};

struct ip_set {
	uint8_t family;
	struct ip_range *v; /* ascending, neither overlapping nor adjacent */
	size_t n;
};

/* Parses "10.0.0.1-10.0.0.9" or "10.0.0.1"; errors quote the text, kind ERR_CONF.
 * -EAFNOSUPPORT: an address of the other family. */
int ip_range_parse(struct span s, uint8_t family, struct ip_range *ret, struct err *e);
void ip_set_add(struct ip_set *s, const struct ip_range *r);
void ip_set_subtract(struct ip_set *s, const struct ip_range *r);

/*
 * Many ranges at once. Each ip_set_add() or ip_set_subtract() takes time proportional to the length
 * of the set, so a loop over n ranges of a user takes n * n. Instead: collect the ranges in any
 * order, then merge, which takes n log n. Between the first ip_set_collect() and ip_set_merge() no
 * other function may read the set. To subtract ranges, collect and merge them in a separate set,
 * and pass it to ip_set_minus().
 *
 *	for (size_t i = 0; i < n; i++)
 *		ip_set_collect(&s, &ranges[i]);
 *	ip_set_merge(&s);
 */
void ip_set_collect(struct ip_set *s, const struct ip_range *r);
void ip_set_merge(struct ip_set *s);
/* adds `more` to s; costs the sum of both lengths */
void ip_set_plus(struct ip_set *s, const struct ip_set *more);
/* Subtracts `out` from s. Costs the length of s times the logarithm of the length of `out`, plus
 * the number of intervals of `out` that overlap s. */
void ip_set_minus(struct ip_set *s, const struct ip_set *out);
/* These two overwrite *ret without freeing it: ip_set_copy() with a copy of s, ip_set_intersect()
 * with the intersection of a and b. */
void ip_set_copy(const struct ip_set *s, struct ip_set *ret);
void ip_set_intersect(const struct ip_set *a, const struct ip_set *b, struct ip_set *ret);
/* Makes the sets disjoint: an address stays only in the first set that has it. All sets must
 * have the same family. Costs m log m, m being the number of ranges of all sets. */
void ip_sets_part(struct ip_set *sets, size_t n);
bool ip_set_has(const struct ip_set *s, const struct ipaddr *a);
/* Sets *ret to the first address that both sets have; returns false if they have none in common.
 * Costs the length of the shorter set times the logarithm of the length of the longer one. */
bool ip_set_meets(const struct ip_set *a, const struct ip_set *b, struct ipaddr *ret);
u128 ip_set_count(const struct ip_set *s); /* saturates at 2^64-1 */
/* Sets *ret to the smallest member that is >= *from, or to the smallest one if from is NULL;
 * returns false if there is none. */
bool ip_set_next(const struct ip_set *s, const struct ipaddr *from, struct ipaddr *ret);
void ip_set_done(struct ip_set *s);
/* Appends "10.0.0.1-10.0.0.9, 10.0.0.20" to b. */
void ip_set_str(const struct ip_set *s, struct buf *b);

#endif
