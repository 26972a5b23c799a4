/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The IPAM plugin spiderpool with unirail's agent, with an agent of Spiderpool, and without an
 * agent.
 */
#include "testlib.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent_lab.h"
#include "base/alloc.h"
#include "cni/ipam/spiderpool/spiderpool.h"
#include "cni_invoke.h"
#include "kern/net/link.h"
#include "kern/sys/netns.h"

static int pod;
static char netns[64];

#define POOLS                                                                                      \
	"[pool a]\nsubnet=10.0.0.0/24\nips=10.0.0.10-10.0.0.12\ngateway=10.0.0.1\n"                \
	"route=10.9.0.0/16 via 10.0.0.2\n"                                                         \
	"[pool b]\nsubnet=10.0.1.0/24\nips=10.0.1.10-10.0.1.19\n"

static int setup(void **state)
{
	struct err e = ERR_INIT;

	il_setup(state);
	il_lab.paths.now_ms = NULL;
	il_pools(&il_lab, POOLS);
	ASSERT_OK(netns_new(true, &pod, &e), &e);
	snprintf(netns, sizeof(netns), "/proc/%d/fd/%d", getpid(), pod);
	return 0;
}

static int teardown(void **state)
{
	close(pod);
	return al_teardown(state);
}

#define CONF(version, more)                                                                        \
	"{\"cniVersion\":\"" version                                                               \
	"\",\"name\":\"net\",\"type\":\"macvlan\",\"ipam\":{\"type\":"                             \
	"\"spiderpool\"" more "}}"
#define AT_SERVER ",\"ipam_unix_socket_path\":\"/sock\""
#define POOL_A	  ",\"default_ipv4_ippool\":[\"a\"]"
#define POOL_B	  ",\"default_ipv4_ippool\":[\"b\"]"

static struct invocation call(const char *command, const char *conf)
{
	return (struct invocation){
		.plugin = &cni_spiderpool,
		.command = command,
		.ifname = "net1",
		.netns = netns,
		.root = il_lab.dir,
		.args = "IgnoreUnknown=1;K8S_POD_NAME=p;K8S_POD_NAMESPACE=ns;K8S_POD_UID=u",
		.conf = conf};
}

static void says(const char *command, const char *conf, int status, const char *part)
{
	struct invocation v = call(command, conf);
	auto_answer struct answer a = invoke(&v);

	ASSERT_HAS(a.out.p, part);
	ASSERT_EQ(a.status, status);
}

static void is_unmatched(const char *command, const char *conf)
{
	struct invocation v = call(command, conf);

	expect(&v, 0, "");
}

/* --- unirail's agent --- */

static void test_agent_returns_the_same_as_a_local_store(void **state)
{
	struct invocation at_server = call("ADD", CONF("0.3.1", AT_SERVER POOL_A));
	static const char *const answer =
		"{\"cniVersion\":\"0.3.1\",\"ips\":[{\"version\":\"4\",\"address\":\"10.0.0.10/24\","
		"\"gateway\":\"10.0.0.1\"}],\"routes\":[{\"dst\":\"10.9.0.0/16\",\"gw\":\"10.0.0.2\"},"
		"{\"dst\":\"0.0.0.0/0\",\"gw\":\"10.0.0.1\"}],\"dns\":{}}";
	struct invocation direct = at_server;

	(void)state;
	direct.conf = CONF("0.3.1", ",\"pool_dir\":\"/pools\",\"state_dir\":\"/state\"" POOL_A);
	al_server = al_serve_ipam(&il_lab, NULL, NULL);
	expect(&at_server, 0, answer);
	/* Agent and plugin use one store: an owner gets the same address from either. */
	expect(&direct, 0, answer);
	ASSERT_EQ(il_records(&il_lab, "used"), 1);
	is_unmatched("CHECK", CONF("1.0.0", AT_SERVER POOL_A));
	is_unmatched("DEL", CONF("1.0.0", AT_SERVER POOL_A));
	is_unmatched("DEL", CONF("1.0.0", AT_SERVER POOL_A));
	ASSERT_EQ(il_records(&il_lab, "used"), 0);
	says("CHECK", CONF("1.0.0", AT_SERVER POOL_A), 1,
	     "spiderpool: no address is held by container c1 interface net1");
}

