/* SPDX-License-Identifier: Apache-2.0 */
/* Expected bytes: those of the plugin static of containernetworking/plugins, v1.9.1. */
#include "testlib.h"

#include "cni_invoke.h"

#define GOLDEN(version)                                                                            \
	"{\"cniVersion\":\"" version "\",\"name\":\"n\",\"type\":\"m\",\"ipam\":{"                 \
	"\"addresses\":[{\"address\":\"10.1.2.3/24\",\"gateway\":\"10.1.2.1\"},"                   \
	"{\"address\":\"fd00::5/64\"}],\"routes\":[{\"dst\":\"0.0.0.0/0\"},"                       \
	"{\"dst\":\"fd01::/48\",\"gw\":\"fd00::1\",\"mtu\":1400,\"table\":0}]}}"

static void test_result_has_the_bytes_of_the_original(void **state)
{
	static const struct {
		const char *conf, *out;
	} cases[] = {
		{GOLDEN("0.2.0"),
		 "{\"cniVersion\":\"0.2.0\",\"ip4\":{\"ip\":\"10.1.2.3/24\",\"gateway\":\"10.1.2.1\","
		 "\"routes\":[{\"dst\":\"0.0.0.0/0\"}]},\"ip6\":{\"ip\":\"fd00::5/64\","
		 "\"routes\":[{\"dst\":\"fd01::/48\",\"gw\":\"fd00::1\"}]},\"dns\":{}}"},
		{GOLDEN("0.4.0"),
		 "{\"cniVersion\":\"0.4.0\",\"ips\":[{\"version\":\"4\",\"address\":\"10.1.2.3/24\","
		 "\"gateway\":\"10.1.2.1\"},{\"version\":\"6\",\"address\":\"fd00::5/64\"}],"
		 "\"routes\":[{\"dst\":\"0.0.0.0/0\"},{\"dst\":\"fd01::/48\",\"gw\":\"fd00::1\","
		 "\"mtu\":1400,\"table\":0}],\"dns\":{}}"},
		{GOLDEN("1.0.0"),
		 "{\"cniVersion\":\"1.0.0\",\"ips\":[{\"address\":\"10.1.2.3/24\","
		 "\"gateway\":\"10.1.2.1\"},{\"address\":\"fd00::5/64\"}],"
		 "\"routes\":[{\"dst\":\"0.0.0.0/0\"},{\"dst\":\"fd01::/48\",\"gw\":\"fd00::1\","
		 "\"mtu\":1400,\"table\":0}]}"},
		{GOLDEN("1.1.0"),
		 "{\"cniVersion\":\"1.1.0\",\"ips\":[{\"address\":\"10.1.2.3/24\","
		 "\"gateway\":\"10.1.2.1\"},{\"address\":\"fd00::5/64\"}],"
		 "\"routes\":[{\"dst\":\"0.0.0.0/0\"},{\"dst\":\"fd01::/48\",\"gw\":\"fd00::1\","
		 "\"mtu\":1400,\"table\":0}]}"},
		{"{\"cniVersion\":\"1.0.0\",\"name\":\"n\",\"ipam\":{}}",
		 "{\"cniVersion\":\"1.0.0\"}"},
		{"{\"cniVersion\":\"0.3.1\",\"name\":\"n\",\"ipam\":{\"dns\":{\"domain\":\"x\"}}}",
		 "{\"cniVersion\":\"0.3.1\",\"dns\":{\"domain\":\"x\"}}"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		expect(&(struct invocation){.plugin = &cni_static,
					    .command = "ADD",
					    .conf = cases[i].conf},
		       0, cases[i].out);
}

#define IPS(list) "{\"cniVersion\":\"1.0.0\",\"ips\":[" list "]}"
#define CONF(more)                                                                                 \
	"{\"cniVersion\":\"1.0.0\",\"name\":\"n\",\"ipam\":{\"addresses\":["                       \
	"{\"address\":\"10.1.2.3/24\"}]}" more "}"

/* One ADD: CNI_ARGS, netconf and expected output. Precedence of the sources of addresses,
 * highest first: runtimeConfig, args.cni, then CNI_ARGS together with the addresses of `ipam`. */
struct add {
	const char *args, *conf, *out;
};

static void expect_adds(const struct add *v, size_t n, int status)
{
	for (size_t i = 0; i < n; i++)
		expect(&(struct invocation){.plugin = &cni_static,
					    .command = "ADD",
					    .args = v[i].args,
					    .conf = v[i].conf},
		       status, v[i].out);
}

static void test_runtime_config_takes_precedence_over_args_cni_and_args_cni_over_ipam(void **state)
{
	static const struct add cases[] = {
		{"IP=10.1.2.9/24, fd00::9/64;GATEWAY=10.1.2.1", CONF(""),
		 IPS("{\"address\":\"10.1.2.3/24\"},"
		     "{\"address\":\"10.1.2.9/24\",\"gateway\":\"10.1.2.1\"},"
		     "{\"address\":\"fd00::9/64\"}")},
		{"IP=;GATEWAY=", CONF(""), IPS("{\"address\":\"10.1.2.3/24\"}")},
		{"IP=10.1.2.9/24", CONF(",\"args\":{\"cni\":{\"ips\":[\"10.5.0.1/16\"]}}"),
		 IPS("{\"address\":\"10.5.0.1/16\"}")},
		{NULL,
		 CONF(",\"args\":{\"cni\":{\"ips\":[\"10.5.0.1/16\"]}},"
		      "\"runtimeConfig\":{\"ips\":[\"10.6.0.1/16\",\"fd00::1/64\"]}"),
		 IPS("{\"address\":\"10.6.0.1/16\"},{\"address\":\"fd00::1/64\"}")},
		{NULL, CONF(",\"args\":{\"cni\":null},\"runtimeConfig\":null"),
		 IPS("{\"address\":\"10.1.2.3/24\"}")},
	};

	(void)state;
	expect_adds(cases, ARRAY_LEN(cases), 0);
}

static void test_invalid_addresses_are_refused(void **state)
{
	static const struct add cases[] = {
		{NULL, "{\"name\":\"n\"}",
		 "{\"code\":7,\"msg\":\"IPAM config missing 'ipam' key\"}"},
		{NULL, "{\"name\":\"n\",\"ipam\":{\"addresses\":[{\"address\":\"10.0.0.1\"}]}}",
		 "{\"code\":7,\"msg\":\"the 'address' field is expected to be in CIDR notation, got: "
		 "'10.0.0.1'\"}"},
		{"IP=10.0.0.1", CONF(""),
		 "{\"code\":4,\"msg\":\"the 'ip' field is expected to be in CIDR notation, got: "
		 "'10.0.0.1'\"}"},
		{"GATEWAY=x", CONF(""), "{\"code\":4,\"msg\":\"invalid gateway address: x\"}"},
		{NULL, CONF(",\"runtimeConfig\":{\"ips\":[\"x\"]}"),
		 "{\"code\":7,\"msg\":\"an entry in the 'ips' field is NOT in CIDR notation, got: "
		 "'x'\"}"},
		{"IP=10.1.2.9/24",
		 "{\"name\":\"n\",\"cniVersion\":\"0.2.0\",\"ipam\":{\"addresses\":["
		 "{\"address\":\"10.1.2.3/24\"}]}}",
		 "{\"code\":7,\"msg\":\"CNI version 0.2.0 does not support more than 1 address per "
		 "family\"}"},
		{NULL, "{\"name\":\"n\",\"ipam\":{\"addresses\":[{\"gateway\":\"x\"}]}}",
		 "{\"code\":7,\"msg\":\"conf.ipam.addresses[0].gateway is \\\"x\\\", expected an IP "
		 "address\"}"},
		{NULL, CONF(",\"args\":{\"cni\":{\"ips\":\"x\"}}"),
		 "{\"code\":7,\"msg\":\"conf.args.cni.ips is \\\"x\\\", expected an array of strings\"}"},
		{NULL, "{\"name\":\"n\",\"ipam\":[]}",
		 "{\"code\":7,\"msg\":\"conf.ipam is an array, expected an object\"}"},
	};

	(void)state;
	expect_adds(cases, ARRAY_LEN(cases), 1);
}

#define CHECKED(prev)                                                                              \
	"{\"cniVersion\":\"1.0.0\",\"name\":\"n\",\"ipam\":{\"addresses\":["                       \
	"{\"address\":\"10.1.2.3/24\",\"gateway\":\"10.1.2.1\"}]}" prev "}"

static void test_check_requires_the_addresses_in_prev_result(void **state)
{
	struct invocation v = {.plugin = &cni_static, .command = "CHECK"};

	(void)state;
	v.conf = CHECKED(",\"prevResult\":{\"ips\":[{\"address\":\"10.1.2.3/24\","
			 "\"gateway\":\"10.1.2.1\"}]}");
	expect(&v, 0, "");
	v.conf = CHECKED("");
	expect(&v, 1, "{\"code\":7,\"msg\":\"Required prevResult missing\"}");
	v.conf = CHECKED(",\"prevResult\":{\"ips\":[{\"address\":\"10.1.2.3/24\","
			 "\"gateway\":\"10.1.2.2\"}]}");
	expect(&v, 1,
	       "{\"code\":999,\"msg\":\"static: Failed to match addr 10.1.2.3 on interface eth0\"}");
	/* The original does not detect that prevResult lacks the address. */
	v.conf = CHECKED(",\"prevResult\":{\"ips\":[{\"address\":\"10.1.2.4/24\"}]}");
	expect(&v, 1, "{\"code\":999,\"msg\":\"static: addr 10.1.2.3 is not in prevResult\"}");
}

static void test_del_gc_and_status_of_static_need_no_addresses(void **state)
{
	struct invocation v = {.plugin = &cni_static,
			       .conf = "{\"cniVersion\":\"1.1.0\",\"name\":\"n\"}"};
	static const char *const verbs[] = {"DEL", "GC"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(verbs); i++) {
		v.command = verbs[i];
		expect(&v, 0, "");
	}
	/* STATUS fails only for an invalid configuration. */
	v.command = "STATUS";
	v.conf = "{\"cniVersion\":\"1.1.0\",\"name\":\"n\",\"ipam\":{\"type\":\"static\"}}";
	expect(&v, 0, "");
	v.conf = "{\"cniVersion\":\"1.1.0\",\"name\":\"n\",\"ipam\":{\"type\":\"static\","
		 "\"addresses\":[{\"address\":\"10.0.0\"}]}}";
	expect(&v, 1,
	       "{\"code\":7,\"msg\":\"the 'address' field is expected to be in CIDR notation, got: "
	       "'10.0.0'\"}");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_result_has_the_bytes_of_the_original),
		cmocka_unit_test(
			test_runtime_config_takes_precedence_over_args_cni_and_args_cni_over_ipam),
		cmocka_unit_test(test_invalid_addresses_are_refused),
		cmocka_unit_test(test_check_requires_the_addresses_in_prev_result),
		cmocka_unit_test(test_del_gc_and_status_of_static_need_no_addresses),
	};

	return T_RUN(tests, NULL, NULL);
}
