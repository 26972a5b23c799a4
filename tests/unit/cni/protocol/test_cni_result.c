/* SPDX-License-Identifier: Apache-2.0 */
#include "testlib.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cni/protocol/cni.h"

/* Removes the indentation of a printed result. */
static void compact(struct buf *b)
{
	auto_json struct json_doc *d = NULL;
	auto_free char *text = buf_take(b);
	struct json_out o;

	ASSERT_EQ(json_parse(&d, span_of(text), 1 << 20, NULL), 0);
	jo_init(&o, b, 0);
	jo_val(&o, json_root(d), false);
}

static void prints(const struct cni_result *r, enum cni_version v, const char *want)
{
	auto_buf struct buf b;
	struct err e = ERR_INIT;

	buf_init(&b, 1 << 16);
	ASSERT_OK(cni_result_print(r, v, &b, &e), &e);
	compact(&b);
	ASSERT_STR_EQ(b.p, want);
}

static int parse(const char *text, enum cni_version v, struct cni_result *ret, struct err *e)
{
	auto_json struct json_doc *d = NULL;

	ASSERT_EQ(json_parse(&d, span_of(text), 1 << 20, NULL), 0);
	return cni_result_parse(d, json_root(d), v, ret, e);
}

/* Parses the text as one version and prints it as another. */
static void converts(const char *text, enum cni_version from, enum cni_version to, const char *want)
{
	auto_result struct cni_result r = {0};
	struct err e = ERR_INIT;

	if (parse(text, from, &r, &e) < 0)
		fail_msg("%s: %s", text, e.text);
	prints(&r, to, want);
}

/* A result that has every field of the CNI specification. */
static void full(struct cni_result *r)
{
	struct cni_iface *i = cni_result_iface(r, "eth0", "a6:a5:43:44:2e:f3", "/run/netns/pod3");

	i->mtu = 9000;
	i->socket_path = xstrdup("/s");
	i->pci_id = xstrdup("0000:01:00.1");
	cni_result_iface(r, "host0", NULL, "");
	cni_result_ip(r, &(struct cni_ip){t_net("10.1.2.3/24"), t_ip("10.1.2.1"), 0});
	cni_result_ip(r, &(struct cni_ip){t_net("fd00::5/64"), {0}, -1});
	cni_result_ip(r, &(struct cni_ip){t_net("10.1.2.4/24"), {0}, 1});
	cni_result_route(r, &(struct cni_route){.dst = t_net("0.0.0.0/0")});
	cni_result_route(r, &(struct cni_route){.dst = t_net("fd01::/48"),
						.gw = t_ip("fd00::1"),
						.mtu = 1400,
						.advmss = 1300,
						.priority = 7,
						.has_table = true,
						.has_scope = true,
						.scope = 253});
	r->dns.domain = xstrdup("d.e");
	VEC_PUSH(r->dns.nameservers, r->dns.n_nameservers) = xstrdup("1.1.1.1");
	VEC_PUSH(r->dns.search, r->dns.n_search) = xstrdup("<s>");
	VEC_PUSH(r->dns.options, r->dns.n_options) = xstrdup("ndots:5");
}

#define FULL_02                                                                                       \
	"\"ip4\":{\"ip\":\"10.1.2.3/24\",\"gateway\":\"10.1.2.1\","                                   \
	"\"routes\":[{\"dst\":\"0.0.0.0/0\"}]},"                                                      \
	"\"ip6\":{\"ip\":\"fd00::5/64\",\"routes\":[{\"dst\":\"fd01::/48\",\"gw\":\"fd00::1\"}]},"    \
	"\"dns\":{\"nameservers\":[\"1.1.1.1\"],\"domain\":\"d.e\",\"search\":[\"\\u003cs\\u003e\"]," \
	"\"options\":[\"ndots:5\"]}}"
