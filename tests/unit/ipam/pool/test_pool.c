/* SPDX-License-Identifier: Apache-2.0 */
#include "testlib.h"

#include <errno.h>
#include <string.h>

#include "base/glob.h"
#include "base/log.h"
#include "ipam/pool/pool.h"
#include "ipam_lab.h"

static void load(struct pool_set *s)
{
	struct err e = ERR_INIT;

	ASSERT_OK(pool_set_load(&il_lab.root, "/pools", s, &e), &e);
}

/*
 * Asserts that loading the directory fails with an error text that contains `place` and `reason`.
 */
static void refused(const char *place, const char *reason)
{
	struct pool_set s;
	struct err e = ERR_INIT;

	assert_true(pool_set_load(&il_lab.root, "/pools", &s, &e) < 0);
	ASSERT_EQ(e.kind, ERR_CONF);
	ASSERT_HAS(e.text, "pool directory '/pools': ");
	ASSERT_HAS(e.text, place);
	ASSERT_HAS(e.text, reason);
}

static void refused_ini(const char *ini, const char *place, const char *reason)
{
	il_pools(&il_lab, ini);
	refused(place, reason);
}

static void assert_ips(const struct ip_set *s, const char *text)
{
	struct buf b;

	buf_init(&b, 4096);
	ip_set_str(s, &b);
	ASSERT_STR_EQ(b.p, text);
	buf_done(&b);
}

static void test_keys_of_a_pool_file_are_read(void **state)
{
	struct pool_set s;
	const struct pool *p;

	(void)state;
	il_pools(&il_lab, "# rails\n"
			  "[pool rail0]\n"
			  "subnet  = 172.16.1.0/24\n"
			  "ips     = 172.16.1.10-172.16.1.99, 172.16.1.120 ; some\n"
			  "ips     = 172.16.1.121\n"
			  "exclude = 172.16.1.50\n"
			  "gateway = 172.16.1.1\n"
			  "route   = 172.16.0.0/16 via 172.16.1.1\n"
			  "route   = 10.0.0.0/8 via 172.16.1.2\n"
			  "default = yes\n"
			  "disable = no\n"
			  "node    = node1, node2\n"
			  "namespace = team-a\n"
			  "reuse-delay = 5s\n"
			  "\n"
			  "[reserved]\n"
			  "ips = 172.16.1.77, fd00::5\n"
			  "[settings]\n"
			  "reuse-delay = 90s\n"
			  "quarantine = 1h\n"
			  "conflict-detection = yes\n");
	load(&s);
	ASSERT_EQ(s.n, 1);
	p = &s.v[0];
	ASSERT_STR_EQ(p->name, "rail0");
	ASSERT_STR_EQ(p->origin, "rails.conf:2");
	assert_ips(&p->ips, "172.16.1.10-172.16.1.49, 172.16.1.51-172.16.1.99, "
			    "172.16.1.120-172.16.1.121");
	assert_true(ip_set_count(&p->usable) == ip_set_count(&p->ips) - 1);
	ASSERT_EQ(p->n_routes, 2);
	ASSERT_EQ(p->n_nodes, 2);
	ASSERT_STR_EQ(p->nodes[1], "node2");
	assert_true(p->is_default);
	ASSERT_EQ(pool_reuse_delay_ms(&s, p), 5000);
	ASSERT_EQ(s.reuse_delay_ms, 90000);
	ASSERT_EQ(s.quarantine_ms, 3600000);
	assert_true(s.conflict_detection);
	assert_false(s.gateway_detection);
	pool_set_done(&s);
}

