/* SPDX-License-Identifier: Apache-2.0 */
/* The paths of the API with their responses byte for byte, and their effect on the store. */
#include "testlib.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/api/api.h"
#include "agent_lab.h"
#include "base/alloc.h"
#include "wire/json/json.h"

#define POOLS                                                                                      \
	"[pool a]\nsubnet=10.0.0.0/24\nips=10.0.0.10-10.0.0.12\ngateway=10.0.0.1\n"                \
	"route=10.9.0.0/16 via 10.0.0.2\ndefault=yes\n"                                            \
	"[pool b]\nsubnet=10.0.1.0/24\nips=10.0.1.10-10.0.1.19\n"                                  \
	"[pool six]\nsubnet=fd00::/64\nips=fd00::10-fd00::ff\ngateway=fd00::1\n"

static void serve(void (*more)(struct ipam_api_conf *c))
{
	if (al_server)
		al_stop(al_server);
	al_server = al_serve_ipam(&il_lab, NULL, more);
}

static int setup(void **state)
{
	il_setup(state);
	il_lab.paths.now_ms = NULL;
	il_pools(&il_lab, POOLS);
	serve(NULL);
	return 0;
}

static void expect(const char *method, const char *path, const char *body, int status,
		   const char *answer)
{
	auto_free char *target = xasprintf("/v1/%s", path);

	al_expect(&il_lab, method, target, body, status, answer);
}

#define POD "\"podName\":\"p\",\"podNamespace\":\"ns\",\"podUID\":\"u\""
#define ARGS(id, ifname)                                                                           \
	"{\"containerID\":\"" id "\",\"ifName\":\"" ifname "\",\"netNamespace\":\"/n\"," POD "}"

/* --- paths of Spiderpool --- */

static void test_probe_paths_and_post_ipam_ips_return_an_empty_response(void **state)
{
	static const char *const get[] = {"ipam/healthy", "runtime/startup", "runtime/readiness",
					  "runtime/liveness"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(get); i++)
		expect("GET", get[i], NULL, 200, "");
	expect("POST", "ipam/ips", NULL, 200, "");
}

static void test_spiderpool_add_allocates_and_del_releases(void **state)
{
	static const char *const answer =
		"{\"ips\":[{\"address\":\"10.0.0.10/24\",\"gateway\":\"10.0.0.1\",\"ipPool\":\"a\","
		"\"nic\":\"eth0\",\"version\":4}],\"routes\":[{\"dst\":\"10.9.0.0/16\","
		"\"gw\":\"10.0.0.2\",\"ifName\":\"eth0\"},{\"dst\":\"0.0.0.0/0\",\"gw\":\"10.0.0.1\","
		"\"ifName\":\"eth0\"}]}\n";

	(void)state;
	expect("POST", "ipam/ip", ARGS("c1", "eth0"), 200, answer);
	expect("POST", "ipam/ip", ARGS("c1", "eth0"), 200, answer);
	ASSERT_EQ(il_records(&il_lab, "used"), 1);
	expect("DELETE", "ipam/ip", ARGS("c1", "net1"), 200, "");
	ASSERT_EQ(il_records(&il_lab, "used"), 1);
	expect("DELETE", "ipam/ip", ARGS("c1", "eth0"), 200, "");
	expect("DELETE", "ipam/ip", ARGS("c1", "eth0"), 200, "");
	ASSERT_EQ(il_records(&il_lab, "used"), 0);
}

/* Spiderpool's agent, in contrast, allocates the same address to the first two interfaces of a
 * pod. */
static void test_second_interface_gets_an_address_of_its_own(void **state)
{
	auto_free char *answer = NULL;

	(void)state;
	free(al_request(&il_lab, "POST", "/v1/ipam/ip", ARGS("c1", "eth0")));
	answer = al_request(&il_lab, "POST", "/v1/ipam/ip", ARGS("c1", "net1"));
	ASSERT_HAS(answer, "\"10.0.0.11/24\"");
	ASSERT_EQ(il_records(&il_lab, "used"), 2);
	expect("DELETE", "ipam/ips", "{\"containerID\":\"c1\"," POD "}", 200, "");
	ASSERT_EQ(il_records(&il_lab, "used"), 0);
}