#define FULL_04                                                                                       \
	"\"interfaces\":[{\"name\":\"eth0\",\"mac\":\"a6:a5:43:44:2e:f3\","                           \
	"\"sandbox\":\"/run/netns/pod3\"},{\"name\":\"host0\"}],"                                     \
	"\"ips\":[{\"version\":\"4\",\"interface\":0,\"address\":\"10.1.2.3/24\","                    \
	"\"gateway\":\"10.1.2.1\"},{\"version\":\"6\",\"address\":\"fd00::5/64\"},"                   \
	"{\"version\":\"4\",\"interface\":1,\"address\":\"10.1.2.4/24\"}],"                           \
	"\"routes\":[{\"dst\":\"0.0.0.0/0\"},{\"dst\":\"fd01::/48\",\"gw\":\"fd00::1\","              \
	"\"mtu\":1400,\"advmss\":1300,\"priority\":7,\"table\":0,\"scope\":253}],"                    \
	"\"dns\":{\"nameservers\":[\"1.1.1.1\"],\"domain\":\"d.e\",\"search\":[\"\\u003cs\\u003e\"]," \
	"\"options\":[\"ndots:5\"]}}"
#define FULL_1                                                                                     \
	"\"dns\":{\"domain\":\"d.e\",\"nameservers\":[\"1.1.1.1\"],\"options\":[\"ndots:5\"],"     \
	"\"search\":[\"\\u003cs\\u003e\"]},"                                                       \
	"\"interfaces\":[{\"mac\":\"a6:a5:43:44:2e:f3\",\"mtu\":9000,\"name\":\"eth0\","           \
	"\"pciID\":\"0000:01:00.1\",\"sandbox\":\"/run/netns/pod3\",\"socketPath\":\"/s\"},"       \
	"{\"name\":\"host0\"}],"                                                                   \
	"\"ips\":[{\"address\":\"10.1.2.3/24\",\"gateway\":\"10.1.2.1\",\"interface\":0},"         \
	"{\"address\":\"fd00::5/64\"},{\"address\":\"10.1.2.4/24\",\"interface\":1}],"             \
	"\"routes\":[{\"dst\":\"0.0.0.0/0\"},{\"advmss\":1300,\"dst\":\"fd01::/48\","              \
	"\"gw\":\"fd00::1\",\"mtu\":1400,\"priority\":7,\"scope\":253,\"table\":0}]}"

static void test_result_is_printed_in_every_cni_version(void **state)
{
	auto_result struct cni_result r = {0};

	(void)state;
	full(&r);
	prints(&r, CNI_0_1_0, "{\"cniVersion\":\"0.1.0\"," FULL_02);
	prints(&r, CNI_0_2_0, "{\"cniVersion\":\"0.2.0\"," FULL_02);
	prints(&r, CNI_0_3_0, "{\"cniVersion\":\"0.3.0\"," FULL_04);
	prints(&r, CNI_0_3_1, "{\"cniVersion\":\"0.3.1\"," FULL_04);
	prints(&r, CNI_0_4_0, "{\"cniVersion\":\"0.4.0\"," FULL_04);
	prints(&r, CNI_1_0_0, "{\"cniVersion\":\"1.0.0\"," FULL_1);
	prints(&r, CNI_1_1_0, "{\"cniVersion\":\"1.1.0\"," FULL_1);
}

static void test_results_are_converted_between_versions(void **state)
{
	(void)state;
	converts("{\"cniVersion\":\"0.2.0\"," FULL_02, CNI_0_2_0, CNI_0_2_0,
		 "{\"cniVersion\":\"0.2.0\"," FULL_02);
	converts("{\"cniVersion\":\"0.4.0\"," FULL_04, CNI_0_4_0, CNI_0_4_0,
		 "{\"cniVersion\":\"0.4.0\"," FULL_04);
	converts("{\"cniVersion\":\"1.0.0\"," FULL_1, CNI_1_0_0, CNI_1_0_0,
		 "{\"cniVersion\":\"1.0.0\"," FULL_1);
	converts("{\"cniVersion\":\"1.1.0\"," FULL_1, CNI_1_0_0, CNI_0_3_1,
		 "{\"cniVersion\":\"0.3.1\"," FULL_04);
	/* A result of 0.1.0 or 0.2.0 has no interfaces; an interface of 0.3.0 to 0.4.0 has only
	 * a name, a MAC and a sandbox. */
	converts(
		"{" FULL_02, CNI_0_1_0, CNI_1_0_0,
		"{\"cniVersion\":\"1.0.0\",\"dns\":{\"domain\":\"d.e\",\"nameservers\":[\"1.1.1.1\"],"
		"\"options\":[\"ndots:5\"],\"search\":[\"\\u003cs\\u003e\"]},"
		"\"ips\":[{\"address\":\"10.1.2.3/24\",\"gateway\":\"10.1.2.1\"},"
		"{\"address\":\"fd00::5/64\"}],"
		"\"routes\":[{\"dst\":\"0.0.0.0/0\"},{\"dst\":\"fd01::/48\",\"gw\":\"fd00::1\"}]}");
	converts("{\"interfaces\":[{\"name\":\"a\",\"mtu\":9000,\"pciID\":\"x\"}]}", CNI_0_4_0,
		 CNI_1_0_0, "{\"cniVersion\":\"1.0.0\",\"interfaces\":[{\"name\":\"a\"}]}");
}

