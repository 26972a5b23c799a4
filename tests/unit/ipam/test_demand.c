/* SPDX-License-Identifier: Apache-2.0 */
/* Tests from which pools a request needs addresses, and how many of these addresses are missing
 * on this node. */
#include "testlib.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "ipam/demand.h"
#include "ipam_lab.h"

static int setup(void **state)
{
	il_setup(state);
	il_pools(&il_lab, "[pool a]\nsubnet = 10.0.1.0/24\nips = 10.0.1.10-10.0.1.12\n"
			  "[pool b]\nsubnet = 10.0.2.0/24\nips = 10.0.2.10\n"
			  "[pool none]\nsubnet = 10.0.3.0/24\nips = 10.0.3.10\n"
			  "[reserved]\nips = 10.0.3.10\n");
	return 0;
}

static bool is_in(void *arg, const char *pool)
{
	return arg && strstr(arg, pool);
}

/* Writes to ret how many addresses `n` rails of one container need from each pool, and how many
 * of these are missing on this node: "a=2/1 b=1/0" is POOL=NEEDED/MISSING. exhausted: names of
 * the pools without a free address. */
static int need(const char *const *pools, size_t n_pools, size_t n, const struct needs *reserved,
		const char *exhausted, char *ret)
{
	static const char *const names[] = {"net1", "net2", "net3", "net4"};
	struct ipam *i = il_open(&il_lab);
	struct ip_request requests[4];
	struct needs got = {0};
	int r;

	for (size_t k = 0; k < n; k++)
		requests[k] =
			(struct ip_request){.owner = {.container_id = "c", .ifname = names[k]},
					    .pools4 = pools,
					    .n_pools4 = n_pools};
	r = ipam_needs(i, requests, n, reserved, is_in, (void *)exhausted, false, &got, NULL);
	*ret = '\0';
	for (size_t k = 0; k < got.n; k++)
		sprintf(ret + strlen(ret), "%s%s=%u/%u", k ? " " : "", got.v[k].pool,
			got.v[k].count, got.v[k].missing);
	needs_done(&got);
	ipam_close(i);
	return r;
}

static void test_addresses_available_on_the_node_are_not_missing(void **state)
{
	static const char *const a[] = {"a"};
	char text[200];

	(void)state;
	ASSERT_EQ(need(a, 1, 3, NULL, NULL, text), 0);
	ASSERT_STR_EQ(text, "a=3/0");
	ASSERT_EQ(need(a, 1, 4, NULL, NULL, text), 1);
	ASSERT_STR_EQ(text, "a=4/1");
	il_take(&il_lab, "x", "eth0", "a");
	ASSERT_EQ(need(a, 1, 3, NULL, NULL, text), 1);
	ASSERT_STR_EQ(text, "a=3/1");
}

static void reserve(struct needs *n, const char *pool, uint32_t count)
{
	VEC_PUSH(n->v, n->n) = (struct need){.pool = xstrdup(pool), .count = count};
}

/* An address that another request has reserved is not available. */
static void test_reserved_addresses_are_not_available(void **state)
{
	static const char *const a[] = {"a"};
	struct needs reserved = {0};
	char text[200];

	(void)state;
	reserve(&reserved, "a", 2);
	ASSERT_EQ(need(a, 1, 1, &reserved, NULL, text), 0);
	ASSERT_EQ(need(a, 1, 2, &reserved, NULL, text), 1);
	ASSERT_STR_EQ(text, "a=2/1");
	needs_done(&reserved);
}

/*
 * A backup pool is used when the first pool has no address, but not merely because this node has no
 * block of the first pool yet.
 */
static void test_backup_pool_is_used_after_the_first_is_exhausted(void **state)
{
	static const char *const list[] = {"none", "b"};
	char text[200];

	(void)state;
	ASSERT_EQ(need(list, 2, 1, NULL, NULL, text), 1);
	ASSERT_STR_EQ(text, "none=1/1");
	ASSERT_EQ(need(list, 2, 1, NULL, "none", text), 0);
	ASSERT_STR_EQ(text, "b=1/0");
	ASSERT_EQ(need(list, 2, 2, NULL, "none", text), 1);
	ASSERT_STR_EQ(text, "b=2/1");
	ASSERT_EQ(need(list, 2, 2, NULL, "none b", text), 1);
	ASSERT_STR_EQ(text, "b=1/0 none=1/1");
}

