/* SPDX-License-Identifier: Apache-2.0 */
#include "testlib.h"

#include <errno.h>
#include <signal.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/loop.h"
#include "ipam/store.h"
#include "ipam/pools.h"
#include "ipam/pool/pool_cluster.h"
#include "ipam_lab.h"

#define POOL_10                                                                                    \
	"[pool rail0]\nsubnet=10.0.0.0/24\nips=10.0.0.10-10.0.0.19\ngateway=10.0.0.1\n"            \
	"route=10.9.0.0/16 via 10.0.0.2\n"

static const char *const rail0[] = {"rail0"};

static struct ip_request request(const char *id, const char *ifname)
{
	return (struct ip_request){
		.owner = {.container_id = id, .ifname = ifname}, .pools4 = rail0, .n_pools4 = 1};
}

static int allocate(const struct ip_request *a, size_t n, struct err *e)
{
	auto_ipam struct ipam *i = il_open(&il_lab);
	struct ip_allocation *g = NULL;
	size_t n_g = 0;
	int r = ipam_allocate(i, a, n, &g, &n_g, e);

	if (r == 0)
		ip_allocations_free(g, n_g);
	return r;
}

static void assert_take(const char *id, const char *ifname, const char *want)
{
	struct ipaddr a = il_take(&il_lab, id, ifname, "rail0");

	il_assert_ip(&a, want);
}

static void test_allocation_returns_address_pool_and_routes(void **state)
{
	struct ip_request a = request("c", "net1");
	struct ip_allocation *g;
	struct err e = ERR_INIT;
	size_t n;
	struct ipam *i;

	(void)state;
	il_pools(&il_lab, POOL_10);
	i = il_open(&il_lab);
	ASSERT_EQ(ipam_allocate(i, &a, 1, &g, &n, &e), 0);
	ASSERT_EQ(n, 1);
	il_assert_ip(&g[0].address.ip, "10.0.0.10");
	ASSERT_EQ(g[0].address.len, 24);
	il_assert_ip(&g[0].gateway, "10.0.0.1");
	ASSERT_STR_EQ(g[0].pool->name, "rail0");
	ASSERT_EQ(g[0].n_routes, 2);
	il_assert_ip(&g[0].routes[0].gw, "10.0.0.2");
	assert_true(ipnet_is_default(&g[0].routes[1].dst));
	il_assert_ip(&g[0].routes[1].gw, "10.0.0.1");
	assert_false(g[0].was_there);
	ip_allocations_free(g, n);
	a.clean_gateway = true;
	ASSERT_EQ(ipam_allocate(i, &a, 1, &g, &n, &e), 0);
	assert_true(g[0].was_there);
	ASSERT_EQ(g[0].n_routes, 1);
	il_assert_ip(&g[0].gateway, "10.0.0.1");
	ip_allocations_free(g, n);
	ipam_close(i);
}

static void test_repeated_request_gets_the_same_address(void **state)
{
	(void)state;
	il_pools(&il_lab, POOL_10);
	assert_take("a", "net1", "10.0.0.10");
	assert_take("b", "net1", "10.0.0.11");
	assert_take("a", "net1", "10.0.0.10");
	assert_take("a", "net2", "10.0.0.12");
	ASSERT_EQ(il_free(&il_lab, "a", "net1"), 1);
	ASSERT_EQ(il_free(&il_lab, "a", "net1"), 0);
	ASSERT_EQ(il_free(&il_lab, "unknown", NULL), 0);
	assert_take("a", "net2", "10.0.0.12");
	assert_take("b", "net1", "10.0.0.11");
	ASSERT_EQ(il_free(&il_lab, "a", NULL), 1);
}

static void test_released_addresses_wait_for_the_reuse_delay(void **state)
{
	(void)state;
	il_pools(&il_lab, POOL_10);
	assert_take("a", "net1", "10.0.0.10");
	il_free(&il_lab, "a", "net1");
	ASSERT_EQ(il_records(&il_lab, "cooldown"), 1);
	assert_take("b", "net1", "10.0.0.11");
	il_clock_ms += 60000;
	ASSERT_EQ(il_records(&il_lab, "cooldown"), 0);
	assert_take("c", "net1", "10.0.0.10");
}

/* If a job that uses all addresses of its pool restarts, its new containers get addresses at
 * once. */
