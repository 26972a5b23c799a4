/* SPDX-License-Identifier: Apache-2.0 */
/* unirail-cni: its netconf, the merged result and its parts, and the input of executed plugins. */
#include "testlib.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cni/multi/multi.h"
#include "cni/protocol/chain.h"

static struct err e;
static struct cni_call call;
static struct multi x;

static int read_text(const char *text)
{
	multi_done(&x);
	json_free(call.doc);
	err_clear(&e);
	call = (struct cni_call){.container_id = "c1",
				 .netns = "/run/netns/p",
				 .ifname = "eth0",
				 .args_text = "",
				 .path = "",
				 .version = CNI_1_0_0,
				 .name = "rails"};
	ASSERT_OK(json_parse(&call.doc, span_of(text), 1 << 20, &e), &e);
	call.conf = json_root(call.doc);
	return multi_read(&call, &x, &e);
}

static void read_good(const char *text)
{
	ASSERT_OK(read_text(text), &e);
}

static void refused(const char *text, const char *word)
{
	int r = read_text(text);

	if (r >= 0)
		r = multi_read_plugins(&x, &e);
	assert_true(r < 0);
	ASSERT_EQ(e.kind, ERR_CONF);
	if (!strstr(e.text, word))
		fail_msg("'%s' is not in '%s'", word, e.text);
}

/* --- netconf --- */

#define RAILS                                                                                      \
	"{\"defaults\":{\"mtu\":4200,\"ipam\":{\"type\":\"spiderpool\"}},"                         \
	"\"coordinator\":{\"hostRuleTable\":700},\"networks\":["                                   \
	"{\"name\":\"podnet\",\"plugins\":[{\"type\":\"ptp\"},{\"type\":\"portmap\"}]},"           \
	"{\"name\":\"rail0\",\"plugins\":[{\"type\":\"macvlan\",\"master\":\"ens1\","              \
	"\"ipam\":{\"type\":\"static\"}},{\"type\":\"tuning\"},{\"type\":\"coordinator\","         \
	"\"hostRuleTable\":800},{\"type\":\"sbr\"}]},"                                             \
	"{\"name\":\"rail1\",\"ifname\":\"rdma1\",\"type\":\"macvlan\",\"master\":\"ens2\"}]}"

static void test_each_network_gets_its_interface_name_and_driver(void **state)
{
	(void)state;
	read_good(RAILS);
	ASSERT_EQ(x.n_nets, 3);
	ASSERT_STR_EQ(x.nets[0].ifname, "eth0");
	ASSERT_STR_EQ(x.nets[1].ifname, "net1");
	ASSERT_STR_EQ(x.nets[2].ifname, "rdma1");
	ASSERT_STR_EQ(x.nets[2].label, "rail 'rdma1' (rail1)");
	assert_true(!x.nets[0].kind && x.nets[1].kind == &macvlan_kind &&
		    x.nets[2].kind == &macvlan_kind);
	ASSERT_STR_EQ(x.nets[0].main.type, "ptp");
	ASSERT_EQ(x.nets[0].n_before, 1);
	assert_true(x.nets[1].n_before == 1 && x.nets[1].n_after == 1);
	ASSERT_STR_EQ(x.nets[1].before[0].type, "tuning");
	ASSERT_STR_EQ(x.nets[1].after[0].type, "sbr");
	ASSERT_EQ(multi_read_plugins(&x, &e), 0);
	ASSERT_EQ(x.n_rails, 2);
	ASSERT_EQ(x.rails[0].conf.mtu, 4200);
	ASSERT_STR_EQ(x.rails[1].conf.master, "ens2");
	/* conf.coordinator applies to networks of a built-in link plugin that have no
	 * coordinator of their own, never to networks of other plugins. */
	assert_null(x.nics[0].conf);
	ASSERT_EQ(x.nics[1].conf->host_table, 800);
	ASSERT_EQ(x.nics[2].conf->host_table, 700);
}

