/* SPDX-License-Identifier: Apache-2.0 */
#include "testlib.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "ipam/pool/pool_cluster.h"
#include "ipam_lab.h"
#include "wire/json/json.h"

enum { LINES_MAX = 16 };

static char *lines[LINES_MAX];
static size_t n_lines;
static struct pool_set set;

static int teardown(void **state)
{
	(void)state;
	for (; n_lines > 0; n_lines--)
		free(lines[n_lines - 1]);
	pool_set_done(&set);
	return 0;
}

static char *line_of(const char *text, const char *kind)
{
	auto_json struct json_doc *doc = NULL;
	struct err e = ERR_INIT;
	char *line;

	if (json_parse(&doc, span_of(text), 1 << 20, &e) < 0)
		fail_msg("%s: %s", text, e.text);
	if (pool_kube_text(json_root(doc), kind, &line, &e) < 0)
		fail_msg("%s: %s", text, e.text);
	return line;
}

/* more: additional members of the object. */
static void pool_at(const char *name, const char *meta, const char *spec, const char *more)
{
	auto_free char *text = xasprintf("{\"metadata\":{\"name\":\"%s\"%s},\"spec\":{%s}%s}", name,
					 meta, spec, more);

	lines[n_lines++] = line_of(text, "SpiderIPPool");
}

static void pool(const char *name, const char *spec)
{
	pool_at(name, ",\"generation\":1", spec, "");
}

static void reserved(const char *name, const char *meta, const char *ips)
{
	auto_free char *text = xasprintf(
		"{\"metadata\":{\"name\":\"%s\"%s},\"spec\":{\"ips\":[%s]}}", name, meta, ips);

	lines[n_lines++] = line_of(text, "SpiderReservedIP");
}

static void build(void)
{
	pool_set_done(&set);
	pool_kube_set((const char *const *)lines, n_lines, "kube-system", &set);
}

static const struct pool *get(const char *name)
{
	const struct pool *p = pool_find(&set, name);

	if (!p)
		fail_msg("no pool '%s': %s", name,
			 pool_reason_out(&set, name) ? pool_reason_out(&set, name) : "");
	return p;
}

static void assert_ips(const struct ip_set *s, const char *want)
{
	auto_buf struct buf b;

	buf_init(&b, 1000);
	ip_set_str(s, &b);
	ASSERT_STR_EQ(b.len ? b.p : "", want);
}

static void assert_out(const char *name, const char *expected)
{
	assert_null(pool_find(&set, name));
	assert_non_null(pool_reason_out(&set, name));
	ASSERT_HAS(pool_reason_out(&set, name), expected);
}

#define NET    "\"subnet\":\"10.6.0.0/24\""
#define IPS(x) NET ",\"ips\":[\"" x "\"]"

/* --- pools and reserved addresses --- */

static void test_every_field_of_a_pool_object_is_read(void **state)
{
	const struct pool *p;

	(void)state;
	pool("p",
	     NET ",\"ipVersion\":4,\"ips\":[\"10.6.0.8-10.6.0.20\"],\"excludeIPs\":[\"10.6.0.9\"],"
		 "\"gateway\":\"10.6.0.1\",\"routes\":[{\"dst\":\"10.9.0.0/16\",\"gw\":"
		 "\"10.6.0.2\"}],\"nodeName\":[\"n1\"],\"namespaceName\":[\"a\",\"b\"],"
		 "\"multusName\":[\"rail0\",\"team/rail1\"],\"default\":true,\"disable\":true,"
		 "\"podAffinity\":{\"matchLabels\":{\"app\":\"x\"}},\"nodeAffinity\":{},"
		 "\"namespaceAffinity\":null,\"vlan\":0");
	build();
	p = get("p");
	ASSERT_EQ(set.n_out, 0);
	assert_ips(&p->ips, "10.6.0.8, 10.6.0.10-10.6.0.20");
	assert_ips(&p->open, "10.6.0.8, 10.6.0.10-10.6.0.20");
	assert_ips(&p->usable, "10.6.0.8, 10.6.0.10-10.6.0.20");
	ASSERT_EQ(p->n_routes, 1);
	ASSERT_EQ(p->n_nodes, 1);
	ASSERT_EQ(p->n_namespaces, 2);
	ASSERT_EQ(p->n_networks, 2);
	ASSERT_STR_EQ(p->networks[0], "kube-system/rail0");
	ASSERT_STR_EQ(p->networks[1], "team/rail1");
	assert_true(p->is_default && p->disabled && p->shared);
	assert_true(p->pod_affinity.given && p->node_affinity.given);
	assert_false(p->namespace_affinity.given || p->terminating || p->cut_is_written);
	/* only node n1 may use the pool, so the whole subnet is one block */
	ASSERT_EQ(p->cut.prefix, 24);
}