static void test_reuse_delay_is_skipped_in_a_full_pool(void **state)
{
	char id[16];

	(void)state;
	il_pools(&il_lab, POOL_10);
	for (int i = 0; i < 10; i++) {
		snprintf(id, sizeof(id), "old%d", i);
		il_take(&il_lab, id, "net1", "rail0");
		il_clock_ms++;
	}
	for (int i = 9; i >= 0; i--) {
		snprintf(id, sizeof(id), "old%d", i);
		il_free(&il_lab, id, "net1");
		il_clock_ms++;
	}
	assert_take("new0", "net1", "10.0.0.19");
	assert_take("new1", "net1", "10.0.0.18");
}

static void test_reuse_delay_ends_when_the_clock_is_set_to_an_earlier_time(void **state)
{
	(void)state;
	il_pools(&il_lab, POOL_10);
	assert_take("a", "net1", "10.0.0.10");
	il_free(&il_lab, "a", "net1");
	il_clock_ms -= 365 * 86400000LL;
	ASSERT_EQ(il_records(&il_lab, "cooldown"), 0);
	assert_take("b", "net1", "10.0.0.10");
	assert_take("b", "net1", "10.0.0.10");
}

static void test_quarantined_address_is_not_allocated(void **state)
{
	struct mac other = {6, {0x0a, 0x58}};
	struct ipaddr a = t_ip("10.0.0.10");
	struct err e = ERR_INIT;
	struct ipam *i;

	(void)state;
	il_pools(&il_lab, POOL_10);
	assert_take("a", "net1", "10.0.0.10");
	i = il_open(&il_lab);
	ASSERT_EQ(ipam_quarantine(i, &a, &other, &e), 0);
	ipam_close(i);
	ASSERT_EQ(il_records(&il_lab, "quarantined"), 1);
	assert_take("a", "net1", "10.0.0.11");
	il_clock_ms += 599999;
	assert_take("b", "net1", "10.0.0.12");
	il_clock_ms += 1;
	ASSERT_EQ(il_records(&il_lab, "quarantined"), 0);
	assert_take("c", "net1", "10.0.0.10");
}

static struct ip_request sticky_request(const char *id, const char *pod)
{
	struct ip_request a = request(id, "net1");

	a.sticky = true;
	a.owner.pod_namespace = "ns";
	a.owner.pod_name = pod;
	return a;
}

static void assert_sticky(const char *id, const char *pod, const char *want)
{
	struct ip_request a = sticky_request(id, pod);
	struct err e = ERR_INIT;
	struct ip_allocation *g;
	size_t n;
	struct ipam *i = il_open(&il_lab);

	ASSERT_OK(ipam_allocate(i, &a, 1, &g, &n, &e), &e);
	il_assert_ip(&g[0].address.ip, want);
	ip_allocations_free(g, n);
	ipam_close(i);
}

static void test_sticky_address_is_retained_for_its_pod(void **state)
{
	(void)state;
	il_pools(&il_lab, POOL_10);
	assert_sticky("c0", "web-0", "10.0.0.10");
	assert_sticky("c1", "web-1", "10.0.0.11");
	ASSERT_EQ(il_free(&il_lab, "c0", "net1"), 1);
	ASSERT_EQ(il_records(&il_lab, "sticky"), 1);
	il_clock_ms += 3600000;
	assert_take("other", "net1", "10.0.0.12");
	assert_sticky("c0new", "web-0", "10.0.0.10");
	/* A late DEL of the first container must not release the address. */
	ASSERT_EQ(il_free(&il_lab, "c0", "net1"), 0);
	assert_sticky("c0new", "web-0", "10.0.0.10");
	/* The ADD of the third container arrives before the DEL of the second, which then
	 * releases nothing. */
	assert_sticky("c0third", "web-0", "10.0.0.10");
	ASSERT_EQ(il_free(&il_lab, "c0new", "net1"), 0);
	ASSERT_EQ(il_free(&il_lab, "c0third", "net1"), 1);
}

/* A release succeeds while a pool file is invalid or missing. */
static void test_release_works_without_readable_pools(void **state)
{
	struct err e = ERR_INIT;

	(void)state;
	il_pools(&il_lab, POOL_10);
	assert_take("a", "net1", "10.0.0.10");
	assert_take("b", "net1", "10.0.0.11");
	il_pools(&il_lab, "rubbish");
	ASSERT_EQ(il_free(&il_lab, "a", "net1"), 1);
	ASSERT_EQ(file_remove(&il_lab.root, "/pools/rails.conf", &e), 0);
	ASSERT_EQ(il_free(&il_lab, "b", NULL), 1);
	il_pools(&il_lab, POOL_10);
	ASSERT_EQ(il_records(&il_lab, "used"), 0);
}

