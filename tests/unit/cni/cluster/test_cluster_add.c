/* SPDX-License-Identifier: Apache-2.0 */
/* A network that the agent selected for a pod is converted to a network of unirail-cni. */
#include "testlib.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cni/cluster/add.h"

#define MAX (1 << 16)

static struct err e;

/* Converts `element`, a network as the agent sends it, to the network with the number `index`.
 * `common`: an object with the optional keys "agent", "stateDir", "coordinator", "runtime".
 * Returns the converted text; NULL if the network is refused, with the reason in `e`. */
static char *put(const char *element, size_t index, const char *common)
{
	auto_json struct json_doc *d = NULL, *c = NULL;
	const struct cni_call call = {.container_id = "c1", .root = {.fd = -1}};
	struct pod_net net = {0};
	struct pod_nets p = {.call = &call, .conf_dir = "/none"};
	struct json_out o;
	struct buf b;

	err_clear(&e);
	buf_init(&b, MAX);
	jo_init(&o, &b, 0);
	ASSERT_EQ(json_parse(&c, span_of(common ? common : "{}"), MAX, &e), 0);
	p.agent = json_string(json_get(json_root(c), "agent"));
	p.state_dir = json_string(json_get(json_root(c), "stateDir"));
	p.coordinator = json_get(json_root(c), "coordinator");
	p.runtime = json_get(json_root(c), "runtime");
	if (json_parse(&d, span_of(element), MAX, &e) < 0 ||
	    pod_net_read(d, json_root(d), "networks[0]", &net, &e) < 0 ||
	    pod_net_put(&o, &p, &net, index, &e) < 0) {
		buf_done(&b);
		return NULL;
	}
	return buf_take(&b);
}

static void is(const char *element, size_t index, const char *common, const char *text)
{
	auto_free char *got = put(element, index, common);

	if (!got)
		fail_msg("%s", e.text);
	ASSERT_STR_EQ(got, text);
}

static void refused(const char *element, const char *word)
{
	auto_free char *got = put(element, 1, NULL);

	if (got)
		fail_msg("'%s' is not refused", element);
	if (!strstr(e.text, word))
		fail_msg("'%s' does not contain '%s'", e.text, word);
	ASSERT_EQ(e.kind, ERR_CONF);
}

#define NET(config) "{\"nad\":\"team/a\",\"name\":\"a\",\"ifname\":\"net1\",\"config\":" config

#define HEAD "{\"name\":\"a\",\"nad\":\"team/a\",\"ifname\":\"net1\",\"cniVersion\":\"\","

static void test_netconf_of_one_or_several_plugins_is_converted(void **state)
{
	(void)state;
	is(NET("{\"type\":\"ptp\",\"mtu\":9}}"), 1, NULL,
	   HEAD "\"plugins\":[{\"type\":\"ptp\","
		"\"mtu\":9}]}");
	is(NET("{\"cniVersion\":\"0.3.1\",\"name\":\"n\",\"plugins\":[{\"type\":\"ptp\"},{\"type\":"
	       "\"sbr\"}]}}"),
	   1, NULL,
	   "{\"name\":\"n\",\"nad\":\"team/a\",\"ifname\":\"net1\",\"cniVersion\":\"0.3.1\","
	   "\"plugins\":[{\"type\":\"ptp\"},{\"type\":\"sbr\"}]}");
	is("{\"name\":\"n\",\"config\":{\"name\":\"n\",\"type\":\"ptp\"}}", 0, NULL,
	   "{\"name\":\"n\",\"nad\":\"n\",\"cniVersion\":\"\",\"plugins\":[{\"type\":\"ptp\"}]}");
}

/* The allocated device is written into every plugin and replaces the plugin's own value. */
static void test_allocated_device_is_written_into_plugins(void **state)
{
	(void)state;
	is(NET("{\"plugins\":[{\"type\":\"ifacer\"},{\"type\":\"sriov\",\"deviceID\":\"x\","
	       "\"PCIBusID\":\"y\"}]},\"deviceID\":\"d\",\"resource\":\"r\"}"),
	   1, NULL,
	   HEAD "\"deviceID\":\"d\",\"plugins\":["
		"{\"type\":\"ifacer\",\"deviceID\":\"d\",\"pciBusID\":\"d\"},"
		"{\"type\":\"sriov\",\"deviceID\":\"d\",\"pciBusID\":\"d\"}]}");
}

#define REQUEST ",\"requestedDeviceID\":\"d\"}"
#define WANTS	"\"capabilities\":{\"deviceID\":true}"

/* A device that the pod's annotation requests is written into the runtimeConfig of a plugin that
 * declares the capability deviceID and whose own configuration names no device. It is not
 * written in the pod's first network. */