static void test_pools_are_in_natural_order_of_names(void **state)
{
	static const char *const want[] = {"Rail", "rail", "rail1", "rail2", "rail10", "raila"};
	char spec[64];

	(void)state;
	for (int i = 0; i < 6; i++) {
		snprintf(spec, sizeof(spec), "\"subnet\":\"10.%d.0.0/24\"", i);
		pool(want[(i * 5 + 2) % 6], spec);
	}
	build();
	for (size_t i = 0; i < 6; i++)
		ASSERT_STR_EQ(set.v[i].name, want[i]);
}

static void test_invalid_pools_do_not_affect_other_pools(void **state)
{
	static const struct {
		const char *name, *spec, *expected;
	} v[] = {
		{"b0", "\"ips\":[]", "SpiderIPPool 'b0': no subnet"},
		{"b1", IPS("10.6.1.1"),
		 "SpiderIPPool 'b1': spec.ips[0]: '10.6.1.1' reaches outside"},
		{"b2", IPS("10.6.0.200") ",\"gateway\":\"10.7.0.1\"",
		 "spec.gateway: '10.7.0.1' is not in"},
		{"b3",
		 IPS("10.6.0.201") ",\"nodeAffinity\":{\"matchExpressions\":[{\"key\":\"a\","
				   "\"operator\":\"Gt\"}]}",
		 "SpiderIPPool 'b3': spec.nodeAffinity.matchExpressions[0].operator 'Gt'"},
		{"b4", IPS("10.6.0.202") ",\"multusName\":[\"a/b/c\"]",
		 "spec.multusName[0]: 'a/b/c' is not 'NAME' or 'NAMESPACE/NAME'"},
		{"b5", IPS("10.6.0.203") ",\"multusName\":[\"/c\"]", "'/c' is not"},
		{"b6", IPS("10.6.0.9-10.6.0.8"), "is reversed"},
		{"b7", NET ",\"ips\":\"x\"", "spec.ips is string, expected a list"},
		{"b8", IPS("10.6.0.204") ",\"ipVersion\":6", "is 6, but the subnet"},
		{"b9", IPS("10.6.0.256"), "did you mean"},
	};

	(void)state;
	pool("good", IPS("10.6.0.10-10.6.0.19"));
	for (size_t i = 0; i < ARRAY_LEN(v); i++)
		pool(v[i].name, v[i].spec);
	lines[n_lines++] = xstrdup("{\"kind\":");
	build();
	ASSERT_EQ(set.n, 1);
	ASSERT_EQ(set.n_out, ARRAY_LEN(v) + 1);
	assert_ips(&get("good")->usable, "10.6.0.10-10.6.0.19");
	for (size_t i = 0; i < ARRAY_LEN(v); i++)
		assert_out(v[i].name, v[i].expected);
	assert_null(pool_reason_out(&set, "good"));
}