static void test_invalid_pools_fail_the_request(void **state)
{
	struct ip_request a = request("a", "net1");
	struct err e = ERR_INIT;

	(void)state;
	assert_true(allocate(&a, 1, &e) < 0);
	ASSERT_HAS(e.text, "no pool in '/pools': put a file there");
	il_pools(&il_lab, "[pool rail0]\nsubnet=10.0.0.0/24\nips=10.0.0.9-10.0.0.1\n");
	assert_true(allocate(&a, 1, &e) < 0);
	ASSERT_EQ(e.kind, ERR_CONF);
	ASSERT_HAS(e.text, "rails.conf:3: ips: '10.0.0.9-10.0.0.1' is reversed");
}

static void test_addresses_are_allocated_for_all_rails_or_for_no_rail(void **state)
{
	struct ip_request a[11];
	char names[11][8];
	struct err e = ERR_INIT;

	(void)state;
	il_pools(&il_lab, POOL_10);
	for (int i = 0; i < 11; i++) {
		snprintf(names[i], sizeof(names[i]), "net%d", i);
		a[i] = request("c", names[i]);
	}
	assert_true(allocate(a, 11, &e) < 0);
	ASSERT_EQ(e.kind, ERR_AGAIN);
	ASSERT_HAS(e.text, "to NIC net10 from IPPools [rail0]: all IP addresses used out");
	ASSERT_EQ(il_records(&il_lab, "used"), 0);
	ASSERT_EQ(allocate(a, 10, &e), 0);
	ASSERT_EQ(il_records(&il_lab, "used"), 10);
	ASSERT_EQ(il_free(&il_lab, "c", NULL), 10);
}

/* fd00::1 to fd00::ffff:ffff:ffff:ffff are excluded or reserved; fd00:: is never in the pool. */
static void test_ipv6_pool_without_its_first_2_to_the_64_addresses_is_allocated_from(void **state)
{
	static const char *const names[] = {"six"};
	struct ip_request a = {
		.owner = {.container_id = "c", .ifname = "net1"}, .pools6 = names, .n_pools6 = 1};
	struct ip_allocation *g;
	struct err e = ERR_INIT;
	struct ipam *i;
	size_t n;

	(void)state;
	il_pools(&il_lab,
		 "[pool six]\nsubnet=fd00::/48\nexclude=fd00::1-fd00::ffff:ffff:ffff:fffe\n"
		 "[reserved]\nips=fd00::ffff:ffff:ffff:ffff\n");
	i = il_open(&il_lab);
	ASSERT_OK(ipam_allocate(i, &a, 1, &g, &n, &e), &e);
	il_assert_ip(&g[0].address.ip, "fd00:0:0:1::");
	ip_allocations_free(g, n);
	ipam_close(i);
	i = il_open(&il_lab);
	ASSERT_EQ(ipam_held(i, "c", "net1", &g, &n, &e), 0);
	ASSERT_EQ(n, 1);
	il_assert_ip(&g[0].address.ip, "fd00:0:0:1::");
	ASSERT_EQ(g[0].address.len, 48);
	ip_allocations_free(g, n);
	ipam_close(i);
}

static void test_gc_releases_addresses_of_attachments_that_are_not_valid(void **state)
{
	struct ipam_valid valid[] = {{"a", "net1"}, {"b", "net2"}};
	struct ip_request requests[4] = {request("a", "net1"), request("b", "net1"),
					 request("b", "net2"), request("d", "net1")};
	struct err e = ERR_INIT;
	struct ipam *i;

	(void)state;
	il_pools(&il_lab, POOL_10);
	for (int k = 0; k < 4; k++)
		requests[k].owner.network = k < 3 ? "rails" : "other";
	ASSERT_EQ(allocate(requests, 4, &e), 0);
	i = il_open(&il_lab);
	ASSERT_EQ(ipam_gc(i, "rails", valid, 2, &e), 1);
	ASSERT_EQ(ipam_gc(i, "rails", valid, 2, &e), 0);
	ipam_close(i);
	ASSERT_EQ(il_records(&il_lab, "used"), 3);
}

/* --- host-local's directory --- */