static void test_requested_device_is_written_into_capable_plugins(void **state)
{
	static const char *const own[] = {"\"deviceID\":\"x\"",
					  "\"pciBusID\":\"x\"",
					  "\"PCIBusID\":\"x\"",
					  "\"device\":\"x\"",
					  "\"hwaddr\":\"x\"",
					  "\"kernelpath\":\"x\"",
					  "\"runtimeConfig\":{\"deviceID\":\"x\"}"};

	(void)state;
	is(NET("{\"plugins\":[{\"type\":\"host-device\"," WANTS
	       "},{\"type\":\"tuning\"}]}" REQUEST),
	   1, NULL,
	   HEAD "\"deviceID\":\"d\",\"plugins\":[{\"type\":\"host-device\"," WANTS
		",\"runtimeConfig\":{\"deviceID\":\"d\"}},{\"type\":\"tuning\"}]}");
	is(NET("{\"type\":\"host-device\"}" REQUEST), 1, NULL,
	   HEAD "\"deviceID\":\"d\",\"plugins\":[{\"type\":\"host-device\"}]}");
	is(NET("{\"type\":\"host-device\"," WANTS "}" REQUEST), 0, NULL,
	   HEAD "\"deviceID\":\"d\",\"plugins\":[{\"type\":\"host-device\"," WANTS "}]}");
	for (size_t i = 0; i < ARRAY_LEN(own); i++) {
		auto_free char *in =
			xasprintf(NET("{\"type\":\"host-device\",%s," WANTS "}" REQUEST), own[i]);
		auto_free char *got = put(in, 1, NULL);

		assert_non_null(got);
		assert_non_null(strstr(got, own[i]));
		assert_null(strstr(strstr(got, "\"plugins\""), "\"d\""));
	}
}

static void test_requested_mac_ips_default_route_and_cni_args_are_written(void **state)
{
	(void)state;
	is(NET("{\"type\":\"ptp\"},\"mac\":\"02:00:00:00:00:01\",\"ips\":[\"10.0.0.9\",\"fd00::9\"],"
	       "\"defaultRoute\":[\"10.0.0.1\"]}"),
	   1, NULL,
	   HEAD "\"cniArgs\":"
		"\"MAC=02:00:00:00:00:01;IP=10.0.0.9,fd00::9\",\"defaultRoute\":[\"10.0.0.1\"],"
		"\"plugins\":[{\"type\":\"ptp\"}]}");
	is(NET("{\"type\":\"ptp\",\"args\":{\"x\":1,\"cni\":{\"a\":1,\"b\":2}}},"
	       "\"cniArgs\":{\"b\":3}}"),
	   1, NULL,
	   HEAD "\"plugins\":[{\"type\":\"ptp\","
		"\"args\":{\"x\":1,\"cni\":{\"a\":1,\"b\":3}}}]}");
}

#define CAPS                                                                                       \
	"\"capabilities\":{\"mac\":true,\"ips\":true,\"portMappings\":true,\"dns\":true,"          \
	"\"bandwidth\":false,\"CNIDeviceInfoFile\":true}"
#define RUNTIME                                                                                    \
	"{\"runtime\":{\"portMappings\":[{\"hostPort\":1}],\"dns\":{},\"bandwidth\":{},"           \
	"\"cgroupPath\":\"/x\"}}"

/* runtimeConfig gets the values of the capabilities that the plugin declares: for each, the
 * value that the pod's requests or its device determine, otherwise the value of the container
 * runtime, if any. In the pod's first network, runtimeConfig gets only values of the container
 * runtime. */
static void test_runtime_config_is_limited_to_capabilities(void **state)
{
	static const char element[] =
		NET("{\"type\":\"ptp\"," CAPS "},\"mac\":\"02:00:00:00:00:01\","
		    "\"ips\":[\"10.0.0.9\"],\"bandwidth\":{\"ingressRate\":1},"
		    "\"deviceID\":\"d\"}");

	(void)state;
	is(element, 1, RUNTIME,
	   HEAD "\"deviceID\":\"d\",\"cniArgs\":\"MAC=02:00:00:00:00:01;IP=10.0.0.9\",\"plugins\":["
		"{\"type\":\"ptp\"," CAPS
		",\"deviceID\":\"d\",\"pciBusID\":\"d\",\"runtimeConfig\":{"
		"\"mac\":\"02:00:00:00:00:01\",\"ips\":[\"10.0.0.9\"],\"portMappings\":["
		"{\"hostPort\":1}],\"dns\":{},\"CNIDeviceInfoFile\":\"/var/run/k8s.cni.cncf.io/"
		"devinfo/cni/team-a-c1_net1\"}}]}");
	is(element, 0, RUNTIME,
	   HEAD "\"deviceID\":\"d\",\"cniArgs\":\"MAC=02:00:00:00:00:01;IP=10.0.0.9\",\"plugins\":["
		"{\"type\":\"ptp\"," CAPS
		",\"deviceID\":\"d\",\"pciBusID\":\"d\",\"runtimeConfig\":{"
		"\"portMappings\":[{\"hostPort\":1}],\"dns\":{}}}]}");
	is(NET("{\"type\":\"ptp\",\"runtimeConfig\":{\"mac\":\"m\"}}}"), 1, RUNTIME,
	   HEAD "\"plugins\":[{\"type\":\"ptp\",\"runtimeConfig\":{\"mac\":\"m\"}}]}");
}

