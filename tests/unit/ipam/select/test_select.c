/* SPDX-License-Identifier: Apache-2.0 */
#include "testlib.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "ipam/select/select_pool.h"
#include "ipam_lab.h"

enum { NOW = 1000000 };

/* Plain structs: pools without files, leases without a journal. */
static struct pool pools[16];
static struct pool_set set = {.v = pools, .reuse_delay_ms = 60000, .quarantine_ms = 600000};
static struct lease_table leases;
static struct select_facts facts = {.pools = &set,
				    .leases = &leases,
				    .node = "node1",
				    .now_ms = NOW};

static struct pool *pool(const char *name, const char *subnet, const char *first, const char *last)
{
	struct pool *p = &pools[set.n++];
	struct ip_range r;

	*p = (struct pool){.name = xstrdup(name), .reuse_delay_ms = -1, .subnet = t_net(subnet)};
	p->family = p->subnet.ip.family;
	if (first) {
		r = (struct ip_range){t_ip(first), t_ip(last)};
		ip_set_add(&p->ips, &r);
		ip_set_add(&p->usable, &r);
	}
	return p;
}

static void bind(char ***v, size_t *n, const char *name)
{
	VEC_PUSH(*v, *n) = xstrdup(name);
}

static void lease(const char *ip, enum lease_state state, int64_t at, const char *id,
		  const char *ifname)
{
	struct lease l = LEASE_INIT;

	l.address = (struct ipnet){t_ip(ip), 24};
	l.state = state;
	l.at_ms = at;
	l.container_id = id;
	l.ifname = ifname;
	lease_put(&leases, &l);
}

static int teardown(void **state)
{
	(void)state;
	for (size_t i = 0; i < set.n; i++)
		pool_done(&pools[i]);
	set.n = 0;
	lease_table_done(&leases);
	return 0;
}

static struct ip_request request(const char *id, const char *ifname, const char *const *names)
{
	struct ip_request a = {.owner = {.container_id = id, .ifname = ifname}, .pools4 = names};

	while (names && names[a.n_pools4])
		a.n_pools4++;
	return a;
}

#define NAMES(...) ((const char *const[]){__VA_ARGS__, NULL})

static void assert_order(const struct ip_request *a, const char *want)
{
	struct pool_list l = {0};
	struct err e = ERR_INIT;
	struct buf b;

	ASSERT_OK(select_pools(&facts, a, 4, &l, &e), &e);
	buf_init(&b, 1000);
	select_describe_pools(&l, &b);
	ASSERT_STR_EQ(b.p, want);
	buf_done(&b);
	free(l.v);
}

static void assert_refused(const struct ip_request *a, size_t n, enum err_kind kind,
			   const char *text)
{
	struct decision d;
	struct err e = ERR_INIT;

	assert_true(select_addresses(&facts, a, n, &d, &e) < 0);
	ASSERT_HAS(e.text, text);
	ASSERT_EQ(e.kind, kind);
}

static struct decision decide(const struct ip_request *a, size_t n)
{
	struct decision d;
	struct err e = ERR_INIT;

	ASSERT_OK(select_addresses(&facts, a, n, &d, &e), &e);
	return d;
}

/* Fails the test unless the address `want` is selected. */
static void assert_pick(const struct ip_request *a, const char *want)
{
	struct decision d = decide(a, 1);

	ASSERT_EQ(d.n_picks, 1);
	il_assert_ip(&d.picks[0].address.ip, want);
	decision_done(&d);
}

/* --- pools --- */

static void test_pools_are_used_in_listed_order(void **state)
{
	struct ip_request a;

	(void)state;
	pool("r2", "10.0.2.0/24", NULL, NULL);
	pool("r0", "10.0.0.0/24", NULL, NULL);
	pool("spare", "10.0.9.0/24", NULL, NULL);
	pool("r1", "10.0.1.0/24", NULL, NULL);
	pool("r6", "fd00::/64", NULL, NULL);
	a = request("c", "net1", NAMES("r2", "r1", "r0"));
	assert_order(&a, "[r2 r1 r0]");
	/* The pools that match a wildcard are in order of names. A pool that is already in the
	 * list, or is of the other address family, is not added. */
	a = request("c", "net1", NAMES("spare", "r*", "r1"));
	assert_order(&a, "[spare r0 r1 r2]");
	a = request("c", "net1", NAMES("r[1-2]", "r*"));
	assert_order(&a, "[r1 r2 r0]");
	a = request("c", "net1", NAMES("x*"));
	assert_order(&a, "[]");
	assert_refused(&a, 1, ERR_CONF, "none of the 5 pools matches [x*][] for NIC net1");
}