static void test_check_compares_the_addresses_with_prev_result(void **state)
{
	(void)state;
	al_server = al_serve_ipam(&il_lab, NULL, NULL);
	says("ADD", CONF("1.0.0", AT_SERVER POOL_A), 0, "10.0.0.10/24");
	says("CHECK",
	     "{\"cniVersion\":\"1.0.0\",\"name\":\"net\",\"type\":\"macvlan\",\"prevResult\":{"
	     "\"cniVersion\":\"1.0.0\",\"ips\":[{\"address\":\"10.0.0.99/24\"}]},\"ipam\":{\"type\":"
	     "\"spiderpool\"" AT_SERVER POOL_A "}}",
	     1, "net1 holds 10.0.0.10/24, which is not in prevResult");
}

static void test_requested_ips_and_flags_reach_the_agent(void **state)
{
	(void)state;
	al_server = al_serve_ipam(&il_lab, NULL, NULL);
	says("ADD",
	     "{\"cniVersion\":\"1.0.0\",\"name\":\"net\",\"type\":\"macvlan\",\"runtimeConfig\":{"
	     "\"ips\":[\"10.0.1.15\"]},\"ipam\":{\"type\":\"spiderpool\"" AT_SERVER POOL_B
	     ",\"sticky\":true,\"clean_gateway\":true}}",
	     0, "10.0.1.15/24");
	is_unmatched("DEL", CONF("1.0.0", AT_SERVER));
	ASSERT_EQ(il_records(&il_lab, "sticky"), 1);
}

static void test_errors_of_the_agent_retain_their_code(void **state)
{
	(void)state;
	al_server = al_serve_ipam(&il_lab, NULL, NULL);
	says("ADD", CONF("1.0.0", AT_SERVER ",\"default_ipv4_ippool\":[\"c\"]"), 1,
	     "{\"code\":7,\"msg\":\"spiderpool IP allocation error: ");
	il_pools(&il_lab, "[pool a]\nsubnet=10.0.0.0/24\nips=10.0.0.10\n");
	al_stop(al_server);
	al_server = al_serve_ipam(&il_lab, NULL, NULL);
	il_take(&il_lab, "other", "eth0", "a");
	says("ADD", CONF("1.0.0", AT_SERVER POOL_A), 1,
	     "{\"code\":11,\"msg\":\"spiderpool IP allocation error: ");
	says("STATUS", CONF("1.1.0", AT_SERVER POOL_A), 1, "{\"code\":50,");
}

static void test_status_and_gc_are_answered_by_the_agent(void **state)
{
	(void)state;
	al_server = al_serve_ipam(&il_lab, NULL, NULL);
	is_unmatched("STATUS", CONF("1.1.0", AT_SERVER POOL_A));
	ASSERT_EQ(il_records(&il_lab, "used"), 0);
	says("ADD", CONF("1.1.0", AT_SERVER POOL_A), 0, "10.0.0.10/24");
	is_unmatched("GC",
		     "{\"cniVersion\":\"1.1.0\",\"name\":\"net\",\"type\":\"macvlan\","
		     "\"cni.dev/valid-attachments\":[{\"containerID\":\"c1\",\"ifname\":\"net1\"}],"
		     "\"ipam\":{\"type\":\"spiderpool\"" AT_SERVER "}}");
	ASSERT_EQ(il_records(&il_lab, "used"), 1);
	is_unmatched("GC",
		     "{\"cniVersion\":\"1.1.0\",\"name\":\"net\",\"type\":\"macvlan\","
		     "\"cni.dev/valid-attachments\":[],\"ipam\":{\"type\":\"spiderpool\"" AT_SERVER
		     "}}");
	ASSERT_EQ(il_records(&il_lab, "used"), 0);
}

/* --- in process, all rails --- */

struct many {
	struct cni_call call;
	struct json_doc *doc[3];
	struct cni_ipam_call rails[3];
	const struct cni_ipam_call *list[3];
	struct cni_result out[3];
	struct cni_ipam_flags flags[3];
};