static void test_omitted_pool_keys_have_defaults(void **state)
{
	struct pool_set s;

	(void)state;
	il_pools(&il_lab, "[pool a]\nsubnet=10.0.0.0/29\ngateway=10.0.0.1\n"
			  "[pool b]\nsubnet=10.0.1.4/31\n"
			  "[pool c]\nsubnet=fd00::/64\n");
	load(&s);
	assert_ips(&s.v[0].ips, "10.0.0.2-10.0.0.6");
	assert_ips(&s.v[1].ips, "10.0.1.4-10.0.1.5");
	assert_ips(&s.v[2].ips, "fd00::1-fd00::ffff:ffff:ffff:ffff");
	ASSERT_EQ(s.reuse_delay_ms, 60000);
	ASSERT_EQ(s.quarantine_ms, 600000);
	assert_false(s.v[0].is_default);
	ASSERT_EQ(pool_reuse_delay_ms(&s, &s.v[0]), 60000);
	pool_set_done(&s);
}

static void test_missing_pool_directory_is_an_empty_set(void **state)
{
	struct pool_set s;
	struct err e = ERR_INIT;

	(void)state;
	ASSERT_EQ(pool_set_load(&il_lab.root, "/none", &s, &e), 0);
	ASSERT_EQ(s.n, 0);
	pool_set_done(&s);
}

static void test_host_bits_of_a_subnet_are_cleared(void **state)
{
	struct pool_set s;
	char text[IP_TEXT_MAX];

	(void)state;
	il_pools(&il_lab, "[pool a]\nsubnet = 172.16.11.0/16\nips = 172.16.11.1-172.16.11.9\n");
	load(&s);
	ASSERT_STR_EQ(ipnet_str(&s.v[0].subnet, text), "172.16.0.0/16");
	pool_set_done(&s);
}