static void test_repeated_request_needs_no_address(void **state)
{
	static const char *const b[] = {"b"};
	char text[200];

	(void)state;
	il_take(&il_lab, "c", "net1", "b");
	ASSERT_EQ(need(b, 1, 1, NULL, NULL, text), 0);
	ASSERT_STR_EQ(text, "");
	ASSERT_EQ(need(b, 1, 2, NULL, NULL, text), 1);
	ASSERT_STR_EQ(text, "b=1/1");
}

static void test_address_in_its_reuse_delay_counts_as_available(void **state)
{
	static const char *const b[] = {"b"};
	char text[200];

	(void)state;
	il_take(&il_lab, "x", "eth0", "b");
	ASSERT_EQ(il_free(&il_lab, "x", "eth0"), 1);
	ASSERT_EQ(need(b, 1, 1, NULL, NULL, text), 0);
}

/* Makes 10.0.2.10 of pool b the adopted address of the pod ns/web-0. */
static void adopt(const struct ipam *i)
{
	struct pool *p = (struct pool *)pool_find(ipam_pools(i), "b");
	const struct ip_range r = {t_ip("10.0.2.10"), t_ip("10.0.2.10")};

	ip_set_add(&p->adopted_here, &r);
	p->records = xcalloc(1, sizeof(*p->records));
	p->n_records = 1;
	p->records[0].ip = r.first;
	p->records[0].pod = pool_record_key("ns/web-0");
	p->records[0].uid = pool_record_key("uid-0");
}

/*
 * A pod that had an address of this node before needs no new address, even if another request has
 * reserved the pool's last address.
 */
static void test_pod_with_a_former_address_needs_no_new_address(void **state)
{
	static const char *const b[] = {"b"};
	struct ip_request a = {.owner = {.container_id = "c",
					 .ifname = "net1",
					 .pod_namespace = "ns",
					 .pod_name = "web-0",
					 .pod_uid = "uid-0"},
			       .pools4 = b,
			       .n_pools4 = 1};
	struct needs reserved = {0}, got = {0};
	struct ipam *i = il_open(&il_lab);

	(void)state;
	reserve(&reserved, "b", 1);
	ASSERT_EQ(ipam_needs(i, &a, 1, &reserved, is_in, NULL, false, &got, NULL), 1);
	needs_done(&got);
	adopt(i);
	ASSERT_EQ(ipam_needs(i, &a, 1, &reserved, is_in, NULL, false, &got, NULL), 0);
	ASSERT_EQ(got.n, 0);
	needs_done(&reserved);
	needs_done(&got);
	ipam_close(i);
}

static void test_unknown_pool_is_an_error(void **state)
{
	static const char *const x[] = {"x"};
	char text[200];

	(void)state;
	ASSERT_EQ(need(x, 1, 1, NULL, NULL, text), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			test_addresses_available_on_the_node_are_not_missing, setup, il_teardown),
		cmocka_unit_test_setup_teardown(test_reserved_addresses_are_not_available, setup,
						il_teardown),
		cmocka_unit_test_setup_teardown(
			test_backup_pool_is_used_after_the_first_is_exhausted, setup, il_teardown),
		cmocka_unit_test_setup_teardown(test_repeated_request_needs_no_address, setup,
						il_teardown),
		cmocka_unit_test_setup_teardown(test_address_in_its_reuse_delay_counts_as_available,
						setup, il_teardown),
		cmocka_unit_test_setup_teardown(test_pod_with_a_former_address_needs_no_new_address,
						setup, il_teardown),
		cmocka_unit_test_setup_teardown(test_unknown_pool_is_an_error, setup, il_teardown),
	};

	return T_RUN(tests, NULL, NULL);
}