/* The older pool stays valid, whatever the order of names or lines. */
static void test_younger_of_overlapping_pools_is_skipped(void **state)
{
	(void)state;
	pool_at("a", ",\"generation\":1,\"creationTimestamp\":\"2026-01-02T00:00:00Z\"",
		IPS("10.6.0.15-10.6.0.30"), "");
	pool_at("z", ",\"generation\":1,\"creationTimestamp\":\"2026-01-01T00:00:00Z\"",
		IPS("10.6.0.10-10.6.0.19"), "");
	pool_at("c", ",\"generation\":1,\"creationTimestamp\":\"2026-01-03T00:00:00Z\"",
		"\"subnet\":\"10.6.0.0/16\"", "");
	build();
	assert_out("a", "address 10.6.0.15 is also in pool 'z'");
	assert_out("c", "subnet 10.6.0.0/16 overlaps subnet 10.6.0.0/24 of pool 'z'");
	assert_ips(&get("z")->usable, "10.6.0.10-10.6.0.19");
}

/* The older pool was changed after its creation (generation 2), so the change may have caused
 * the conflict: neither pool allocates an address that both have. */
static void test_addresses_of_a_younger_pool_are_excluded_from_a_changed_older_pool(void **state)
{
	(void)state;
	pool_at("old", ",\"generation\":2,\"creationTimestamp\":\"2026-01-01T00:00:00Z\"",
		IPS("10.6.0.10-10.6.0.19"), "");
	pool_at("young", ",\"generation\":1,\"creationTimestamp\":\"2026-01-02T00:00:00Z\"",
		IPS("10.6.0.15-10.6.0.30"), "");
	build();
	assert_out("young", "address 10.6.0.15 is also in pool 'old'");
	assert_ips(&get("old")->usable, "10.6.0.10-10.6.0.14");
}

/* A pool that is skipped because of its invalid affinity still owns its addresses. */
static void test_invalid_pool_still_owns_its_addresses(void **state)
{
	(void)state;
	pool_at("bad", ",\"generation\":2,\"creationTimestamp\":\"2026-01-01T00:00:00Z\"",
		IPS("10.6.0.10-10.6.0.19") ",\"podAffinity\":{\"matchLabels\":{\"\":\"\"}}", "");
	pool_at("young", ",\"generation\":1,\"creationTimestamp\":\"2026-01-02T00:00:00Z\"",
		IPS("10.6.0.15-10.6.0.30"), "");
	build();
	assert_out("bad", "spec.podAffinity.matchLabels: '' is not a label key");
	assert_out("young", "address 10.6.0.15 is also in pool 'bad'");
}

static void test_reserved_addresses_are_not_usable(void **state)
{
	(void)state;
	pool("p", IPS("10.6.0.10-10.6.0.19"));
	reserved("r1", "", "\"10.6.0.12\",\"10.6.0.300\",\"10.6.0.14-10.6.0.15\"");
	reserved("r2", ",\"deletionTimestamp\":\"2026-01-01T00:00:00Z\"", "\"10.6.0.18\"");
	reserved("r3", "", "\"fd00::1\"");
	build();
	assert_ips(&get("p")->usable, "10.6.0.10-10.6.0.11, 10.6.0.13, 10.6.0.16-10.6.0.19");
	assert_ips(&set.reserved6, "fd00::1");
	ASSERT_EQ(set.n_out, 1);
	ASSERT_HAS(pool_reason_out(&set, "SpiderReservedIP/r1"),
		   "SpiderReservedIP 'r1': spec.ips[1]: '10.6.0.300' has an octet above 255");
}

static void test_pool_being_deleted_is_terminating(void **state)
{
	(void)state;
	pool_at("p", ",\"deletionTimestamp\":\"2026-01-01T00:00:00Z\"", IPS("10.6.0.10"), "");
	build();
	assert_true(get("p")->terminating);
}

/* --- addresses that Spiderpool allocated --- */