static void many_init(struct many *m, const char *const conf[3])
{
	static const char *const names[] = {"net1", "net2", "net3"};

	*m = (struct many){.call = {.command = "ADD",
				    .container_id = "c1",
				    .netns = "/n",
				    .args_text = "IgnoreUnknown=1;K8S_POD_NAME=p",
				    .root = il_lab.root,
				    .version = CNI_1_0_0}};
	for (size_t i = 0; i < 3; i++) {
		ASSERT_EQ(json_parse(&m->doc[i], span_of(conf[i]), 10000, NULL), 0);
		m->rails[i] = (struct cni_ipam_call){.call = &m->call,
						     .doc = m->doc[i],
						     .conf = json_root(m->doc[i]),
						     .type = "spiderpool",
						     .name = "net",
						     .ifname = names[i],
						     .version = CNI_1_0_0,
						     .out = &m->out[i],
						     .flags = &m->flags[i]};
		m->list[i] = &m->rails[i];
	}
}

static void many_done(struct many *m)
{
	for (size_t i = 0; i < 3; i++) {
		cni_result_done(&m->out[i]);
		json_free(m->doc[i]);
	}
}

static int many_add(struct many *m, struct err *e)
{
	return spiderpool_add(m->list, 3, e);
}

static void test_unirails_agent_allocates_for_all_rails(void **state)
{
	const char *const conf[] = {CONF("1.0.0", AT_SERVER POOL_A),
				    CONF("1.0.0", AT_SERVER POOL_B
					 ",\"enable_ip_conflict_detection\":false,\"detect\":{"
					 "\"tries\":3}"),
				    CONF("1.0.0", AT_SERVER POOL_B)};
	struct err e = ERR_INIT;
	struct many m;

	(void)state;
	il_write(&il_lab, "/pools/s.conf", "[settings]\nconflict-detection=yes\n");
	al_server = al_serve_ipam(&il_lab, NULL, NULL);
	many_init(&m, conf);
	ASSERT_OK(many_add(&m, &e), &e);
	il_assert_ip(&m.out[0].ips[0].address.ip, "10.0.0.10");
	il_assert_ip(&m.out[1].ips[0].address.ip, "10.0.1.10");
	il_assert_ip(&m.out[2].ips[0].address.ip, "10.0.1.11");
	ASSERT_EQ(m.out[0].n_routes, 2);
	ASSERT_EQ(m.out[1].n_routes, 0);
	assert_true(m.flags[0].is_new && m.flags[1].is_new && m.flags[2].is_new);
	assert_true(m.flags[0].conflict_detection && !m.flags[1].conflict_detection);
	ASSERT_EQ(m.flags[1].tries, 3);
	many_done(&m);
	many_init(&m, conf);
	ASSERT_EQ(many_add(&m, &e), 0);
	assert_false(m.flags[0].is_new || m.flags[1].is_new || m.flags[2].is_new);
	/* An address that another host uses is put into quarantine. */
	ASSERT_EQ(spiderpool_conflict(m.list[1], &m.out[1].ips[0].address.ip, NULL, &e), 0);
	ASSERT_EQ(il_records(&il_lab, "quarantined"), 1);
	ASSERT_EQ(spiderpool_del(m.list, 3, &e), 0);
	ASSERT_EQ(il_records(&il_lab, "used"), 0);
	many_done(&m);
}

static void test_failed_rail_leaves_no_address_allocated(void **state)
{
	const char *const conf[] = {CONF("1.0.0", AT_SERVER POOL_A),
				    CONF("1.0.0", AT_SERVER POOL_B),
				    CONF("1.0.0", AT_SERVER ",\"default_ipv4_ippool\":[\"c\"]")};
	struct err e = ERR_INIT;
	struct many m;

	(void)state;
	al_server = al_serve_ipam(&il_lab, NULL, NULL);
	many_init(&m, conf);
	assert_true(many_add(&m, &e) < 0);
	ASSERT_EQ(e.kind, ERR_CONF);
	ASSERT_EQ(il_records(&il_lab, "used"), 0);
	many_done(&m);
}

/* One pod has a rail of a local store and rails of an agent: after a failure at the agent no
 * address stays allocated. */
