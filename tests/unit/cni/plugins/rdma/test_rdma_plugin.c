/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rdma plugin: selection of the device, whether the host can move it, its owner, and the state
 * file.
 */
#include "host_lab.h"
#include "meta_lab.h"

#include <errno.h>

#include "cni/plugins/rdma/rdma_plugin.h"

#define PF    "0000:3d:00.0"
#define VF    "0000:3d:00.2"
#define BELOW "/sys/devices/pci0000:3a/0000:3a:01.0/0000:3b:00.0/0000:3c:04.0/" VF
#define ID    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define LEGACY                                                                                     \
	"{\"version\":\"1.0\",\"deviceID\":\"" VF "\",\"sandboxRdmaDevName\":\"mlx5_2\","          \
	"\"containerRdmaDevName\":\"mlx5_2\""

#define HAS(part)                                                                                  \
	do {                                                                                       \
		if (!strstr(e.text, part))                                                         \
			fail_msg("'%s' is not in '%s'", part, e.text);                             \
	} while (0)

/* --- the state file --- */

static const struct rdma_state original = {.device = VF, .host_name = "mlx5_2", .in_pod = "mlx5_2"};

static void expect_bytes(const struct rdma_state *s, const char *want)
{
	auto_buf struct buf b;
	struct rdma_state back;

	buf_init(&b, 4096);
	rdma_state_print(s, &b);
	ASSERT_STR_EQ(buf_span(&b).p, want);
	OK(rdma_state_parse(buf_span(&b), &back, &e));
	assert_memory_equal(&back, s, sizeof(back));
}

static void test_state_file_has_the_bytes_of_the_original(void **state)
{
	struct rdma_state own = original;

	(void)state;
	expect_bytes(&original, LEGACY "}");
	strcpy(own.network, "rail0");
	strcpy(own.container, "c1");
	strcpy(own.ifname, "net1");
	strcpy(own.netns, "/run/netns/x");
	expect_bytes(&own,
		     LEGACY ",\"network\":\"rail0\",\"containerID\":\"c1\",\"ifname\":\"net1\","
			    "\"netns\":\"/run/netns/x\"}");
}

static void test_error_for_a_busy_device_names_the_pod_that_has_it(void **state)
{
	struct rdma_state s = original;
	struct host_lab h;

	(void)state;
	host_empty(&h);
	err_set(&e, -EBUSY, "it is away");
	ASSERT_EQ(rdma_state_held(&h.root, VF, "x", &e), -EBUSY);
	ASSERT_STR_EQ(e.text, "it is away");
	/* the original's state file does not name the owner */
	OK(rdma_state_save(&h.root, RDMA_STATE_DIR "/a-c1-net1", &s, &e));
	err_set(&e, -EBUSY, "it is away");
	ASSERT_EQ(rdma_state_held(&h.root, VF, "x", &e), -EBUSY);
	ASSERT_STR_EQ(e.text, "it is away");
	strcpy(s.network, "a");
	strcpy(s.container, "c1");
	strcpy(s.ifname, "net1");
	strcpy(s.netns, "/run/netns/x");
	OK(rdma_state_save(&h.root, RDMA_STATE_DIR "/a-c1-net1", &s, &e));
	/* the caller's own state file is ignored */
	err_set(&e, -EBUSY, "it is away");
	ASSERT_EQ(rdma_state_held(&h.root, VF, RDMA_STATE_DIR "/a-c1-net1", &e), -EBUSY);
	ASSERT_STR_EQ(e.text, "it is away");
	ASSERT_EQ(rdma_state_held(&h.root, VF, "x", &e), -EBUSY);
	ASSERT_STR_EQ(e.text, "it is away (given to container 'c1', interface 'net1', "
			      "network namespace '/run/netns/x')");
	host_remove(&h);
}

static void test_invalid_state_files_are_refused(void **state)
{
	static const char *const bad[] = {
		"",
		"null",
		"[]",
		"{}",
		"{\"sandboxRdmaDevName\":\"a/b\"}",
		"{\"sandboxRdmaDevName\":7}",
		LEGACY,
	};
	struct rdma_state s;

	(void)state;
	OK(rdma_state_parse(span_of("{\"sandboxrdmadevname\":\"m\",\"later\":[1]}"), &s, &e));
	ASSERT_STR_EQ(s.host_name, "m");
	ASSERT_STR_EQ(s.in_pod, "m");
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		ASSERT_EQ_MSG(rdma_state_parse(span_of(bad[i]), &s, &e), -EINVAL, "bad[%zu]", i);
}

