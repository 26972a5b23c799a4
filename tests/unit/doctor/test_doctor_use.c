/* SPDX-License-Identifier: Apache-2.0 */
/* Checks that compare rails with each other, with their use, with host.conf and with the Node object,
 * and checks of ports. Each check runs on a host that has the fault, and on the same host without
 * the fault. */
#include "doctor_lab.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "doctor/snapshot.h"
#include "doctor/tree.h"

static void set_node(struct doctor_lab *l, const char *text)
{
	json_free(l->f.node);
	l->f.node = NULL;
	ASSERT_EQ(json_parse(&l->f.node, span_of(text), 1 << 16, NULL), 0);
}

#define CONF "/etc/cni/net.d/10-net.conflist"

static void test_plugin_that_needs_another_link_type_is_found(void **state)
{
	struct doctor_lab l;

	(void)state;
	doctor_lab_begin_rails(&l, NULL);
	host_write(&l.host, CONF, "{\"plugins\":[{\"type\":\"macvlan\",\"master\":\"ens1\"}]}");
	ASSERT_EQ(doctor_lab_run(&l, doctor_link_type), 0);
	l.links[0].arptype = 32;
	ASSERT_EQ(doctor_lab_run(&l, doctor_link_type), 1);
	doctor_lab_first_is(&l, CONF, "'macvlan' needs Ethernet, but 'ens1' runs InfiniBand",
			    "'unirail host link-type --nics ens1 --all roce'");
	host_write(&l.host, CONF, "{\"plugins\":[{\"type\":\"ipoib\",\"master\":\"ens1\"}]}");
	ASSERT_EQ(doctor_lab_run(&l, doctor_link_type), 0);
	l.links[0].arptype = 1;
	ASSERT_EQ(doctor_lab_run(&l, doctor_link_type), 1);
	doctor_lab_first_is(&l, CONF, "'ipoib' needs InfiniBand", "--all infiniband");
	doctor_lab_end(&l);
}

/* Three NICs of one model. */
static void begin_three_nics(struct doctor_lab *l)
{
	doctor_lab_begin_rails(l, "hw_eight_ofed.tree");
	l->f.n_rdma = 3;
	l->rdma[2] = l->rdma[1];
	strcpy(l->rdma[2].name, "mlx5_2");
}

static void test_nic_whose_link_type_differs_from_others_of_its_model_is_found(void **state)
{
	struct doctor_lab l;

	(void)state;
	begin_three_nics(&l);
	ASSERT_EQ(doctor_lab_run(&l, doctor_link_type), 0);
	strcpy(l.rdma[1].ports[0].link_layer, "InfiniBand");
	ASSERT_EQ(doctor_lab_run(&l, doctor_link_type), 1);
	doctor_lab_first_is(&l, "mlx5_1",
			    "runs InfiniBand, 2 of the 3 ports of NICs of its model run Ethernet",
			    "'unirail host link-type q'");
	doctor_lab_end(&l);
}

static void test_nic_whose_firmware_differs_from_others_of_its_model_is_found(void **state)
{
	struct doctor_lab l;

	(void)state;
	begin_three_nics(&l);
	for (int i = 0; i < 3; i++)
		strcpy(l.rdma[i].fw, "28.39.3560");
	ASSERT_EQ(doctor_lab_run(&l, doctor_rdma_firmware), 0);
	strcpy(l.rdma[1].fw, "28.39.1002");
	ASSERT_EQ(doctor_lab_run(&l, doctor_rdma_firmware), 1);
	doctor_lab_first_is(&l, "mlx5_1", "28.39.1002, 2 of the 3 NICs of its model run 28.39.3560",
			    "install one version");
	strcpy(l.rdma[1].fw, "28.39.3560");
	ASSERT_EQ(doctor_lab_run(&l, doctor_rdma_firmware), 0);
	doctor_lab_end(&l);
}