static void test_failed_add_with_rails_of_a_store_and_an_agent_leaves_no_address(void **state)
{
	static const char direct[] =
		CONF("1.0.0", ",\"pool_dir\":\"/pools\",\"state_dir\":\"/state2\"" POOL_A);
	const char *conf[] = {direct, CONF("1.0.0", AT_SERVER POOL_B),
			      CONF("1.0.0", AT_SERVER ",\"default_ipv4_ippool\":[\"c\"]")};
	struct err e = ERR_INIT;
	struct many m;
	size_t n;

	(void)state;
	al_server = al_serve_ipam(&il_lab, NULL, NULL);
	many_init(&m, conf);
	assert_true(many_add(&m, &e) < 0);
	many_done(&m);
	ASSERT_EQ(il_records(&il_lab, "used"), 0);
	il_lab.paths.state_dir = "/state2";
	n = il_records(&il_lab, "used");
	il_lab.paths.state_dir = "/state";
	ASSERT_EQ(n, 0);
	conf[2] = conf[1];
	many_init(&m, conf);
	ASSERT_OK(many_add(&m, &e), &e);
	ASSERT_EQ(spiderpool_del(m.list, 3, &e), 0);
	many_done(&m);
}

/* --- an agent of Spiderpool --- */

#define IP(nic, ip)                                                                                \
	"{\"address\":\"" ip "/16\",\"enableGatewayDetection\":true,\"gateway\":\"10.6.0.1\","     \
	"\"ipPool\":\"p4\",\"nic\":\"" nic "\",\"version\":4}"
#define THREE                                                                                      \
	"{\"ips\":[" IP("net1", "10.6.0.2") "," IP("net2", "10.6.0.3") "," IP(                     \
		"net3",                                                                            \
		"10.6.0.4") "],\"routes\":[{\"dst\":\"0.0.0.0/0\",\"gw\":\"10.6.0.1\",\"ifName\":\"net1\"}]}\n"

static char *asked(void)
{
	return il_read(&il_lab, "/asked", &(size_t){0});
}

static void test_agent_of_spiderpool_allocates(void **state)
{
	auto_free char *log = NULL;
	struct invocation v = call("ADD", CONF("0.3.1", AT_SERVER POOL_A ",\"clean_gateway\":true,"
									 "\"enable_gateway_"
									 "detection\":false"));

	(void)state;
	al_server = al_serve_original(&il_lab, 200, THREE);
	/* Spiderpool's agent returns all interfaces of the pod; only one was requested. */
	expect(&v, 0,
	       "{\"cniVersion\":\"0.3.1\",\"ips\":[{\"version\":\"4\",\"address\":\"10.6.0.2/16\","
	       "\"gateway\":\"10.6.0.1\"}],\"routes\":[{\"dst\":\"0.0.0.0/0\",\"gw\":\"10.6.0.1\"}],"
	       "\"dns\":{}}");
	is_unmatched("DEL", CONF("1.0.0", AT_SERVER));
	is_unmatched("CHECK", CONF("1.0.0", AT_SERVER));
	is_unmatched("STATUS", CONF("1.1.0", AT_SERVER));
	is_unmatched("GC",
		     "{\"cniVersion\":\"1.1.0\",\"name\":\"net\",\"type\":\"macvlan\","
		     "\"cni.dev/valid-attachments\":[],\"ipam\":{\"type\":\"spiderpool\"" AT_SERVER
		     "}}");
	log = asked();
	ASSERT_HAS(log,
		   "GET /v1/ipam/healthy \nPOST /v1/ipam/ip {\"cleanGateway\":true,"
		   "\"defaultIPv4IPPool\":[\"a\"],\"matchMasterSubnet\":false,\"ifName\":\"net1\","
		   "\"containerID\":\"c1\",");
	ASSERT_HAS(log, "\"podName\":\"p\",\"podNamespace\":\"ns\",\"podUID\":\"u\"}\n");
	ASSERT_HAS(log, "GET /v1/ipam/healthy \nDELETE /v1/ipam/ip {\"containerID\":\"c1\",");
	ASSERT_HAS(log, ",\"ifName\":\"net1\"}\n");
}

