/* SPDX-License-Identifier: Apache-2.0 */
#include "block/block.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static uint8_t default_prefix(const struct ipnet *subnet, bool one_node)
{
	unsigned int host = ip_bits(&subnet->ip) - subnet->len;
	unsigned int most = one_node ? BLOCK_BITS_MAX : BLOCK_BITS;

	return (uint8_t)(ip_bits(&subnet->ip) - (host < most ? host : most));
}

int block_cut_choose(const struct ipnet *subnet, uint8_t requested, bool one_node,
		     struct block_cut *ret, struct err *e)
{
	unsigned int bits = ip_bits(&subnet->ip);
	unsigned int least = bits - BLOCK_BITS_MAX;

	if (least < subnet->len)
		least = subnet->len;
	if (requested && (requested < least || requested > bits))
		return err_kind(e, ERR_CONF, -ERANGE,
				"blocks of prefix length %u do not fit a subnet of prefix length "
				"%u, or are too large: expected %u to %u",
				requested, subnet->len, least, bits);
	ret->subnet = ipnet_network(subnet);
	ret->prefix = requested ? requested : default_prefix(subnet, one_node);
	return 0;
}

static unsigned int block_shift(const struct block_cut *c)
{
	return ip_bits(&c->subnet.ip) - c->prefix;
}

u128 block_count(const struct block_cut *c)
{
	unsigned int bits = c->prefix - c->subnet.len;

	return bits < 127 ? (u128)1 << bits : (u128)1 << 127;
}

bool block_index(const struct block_cut *c, const struct ipaddr *a, u128 *ret)
{
	if (!ipnet_contains(&c->subnet, a))
		return false;
	*ret = (ip_num(a) - ip_num(&c->subnet.ip)) >> block_shift(c);
	return true;
}

struct ipnet block_net(const struct block_cut *c, u128 index)
{
	u128 first = ip_num(&c->subnet.ip) + (index << block_shift(c));

	return (struct ipnet){ip_from_num(c->subnet.ip.family, first), c->prefix};
}

/* --- names of blocks --- */

static void hex(u128 n, char ret[static 33])
{
	unsigned long long high = (unsigned long long)(n >> 64), low = (unsigned long long)n;

	if (high)
		snprintf(ret, 33, "%llx%016llx", high, low);
	else
		snprintf(ret, 33, "%llx", low);
}

int block_name(const char *pool, u128 index, char ret[static BLOCK_NAME_MAX + 1])
{
	char text[33];

	hex(index, text);
	if (strlen(pool) + 1 + strlen(text) > BLOCK_NAME_MAX)
		return -ENAMETOOLONG;
	ret[0] = '\0';
	strcat(strcat(strcat(ret, pool), "-"), text);
	return 0;
}

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Accepts only an index as block_name() writes it: "0" but not "00". */
bool block_name_parse(const char *name, const char *pool, u128 *index)
{
	size_t n = strlen(pool);
	const char *p = name + n + 1;
	u128 i = 0;

	if (strncmp(name, pool, n) != 0 || name[n] != '-' || !*p || strlen(p) > 32 ||
	    (*p == '0' && p[1]))
		return false;
	for (; *p; p++) {
		if (digit(*p) < 0)
			return false;
		i = i << 4 | (u128)digit(*p);
	}
	*index = i;
	return true;
}

/* --- selection of blocks --- */

void block_addresses(const struct ip_set *s, const struct ipnet *net, struct ip_set *ret)
{
	struct ipaddr first = ipnet_first(net), last = ipnet_last(net);

	ret->family = s->family;
	for (size_t i = 0; i < s->n; i++) {
		struct ip_range r = s->v[i];

		if (ip_cmp(&r.last, &first) < 0 || ip_cmp(&r.first, &last) > 0)
			continue;
		if (ip_cmp(&r.first, &first) < 0)
			r.first = first;
		if (ip_cmp(&r.last, &last) > 0)
			r.last = last;
		ip_set_add(ret, &r);
	}
}

bool block_next(const struct block_cut *c, const struct ip_set *s, u128 *index)
{
	struct ipaddr from, a;

	if (*index >= block_count(c))
		return false;
	from = block_net(c, *index).ip;
	return ip_set_next(s, &from, &a) && block_index(c, &a, index);
}

static bool is_taken(const u128 *taken, size_t n, u128 index)
{
	size_t low = 0;

	while (low < n) {
		size_t mid = low + (n - low) / 2;

		if (taken[mid] == index)
			return true;
		if (taken[mid] < index)
			low = mid + 1;
		else
			n = mid;
	}
	return false;
}

/* Finds the first free block from *index on and before end; returns false if there is none. */
static bool free_from(const struct block_cut *c, const struct ip_set *s, const u128 *taken,
		      size_t n, u128 end, u128 *index)
{
	while (block_next(c, s, index) && *index < end) {
		if (!is_taken(taken, n, *index))
			return true;
		++*index;
	}
	return false;
}

/* The search starts at a position among the pool's addresses instead of the subnet's, because the
 * ranges of a pool may lie far apart. */
static u128 start_of(const struct block_cut *c, const struct ip_set *s, uint64_t seed)
{
	u128 left = 0, index = 0;

	for (size_t i = 0; i < s->n; i++)
		left += ip_num(&s->v[i].last) - ip_num(&s->v[i].first) + 1;
	left = left ? seed % left : 0;
	for (size_t i = 0; i < s->n; i++) {
		u128 size = ip_num(&s->v[i].last) - ip_num(&s->v[i].first) + 1;
		struct ipaddr a;

		if (left < size) {
			a = ip_from_num(s->family, ip_num(&s->v[i].first) + left);
			block_index(c, &a, &index);
			return index;
		}
		left -= size;
	}
	return 0;
}

bool block_pick(const struct block_cut *c, const struct ip_set *s, const u128 *taken, size_t n,
		uint64_t seed, u128 *ret)
{
	u128 start = start_of(c, s, seed), index = start;

	if (!free_from(c, s, taken, n, block_count(c), &index)) {
		index = 0;
		if (!free_from(c, s, taken, n, start, &index))
			return false;
	}
	*ret = index;
	return true;
}
