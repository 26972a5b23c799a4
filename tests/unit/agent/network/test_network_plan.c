/* SPDX-License-Identifier: Apache-2.0 */
/* Which networks a pod gets, in which order, and with which interfaces and devices. */
#include "testlib.h"

#include <stdlib.h>
#include <string.h>

#include "agent/network/plan.h"
#include "base/alloc.h"
#include "spec/annotations.h"

static char wide[200 << 10]; /* for test_total_size_of_configurations_is_limited() */

static const struct {
	const char *ns, *name;
	struct net_nad nad;
} nads[] = {
	{"pod", "wide", {wide, NULL, false, false, 0}},
	{"pod", "rail0", {"{\"type\":\"macvlan\"}", NULL, false, false, 0}},
	{"pod", "rail1", {"{\"type\":\"macvlan\"}", NULL, false, false, 0}},
	{"pod", "vf", {"{\"type\":\"sriov\"}", "x/vf", false, false, 0}},
	{"pod", "other", {"{\"type\":\"sriov\"}", "x/other", false, false, 0}},
	{"pod", "empty", {NULL, NULL, false, false, 0}},
	{"pod", "blank", {" \n", NULL, false, false, 0}},
	{"pod", "broken", {"{\"type\":", NULL, false, false, 0}},
	{"pod", "list", {"[]", NULL, false, false, 0}},
	{"pod", "large", {NULL, NULL, false, false, 300000}},
	{"team", "rail0", {"{\"type\":\"ipvlan\"}", NULL, false, false, 0}},
	{"default", "shared", {"{\"type\":\"ipvlan\"}", NULL, true, false, 0}},
	{"kube-system", "cluster", {"{\"type\":\"ptp\"}", NULL, false, false, 0}},
	{"kube-system", "more", {"{\"type\":\"ptp\"}", NULL, false, false, 0}},
	{"kube-system", "not", {"{\"type\":\"ptp\"}", NULL, false, true, 0}},
};

static bool find(void *arg, const char *ns, const char *name, struct net_nad *ret)
{
	(void)arg;
	for (size_t i = 0; i < ARRAY_LEN(nads); i++)
		if (strcmp(nads[i].ns, ns) == 0 && strcmp(nads[i].name, name) == 0) {
			*ret = nads[i].nad;
			return true;
		}
	return false;
}

static const struct net_lookup lookup = {find, NULL};

struct given {
	const char *nets, *first, *cluster, *defaults, *ns, *uid, *source;
	int n_netconf;
	bool isolation;
};

static int make(const struct given *g, struct net_plan *p, struct err *e)
{
	static const char *const system[] = {"kube-system"};
	const char *defaults[] = {g->defaults};
	struct net_request w = {.ifname = "eth0",
				.pod_uid = g->uid ? g->uid : "u1",
				.n_netconf = g->n_netconf,
				.cluster_network = g->cluster,
				.multus_ns = "kube-system",
				.global_ns = "default , infra",
				.defaults = {defaults, g->defaults != NULL},
				.system_ns = {(const char **)system, 1},
				.isolation = g->isolation};
	struct pod_facts pod = {.ns = xstrdup(g->ns ? g->ns : "pod"),
				.name = xstrdup("p"),
				.uid = xstrdup("u1"),
				.node = xstrdup("n")};
	int r;

	if (g->nets)
		labels_put(&pod.annotations, ANNOTATION_NETWORKS, g->nets);
	if (g->first)
		labels_put(&pod.annotations, ANNOTATION_DEFAULT_NETWORK, g->first);
	if (g->source)
		labels_put(&pod.annotations, "kubernetes.io/config.source", g->source);
	r = net_plan_make(&w, &pod, &lookup, p, e);
	pod_facts_done(&pod);
	return r;
}

/* Fails unless the plan is `expected`: each network as "ns/name@if"; "+" before the first: it
 * replaces the first network of the netconf; "!" before a network: its configuration is that of
 * a CNI configuration file. */