static void test_empty_result_is_not_printed_in_version_0_2_0(void **state)
{
	struct cni_result r = {0};
	auto_buf struct buf b;
	struct err e = ERR_INIT;

	(void)state;
	prints(&r, CNI_1_1_0, "{\"cniVersion\":\"1.1.0\"}");
	prints(&r, CNI_0_4_0, "{\"cniVersion\":\"0.4.0\",\"dns\":{}}");
	buf_init(&b, 64);
	ASSERT_EQ(cni_result_print(&r, CNI_0_2_0, &b, &e), -EINVAL);
	ASSERT_STR_EQ(e.text, "cannot convert: no valid IP addresses");
	ASSERT_EQ(b.len, 0);
}

static void test_result_is_indented_like_go(void **state)
{
	auto_result struct cni_result r = {0};
	auto_buf struct buf b;

	(void)state;
	buf_init(&b, 4096);
	cni_result_ip(&r, &(struct cni_ip){t_net("10.1.2.3/24"), {0}, -1});
	ASSERT_EQ(cni_result_print(&r, CNI_0_3_1, &b, NULL), 0);
	ASSERT_STR_EQ(b.p, "{\n    \"cniVersion\": \"0.3.1\",\n    \"ips\": [\n        {\n"
			   "            \"version\": \"4\",\n"
			   "            \"address\": \"10.1.2.3/24\"\n        }\n    ],\n"
			   "    \"dns\": {}\n}");
}

/* Go's JSON decoder ignores the case of keys; if cniVersion occurs in several spellings, the
 * last one in byte order counts. */
