/* SPDX-License-Identifier: Apache-2.0 */
/* The pools of a cluster, built from their objects: separate, overlapping, and with reserved
 * addresses. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "growth.h"
#include "ipam/pool/pool_cluster.h"

enum { LINE_BYTES = 512 };

struct lines {
	char **v;
	size_t n;
};

/* age: the order of creation. Pools whose generation is 2 were changed after their creation. */
static void add_pool(struct lines *l, size_t age, int generation, const char *subnet, size_t first,
		     size_t last)
{
	char a[IP_TEXT_MAX], b[IP_TEXT_MAX];
	struct ipaddr x = ip_from_num(4, ((u128)10 << 24) + first),
		      y = ip_from_num(4, ((u128)10 << 24) + last);

	VEC_PUSH(l->v, l->n) = xasprintf(
		"{\"kind\":\"SpiderIPPool\",\"metadata\":{\"name\":\"p%06zu\",\"generation\":%d,\"creationTimestamp\":"
		"\"2026-01-01T%02zu:%02zu:%02zuZ\"},\"spec\":{\"subnet\":\"%s\",\"ips\":[\"%s-%s\"]}}",
		age, generation, age / 3600, age / 60 % 60, age % 60, subnet, ip_str(&x, a),
		ip_str(&y, b));
}

static void add_reserved(struct lines *l, size_t n)
{
	auto_buf struct buf b;

	buf_init(&b, 4 << 20);
	buf_str(&b,
		"{\"kind\":\"SpiderReservedIP\",\"metadata\":{\"name\":\"r\"},\"spec\":{\"ips\":[");
	for (size_t i = 0; i < n; i++)
		buf_printf(&b, "%s\"10.%zu.%zu.%zu\"", i ? "," : "", i >> 13, i >> 5 & 255,
			   8 * (i & 31) + 2);
	buf_str(&b, "]}}");
	VEC_PUSH(l->v, l->n) = buf_take(&b);
}

/* Returns the cost of building the set, which must have `usable` pools. */
static uint64_t build(struct lines *l, size_t usable)
{
	uint64_t before = count_work;
	struct pool_set s;

	pool_kube_set((const char *const *)l->v, l->n, "kube-system", &s);
	before = count_work - before;
	if (s.n != usable)
		abort();
	pool_set_done(&s);
	str_list_free(l->v, l->n);
	return before;
}

uint64_t growth_pools_apart(size_t n)
{
	struct lines l = {0};

	for (size_t i = 0; i < n; i++)
		add_pool(&l, i, 1, "10.0.0.0/8", 8 * i + 1, 8 * i + 4);
	return build(&l, n);
}

uint64_t growth_pools_of_subnets(size_t n)
{
	struct lines l = {0};

	for (size_t i = 0; i < n; i++) {
		char subnet[IP_TEXT_MAX];

		snprintf(subnet, sizeof(subnet), "10.%zu.%zu.0/24", i >> 8, i & 255);
		add_pool(&l, i, 1, subnet, 256 * i + 1, 256 * i + 100);
	}
	return build(&l, n);
}

/* Each pool contains all later ones, and was changed after its creation: the set has only the
 * oldest pool, whose addresses that a younger pool also has may not be allocated. */
uint64_t growth_pools_one_in_another(size_t n)
{
	struct lines l = {0};

	for (size_t i = 0; i < n; i++)
		add_pool(&l, i, 2, "10.0.0.0/8", 1 + i, 10000 - i);
	return build(&l, 1);
}

/* The subnet of the first pool contains the subnets of all others. */
uint64_t growth_pools_in_one_subnet(size_t n)
{
	struct lines l = {0};

	add_pool(&l, 0, 2, "10.0.0.0/8", 1, 1 << 20);
	for (size_t i = 1; i < n; i++) {
		char subnet[IP_TEXT_MAX];

		snprintf(subnet, sizeof(subnet), "10.%zu.%zu.0/24", i >> 8, i & 255);
		add_pool(&l, i, 2, subnet, 256 * i + 1, 256 * i + 100);
	}
	return build(&l, 1);
}

/* One address in each pool is reserved. */
uint64_t growth_pools_and_reserved(size_t n)
{
	struct lines l = {0};

	for (size_t i = 0; i < n; i++)
		add_pool(&l, i, 1, "10.0.0.0/8", 8 * i + 1, 8 * i + 4);
	add_reserved(&l, n);
	return build(&l, n);
}