static void test_dns_of_spiderpools_agent_is_in_the_result(void **state)
{
	struct invocation v =
		call("ADD", CONF("1.0.0", AT_SERVER ",\"enable_gateway_detection\":false"));

	(void)state;
	al_server = al_serve_original(
		&il_lab, 200,
		"{\"ips\":[" IP(
			"net1",
			"10.6.0.2") "],\"dns\":{\"nameservers\":[\"10.0.0.9\"],"
				    "\"domain\":\"a.b\",\"search\":[\"c.d\"],\"options\":[\"ndots:2\"]}}");
	expect(&v, 0,
	       "{\"cniVersion\":\"1.0.0\",\"dns\":{\"domain\":\"a.b\",\"nameservers\":[\"10.0.0.9\"],"
	       "\"options\":[\"ndots:2\"],\"search\":[\"c.d\"]},\"ips\":[{\"address\":"
	       "\"10.6.0.2/16\",\"gateway\":\"10.6.0.1\"}]}");
}

static void test_spiderpools_agent_allocates_for_all_rails(void **state)
{
	const char *const conf[] = {CONF("1.0.0", AT_SERVER), CONF("1.0.0", AT_SERVER),
				    CONF("1.0.0", AT_SERVER)};
	const struct ipaddr a = t_ip("10.6.0.3");
	struct err e = ERR_INIT;
	auto_free char *log = NULL;
	struct many m;

	(void)state;
	al_server = al_serve_original(&il_lab, 200, THREE);
	many_init(&m, conf);
	ASSERT_OK(many_add(&m, &e), &e);
	il_assert_ip(&m.out[2].ips[0].address.ip, "10.6.0.4");
	ASSERT_EQ(m.out[0].n_routes, 1);
	ASSERT_EQ(m.out[1].n_routes, 0);
	assert_true(m.flags[1].gateway_detection && !m.flags[1].conflict_detection);
	/* Spiderpool's agent cannot quarantine an address, so this ADD fails. */
	assert_true(spiderpool_conflict(m.list[1], &a, NULL, &e) < 0);
	ASSERT_EQ(e.kind, ERR_AGAIN);
	ASSERT_HAS(e.text, "ip conflict: pod's interface net2 with an conflicting ip 10.6.0.3");
	many_done(&m);
	log = asked();
	ASSERT_HAS(log, "DELETE /v1/ipam/ips {\"containerID\":\"c1\",");
}

static void test_missing_rail_from_spiderpools_agent_is_an_error(void **state)
{
	const char *const conf[] = {CONF("1.0.0", AT_SERVER), CONF("1.0.0", AT_SERVER),
				    CONF("1.0.0", AT_SERVER)};
	struct err e = ERR_INIT;
	auto_free char *log = NULL;
	struct many m;
	size_t n = 0;

	(void)state;
	al_server = al_serve_original(
		&il_lab, 200, "{\"ips\":[" IP("net1", "10.6.0.2") "," IP("net2", "10.6.0.3") "]}");
	many_init(&m, conf);
	assert_true(many_add(&m, &e) < 0);
	ASSERT_HAS(e.text, "spiderpool IP allocation error: no Interface net3 IP allocation found");
	ASSERT_EQ(m.out[0].n_ips, 0);
	many_done(&m);
	log = asked();
	for (const char *p = log; (p = strstr(p, "DELETE /v1/ipam/ip {")); p++)
		n++;
	assert_true(n >= 3);
}