static void test_bound_pools_come_first_in_stable_order(void **state)
{
	struct ip_request a = request("c", "net1", NAMES("a", "ns", "b", "node", "c"));
	struct pool *p;

	(void)state;
	pool("a", "10.0.2.0/24", NULL, NULL);
	pool("b", "10.0.0.0/24", NULL, NULL);
	pool("c", "10.0.9.0/24", NULL, NULL);
	p = pool("ns", "10.0.1.0/24", NULL, NULL);
	bind(&p->namespaces, &p->n_namespaces, "team");
	p = pool("node", "10.0.3.0/24", NULL, NULL);
	bind(&p->nodes, &p->n_nodes, "node1");
	a.owner.pod_namespace = "team";
	/* Repeated, because in Spiderpool the order differs from run to run. */
	for (int i = 0; i < 20; i++)
		assert_order(&a, "[node ns a b c]");
}

static void test_unsuitable_pools_are_skipped(void **state)
{
	struct ip_request a = request("c", "net1", NAMES("other", "team", "off", "v6"));
	struct pool *p;

	(void)state;
	p = pool("other", "10.0.2.0/24", "10.0.2.1", "10.0.2.9");
	bind(&p->nodes, &p->n_nodes, "node2");
	p = pool("team", "10.0.3.0/24", "10.0.3.1", "10.0.3.9");
	bind(&p->namespaces, &p->n_namespaces, "team");
	pool("off", "10.0.4.0/24", "10.0.4.1", "10.0.4.9")->disabled = true;
	pool("v6", "fd00::/64", NULL, NULL);
	assert_refused(
		&a, 1, ERR_CONF,
		"no IPPool available, all IPv4 IPPools [other team off v6] of net1 filtered "
		"out: [unmatched Node name of IPPool other (this node is 'node1'), unmatched "
		"Namespace name of IPPool team, disabled IPPool off, expect an IPv4 IPPool, but "
		"the version of the IPPool v6 is IPv6]");
	a.owner.pod_namespace = "team";
	assert_pick(&a, "10.0.3.1");
}

static void test_unknown_pool_is_refused_with_a_suggestion(void **state)
{
	struct ip_request a = request("c", "net1", NAMES("rail0", "rial1"));

	(void)state;
	pool("rail0", "10.0.2.0/24", "10.0.2.1", "10.0.2.9");
	pool("rail1", "10.0.3.0/24", "10.0.3.1", "10.0.3.9");
	assert_refused(&a, 1, ERR_CONF, "no pool 'rial1'; did you mean 'rail1'?");
	a = request("c", "net1", NAMES("zzzzzzzz"));
	assert_refused(&a, 1, ERR_CONF, "no pool 'zzzzzzzz' among 2");
	a = request("c", "net1", NAMES("r[", "r*]"));
	assert_refused(&a, 1, ERR_CONF, "no pool 'r['");
	a = request("c", "net1", NAMES("[]x]"));
	assert_refused(&a, 1, ERR_CONF, "failed to match wildcard: IPv4 PoolName pattern '[]x]'");
}

/* Each wildcard is compared with all pools, so the number of wildcards is limited. */
static void test_too_many_wildcards_are_refused(void **state)
{
	const char *names[66] = {0};
	struct ip_request a;

	(void)state;
	pool("rail0", "10.0.2.0/24", "10.0.2.1", "10.0.2.9");
	for (size_t i = 0; i < 64; i++)
		names[i] = "rail*";
	a = request("c", "net1", names);
	assert_order(&a, "[rail0]");
	names[64] = "rail*";
	a = request("c", "net1", names);
	assert_refused(&a, 1, ERR_CONF, "more than 64 wildcards in a list of pools");
}