/* A setting of the coordinator is used if the netconf lacks its key, or has null, "" or []
 * there; 0 is a value. */
static void test_coordinator_settings_fill_missing_values(void **state)
{
	static const char common[] =
		"{\"coordinator\":{\"mode\":\"underlay\",\"podDefaultRouteNIC\":\"net1\","
		"\"hijackCIDR\":[\"10.0.0.0/8\"],\"serviceCIDR\":[],\"podMACPrefix\":\"\","
		"\"txQueueLen\":7,\"vethMTU\":1400}}";

	(void)state;
	is(NET("{\"plugins\":[{\"type\":\"macvlan\"},{\"type\":\"coordinator\",\"mode\":\"auto\","
	       "\"podDefaultRouteNic\":\"\",\"hijackCIDR\":[],\"txQueueLen\":0}]}}"),
	   1, common,
	   HEAD "\"plugins\":[{\"type\":\"macvlan\"},{\"type\":\"coordinator\",\"mode\":\"auto\","
		"\"txQueueLen\":0,\"podDefaultRouteNIC\":\"net1\",\"hijackCIDR\":[\"10.0.0.0/8\"],"
		"\"vethMTU\":1400}]}");
}

static void test_spiderpool_ipam_gets_the_agents_socket(void **state)
{
	static const char common[] = "{\"agent\":\"/a.sock\",\"stateDir\":\"/s\"}";

	(void)state;
	is(NET("{\"type\":\"macvlan\",\"ipam\":{\"type\":\"spiderpool\",\"default_ipv4_ippool\":"
	       "[\"p\"]}}}"),
	   1, common,
	   HEAD "\"plugins\":[{\"type\":\"macvlan\",\"ipam\":{\"type\":\"spiderpool\","
		"\"default_ipv4_ippool\":[\"p\"],\"ipam_unix_socket_path\":\"/a.sock\","
		"\"server_state_dir\":\"/s\"}}]}");
	is(NET("{\"type\":\"macvlan\",\"ipam\":{\"type\":\"spiderpool\",\"ipam_unix_socket_path\":"
	       "\"/b\",\"server_state_dir\":\"/t\"}}}"),
	   1, common,
	   HEAD "\"plugins\":[{\"type\":\"macvlan\",\"ipam\":{\"type\":\"spiderpool\","
		"\"ipam_unix_socket_path\":\"/b\",\"server_state_dir\":\"/t\"}}]}");
	is(NET("{\"type\":\"macvlan\",\"ipam\":{\"type\":\"static\"}}}"), 1, common,
	   HEAD "\"plugins\":[{\"type\":\"macvlan\",\"ipam\":{\"type\":\"static\"}}]}");
}

static void test_invalid_networks_are_refused(void **state)
{
	(void)state;
	refused("[]", "networks[0] is");
	refused("{\"nam\":\"a\"}", "nam");
	refused(NET("{}}"), "network 'team/a': LoadDelegateNetConfList: delegate must have");
	refused(NET("[]}"), "network 'team/a'");
	refused(NET("{\"plugins\":[]}}"), "plugins is");
	refused(NET("{\"plugins\":{}}}"), "plugins is");
	refused(NET("{\"plugins\":[{}]}}"), "a plugin delegate must have the 'type' field");
	refused(NET("{\"plugins\":[7]}}"), "a plugin is 7");
	/* Multus panics on the next two networks. */
	refused(NET("{\"type\":\"ptp\",\"args\":[]},\"cniArgs\":{\"a\":1}}"), "args is");
	refused(NET("{\"type\":\"ptp\",\"args\":{\"cni\":1}},\"cniArgs\":{\"a\":1}}"),
		"args.cni is");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_netconf_of_one_or_several_plugins_is_converted),
		cmocka_unit_test(test_allocated_device_is_written_into_plugins),
		cmocka_unit_test(test_requested_device_is_written_into_capable_plugins),
		cmocka_unit_test(test_requested_mac_ips_default_route_and_cni_args_are_written),
		cmocka_unit_test(test_runtime_config_is_limited_to_capabilities),
		cmocka_unit_test(test_coordinator_settings_fill_missing_values),
		cmocka_unit_test(test_spiderpool_ipam_gets_the_agents_socket),
		cmocka_unit_test(test_invalid_networks_are_refused),
	};

	return T_RUN(tests, NULL, NULL);
}