static void test_pools_and_clean_gateway_of_a_request_are_applied(void **state)
{
	(void)state;
	il_write(&il_lab, "/pools/s.conf",
		 "[settings]\nconflict-detection=yes\ngateway-detection=yes\n");
	serve(NULL);
	expect("POST", "ipam/ip",
	       "{\"cleanGateway\":true,\"containerID\":\"c1\",\"defaultIPv4IPPool\":[\"b\"],"
	       "\"defaultIPv6IPPool\":[\"six\"],\"ifName\":\"net1\",\"matchMasterSubnet\":false,"
	       "\"netNamespace\":\"\"," POD "}",
	       200,
	       "{\"ips\":[{\"address\":\"10.0.1.10/24\",\"enableGatewayDetection\":true,"
	       "\"enableIPConflictDetection\":true,\"ipPool\":\"b\",\"nic\":\"net1\",\"version\":4},"
	       "{\"address\":\"fd00::10/64\",\"enableGatewayDetection\":true,"
	       "\"enableIPConflictDetection\":true,\"gateway\":\"fd00::1\",\"ipPool\":\"six\","
	       "\"nic\":\"net1\",\"version\":6}],\"routes\":[]}\n");
	/* null counts as absent, and the case of letters in keys does not matter, as in Go */
	expect("POST", "ipam/ip",
	       "{\"CONTAINERID\":\"c2\",\"defaultIPv4IPPool\":null,\"ifname\":\"n\","
	       "\"netNamespace\":\"\",\"unknown\":1," POD "}",
	       200,
	       "{\"ips\":[{\"address\":\"10.0.0.10/24\",\"enableGatewayDetection\":true,"
	       "\"enableIPConflictDetection\":true,\"gateway\":\"10.0.0.1\",\"ipPool\":\"a\","
	       "\"nic\":\"n\",\"version\":4}],\"routes\":[{\"dst\":\"10.9.0.0/16\",\"gw\":\"10.0.0.2\","
	       "\"ifName\":\"n\"},{\"dst\":\"0.0.0.0/0\",\"gw\":\"10.0.0.1\",\"ifName\":\"n\"}]}\n");
}

static void test_failed_spiderpool_requests_return_a_json_string(void **state)
{
	auto_free char *answer = NULL;

	(void)state;
	answer = al_request(
		&il_lab, "POST", "/v1/ipam/ip",
		"{\"containerID\":\"c1\",\"defaultIPv4IPPool\":[\"nope\"],\"ifName\":\"n\","
		"\"netNamespace\":\"\"," POD "}");
	ASSERT_HAS(answer, "HTTP/1.1 500 ");
	ASSERT_HAS(answer, "\r\n\r\n\"");
	ASSERT_HAS(answer, "nope");
	ASSERT_HAS(answer, "\"\n");
	free(take(answer));
	answer = al_request(&il_lab, "POST", "/v1/ipam/ip",
			    "{\"containerID\":\"c1\",\"matchMasterSubnet\":true,\"ifName\":\"n\","
			    "\"netNamespace\":\"\"," POD "}");
	ASSERT_HAS(answer, "HTTP/1.1 500 ");
	ASSERT_HAS(answer, "\"matchMasterSubnet: ");
}

#define MISSING(field) "{\"code\":602,\"message\":\"" field " in body is required\"}"