static void test_default_pools_are_used_without_a_selection(void **state)
{
	struct ip_request a = request("c", "net1", NULL);
	struct decision d;

	(void)state;
	pool("a", "10.0.2.0/24", "10.0.2.1", "10.0.2.9");
	assert_refused(&a, 1, ERR_CONF, "no pool selection rules of any type are specified");
	pool("b", "10.0.3.0/24", "10.0.3.1", "10.0.3.9")->is_default = true;
	assert_pick(&a, "10.0.3.1");
	pool("c", "fd00::/64", "fd00::1", "fd00::ffff:ffff:ffff:ffff")->is_default = true;
	d = decide(&a, 1);
	ASSERT_EQ(d.n_picks, 2);
	il_assert_ip(&d.picks[1].address.ip, "fd00::1");
	ASSERT_EQ(d.picks[1].address.len, 64);
	decision_done(&d);
}

static void test_pools_must_match_the_masters_subnet(void **state)
{
	struct ipnet nets[] = {t_net("fe80::1/64"), t_net("10.0.3.200/24")};
	struct ip_request a = request("c", "net1", NULL);

	(void)state;
	pool("a", "10.0.2.0/24", "10.0.2.1", "10.0.2.9")->is_default = true;
	pool("b", "10.0.3.0/24", "10.0.3.1", "10.0.3.9")->is_default = true;
	a.match_subnet = true;
	a.master = "eth1";
	a.nets = nets;
	a.n_nets = 2;
	assert_pick(&a, "10.0.3.1");
	a.n_nets = 1;
	assert_refused(
		&a, 1, ERR_CONF,
		"the ippool's subnet \"10.0.2.0/24\" of a not found on master \"eth1\", which "
		"has fe80::1/64");
	a.n_nets = 0;
	assert_refused(&a, 1, ERR_CONF, "which has no address");
}

/* --- addresses --- */

static void test_rails_of_one_pool_get_distinct_addresses(void **state)
{
	static const char *const rails[] = {"rails", NULL};
	struct ip_request a[8];
	char names[8][8];
	struct decision d;
	char text[32];

	(void)state;
	/* Spiderpool allocates the address of the pod's first rail to its second rail as well. */
	pool("rails", "10.0.0.0/24", "10.0.0.1", "10.0.0.99");
	lease("10.0.0.3", LEASE_USED, NOW, "other", "net1");
	for (int i = 0; i < 8; i++) {
		snprintf(names[i], sizeof(names[i]), "net%d", i + 1);
		a[i] = request("c", names[i], rails);
	}
	d = decide(a, 8);
	ASSERT_EQ(d.n_picks, 8);
	ASSERT_EQ(d.n_changes, 8);
	for (int i = 0; i < 8; i++) {
		snprintf(text, sizeof(text), "10.0.0.%d", i < 2 ? i + 1 : i + 2);
		il_assert_ip(&d.picks[i].address.ip, text);
		ASSERT_EQ(d.picks[i].request, i);
		ASSERT_STR_EQ(d.changes[i].ifname, names[i]);
	}
	decision_done(&d);
}

static void test_backup_pool_is_used_when_the_first_is_full(void **state)
{
	struct ip_request a = request("c", "net1", NAMES("a", "b"));

	(void)state;
	pool("a", "10.0.0.0/24", "10.0.0.1", "10.0.0.2");
	pool("b", "10.0.1.0/24", "10.0.1.1", "10.0.1.1");
	lease("10.0.0.1", LEASE_USED, NOW, "x", "net1");
	assert_pick(&a, "10.0.0.2");
	lease("10.0.0.2", LEASE_USED, NOW, "y", "net1");
	assert_pick(&a, "10.0.1.1");
	lease("10.0.1.1", LEASE_QUARANTINED, NOW, "", "");
	assert_refused(
		&a, 1, ERR_AGAIN,
		"failed to allocate any IPv4 IP address to NIC net1 from IPPools [a b]: all IP "
		"addresses used out: pool 'a' has 2 addresses: 2 in use (container x net1 "
		"10.0.0.1, ...); pool 'b' has 1 addresses: 0 in use, 1 in quarantine after a "
		"conflict: add addresses, or list their owners with 'unirail pool show a'");
	a = request("c", "net1", NAMES("a"));
	assert_refused(&a, 1, ERR_AGAIN, "(container x net1 10.0.0.1, container y net1 10.0.0.2)");
}