static void is(const struct given *g, const char *expected)
{
	auto_net_plan struct net_plan p = {0};
	struct err e = ERR_INIT;
	auto_buf struct buf b;

	buf_init(&b, 4096);
	if (make(g, &p, &e) < 0)
		fail_msg("%s: %s", expected, e.text);
	buf_str(&b, p.replaces_first ? "+" : "");
	for (size_t i = 0; i < p.n; i++)
		buf_printf(&b, "%s%s%s%s%s%s%s", i ? " " : "", p.v[i].config ? "" : "!",
			   p.v[i].ns ? p.v[i].ns : "", p.v[i].ns ? "/" : "", p.v[i].name,
			   p.v[i].ifname ? "@" : "", p.v[i].ifname ? p.v[i].ifname : "");
	ASSERT_STR_EQ(b.p ? b.p : "", expected);
}

static void refused(const struct given *g, const char *word, bool lacks)
{
	auto_net_plan struct net_plan p = {0};
	struct err e = ERR_INIT;

	if (make(g, &p, &e) == 0)
		fail_msg("the plan is accepted, expected the error '%s'", word);
	if (!strstr(e.text, word) || !strstr(e.text, "pod '"))
		fail_msg("'%s' does not contain '%s'", e.text, word);
	ASSERT_EQ(p.lacks_nad, lacks);
}

#define IS(expected, ...)  is(&(struct given){__VA_ARGS__}, expected)
#define REFUSED(word, ...) refused(&(struct given){__VA_ARGS__}, word, false)
#define LACKS(word, ...)   refused(&(struct given){__VA_ARGS__}, word, true)

static void test_networks_of_a_pod_get_their_order_and_interface_names(void **state)
{
	(void)state;
	IS("", .n_netconf = 1);
	IS("pod/rail0@net1 pod/rail1@net2", .n_netconf = 1, .nets = "rail0,rail1");
	IS("pod/rail0@net3", .n_netconf = 3, .nets = "rail0");
	IS("pod/rail0@net1 pod/rail0@net2", .n_netconf = 1, .nets = "rail0,rail0");
	IS("pod/rail1@b0 pod/rail0@net2", .n_netconf = 1, .nets = "rail1@b0,rail0");
	IS("kube-system/cluster pod/rail0@net1", .cluster = "cluster", .nets = "rail0");
	IS("!calico pod/rail0@net1", .cluster = "calico", .nets = "rail0");
	IS("!/etc/cni/net.d", .cluster = "/etc/cni/net.d");
	IS("kube-system/cluster kube-system/more@net1 pod/rail0@net2", .cluster = "cluster",
	   .defaults = "more", .nets = "rail0");
	IS("!file@net1", .n_netconf = 1, .defaults = "file");
	IS("kube-system/cluster", .cluster = "cluster", .defaults = "more", .ns = "kube-system");
	IS("!pod/empty@net1 !pod/blank@net2", .n_netconf = 1, .nets = "empty,blank");
}

/*
 * A definition is trusted if its namespace is trusted or is multusNamespace, unless the annotation
 * of the namespace denies trust.
 */
static void test_definitions_of_administrators_are_trusted(void **state)
{
	const struct given g = {.n_netconf = 1,
				.defaults = "more",
				.nets = "rail0,team/rail0,default/shared,kube-system/cluster,"
					"kube-system/not"};
	static const bool want[] = {true, false, false, true, true, false};
	auto_net_plan struct net_plan p = {0};

	(void)state;
	ASSERT_EQ(make(&g, &p, NULL), 0);
	ASSERT_EQ(p.n, ARRAY_LEN(want));
	for (size_t i = 0; i < p.n; i++) {
		auto_buf struct buf b;
		struct json_out o;

		ASSERT_EQ(p.v[i].trusted, want[i]);
		buf_init(&b, 4096);
		jo_init(&o, &b, 0);
		jo_obj(&o);
		net_plan_put(&(struct net_plan){.v = &p.v[i], .n = 1}, &o);
		jo_end_obj(&o);
		ASSERT_EQ(strstr(b.p, "\"trusted\":true") != NULL, want[i]);
	}
}