static void test_addresses_of_host_local_are_adopted(void **state)
{
	struct err e = ERR_INIT;
	struct ipam *i;
	struct ipaddr a = t_ip("10.0.0.11");

	(void)state;
	il_pools(&il_lab, POOL_10);
	il_write(&il_lab, "/hostlocal/rails/10.0.0.10", "old\r\nnet1");
	il_write(&il_lab, "/hostlocal/rails/10.0.0.11", "older\n");
	il_write(&il_lab, "/hostlocal/rails/last_reserved_ip.0", "10.0.0.11");
	il_write(&il_lab, "/hostlocal/cbr0/10.244.0.5", "old\r\neth0");
	assert_take("new", "net1", "10.0.0.12");
	ASSERT_EQ(il_records(&il_lab, "adopted"), 2);
	/* A release that names only the container releases addresses of unirail's pools. The
	 * address of eth0, which is in no pool of unirail, stays allocated. */
	ASSERT_EQ(il_free(&il_lab, "old", NULL), 1);
	assert_false(file_exists(&il_lab.root, "/hostlocal/rails/10.0.0.10"));
	assert_true(file_exists(&il_lab.root, "/hostlocal/cbr0/10.244.0.5"));
	assert_true(file_exists(&il_lab.root, "/hostlocal/rails/lock"));
	assert_take("next", "net1", "10.0.0.10");
	/* A file that an old release of host-local wrote names no interface, so a release of any
	 * interface of the container matches it. */
	ASSERT_EQ(il_free(&il_lab, "older", "net7"), 1);
	ASSERT_EQ(il_records(&il_lab, "adopted"), 0);
	assert_true(file_exists(&il_lab.root, "/hostlocal/rails/last_reserved_ip.0"));
	/* A release that names container and interface also deletes the file of a network whose
	 * addresses are in no pool of unirail. */
	ASSERT_EQ(il_free(&il_lab, "old", "eth0"), 1);
	assert_false(file_exists(&il_lab.root, "/hostlocal/cbr0/10.244.0.5"));
	il_write(&il_lab, "/hostlocal/rails/10.0.0.11", "x\r\nnet1");
	i = il_open(&il_lab);
	ASSERT_EQ(ipam_release_ip(i, &a, &e), 0);
	a = t_ip("10.244.0.9");
	il_write(&il_lab, "/hostlocal/cbr0/10.244.0.9", "x\r\neth0");
	ASSERT_EQ(ipam_release_ip(i, &a, &e), -ENOENT);
	ipam_close(i);
}

/* A crash of host-local may leave an empty file: its address counts as allocated, with an
 * unknown owner. */
static void test_address_of_an_empty_host_local_file_is_adopted(void **state)
{
	struct ipam_valid valid = {"c", "net1"};
	struct err e = ERR_INIT;
	struct ipam *i;

	(void)state;
	il_pools(&il_lab, POOL_10);
	il_write(&il_lab, "/hostlocal/rails/10.0.0.10", "");
	il_write(&il_lab, "/hostlocal/rails/10.0.0.11", "gone\r\nnet1");
	assert_take("new", "net1", "10.0.0.12");
	ASSERT_EQ(il_free(&il_lab, "other", NULL), 0);
	i = il_open(&il_lab);
	ASSERT_EQ(ipam_gc(i, "rails", &valid, 1, &e), 1);
	ipam_close(i);
	ASSERT_EQ(il_records(&il_lab, "adopted"), 1);
}

static void test_adopted_address_stays_adopted_after_compaction(void **state)
{
	struct err e = ERR_INIT;
	struct ipam *i;

	(void)state;
	il_pools(&il_lab, POOL_10);
	il_write(&il_lab, "/hostlocal/rails/10.0.0.10", "old\r\nnet1");
	assert_take("a", "net1", "10.0.0.11");
	i = il_open(&il_lab);
	ASSERT_EQ(ipam_load_pools(i, &e), 0);
	ASSERT_EQ(store_adopt(i, &e), 0);
	ASSERT_EQ(journal_compact(&i->j, il_clock_ms, 60000, 60000, &e), 0);
	ipam_close(i);
	ASSERT_EQ(il_records(&il_lab, "adopted"), 1);
	ASSERT_EQ(il_records(&il_lab, "used"), 1);
	ASSERT_EQ(il_free(&il_lab, "old", "net1"), 1);
	ASSERT_EQ(il_records(&il_lab, "adopted"), 0);
}

/* --- commands for administrators --- */

static void test_address_is_released_by_hand(void **state)
{
	struct ipaddr a = t_ip("10.0.0.10");
	struct err e = ERR_INIT;
	struct ipam *i;

	(void)state;
	il_pools(&il_lab, POOL_10);
	assert_take("a", "net1", "10.0.0.10");
	i = il_open(&il_lab);
	ASSERT_EQ(ipam_release_ip(i, &a, &e), 0);
	ASSERT_EQ(ipam_release_ip(i, &a, &e), -ENOENT);
	ASSERT_HAS(e.text, "10.0.0.10 has no owner");
	ipam_close(i);
	assert_take("b", "net1", "10.0.0.10"); /* no reuse delay after a manual release */
}