static void test_missing_fields_are_named(void **state)
{
	static const struct {
		const char *method, *path, *body, *answer;
	} v[] = {
		{"POST", "ipam/ip", NULL, MISSING("ipam-add-args")},
		{"DELETE", "ipam/ip", NULL, MISSING("ipam-del-args")},
		{"DELETE", "ipam/ips", NULL, MISSING("ipam-batch-del-args")},
		{"GET", "coordinator/config", NULL, MISSING("get-coordinator-config")},
		/* if several fields are missing, the error names the first in alphabetical order */
		{"POST", "ipam/ip", "{}", MISSING("containerID")},
		{"POST", "ipam/ip", "{\"containerID\":\"c\"}", MISSING("ifName")},
		{"POST", "ipam/ip", "{\"containerID\":\"c\",\"ifName\":null}", MISSING("ifName")},
		{"POST", "ipam/ip", "{\"containerID\":\"c\",\"ifName\":\"i\"}",
		 MISSING("netNamespace")},
		{"POST", "ipam/ip",
		 "{\"containerID\":\"c\",\"ifName\":\"i\",\"netNamespace\":\"\"}",
		 MISSING("podName")},
		{"DELETE", "ipam/ip", "{\"containerID\":\"c\",\"ifName\":\"i\"}",
		 MISSING("podName")},
		{"DELETE", "ipam/ip", "{\"containerID\":\"c\",\"ifName\":\"i\",\"podName\":\"\"}",
		 MISSING("podNamespace")},
		{"DELETE", "ipam/ips",
		 "{\"containerID\":\"c\",\"podName\":\"\",\"podNamespace\":\"\"}",
		 MISSING("podUID")},
		{"POST", "ipam/ip", ARGS("", "eth0"),
		 "{\"code\":604,\"message\":\"containerID in body should be at least 1 chars "
		 "long\"}"},
		{"POST", "unirail/pods/plan", "{}", MISSING("containerID")},
		{"POST", "unirail/pods/release", "{}", MISSING("containerID")},
		{"POST", "unirail/networks/gc", "{\"network\":\"n\"}", MISSING("valid")},
		{"GET", "workloadendpoint", NULL,
		 "{\"code\":602,\"message\":\"podName in query is required\"}"},
		{"GET", "workloadendpoint?podName=p&podNamespace=", NULL,
		 "{\"code\":602,\"message\":\"podNamespace in query is required\"}"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(v); i++)
		expect(v[i].method, v[i].path, v[i].body, 422, v[i].answer);
	ASSERT_EQ(il_records(&il_lab, "used"), 0);
}

static void test_malformed_bodies_are_refused(void **state)
{
	static const char *const bad[] = {
		"{",
		"[]",
		"\"x\"",
		"null",
		"{\"containerID\":5}",
		"{\"containerID\":\"a\"}}",
		"{\"containerID\":\"c\",\"defaultIPv4IPPool\":[1]}",
		"\xff",
		"{\"containerID\":\"\\u0000\"}",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		auto_free char *answer = al_request(&il_lab, "POST", "/v1/ipam/ip", bad[i]);

		ASSERT_HAS(answer, "HTTP/1.1 400 Bad Request");
		ASSERT_HAS(answer,
			   "{\"code\":400,\"message\":\"parsing ipam-add-args body from \\\"\\\" "
			   "failed, because ");
	}
}

static void test_unknown_paths_and_methods_are_refused(void **state)
{
	auto_free char *answer = NULL;
	int fd;

	(void)state;
	al_expect(&il_lab, "GET", "/v2/x?y", NULL, 404,
		  "{\"code\":404,\"message\":\"path /v2/x was not found\"}");
	al_expect(&il_lab, "GET", "/v1/ipam/healthy/", NULL, 404,
		  "{\"code\":404,\"message\":\"path /v1/ipam/healthy/ was not found\"}");
	answer = al_request(&il_lab, "PUT", "/v1/ipam/ip", "{}");
	ASSERT_HAS(answer, "HTTP/1.1 405 Method Not Allowed\r\nAllow: POST,DELETE\r\n");
	ASSERT_HAS(answer,
		   "{\"code\":405,\"message\":\"method PUT is not allowed, but [POST,DELETE] "
		   "are\"}");
	free(take(answer));
	fd = al_connect(&il_lab);
	al_send(fd, "POST /v1/ipam/ip HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: "
		    "text/plain\r\nContent-Length: 2\r\n\r\n{}");
	answer = al_read(fd, NULL);
	close(fd);
	ASSERT_HAS(answer, "HTTP/1.1 415 ");
	ASSERT_HAS(answer,
		   "{\"code\":415,\"message\":\"unsupported media type \\\"text/plain\\\", only "
		   "[application/json] are allowed\"}");
	al_expect(&il_lab, "OPTIONS", "*", NULL, 400,
		  "{\"code\":400,\"message\":\"the request target is not a path\"}");
}

static void test_workload_endpoint_lists_the_pods_addresses(void **state)
{
	(void)state;
	expect("GET", "workloadendpoint?podNamespace=ns&podName=p", NULL, 404,
	       "\"SpiderEndpoint not found for pod ns/p\"\n");
	free(al_request(&il_lab, "POST", "/v1/unirail/pods/plan",
			"{\"containerID\":\"c1\"," POD ",\"rails\":[{\"ifName\":\"eth0\","
			"\"defaultIPv4IPPool\":[\"b\"],\"defaultIPv6IPPool\":[\"six\"]},"
			"{\"ifName\":\"net1\"}]}"));
	expect("GET", "workloadendpoint?podNamespace=n%73&podName=p", NULL, 200,
	       "{\"interfaces\":[{\"interface\":\"eth0\",\"ipv4\":\"10.0.1.10/24\",\"ipv4Pool\":\"b\","
	       "\"ipv6\":\"fd00::10/64\",\"ipv6Gateway\":\"fd00::1\",\"ipv6Pool\":\"six\",\"routes\":[]"
	       "},{\"interface\":\"net1\","
	       "\"ipv4\":\"10.0.0.10/24\",\"ipv4Gateway\":\"10.0.0.1\",\"ipv4Pool\":\"a\",\"routes\":["
	       "{\"dst\":\"10.9.0.0/16\",\"gw\":\"10.0.0.2\",\"ifName\":\"net1\"}]}],"
	       "\"node\":\"node1\",\"podName\":\"p\",\"podNamespace\":\"ns\",\"podUID\":\"u\"}\n");
	expect("GET", "workloadendpoint?podNamespace=%0g&podName=p", NULL, 400,
	       "\"the query is malformed, or a value in it is too long\"\n");
}

static void test_coordinator_settings_are_returned(void **state)
{
	(void)state;
	expect("GET", "coordinator/config", "{\"podName\":\"p\",\"podNamespace\":\"ns\"}", 200,
	       "{\"hijackCIDR\":[],\"hostRuleTable\":500,\"mode\":\"auto\",\"overlayPodCIDR\":[],"
	       "\"policyRoutes\":[],\"serviceCIDR\":[],\"tunePodRoutes\":true,\"vethMTU\":1500}\n");
	il_write(&il_lab, "/etc/agent.conf", "[coordinator]\nmode=underlay\n");
	serve(NULL);
	expect("GET", "coordinator/config", "{}", 200,
	       "{\"hijackCIDR\":[],\"hostRuleTable\":500,\"mode\":\"underlay\",\"overlayPodCIDR\":[],"
	       "\"policyRoutes\":[],\"serviceCIDR\":[],\"tunePodRoutes\":true,\"vethMTU\":1500}\n");
}

static void put_devices(void *arg, struct json_out *o)
{
	jo_arr(o);
	jo_obj(o);
	jo_kstr(o, "resource", arg);
	jo_end_obj(o);
	jo_end_arr(o);
}

static void with_devices(struct ipam_api_conf *c)
{
	c->put_devices = put_devices;
	c->devices_arg = (char *)(uintptr_t) "a/b";
}

static void test_devices_are_returned_only_with_a_device_plugin(void **state)
{
	(void)state;
	expect("GET", "unirail/devices", NULL, 404,
	       "{\"code\":404,\"message\":\"this server has no device plugin\"}");
	serve(with_devices);
	expect("GET", "unirail/devices", NULL, 200, "{\"resources\":[{\"resource\":\"a/b\"}]}\n");
}

static void no_conflict_ips(struct ipam_api_conf *c)
{
	c->no_release_conflict_ips = true;
}

#define CONFLICT "{\"containerID\":\"c1\"," POD ",\"isReleaseConflictIPs\":true}"

static void test_conflicting_addresses_of_stateful_pods_are_not_released(void **state)
{
	(void)state;
	free(al_request(&il_lab, "POST", "/v1/unirail/pods/plan",
			"{\"containerID\":\"c1\"," POD ",\"rails\":[{\"ifName\":\"eth0\","
			"\"sticky\":true}]}"));
	expect("DELETE", "ipam/ips", CONFLICT, 522,
	       "\"forbid releasing IPs for stateful workload \"\n");
	ASSERT_EQ(il_records(&il_lab, "used"), 1);
	expect("DELETE", "ipam/ips", "{\"containerID\":\"c1\"," POD "}", 200, "");
	ASSERT_EQ(il_records(&il_lab, "sticky"), 1);
	free(al_request(&il_lab, "POST", "/v1/ipam/ip", ARGS("c1", "net1")));
	serve(no_conflict_ips);
	expect("DELETE", "ipam/ips", CONFLICT, 521,
	       "\"forbid releasing IPs for stateless workload\"\n");
	serve(NULL);
	expect("DELETE", "ipam/ips", CONFLICT, 200, "");
	ASSERT_EQ(il_records(&il_lab, "used"), 0);
}

static void test_invalid_pools_fail_add_but_not_release(void **state)
{
	auto_free char *answer = NULL;

	(void)state;
	free(al_request(&il_lab, "POST", "/v1/ipam/ip", ARGS("c1", "eth0")));
	il_pools(&il_lab, "[pool a]\nsubnet=10.0.0.0/24\nips=11.0.0.1\n");
	serve(NULL);
	answer = al_request(&il_lab, "POST", "/v1/ipam/ip", ARGS("c2", "eth0"));
	ASSERT_HAS(answer, "HTTP/1.1 500 ");
	ASSERT_HAS(answer, "rails.conf:");
	free(take(answer));
	answer = al_request(&il_lab, "GET", "/v1/runtime/readiness", NULL);
	ASSERT_HAS(answer, "HTTP/1.1 500 ");
	ASSERT_HAS(answer, "rails.conf:");
	expect("GET", "runtime/liveness", NULL, 200, "");
	/* A release requires no pools. */
	expect("DELETE", "ipam/ip", ARGS("c1", "eth0"), 200, "");
	il_pools(&il_lab, POOLS);
	ASSERT_EQ(il_records(&il_lab, "used"), 0);
}

/* --- paths of unirail --- */

#define RAIL(name, pool) "{\"ifName\":\"" name "\",\"defaultIPv4IPPool\":[\"" pool "\"]}"
#define PLAN(id, rails)	 "{\"containerID\":\"" id "\"," POD ",\"rails\":[" rails "]}"
#define TWO(is_new)                                                                                \
	"{\"rails\":[{\"ifName\":\"net1\",\"ips\":[{\"address\":\"10.0.0.10/24\",\"gateway\":"     \
	"\"10.0.0.1\",\"ipPool\":\"a\",\"nic\":\"net1\",\"version\":4}],\"routes\":[{\"dst\":"     \
	"\"10.9.0.0/16\",\"gw\":\"10.0.0.2\",\"ifName\":\"net1\"},{\"dst\":\"0.0.0.0/0\",\"gw\":"  \
	"\"10.0.0.1\",\"ifName\":\"net1\"}],\"newlyAllocated\":" is_new                            \
	",\"enableIPConflictDetection\":false,\"enableGatewayDetection\":false},"                  \
	"{\"ifName\":\"net2\",\"ips\":[{\"address\":\"10.0.1.10/24\",\"ipPool\":\"b\",\"nic\":"    \
	"\"net2\",\"version\":4}],\"routes\":[],\"newlyAllocated\":" is_new                        \
	",\"enableIPConflictDetection\":false,\"enableGatewayDetection\":false}]}"

static void test_pod_addresses_are_planned_checked_and_released(void **state)
{
	auto_free char *answer = NULL;

	(void)state;
	expect("POST", "unirail/pods/plan", PLAN("c1", RAIL("net1", "a") "," RAIL("net2", "b")),
	       200, TWO("true"));
	expect("POST", "unirail/pods/plan", PLAN("c1", RAIL("net1", "a") "," RAIL("net2", "b")),
	       200, TWO("false"));
	expect("POST", "unirail/pods/check", "{\"containerID\":\"c1\"}", 200, TWO("false"));
	expect("POST", "unirail/pods/check", "{\"containerID\":\"c1\",\"rails\":[\"net9\"]}", 200,
	       "{\"rails\":[]}");
	expect("POST", "unirail/pods/check", "{\"containerID\":\"c2\"}", 200, "{\"rails\":[]}");
	/* The rails are in the order in which they got their first address, not in the order of
	 * their names. */
	free(al_request(&il_lab, "POST", "/v1/unirail/pods/plan", PLAN("c3", RAIL("net2", "b"))));
	free(al_request(&il_lab, "POST", "/v1/unirail/pods/plan",
			PLAN("c3", RAIL("net1", "b") "," RAIL("net0", "b"))));
	answer = al_request(&il_lab, "POST", "/v1/unirail/pods/check", "{\"containerID\":\"c3\"}");
	ASSERT_HAS(answer, "{\"ifName\":\"net2\"");
	ASSERT_HAS(strstr(answer, "{\"ifName\":\"net2\""), "{\"ifName\":\"net1\"");
	ASSERT_HAS(strstr(answer, "{\"ifName\":\"net1\""), "{\"ifName\":\"net0\"");
	expect("POST", "unirail/pods/release", "{\"containerID\":\"c3\"}", 200, "{\"released\":3}");
	expect("POST", "unirail/pods/release", "{\"containerID\":\"c1\",\"rails\":[\"net2\"]}", 200,
	       "{\"released\":1}");
	expect("POST", "unirail/pods/release", "{\"containerID\":\"c1\"}", 200, "{\"released\":1}");
	expect("POST", "unirail/pods/release", "{\"containerID\":\"c1\"}", 200, "{\"released\":0}");
}

static void test_plan_allocates_addresses_for_all_rails_or_for_no_rail(void **state)
{
	auto_free char *answer = NULL;

	(void)state;
	/* pool a has three addresses */
	answer = al_request(&il_lab, "POST", "/v1/unirail/pods/plan",
			    PLAN("c1",
				 RAIL("net1", "b") "," RAIL("net2", "a") "," RAIL(
					 "net3", "a") "," RAIL("net4", "a") "," RAIL("net5", "a")));
	ASSERT_HAS(answer, "HTTP/1.1 500 ");
	ASSERT_HAS(answer, "{\"code\":11,\"message\":");
	ASSERT_HAS(answer, "'a'");
	ASSERT_EQ(il_records(&il_lab, "used"), 0);
}

static void test_dry_run_of_a_plan_allocates_nothing(void **state)
{
	auto_free char *answer = NULL;

	(void)state;
	expect("POST", "unirail/pods/plan",
	       "{\"containerID\":\"c1\",\"dryRun\":true,\"rails\":[{\"ifName\":\"a\"}]}", 200,
	       "{\"rails\":[]}");
	ASSERT_EQ(il_records(&il_lab, "used"), 0);
	answer = al_request(
		&il_lab, "POST", "/v1/unirail/pods/plan",
		"{\"containerID\":\"c1\",\"dryRun\":true,\"rails\":[" RAIL("a", "none") "]}");
	ASSERT_HAS(answer, "{\"code\":7,");
}

static void test_plan_uses_the_requested_addresses_and_master(void **state)
{
	auto_free char *answer = NULL;

	(void)state;
	answer = al_request(
		&il_lab, "POST", "/v1/unirail/pods/plan",
		PLAN("c1", "{\"ifName\":\"n\",\"network\":\"net\",\"addresses\":[\"10.0.1.15\"],"
			   "\"defaultIPv4IPPool\":[\"*\"],\"matchMasterSubnet\":true,"
			   "\"master\":\"eth0\",\"masterAddresses\":[\"10.0.1.2/24\"],"
			   "\"cleanGateway\":true,\"sticky\":true}"));
	ASSERT_HAS(answer, "\"address\":\"10.0.1.15/24\"");
	expect("POST", "unirail/networks/gc", "{\"network\":\"net\",\"valid\":[]}", 200,
	       "{\"released\":1}");
	ASSERT_EQ(il_records(&il_lab, "sticky"), 1);
}

static void test_invalid_plans_are_refused(void **state)
{
	static const struct {
		const char *body, *expected;
		int status;
	} bad[] = {
		{"{\"containerID\":\"c\",\"rails\":[]}", "1 to 64 items", 422},
		{"{\"containerID\":\"c\"}", "1 to 64 items", 422},
		{"{\"containerID\":\"c\",\"rails\":[{}]}", "rails.ifName in body is required", 422},
		{"{\"containerID\":\"c\",\"rails\":[{\"ifName\":\"\"}]}", "at least 1 chars", 422},
		{"{\"containerID\":\"c\",\"rails\":[{\"ifName\":\"a\"},{\"ifName\":\"a\"}]}",
		 "'a' in body occurs twice", 422},
		{"{\"containerID\":\"c\",\"rails\":[{\"ifName\":\"a\",\"addresses\":[\"x\"]}]}",
		 "rails.addresses in body: 'x' is not an address", 422},
		{"{\"containerID\":\"c\",\"rails\":[{\"ifName\":\"a\",\"masterAddresses\":[\"1\"]}]}",
		 "rails.masterAddresses in body: '1'", 422},
		{"{\"containerID\":\"c\",\"rails\":[{\"ifName\":\"a\",\"stickyy\":true}]}",
		 "did you mean 'sticky'", 400},
		{"{\"containerID\":\"c\",\"rails\":{}}", "plan.rails", 400},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		auto_free char *answer =
			al_request(&il_lab, "POST", "/v1/unirail/pods/plan", bad[i].body);

		ASSERT_HAS(answer, bad[i].expected);
		ASSERT_EQ_MSG(atoi(answer + 9), bad[i].status, "bad[%zu]", i);
	}
	ASSERT_EQ(il_records(&il_lab, "used"), 0);
}

static void test_reported_conflicts_are_quarantined(void **state)
{
	auto_free char *answer = NULL;

	(void)state;
	free(al_request(&il_lab, "POST", "/v1/unirail/pods/plan", PLAN("c1", RAIL("net1", "a"))));
	/* A report with the ID of another container quarantines nothing. */
	expect("POST", "unirail/pods/report",
	       "{\"containerID\":\"c2\",\"conflicts\":[{\"address\":\"10.0.0.10\"}]}", 200,
	       "{\"quarantined\":0}");
	ASSERT_EQ(il_records(&il_lab, "used"), 1);
	expect("POST", "unirail/pods/report",
	       "{\"containerID\":\"c1\",\"conflicts\":[{\"address\":\"10.0.0.10\","
	       "\"mac\":\"0a:00:00:00:00:01\"},{\"address\":\"10.0.0.99\"},"
	       "{\"address\":\"10.0.0.10\",\"mac\":\"0a:00:00:00:00:01\"}]}",
	       200, "{\"quarantined\":1}");
	ASSERT_EQ(il_records(&il_lab, "quarantined"), 1);
	answer =
		al_request(&il_lab, "POST", "/v1/unirail/pods/plan", PLAN("c1", RAIL("net1", "a")));
	ASSERT_HAS(answer, "\"10.0.0.11/24\"");
}

static void test_gc_of_a_network_releases_invalid_attachments(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++) {
		auto_free char *body =
			xasprintf("{\"containerID\":\"c%d\",\"rails\":[{\"ifName\":\"net1\","
				  "\"network\":\"n%d\"}]}",
				  i, i / 2);

		free(al_request(&il_lab, "POST", "/v1/unirail/pods/plan", body));
	}
	expect("POST", "unirail/networks/gc",
	       "{\"network\":\"n0\",\"valid\":[{\"containerID\":\"c1\",\"ifName\":\"net1\"}]}", 200,
	       "{\"released\":1}");
	ASSERT_EQ(il_records(&il_lab, "used"), 2);
	expect("POST", "unirail/networks/gc", "{\"network\":\"n0\",\"valid\":[]}", 200,
	       "{\"released\":1}");
	expect("POST", "unirail/networks/gc", "{\"network\":\"n1\",\"valid\":null}", 422,
	       MISSING("valid"));
	ASSERT_EQ(il_records(&il_lab, "used"), 1);
}