static void test_released_address_waits_for_the_reuse_delay(void **state)
{
	struct ip_request a = request("c", "net1", NAMES("a", "b"));
	struct pool *p = pool("a", "10.0.0.0/24", "10.0.0.1", "10.0.0.3");

	(void)state;
	pool("b", "10.0.1.0/24", "10.0.1.1", "10.0.1.9");
	lease("10.0.0.1", LEASE_FREE, NOW - 59999, "", "");
	assert_pick(&a, "10.0.0.2");
	lease("10.0.0.1", LEASE_FREE, NOW - 60000, "", "");
	assert_pick(&a, "10.0.0.1");
	/* If the reuse delay of every released address of pool 'a' has not ended, the address
	 * that was released longest ago is used before any address of pool 'b'. */
	lease("10.0.0.1", LEASE_FREE, NOW - 10, "", "");
	lease("10.0.0.2", LEASE_FREE, NOW - 30, "", "");
	lease("10.0.0.3", LEASE_FREE, NOW - 20, "", "");
	assert_pick(&a, "10.0.0.2");
	p->reuse_delay_ms = 15;
	assert_pick(&a, "10.0.0.2");
	p->reuse_delay_ms = 5;
	assert_pick(&a, "10.0.0.1");
	/* A clock that was set to an earlier time does not delay the reuse for years. */
	p->reuse_delay_ms = -1;
	lease("10.0.0.1", LEASE_FREE, NOW + 86400000, "", "");
	assert_pick(&a, "10.0.0.1");
}

static void test_quarantined_address_is_not_selected(void **state)
{
	struct ip_request a = request("c", "net1", NAMES("a"));

	(void)state;
	pool("a", "10.0.0.0/24", "10.0.0.1", "10.0.0.1");
	lease("10.0.0.1", LEASE_QUARANTINED, NOW - 599999, "", "");
	assert_refused(&a, 1, ERR_AGAIN, "1 in quarantine");
	lease("10.0.0.1", LEASE_QUARANTINED, NOW - 600000, "", "");
	assert_pick(&a, "10.0.0.1");
	lease("10.0.0.1", LEASE_QUARANTINED, NOW + 1, "", "");
	assert_pick(&a, "10.0.0.1");
}

static void test_same_attachment_gets_its_address_again(void **state)
{
	struct ip_request a = request("c", "net1", NAMES("a"));
	struct ipaddr want = t_ip("10.0.0.7");
	struct decision d;

	(void)state;
	pool("a", "10.0.0.0/24", "10.0.0.1", "10.0.0.9");
	lease("10.0.0.5", LEASE_USED, NOW, "c", "net1");
	d = decide(&a, 1);
	il_assert_ip(&d.picks[0].address.ip, "10.0.0.5");
	assert_true(d.picks[0].was_there);
	ASSERT_EQ(d.n_changes, 0);
	decision_done(&d);
	a.want = &want;
	a.n_want = 1;
	assert_refused(&a, 1, ERR_CONF, "requests 10.0.0.7 but has 10.0.0.5");
	/* Another interface or another container gets another address. */
	a = request("c", "net2", NAMES("a"));
	assert_pick(&a, "10.0.0.1");
	a = request("d", "net1", NAMES("a"));
	assert_pick(&a, "10.0.0.1");
}

static void test_new_container_of_a_pod_gets_a_new_address(void **state)
{
	struct ip_request a = request("new", "net1", NAMES("a"));
	struct lease l = LEASE_INIT;

	(void)state;
	pool("a", "10.0.0.0/24", "10.0.0.1", "10.0.0.9");
	a.owner.pod_namespace = l.pod_namespace = "ns";
	a.owner.pod_name = l.pod_name = "web-0";
	l.address = t_net("10.0.0.1/24");
	l.container_id = "old";
	l.ifname = "net1";
	lease_put(&leases, &l);
	assert_pick(&a, "10.0.0.2");
}

static void sticky_lease(const char *ip, enum lease_state state, const char *id, const char *pod)
{
	struct lease l = LEASE_INIT;

	l.address = (struct ipnet){t_ip(ip), 24};
	l.state = state;
	l.sticky = true;
	l.container_id = id;
	l.ifname = "net1";
	l.pod_namespace = "ns";
	l.pod_name = pod;
	lease_put(&leases, &l);
}