static void test_infiniband_port_without_subnet_manager_is_found(void **state)
{
	struct doctor_lab l;

	(void)state;
	doctor_lab_begin_rails(&l, NULL);
	strcpy(l.rdma[0].ports[0].link_layer, "InfiniBand");
	l.rdma[0].ports[0].lid = 4;
	ASSERT_EQ(doctor_lab_run(&l, doctor_rdma_ports), 1);
	doctor_lab_first_is(&l, "mlx5_0 port 1", "the subnet manager's LID is 0", "opensm");
	l.rdma[0].ports[0].sm_lid = 1;
	ASSERT_EQ(doctor_lab_run(&l, doctor_rdma_ports), 0);
	doctor_lab_end(&l);
}

static void test_mtu_of_vf_or_pod_that_differs_from_the_pf_is_found(void **state)
{
	struct link pod = {.name = "net1", .mtu = 1500, .device = "0000:18:00.2"};
	struct doctor d;
	struct doctor_lab l;

	(void)state;
	doctor_lab_begin_rails(&l, "hw_infiniband.tree");
	strcpy(l.links[0].name, "ibs1");
	strcpy(l.links[1].name, "ibs1v0");
	ASSERT_EQ(doctor_lab_run(&l, doctor_mtu_vfs), 0);
	l.links[0].mtu = 2044;
	ASSERT_EQ(doctor_lab_run(&l, doctor_mtu_vfs), 1);
	doctor_lab_first_is(&l, "ibs1v0",
			    "MTU 9000 of this VF is larger than the 2044 of its PF 'ibs1'",
			    "'unirail host addr ibs1 --mtu 9000'");
	l.links[1].mtu = 2044;
	ASSERT_EQ(doctor_lab_run(&l, doctor_mtu_vfs), 0);
	d = doctor_lab_doctor(&l);
	doctor_mtu_pod(&d, "/run/netns/p", &pod, 1);
	doctor_lab_first_is(&l, "'net1' of /run/netns/p", "MTU 1500 of this VF is not the 2044",
			    "'unirail host vf ibs1 --mtu 2044'");
	ASSERT_EQ(l.found.v[0].level, FINDING_REMARK);
	pod.mtu = 2044;
	d = doctor_lab_doctor(&l);
	doctor_mtu_pod(&d, "/run/netns/p", &pod, 1);
	ASSERT_EQ(l.found.n, 0);
	doctor_lab_end(&l);
}

/* In a snapshot, the file /unirail/pods/NAME lists the VFs in network namespace NAME. A
 * namespace without such a file causes no finding, nor does a damaged line. */
static void test_mtu_of_pods_is_checked_in_a_snapshot(void **state)
{
	struct doctor_lab l;

	(void)state;
	doctor_lab_begin_rails(&l, "hw_infiniband.tree");
	strcpy(l.links[0].name, "ibs1");
	l.links[0].mtu = 2044;
	host_write(&l.host, "/run/netns/other", "");
	host_write(&l.host, "/run/netns/p", "");
	ASSERT_EQ(doctor_lab_run(&l, doctor_mtu_pods), 0);
	host_write(
		&l.host, "/unirail/pods/p",
		"net1 4092 0000:18:00.2\nnet2 2044 0000:18:00.3\nnet3\nnet4 x 0000:18:00.3\n\n 1 2\n");
	ASSERT_EQ(doctor_lab_run(&l, doctor_mtu_pods), 1);
	doctor_lab_first_is(&l, "'net1' of /run/netns/p",
			    "MTU 4092 of this VF is not the 2044 of its PF",
			    "'unirail host vf ibs1 --mtu 2044'");
	ASSERT_EQ(l.found.v[0].level, FINDING_PROBLEM);
	host_write(&l.host, "/unirail/pods/p", "net1 2044 0000:18:00.2\n");
	ASSERT_EQ(doctor_lab_run(&l, doctor_mtu_pods), 0);
	doctor_lab_end(&l);
}

static void test_configured_mtu_above_the_masters_is_found(void **state)
{
	struct doctor_lab l;

	(void)state;
	doctor_lab_begin_rails(&l, NULL);
	host_write(&l.host, CONF,
		   "{\"plugins\":[{\"type\":\"macvlan\",\"master\":\"ens1\",\"mtu\":9000}]}");
	ASSERT_EQ(doctor_lab_run(&l, doctor_mtu_conf), 0);
	l.links[0].mtu = 1500;
	ASSERT_EQ(doctor_lab_run(&l, doctor_mtu_conf), 1);
	doctor_lab_first_is(&l, CONF, "sets MTU 9000, but its master 'ens1' has 1500",
			    "'unirail host addr ens1 --mtu 9000'");
	l.links[0].mtu = 9000;
	ASSERT_EQ(doctor_lab_run(&l, doctor_mtu_conf), 0);
	doctor_lab_end(&l);
}