static void test_default_network_annotation_replaces_the_cluster_network(void **state)
{
	(void)state;
	IS("kube-system/more", .cluster = "cluster", .first = "more");
	IS("+kube-system/more", .n_netconf = 1, .first = "more");
	IS("+team/rail0@eth9 pod/rail0@net2", .n_netconf = 2, .first = "team/rail0@eth9",
	   .nets = "rail0");
	IS("kube-system/cluster", .cluster = "cluster", .first = "");
	REFUSED("of 300000 bytes", .n_netconf = 1, .nets = "large");
	REFUSED("more than one default network is specified", .n_netconf = 1,
		.first = "more,cluster");
	LACKS("network 'kube-system/none' (annotation v1.multus-cni.io/default-network)",
	      .n_netconf = 1, .first = "none");
	REFUSED("v1.multus-cni.io/default-network: parsePodNetworkObjectName", .n_netconf = 1,
		.first = "A");
}

static void test_missing_or_broken_networks_are_refused(void **state)
{
	(void)state;
	LACKS("pod 'pod/p': network 'pod/none' (annotation k8s.v1.cni.cncf.io/networks): cannot find "
	      "a network-attachment-definition (none) in namespace (pod)",
	      .n_netconf = 1, .nets = "rail0,none");
	REFUSED("network 'pod/broken' (annotation k8s.v1.cni.cncf.io/networks): spec.config of the "
		"network-attachment-definition is not JSON",
		.n_netconf = 1, .nets = "broken");
	REFUSED("network 'pod/list'", .n_netconf = 1, .nets = "list");
	REFUSED("interface 'net2' is used twice, for network 'pod/rail0' and for network 'pod/rail1'",
		.n_netconf = 1, .nets = "rail0@net2,rail1");
	REFUSED("'eth0'", .n_netconf = 1, .nets = "rail0@eth0");
	REFUSED("interface 'eth0' is used twice", .cluster = "cluster", .nets = "rail0@eth0");
	REFUSED("annotation k8s.v1.cni.cncf.io/networks: parsePod", .n_netconf = 1,
		.nets = "a/b/c");
}

/* One definition of 200 KiB for five interfaces is accepted, for six refused. */
static void test_total_size_of_configurations_is_limited(void **state)
{
	const struct given five = {.n_netconf = 1, .nets = "wide,wide,wide,wide,wide"};
	auto_net_plan struct net_plan p = {0};
	struct err e = ERR_INIT;

	(void)state;
	memset(wide, ' ', sizeof(wide) - 1);
	memcpy(wide, "{\"type\":\"macvlan\"", 17);
	wide[sizeof(wide) - 2] = '}';
	ASSERT_OK(make(&five, &p, &e), &e);
	ASSERT_EQ(p.n, 5);
	REFUSED("together exceed 1048576 bytes", .n_netconf = 1,
		.nets = "wide,wide,wide,wide,wide,wide");
}

static void
test_isolated_pod_may_request_networks_of_its_own_and_global_namespaces_only(void **state)
{
	(void)state;
	IS("team/rail0@net1", .n_netconf = 1, .nets = "team/rail0");
	IS("pod/rail0@net1 default/shared@net2", .n_netconf = 1, .nets = "rail0,default/shared",
	   .isolation = true);
	LACKS("(none) in namespace (infra)", .n_netconf = 1, .nets = "infra/none",
	      .isolation = true);
	REFUSED("namespace isolation enabled, annotation violates permission, pod is in namespace pod "
		"but refers to target namespace team",
		.n_netconf = 1, .nets = "team/rail0", .isolation = true);
	IS("kube-system/cluster", .cluster = "cluster", .isolation = true);
}