static void test_error_of_spiderpools_agent_is_reported(void **state)
{
	(void)state;
	al_server = al_serve_original(&il_lab, 500, "\"no IPPool available\"\n");
	says("ADD", CONF("1.0.0", AT_SERVER), 1,
	     "{\"code\":999,\"msg\":\"spiderpool IP allocation error: [POST /ipam/ip][500] "
	     "postIpamIpFailure  no IPPool available\"}");
	says("ADD",
	     "{\"cniVersion\":\"1.0.0\",\"name\":\"net\",\"type\":\"macvlan\",\"runtimeConfig\":{"
	     "\"ips\":[\"10.6.0.15\"]},\"ipam\":{\"type\":\"spiderpool\"" AT_SERVER "}}",
	     1,
	     "{\"code\":2,\"msg\":\"net1 requests 10.6.0.15, but Spiderpool's agent at '/sock' "
	     "accepts no request");
	al_stop(al_server);
	al_server = al_serve_original(&il_lab, 422,
				      "{\"code\":602,\"message\":\"podUID in body is required\"}");
	says("ADD", CONF("1.0.0", AT_SERVER), 1,
	     "spiderpool IP allocation error: [POST /ipam/ip][422]: podUID in body is required");
	al_stop(al_server);
	al_server = al_serve_original(&il_lab, 200, "not JSON");
	says("ADD", CONF("1.0.0", AT_SERVER), 1, "spiderpool IP allocation error: answer is");
	al_stop(al_server);
	al_server = al_serve_original(&il_lab, 200, "{\"ips\":[null]}");
	says("ADD", CONF("1.0.0", AT_SERVER), 1, "answer.ips[0].address is missing");
	al_stop(al_server);
	/*
	 * DEL succeeds although Spiderpool's agent fails, as with Spiderpool's plugin: the agent's
	 * GC releases the addresses.
	 */
	al_server = al_serve_original(&il_lab, 599, "");
	is_unmatched("DEL", CONF("1.0.0", AT_SERVER));
}

/* --- without an agent --- */

static void test_plugin_fails_if_its_agent_is_not_running(void **state)
{
	(void)state;
	says("ADD", CONF("1.0.0", AT_SERVER), 1,
	     "{\"code\":50,\"msg\":\"unhealthy spiderpool-agent backend, failed to check");
	says("ADD", CONF("1.0.0", AT_SERVER), 1,
	     "(is 'unirail agent' or 'unirail ipam serve' running?): connect to '");
	/* DEL fails, so that the runtime repeats it and the address is released later. */
	says("DEL", CONF("1.0.0", AT_SERVER), 1,
	     "{\"code\":11,\"msg\":\"unhealthy spiderpool-agent backend, failed to check");
	says("CHECK", CONF("1.0.0", AT_SERVER), 1, "unhealthy spiderpool-agent backend");
	says("STATUS", CONF("1.1.0", AT_SERVER), 1, "{\"code\":50,");
	il_write(&il_lab, "/run/sock", "a file");
	says("ADD", CONF("1.0.0", ",\"ipam_unix_socket_path\":\"/run/sock\""), 1,
	     "Connection refused (ECONNREFUSED)");
	says("ADD", CONF("1.0.0", ",\"ipam_unix_socket_path\":\"sock\""), 1,
	     "conf.ipam.ipam_unix_socket_path is 'sock', expected an absolute path");
}

static void test_damaged_journal_of_the_agent_is_reported(void **state)
{
	(void)state;
	al_server = al_serve_ipam(&il_lab, NULL, NULL);
	says("ADD", CONF("1.0.0", AT_SERVER POOL_A), 0, "10.0.0.10/24");
	il_write(&il_lab, "/state/journal", "rubbish\nrubbish\n");
	says("ADD", CONF("1.0.0", AT_SERVER POOL_A), 1, "{\"code\":5,");
	says("DEL", CONF("1.0.0", AT_SERVER POOL_A), 1,
	     "{\"code\":11,\"msg\":\"spiderpool IP release error: journal ");
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_agent_returns_the_same_as_a_local_store),
		TEST(test_check_compares_the_addresses_with_prev_result),
		TEST(test_requested_ips_and_flags_reach_the_agent),
		TEST(test_errors_of_the_agent_retain_their_code),
		TEST(test_status_and_gc_are_answered_by_the_agent),
		TEST(test_unirails_agent_allocates_for_all_rails),
		TEST(test_failed_rail_leaves_no_address_allocated),
		TEST(test_failed_add_with_rails_of_a_store_and_an_agent_leaves_no_address),
		TEST(test_agent_of_spiderpool_allocates),
		TEST(test_dns_of_spiderpools_agent_is_in_the_result),
		TEST(test_spiderpools_agent_allocates_for_all_rails),
		TEST(test_missing_rail_from_spiderpools_agent_is_an_error),
		TEST(test_error_of_spiderpools_agent_is_reported),
		TEST(test_plugin_fails_if_its_agent_is_not_running),
		TEST(test_damaged_journal_of_the_agent_is_reported),
	};

	return T_RUN(tests, NULL, NULL);
}