static void test_port_without_a_roce_v2_gid_is_found(void **state)
{
	static const char dir[] = "/sys/class/infiniband/mlx5_0/ports/1";
	char path[128];
	struct doctor_lab l;

	(void)state;
	doctor_lab_begin_rails(&l, NULL);
	snprintf(path, sizeof(path), "%s/state", dir);
	host_write(&l.host, path, "4: ACTIVE");
	snprintf(path, sizeof(path), "%s/gids/0", dir);
	host_write(&l.host, path, "fe80:0000:0000:0000:0000:0000:0000:0001");
	ASSERT_EQ(doctor_lab_run(&l, doctor_rdma_gids),
		  0); /* the type of the GID is not recorded */
	snprintf(path, sizeof(path), "%s/gid_attrs/types/0", dir);
	host_write(&l.host, path, "IB/RoCE v1");
	ASSERT_EQ(doctor_lab_run(&l, doctor_rdma_gids), 1);
	doctor_lab_first_is(&l, "mlx5_0 port 1", "none of the port's 1 GIDs is of RoCE v2",
			    "'unirail host addr'");
	host_write(&l.host, path, "RoCE v2");
	ASSERT_EQ(doctor_lab_run(&l, doctor_rdma_gids), 0);
	doctor_lab_end(&l);
}

static void test_networkd_that_removes_rules_is_found(void **state)
{
	struct doctor_lab l;

	(void)state;
	doctor_lab_begin_rails(&l, NULL);
	ASSERT_EQ(doctor_lab_run(&l, doctor_rail_networkd), 0);
	host_write(&l.host, "/run/systemd/netif/links/3", "ADMIN_STATE=configured\n");
	ASSERT_EQ(doctor_lab_run(&l, doctor_rail_networkd), 1);
	doctor_lab_first_is(&l, "ens2", "removes rules and routes",
			    "ManageForeignRoutingPolicyRules=no");
	host_write(&l.host, "/etc/systemd/networkd.conf.d/unirail.conf",
		   "[Network]\nManageForeignRoutingPolicyRules=no\n");
	ASSERT_EQ(doctor_lab_run(&l, doctor_rail_networkd), 0);
	doctor_lab_end(&l);
}

static void test_rail_that_another_cni_uses_is_found(void **state)
{
	struct doctor_lab l;

	(void)state;
	doctor_lab_begin_rails(&l, NULL);
	l.f.n_links = 4;
	strcpy(l.links[3].name, "flannel.1");
	strcpy(l.links[3].kind, "vxlan");
	l.links[3].parent = l.links[2].index;
	ASSERT_EQ(doctor_lab_run(&l, doctor_rail_foreign), 0);
	l.links[3].parent = l.links[1].index;
	ASSERT_EQ(doctor_lab_run(&l, doctor_rail_foreign), 1);
	doctor_lab_first_is(&l, "ens2", "tunnel 'flannel.1'", "--iface");
	l.links[3].parent = 0;
	strcpy(l.links[3].kind, "bridge");
	strcpy(l.links[3].name, "br0");
	l.links[0].master = l.links[3].index;
	ASSERT_EQ(doctor_lab_run(&l, doctor_rail_foreign), 1);
	doctor_lab_first_is(&l, "ens1", "port of bridge 'br0'", "'ip link set ens1 nomaster'");
	strcpy(l.links[3].kind, "bond");
	ASSERT_EQ(doctor_lab_run(&l, doctor_rail_foreign), 0);
	doctor_lab_end(&l);
}