static void test_pod_with_another_uid_is_refused(void **state)
{
	(void)state;
	IS("", .n_netconf = 1, .uid = "");
	REFUSED("expected pod UID \"u2\" but got \"u1\" from Kube API", .n_netconf = 1,
		.uid = "u2");
	REFUSED("expected pod UID", .n_netconf = 1, .uid = "u2", .source = "api");
	IS("", .n_netconf = 1, .uid = "u2", .source = "file");
}

static void add(struct allocated *a, const char *resource, const char *id)
{
	allocated_add(a, span_of(resource), span_of(id));
}

/* Devices are assigned in the order of the networks and of the device IDs. */
static void test_devices_are_assigned_in_the_order_of_networks(void **state)
{
	auto_net_plan struct net_plan p = {0};
	auto_allocated struct allocated a = {0};
	struct err e = ERR_INIT;

	(void)state;
	add(&a, "x/vf", "0000:3b:0a.0");
	add(&a, "x/vf", "0000:3b:02.1");
	allocated_sort(&a);
	ASSERT_EQ(make(&(struct given){.n_netconf = 1,
				       .nets = "[{\"name\":\"vf\"},{\"name\":\"rail0\"},"
					       "{\"name\":\"vf\"},{\"name\":\"other\"}]"},
		       &p, &e),
		  0);
	assert_true(net_plan_wants_devices(&p));
	net_plan_devices(&p, &a);
	ASSERT_STR_EQ(p.v[0].device, "0000:3b:02.1");
	assert_null(p.v[1].device);
	ASSERT_STR_EQ(p.v[2].device, "0000:3b:0a.0");
	assert_null(p.v[3].device);
	ASSERT_EQ(p.n_warnings, 1);
	ASSERT_STR_EQ(p.warnings[0],
		      "network 'pod/other': the pod has no device of resource 'x/other' left: its "
		      "containers have devices of 'x/vf' (2); add x/other to a container's limits");
}

/* Checks the plan of a pod whose annotation has deviceID "0000:3b:02.1" for network `net`, if
 * the kubelet allocated device `id` of `resource` to the pod (id NULL: no device). allocated,
 * requested, warning: the expected results. */
static void request_device(const char *net, const char *resource, const char *id,
			   const char *allocated, const char *requested, const char *warning)
{
	auto_net_plan struct net_plan p = {0};
	auto_allocated struct allocated a = {0};
	auto_free char *nets = xasprintf("[{\"name\":\"%s\",\"deviceID\":\"0000:3b:02.1\"}]", net);
	struct err e = ERR_INIT;

	if (id)
		add(&a, resource, id);
	ASSERT_EQ(make(&(struct given){.n_netconf = 1, .nets = nets}, &p, &e), 0);
	assert_true(net_plan_wants_devices(&p));
	net_plan_devices(&p, &a);
	ASSERT_STR_EQ(p.v[0].device ? p.v[0].device : "", allocated);
	ASSERT_STR_EQ(p.v[0].requested ? p.v[0].requested : "", requested);
	ASSERT_EQ(p.n_warnings > 0, warning != NULL);
	if (warning && !strstr(p.warnings[0], warning))
		fail_msg("'%s' does not contain '%s'", p.warnings[0], warning);
}

/* A tenant writes the annotation, which may name only a device of the pod. */
static void test_annotation_may_only_name_a_device_of_the_pod(void **state)
{
	static const char nic[] =
		"network 'pod/rail0': ignoring deviceID '0000:3b:02.1' of the pod's "
		"annotation: the kubelet did not allocate this device to the pod";
	static const char other[] =
		"network 'pod/vf': ignoring deviceID '0000:3b:02.1' of the pod's annotation: the "
		"kubelet did not allocate this device of resource 'x/vf' to the pod";

	(void)state;
	request_device("rail0", NULL, NULL, "", "", nic);
	request_device("rail0", "x/vf", "0000:3b:02.2", "", "", nic);
	request_device("rail0", "x/vf", "0000:3b:02.1", "", "0000:3b:02.1", NULL);
	/* As in Multus, the next allocated device is used, whatever device the annotation names. */
	request_device("vf", "x/vf", "0000:3b:02.2", "0000:3b:02.2", "", other);
	request_device("vf", "x/vf", "0000:3b:02.1", "0000:3b:02.1", "", NULL);
	request_device("vf", "x/other", "0000:3b:02.1", "", "", other);
}