static void test_invalid_pool_files_are_refused(void **state)
{
	static const struct {
		const char *ini, *place, *reason;
	} bad[] = {
		{"[pool a]\nsubnet=10.0.0.0/24\nips=10.0.0.256\n", "rails.conf:3: ips",
		 "has an octet above 255: did you mean '10.0.0.254'?"},
		{"[pool a]\nips=10.0.0.9-10.0.0.1\nsubnet=10.0.0.0/24\n", "rails.conf:2: ips",
		 "is reversed"},
		{"[pool a]\nsubnet=10.0.0.0/24\nips=10.0.0.9-10.0.1.1\n", "rails.conf:3: ips",
		 "reaches outside the subnet 10.0.0.0/24: did you mean '10.0.0.9-10.0.0.254'?"},
		{"[pool a]\nsubnet=10.0.0.0/24\nexclude=10.0.1.1\n", "rails.conf:3: exclude",
		 "reaches outside"},
		{"[pool a]\nsubnet=10.0.0.0/24\nips=10.0.0.1-10.0.0.9\ngateway=10.0.0.1\n",
		 "rails.conf:4: gateway", "exclude this address or remove the gateway"},
		{"[pool a]\nsubnet=10.0.0.0/24\ngateway=10.0.1.1\n", "rails.conf:3: gateway",
		 "is not in the subnet"},
		{"[pool a]\nsubnet=10.0.0.0\n", "rails.conf:2: subnet", "is not a subnet"},
		{"[pool a]\nsubnet=10.0.0.0/33\n", "rails.conf:2: subnet", "is not a subnet"},
		{"[pool a]\nips=10.0.0.1\n", "rails.conf:1", "no subnet"},
		{"\n[pool a]\n", "rails.conf:2", "no subnet"},
		{"[pool a]\n[pool b]\nsubnet=10.0.0.0/24\n", "rails.conf:1", "no subnet"},
		{"[pool a]\nsubnet=10.0.0.0/24\nroute=0.0.0.0/0 via 10.0.0.1\n",
		 "rails.conf:3: route", "set 'gateway' instead"},
		{"[pool a]\nsubnet=10.0.0.0/24\nroute=10.1.0.0/16\n", "rails.conf:3: route",
		 "is not 'DESTINATION/LEN via GATEWAY'"},
		{"[pool a]\nsubnet=10.0.0.0/24\nroute=10.1.0.0/16 via 10.9.0.1\n",
		 "rails.conf:3: route", "gateway in the subnet"},
		{"[pool a]\nsubnet=10.0.0.0/24\nroute=10.1.0.0/16 via 10.0.0.1\n"
		 "route=10.1.2.3/16 via 10.0.0.2\n",
		 "rails.conf:4: route", "same destination as an earlier route"},
		{"[pool a]\nsubnet=10.0.0.0/24\nsubnet=10.0.1.0/24\n", "rails.conf:3",
		 "'subnet' is set twice"},
		{"[pool a]\nsubnet=10.0.0.0/24\nexcludes=10.0.0.1\n", "rails.conf:3",
		 "did you mean 'exclude'"},
		{"[pool p]\nsubnet = 10.0.0.0/24\ncolour = red\n", "rails.conf:3",
		 "key 'colour' is not known in this section, expected one of subnet, ips, "
		 "exclude, gateway, route, "
		 "default, disable, node, namespace, reuse-delay"},
		{"[pool a]\nsubnet=10.0.0.0/24\ndefault=maybe\n", "rails.conf:3: default",
		 "is not yes or no"},
		{"[pool a]\nsubnet=10.0.0.0/24\nreuse-delay=2h\n", "rails.conf:3: reuse-delay",
		 "is not a time"},
		{"[pool a b]\nsubnet=10.0.0.0/24\n", "rails.conf:1", "pool name is 'a b'"},
		{"[pool a*]\nsubnet=10.0.0.0/24\n", "rails.conf:1", "pool name is 'a*'"},
		{"[rail a]\nsubnet=10.0.0.0/24\n", "rails.conf:1", "section 'rail a' is not known"},
		{"[pool a\nsubnet=10.0.0.0/24\n", "rails.conf:1", "must end in ']'"},
		{"subnet=10.0.0.0/24\n", "rails.conf:1", "precedes the first section"},
		{"[pool a]\nsubnet 10.0.0.0/24\n", "rails.conf:2", "expected 'key = value'"},
		{"[pool a]\nsubnet=10.0.0.0/24\n[reserved]\nips=10.0.0.1-2\n", "rails.conf:4: ips",
		 "is not an address"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		refused_ini(bad[i].ini, bad[i].place, bad[i].reason);
}

static void test_long_lines_are_refused_and_long_names_are_not_truncated(void **state)
{
	char ini[3000] = "[pool a]\nsubnet=10.0.0.0/16\nips=";
	struct pool_set s;

	(void)state;
	while (strlen(ini) < 2000)
		strcat(ini, "10.0.0.1,");
	refused_ini(ini, "rails.conf:3", "line is longer than");
	/* A section name longer than inih can store. */
	strcpy(ini, "[pool ");
	memset(ini + 6, 'a', 200);
	strcpy(ini + 206, "]\nsubnet=10.0.0.0/16\n");
	il_pools(&il_lab, ini);
	load(&s);
	ASSERT_EQ(strlen(s.v[0].name), 200);
	pool_set_done(&s);
}

static void test_overlapping_pools_are_refused(void **state)
{
	struct pool_set s;

	(void)state;
	il_write(&il_lab, "/pools/a.conf", "[pool a]\nsubnet=10.0.0.0/16\nips=10.0.0.1-10.0.0.9\n");
	refused_ini("[pool a]\nsubnet=10.9.0.0/16\n", "rails.conf:1: pool 'a'", "in a.conf:1");
	refused_ini("[pool b]\nsubnet=10.0.5.0/24\n", "rails.conf:1: pool 'b'",
		    "overlaps subnet 10.0.0.0/16 of pool 'a' in a.conf:1");
	refused_ini("\n[pool b]\nsubnet=10.0.0.0/16\nips=10.0.0.9-10.0.0.12\n",
		    "rails.conf:2: pool 'b'", "address 10.0.0.9 is also in pool 'a' in a.conf:1");
	il_pools(&il_lab, "[pool b]\nsubnet=10.0.0.0/16\nips=10.0.0.10-10.0.0.12\n");
	load(&s);
	ASSERT_EQ(s.n, 2);
	ASSERT_STR_EQ(s.v[0].name, "a");
	assert_ptr_equal(pool_find(&s, "b"), &s.v[1]);
	assert_null(pool_find(&s, "c"));
	assert_ptr_equal(pool_of(&s, &(struct ipaddr[]){t_ip("10.0.0.9")}[0]), &s.v[0]);
	assert_ptr_equal(pool_of(&s, &(struct ipaddr[]){t_ip("10.0.0.10")}[0]), &s.v[1]);
	assert_null(pool_of(&s, &(struct ipaddr[]){t_ip("10.0.0.13")}[0]));
	assert_null(pool_of(&s, &(struct ipaddr[]){t_ip("fd00::1")}[0]));
	ASSERT_STR_EQ(pool_suggest(&s, "bb"), "b");
	pool_set_done(&s);
}

static void test_pool_files_with_other_names_are_ignored_or_refused_with_a_remedy(void **state)
{
	struct pool_set s;

	(void)state;
	il_pools(&il_lab, "[pool a]\nsubnet=10.0.0.0/16\n");
	il_write(&il_lab, "/pools/.hidden.conf", "rubbish");
	il_write(&il_lab, "/pools/rails.conf.bak", "rubbish");
	load(&s);
	ASSERT_EQ(s.n, 1);
	pool_set_done(&s);
	il_write(&il_lab, "/pools/more.yaml", "kind: SpiderIPPool");
	refused("more.yaml", "kubectl create --dry-run=client -o json");
}

#define POOL(name, spec)                                                                           \
	"{\"apiVersion\":\"spiderpool.spidernet.io/v2beta1\",\"kind\":\"SpiderIPPool\","           \
	"\"metadata\":{\"name\":\"" name "\"},\"spec\":{" spec "},\"status\":{}}"

static void test_pool_manifest_is_read(void **state)
{
	struct pool_set s;

	(void)state;
	il_write(
		&il_lab, "/pools/p.json",
		"{\"kind\":\"List\",\"items\":[" POOL(
			"p4",
			"\"ipVersion\":4,\"subnet\":\"10.6.0.0/16\",\"vlan\":0,"
			"\"ips\":[\"10.6.0.8-10.6.0.10\",\"10.6.0.2\"],\"excludeIPs\":[\"10.6."
			"0.9\"],\"gateway\":\"10.6.0.1\",\"routes\":[{\"dst\":\"10.7.0.0/"
			"16\",\"gw\":\"10.6.0.1\"}],\"default\":true,\"nodeName\":[\"n1\"],"
			"\"nodeAffinity\":{},\"podAffinity\":null") ","
								    "{\"kind\":\"SpiderReservedIP\",\"metadata\":{\"name\":\"r\"},\"spec\":{"
								    "\"ipVersion\":4,\"ips\":[\"10.6.0.8\"]}}]}");
	il_write(&il_lab, "/pools/q.json",
		 POOL("none", "\"subnet\":\"fd00::/64\",\"disable\":true"));
	load(&s);
	ASSERT_EQ(s.n, 2);
	assert_ips(&s.v[0].ips, "10.6.0.2, 10.6.0.8, 10.6.0.10");
	assert_ips(&s.v[0].usable, "10.6.0.2, 10.6.0.10");
	assert_true(s.v[0].is_default);
	ASSERT_STR_EQ(s.v[0].nodes[0], "n1");
	ASSERT_EQ(s.v[0].n_routes, 1);
	/* As in the API, a pool without ips has no addresses. */
	assert_true(ip_set_count(&s.v[1].ips) == 0);
	assert_true(s.v[1].disabled);
	pool_set_done(&s);
}

/* A subnet with host bits, and a route with `to` and `via`. */
static void test_pool_manifest_with_other_spellings_is_read(void **state)
{
	struct pool_set s;
	char text[IP_TEXT_MAX];

	(void)state;
	il_write(&il_lab, "/pools/p.json",
		 POOL("p4", "\"subnet\":\"10.6.0.9/16\",\"ips\":[\"10.6.0.8\"],\"routes\":["
			    "{\"to\":\"10.7.0.0/16\",\"via\":\"10.6.0.1\"}]"));
	load(&s);
	ASSERT_STR_EQ(ipnet_str(&s.v[0].subnet, text), "10.6.0.0/16");
	ASSERT_EQ(s.v[0].n_routes, 1);
	ASSERT_STR_EQ(ipnet_str(&s.v[0].routes[0].dst, text), "10.7.0.0/16");
	ASSERT_STR_EQ(ip_str(&s.v[0].routes[0].gw, text), "10.6.0.1");
	pool_set_done(&s);
}

static void test_invalid_pool_manifests_are_refused(void **state)
{
	static const struct {
		const char *json, *place, *reason;
	} bad[] = {
		{POOL("p",
		      "\"subnet\":\"10.0.0.0/24\",\"ips\":[\"10.0.0.1\",\"10.0.0.9-10.0.0.1\"]"),
		 "p.json: 'p': spec.ips[1]", "is reversed"},
		{POOL("p", "\"subnet\":\"10.0.0.0/24\",\"nodeAffinity\":{\"matchLabels\":{\"a\":"
			   "\"b\"}}"),
		 "p.json: 'p'", "spec.nodeAffinity needs the API server"},
		{POOL("p", "\"subnet\":\"10.0.0.0/24\",\"multusName\":[\"x\"]"), "p.json: 'p'",
		 "spec.multusName needs the API server"},
		{POOL("p", "\"subnet\":\"10.0.0.0/24\",\"ipVersion\":6"), "spec.ipVersion",
		 "but the subnet '10.0.0.0/24' is IPv4"},
		{POOL("p", "\"subnet\":\"10.0.0.0/24\",\"excludeIps\":[]"), "p.json: 'p'",
		 "did you mean 'excludeIPs'"},
		{POOL("p", "\"subnet\":7"), "p.json: 'p'", "spec.subnet is"},
		{POOL("p", "\"subnet\":\"10.0.0.0/24\",\"ips\":\"10.0.0.1\""), "p.json: 'p'",
		 "spec.ips is"},
		{POOL("p", "\"subnet\":\"10.0.0.0/24\",\"routes\":[{\"dst\":\"10.1.0.0/16\"}]"),
		 "p.json: 'p'", "spec.routes[0]: expected"},
		{POOL("p", "\"ips\":[]"), "p.json: 'p'", "no subnet"},
		{"{\"kind\":\"Pod\",\"spec\":{}}", "p.json", "kind 'Pod' is not SpiderIPPool"},
		{"{\"kind\":\"List\",\"items\":[{\"kind\":\"SpiderIPPool\",\"spec\":{}}]}",
		 "p.json: 'items[0]'", "metadata.name is missing"},
		{"{\"kind\":\"SpiderIPPool\"", "p.json", ""},
		{"[]", "p.json", "kind ''"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		il_write(&il_lab, "/pools/p.json", bad[i].json);
		refused(bad[i].place, bad[i].reason);
	}
}

/* The results of Go's path/filepath.Match: its own test table and a few more rows. */
static void test_wildcards_match_like_go(void **state)
{
	static const struct {
		const char *pattern, *name;
		int want; /* 1: match, 0: no match, -EINVAL: invalid pattern */
	} cases[] = {
		{"abc", "abc", 1},
		{"*", "abc", 1},
		{"*c", "abc", 1},
		{"a*", "a", 1},
		{"a*", "abc", 1},
		{"a*", "ab/c", 0},
		{"a*/b", "abc/b", 1},
		{"a*/b", "a/c/b", 0},
		{"a*b*c*d*e*/f", "axbxcxdxe/f", 1},
		{"a*b*c*d*e*/f", "axbxcxdxexxx/f", 1},
		{"a*b*c*d*e*/f", "axbxcxdxe/xxx/f", 0},
		{"a*b*c*d*e*/f", "axbxcxdxexxx/fff", 0},
		{"a*b?c*x", "abxbbxdbxebxczzx", 1},
		{"a*b?c*x", "abxbbxdbxebxczzy", 0},
		{"ab[c]", "abc", 1},
		{"ab[b-d]", "abc", 1},
		{"ab[e-g]", "abc", 0},
		{"ab[^c]", "abc", 0},
		{"ab[^b-d]", "abc", 0},
		{"ab[^e-g]", "abc", 1},
		{"a\\*b", "a*b", 1},
		{"a\\*b", "ab", 0},
		{"a?b",
		 "a\xe2\x98\xba"
		 "b",
		 1},
		{"a[^a]b",
		 "a\xe2\x98\xba"
		 "b",
		 1},
		{"a???b",
		 "a\xe2\x98\xba"
		 "b",
		 0},
		{"a[^a][^a][^a]b",
		 "a\xe2\x98\xba"
		 "b",
		 0},
		{"[a-\xce\xb6]*", "\xce\xb1", 1},
		{"*[a-\xce\xb6]", "A", 0},
		{"a?b", "a/b", 0},
		{"a*b", "a/b", 0},
		{"[\\]a]", "]", 1},
		{"[\\-]", "-", 1},
		{"[x\\-]", "x", 1},
		{"[x\\-]", "-", 1},
		{"[x\\-]", "z", 0},
		{"[\\-x]", "x", 1},
		{"[\\-x]", "-", 1},
		{"[\\-x]", "a", 0},
		{"[]a]", "]", -EINVAL},
		{"[-]", "-", -EINVAL},
		{"[x-]", "x", -EINVAL},
		{"[x-]", "-", -EINVAL},
		{"[x-]", "z", -EINVAL},
		{"[-x]", "x", -EINVAL},
		{"[-x]", "-", -EINVAL},
		{"[-x]", "a", -EINVAL},
		{"\\", "a", -EINVAL},
		{"[a-b-c]", "a", -EINVAL},
		{"[", "a", -EINVAL},
		{"[^", "a", -EINVAL},
		{"[^bc", "a", -EINVAL},
		{"a[", "a", -EINVAL},
		{"a[", "ab", -EINVAL},
		{"a[", "x", -EINVAL},
		{"a/b[", "x", -EINVAL},
		{"*x", "xxx", 1},
		{"", "", 1},
		{"", "a", 0},
		{"**", "", 1},
		{"rail[0-3]", "rail2", 1},
		{"rail[0-3]", "rail4", 0},
		{"rail?", "rail", 0},
		{"*rail*", "pool-rail7-v4", 1},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (wildcard_match(cases[i].pattern, cases[i].name) != cases[i].want)
			fail_msg("pattern '%s' on name '%s' returns %d", cases[i].pattern,
				 cases[i].name, wildcard_match(cases[i].pattern, cases[i].name));
	assert_true(wildcard_is("a*") && wildcard_is("?") && wildcard_is("[a]"));
	assert_false(wildcard_is("rail0") || wildcard_is("a[") || wildcard_is("a]"));
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, il_setup, il_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_keys_of_a_pool_file_are_read),
		CASE(test_omitted_pool_keys_have_defaults),
		CASE(test_missing_pool_directory_is_an_empty_set),
		CASE(test_host_bits_of_a_subnet_are_cleared),
		CASE(test_invalid_pool_files_are_refused),
		CASE(test_long_lines_are_refused_and_long_names_are_not_truncated),
		CASE(test_overlapping_pools_are_refused),
		CASE(test_pool_files_with_other_names_are_ignored_or_refused_with_a_remedy),
		CASE(test_pool_manifest_is_read),
		CASE(test_pool_manifest_with_other_spellings_is_read),
		CASE(test_invalid_pool_manifests_are_refused),
		cmocka_unit_test(test_wildcards_match_like_go),
	};

	return T_RUN(tests, NULL, NULL);
}