static void test_drift_from_host_conf_is_found(void **state)
{
	struct doctor_lab l;

	(void)state;
	doctor_lab_begin_rails(&l, NULL);
	l.f.dir = l.host.dir;
	host_write(&l.host, "/unirail/about", "made up");
	host_write(&l.host, "/proc/sys/net/ipv4/ip_forward", "0");
	ASSERT_EQ(doctor_lab_run(&l, doctor_host_drift), 0); /* no host.conf */
	host_write(&l.host, "/etc/unirail/host.conf", "[sysctl]\nnet.ipv4.ip_forward = 0\n");
	host_write(&l.host, "/etc/sysctl.d/99-unirail.conf", "");
	doctor_lab_run(&l, doctor_host_drift);
	doctor_lab_first_is(&l, "sysctl host", "differs from /etc/unirail/host.conf",
			    "'unirail host apply sysctl'");
	ASSERT_STR_EQ(l.found.v[0].fix, "apply sysctl");
	host_write(&l.host, "/etc/unirail/host.conf", "[sysctl]\nnet.ipv4.ip_forwarding 0\n");
	ASSERT_EQ(doctor_lab_run(&l, doctor_host_drift), 1);
	doctor_lab_first_is(&l, "/etc/unirail/host.conf", "host.conf:2", "'unirail host plan'");
	doctor_lab_end(&l);
}

static void test_drift_of_qos_is_found(void **state)
{
	struct doctor_lab l;

	(void)state;
	doctor_lab_begin_rails(&l, "hw_eight_ofed.tree");
	l.f.dir = l.host.dir;
	host_write(&l.host, "/etc/unirail/host.conf",
		   "[qos]\npriority = 5\nnics = ens1np0,ens8np0\n");
	assert_true(doctor_lab_run(&l, doctor_host_drift) > 0);
	for (size_t i = 0; i < l.found.n; i++)
		if (!strcmp(l.found.v[i].subject, "qos ens1np0"))
			ASSERT_STR_EQ(l.found.v[i].fix, "apply qos");
	doctor_lab_first_is(&l, "qos ens1np0", "differs from", "'unirail host apply qos'");
	host_write(&l.host, "/etc/unirail/host.conf", "");
	ASSERT_EQ(doctor_lab_run(&l, doctor_host_drift), 0);
	doctor_lab_end(&l);
}

#define CHECKPOINT "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"

static void registered(struct doctor_lab *l, const char *devices)
{
	auto_free char *text = xasprintf(
		"{\"Data\":{\"PodDeviceEntries\":null,\"RegisteredDevices\":{%s}}}", devices);

	host_write(&l->host, CHECKPOINT, text);
}

static void test_vf_missing_in_the_kubelets_resources_is_found(void **state)
{
	struct doctor_lab l;

	(void)state;
	doctor_lab_begin_rails(&l, "hw_infiniband.tree");
	for (size_t i = 0; i < l.f.n_pci; i++)
		if (!strcmp(l.f.pci[i].bdf, "0000:18:00.0"))
			assert_true(l.f.pci[i].is_pf && l.f.pci[i].num_vfs == 2);
	registered(&l, "\"unirail.io/ib\":[\"0000:18:00.1\",\"0000:18:00.2\"]");
	ASSERT_EQ(doctor_lab_run(&l, doctor_vf_resources), 0);
	registered(&l, "\"unirail.io/ib\":[\"0000:18:00.1\"]");
	ASSERT_EQ(doctor_lab_run(&l, doctor_vf_resources), 1);
	doctor_lab_first_is(&l, "0000:18:00.0", "1 of the PF's 2 VFs are in no resource",
			    "'unirail device plan'");
	registered(&l, "\"unirail.io/ib\":[\"0000:18:00.1\",\"0000:18:00.2\",\"0000:18:00.3\"]");
	ASSERT_EQ(doctor_lab_run(&l, doctor_vf_resources), 1);
	doctor_lab_first_is(&l, "unirail.io/ib", "0000:18:00.3, which does not exist",
			    "'unirail host vf");
	registered(&l, "\"unirail.io/ib\":[\"0000:18:00.1\",\"0000:18:00.2\"]");
	ASSERT_EQ(doctor_lab_run(&l, doctor_vf_resources), 0);
	doctor_lab_end(&l);
}

