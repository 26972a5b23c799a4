/* SPDX-License-Identifier: Apache-2.0 */
/* Pools read from files and attached to a store; the files are read again between requests. */
#include "testlib.h"

#include "base/alloc.h"
#include "ipam/pools.h"
#include "ipam_lab.h"

#define POOL(ips) "[pool a]\nsubnet=10.0.0.0/24\nips=" ips "\ndefault=yes\n"

static int take_one(struct ipam_pools *p, const char *id, struct err *e)
{
	struct ip_request wanted = {.owner = {.container_id = id, .ifname = "eth0", .pod_name = id},
				    .sticky = *id == 's'};
	struct ipam *i = il_open(&il_lab);
	struct ip_allocation *g = NULL;
	size_t n = 0;
	int r, last = 0;

	ipam_attach_pools(i, p);
	r = ipam_allocate(i, &wanted, 1, &g, &n, e);
	if (r == 0)
		last = (int)ip_num(&g[0].address.ip) & 255;
	ip_allocations_free(g, n);
	ipam_detach_pools(i, p);
	ipam_close(i);
	return r < 0 ? r : last;
}

static void test_pools_stay_in_use_when_their_file_becomes_invalid(void **state)
{
	struct ipam_pools p = {0};
	struct err e = ERR_INIT;

	(void)state;
	il_pools(&il_lab, POOL("10.0.0.5-10.0.0.7"));
	ASSERT_EQ(ipam_pools_read(&p, &il_lab.root, "/pools", &e), 0);
	ASSERT_EQ(take_one(&p, "a", &e), 5);
	/*
	 * A pool file is invalid: the pools that were read before stay in use. A change of the file
	 * has no effect before the next successful read.
	 */
	il_pools(&il_lab, POOL("11.0.0.5"));
	assert_true(ipam_pools_read(&p, &il_lab.root, "/pools", &e) < 0);
	ASSERT_HAS(e.text, "rails.conf:3");
	ASSERT_EQ(take_one(&p, "b", &e), 6);
	il_pools(&il_lab, POOL("10.0.0.20"));
	ASSERT_EQ(take_one(&p, "c", &e), 7);
	ASSERT_EQ(ipam_pools_read(&p, &il_lab.root, "/pools", &e), 0);
	ASSERT_EQ(take_one(&p, "d", &e), 20);
	ipam_pools_done(&p);
}

static void test_pool_file_invalid_at_start_fails_requests_until_corrected(void **state)
{
	struct ipam_pools p = {0};
	struct err e = ERR_INIT;

	(void)state;
	il_pools(&il_lab, POOL("11.0.0.5"));
	assert_true(ipam_pools_read(&p, &il_lab.root, "/pools", &e) < 0);
	for (int i = 0; i < 2; i++) {
		err_clear(&e);
		assert_true(take_one(&p, "a", &e) < 0);
		ASSERT_HAS(e.text, "rails.conf:3");
	}
	il_pools(&il_lab, POOL("10.0.0.5"));
	ASSERT_EQ(ipam_pools_read(&p, &il_lab.root, "/pools", &e), 0);
	ASSERT_EQ(take_one(&p, "a", &e), 5);
	ipam_pools_done(&p);
}

static void test_container_with_a_sticky_address_is_recognized(void **state)
{
	struct ipam_pools p = {0};
	struct ipam *i;

	(void)state;
	il_pools(&il_lab, POOL("10.0.0.5-10.0.0.7"));
	ASSERT_EQ(ipam_pools_read(&p, &il_lab.root, "/pools", NULL), 0);
	assert_true(take_one(&p, "s1", NULL) > 0 && take_one(&p, "x1", NULL) > 0);
	i = il_open(&il_lab);
	assert_true(ipam_holds_sticky(i, "s1"));
	assert_false(ipam_holds_sticky(i, "x1"));
	ASSERT_STR_EQ(ipam_node(i), "node1");
	ipam_close(i);
	ipam_pools_done(&p);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, il_setup, il_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_pools_stay_in_use_when_their_file_becomes_invalid),
		TEST(test_pool_file_invalid_at_start_fails_requests_until_corrected),
		TEST(test_container_with_a_sticky_address_is_recognized),
	};

	return T_RUN(tests, NULL, NULL);
}