/* --- the store is locked --- */

static void test_request_waits_for_a_locked_store(void **state)
{
	struct ipam *held = il_open(&il_lab);
	auto_free char *answer = NULL;
	int fd = al_connect(&il_lab);

	(void)state;
	al_send_request(fd, "POST", "/v1/ipam/ip", ARGS("c1", "eth0"));
	/* Requests that do not use the store do not wait for it. */
	for (int i = 0; i < 20; i++)
		expect("GET", "ipam/healthy", NULL, 200, "");
	ipam_close(held);
	answer = al_read(fd, NULL);
	close(fd);
	ASSERT_HAS(answer, "10.0.0.10/24");
}

static void test_disconnected_caller_gets_no_address(void **state)
{
	struct ipam *held = il_open(&il_lab);
	int add, del;

	(void)state;
	ipam_close(held);
	free(al_request(&il_lab, "POST", "/v1/ipam/ip", ARGS("c1", "eth0")));
	held = il_open(&il_lab);
	add = al_connect(&il_lab);
	del = al_connect(&il_lab);
	al_send_request(add, "POST", "/v1/ipam/ip", ARGS("c2", "eth0"));
	al_send_request(del, "DELETE", "/v1/ipam/ip", ARGS("c1", "eth0"));
	expect("GET", "ipam/healthy", NULL, 200, "");
	close(add);
	close(del);
	expect("GET", "ipam/healthy", NULL, 200, "");
	ipam_close(held);
	/* A release is completed even if the client has disconnected. */
	for (int i = 0; i < 100 && il_records(&il_lab, "used") > 0; i++)
		usleep(10000);
	ASSERT_EQ(il_records(&il_lab, "used"), 0);
	ASSERT_EQ(il_records(&il_lab, "cooldown"), 1);
}