#define STATUS(x) ",\"status\":{\"allocatedIPs\":\"" x "\",\"allocatedIPCount\":1}"
#define REC(ip, pod, uid)                                                                          \
	"\\\"" ip "\\\":{\\\"pod\\\":\\\"" pod "\\\",\\\"podUid\\\":\\\"" uid "\\\"}"

static void test_addresses_in_the_status_are_adopted(void **state)
{
	struct ipaddr a = t_ip("10.6.0.12");
	const struct pool_record *r;

	(void)state;
	pool_at("p", ",\"generation\":1", IPS("10.6.0.10-10.6.0.19"),
		STATUS("{" REC("10.6.0.12", "default/web-0",
			       "u1") "," REC("10.6.0.10", "default/x",
					     "u2") "," REC("10.6.0.50", "default/y", "u3") "}"));
	pool_at("q", ",\"generation\":1", IPS("10.6.0.40-10.6.0.51"), "");
	build();
	assert_ips(&get("p")->usable, "10.6.0.11, 10.6.0.13-10.6.0.19");
	assert_ips(&get("p")->adopted, "10.6.0.10, 10.6.0.12");
	assert_ips(&get("q")->usable, "10.6.0.40-10.6.0.49, 10.6.0.51");
	ASSERT_EQ(get("p")->n_records, 3);
	r = &get("p")->records[1];
	ASSERT_EQ(ip_cmp(&r->ip, &a), 0);
	assert_true(r->pod == pool_record_key("default/web-0") && r->uid == pool_record_key("u1"));
	ASSERT_EQ(get("q")->n_records, 0);
}

/* Records of other releases of Spiderpool have additional members; "{}", null and an empty text
 * have no records. A pool with an invalid text is left out. */
static void test_status_of_other_releases_is_read(void **state)
{
	(void)state;
	pool_at("a", "", "\"subnet\":\"10.1.0.0/24\",\"ips\":[\"10.1.0.1-10.1.0.2\"]",
		STATUS("{\\\"10.1.0.1\\\":{\\\"interface\\\":\\\"eth0\\\",\\\"pod\\\":\\\"a/b\\\"}}"));
	pool_at("b", "", "\"subnet\":\"10.2.0.0/24\",\"ips\":[\"10.2.0.1\"]", STATUS(""));
	pool_at("c", "", "\"subnet\":\"10.3.0.0/24\",\"ips\":[\"10.3.0.1\"]", STATUS("null"));
	pool_at("d", "", "\"subnet\":\"10.4.0.0/24\",\"ips\":[\"10.4.0.1\"]", STATUS("{}"));
	pool_at("e", "", "\"subnet\":\"10.5.0.0/24\",\"ips\":[\"10.5.0.1\"]", STATUS("{\\\"10.5"));
	pool_at("f", "", "\"subnet\":\"10.6.0.0/24\",\"ips\":[\"10.6.0.1\"]", STATUS("[]"));
	pool_at("g", "", "\"subnet\":\"10.7.0.0/24\",\"ips\":[\"10.7.0.1\"]",
		STATUS("{\\\"x\\\":{}}"));
	build();
	assert_ips(&get("a")->usable, "10.1.0.2");
	assert_ips(&get("b")->usable, "10.2.0.1");
	assert_ips(&get("c")->usable, "10.3.0.1");
	assert_ips(&get("d")->usable, "10.4.0.1");
	assert_out("e", "SpiderIPPool 'e': status.allocatedIPs (or annotation unirail.io/adopted) "
			"is invalid, so the addresses in use are unknown");
	assert_out("f", "the text is an array, expected an object");
	assert_out("g", "'x' is not an address");
}

/* If a pool has the annotation unirail.io/adopted, unirail itself wrote the records in the
 * pool's status. These records are ignored, except those of addresses that are not in the pool. */
