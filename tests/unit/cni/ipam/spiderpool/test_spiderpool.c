/* SPDX-License-Identifier: Apache-2.0 */
/* The IPAM plugin spiderpool: as a separate plugin between real namespaces, and in process. */
#include "testlib.h"

#include "base/log.h"
#include "cni/ipam/spiderpool/spiderpool.h"
#include "cni_invoke.h"
#include "ipam_lab.h"
#include "kern/net/addr.h"
#include "kern/net/link.h"
#include "kern/sys/netns.h"

/*
 * "net1" in the pod is a veth; its other end, "far" in another namespace, represents the network.
 */
struct lab {
	struct ipam_lab lab;
	int pod, far;
	char netns[64];
};

static struct lab w;

static void add_link(struct err *e)
{
	struct link_spec s = LINK_SPEC_INIT;
	auto_batch struct nl_batch *b = nl_batch_new();
	auto_nl struct nl_wire *wire = NULL;

	s.name = "net1";
	s.kind = "veth";
	s.peer_name = "far";
	s.peer_netns_fd = w.far;
	s.peer_up = true;
	ASSERT_OK(nl_open(&wire, NL_ROUTE, w.pod, e), e);
	link_add(b, &s);
	ASSERT_OK(nl_batch_commit(wire, b, e), e);
}

/* Adds the address to the link "far", so that it is in use by a host of the network. */
static void far_has(const char *net)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	auto_nl struct nl_wire *wire = NULL;
	struct err e = ERR_INIT;
	struct ipnet n = t_net(net);
	struct link link;

	ASSERT_EQ(nl_open(&wire, NL_ROUTE, w.far, &e), 0);
	ASSERT_EQ(link_get(wire, "far", &link, &e), 0);
	addr_add(b, link.index, "far", &n, ADDR_NODAD);
	ASSERT_OK(nl_batch_commit(wire, b, &e), &e);
}

#define POOLS                                                                                      \
	"[pool rail0]\nsubnet=10.0.0.0/24\nips=10.0.0.10-10.0.0.19\ngateway=10.0.0.1\n"            \
	"route=10.9.0.0/16 via 10.0.0.2\n"                                                         \
	"[pool rail1]\nsubnet=10.0.1.0/24\nips=10.0.1.10-10.0.1.19\n"                              \
	"[pool six]\nsubnet=fd00::/64\nips=fd00::10-fd00::ff\n"

static int setup(void **state)
{
	struct err e = ERR_INIT;

	(void)state;
	log_threshold = LOG_NONE;
	il_make(&w.lab);
	w.lab.paths.now_ms = NULL;
	il_write(&w.lab, "/pools/rails.conf", POOLS);
	if (netns_new(true, &w.pod, &e) < 0 || netns_new(true, &w.far, &e) < 0)
		fail_msg("%s", e.text);
	snprintf(w.netns, sizeof(w.netns), "/proc/%d/fd/%d", getpid(), w.pod);
	add_link(&e);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	close(w.pod);
	close(w.far);
	il_drop(&w.lab);
	return 0;
}

#define IPAM(more)                                                                                 \
	"\"ipam\":{\"type\":\"spiderpool\",\"pool_dir\":\"/pools\",\"state_dir\":\"/state\"" more  \
	"}"
#define CONF(version, more)                                                                        \
	"{\"cniVersion\":\"" version "\",\"name\":\"rails\",\"type\":\"macvlan\"," IPAM(more) "}"
#define RAIL0 ",\"default_ipv4_ippool\":[\"rail0\"]"

static struct invocation call(const char *command, const char *conf)
{
	return (struct invocation){.plugin = &cni_spiderpool,
				   .command = command,
				   .ifname = "net1",
				   .netns = w.netns,
				   .root = w.lab.dir,
				   .conf = conf};
}

/* Expects that the plugin exits with `status` and that its output contains `part`. */
static void says(const struct invocation *v, int status, const char *part)
{
	auto_answer struct answer a = invoke(v);

	ASSERT_HAS(a.out.p, part);
	ASSERT_EQ(a.status, status);
}