static void test_free_addresses_are_listed(void **state)
{
	struct err e = ERR_INIT;
	struct ipaddr *v;
	struct ipam *i;
	size_t n;

	(void)state;
	il_pools(&il_lab, POOL_10 "[reserved]\nips=10.0.0.12\n");
	assert_take("a", "net1", "10.0.0.10");
	i = il_open(&il_lab);
	ASSERT_EQ(ipam_load_pools(i, &e), 0);
	ASSERT_EQ(ipam_free_list(i, &ipam_pools(i)->v[0], 2, &v, &n, &e), 0);
	ASSERT_EQ(n, 2);
	il_assert_ip(&v[0], "10.0.0.11");
	il_assert_ip(&v[1], "10.0.0.13");
	free(v);
	ipam_close(i);
}

/* A migrated address is reserved for its pod, also after a restart of the agent. */
static void test_migrated_address_is_reserved_for_its_pod(void **state)
{
	struct ipam_owner web = {.ifname = "net1", .pod_namespace = "a", .pod_name = "web-0"};
	struct ipam_owner other = {.ifname = "net1", .pod_namespace = "a", .pod_name = "web-1"};
	static const char *const names[] = {"rail0"};
	struct ip_request a = {.owner = {.container_id = "c",
					 .ifname = "net1",
					 .pod_namespace = "a",
					 .pod_name = "web-0"},
			       .pools4 = names,
			       .n_pools4 = 1,
			       .sticky = true};
	struct ipnet ip = t_net("10.0.0.12/24"), used = t_net("10.0.0.10/24");
	struct err e = ERR_INIT;
	struct ip_allocation *g;
	struct ipam *i;
	size_t n;

	(void)state;
	il_pools(&il_lab, POOL_10);
	assert_take("x", "net1", "10.0.0.10");
	i = il_open(&il_lab);
	ASSERT_EQ(ipam_keep(i, &used, &web, "rail0", &e), -EADDRINUSE);
	ASSERT_HAS(e.text, "cannot retain 10.0.0.10 for 'a/web-0': it is in use");
	ASSERT_EQ(ipam_keep(i, &ip, &web, "rail0", &e), 0);
	ASSERT_EQ(ipam_keep(i, &ip, &web, "rail0", &e), 0);
	ASSERT_EQ(ipam_keep(i, &ip, &other, "rail0", &e), -EADDRINUSE);
	ipam_close(i);
	i = il_open(&il_lab);
	ASSERT_EQ(ipam_allocate(i, &a, 1, &g, &n, &e), 0);
	il_assert_ip(&g[0].address.ip, "10.0.0.12");
	ip_allocations_free(g, n);
	ipam_close(i);
}

/* The pools of a cluster are attached: first an empty set of pools, then a set with one pool,
 * which has two addresses in blocks of this node. */
static void test_addresses_are_allocated_from_attached_pools(void **state)
{
	static const char *const line =
		"{\"kind\":\"SpiderIPPool\",\"metadata\":{\"name\":\"p\"},\"spec\":{\"subnet\":"
		"\"10.0.0.0/24\",\"ips\":[\"10.0.0.10-10.0.0.19\"],\"default\":true}}";
	struct ip_request a = {.owner = {.container_id = "c", .ifname = "net1"}};
	struct ip_range r = {t_ip("10.0.0.12"), t_ip("10.0.0.13")};
	struct ip_set mine = {0}, adopted = {0};
	struct ipam_pools pools = {0};
	struct err e = ERR_INIT;
	struct ip_allocation *g;
	struct ipam *i;
	struct buf b;
	size_t n;

	(void)state;
	buf_init(&b, 4096);
	pool_kube_set(&line, 0, "ns", &pools.set);
	i = il_open(&il_lab);
	ipam_attach_pools(i, &pools);
	assert_true(ipam_allocate(i, &a, 1, &g, &n, &e) < 0);
	ASSERT_HAS(e.text, "no valid SpiderIPPool: create one");
	ipam_detach_pools(i, &pools);
	ipam_pools_done(&pools);
	pool_kube_set(&line, 1, "ns", &pools.set);
	ip_set_add(&mine, &r);
	pool_kube_cut(&pools.set.v[0], &mine, &adopted);
	ipam_attach_pools(i, &pools);
	ASSERT_EQ(ipam_allocate(i, &a, 1, &g, &n, &e), 0);
	il_assert_ip(&g[0].address.ip, "10.0.0.12");
	ip_allocations_free(g, n);
	ASSERT_EQ(ipam_check(i, &b, &e), 0);
	/* The node has lost the block of the address. */
	ipam_detach_pools(i, &pools);
	pool_kube_cut(&pools.set.v[0], &mine, &adopted);
	ipam_attach_pools(i, &pools);
	ASSERT_EQ(ipam_check(i, &b, &e), 1);
	ASSERT_HAS(b.p, "10.0.0.12 (container c net1) is in no block of this node");
	ipam_detach_pools(i, &pools);
	ipam_pools_done(&pools);
	ipam_close(i);
	buf_done(&b);
}