/* The first network gets d0, the pod's only device of the resource. No device is left for the
 * second network, but d0, which its element of the annotation names, belongs to the pod. */
static void test_device_named_by_the_annotation_is_requested_when_no_other_is_left(void **state)
{
	auto_net_plan struct net_plan p = {0};
	auto_allocated struct allocated a = {0};
	struct err e = ERR_INIT;

	(void)state;
	add(&a, "x/vf", "d0");
	ASSERT_EQ(make(&(struct given){.n_netconf = 1,
				       .nets = "[{\"name\":\"vf\"},{\"name\":\"vf\","
					       "\"deviceID\":\"d0\"},{\"name\":\"vf\","
					       "\"deviceID\":\"d1\"}]"},
		       &p, &e),
		  0);
	net_plan_devices(&p, &a);
	ASSERT_STR_EQ(p.v[0].device, "d0");
	assert_null(p.v[1].device);
	ASSERT_STR_EQ(p.v[1].requested, "d0");
	assert_null(p.v[2].device);
	assert_null(p.v[2].requested);
	ASSERT_EQ(p.n_warnings, 2);
}

static void test_plan_is_printed_as_json(void **state)
{
	auto_net_plan struct net_plan p = {0};
	auto_allocated struct allocated a = {0};
	struct err e = ERR_INIT;
	auto_buf struct buf b;
	struct json_out o;

	(void)state;
	buf_init(&b, 4096);
	add(&a, "x/vf", "d0");
	ASSERT_EQ(make(
			  &(struct given){
				  .cluster = "calico",
				  .nets = "[{\"name\":\"vf\",\"mac\":\"02:00:00:00:00:01\","
					  "\"ips\":[\"10.0.0.9\"],\"default-route\":[\"10.0.0.1\"],"
					  "\"cni-args\":{\"k\":1},\"bandwidth\":{\"ingressRate\":1}"
					  "}]"},
			  &p, &e),
		  0);
	net_plan_devices(&p, &a);
	jo_init(&o, &b, 0);
	jo_obj(&o);
	net_plan_put(&p, &o);
	jo_end_obj(&o);
	ASSERT_STR_EQ(b.p,
		      "{\"networks\":[{\"name\":\"calico\"},{\"nad\":\"pod/vf\",\"name\":\"vf\","
		      "\"ifname\":\"net1\",\"resource\":\"x/vf\",\"deviceID\":\"d0\","
		      "\"mac\":\"02:00:00:00:00:01\",\"ips\":[\"10.0.0.9\"],"
		      "\"defaultRoute\":[\"10.0.0.1\"],\"bandwidth\":{\"ingressRate\":1},"
		      "\"cniArgs\":{\"k\":1},\"config\":{\"type\":\"sriov\"}}],"
		      "\"replacesFirst\":false,\"warnings\":[]}");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_networks_of_a_pod_get_their_order_and_interface_names),
		cmocka_unit_test(test_definitions_of_administrators_are_trusted),
		cmocka_unit_test(test_default_network_annotation_replaces_the_cluster_network),
		cmocka_unit_test(test_missing_or_broken_networks_are_refused),
		cmocka_unit_test(test_total_size_of_configurations_is_limited),
		cmocka_unit_test(
			test_isolated_pod_may_request_networks_of_its_own_and_global_namespaces_only),
		cmocka_unit_test(test_pod_with_another_uid_is_refused),
		cmocka_unit_test(test_devices_are_assigned_in_the_order_of_networks),
		cmocka_unit_test(test_annotation_may_only_name_a_device_of_the_pod),
		cmocka_unit_test(
			test_device_named_by_the_annotation_is_requested_when_no_other_is_left),
		cmocka_unit_test(test_plan_is_printed_as_json),
	};

	return T_RUN(tests, NULL, NULL);
}
