/* SPDX-License-Identifier: Apache-2.0 */
/* What the network definition of a tenant may contain. */
#include "testlib.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "spec/definition.h"

#define MAX (1 << 20)

static struct err e;

/* Accepts every plugin except "evil". */
static int installed(void *arg, const char *type, struct err *reason)
{
	(void)arg;
	return strcmp(type, "evil") == 0 ? err_kind(reason, ERR_CONF, -EPERM, "not root's") : 0;
}

static int check(const char *text, bool logs_pass)
{
	const struct definition_rules rules = {installed, NULL, logs_pass};
	auto_json struct json_doc *d = NULL;

	err_clear(&e);
	if (json_parse(&d, span_of(text), MAX, &e) < 0)
		fail_msg("%s: %s", text, e.text);
	return definition_check(json_root(d), &rules, &e);
}

static void passes(const char *text)
{
	if (check(text, false) < 0)
		fail_msg("%s: %s", text, e.text);
}

static void refused(const char *text, const char *word)
{
	if (check(text, true) == 0)
		fail_msg("%s is not refused", text);
	if (!strstr(e.text, word))
		fail_msg("'%s' does not contain '%s'", e.text, word);
	ASSERT_EQ(e.kind, ERR_CONF);
	ASSERT_EQ(e.code, -EPERM);
}

#define LIST(plugins) "{\"name\":\"n\",\"plugins\":[" plugins "]}"
#define IPAM(type)    "\"ipam\":{\"type\":\"" type "\""

static void test_definitions_that_tenants_use_today_are_accepted(void **state)
{
	(void)state;
	passes("{\"cniVersion\":\"0.3.1\",\"type\":\"macvlan\",\"master\":\"ens1\",\"mode\":"
	       "\"bridge\"," IPAM("host-local") ",\"subnet\":\"10.0.0.0/24\",\"routes\":[{\"dst\":"
						"\"0.0.0.0/0\"}]}}");
	passes(LIST("{\"type\":\"sriov\",\"deviceID\":\"0000:3b:02.1\",\"vlan\":7," IPAM(
		"spiderpool") ",\"default_ipv4_ippool\":[\"a\"]}},{\"type\":\"rdma\"},{\"type\":"
			      "\"tuning\",\"sysctl\":{\"net.ipv4.conf.IFNAME.arp_notify\":\"1\"}},"
			      "{\"type\":\"sbr\"},{\"type\":\"coordinator\",\"mode\":\"auto\","
			      "\"hijackCIDR\":[\"10.0.0.0/8\"]}"));
	passes("{\"type\":\"host-device\",\"kernelpath\":\"/sys/devices/pci0000:00/x\"}");
	passes("{\"type\":\"bridge\"," IPAM("host-local") ",\"dataDir\":\"/var/lib/cni/networks\","
							  "\"resolvConf\":\"/etc/resolv.conf\"}}");
	passes("{\"type\":\"ipvlan\"," IPAM("spiderpool") ",\"ipam_unix_socket_path\":"
							  "\"/var/run/spidernet/spiderpool.sock\","
							  "\"log_file_path\":\"\"}}");
	passes("{\"type\":\"macvlan\"," IPAM("dhcp") "}}");
	passes("{}");
}