static int check(struct buf *b)
{
	auto_ipam struct ipam *i = il_open(&il_lab);
	struct err e = ERR_INIT;
	int n;

	buf_init(b, 1 << 16);
	n = ipam_check(i, b, &e);
	ASSERT_OK(n, &e);
	return n;
}

static void test_check_reports_inconsistent_allocations(void **state)
{
	struct ip_request a[3] = {request("a", "net1"), request("b", "net1"), request("c", "net1")};
	struct err e = ERR_INIT;
	struct buf b;

	(void)state;
	il_pools(&il_lab, POOL_10);
	a[0].owner.netns = "/run/netns/gone";
	a[1].owner.netns = "/pools";
	ASSERT_EQ(allocate(a, 3, &e), 0);
	ASSERT_EQ(check(&b), 1);
	ASSERT_HAS(b.p, "10.0.0.10 (container a net1) is allocated, but its network namespace "
			"'/run/netns/gone' does not exist");
	ASSERT_HAS(b.p, "'unirail pool release 10.0.0.10'");
	buf_done(&b);
	il_free(&il_lab, "a", "net1");
	ASSERT_EQ(check(&b), 0);
	buf_done(&b);
	il_pools(&il_lab, "[pool rail0]\nsubnet=10.0.0.0/24\nips=10.0.0.12-10.0.0.19\n"
			  "[reserved]\nips=10.0.0.12\n");
	il_write(&il_lab, "/hostlocal/rails/10.0.0.11", "other\r\nnet1");
	ASSERT_EQ(check(&b), 3);
	ASSERT_HAS(b.p, "10.0.0.11 (container b net1) is no longer in a pool");
	ASSERT_HAS(b.p, "10.0.0.12 (container c net1) is reserved now");
	ASSERT_HAS(b.p, "10.0.0.11 is allocated to container b net1 and, according to "
			"'/hostlocal/rails/10.0.0.11'");
	buf_done(&b);
}

/* --- concurrent processes --- */

enum { MANY = 200 };

static void child(int n, int go)
{
	struct ip_request a;
	struct err e = ERR_INIT;
	char id[16], c;

	if (read(go, &c, 1) < 0)
		_exit(2);
	snprintf(id, sizeof(id), "pod-%d", n);
	a = request(id, "net1");
	il_lab.paths.lock_ms = 120000; /* sanitizers and a slow disk take time */
	if (allocate(&a, 1, &e) < 0) {
		fprintf(stderr, "%s\n", e.text);
		_exit(1);
	}
	_exit(0);
}

static int run_many(int n)
{
	int go[2], failed = 0, status;

	ASSERT_EQ(pipe(go), 0);
	for (int i = 0; i < n; i++) {
		pid_t pid = fork();

		assert_true(pid >= 0);
		if (pid == 0) {
			close(go[1]);
			child(i, go[0]);
		}
	}
	close(go[0]);
	close(go[1]); /* all processes start at once */
	while (wait(&status) > 0)
		failed += status != 0;
	return failed;
}

/* Two hundred processes get two hundred addresses: each address once, and none is left. */
static void test_concurrent_processes_get_distinct_addresses(void **state)
{
	auto_free struct ipam_record *v = NULL;
	struct ip_request a = request("late", "net1");
	struct err e = ERR_INIT;
	size_t n = 0;
	struct ipam *i;

	(void)state;
	il_pools(&il_lab, "[pool rail0]\nsubnet=10.0.0.0/24\nips=10.0.0.1-10.0.0.200\n");
	ASSERT_EQ(run_many(MANY), 0);
	i = il_open(&il_lab);
	ASSERT_EQ(ipam_records(i, &v, &n, &e), 0);
	ASSERT_EQ(n, MANY);
	for (size_t k = 0; k < n; k++) {
		ASSERT_EQ(v[k].ip.b[3], k + 1);
		for (size_t m = 0; m < k; m++)
			assert_string_not_equal(v[k].container_id, v[m].container_id);
	}
	ipam_close(i);
	assert_true(allocate(&a, 1, &e) < 0);
	ASSERT_HAS(e.text, "pool 'rail0' has 200 addresses: 200 in use (container pod-");
}

/*
 * The process is killed at any moment: a caller that got a response has the address, and the store
 * remains usable.
 */