/* --- results --- */

static void test_add_returns_the_result_of_the_original(void **state)
{
	struct invocation v = call("ADD", CONF("0.3.1", RAIL0));

	(void)state;
	/* As in the original, the result has neither interfaces nor an interface index. */
	expect(&v, 0,
	       "{\"cniVersion\":\"0.3.1\",\"ips\":[{\"version\":\"4\",\"address\":\"10.0.0.10/24\","
	       "\"gateway\":\"10.0.0.1\"}],\"routes\":[{\"dst\":\"10.9.0.0/16\",\"gw\":\"10.0.0.2\"}"
	       ",{\"dst\":\"0.0.0.0/0\",\"gw\":\"10.0.0.1\"}],\"dns\":{}}");
	v.conf = CONF("1.0.0", RAIL0 ",\"CLEAN_Gateway\":true");
	expect(&v, 0,
	       "{\"cniVersion\":\"1.0.0\",\"ips\":[{\"address\":\"10.0.0.10/24\",\"gateway\":\"10.0.0."
	       "1\"}],\"routes\":[{\"dst\":\"10.9.0.0/16\",\"gw\":\"10.0.0.2\"}]}");
	v.ifname = "net2";
	v.conf = CONF("1.0.0",
		      ",\"default_ipv4_ippool\":[\"rail1\"],\"default_ipv6_ippool\":[\"s*\"]");
	expect(&v, 0,
	       "{\"cniVersion\":\"1.0.0\",\"ips\":[{\"address\":\"10.0.1.10/24\"},{\"address\":\"fd00::"
	       "10/64\"}]}");
	ASSERT_EQ(il_records(&w.lab, "used"), 3);
}

static void test_check_requires_and_del_releases_the_address(void **state)
{
	struct invocation add = call("ADD", CONF("1.0.0", RAIL0)),
			  check = call("CHECK",
				       CONF("1.0.0", RAIL0 "},\"prevResult\":{\"ips\":[{"
							   "\"address\":\"10.0.0.10/24\"}]")),
			  del = call("DEL", CONF("1.0.0", RAIL0));

	(void)state;
	says(&check, 1, "no address is held by container c1 interface net1");
	says(&add, 0, "10.0.0.10/24");
	expect(&check, 0, "");
	check.conf =
		CONF("1.0.0", RAIL0 "},\"prevResult\":{\"ips\":[{\"address\":\"10.0.0.11/24\"}]");
	says(&check, 1, "net1 holds 10.0.0.10/24, which is not in prevResult");
	/* DEL succeeds without a namespace and with invalid pools, also repeatedly. */
	del.netns = "/run/netns/not-there";
	il_write(&w.lab, "/pools/rails.conf", "rubbish");
	expect(&del, 0, "");
	expect(&del, 0, "");
	il_write(&w.lab, "/pools/rails.conf", POOLS);
	ASSERT_EQ(il_records(&w.lab, "used"), 0);
	says(&add, 0, "10.0.0.11/24"); /* .10 is in its reuse delay */
	/* An unreadable journal is an error. */
	il_write(&w.lab, "/state/journal", "rubbish\nrubbish\n");
	says(&del, 1, "journal '/state/journal': line 1 is damaged");
}

static void test_missing_namespace_is_reported_before_allocation(void **state)
{
	struct invocation v = call("ADD", CONF("1.0.0", RAIL0));

	(void)state;
	v.netns = "/run/netns/not-there";
	says(&v, 1, "failed to GetNS \\\"/run/netns/not-there\\\" for pod: failed to Statfs");
	ASSERT_EQ(il_records(&w.lab, "used"), 0);
}

/* --- configuration --- */