static void test_result_with_an_incompatible_cni_version_is_refused(void **state)
{
	static const struct {
		const char *text;
		enum cni_version conf;
		const char *error; /* NULL: fine */
	} cases[] = {
		{"{}", CNI_0_1_0, NULL},
		{"{\"cniVersion\":\"0.1.0\"}", CNI_0_2_0, NULL},
		{"{\"cniVersion\":\"\"}", CNI_1_0_0, NULL},
		{"{\"cniVersion\":null}", CNI_1_0_0, NULL},
		{"{\"CNIVersion\":\"0.4.0\",\"cniVersion\":\"1.1.0\"}", CNI_1_0_0, NULL},
		{"{\"cniVersion\":\"1.1.0\",\"CNIVersion\":\"0.4.0\"}", CNI_1_0_0, NULL},
		{"{\"cniVersion\":\"0.4.0\",\"cniVersion\":\"1.1.0\"}", CNI_1_1_0, NULL},
		{"{\"cniVersion\":\"1.0.0\"}", CNI_0_4_0,
		 "result type supports [0.3.0 0.3.1 0.4.0] but unmarshalled CNIVersion is \"1.0.0\""},
		{"{\"CNIVERSION\":\"0.3.1\"}", CNI_1_1_0,
		 "result type supports [1.0.0 1.1.0] but unmarshalled CNIVersion is \"0.3.1\""},
		{"{\"cniVersion\":\"x\"}", CNI_0_2_0,
		 "result type supports [ 0.1.0 0.2.0] but unmarshalled CNIVersion is \"x\""},
		{"{\"cniVersion\":1}", CNI_1_0_0, "cniVersion is 1, expected a string"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		auto_result struct cni_result r = {0};
		struct err e = ERR_INIT;

		ASSERT_EQ_MSG(parse(cases[i].text, cases[i].conf, &r, &e),
			      cases[i].error ? -EINVAL : 0, "cases[%zu]", i);
		ASSERT_STR_EQ_MSG(e.text, cases[i].error ? cases[i].error : "", "cases[%zu]", i);
	}
}

static void test_malformed_results_are_refused(void **state)
{
	static const struct {
		const char *text, *expected;
	} cases[] = {
		{"[]", "result is an array, expected an object"},
		{"{\"ips\":5}", "result.ips is 5, expected an array of objects"},
		{"{\"ips\":[{}]}", "result.ips[0].address is missing"},
		{"{\"ips\":[null]}", "result.ips[0].address is missing"},
		{"{\"ips\":[{\"address\":\"10.0.0.1\"}]}",
		 "result.ips[0].address is \"10.0.0.1\", expected an address and prefix length like "
		 "10.0.0.0/24"},
		{"{\"ips\":[{\"address\":\"10.0.0.1/24\",\"interface\":-1}]}",
		 "result.ips[0].interface is -1, expected 0 to 2147483647"},
		{"{\"ips\":[{\"address\":\"10.0.0.1/24\",\"interface\":1e3}]}",
		 "result.ips[0].interface is 1000, expected a whole number"},
		{"{\"routes\":[{\"dst\":\"0.0.0.0/0\",\"mtu\":-5}]}",
		 "result.routes[0].mtu is -5, expected 0 to 4294967295"},
		{"{\"routes\":[{\"gw\":\"10.0.0.1\"}]}", "result.routes[0].dst is missing"},
		{"{\"interfaces\":[{\"name\":{}}]}",
		 "result.interfaces[0].name is an object, expected a string"},
		{"{\"dns\":{\"search\":\"x\"}}",
		 "result.dns.search is \"x\", expected an array of strings"},
		{"{\"dns\":[]}", "result.dns is an array, expected an object"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct cni_result r = {.n_ifaces = 77};
		struct err e = ERR_INIT;

		ASSERT_EQ_MSG(parse(cases[i].text, CNI_1_0_0, &r, &e), -EINVAL, "cases[%zu]", i);
		ASSERT_STR_EQ_MSG(e.text, cases[i].expected, "cases[%zu]", i);
		ASSERT_EQ_MSG(r.n_ifaces, 77, "cases[%zu]", i);
	}
	converts("{\"ips\":null,\"interfaces\":[null],\"IPS\":[{\"ADDRESS\":\"10.0.0.1/8\","
		 "\"gateway\":\"\"}]}",
		 CNI_1_0_0, CNI_1_0_0,
		 "{\"cniVersion\":\"1.0.0\",\"interfaces\":[{\"name\":\"\"}],"
		 "\"ips\":[{\"address\":\"10.0.0.1/8\"}]}");
}

static void test_copied_result_owns_its_strings(void **state)
{
	auto_result struct cni_result a = {0}, b = {0};

	(void)state;
	full(&a);
	cni_result_copy(&b, &a);
	prints(&b, CNI_1_0_0, "{\"cniVersion\":\"1.0.0\"," FULL_1);
	assert_ptr_not_equal(a.ifaces[0].name, b.ifaces[0].name);
}

static void test_cni_version_names_are_parsed(void **state)
{
	enum cni_version v = CNI_0_4_0;

	(void)state;
	for (unsigned int i = 0; i < CNI_VERSIONS; i++) {
		ASSERT_EQ(cni_version_parse(cni_version_str((enum cni_version)i), &v), 0);
		ASSERT_EQ(v, i);
	}
	ASSERT_EQ(cni_version_parse("1.0", &v), -EINVAL);
	ASSERT_EQ(cni_version_parse("", &v), -EINVAL);
	ASSERT_EQ(v, CNI_1_1_0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_result_is_printed_in_every_cni_version),
		cmocka_unit_test(test_results_are_converted_between_versions),
		cmocka_unit_test(test_empty_result_is_not_printed_in_version_0_2_0),
		cmocka_unit_test(test_result_is_indented_like_go),
		cmocka_unit_test(test_result_with_an_incompatible_cni_version_is_refused),
		cmocka_unit_test(test_malformed_results_are_refused),
		cmocka_unit_test(test_copied_result_owns_its_strings),
		cmocka_unit_test(test_cni_version_names_are_parsed),
	};

	return T_RUN(tests, NULL, NULL);
}