static void test_adopted_annotation_takes_precedence_over_the_status(void **state)
{
	static const char noted[] = ",\"annotations\":{\"unirail.io/adopted\":\"{" REC(
		"10.6.0.12", "default/web-0", "u1") "}\"}";
	char *before;

	(void)state;
	pool_at("p", noted, IPS("10.6.0.10-10.6.0.19"),
		STATUS("{" REC("10.6.0.10", "a/b", "u") "," REC("10.6.0.30", "a/c", "v") "}"));
	pool_at("q", "", IPS("10.6.0.30-10.6.0.31"), "");
	build();
	assert_ips(&get("p")->usable, "10.6.0.10-10.6.0.11, 10.6.0.13-10.6.0.19");
	assert_ips(&get("p")->adopted, "10.6.0.12");
	assert_ips(&get("q")->usable, "10.6.0.31");
	/* Allocations do not change the stored text of the pool. */
	before = xstrdup(lines[0]);
	pool_at("p", noted, IPS("10.6.0.10-10.6.0.19"),
		STATUS("{" REC("10.6.0.11", "a/b", "u") "," REC("10.6.0.30", "a/c", "v") "}"));
	ASSERT_STR_EQ(lines[2], before);
	free(before);
	pool_at("r", ",\"annotations\":{\"unirail.io/adopted\":\"\"}", IPS("10.6.0.60"),
		STATUS("{" REC("10.6.0.60", "a/b", "u") "}"));
	assert_null(strstr(lines[3], "allocatedIPs"));
	pool_at("s", ",\"annotations\":{\"unirail.io/adopted\":\"{\"}", IPS("10.6.0.61"),
		STATUS("{}"));
	free(lines[2]);
	lines[2] = lines[4];
	n_lines = 4;
	build();
	assert_out("s", "is invalid, so the addresses in use are unknown");
}

/* Addresses in the status of a skipped pool are still in use. */
static void test_addresses_of_a_skipped_pool_stay_in_use(void **state)
{
	(void)state;
	pool_at("bad", "", "\"subnet\":\"10.6.0.0/99\"",
		STATUS("{" REC("10.6.0.11", "a/b", "u") "}"));
	pool_at("good", "", IPS("10.6.0.10-10.6.0.12"), "");
	build();
	assert_ips(&get("good")->usable, "10.6.0.10, 10.6.0.12");
	assert_out("bad", "'10.6.0.0/99' is not a subnet");
}

/* --- blocks --- */

static void cut(const char *name, const char *net, const char *prefix, const char *more)
{
	auto_free char *meta =
		prefix ? xasprintf(",\"annotations\":{\"unirail.io/block-prefix\":\"%s\"}", prefix)
		       : xstrdup("");
	auto_free char *spec = xasprintf("\"subnet\":\"%s\"%s", net, more);

	pool_at(name, meta, spec, "");
}

static void test_block_size_is_read_from_the_annotation(void **state)
{
	(void)state;
	cut("a", "10.1.0.0/24", NULL, "");
	cut("b", "10.2.0.0/24", "26", "");
	cut("c", "10.3.0.0/24", "23", "");
	cut("d", "10.4.0.0/24", "x", "");
	cut("e", "10.5.0.0/24", "0", "");
	cut("f", "fd00::/64", NULL, "");
	cut("g", "10.7.0.0/16", NULL, ",\"nodeName\":[\"n1\"]");
	cut("h", "10.8.0.0/16", NULL, ",\"nodeName\":[\"n1\",\"n2\"]");
	build();
	ASSERT_EQ(get("a")->cut.prefix, 28);
	assert_false(get("a")->cut_is_written);
	ASSERT_EQ(get("b")->cut.prefix, 26);
	assert_true(get("b")->cut_is_written);
	assert_out("c", "SpiderIPPool 'c': annotation unirail.io/block-prefix: blocks of prefix "
			"length 23 do not fit");
	assert_out("d", "'x' is not a prefix length");
	assert_out("e", "'0' is not a prefix length");
	ASSERT_EQ(get("f")->cut.prefix, 124);
	ASSERT_EQ(get("g")->cut.prefix, 16);
	ASSERT_EQ(get("h")->cut.prefix, 28);
}

