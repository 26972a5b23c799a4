/* SPDX-License-Identifier: Apache-2.0 */
/* The network-status annotation, byte for byte. */
#include "testlib.h"

#include <string.h>

#include "base/alloc.h"
#include "cni/cluster/network_status.h"

struct given {
	struct json_doc *docs[4];
	struct cni_result results[4];
	struct net_status v[4];
	size_t n;
};

static void add(struct given *g, const char *name, const char *version, const char *result,
		const char *device)
{
	struct net_status *v = &g->v[g->n];
	struct json_doc *d = NULL;
	struct err e = ERR_INIT;

	*v = (struct net_status){.name = name, .is_default = g->n == 0};
	ASSERT_EQ(cni_version_parse(version, &v->version), 0);
	if (json_parse(&g->docs[g->n], span_of(result), 1 << 16, &e) < 0 ||
	    cni_result_parse(g->docs[g->n], json_root(g->docs[g->n]), v->version, &g->results[g->n],
			     &e) < 0)
		fail_msg("%s", e.text);
	v->result = &g->results[g->n];
	if (device && json_parse(&d, span_of(device), 1 << 16, &e) < 0)
		fail_msg("%s", e.text);
	if (d) {
		v->device = json_root(d);
		g->docs[3] = d;
	}
	g->n++;
}

static void is(struct given *g, const char *text)
{
	auto_buf struct buf b;

	buf_init(&b, 1 << 16);
	net_status_write(g->v, g->n, &b);
	ASSERT_STR_EQ(b.p, text);
	for (size_t i = 0; i < g->n; i++)
		cni_result_done(&g->results[i]);
	for (size_t i = 0; i < 4; i++)
		json_free(g->docs[i]);
}

#define NS "\"sandbox\":\"/run/netns/p\""

static void test_macvlan_network_has_one_status_element(void **state)
{
	struct given g = {0};

	(void)state;
	add(&g, "team/rail0", "0.3.1",
	    "{\"interfaces\":[{\"name\":\"net1\",\"mac\":\"02:00:00:00:00:01\",\"mtu\":4200," NS
	    "}],\"ips\":[{\"version\":\"4\",\"interface\":0,\"address\":\"172.16.1.9/24\","
	    "\"gateway\":\"172.16.1.1\"},{\"version\":\"6\",\"interface\":0,"
	    "\"address\":\"FD00::9/64\"}],\"dns\":{}}",
	    NULL);
	is(&g, "[{\n"
	       "    \"name\": \"team/rail0\",\n"
	       "    \"interface\": \"net1\",\n"
	       "    \"ips\": [\n"
	       "        \"172.16.1.9\",\n"
	       "        \"fd00::9\"\n"
	       "    ],\n"
	       "    \"mac\": \"02:00:00:00:00:01\",\n"
	       "    \"default\": true,\n"
	       "    \"dns\": {}\n"
	       "}]");
}

/* The first network is a default network of ptp or bridge, with one interface on the host and
 * one in the pod; the second network is a rail with MTU, gateways and device information. */
static void test_every_key_of_the_annotation_is_written(void **state)
{
	struct given g = {0};

	(void)state;
	add(&g, "podnet", "1.0.0",
	    "{\"interfaces\":[{\"name\":\"veth1\",\"mac\":\"0a:00:00:00:00:01\"},"
	    "{\"name\":\"eth0\",\"mac\":\"0a:00:00:00:00:02\"," NS "}],"
	    "\"ips\":[{\"interface\":1,\"address\":\"10.1.0.9/16\",\"gateway\":\"10.1.0.1\"}],"
	    "\"routes\":[{\"dst\":\"0.0.0.0/0\"},{\"dst\":\"10.0.0.0/8\",\"gw\":\"10.1.0.2\"}],"
	    "\"dns\":{\"nameservers\":[\"10.96.0.10\"],\"domain\":\"local\",\"search\":[\"a\",\"b\"],"
	    "\"options\":[\"ndots:5\"]}}",
	    NULL);
	add(&g, "team/vf0", "1.1.0",
	    "{\"interfaces\":[{\"name\":\"net1\",\"mac\":\"02:00:00:00:00:01\",\"mtu\":4200," NS
	    "}],\"ips\":[{\"interface\":0,\"address\":\"172.16.1.9/24\"}],"
	    "\"routes\":[{\"dst\":\"0.0.0.0/0\",\"gw\":\"172.16.1.1\"},"
	    "{\"dst\":\"::/0\",\"gw\":\"fd00::1\"}]}",
	    "{\"version\":\"1.1.0\",\"type\":\"pci\",\"else\":1,\"pci\":{"
	    "\"pf-pci-address\":\"0000:3b:00.0\",\"pci-address\":\"0000:3b:02.1\","
	    "\"rdma-device\":\"mlx5_3\"}}");
	is(&g, "[{\n"
	       "    \"name\": \"podnet\",\n"
	       "    \"interface\": \"eth0\",\n"
	       "    \"ips\": [\n"
	       "        \"10.1.0.9\"\n"
	       "    ],\n"
	       "    \"mac\": \"0a:00:00:00:00:02\",\n"
	       "    \"default\": true,\n"
	       "    \"dns\": {\n"
	       "        \"nameservers\": [\n"
	       "            \"10.96.0.10\"\n"
	       "        ],\n"
	       "        \"domain\": \"local\",\n"
	       "        \"search\": [\n"
	       "            \"a\",\n"
	       "            \"b\"\n"
	       "        ],\n"
	       "        \"options\": [\n"
	       "            \"ndots:5\"\n"
	       "        ]\n"
	       "    },\n"
	       "    \"gateway\": [\n"
	       "        \"\\u003cnil\\u003e\"\n"
	       "    ]\n"
	       "},{\n"
	       "    \"name\": \"team/vf0\",\n"
	       "    \"interface\": \"net1\",\n"
	       "    \"ips\": [\n"
	       "        \"172.16.1.9\"\n"
	       "    ],\n"
	       "    \"mac\": \"02:00:00:00:00:01\",\n"
	       "    \"mtu\": 4200,\n"
	       "    \"dns\": {},\n"
	       "    \"device-info\": {\n"
	       "        \"type\": \"pci\",\n"
	       "        \"version\": \"1.1.0\",\n"
	       "        \"pci\": {\n"
	       "            \"pci-address\": \"0000:3b:02.1\",\n"
	       "            \"rdma-device\": \"mlx5_3\",\n"
	       "            \"pf-pci-address\": \"0000:3b:00.0\"\n"
	       "        }\n"
	       "    },\n"
	       "    \"gateway\": [\n"
	       "        \"172.16.1.1\",\n"
	       "        \"fd00::1\"\n"
	       "    ]\n"
	       "}]");
}