static void test_sticky_address_is_selected_for_its_pod(void **state)
{
	struct ip_request a = request("new", "net1", NAMES("a"));
	struct decision d;

	(void)state;
	pool("a", "10.0.0.0/24", "10.0.0.1", "10.0.0.9");
	pool("b", "10.0.1.0/24", "10.0.1.1", "10.0.1.9");
	a.sticky = true;
	assert_refused(&a, 1, ERR_ENV, "sticky addresses need K8S_POD_NAME");
	a.owner.pod_namespace = "ns";
	a.owner.pod_name = "web-0";
	sticky_lease("10.0.0.5", LEASE_RETAINED, "", "web-0");
	sticky_lease("10.0.0.1", LEASE_RETAINED, "", "web-1");
	assert_pick(&a, "10.0.0.5");
	/* The former container of the pod loses the address. */
	sticky_lease("10.0.0.5", LEASE_USED, "old", "web-0");
	assert_pick(&a, "10.0.0.5");
	/* An address that is retained for another pod is skipped. */
	a.owner.pod_name = "web-2";
	assert_pick(&a, "10.0.0.2");
	/* The decision that allocates another address also releases the pod's retained address,
	 * if the request is not sticky or does not list the pool of the retained address. */
	a.owner.pod_name = "web-1";
	a.sticky = false;
	d = decide(&a, 1);
	il_assert_ip(&d.picks[0].address.ip, "10.0.0.2");
	ASSERT_EQ(d.n_changes, 2);
	il_assert_ip(&d.changes[0].address.ip, "10.0.0.1");
	ASSERT_EQ(d.changes[0].state, LEASE_FREE);
	decision_done(&d);
	a.sticky = true;
	a.pools4 = NAMES("b");
	d = decide(&a, 1);
	il_assert_ip(&d.picks[0].address.ip, "10.0.1.1");
	ASSERT_EQ(d.n_changes, 2);
	decision_done(&d);
}

static void test_requested_address_is_selected_or_refused(void **state)
{
	struct ip_request a = request("c", "net1", NAMES("a"));
	struct ipaddr want = t_ip("10.0.0.7");
	struct ip_request two[2];

	(void)state;
	pool("a", "10.0.0.0/24", "10.0.0.1", "10.0.0.9");
	pool("b", "10.0.1.0/24", "10.0.1.1", "10.0.1.9");
	a.want = &want;
	a.n_want = 1;
	assert_pick(&a, "10.0.0.7");
	lease("10.0.0.7", LEASE_FREE, NOW, "", "");
	assert_pick(&a, "10.0.0.7"); /* the reuse delay does not apply to a requested address */
	two[0] = two[1] = a;
	two[1].owner.ifname = "net2";
	assert_refused(two, 2, ERR_AGAIN, "which is allocated to another rail of this pod");
	lease("10.0.0.7", LEASE_USED, NOW, "other", "net1");
	assert_refused(&a, 1, ERR_AGAIN,
		       "requests 10.0.0.7 of pool 'a', which is allocated to container other net1");
	lease("10.0.0.7", LEASE_QUARANTINED, NOW, "", "");
	assert_refused(&a, 1, ERR_AGAIN, "in quarantine after a conflict");
	want = t_ip("10.0.1.5");
	assert_refused(&a, 1, ERR_CONF, "requests 10.0.1.5, which is in none of its pools [a]");
}

/* --- pools that nodes share --- */

static void range_of(struct ip_set *s, const char *first, const char *last)
{
	struct ip_range r = {t_ip(first), t_ip(last)};

	ip_set_add(s, &r);
}

/* The pool has .1 to .9: .8 is reserved, .6 and .7 are adopted; .1 to .3 and .6 are in this node's
 * blocks. */
static struct pool *shared_pool(void)
{
	struct pool *p = pool("s", "10.0.0.0/24", NULL, NULL);

	p->shared = true;
	range_of(&p->ips, "10.0.0.1", "10.0.0.9");
	range_of(&p->open, "10.0.0.1", "10.0.0.5");
	range_of(&p->open, "10.0.0.9", "10.0.0.9");
	range_of(&p->usable, "10.0.0.1", "10.0.0.3");
	range_of(&p->adopted, "10.0.0.6", "10.0.0.7");
	range_of(&p->adopted_here, "10.0.0.6", "10.0.0.6");
	p->records = xcalloc(2, sizeof(*p->records));
	p->n_records = 2;
	for (int i = 0; i < 2; i++) {
		p->records[i].ip = t_ip(i ? "10.0.0.7" : "10.0.0.6");
		p->records[i].pod = pool_record_key(i ? "ns/web-1" : "ns/web-0");
		p->records[i].uid = pool_record_key(i ? "uid-1" : "uid-0");
	}
	return p;
}