static void test_node_resource_without_device_plugin_is_found(void **state)
{
	struct doctor_lab l;

	(void)state;
	doctor_lab_begin_rails(&l, NULL);
	registered(&l, "\"rdma/hca\":[\"0\"]");
	set_node(&l, "{\"metadata\":{\"name\":\"n1\"},\"status\":{\"capacity\":{\"cpu\":\"2\","
		     "\"rdma/hca\":\"1\",\"attachable-volumes-csi.kubernetes.io/x\":\"9\"}}}");
	ASSERT_EQ(doctor_lab_run(&l, doctor_node_resources), 0);
	registered(&l, "");
	ASSERT_EQ(doctor_lab_run(&l, doctor_node_resources), 1);
	doctor_lab_first_is(&l, "rdma/hca", "has 1 of this resource, but no device plugin",
			    "kubectl patch node n1 --subresource=status --type=json -p "
			    "'[{\"op\":\"remove\",\"path\":\"/status/capacity/rdma~1hca\"}]'");
	set_node(&l, "{\"metadata\":{\"name\":\"n1\"},\"status\":{\"capacity\":{\"cpu\":\"2\"}}}");
	ASSERT_EQ(doctor_lab_run(&l, doctor_node_resources), 0);
	doctor_lab_end(&l);
}

static void test_node_that_waits_for_driver_pods_is_found(void **state)
{
	struct doctor_lab l;

	(void)state;
	doctor_lab_begin_rails(&l, NULL);
	ASSERT_EQ(doctor_lab_run(&l, doctor_node_drivers), 0);
	set_node(&l, "{\"metadata\":{\"name\":\"n1\",\"labels\":{"
		     "\"network.nvidia.com/operator.mofed.wait\":\"true\"}},\"spec\":{\"taints\":["
		     "{\"key\":\"gpu\",\"effect\":\"NoSchedule\"}]}}");
	ASSERT_EQ(doctor_lab_run(&l, doctor_node_drivers), 1);
	doctor_lab_first_is(&l, "network.nvidia.com/operator.mofed.wait", "gpu:NoSchedule",
			    "'kubectl label node n1 network.nvidia.com/operator.mofed.wait=false");
	set_node(&l, "{\"metadata\":{\"name\":\"n1\",\"labels\":{"
		     "\"network.nvidia.com/operator.mofed.wait\":\"false\"}}}");
	ASSERT_EQ(doctor_lab_run(&l, doctor_node_drivers), 0);
	doctor_lab_end(&l);
}

static void test_rail_used_as_the_nodes_address_is_found(void **state)
{
	struct doctor_lab l;

	(void)state;
	doctor_lab_begin_rails(&l, NULL);
	set_node(&l, "{\"metadata\":{\"annotations\":{"
		     "\"projectcalico.org/IPv4Address\":\"172.16.1.10/24\"}}}");
	ASSERT_EQ(doctor_lab_run(&l, doctor_node_address), 1);
	doctor_lab_first_is(&l, "ens1", "Calico uses this rail's address",
			    "IP_AUTODETECTION_METHOD");
	set_node(&l, "{\"metadata\":{\"annotations\":{"
		     "\"projectcalico.org/IPv4Address\":\"10.0.0.10/24\"}}}");
	ASSERT_EQ(doctor_lab_run(&l, doctor_node_address), 0);
	doctor_lab_end(&l);
}

/* A snapshot contains all files that these checks read, so they find the same faults in the
 * snapshot as on its host. It contains neither secrets nor files of processes that do not use
 * RDMA. */
