/* SPDX-License-Identifier: Apache-2.0 */
#include "testlib.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "ipam/pool/pool.h"

enum { POOLS_MAX = 12, ROUNDS = 3000 };

static uint32_t seed = 1;

static uint32_t upto(uint32_t n)
{
	seed = seed * 1664525 + 1013904223;
	return (seed >> 8) % n;
}

/* Makes a pool whose subnet is 10.0.0.0/26 or fd00::/122, or a part of either, with up to three
 * short ranges of addresses. */
static void make(struct pool *p)
{
	uint8_t family = upto(4) ? 4 : 6;
	uint8_t len = (uint8_t)((family == 4 ? 26 : 122) + (upto(3) ? 0 : upto(4)));
	u128 base = family == 4 ? (u128)10 << 24 : (u128)0xfd << 120;
	struct ipnet net = {ip_from_num(family, base + upto(64)), len};

	*p = (struct pool){.family = family, .subnet = ipnet_network(&net)};
	p->name = xasprintf("p%u", upto(40));
	p->origin = xasprintf("file %u", upto(1000));
	p->ips.family = family;
	for (uint32_t i = upto(4); i > 0; i--) {
		struct ipaddr end = ipnet_last(&p->subnet);
		u128 first = ip_num(&p->subnet.ip) + upto(1u << (ip_bits(&end) - len));
		u128 last = first + upto(4);

		ip_set_add(&p->ips, &(struct ip_range){
					    ip_from_num(family, first),
					    last < ip_num(&end) ? ip_from_num(family, last) : end});
	}
}

/* Computes the results that pool.h defines for pool_conflicts() and pool_conflicts_open(), by
 * comparing each pair of pools. */
static void by_pairs(const struct pool *const *v, size_t n, size_t *older, struct ip_set *open)
{
	for (size_t i = 0; i < n; i++) {
		older[i] = n;
		open[i].family = v[i]->family;
		for (size_t k = 0; k < v[i]->ips.n; k++)
			ip_set_add(&open[i], &v[i]->ips.v[k]);
		for (size_t j = 0; j < i; j++) {
			if (pool_conflict_error(v[j], v[i], NULL) == 0)
				continue;
			older[i] = older[i] == n ? j : older[i];
			if (v[i]->family == v[j]->family)
				ip_set_minus(&open[j], &v[i]->ips);
		}
	}
}

static void assert_same(const struct ip_set *a, const struct ip_set *b)
{
	auto_buf struct buf x, y;

	buf_init(&x, 4096);
	buf_init(&y, 4096);
	ip_set_str(a, &x);
	ip_set_str(b, &y);
	buf_char(&x, '\0');
	buf_char(&y, '\0');
	ASSERT_STR_EQ(x.p, y.p);
	ASSERT_EQ(a->family, b->family);
}

static void test_conflicts_of_random_pools_equal_a_comparison_of_all_pairs(void **state)
{
	size_t conflicts = 0;

	(void)state;
	for (int round = 0; round < ROUNDS; round++) {
		struct pool pools[POOLS_MAX];
		const struct pool *v[POOLS_MAX];
		size_t n = upto(POOLS_MAX + 1), older[POOLS_MAX], wanted[POOLS_MAX];
		struct ip_set open[POOLS_MAX] = {0}, open_wanted[POOLS_MAX] = {0};

		for (size_t i = 0; i < n; i++) {
			make(&pools[i]);
			v[i] = &pools[i];
		}
		pool_conflicts(v, n, older);
		pool_conflicts_open(v, n, open);
		by_pairs(v, n, wanted, open_wanted);
		for (size_t i = 0; i < n; i++) {
			ASSERT_EQ(older[i], wanted[i]);
			assert_same(&open[i], &open_wanted[i]);
			conflicts += older[i] < n;
			ip_set_done(&open[i]);
			ip_set_done(&open_wanted[i]);
			pool_done(&pools[i]);
		}
	}
	assert_in_range(conflicts, ROUNDS / 2, ROUNDS * POOLS_MAX / 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_conflicts_of_random_pools_equal_a_comparison_of_all_pairs),
	};

	return T_RUN(tests, NULL, NULL);
}