static void test_killed_processes_leave_a_usable_store(void **state)
{
	(void)state;
	il_pools(&il_lab, "[pool rail0]\nsubnet=10.0.0.0/16\n");
	for (int i = 0; i < 60; i++) {
		int counted[2], status;
		struct ipaddr a, got;
		char id[16];
		pid_t pid;

		snprintf(id, sizeof(id), "pod-%d", i);
		ASSERT_EQ(pipe(counted), 0);
		pid = fork();
		if (pid == 0) {
			for (int k = 0;; k++) {
				snprintf(id + strlen(id), 4, "x");
				id[12] = '\0';
				a = il_take(&il_lab, id, k % 2 ? "net1" : "net2", "rail0");
				if (k == 0 && write(counted[1], &a, sizeof(a)) < 0)
					_exit(1);
			}
		}
		close(counted[1]);
		ASSERT_EQ(read(counted[0], &a, sizeof(a)), sizeof(a));
		usleep((useconds_t)(i * 97 % 2000));
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
		close(counted[0]);
		snprintf(id + strlen(id), 4, "x");
		got = il_take(&il_lab, id, "net2", "rail0");
		assert_true(ip_eq(&a, &got));
	}
}

/* 700 containers are created and deleted within 12 hours: the journal is still short. */
static void test_journal_is_compacted(void **state)
{
	size_t n;
	char id[32];

	(void)state;
	il_pools(&il_lab, POOL_10);
	assert_take("stays", "net1", "10.0.0.10");
	for (int i = 0; i < 700; i++) {
		snprintf(id, sizeof(id), "container-%d", i);
		il_take(&il_lab, id, "net1", "rail0");
		il_free(&il_lab, id, "net1");
		il_clock_ms += 61000;
	}
	free(il_read(&il_lab, "/state/journal", &n));
	assert_true(n < 50000);
	assert_take("stays", "net1", "10.0.0.10");
}

static void test_locked_store_fails_after_the_timeout(void **state)
{
	struct ipam *i, *other = NULL;
	struct err e = ERR_INIT;

	(void)state;
	i = il_open(&il_lab);
	il_lab.paths.lock_ms = 20;
	ASSERT_EQ(ipam_open(&other, &il_lab.root, &il_lab.paths, &e), -EWOULDBLOCK);
	ASSERT_EQ(e.kind, ERR_AGAIN);
	ASSERT_HAS(e.text, "/state/lock");
	ipam_close(i);
	i = il_open(&il_lab);
	ipam_close(i);
}

static void test_damaged_journal_is_repaired(void **state)
{
	struct ipam *i = NULL;
	struct err e = ERR_INIT;
	struct buf message;

	(void)state;
	il_pools(&il_lab, POOL_10);
	assert_take("a", "net1", "10.0.0.10");
	il_write(&il_lab, "/state/journal", "allocate ip=10.0.0.15/24\nmore\n");
	ASSERT_EQ(ipam_open(&i, &il_lab.root, &il_lab.paths, &e), -EBADMSG);
	buf_init(&message, 4096);
	ASSERT_EQ(ipam_repair(&il_lab.root, &il_lab.paths, NULL, 0, &message, &e), 0);
	ASSERT_HAS(message.p, "line 1 is damaged: reserved 10.0.0.15/24");
	buf_done(&message);
	ASSERT_EQ(il_records(&il_lab, "used"), 1);
	assert_take("b", "net1", "10.0.0.10");
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, il_setup, il_teardown)

/* On a node of a cluster, ipam_recreate() gives blocks.json (the block log) a new id and deletes
 * its claims. The node then treats its blocks as after a loss of the log. */