static void test_plugins_that_change_the_node_are_refused(void **state)
{
	(void)state;
	refused("{\"type\":\"multus\",\"binDir\":\"/var/lib/kubelet/pods/u/volumes/x\"}",
		"type is 'multus', which acts on the node itself: only a definition of a trusted "
		"namespace may have it (annotation unirail.io/trusted-definitions=true on the "
		"Namespace)");
	refused("{\"type\":\"multus-shim\"}", "type is 'multus-shim'");
	refused("{\"TYPE\":\"multus\",\"type\":\"macvlan\"}", "TYPE is 'multus'");
	refused("{\"type\":\"multus\",\"type\":\"macvlan\"}", "type is 'multus'");
	refused(LIST("{\"type\":\"macvlan\"},{\"type\":\"ifacer\"}"),
		"plugins[1].type is 'ifacer'");
	refused(LIST("{\"type\":\"unirail-cni\"}"), "plugins[0].type is 'unirail-cni'");
	refused("{\"type\":\"flannel\",\"delegate\":{\"type\":\"multus\"}}",
		"delegate.type is 'multus'");
	refused("{\"type\":\"x\",\"delegates\":[{\"plugins\":[{\"type\":\"multus\"}]}]}",
		"delegates[0].plugins[0].type is 'multus'");
	refused("{\"type\":\"x\",\"deep\":{\"er\":[{\"type\":\"multus\"}]}}",
		"deep.er[0].type is 'multus'");
	refused("{\"type\":\"x\",\"deep\":{\"type\":\"/etc/shadow\"}}",
		"deep.type is '/etc/shadow', a path of the node");
	refused("{\"type\":\"host-device\",\"kernelpath\":{\"binDir\":\"/x\"}}",
		"kernelpath.binDir is given");
	refused("{\"type\":\"../../tmp/x\"}", "expected a plugin's name");
	refused("{\"type\":\"/tmp/x\"}", "expected a plugin's name");
	refused("{\"type\":\".x\"}", "expected a plugin's name");
	refused("{\"type\":\"macvlan\"," IPAM("/tmp/x") "}}", "ipam.type is '/tmp/x'");
	refused(LIST("{\"type\":\"evil\"}"), "plugins[0].type is 'evil': not root's");
	refused("{\"type\":\"macvlan\"," IPAM("evil") "}}", "ipam.type is 'evil': not root's");
}

static void test_interface_plugins_are_refused_as_ipam(void **state)
{
	static const char *const types[] = {"macvlan", "bridge", "ptp", "sriov", "tuning"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(types); i++) {
		auto_free char *text = xasprintf("{\"type\":\"vlan\"," IPAM("%s") "}}", types[i]);

		refused(text, "which is not an IPAM plugin, expected one");
	}
	refused("{\"type\":\"odd\"," IPAM("odd") "}}", "a plugin must not call itself");
	refused("{\"type\":\"odd\",\"delegate\":{\"type\":\"odd\"}}",
		"delegate.type is 'odd', the type of the calling plugin");
}

static void test_keys_for_files_of_the_node_are_refused(void **state)
{
	static const char *const keys[] = {
		"binDir",
		"cniDir",
		"confDir",
		"multusCniDir",
		"kubeconfig",
		"dataDir",
		"state_dir",
		"pool_dir",
		"server_state_dir",
		"hostlocal_dir",
		"node_name",
		"resolvConf",
		"configuration_path",
		"BINDIR",
		"datadir",
		"Ipam_Unix_Socket_Path",
		"chrootDir",
		"socketDir",
		"CNIDeviceInfoFile",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		auto_free char *in_plugin = xasprintf("{\"type\":\"x\",\"%s\":\"rel\"}", keys[i]);
		auto_free char *in_ipam = xasprintf(
			"{\"type\":\"x\"," IPAM("host-local") ",\"%s\":\"/tmp\"}}", keys[i]);

		refused(in_plugin,
			"of the node: only a definition of a trusted namespace may have it");
		refused(in_ipam,
			"of the node: only a definition of a trusted namespace may have it");
	}
	refused("{\"type\":\"whereabouts\",\"ipam\":{\"kubernetes\":{\"kubeconfig\":\"/x\"}}}",
		"ipam.kubernetes.kubeconfig is given");
	refused("{\"type\":\"x\",\"whatever\":\"/etc/passwd\"}",
		"whatever is '/etc/passwd', a path of the node");
	refused("{\"type\":\"x\",\"a\":[{\"b\":[\"/x\"]}]}", "a[0].b[0] is '/x'");
	refused("{\"type\":\"x\",\"db\":\"unix:/run/ovs.sock\"}", "db is 'unix:/run/ovs.sock'");
	refused("{\"type\":\"x\",\"reſolvConf\":\"rel\"}", "expected ASCII");
	refused("{\"type\":\"x\",\"runtimeConfig\":{\"CNIDeviceInfoFile\":\"/etc/x\"}}",
		"runtimeConfig.CNIDeviceInfoFile");
}

