/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_IPAM_RANGE_H
#define UNIRAIL_IPAM_RANGE_H

/*
 * Sets of addresses as sorted, disjoint intervals; never expanded, so an IPv6 /64 costs what an
 * IPv4 /30 does. The grammar is SpiderIPPool's: "a" or "a-b", no blanks, one family, a <= b
 * (a reversed range is refused: the original admits it and then cannot use it).
 */

#include "base/err.h"
#include "base/ip.h"

struct ip_range {
	struct ipaddr first, last; /* inclusive */
};

struct ip_set {
	uint8_t family;
	struct ip_range *v; /* ascending, not touching */
	size_t n;
};

/* "10.0.0.1-10.0.0.9" or "10.0.0.1"; names the text in its error, kind ERR_CONF. */
int ip_range_parse(struct span s, uint8_t family, struct ip_range *ret, struct err *e);
void ip_set_add(struct ip_set *s, const struct ip_range *r);
void ip_set_subtract(struct ip_set *s, const struct ip_range *r);
void ip_set_minus(struct ip_set *s, const struct ip_set *out);
bool ip_set_has(const struct ip_set *s, const struct ipaddr *a);
/* First address two sets share, if any. */
bool ip_set_meets(const struct ip_set *a, const struct ip_set *b, struct ipaddr *ret);
u128 ip_set_count(const struct ip_set *s); /* saturates at 2^64-1 */
/* The smallest member that is >= *from (or the smallest at all when from is NULL). */
bool ip_set_next(const struct ip_set *s, const struct ipaddr *from, struct ipaddr *ret);
void ip_set_done(struct ip_set *s);
/* "10.0.0.1-10.0.0.9, 10.0.0.20" onto b. */
void ip_set_str(const struct ip_set *s, struct buf *b);

#endif