static bool stale(const char *network, const char *name, const char *of, const char *container)
{
	struct cni_attachment valid[] = {{"c1", "net1"}, {ID, "net1"}};
	struct cni_call c = {.name = network, .valid = valid, .n_valid = 2};
	struct rdma_state s = original;

	strcpy(s.network, of);
	strcpy(s.container, container);
	strcpy(s.ifname, "net1");
	return rdma_state_is_stale(&c, name, &s);
}

/* The name <network>-<container>-<interface> is ambiguous: "a-b-c2-net1" fits network "a" with
 * container "b-c2", and network "a-b" with container "c2". */
static void test_stale_state_file_is_recognized_by_its_owner(void **state)
{
	(void)state;
	assert_true(stale("a", "a-c2-net1", "a", "c2"));
	assert_false(stale("a", "a-c1-net1", "a", "c1"));
	assert_false(stale("a", "a-b-c2-net1", "a-b", "c2"));
	assert_false(stale("a", "a-" ID "-net1", "", ""));
	assert_true(stale("a", "a-" ID "-net2", "", ""));
	assert_false(stale("a", "a-b-" ID "-net2", "", ""));
	assert_true(stale("a-b", "a-b-" ID "-net2", "", ""));
	assert_false(stale("a", "a-c2-net1", "", ""));
	assert_false(stale("a", "ab", "", ""));
	assert_false(stale("a", "a-" ID "-", "", ""));
}

static void test_state_is_saved_and_loaded(void **state)
{
	auto_free char *path = rdma_state_path("rail0", "c1", "net1");
	struct rdma_state s;
	struct host_lab h;

	(void)state;
	host_unpack(&h, "mlx5_roce.tree");
	ASSERT_STR_EQ(path, "/var/lib/cni/rdma/rail0-c1-net1");
	ASSERT_EQ(rdma_state_load(&h.root, path, &s, &e), -ENOENT);
	OK(rdma_state_save(&h.root, path, &original, &e));
	OK(rdma_state_load(&h.root, path, &s, &e));
	assert_memory_equal(&s, &original, sizeof(s));
	host_write(&h, path, "{");
	ASSERT_EQ(rdma_state_load(&h.root, path, &s, &e), -EINVAL);
	HAS("read '/var/lib/cni/rdma/rail0-c1-net1': ");
	host_remove(&h);
}

/* --- selection of the device --- */

static void test_rdma_device_of_a_function_is_found(void **state)
{
	char name[RDMA_NAME_MAX];
	struct host_lab h;

	(void)state;
	host_unpack(&h, "mlx5_roce.tree");
	OK(rdma_move_find(&h.root, VF, name, &e));
	ASSERT_STR_EQ(name, "mlx5_2");
	FAILS(rdma_move_find(&h.root, "0000:ff:00.0", name, &e), -ENODEV,
	      "failed to get RDMA device for device ID 0000:ff:00.0: "
	      "/sys/bus/pci/devices/0000:ff:00.0 does not exist (expected a PCI address or an "
	      "auxiliary device of this node)");
	host_write(&h, BELOW "/infiniband/mlx5_x/ports/1/link_layer", "Ethernet");
	FAILS(rdma_move_find(&h.root, VF, name, &e), -EEXIST,
	      "discovered more than one RDMA device [mlx5_2 mlx5_x] for device ID " VF
	      ". Unsupported state");
	ASSERT_EQ(e.kind, ERR_UNAVAILABLE);
	host_remove(&h);
}

/* The RDMA device is in a pod: the function has no directory "infiniband" in /sys, but the file
 * "ibdev" of the verbs device has the name of the RDMA device. */