static void logless(const char *text, const char *want)
{
	auto_json struct json_doc *d = NULL, *without = NULL;
	auto_buf struct buf b = {0};
	struct json_out o;

	ASSERT_EQ(json_parse(&d, span_of(text), MAX, NULL), 0);
	ASSERT_EQ(definition_drop_logs(json_root(d), &without, NULL), 0);
	if (!want) {
		assert_null(without);
		return;
	}
	buf_init(&b, MAX);
	jo_init(&o, &b, 0);
	jo_val(&o, json_root(without), false);
	ASSERT_STR_EQ(b.p, want);
}

/* For existing definitions, logs_pass accepts the names of log files, and definition_drop_logs()
 * removes them. */
static void test_log_files_are_refused_in_new_definitions(void **state)
{
	static const char old[] = "{\"type\":\"macvlan\",\"logFile\":\"/tmp/a\"," IPAM(
		"whereabouts") ",\"range\":\"10.0.0.0/24\",\"log_file\":\"/tmp/whereabouts.log\"}}";

	(void)state;
	ASSERT_EQ(check(old, false), -EPERM);
	assert_non_null(strstr(e.text, "logFile is given, which names a file of the node"));
	ASSERT_EQ(check(old, true), 0);
	logless(old, "{\"type\":\"macvlan\",\"ipam\":{\"type\":\"whereabouts\",\"range\":"
		     "\"10.0.0.0/24\"}}");
	logless(LIST("{\"type\":\"sriov\",\"LOGFILE\":\"x\",\"vlan\":7}"),
		LIST("{\"type\":\"sriov\",\"vlan\":7}"));
	logless("{\"type\":\"macvlan\",\"mtu\":1.5}", NULL);
}

static void test_namespaces_are_trusted_by_annotation_or_name(void **state)
{
	(void)state;
	assert_true(definition_trusted("team", "true", "unirail"));
	assert_true(definition_trusted("kube-system", NULL, NULL));
	assert_true(definition_trusted("unirail", NULL, "unirail"));
	assert_false(definition_trusted("kube-system", "false", "unirail"));
	assert_false(definition_trusted("team", NULL, "unirail"));
	assert_false(definition_trusted("default", NULL, "unirail"));
	assert_false(definition_trusted("default", NULL, "default"));
	assert_false(definition_trusted("team", "yes", "unirail"));
	assert_false(definition_trusted("team", "", "unirail"));
	assert_false(definition_trusted("", NULL, ""));
}

/* The parser accepts 32 nested objects; these are 30. The path of their keys is longer than the
 * buffer in which definition_check() stores it for the error. */
static void test_host_path_in_30_nested_objects_is_refused(void **state)
{
	struct buf b;

	(void)state;
	buf_init(&b, MAX);
	for (int i = 0; i < 30; i++)
		buf_printf(&b, "{\"%0*d\":", 200, i);
	buf_str(&b, "\"/etc\"");
	for (int i = 0; i < 30; i++)
		buf_char(&b, '}');
	refused(b.p, "a path of the node");
	buf_done(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_definitions_that_tenants_use_today_are_accepted),
		cmocka_unit_test(test_plugins_that_change_the_node_are_refused),
		cmocka_unit_test(test_interface_plugins_are_refused_as_ipam),
		cmocka_unit_test(test_keys_for_files_of_the_node_are_refused),
		cmocka_unit_test(test_log_files_are_refused_in_new_definitions),
		cmocka_unit_test(test_namespaces_are_trusted_by_annotation_or_name),
		cmocka_unit_test(test_host_path_in_30_nested_objects_is_refused),
	};

	return T_RUN(tests, NULL, NULL);
}