static void test_invalid_ipam_configuration_is_refused(void **state)
{
	static const struct {
		const char *conf, *reason;
	} bad[] = {
		{CONF("1.0.0", RAIL0 ",\"log_level\":\"loud\""), "unsupported log level loud"},
		{CONF("1.0.0", ",\"default_ipv4_ippool\":\"rail0\""),
		 "conf.ipam.default_ipv4_ippool"},
		{CONF("1.0.0", ",\"default_ipv4_ippool\":[\"rial0\"]"), "did you mean 'rail0'?"},
		{CONF("1.0.0", RAIL0 ",\"log_file_max_size\":\"big\""),
		 "conf.ipam.log_file_max_size: expected a whole number"},
		{CONF("1.0.0", RAIL0 ",\"detect\":{\"tries\":0}"), "conf.ipam.detect.tries"},
		{CONF("1.0.0", RAIL0 "},\"runtimeConfig\":{\"ips\":[\"10.0.0.300\"]"),
		 "conf.runtimeConfig.ips: '10.0.0.300' is not an address"},
		{CONF("1.0.0", RAIL0 ",\"match_master_subnet\":true"),
		 "match_master_subnet requires conf.master or conf.deviceID"},
		{"{\"cniVersion\":\"1.0.0\",\"name\":\"n\",\"ipam\":{\"type\":\"spiderpool\","
		 "\"pool_dir\":\"pools\"}}",
		 "conf.ipam.pool_dir is 'pools', expected an absolute path"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct invocation v = call("ADD", bad[i].conf);

		says(&v, 1, bad[i].reason);
	}
	ASSERT_EQ(il_records(&w.lab, "used"), 0);
}

static void test_unwritable_log_file_is_ignored(void **state)
{
	struct invocation v = call(
		"ADD", CONF("1.0.0", RAIL0 ",\"log_level\":\"WARN\",\"log_file_max_size\":\"1\","
					   "\"log_file_max_age\":30,\"log_file_max_count\":-1,"
					   "\"log_file_path\":\"/proc/nowhere/x.log\""));

	(void)state;
	says(&v, 0, "10.0.0.10/24");
	log_threshold = LOG_NONE;
}

static void test_requested_address_is_allocated_or_refused(void **state)
{
	struct invocation v =
		call("ADD", CONF("1.0.0", RAIL0 "},\"runtimeConfig\":{\"ips\":[\"10.0.0.15/24\"]"));

	(void)state;
	says(&v, 0, "\"address\":\"10.0.0.15/24\"");
	v.ifname = "net2";
	says(&v, 1,
	     "NIC net2 requests 10.0.0.15 of pool 'rail0', which is allocated to container c1 net1");
	v.conf = CONF("1.0.0", RAIL0 "},\"args\":{\"cni\":{\"ips\":[\"10.0.0.16\"]}");
	says(&v, 0, "10.0.0.16/24");
	v.ifname = "net3";
	v.conf = CONF("1.0.0", RAIL0);
	v.args = "IgnoreUnknown=1;IP=10.0.0.17;K8S_POD_NAME=a;K8S_POD_NAMESPACE=ns";
	says(&v, 0, "10.0.0.17/24");
	v.ifname = "net4";
	v.args = "IP=10.7.0.1";
	says(&v, 1, "requests 10.7.0.1, which is in none of its pools [rail0]");
}

/* --- GC, STATUS --- */

static void test_gc_releases_addresses_of_invalid_attachments(void **state)
{
	struct invocation
		v = call("ADD", CONF("1.1.0", RAIL0)),
		gc = call(
			"GC",
			"{\"cniVersion\":\"1.1.0\",\"name\":\"rails\"," IPAM(
				RAIL0) ",\"cni.dev/valid-attachments\":[{\"containerID\":\"c2\",\"ifname\":\"net1\"}]}");

	(void)state;
	says(&v, 0, "10.0.0.10/24");
	v.id = "c2";
	says(&v, 0, "10.0.0.11/24");
	v.conf = "{\"cniVersion\":\"1.1.0\",\"name\":\"others\"," IPAM(RAIL0) "}";
	v.id = "c3";
	says(&v, 0, "10.0.0.12/24");
	expect(&gc, 0, "");
	ASSERT_EQ(il_records(&w.lab, "used"), 2);
	ASSERT_EQ(il_records(&w.lab, "cooldown"), 1);
}

static void test_status_reports_exhausted_or_invalid_pools_and_an_unreadable_journal(void **state)
{
	struct invocation v = call("STATUS", CONF("1.1.0", RAIL0)),
			  add = call("ADD", CONF("1.1.0", RAIL0));
	struct err e = ERR_INIT;

	(void)state;
	expect(&v, 0, "");
	il_write(&w.lab, "/pools/rails.conf", "[pool rail0]\nsubnet=10.0.0.0/24\nips=10.0.0.10\n");
	says(&add, 0, "10.0.0.10/24");
	says(&v, 1, "all IP addresses used out");
	says(&v, 1, "\"code\":50");
	il_write(&w.lab, "/pools/rails.conf", "[pool rail0]\n");
	says(&v, 1, "rails.conf:1: no subnet");
	ASSERT_EQ(file_remove(&w.lab.root, "/pools/rails.conf", &e), 0);
	says(&v, 1, "no pool in '/pools'");
	il_write(&w.lab, "/state/journal", "unirail-journal 9 x\n");
	says(&v, 1, "has format 9");
}

/* --- detection --- */

#define DETECT                                                                                     \
	RAIL0 ",\"enable_ip_conflict_detection\":true,\"detect\":{\"tries\":2,\"interval_ms\":40," \
	      "\"total_ms\":5000}"

static void test_conflicting_addresses_are_quarantined(void **state)
{
	struct invocation v = call("ADD", CONF("1.0.0", DETECT));

	(void)state;
	far_has("10.0.0.10/24");
	far_has("10.0.0.11/24");
	says(&v, 0, "\"address\":\"10.0.0.12/24\"");
	ASSERT_EQ(il_records(&w.lab, "quarantined"), 2);
	ASSERT_EQ(il_records(&w.lab, "used"), 1);
	/* The next pod does not get the quarantined addresses. */
	v.id = "c2";
	v.conf = CONF("1.0.0", RAIL0);
	says(&v, 0, "10.0.0.13/24");
}

static void test_add_fails_after_three_conflicts(void **state)
{
	struct invocation v = call("ADD", CONF("1.0.0", DETECT));

	(void)state;
	far_has("10.0.0.10/24");
	far_has("10.0.0.11/24");
	far_has("10.0.0.12/24");
	says(&v, 1,
	     "ip conflict: pod's interface net1 with an conflicting ip 10.0.0.12, 10.0.0.12 "
	     "is located at ");
	says(&v, 0, "10.0.0.13/24");
	ASSERT_EQ(il_records(&w.lab, "quarantined"), 3);
	ASSERT_EQ(il_records(&w.lab, "used"), 1);
}

static void test_unreachable_gateway_fails_the_add(void **state)
{
	struct invocation v = call(
		"ADD", CONF("1.0.0", RAIL0 ",\"enable_gateway_detection\":true,\"detect\":{"
					   "\"tries\":2,\"interval_ms\":40,\"total_ms\":2500}"));

	(void)state;
	says(&v, 1, "gateway 10.0.0.1 is unreachable");
	ASSERT_EQ(il_records(&w.lab, "used"), 0);
	far_has("10.0.0.1/24");
	says(&v, 0, "10.0.0.11/24");
}

static void test_detection_is_enabled_by_settings(void **state)
{
	struct invocation v = call("ADD", CONF("1.0.0", RAIL0 ",\"detect\":{\"total_ms\":5000}"));

	(void)state;
	il_write(&w.lab, "/pools/settings.conf", "[settings]\nconflict-detection = yes\n");
	far_has("10.0.0.10/24");
	says(&v, 0, "10.0.0.11/24");
	v.id = "c2";
	v.conf = CONF("1.0.0", RAIL0 ",\"enable_ip_conflict_detection\":false");
	says(&v, 0, "10.0.0.12/24");
}

static void test_missing_link_fails_detection(void **state)
{
	struct invocation v = call("ADD", CONF("1.0.0", DETECT));

	(void)state;
	v.ifname = "net9";
	says(&v, 1, "failed to get link: ");
	ASSERT_EQ(il_records(&w.lab, "used"), 0);
	/* without detection no link is needed: ptp creates its link after IPAM */
	v.conf = CONF("1.0.0", RAIL0);
	says(&v, 0, "/24");
}

/* An executed plugin finds the netconf's master in the namespace of the host; in this test,
 * the namespace of "far" acts as the host's. */
static void test_pool_must_match_the_masters_subnet(void **state)
{
	struct invocation v =
		call("ADD", "{\"cniVersion\":\"1.0.0\",\"name\":\"n\",\"master\":\"far\"," IPAM(
				    ",\"default_ipv4_ippool\":[\"rail*\"],\"match_master_subnet\":"
				    "true") "}");
	struct netns_visit visit = NETNS_VISIT_INIT;
	struct err e = ERR_INIT;

	(void)state;
	ASSERT_EQ(netns_enter(w.far, &visit, &e), 0);
	says(&v, 1, "of rail0 not found on master \\\"far\\\", which has ");
	far_has("10.0.1.200/24");
	says(&v, 0, "10.0.1.10/24");
	netns_leave(&visit);
}

/* --- in process --- */

enum { RAILS = 8 };

struct pod {
	struct cni_call call;
	struct cni_ipam_call calls[RAILS];
	struct json_doc *docs[RAILS];
	char names[RAILS][8];
	struct cni_result out[RAILS];
	struct cni_ipam_flags flags[RAILS];
};

static void pod_add(struct pod *p, size_t i, const char *conf)
{
	struct err e = ERR_INIT;

	ASSERT_OK(json_parse(&p->docs[i], span_of(conf), 1 << 16, &e), &e);
	snprintf(p->names[i], sizeof(p->names[i]), "net%zu", i + 1);
	p->calls[i] = (struct cni_ipam_call){.call = &p->call,
					     .doc = p->docs[i],
					     .conf = json_root(p->docs[i]),
					     .type = cni_ipam_type(json_root(p->docs[i])),
					     .name = "rails",
					     .ifname = p->names[i],
					     .version = CNI_1_1_0,
					     .out = &p->out[i],
					     .flags = &p->flags[i]};
}

static struct pod pod(void)
{
	return (struct pod){.call = {.command = "ADD",
				     .container_id = "c1",
				     .netns = w.netns,
				     .ifname = "net1",
				     .args_text = "",
				     .path = "/nowhere",
				     .root = w.lab.root}};
}

static void pod_done(struct pod *p)
{
	for (int i = 0; i < RAILS; i++) {
		json_free(p->docs[i]);
		cni_result_done(&p->out[i]);
	}
}

static void test_addresses_of_eight_rails_are_allocated_in_one_journal_write(void **state)
{
	struct pod p = pod();
	struct err e = ERR_INIT;
	char text[IP_TEXT_MAX], want[32];
	auto_free char *journal = NULL;
	size_t n, lines = 0;

	(void)state;
	for (size_t i = 0; i < RAILS; i++)
		pod_add(&p, i, "{" IPAM(RAIL0) "}");
	ASSERT_OK(cni_ipam_add(p.calls, RAILS, &e), &e);
	for (size_t i = 0; i < RAILS; i++) {
		snprintf(want, sizeof(want), "10.0.0.%zu/24", 10 + i);
		ASSERT_EQ(p.out[i].n_ips, 1);
		ASSERT_STR_EQ(ipnet_str(&p.out[i].ips[0].address, text), want);
		ASSERT_EQ(p.out[i].ips[0].iface, -1);
	}
	/* The journal has its header and one line for all rails: one write, one fsync. */
	journal = il_read(&w.lab, "/state/journal", &n);
	for (size_t i = 0; i < n; i++)
		lines += journal[i] == '\n';
	ASSERT_EQ(lines, 2);
	ASSERT_EQ(cni_ipam_check(p.calls, RAILS, &e), 0);
	ASSERT_EQ(cni_ipam_del(p.calls, RAILS, &e), 0);
	ASSERT_EQ(cni_ipam_del(p.calls, RAILS, &e), 0);
	ASSERT_EQ(il_records(&w.lab, "cooldown"), RAILS);
	pod_done(&p);
}

/* A later rail with another IPAM type fails: the addresses of the previous rails are released. */
static void test_failure_of_one_ipam_type_releases_the_addresses_of_all_rails(void **state)
{
	struct pod p = pod();
	struct err e = ERR_INIT;

	(void)state;
	pod_add(&p, 0, "{" IPAM(RAIL0) "}");
	pod_add(&p, 1,
		"{\"ipam\":{\"type\":\"static\",\"addresses\":[{\"address\":\"10.5.0.1/24\"}]}}");
	pod_add(&p, 2,
		"{\"ipam\":{\"type\":\"host-local\",\"dataDir\":\"/hl\",\"subnet\":\"10.6.0.0/24\"}}");
	pod_add(&p, 3, "{\"ipam\":{\"type\":\"no-such-ipam\"}}");
	ASSERT_OK(cni_ipam_add(p.calls, 3, &e), &e);
	ASSERT_EQ(p.out[1].n_ips, 1);
	ASSERT_EQ(il_records(&w.lab, "used"), 1);
	assert_true(file_exists(&w.lab.root, "/hl/rails/10.6.0.2"));
	for (int i = 0; i < 3; i++)
		cni_result_done(&p.out[i]);
	ASSERT_EQ(cni_ipam_del(p.calls, 3, &e), 0);
	ASSERT_EQ(il_records(&w.lab, "used"), 0);
	assert_false(file_exists(&w.lab.root, "/hl/rails/10.6.0.2"));
	assert_true(cni_ipam_add(p.calls, 4, &e) < 0);
	ASSERT_HAS(e.text, "failed to find plugin \"no-such-ipam\"");
	ASSERT_EQ(il_records(&w.lab, "used"), 0);
	assert_false(file_exists(&w.lab.root, "/hl/rails/10.6.0.3"));
	for (int i = 0; i < 4; i++)
		ASSERT_EQ(p.out[i].n_ips, 0);
	pod_done(&p);
}

/* A failed repetition of ADD does not release the address of the earlier ADD, which is in use. */
static void test_failed_repetition_of_add_retains_the_address(void **state)
{
	struct pod p = pod();
	struct err e = ERR_INIT;

	(void)state;
	pod_add(&p, 0, "{" IPAM(RAIL0) "}");
	pod_add(&p, 1, "{\"ipam\":{\"type\":\"no-such-ipam\"}}");
	ASSERT_EQ(cni_ipam_add(p.calls, 1, &e), 0);
	cni_result_done(&p.out[0]);
	assert_true(cni_ipam_add(p.calls, 2, &e) < 0);
	ASSERT_EQ(il_records(&w.lab, "used"), 1);
	pod_done(&p);
}

static void test_addresses_of_two_stores_are_allocated_for_all_rails_or_for_no_rail(void **state)
{
	struct pod p = pod();
	struct err e = ERR_INIT;

	(void)state;
	il_write(&w.lab, "/pools2/a.conf", "[pool x]\nsubnet=10.8.0.0/24\n");
	pod_add(&p, 0, "{" IPAM(RAIL0) "}");
	pod_add(&p, 1,
		"{\"ipam\":{\"type\":\"spiderpool\",\"pool_dir\":\"/pools2\",\"state_dir\":\"/s2\","
		"\"default_ipv4_ippool\":[\"x\"]}}");
	pod_add(&p, 2, "{" IPAM(RAIL0) "}");
	ASSERT_EQ(cni_ipam_add(p.calls, 3, &e), 0);
	il_assert_ip(&p.out[0].ips[0].address.ip, "10.0.0.10");
	il_assert_ip(&p.out[1].ips[0].address.ip, "10.8.0.1");
	il_assert_ip(&p.out[2].ips[0].address.ip, "10.0.0.11");
	for (int i = 0; i < 3; i++)
		cni_result_done(&p.out[i]);
	/* The pool of the second store is disabled: ADD fails, and the address that the first
	 * store has just allocated is released. */
	ASSERT_EQ(cni_ipam_del(p.calls, 3, &e), 0);
	il_write(&w.lab, "/pools2/a.conf", "[pool x]\nsubnet=10.8.0.0/24\ndisable=yes\n");
	assert_true(cni_ipam_add(p.calls, 3, &e) < 0);
	ASSERT_EQ(il_records(&w.lab, "used"), 0);
	pod_done(&p);
}

static void test_cni_args_address_for_several_rails_is_refused(void **state)
{
	struct pod p = pod();
	struct err e = ERR_INIT;

	(void)state;
	p.call.args_text = "IP=10.0.0.12";
	pod_add(&p, 0, "{" IPAM(RAIL0) "}");
	pod_add(&p, 1, "{" IPAM(RAIL0) "}");
	assert_true(cni_ipam_add(p.calls, 2, &e) < 0);
	ASSERT_EQ(e.kind, ERR_ENV);
	ASSERT_HAS(e.text, "CNI_ARGS requests address 10.0.0.12 for 2 networks");
	pod_done(&p);
}

static void test_add_after_a_reported_conflict_gets_another_address(void **state)
{
	struct mac other = {6, {2, 3, 4, 5, 6, 7}};
	struct pod p = pod();
	struct err e = ERR_INIT;

	(void)state;
	pod_add(&p, 0,
		"{" IPAM(RAIL0
			 ",\"default_ipv6_ippool\":[\"six\"],"
			 "\"enable_gateway_detection\":true,\"detect\":{\"total_ms\":700}") "}");
	ASSERT_EQ(cni_ipam_add(p.calls, 1, &e), 0);
	assert_true(p.flags[0].gateway_detection);
	assert_false(p.flags[0].conflict_detection);
	ASSERT_EQ(p.flags[0].total_ms, 700);
	ASSERT_EQ(cni_ipam_conflict(p.calls, &p.out[0].ips[0].address.ip, &other, &e), 0);
	cni_result_done(&p.out[0]);
	ASSERT_EQ(cni_ipam_add(p.calls, 1, &e), 0);
	ASSERT_EQ(p.out[0].n_ips, 2);
	il_assert_ip(&p.out[0].ips[0].address.ip, "10.0.0.11");
	/* this address was not in conflict */
	il_assert_ip(&p.out[0].ips[1].address.ip, "fd00::10");
	pod_done(&p);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_add_returns_the_result_of_the_original),
		CASE(test_check_requires_and_del_releases_the_address),
		CASE(test_missing_namespace_is_reported_before_allocation),
		CASE(test_invalid_ipam_configuration_is_refused),
		CASE(test_unwritable_log_file_is_ignored),
		CASE(test_requested_address_is_allocated_or_refused),
		CASE(test_gc_releases_addresses_of_invalid_attachments),
		CASE(test_status_reports_exhausted_or_invalid_pools_and_an_unreadable_journal),
		CASE(test_conflicting_addresses_are_quarantined),
		CASE(test_add_fails_after_three_conflicts),
		CASE(test_unreachable_gateway_fails_the_add),
		CASE(test_detection_is_enabled_by_settings),
		CASE(test_missing_link_fails_detection),
		CASE(test_pool_must_match_the_masters_subnet),
		CASE(test_addresses_of_eight_rails_are_allocated_in_one_journal_write),
		CASE(test_failure_of_one_ipam_type_releases_the_addresses_of_all_rails),
		CASE(test_failed_repetition_of_add_retains_the_address),
		CASE(test_addresses_of_two_stores_are_allocated_for_all_rails_or_for_no_rail),
		CASE(test_cni_args_address_for_several_rails_is_refused),
		CASE(test_add_after_a_reported_conflict_gets_another_address),
	};

	return T_RUN(tests, NULL, NULL);
}