static void test_error_names_the_rdma_device_in_another_namespace(void **state)
{
	char name[RDMA_NAME_MAX], command[256];
	struct host_lab h;

	(void)state;
	host_unpack(&h, "mlx5_roce.tree");
	snprintf(command, sizeof(command), "rm -r %s" BELOW "/infiniband", h.dir);
	ASSERT_EQ(system(command), 0);
	ASSERT_EQ(rdma_move_find(&h.root, VF, name, &e), -EBUSY);
	ASSERT_EQ(e.kind, ERR_AGAIN);
	HAS("'mlx5_2' is in another network namespace");
	host_write(&h, "/sys/class/infiniband_verbs/uverbs2/ibdev", "renamed");
	assert_true(rdma_move_name(&h.root, VF, name));
	ASSERT_STR_EQ(name, "renamed");
	snprintf(command, sizeof(command), "rm -r %s" BELOW "/infiniband_verbs", h.dir);
	ASSERT_EQ(system(command), 0);
	ASSERT_EQ(rdma_move_find(&h.root, VF, name, &e), -ENODEV);
	HAS("no RDMA devices found (is the device's driver bound");
	host_remove(&h);
}

static void expect_device(const char *conf, const char *want)
{
	char device[PCI_NAME_MAX];
	struct chained_lab l;

	chained_open(&l, false, conf);
	OK(rdma_conf_device(&l.m, device, &e));
	ASSERT_STR_EQ(device, want);
	chained_close(&l);
}

static void refuse_device(const char *conf, const char *part)
{
	char device[PCI_NAME_MAX];
	struct chained_lab l;

	chained_open(&l, false, conf);
	ASSERT_EQ(rdma_conf_device(&l.m, device, &e), -EINVAL);
	ASSERT_EQ(e.kind, ERR_CONF);
	HAS(part);
	chained_close(&l);
}

static void test_device_is_read_from_the_configuration(void **state)
{
	(void)state;
	expect_device("{'deviceID': '0000:3D:00.2'}", VF);
	expect_device("{'DeviceID': 'mlx5_core.sf.4'}", "mlx5_core.sf.4");
	expect_device("{'runtimeConfig': {'deviceID': '" VF "'}}", VF);
	expect_device("{'deviceID': null}", "");
	expect_device("{'deviceID': ''}", "");
	refuse_device("{'deviceID': '../../x'}",
		      "conf.deviceID is '../../x', expected a PCI address");
	refuse_device("{'deviceID': '..'}", "expected a PCI address");
	refuse_device("{'deviceID': 7}", "conf.deviceID");
}

static void test_device_is_read_from_prev_result(void **state)
{
	char device[PCI_NAME_MAX];
	struct cni_result prev;
	struct chained_lab l;

	(void)state;
	chained_open(&l, false, "{}");
	chained_prev(&prev, NULL, 0);
	prev.ifaces[0].pci_id = xstrdup(VF);
	OK(rdma_device(&l.m, &prev, device, &e));
	ASSERT_STR_EQ(device, VF);
	free(prev.ifaces[0].pci_id);
	free(prev.ifaces[0].mac);
	prev.ifaces[0].pci_id = prev.ifaces[0].mac = NULL;
	ASSERT_EQ(rdma_device(&l.m, &prev, device, &e), -EINVAL);
	HAS("\"DeviceID\" network configuration attribute is required for rdma CNI");
	cni_result_done(&prev);
	ASSERT_EQ(rdma_device(&l.m, &prev, device, &e), -EINVAL);
	chained_close(&l);
}

/* The device's interface is the one with the requested name in the pod, or prevResult's
 * interface if it has only one. Of two interfaces with other names, neither is taken. */
static void test_interface_of_the_device_is_found_in_prev_result(void **state)
{
	struct cni_result prev;

	(void)state;
	chained_prev(&prev, NULL, 0);
	assert_ptr_equal(rdma_device_iface(&prev, "other"), &prev.ifaces[0]);
	cni_result_iface(&prev, "veth1", "0a:00:00:00:00:09", "");
	assert_ptr_equal(rdma_device_iface(&prev, "net1"), &prev.ifaces[0]);
	assert_null(rdma_device_iface(&prev, "other"));
	cni_result_done(&prev);
}

/* --- the RDMA namespace mode --- */

static void test_wrong_rdma_mode_is_refused(void **state)
{
	(void)state;
	OK(rdma_move_mode_fits(RDMA_NETNS_EXCLUSIVE, RDMA_NETNS_EXCLUSIVE, "x", &e));
	FAILS(rdma_move_mode_fits(RDMA_NETNS_SHARED, RDMA_NETNS_EXCLUSIVE, "conf.rdmaIsolation",
				  &e),
	      -EINVAL,
	      "RDMA subsystem namespace awareness mode is set to shared, expecting it to be set to "
	      "exclusive, invalid system configurations (conf.rdmaIsolation needs it; set it at boot "
	      "'options ib_core netns_mode=0' in /etc/modprobe.d, or `rdma system set netns "
	      "exclusive` while the host has no other network namespace)");
	ASSERT_EQ(rdma_move_mode_fits(RDMA_NETNS_EXCLUSIVE, RDMA_NETNS_SHARED, "x", &e), -EINVAL);
	HAS("netns_mode=1");
	HAS("rdma system set netns shared");
}