static void test_damaged_journal_fails_requests(void **state)
{
	auto_free char *answer = NULL;

	(void)state;
	free(al_request(&il_lab, "POST", "/v1/ipam/ip", ARGS("c1", "eth0")));
	il_write(&il_lab, "/state/journal", "rubbish\nrubbish\n");
	answer =
		al_request(&il_lab, "POST", "/v1/unirail/pods/release", "{\"containerID\":\"c1\"}");
	ASSERT_HAS(answer, "HTTP/1.1 500 ");
	ASSERT_HAS(answer, "{\"code\":5,\"message\":\"journal ");
	free(take(answer));
	answer = al_request(&il_lab, "DELETE", "/v1/ipam/ip", ARGS("c1", "eth0"));
	ASSERT_HAS(answer, "\r\n\r\n\"journal ");
	expect("GET", "ipam/healthy", NULL, 200, "");
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, al_teardown)

/* The MAC in the journal depends neither on the order of the conflicts in the report nor on the
 * order in which qsort() leaves equal elements. */
static void test_address_reported_several_times_keeps_the_lowest_mac(void **state)
{
	static const char *const macs[] = {"", ",\"mac\":\"0a:00:00:00:00:02\"",
					   ",\"mac\":\"0a:00:00:00:00:01\""};

	(void)state;
	for (size_t i = 0; i < 6; i++) {
		size_t first = i / 2, second = (first + 1 + i % 2) % 3, third = 3 - first - second;
		auto_free char *ip = xasprintf("10.0.1.1%zu", i);
		auto_free char *plan = xasprintf(PLAN("c%zu", RAIL("net1", "b")), i);
		auto_free char *body =
			xasprintf("{\"containerID\":\"c%zu\",\"conflicts\":[{\"address\":\"%s\"%s},"
				  "{\"address\":\"%s\"%s},{\"address\":\"%s\"%s}]}",
				  i, ip, macs[first], ip, macs[second], ip, macs[third]);
		auto_ipam struct ipam *store = NULL;
		const struct lease *l;
		struct ipaddr a;

		free(al_request(&il_lab, "POST", "/v1/unirail/pods/plan", plan));
		expect("POST", "unirail/pods/report", body, 200, "{\"quarantined\":1}");
		store = il_open(&il_lab);
		ASSERT_EQ(ip_parse(span_of(ip), &a), 0);
		l = lease_find(ipam_leases(store), &a);
		assert_non_null(l);
		ASSERT_STR_EQ(l->other, "0a:00:00:00:00:01");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_probe_paths_and_post_ipam_ips_return_an_empty_response),
		TEST(test_spiderpool_add_allocates_and_del_releases),
		TEST(test_second_interface_gets_an_address_of_its_own),
		TEST(test_pools_and_clean_gateway_of_a_request_are_applied),
		TEST(test_failed_spiderpool_requests_return_a_json_string),
		TEST(test_missing_fields_are_named),
		TEST(test_malformed_bodies_are_refused),
		TEST(test_unknown_paths_and_methods_are_refused),
		TEST(test_workload_endpoint_lists_the_pods_addresses),
		TEST(test_coordinator_settings_are_returned),
		TEST(test_devices_are_returned_only_with_a_device_plugin),
		TEST(test_conflicting_addresses_of_stateful_pods_are_not_released),
		TEST(test_invalid_pools_fail_add_but_not_release),
		TEST(test_pod_addresses_are_planned_checked_and_released),
		TEST(test_plan_allocates_addresses_for_all_rails_or_for_no_rail),
		TEST(test_dry_run_of_a_plan_allocates_nothing),
		TEST(test_plan_uses_the_requested_addresses_and_master),
		TEST(test_invalid_plans_are_refused),
		TEST(test_reported_conflicts_are_quarantined),
		TEST(test_address_reported_several_times_keeps_the_lowest_mac),
		TEST(test_gc_of_a_network_releases_invalid_attachments),
		TEST(test_request_waits_for_a_locked_store),
		TEST(test_disconnected_caller_gets_no_address),
		TEST(test_damaged_journal_fails_requests),
	};

	return T_RUN(tests, NULL, NULL);
}