static void test_checks_find_the_same_faults_in_a_snapshot_as_on_its_host(void **state)
{
	static void (*const checks[])(struct doctor *) = {doctor_pci_acs,	doctor_pci_read,
							  doctor_memlock,	doctor_rail_managed,
							  doctor_rail_networkd, doctor_vf_resources,
							  doctor_rail_rp_filter};
	static const char fd[] = "/proc/4711/fd";
	struct doctor_lab l, again = {0};
	struct snapshot s = {.root = &l.host.root};
	auto_buf struct buf b;
	struct err e = ERR_INIT;
	char path[128];

	(void)state;
	doctor_lab_begin_rails(&l, "hw_eight_ofed.tree");
	host_write(&l.host, "/proc/4711/limits",
		   "Limit Soft Hard\nMax locked memory         65536   65536 bytes");
	host_write(&l.host, "/proc/4711/comm", "python3");
	host_write(&l.host, "/proc/4711/status", "CapEff:\t0");
	host_write(&l.host, "/proc/4711/environ", "TOKEN=hunter2");
	host_write(&l.host, "/proc/4712/comm", "other");
	ASSERT_EQ(dir_make(l.f.root, fd, 0755, NULL), 0);
	snprintf(path, sizeof(path), "%s%s/7", l.host.dir, fd);
	ASSERT_EQ(symlink("/dev/infiniband/uverbs0", path), 0);
	host_write(&l.host, "/run/NetworkManager/devices/2", "[device]\nmanaged=true");
	host_write(&l.host, "/run/systemd/netif/links/3", "ADMIN_STATE=configured");
	host_write(&l.host, "/proc/sys/net/ipv4/conf/ens1/rp_filter", "1");
	registered(&l, "\"unirail.io/ib\":[\"0000:18:00.3\"]},\"PodDeviceEntries\":[{\"AllocResp\":"
		       "\"aHVudGVyMg\"}],\"x\":{");
	buf_init(&b, SNAPSHOT_MAX);
	s.out = &b;
	snapshot_take(&s);
	assert_false(b.over);
	assert_null(strstr(b.p, "hunter2"));
	assert_null(strstr(b.p, "aHVudGVyMg"));
	assert_null(strstr(b.p, "/proc/4712"));
	again = l;
	host_empty(&again.host);
	ASSERT_OK(tree_unpack(&again.host.root, buf_span(&b), "snapshot", &e), &e);
	again.f.root = &again.host.root;
	again.f.pci = NULL;
	again.found = (struct findings){0};
	again.f.rdma = again.rdma;
	again.f.links = again.links;
	ASSERT_EQ(pci_list(again.f.root, &again.f.pci, &again.f.n_pci, NULL), 0);
	for (size_t i = 0; i < ARRAY_LEN(checks); i++) {
		size_t n = doctor_lab_run(&l, checks[i]);

		assert_true(n > 0);
		ASSERT_EQ_MSG(doctor_lab_run(&again, checks[i]), n, "checks[%zu]", i);
		for (size_t k = 0; k < n; k++)
			ASSERT_STR_EQ_MSG(again.found.v[k].what, l.found.v[k].what, "checks[%zu]",
					  i);
	}
	doctor_lab_end(&again);
	doctor_lab_end(&l);
}

static void test_each_check_reports_a_broken_host_and_not_a_mended_host(void **state)
{
	(void)state;
	doctor_lab_verify("test_doctor_use");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plugin_that_needs_another_link_type_is_found),
		cmocka_unit_test(
			test_nic_whose_link_type_differs_from_others_of_its_model_is_found),
		cmocka_unit_test(test_nic_whose_firmware_differs_from_others_of_its_model_is_found),
		cmocka_unit_test(test_infiniband_port_without_subnet_manager_is_found),
		cmocka_unit_test(test_mtu_of_vf_or_pod_that_differs_from_the_pf_is_found),
		cmocka_unit_test(test_mtu_of_pods_is_checked_in_a_snapshot),
		cmocka_unit_test(test_configured_mtu_above_the_masters_is_found),
		cmocka_unit_test(test_port_without_a_roce_v2_gid_is_found),
		cmocka_unit_test(test_networkd_that_removes_rules_is_found),
		cmocka_unit_test(test_rail_that_another_cni_uses_is_found),
		cmocka_unit_test(test_drift_from_host_conf_is_found),
		cmocka_unit_test(test_drift_of_qos_is_found),
		cmocka_unit_test(test_vf_missing_in_the_kubelets_resources_is_found),
		cmocka_unit_test(test_node_resource_without_device_plugin_is_found),
		cmocka_unit_test(test_node_that_waits_for_driver_pods_is_found),
		cmocka_unit_test(test_rail_used_as_the_nodes_address_is_found),
		cmocka_unit_test(test_checks_find_the_same_faults_in_a_snapshot_as_on_its_host),
		cmocka_unit_test(test_each_check_reports_a_broken_host_and_not_a_mended_host),
	};

	return T_RUN(tests, NULL, NULL);
}