/* --- devices in use --- */

enum { NS = 33, PAUSES = 70 /* ms: enough for pauses of 20 and 40 ms, not for a third of 80 ms */ };

static void test_busy_device_is_retried_and_its_user_named(void **state)
{
	auto_nl struct nl_wire *w = kern_replay("rdma_held.nl");
	struct host_lab h;

	(void)state;
	host_unpack(&h, "mlx5_roce.tree");
	host_write(&h, "/proc/31337/comm", "ib_write_bw");
	FAILS(rdma_move(w, &h.root, "mlx5_5", NS, PAUSES, &e), -EBUSY,
	      "move RDMA device 'mlx5_5' to a network namespace: Device or resource busy (EBUSY) for 70 ms: it is used by "
	      "ib_write_bw (pid 31337: 2 QPs, 1 CQ), module rpcrdma (1 CQ), which must close it first");
	ASSERT_EQ(e.kind, ERR_AGAIN);
	OK(rdma_move(w, &h.root, "mlx5_5", NS, PAUSES, &e));
	OK(nl_replay_finished(w, &e));
	host_remove(&h);
}

static void test_users_of_a_device_are_described(void **state)
{
	static const struct rdma_user list[] = {
		{.pid = 7, .qps = 1, .mrs = 2},
		{.contexts = 1},
	};
	auto_buf struct buf b;

	(void)state;
	buf_init(&b, 1024);
	rdma_users_describe(list, 2, &b);
	ASSERT_STR_EQ(buf_span(&b).p, "a process (pid 7: 1 QP, 2 MRs), a process of another "
				      "PID namespace (1 context)");
}

/* --- refused ADDs --- */

static void test_rdma_plugin_without_a_chain_is_refused(void **state)
{
	struct cni_result prev = {0};
	struct chained_lab l;

	(void)state;
	chained_open(&l, false, "{'deviceID': '" VF "'}");
	l.m.has_prev = false;
	ASSERT_EQ(chained_rdma.add(&l.m, &prev, &l.undo, &e), -EINVAL);
	HAS("RDMA-CNI is expected to be called as part of a plugin chain");
	ASSERT_EQ(e.kind, ERR_CONF);
	chained_close(&l);
}

static void test_invalid_debug_argument_is_refused(void **state)
{
	struct cni_result prev = {0};
	struct chained_lab l;

	(void)state;
	chained_open(&l, false, "{'args': {'cni': {'debug': 'yes'}}}");
	ASSERT_EQ(chained_rdma.add(&l.m, &prev, &l.undo, &e), -EINVAL);
	HAS("conf.args.cni.debug");
	chained_close(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_state_file_has_the_bytes_of_the_original),
		cmocka_unit_test(test_error_for_a_busy_device_names_the_pod_that_has_it),
		cmocka_unit_test(test_invalid_state_files_are_refused),
		cmocka_unit_test(test_stale_state_file_is_recognized_by_its_owner),
		cmocka_unit_test(test_state_is_saved_and_loaded),
		cmocka_unit_test(test_rdma_device_of_a_function_is_found),
		cmocka_unit_test(test_error_names_the_rdma_device_in_another_namespace),
		cmocka_unit_test(test_device_is_read_from_the_configuration),
		cmocka_unit_test(test_device_is_read_from_prev_result),
		cmocka_unit_test(test_interface_of_the_device_is_found_in_prev_result),
		cmocka_unit_test(test_wrong_rdma_mode_is_refused),
		cmocka_unit_test(test_busy_device_is_retried_and_its_user_named),
		cmocka_unit_test(test_users_of_a_device_are_described),
		cmocka_unit_test(test_rdma_plugin_without_a_chain_is_refused),
		cmocka_unit_test(test_invalid_debug_argument_is_refused),
	};

	return T_RUN(tests, NULL, NULL);
}