static void test_pool_is_limited_to_the_nodes_blocks(void **state)
{
	struct ip_range r = {t_ip("10.6.0.11"), t_ip("10.6.0.12")};
	struct ip_set mine = {0}, adopted = {0};

	(void)state;
	pool("p", IPS("10.6.0.10-10.6.0.19"));
	build();
	ip_set_add(&mine, &r);
	pool_kube_cut(&set.v[0], &mine, &adopted);
	assert_ips(&get("p")->usable, "10.6.0.11-10.6.0.12");
	assert_ips(&get("p")->open, "10.6.0.10-10.6.0.19");
	ASSERT_EQ(mine.n, 0);
}

static void test_object_without_a_name_is_refused(void **state)
{
	auto_json struct json_doc *doc = NULL;
	struct err e = ERR_INIT;
	char *line;

	(void)state;
	ASSERT_EQ(json_parse(&doc, span_of("{\"metadata\":{}}"), 100, NULL), 0);
	ASSERT_EQ(pool_kube_text(json_root(doc), "SpiderIPPool", &line, &e), -EINVAL);
	ASSERT_STR_EQ(e.text, "a SpiderIPPool without metadata.name");
}

static bool same(const char *was, const char *is)
{
	auto_free char *a = line_of(was, "SpiderIPPool"), *b = line_of(is, "SpiderIPPool");

	return pool_kube_same_addresses(a, b);
}

#define CUT(value)	 "\"annotations\":{\"unirail.io/block-prefix\":\"" value "\"}"
#define POOL(meta, spec) "{\"metadata\":{\"name\":\"p\"" meta "},\"spec\":{" spec "}}"

static void test_pools_that_differ_only_in_block_size_have_the_same_addresses(void **state)
{
	static const char ips[] = POOL("", "\"ips\":[\"10.6.0.1\"]");

	(void)state;
	assert_true(same(ips, ips));
	assert_true(same(ips, POOL("," CUT("28"), "\"ips\":[\"10.6.0.1\"]")));
	assert_true(same(POOL("," CUT("26"), ""), POOL("," CUT("28"), "")));
	assert_false(same(ips, POOL("," CUT("28"), "\"ips\":[\"10.6.0.2\"]")));
	assert_false(same(POOL("," CUT("28") ",\"deletionTimestamp\":\"2026-01-01T00:00:00Z\"", ""),
			  POOL("," CUT("28"), "")));
	/* here the key is in the spec, where it is not the annotation */
	assert_false(same(POOL("", "\"x\":\"\"," CUT("26")), POOL("", "\"x\":\"\"," CUT("28"))));
}

#define TEST(x) cmocka_unit_test_setup_teardown(x, t_log_off, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_every_field_of_a_pool_object_is_read),
		TEST(test_pools_are_in_natural_order_of_names),
		TEST(test_invalid_pools_do_not_affect_other_pools),
		TEST(test_younger_of_overlapping_pools_is_skipped),
		TEST(test_addresses_of_a_younger_pool_are_excluded_from_a_changed_older_pool),
		TEST(test_invalid_pool_still_owns_its_addresses),
		TEST(test_reserved_addresses_are_not_usable),
		TEST(test_pool_being_deleted_is_terminating),
		TEST(test_addresses_in_the_status_are_adopted),
		TEST(test_status_of_other_releases_is_read),
		TEST(test_adopted_annotation_takes_precedence_over_the_status),
		TEST(test_addresses_of_a_skipped_pool_stay_in_use),
		TEST(test_block_size_is_read_from_the_annotation),
		TEST(test_pool_is_limited_to_the_nodes_blocks),
		TEST(test_object_without_a_name_is_refused),
		TEST(test_pools_that_differ_only_in_block_size_have_the_same_addresses),
	};

	return T_RUN(tests, NULL, NULL);
}