/* A network with two interfaces in the pod: each element has the addresses of its interface, and
 * the last element also the addresses without an interface. The default interface is that of the
 * first address with a gateway. */
static void test_status_has_an_element_for_each_interface_of_the_pod(void **state)
{
	struct given g = {0};

	(void)state;
	add(&g, "two", "1.0.0",
	    "{\"interfaces\":[{\"name\":\"a\"," NS "},{\"name\":\"h\"},{\"name\":\"b\"," NS "}],"
	    "\"ips\":[{\"interface\":0,\"address\":\"10.0.0.1/24\"},"
	    "{\"interface\":2,\"address\":\"10.0.1.1/24\",\"gateway\":\"10.0.1.254\"},"
	    "{\"interface\":1,\"address\":\"10.0.2.1/24\"},{\"address\":\"10.0.3.1/24\"}]}",
	    NULL);
	is(&g, "[{\n"
	       "    \"name\": \"two\",\n"
	       "    \"interface\": \"a\",\n"
	       "    \"ips\": [\n"
	       "        \"10.0.0.1\"\n"
	       "    ],\n"
	       "    \"dns\": {}\n"
	       "},{\n"
	       "    \"name\": \"two\",\n"
	       "    \"interface\": \"b\",\n"
	       "    \"ips\": [\n"
	       "        \"10.0.1.1\",\n"
	       "        \"10.0.3.1\"\n"
	       "    ],\n"
	       "    \"default\": true,\n"
	       "    \"dns\": {}\n"
	       "}]");
}

static void test_status_of_networks_without_addresses_is_written(void **state)
{
	struct given none = {0}, host = {0}, several = {0}, empty = {0};

	(void)state;
	is(&none, "[]");
	add(&host, "x", "1.0.0", "{\"interfaces\":[{\"name\":\"h\",\"mac\":\"m\"}]}", NULL);
	is(&host, "[{\n    \"name\": \"x\",\n    \"default\": true,\n    \"dns\": {}\n}]");
	add(&several, "x", "1.0.0",
	    "{\"interfaces\":[{\"name\":\"a\"," NS "},{\"name\":\"b\"," NS "}]}", NULL);
	is(&several, "[{\n    \"name\": \"x\",\n    \"interface\": \"a\",\n    \"default\": true,\n"
		     "    \"dns\": {}\n},{\n    \"name\": \"x\",\n    \"interface\": \"b\",\n"
		     "    \"dns\": {}\n}]");
	add(&empty, "x", "1.0.0", "{}", NULL);
	is(&empty, "[]");
}

static void test_event_message_lists_interfaces_and_addresses(void **state)
{
	struct given g = {0};
	auto_buf struct buf b;

	(void)state;
	buf_init(&b, 1024);
	add(&g, "podnet", "1.0.0",
	    "{\"interfaces\":[{\"name\":\"v\"},{\"name\":\"eth0\"," NS "}],"
	    "\"ips\":[{\"interface\":1,\"address\":\"10.1.0.9/16\"},"
	    "{\"interface\":1,\"address\":\"fd00::9/64\"}]}",
	    NULL);
	add(&g, "team/rail0", "1.0.0", "{\"interfaces\":[{\"name\":\"net1\"," NS "}]}", NULL);
	network_status_describe(g.v, g.n, &b);
	ASSERT_STR_EQ(b.p, "Add eth0 [10.1.0.9/16 fd00::9/64] from podnet, net1 [] from "
			   "team/rail0");
	for (size_t i = 0; i < g.n; i++) {
		cni_result_done(&g.results[i]);
		json_free(g.docs[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_macvlan_network_has_one_status_element),
		cmocka_unit_test(test_every_key_of_the_annotation_is_written),
		cmocka_unit_test(test_status_has_an_element_for_each_interface_of_the_pod),
		cmocka_unit_test(test_status_of_networks_without_addresses_is_written),
		cmocka_unit_test(test_event_message_lists_interfaces_and_addresses),
	};

	return T_RUN(tests, NULL, NULL);
}