static void test_full_shared_pool_lists_its_users(void **state)
{
	struct ip_request a = request("c", "net1", NAMES("s"));

	(void)state;
	shared_pool();
	for (int i = 1; i <= 3; i++) {
		char text[16];

		snprintf(text, sizeof(text), "10.0.0.%d", i);
		assert_pick(&a, text);
		lease(text, LEASE_USED, NOW, "other", "net1");
	}
	assert_refused(
		&a, 1, ERR_AGAIN,
		"pool 's' has 9 addresses: 3 in use (container other net1 10.0.0.1, container "
		"other net1 10.0.0.2, container other net1 10.0.0.3), 2 allocated before unirail, 1 "
		"reserved, 3 are in blocks of this node");
}

/* An address in another node's block may become available; a reserved address cannot. */
static void test_requested_address_of_a_shared_pool_must_be_in_a_local_block(void **state)
{
	struct ip_request a = request("c", "net1", NAMES("s"));
	struct ipaddr want = t_ip("10.0.0.2");

	(void)state;
	shared_pool();
	a.want = &want;
	a.n_want = 1;
	assert_pick(&a, "10.0.0.2");
	want = t_ip("10.0.0.9");
	assert_refused(&a, 1, ERR_AGAIN,
		       "NIC net1 requests 10.0.0.9 of pool 's', which is in no block of this node");
	want = t_ip("10.0.0.8");
	assert_refused(&a, 1, ERR_CONF,
		       "NIC net1 requests 10.0.0.8, which is in none of its pools");
}

/* want: the address outside this node's blocks that Spiderpool's records assign to the pod;
 * NULL: none. */
static void assert_away(const struct ip_request *a, const char *want)
{
	const struct select_facts f = facts;
	struct pool_list l;
	struct ipaddr ip;

	ASSERT_EQ(select_pools(&f, a, 4, &l, NULL), 0);
	assert_true((select_own_away(&f, a, &l, &ip) != NULL) == (want != NULL));
	if (want)
		il_assert_ip(&ip, want);
	free(l.v);
}

/* An adopted address is allocated only to the pod that its record names. */
static void test_adopted_address_is_selected_for_its_owner_only(void **state)
{
	struct ip_request a = request("c", "net1", NAMES("s")), two[2];
	struct decision d;

	(void)state;
	shared_pool();
	a.owner.pod_namespace = "ns";
	a.owner.pod_name = "web-0";
	a.owner.pod_uid = "uid-0";
	assert_pick(&a, "10.0.0.6");
	/* Another pod with the same name gets the address only if its request is sticky. */
	a.owner.pod_uid = "uid-9";
	assert_pick(&a, "10.0.0.1");
	a.sticky = true;
	assert_pick(&a, "10.0.0.6");
	a.owner.pod_uid = NULL;
	assert_pick(&a, "10.0.0.6");
	a.owner.pod_namespace = "other";
	assert_pick(&a, "10.0.0.1");
	/* 10.0.0.7, the recorded address of web-1, is not in this node's blocks. */
	a.owner = (struct ipam_owner){.container_id = "c",
				      .ifname = "net1",
				      .pod_namespace = "ns",
				      .pod_name = "web-1",
				      .pod_uid = "uid-1"};
	assert_pick(&a, "10.0.0.1");
	a.sticky = false;
	assert_away(&a, "10.0.0.7");
	a.owner.pod_uid = "uid-9";
	assert_away(&a, NULL);
	a.sticky = true;
	assert_away(&a, "10.0.0.7");
	/* A second interface of the pod gets another address. */
	a.owner.pod_name = "web-0";
	two[0] = two[1] = a;
	two[1].owner.ifname = "net2";
	d = decide(two, 2);
	il_assert_ip(&d.picks[0].address.ip, "10.0.0.6");
	il_assert_ip(&d.picks[1].address.ip, "10.0.0.1");
	decision_done(&d);
	sticky_lease("10.0.0.6", LEASE_USED, "x", "web-3");
	assert_pick(&a, "10.0.0.1");
	/* unirail has allocated the adopted address and retains it for the pod, so the pod gets
	 * it again. */
	sticky_lease("10.0.0.6", LEASE_RETAINED, "", "web-0");
	assert_pick(&a, "10.0.0.6");
}