static void test_recreate_moves_the_journal_aside_and_empties_the_block_log(void **state)
{
	auto_free char *aside = NULL, *again = NULL, *before = NULL, *after = NULL, *text = NULL;
	struct err e = ERR_INIT;
	struct ipaddr a;
	char **names = NULL;
	size_t n;

	(void)state;
	il_pools(&il_lab, "[pool rail0]\nsubnet = 10.0.0.0/24\nips = 10.0.0.10-10.0.0.12\n");
	a = il_take(&il_lab, "c1", "net1", "rail0");
	il_assert_ip(&a, "10.0.0.10");
	ASSERT_EQ(ipam_recreate(&il_lab.root, &il_lab.paths, "/state/blocks.json", &aside, &e), 0);
	assert_null(aside);
	assert_false(file_exists(&il_lab.root, "/state/blocks.json"));
	il_write(
		&il_lab, "/state/blocks.json",
		"{\"version\":1,\"node\":\"node1\",\"nodeUID\":\"u\",\"id\":\"1111111111111111\","
		"\"tokens\":7,\"seen\":91,\"restored\":true,\"claims\":[{\"name\":\"rail0-0\",\"pool\":"
		"\"rail0\",\"uid\":\"x\",\"token\":\"1111111111111111-6\",\"net\":\"10.0.0.0/28\","
		"\"state\":\"held\",\"released\":[]}],\"borrowed\":[]}\n");
	before = il_read(&il_lab, "/state/journal", &n);
	*strchr(before, '\n') = '\0';
	text = xasprintf("%s\n", before);
	for (int i = 0; i < 2 * RECREATED_RETAINED; i++) {
		il_clock_ms++;
		if (i == 0)
			il_write(&il_lab, "/state/journal", text);
		else
			il_write(&il_lab, "/state/journal", "x\n");
		free(take(aside));
		ASSERT_OK(ipam_recreate(&il_lab.root, &il_lab.paths, "/state/blocks.json", &aside,
					&e),
			  &e);
		assert_non_null(aside);
		again = il_read(&il_lab, aside, &n);
		ASSERT_STR_EQ(again, i ? "x\n" : text);
		free(take(again));
		assert_false(file_exists(&il_lab.root, "/state/journal"));
		assert_false(file_exists(&il_lab.root, "/state/journal.anchor"));
	}
	ASSERT_EQ(dir_list(&il_lab.root, "/state", &names, &n, NULL), 0);
	str_list_free(names, n);
	assert_in_range(n, RECREATED_RETAINED,
			/* the journals moved aside, and at most three other files: the anchor
			 * moved aside with the first journal, blocks.json and lock */
			RECREATED_RETAINED + 3);
	after = il_read(&il_lab, "/state/blocks.json", &n);
	assert_null(strstr(after, "1111111111111111"));
	ASSERT_HAS(after, "\"claims\":[],\"borrowed\":[]");
	ASSERT_HAS(after, "\"nodeUID\":\"u\"");
	ASSERT_HAS(after, "\"tokens\":7,\"seen\":91,\"restored\":true");
	/* The new journal is empty and valid. */
	a = il_take(&il_lab, "c2", "net1", "rail0");
	il_assert_ip(&a, "10.0.0.10");
	ASSERT_EQ(ipam_recreate(&il_lab.root, &il_lab.paths, "/state/blocks.json", &again, &e), 0);
	assert_null(again);
	/* If blocks.json is invalid, ipam_recreate() fails and leaves the journal in its place. */
	il_write(&il_lab, "/state/blocks.json", "{");
	il_write(&il_lab, "/state/journal", "x\n");
	ASSERT_EQ(ipam_recreate(&il_lab.root, &il_lab.paths, "/state/blocks.json", &again, &e),
		  -EBADMSG);
	assert_null(again);
	assert_true(file_exists(&il_lab.root, "/state/journal"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_allocation_returns_address_pool_and_routes),
		CASE(test_repeated_request_gets_the_same_address),
		CASE(test_released_addresses_wait_for_the_reuse_delay),
		CASE(test_reuse_delay_is_skipped_in_a_full_pool),
		CASE(test_reuse_delay_ends_when_the_clock_is_set_to_an_earlier_time),
		CASE(test_quarantined_address_is_not_allocated),
		CASE(test_sticky_address_is_retained_for_its_pod),
		CASE(test_release_works_without_readable_pools),
		CASE(test_recreate_moves_the_journal_aside_and_empties_the_block_log),
		CASE(test_invalid_pools_fail_the_request),
		CASE(test_addresses_are_allocated_for_all_rails_or_for_no_rail),
		CASE(test_ipv6_pool_without_its_first_2_to_the_64_addresses_is_allocated_from),
		CASE(test_gc_releases_addresses_of_attachments_that_are_not_valid),
		CASE(test_addresses_of_host_local_are_adopted),
		CASE(test_address_of_an_empty_host_local_file_is_adopted),
		CASE(test_adopted_address_stays_adopted_after_compaction),
		CASE(test_address_is_released_by_hand),
		CASE(test_free_addresses_are_listed),
		CASE(test_migrated_address_is_reserved_for_its_pod),
		CASE(test_addresses_are_allocated_from_attached_pools),
		CASE(test_check_reports_inconsistent_allocations),
		CASE(test_concurrent_processes_get_distinct_addresses),
		CASE(test_killed_processes_leave_a_usable_store),
		CASE(test_journal_is_compacted),
		CASE(test_locked_store_fails_after_the_timeout),
		CASE(test_damaged_journal_is_repaired),
	};

	return T_RUN(tests, NULL, NULL);
}