/* Keys of one network: nad, cniVersion, deviceID, cniArgs, defaultRoute. */
static void test_keys_of_a_single_network_are_read(void **state)
{
	(void)state;
	read_good(
		"{\"networks\":[{\"name\":\"p\",\"type\":\"ptp\"},"
		"{\"name\":\"a\",\"nad\":\"team/a\",\"type\":\"macvlan\",\"cniVersion\":\"0.3.1\","
		"\"cniArgs\":\"MAC=02:00:00:00:00:07;IP=10.0.0.7,fd00::7\",\"deviceID\":\"d\","
		"\"ipam\":{\"type\":\"spiderpool\"}},"
		"{\"name\":\"a\",\"nad\":\"team/a\",\"type\":\"macvlan\",\"defaultRoute\":"
		"[\"10.0.0.1\",\"fd00::1\"]}]}");
	ASSERT_EQ(x.nets[0].call.version, CNI_1_0_0);
	ASSERT_EQ(x.nets[1].call.version, CNI_0_3_1);
	ASSERT_STR_EQ(x.nets[1].nad, "team/a");
	ASSERT_STR_EQ(x.nets[1].device, "d");
	ASSERT_STR_EQ(multi_call(&x, 1)->args_text, "MAC=02:00:00:00:00:07;IP=10.0.0.7,fd00::7");
	ASSERT_STR_EQ(multi_call(&x, 2)->args_text, "");
	assert_true(multi_ipam_call(&x, 1).own_args && !multi_ipam_call(&x, 2).own_args);
	ASSERT_STR_EQ(multi_ipam_call(&x, 1).nad, "team/a");
	ASSERT_EQ(multi_ipam_call(&x, 1).version, CNI_0_3_1);
	ASSERT_EQ(x.nets[2].n_gateways, 2);
	ASSERT_EQ(multi_read_plugins(&x, &e), 0);
	ASSERT_EQ(x.rails[0].conf.mac.b[5], 7);
	ASSERT_EQ(x.rails[1].conf.mac.len, 0);
}

static void test_each_network_calls_its_own_ipam_or_that_of_the_defaults(void **state)
{
	struct cni_ipam_call c;

	(void)state;
	read_good(RAILS);
	c = multi_ipam_call(&x, 1);
	ASSERT_STR_EQ(cni_ipam_type(c.conf), "static");
	c = multi_ipam_call(&x, 2);
	ASSERT_STR_EQ(cni_ipam_type(c.conf), "spiderpool");
	ASSERT_STR_EQ(c.name, "rail1");
	ASSERT_STR_EQ(c.ifname, "rdma1");
	read_good("{\"networks\":[{\"name\":\"a\",\"type\":\"macvlan\"}]}");
	assert_null(multi_ipam_call(&x, 0).conf);
}