static void test_retained_address_in_a_block_of_another_node_is_not_released(void **state)
{
	struct ip_request a = request("c", "net1", NAMES("s"));
	struct decision d;

	(void)state;
	shared_pool();
	a.sticky = true;
	a.owner.pod_namespace = "ns";
	a.owner.pod_name = "db-0";
	sticky_lease("10.0.0.5", LEASE_RETAINED, "", "db-0");
	d = decide(&a, 1);
	il_assert_ip(&d.picks[0].address.ip, "10.0.0.1");
	ASSERT_EQ(d.n_changes, 1);
	decision_done(&d);
	/* A retained address that is reserved now can no longer be allocated, so it is released. */
	sticky_lease("10.0.0.8", LEASE_RETAINED, "", "db-0");
	d = decide(&a, 1);
	ASSERT_EQ(d.n_changes, 2);
	decision_done(&d);
}

static void test_interface_requested_twice_is_refused(void **state)
{
	struct ip_request a[2] = {request("c", "net1", NAMES("a")),
				  request("c", "net1", NAMES("a"))};

	(void)state;
	pool("a", "10.0.0.0/24", "10.0.0.1", "10.0.0.9");
	assert_refused(a, 2, ERR_CONF, "NIC net1 is requested twice");
}

/* The last rail fails, so no rail gets an address. */
static void test_addresses_are_selected_for_all_rails_or_for_no_rail(void **state)
{
	struct ip_request a[3] = {request("c", "net1", NAMES("a")),
				  request("c", "net2", NAMES("a")),
				  request("c", "net3", NAMES("a"))};

	(void)state;
	pool("a", "10.0.0.0/24", "10.0.0.1", "10.0.0.2");
	assert_refused(a, 3, ERR_AGAIN,
		       "to NIC net3 from IPPools [a]: all IP addresses used out: pool 'a' has 2 "
		       "addresses: 0 in use (without the addresses already selected for this pod)");
}

static void test_leases_are_found_by_address(void **state)
{
	struct ipaddr a;

	(void)state;
	for (uint32_t i = 0; i < 5000; i++) {
		struct lease l = LEASE_INIT;

		l.address = (struct ipnet){ip_from_num(i % 2 ? 4 : 6, 0x0a000000U + i), 24};
		l.at_ms = i;
		lease_put(&leases, &l);
	}
	for (uint32_t i = 0; i < 5000; i++) {
		a = ip_from_num(i % 2 ? 4 : 6, 0x0a000000U + i);
		assert_non_null(lease_find(&leases, &a));
		ASSERT_EQ(lease_find(&leases, &a)->at_ms, i);
	}
	a = t_ip("10.0.0.0");
	assert_null(lease_find(&leases, &a));
	ASSERT_EQ(leases.n, 5000);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, t_log_off, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_pools_are_used_in_listed_order),
		CASE(test_bound_pools_come_first_in_stable_order),
		CASE(test_unsuitable_pools_are_skipped),
		CASE(test_unknown_pool_is_refused_with_a_suggestion),
		CASE(test_too_many_wildcards_are_refused),
		CASE(test_default_pools_are_used_without_a_selection),
		CASE(test_pools_must_match_the_masters_subnet),
		CASE(test_rails_of_one_pool_get_distinct_addresses),
		CASE(test_backup_pool_is_used_when_the_first_is_full),
		CASE(test_released_address_waits_for_the_reuse_delay),
		CASE(test_quarantined_address_is_not_selected),
		CASE(test_same_attachment_gets_its_address_again),
		CASE(test_new_container_of_a_pod_gets_a_new_address),
		CASE(test_sticky_address_is_selected_for_its_pod),
		CASE(test_requested_address_is_selected_or_refused),
		CASE(test_full_shared_pool_lists_its_users),
		CASE(test_requested_address_of_a_shared_pool_must_be_in_a_local_block),
		CASE(test_adopted_address_is_selected_for_its_owner_only),
		CASE(test_retained_address_in_a_block_of_another_node_is_not_released),
		CASE(test_interface_requested_twice_is_refused),
		CASE(test_addresses_are_selected_for_all_rails_or_for_no_rail),
		CASE(test_leases_are_found_by_address),
	};

	return T_RUN(tests, NULL, NULL);
}
