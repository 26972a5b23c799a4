/* SPDX-License-Identifier: Apache-2.0 */
#include "base/ip.h"

#include <string.h>

unsigned int ip_bits(const struct ipaddr *a)
{
	return a->family == 4 ? 32 : 128;
}

unsigned int ip_size(const struct ipaddr *a)
{
	return a->family == 4 ? 4 : 16;
}

bool ip_eq(const struct ipaddr *a, const struct ipaddr *b)
{
	return ip_cmp(a, b) == 0;
}

int ip_cmp(const struct ipaddr *a, const struct ipaddr *b)
{
	if (a->family != b->family)
		return a->family < b->family ? -1 : 1;
	return a->family ? memcmp(a->b, b->b, ip_size(a)) : 0;
}

bool mac_eq(const struct mac *a, const struct mac *b)
{
	return a->len == b->len && memcmp(a->b, b->b, a->len) == 0;
}

bool ip_is_unspecified(const struct ipaddr *a)
{
	return a->family != 0 && ip_num(a) == 0;
}

bool ip_is_link_local(const struct ipaddr *a)
{
	if (a->family == 4)
		return a->b[0] == 169 && a->b[1] == 254;
	return a->family == 6 && a->b[0] == 0xfe && (a->b[1] & 0xc0) == 0x80;
}

bool ip_is_multicast(const struct ipaddr *a)
{
	if (a->family == 4)
		return (a->b[0] & 0xf0) == 0xe0;
	return a->family == 6 && a->b[0] == 0xff;
}

bool ip_is_loopback(const struct ipaddr *a)
{
	if (a->family == 4)
		return a->b[0] == 127;
	return a->family == 6 && ip_num(a) == 1;
}

/* The bits below the prefix; a shift by the whole width is undefined, hence the cases. */
static u128 host_mask(const struct ipnet *n)
{
	unsigned int bits = ip_bits(&n->ip), host = n->len < bits ? bits - n->len : 0;

	if (host == 128)
		return ~(u128)0;
	return ((u128)1 << host) - 1;
}

bool ipnet_contains(const struct ipnet *n, const struct ipaddr *a)
{
	u128 mask = ~host_mask(n);

	return a->family != 0 && a->family == n->ip.family &&
	       (ip_num(a) & mask) == (ip_num(&n->ip) & mask);
}

bool ipnet_eq(const struct ipnet *a, const struct ipnet *b)
{
	return a->len == b->len && ip_eq(&a->ip, &b->ip);
}

bool ipnet_overlaps(const struct ipnet *a, const struct ipnet *b)
{
	return a->len <= b->len ? ipnet_contains(a, &b->ip) : ipnet_contains(b, &a->ip);
}

bool ipnet_has_host_bits(const struct ipnet *n)
{
	return (ip_num(&n->ip) & host_mask(n)) != 0;
}

struct ipnet ipnet_network(const struct ipnet *n)
{
	return (struct ipnet){ipnet_first(n), n->len};
}

struct ipaddr ipnet_first(const struct ipnet *n)
{
	return ip_from_num(n->ip.family, ip_num(&n->ip) & ~host_mask(n));
}

struct ipaddr ipnet_last(const struct ipnet *n)
{
	return ip_from_num(n->ip.family, ip_num(&n->ip) | host_mask(n));
}

struct ipnet ipnet_host(const struct ipaddr *a)
{
	return (struct ipnet){*a, (uint8_t)ip_bits(a)};
}

bool ipnet_is_default(const struct ipnet *n)
{
	return n->len == 0 && ip_is_unspecified(&n->ip);
}

u128 ip_num(const struct ipaddr *a)
{
	u128 n = 0;

	for (unsigned int i = 0; i < ip_size(a); i++)
		n = n << 8 | a->b[i];
	return n;
}

struct ipaddr ip_from_num(uint8_t family, u128 n)
{
	struct ipaddr a = {.family = family};

	for (unsigned int i = ip_size(&a); i-- > 0; n >>= 8)
		a.b[i] = (uint8_t)n;
	return a;
}

bool ip_add(const struct ipaddr *a, u128 n, struct ipaddr *ret)
{
	u128 sum;

	if (__builtin_add_overflow(ip_num(a), n, &sum))
		return false;
	if (a->family == 4 && sum > UINT32_MAX)
		return false;
	*ret = ip_from_num(a->family, sum);
	return true;
}