static void test_invalid_netconf_is_refused(void **state)
{
	static const struct {
		const char *text, *word;
	} bad[] = {
		{"{}", "conf.networks"},
		{"{\"networks\":[]}", "conf.networks"},
		{"{\"networks\":{}}", "conf.networks"},
		{"{\"networks\":[7]}", "conf.networks[0] is"},
		{"{\"networks\":[{\"type\":\"macvlan\"}]}", "conf.networks[0] has no valid 'name'"},
		{"{\"networks\":[{\"name\":\"../x\",\"type\":\"macvlan\"}]}", "'name'"},
		{"{\"networks\":[{\"name\":\"a\"}]}", "conf.networks[0] has no 'type'"},
		{"{\"networks\":[{\"name\":\"a\",\"type\":\"/bin/sh\"}]}", "'type'"},
		{"{\"networks\":[{\"name\":\"a\",\"type\":\"unirail-cni\"}]}", "unirail-cni"},
		{"{\"networks\":[{\"name\":\"a\",\"plugins\":[]}]}", "plugins"},
		{"{\"networks\":[{\"name\":\"a\",\"plugins\":[{\"type\":\"coordinator\"}]}]}",
		 "conf.networks[0].plugins[0] is 'coordinator'"},
		{"{\"networks\":[{\"name\":\"a\",\"plugins\":[{\"type\":\"sriov\"},"
		 "{\"type\":\"macvlan\"}]}]}",
		 "'sriov'"},
		{"{\"networks\":[{\"name\":\"a\",\"plugins\":[{\"type\":\"macvlan\"},"
		 "{\"type\":\"coordinator\"},{\"type\":\"coordinator\"}]}]}",
		 "second 'coordinator'"},
		{"{\"networks\":[{\"name\":\"a\",\"type\":\"macvlan\"},{\"name\":\"a\","
		 "\"type\":\"macvlan\"}]}",
		 "conf.networks[1].name is 'a'"},
		{"{\"networks\":[{\"name\":\"a\",\"type\":\"macvlan\",\"ifname\":\"net1\"},"
		 "{\"name\":\"b\",\"type\":\"macvlan\"}]}",
		 "conf.networks[1].ifname is 'net1'"},
		{"{\"networks\":[{\"name\":\"a\",\"type\":\"macvlan\",\"ifname\":\"a b\"}]}",
		 "'a b'"},
		{"{\"networks\":[{\"name\":\"a\",\"type\":\"macvlan\",\"nad\":\"t/a\"},"
		 "{\"name\":\"a\",\"type\":\"macvlan\"}]}",
		 "conf.networks[1].name is 'a'"},
		{"{\"networks\":[{\"name\":\"a\",\"type\":\"macvlan\",\"nad\":\"t/a\",\"cniVersion\":\"2\"}]}",
		 "conf.networks[0].cniVersion is '2'"},
		{"{\"networks\":[{\"name\":\"a\",\"type\":\"macvlan\",\"defaultRoute\":[\"x\"]}]}",
		 "conf.networks[0].defaultRoute[0] is 'x'"},
		{"{\"networks\":[{\"name\":\"a\",\"type\":\"macvlan\",\"defaultRoute\":[\"10.0.0.1\"]},"
		 "{\"name\":\"b\",\"type\":\"macvlan\",\"defaultRoute\":[\"fd00::1\",\"10.0.1.1\"]}]}",
		 "multus does not support ECMP"},
		{"{\"networks\":[{\"name\":\"a\",\"type\":\"macvlan\"}],\"defaults\":[]}",
		 "conf.defaults"},
		{"{\"networks\":[{\"name\":\"a\",\"type\":\"macvlan\"}],\"timeoutMs\":0}",
		 "timeoutMs"},
		{"{\"networks\":[{\"name\":\"a\",\"type\":\"macvlan\",\"mode\":\"x\"}]}",
		 "rail 'eth0' (a): unknown macvlan mode"},
		{"{\"networks\":[{\"name\":\"a\",\"plugins\":[{\"type\":\"macvlan\"},"
		 "{\"type\":\"coordinator\",\"mode\":\"x\"}]}]}",
		 "rail 'eth0' (a): conf.mode is 'x'"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		refused(bad[i].text, bad[i].word);
}

/* Of CNI_ARGS, MAC, IP and GATEWAY apply to the first network only; the other keys apply to all
 * networks. */
static void test_later_networks_get_no_mac_ip_or_gateway_args(void **state)
{
	static const struct {
		const char *in, *out;
	} args[] = {
		{"", ""},
		{"MAC=0a:00:00:00:00:01", ""},
		{"IgnoreUnknown=1;IP=10.0.0.1;K8S_POD_NAME=p;MAC=x;GATEWAY=y", "IgnoreUnknown=1;"
									       "K8S_POD_NAME=p"},
		{"IPX=1;a=IP=", "IPX=1;a=IP="},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(args) / sizeof(args[0]); i++) {
		char *got = multi_later_args(args[i].in);

		ASSERT_STR_EQ(got, args[i].out);
		free(got);
	}
}

/* --- results --- */

static void add_ip(struct cni_result *r, const char *address, const char *gw, int iface)
{
	const struct cni_ip i = {t_net(address), t_ip(gw), iface};

	cni_result_ip(r, &i);
}

static void add_default(struct cni_result *r)
{
	const struct cni_route rt = {.dst = t_net("0.0.0.0/0")};

	cni_result_route(r, &rt);
}

static void three_results(struct cni_result r[static 3])
{
	cni_result_iface(&r[0], "vethx", "0a:00:00:00:00:01", NULL);
	cni_result_iface(&r[0], "eth0", "0a:00:00:00:00:02", "/run/netns/p")->mtu = 1400;
	add_ip(&r[0], "10.1.0.2/24", "10.1.0.1", 1);
	add_default(&r[0]);
	cni_result_iface(&r[1], "net1", "0a:00:00:00:00:03", "/run/netns/p");
	add_ip(&r[1], "172.16.1.20/24", "172.16.1.1", 0);
	add_default(&r[1]);
	r[1].dns.domain = xstrdup("first");
	cni_result_iface(&r[2], "rdma1", NULL, "/run/netns/p");
	r[2].dns.domain = xstrdup("second");
}

static void merge_three(struct cni_result *all)
{
	struct cni_result r[3] = {0};

	three_results(r);
	for (size_t i = 0; i < 3; i++) {
		multi_merge(&r[i], all);
		cni_result_done(&r[i]);
	}
}

static void test_results_of_networks_are_merged(void **state)
{
	auto_result struct cni_result all = {0};
	struct ipaddr gw0 = t_ip("10.1.0.1"), gw1 = t_ip("172.16.1.1");

	(void)state;
	merge_three(&all);
	ASSERT_EQ(all.n_ifaces, 4);
	ASSERT_STR_EQ(all.ifaces[2].name, "net1");
	ASSERT_EQ(all.ifaces[1].mtu, 1400);
	assert_true(all.n_ips == 2 && all.ips[0].iface == 1 && all.ips[1].iface == 2);
	/* The default route of each network has the gateway of this network. */
	assert_true(ip_eq(&all.routes[0].gw, &gw0) && ip_eq(&all.routes[1].gw, &gw1));
	ASSERT_STR_EQ(all.dns.domain, "first");
}

static void test_merged_result_is_split_by_network(void **state)
{
	auto_result struct cni_result all = {0}, s0 = {0}, s1 = {0}, s2 = {0};

	(void)state;
	read_good(RAILS);
	merge_three(&all);
	multi_slice(&x, &all, 0, &s0);
	assert_true(s0.n_ifaces == 2 && s0.n_ips == 1 && s0.ips[0].iface == 1 && s0.n_routes == 1);
	ASSERT_STR_EQ(s0.ifaces[0].name, "vethx");
	multi_slice(&x, &all, 1, &s1);
	assert_true(s1.n_ifaces == 1 && s1.n_ips == 1 && s1.ips[0].iface == 0 && s1.n_routes == 1);
	ASSERT_STR_EQ(s1.ifaces[0].name, "net1");
	multi_slice(&x, &all, 2, &s2);
	assert_true(s2.n_ifaces == 1 && !s2.n_ips && !s2.n_routes);
}

/* --- the input of an executed plugin --- */

static void conf_of(const char *plugin, const struct cni_result *prev, bool gc, const char *want)
{
	static const struct cni_attachment valid[] = {{"c1", "net1"}};
	auto_json struct json_doc *d = NULL, *rt = NULL;
	auto_buf struct buf b;
	struct chain_call c = {.call = &call,
			       .type = "tuning",
			       .network = "rail0",
			       .prev = prev,
			       .ifname = "net1",
			       .valid = valid,
			       .n_valid = 1};

	read_good(RAILS);
	buf_init(&b, 1 << 16);
	ASSERT_EQ(json_parse(&d, span_of(plugin), 1 << 16, &e), 0);
	ASSERT_EQ(json_parse(&rt, span_of("{\"mac\":\"m\",\"ips\":[\"a\"]}"), 1 << 16, &e), 0);
	c.plugin = json_root(d);
	c.runtime = json_root(rt);
	ASSERT_OK(chain_conf(&c, gc, &b, &e), &e);
	ASSERT_STR_EQ(b.p, want);
}

static void test_executed_plugin_gets_its_configuration(void **state)
{
	auto_result struct cni_result prev = {0};

	(void)state;
	conf_of("{\"type\":\"tuning\",\"name\":\"x\",\"cniVersion\":\"0.1.0\",\"a\":1.5}", NULL,
		false,
		"{\"cniVersion\":\"1.0.0\",\"name\":\"rail0\",\"type\":\"tuning\",\"a\":1.5}");
	/* A plugin gets the runtime's values of the capabilities that it declares. */
	conf_of("{\"type\":\"tuning\",\"capabilities\":{\"mac\":true,\"ips\":false}}", NULL, false,
		"{\"cniVersion\":\"1.0.0\",\"name\":\"rail0\",\"type\":\"tuning\","
		"\"capabilities\":{\"mac\":true,\"ips\":false},\"runtimeConfig\":{\"mac\":\"m\"}}");
	cni_result_iface(&prev, "net1", NULL, "/run/netns/p");
	conf_of("{\"type\":\"tuning\",\"prevResult\":{}}", &prev, false,
		"{\"cniVersion\":\"1.0.0\",\"name\":\"rail0\",\"type\":\"tuning\",\"prevResult\":"
		"{\"cniVersion\":\"1.0.0\",\"interfaces\":[{\"name\":\"net1\",\"sandbox\":"
		"\"/run/netns/p\"}]}}");
	conf_of("{\"type\":\"tuning\"}", NULL, true,
		"{\"cniVersion\":\"1.0.0\",\"name\":\"rail0\",\"type\":\"tuning\","
		"\"cni.dev/valid-attachments\":[{\"containerID\":\"c1\",\"ifname\":\"net1\"}],"
		"\"cni.dev/attachments\":[{\"containerID\":\"c1\",\"ifname\":\"net1\"}]}");
}

static int free_all(void **state)
{
	(void)state;
	multi_done(&x);
	json_free(call.doc);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_network_gets_its_interface_name_and_driver),
		cmocka_unit_test(test_keys_of_a_single_network_are_read),
		cmocka_unit_test(test_each_network_calls_its_own_ipam_or_that_of_the_defaults),
		cmocka_unit_test(test_invalid_netconf_is_refused),
		cmocka_unit_test(test_later_networks_get_no_mac_ip_or_gateway_args),
		cmocka_unit_test(test_results_of_networks_are_merged),
		cmocka_unit_test(test_merged_result_is_split_by_network),
		cmocka_unit_test(test_executed_plugin_gets_its_configuration),
	};

	return T_RUN(tests, NULL, free_all);
}
