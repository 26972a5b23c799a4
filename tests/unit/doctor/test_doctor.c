/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the checks of the doctor on recorded hosts (tests/hosts) and on hosts that the tests
 * construct. Tests also that an unpacked snapshot shows the same PCI functions as its host. */
#include "doctor_lab.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "doctor/snapshot.h"
#include "doctor/tree.h"
#include "cli/doctor.h"
#include "wire/json/json.h"

static void test_host_without_hardware_has_no_findings(void **state)
{
	struct doctor_lab l;

	(void)state;
	doctor_lab_begin(&l, NULL);
	doctor_lab_run_all(&l);
	ASSERT_EQ(l.found.n, 0);
	doctor_lab_end(&l);
}

/* --- RDMA and rails --- */

static struct rdma_dev two[] = {
	{.name = "mlx5_0",
	 .ports = {{.port = 1,
		    .netdev = "ens1",
		    .state = 4,
		    .phys_state = 5,
		    .link_layer = "Ethernet"}}},
	{.name = "mlx5_1",
	 .ports = {{.port = 1,
		    .netdev = "ens2",
		    .state = 4,
		    .phys_state = 5,
		    .link_layer = "Ethernet"}}},
};
enum { UP = 0x1 };

static void test_rails_with_small_mtu_or_in_one_subnet_are_found(void **state)
{
	struct link links[] = {{.index = 2, .name = "ens1", .mtu = 9000, .flags = UP},
			       {.index = 3, .name = "ens2", .mtu = 1500, .flags = UP}};
	struct addr addrs[] = {{.index = 2, .net = {{4, {172, 16, 1, 1}}, 24}},
			       {.index = 2, .net = {{6, {0xfe, 0x80, [15] = 1}}, 64}},
			       {.index = 3, .net = {{4, {172, 16, 2, 1}}, 24}},
			       {.index = 3, .net = {{6, {0xfe, 0x80, [15] = 2}}, 64}}};
	struct rdma_dev devs[2];
	struct doctor_lab l;

	(void)state;
	doctor_lab_begin(&l, NULL);
	memcpy(devs, two, sizeof(two));
	host_write(&l.host, "/dev/infiniband/rdma_cm", "");
	l.f.has_rdma = true;
	l.f.rdma = devs;
	l.f.n_rdma = 2;
	l.f.links = links;
	l.f.n_links = 2;
	l.f.addrs = addrs;
	l.f.n_addrs = 4;
	doctor_lab_run_all(&l);
	ASSERT_EQ(l.found.n, 1);
	doctor_lab_finds(&l, "rail-mtu", "ens2", "MTU 1500 is less than the 4192", "mtu 9000");
	ASSERT_EQ(findings_count(&l.found, FINDING_PROBLEM), 0);

	addrs[2].net.ip.b[2] = 1;
	addrs[2].net.ip.b[3] = 2;
	links[1].mtu = 4192;
	doctor_lab_run_all(&l);
	ASSERT_EQ(l.found.n, 1);
	doctor_lab_finds(&l, "rail-subnets", "ens1", "in the same subnet as 'ens2'",
			 "arp_ignore=1");
	addrs[2].net.ip.b[2] = 2;
	doctor_lab_run_all(&l);
	ASSERT_EQ(l.found.n, 0);
	doctor_lab_end(&l);
}

static void test_rdma_ports_that_are_down_are_found_with_their_cause(void **state)
{
	struct link links[] = {{.index = 2, .name = "ens1", .mtu = 9000},
			       {.index = 3, .name = "ens2", .mtu = 9000, .flags = UP}};
	struct rdma_dev devs[3];
	struct doctor_lab l;

	(void)state;
	doctor_lab_begin(&l, NULL);
	memcpy(devs, two, sizeof(two));
	devs[0].ports[0].state = devs[1].ports[0].state = 1;
	devs[0].ports[0].phys_state = devs[1].ports[0].phys_state = 3;
	devs[2] = (struct rdma_dev){
		.name = "mlx5_2",
		.ports = {{.port = 2, .state = 2, .phys_state = 5, .link_layer = "InfiniBand"}},
		.reason = "no provider"};
	l.f.has_rdma = true;
	l.f.rdma = devs;
	l.f.n_rdma = 3;
	l.f.links = links;
	l.f.n_links = 2;
	doctor_lab_run_all(&l);
	doctor_lab_finds(&l, "rdma-ports", "mlx5_0 port 1",
			 "DOWN (DISABLED), its interface 'ens1' is down", "'ip link set ens1 up'");
	doctor_lab_finds(&l, "rdma-ports", "mlx5_1 port 1", "its interface 'ens2' has no carrier",
			 "cable");
	doctor_lab_finds(&l, "rdma-ports", "mlx5_2 port 2", "INIT: no subnet manager", "opensm");
	doctor_lab_finds(&l, "rdma-verbs", "mlx5_2",
			 "libibverbs cannot use the device: no provider", "");
	doctor_lab_finds(&l, "rdma-verbs", "/dev/infiniband/rdma_cm", "missing",
			 "modprobe rdma_ucm");
	ASSERT_EQ(doctor_lab_count(&l, "rdma-verbs"), 2);
	devs[2].reason[0] = '\0';
	host_write(&l.host, "/dev/infiniband/rdma_cm", "");
	doctor_lab_run_all(&l);
	ASSERT_EQ(doctor_lab_count(&l, "rdma-verbs"), 0);
	doctor_lab_end(&l);
}

static void test_rdma_mode_that_does_not_suit_the_cni_is_found(void **state)
{
	static const char conf[] = "/etc/cni/net.d/10-net.conflist";
	struct rdma_dev devs[2];
	struct doctor_lab l;

	(void)state;
	doctor_lab_begin(&l, NULL);
	memcpy(devs, two, sizeof(two));
	l.f.has_rdma = true;
	l.f.rdma = devs;
	l.f.n_rdma = 2;
	host_write(&l.host, conf,
		   "{\"plugins\": [{\"type\": \"unirail-cni\", \"networks\": [{\"plugins\": "
		   "[{\"type\": \"macvlan\", \"runtime\": {\"type\": \"rdma\"}}]}]}]}");
	doctor_lab_run_all(&l);
	ASSERT_EQ(doctor_lab_count(&l, "rdma-mode"), 0);
	l.f.mode = RDMA_NETNS_EXCLUSIVE;
	doctor_lab_run_all(&l);
	doctor_lab_finds(&l, "rdma-mode", conf, "rails of 'macvlan'",
			 "'unirail host rdma-mode shared'");
	host_write(&l.host, conf, "{\"plugins\": [{\"type\": \"sriov\"}, {\"type\": \"rdma\"}]}");
	doctor_lab_run_all(&l);
	ASSERT_EQ(doctor_lab_count(&l, "rdma-mode"), 0);
	l.f.mode = RDMA_NETNS_SHARED;
	doctor_lab_run_all(&l);
	doctor_lab_finds(&l, "rdma-mode", conf, "plugin 'rdma' moves RDMA devices into pods",
			 "'unirail host rdma-mode exclusive'");
	doctor_lab_end(&l);
}

/* --- PCI functions --- */

static struct pci_dev *function(struct doctor_lab *l, const char *bdf)
{
	for (size_t i = 0; i < l->f.n_pci; i++)
		if (!strcmp(l->f.pci[i].bdf, bdf))
			return &l->f.pci[i];
	fail_msg("the host has no PCI function '%s'", bdf);
	return NULL;
}

static void test_functions_that_are_down_or_without_driver_are_found(void **state)
{
	struct link pf = {.index = 2, .name = "ens1f0np0", .mtu = 9000, .flags = UP};
	auto_free struct pci_dev *pci = NULL;
	struct doctor_lab l;

	(void)state;
	doctor_lab_begin(&l, "mlx5_roce.tree");
	pci = xcalloc(l.f.n_pci, sizeof(*pci));
	l.f.has_rdma = true;
	l.f.links = &pf;
	l.f.n_links = 1;
	doctor_lab_run_all(&l);
	for (size_t i = 0; i < l.found.n; i++)
		fail_msg("%s %s: %s", l.found.v[i].check, l.found.v[i].subject, l.found.v[i].what);
	memcpy(pci, l.f.pci, sizeof(*pci) * l.f.n_pci);
	pf.flags = 0;
	function(&l, "0000:3d:00.2")->driver[0] = '\0';
	function(&l, "0000:3d:00.0")->num_vfs = 13;
	strcpy(function(&l, "0000:3d:00.3")->physfn, "0000:99:00.0");
	doctor_lab_run_all(&l);
	doctor_lab_finds(&l, "vf-drivers", "0000:3d:00.2",
			 "no driver is bound to this VF of '0000:3d:00.0'", "drivers_probe");
	doctor_lab_finds(&l, "vf-pfs", "0000:3d:00.0", "13 VFs are configured, 11 exist",
			 "sriov_numvfs");
	doctor_lab_finds(&l, "vf-pfs", "0000:3d:00.3", "the VF's PF '0000:99:00.0' does not exist",
			 "lspci");
	doctor_lab_finds(&l, "vf-pfs", "ens1f0np0", "the PF is down", "'ip link set ens1f0np0 up'");
	ASSERT_EQ(l.found.n, 4);
	memcpy(l.f.pci, pci, sizeof(*pci) * l.f.n_pci);
	pf.flags = UP;
	doctor_lab_run_all(&l);
	ASSERT_EQ(l.found.n, 0);
	doctor_lab_end(&l);
}

/* The driver igb does not support RDMA: a missing RDMA device is not a fault. */
static void test_nics_whose_driver_has_no_rdma_cause_no_rdma_finding(void **state)
{
	struct doctor_lab l;

	(void)state;
	doctor_lab_begin(&l, "qemu_igb.tree");
	doctor_lab_run_all(&l);
	ASSERT_EQ(doctor_lab_count(&l, "rdma-kernel") + doctor_lab_count(&l, "vf-rdma"), 0);
	doctor_lab_end(&l);
}

static void test_vf_without_its_rdma_device_is_found(void **state)
{
	static const char move[] =
		"for f in %s/sys/devices/pci*/*/*/*/0000:3d:00.[12]; do mv $f/%s $f/%s; done";
	struct doctor_lab l;
	char cmd[256];

	(void)state;
	doctor_lab_begin(&l, "mlx5_roce.tree");
	l.f.has_rdma = true;
	snprintf(cmd, sizeof(cmd), move, l.host.dir, "infiniband", "away");
	ASSERT_EQ(system(cmd), 0);
	doctor_lab_run_all(&l);
	doctor_lab_finds(&l, "vf-rdma", "0000:3d:00.2", "its RDMA device does not",
			 "rebind the VF's driver");
	doctor_lab_finds(&l, "rdma-kernel", "0000:3d:00.1", "has no RDMA device",
			 "modprobe mlx5_ib");
	/* in mode exclusive the RDMA device may be in a pod, so its absence is not a fault */
	l.f.mode = RDMA_NETNS_EXCLUSIVE;
	doctor_lab_run_all(&l);
	ASSERT_EQ(doctor_lab_count(&l, "rdma-kernel"), 0);
	l.f.mode = RDMA_NETNS_SHARED;
	snprintf(cmd, sizeof(cmd), move, l.host.dir, "away", "infiniband");
	ASSERT_EQ(system(cmd), 0);
	doctor_lab_run_all(&l);
	ASSERT_EQ(doctor_lab_count(&l, "rdma-kernel") + doctor_lab_count(&l, "vf-rdma"), 0);
	doctor_lab_end(&l);
}

/* --- directories of CNI plugins and CNI configurations --- */

static void test_broken_links_and_cni_configurations_are_found(void **state)
{
	struct doctor_lab l;

	(void)state;
	doctor_lab_begin(&l, NULL);
	host_write(&l.host, "/opt/cni/bin/unirail", "");
	ASSERT_EQ(link_replace(&l.host.root, "/opt/cni/bin/macvlan", "unirail", NULL), 0);
	ASSERT_EQ(link_replace(&l.host.root, "/opt/cni/bin/ipvlan", "gone", NULL), 0);
	host_write(&l.host, "/etc/cni/net.d/10-a.conflist",
		   "{\"plugins\": [{\"type\": \"macvlan\", \"ipam\": {\"type\": \"static\"}}, "
		   "{\"type\": \"static\"}]}");
	host_write(&l.host, "/etc/cni/net.d/20-b.conf", "{\"type\": \"unirail\"}");
	host_write(&l.host, "/etc/cni/net.d/30-c.conf", "{");
	host_write(&l.host, "/etc/cni/net.d/notes.txt", "{");
	doctor_lab_run_all(&l);
	doctor_lab_finds(&l, "cni-links", "/opt/cni/bin/ipvlan", "leads to 'gone'",
			 "unirail install");
	doctor_lab_finds(&l, "cni-conf", "/etc/cni/net.d/10-a.conflist",
			 "'static' is not in '/opt/cni/bin'", "unirail install");
	doctor_lab_finds(&l, "cni-conf", "/etc/cni/net.d/30-c.conf", "",
			 "correct or remove the file");
	ASSERT_EQ(l.found.n, 3);
	ASSERT_EQ(link_replace(&l.host.root, "/opt/cni/bin/ipvlan", "unirail", NULL), 0);
	ASSERT_EQ(link_replace(&l.host.root, "/opt/cni/bin/static", "unirail", NULL), 0);
	file_remove(&l.host.root, "/etc/cni/net.d/30-c.conf", NULL);
	doctor_lab_run_all(&l);
	ASSERT_EQ(l.found.n, 0);
	doctor_lab_end(&l);
}

static void test_invalid_pools_and_leftover_links_are_found(void **state)
{
	struct link leftover[] = {{.name = "net1", .kind = "macvlan", .group = LINK_GROUP},
				  {.name = "eth0"}};
	struct doctor_lab l;

	(void)state;
	doctor_lab_begin(&l, NULL);
	host_write(&l.host, "/etc/unirail/pools/a.conf",
		   "[pool a]\nsubnet = 172.16.1.0/24\ngateway = 172.16.9.1");
	l.f.links = leftover;
	l.f.n_links = 2;
	doctor_lab_run_all(&l);
	doctor_lab_finds(&l, "pools", "/etc/unirail/pools", "a.conf:3", "unirail pool check");
	doctor_lab_finds(&l, "leftover-links", "net1", "this macvlan of a pod",
			 "'ip link del net1'");
	ASSERT_EQ(l.found.n, 2);
	assert_false(file_exists(&l.host.root, "/var/lib/unirail"));
	host_write(&l.host, "/etc/unirail/pools/a.conf",
		   "[pool a]\nsubnet = 172.16.1.0/24\ngateway = 172.16.1.1");
	leftover[0] = (struct link){.name = "ens1"};
	doctor_lab_run_all(&l);
	ASSERT_EQ(l.found.n, 0);
	doctor_lab_end(&l);
}

static void test_missing_master_of_a_cni_configuration_is_found(void **state)
{
	static const char conf[] = "/etc/cni/net.d/10-net.conflist";
	struct link links[] = {{.index = 2, .name = "ens1", .mtu = 9000, .flags = UP}};
	struct doctor_lab l;

	(void)state;
	doctor_lab_begin(&l, NULL);
	l.f.links = links;
	l.f.n_links = 1;
	host_write(&l.host, conf, "{\"plugins\":[{\"type\":\"macvlan\",\"master\":\"ens11\"}]}");
	doctor_lab_run_all(&l);
	doctor_lab_finds(&l, "cni-masters", conf, "master 'ens11' of plugin 'macvlan'",
			 "did you mean 'ens1'?");
	host_write(&l.host, conf, "{\"plugins\":[{\"type\":\"macvlan\",\"master\":\"ens1\"}]}");
	doctor_lab_run_all(&l);
	ASSERT_EQ(doctor_lab_count(&l, "cni-masters"), 0);
	doctor_lab_end(&l);
}

/* --- snapshot --- */

/* Sets *ret, which the caller frees, to the PCI functions of class network below a root; returns
 * their number. */
static size_t network(const struct root *r, struct pci_dev **ret)
{
	size_t n, k = 0;

	ASSERT_EQ(pci_list(r, ret, &n, NULL), 0);
	for (size_t i = 0; i < n; i++)
		if ((*ret)[i].class >> 16 == 0x02)
			(*ret)[k++] = (*ret)[i];
	return k;
}

static void same_functions(const struct root *a, const struct root *b)
{
	auto_free struct pci_dev *x = NULL, *y = NULL;
	size_t n = network(a, &x);

	ASSERT_EQ(network(b, &y), n);
	assert_true(n > 0);
	assert_memory_equal(x, y, n * sizeof(*x));
}

static void test_unpacked_snapshot_has_the_same_pci_functions_and_no_secrets(void **state)
{
	static const char *const trees[] = {"mlx5_roce.tree", "mlx5_ib.tree", "qemu_igb.tree"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(trees); i++) {
		struct host_lab h, again;
		auto_buf struct buf b;
		struct snapshot s = {.root = &h.root, .out = &b};
		struct err e = ERR_INIT;

		buf_init(&b, SNAPSHOT_MAX);
		host_unpack(&h, trees[i]);
		host_write(&h, "/etc/cni/net.d/a.conf", "{\"token\": \"hunter2\"}");
		host_write(&h, "/etc/cni/net.d/x.kubeconfig", "hunter2");
		host_write(&h, "/proc/cmdline", "quiet token=hunter2");
		host_write(&h, "/var/lib/unirail/ipam/secret.d/x", "hunter2");
		snapshot_take(&s);
		assert_false(b.over);
		assert_null(strstr(b.p, "hunter2"));
		host_empty(&again);
		ASSERT_OK(tree_unpack(&again.root, buf_span(&b), trees[i], &e), &e);
		same_functions(&h.root, &again.root);
		host_remove(&h);
		host_remove(&again);
	}
}

static void test_too_large_files_are_left_out_of_a_snapshot(void **state)
{
	struct host_lab h;
	auto_buf struct buf b;
	struct snapshot s = {.root = &h.root, .out = &b};
	auto_free char *big = xcalloc(1, SNAPSHOT_FILE_MAX + 2);

	(void)state;
	buf_init(&b, SNAPSHOT_MAX);
	memset(big, 'x', SNAPSHOT_FILE_MAX + 1);
	host_empty(&h);
	host_write(&h, "/proc/modules", big);
	snapshot_take(&s);
	ASSERT_STR_EQ(b.p, "# /proc/modules: left out: too large\n");
	ASSERT_EQ(s.n_left, 1);
	host_remove(&h);
}

/* A node with several faults, recorded by tests/vm/cases/doctor.sh: netlink answers are replayed
 * from the snapshot. */
static void test_faults_of_a_recorded_node_are_found(void **state)
{
	struct doctor_lab l;
	struct host_source src = {.root = &l.host.root, .dir = l.host.dir};
	struct err e = ERR_INIT;

	(void)state;
	doctor_lab_begin(&l, "vm_ailing.tree");
	free(l.f.pci);
	ASSERT_OK(host_facts_read(&l.f, &src, &e), &e);
	assert_true(l.f.has_rdma);
	ASSERT_EQ(l.f.n_rdma, 3);
	ASSERT_STR_EQ(l.f.rdma[0].driver, "rxe");
	doctor_lab_run_all(&l);
	doctor_lab_finds(&l, "rdma-verbs", "fib0", "libibverbs does not list it",
			 "unirail rdma list");
	doctor_lab_finds(&l, "rdma-ports", "rxeb port 1", "its interface 'rb' is down",
			 "ip link set rb up");
	doctor_lab_finds(&l, "rail-subnets", "ra", "same subnet as 'rb'", "");
	doctor_lab_finds(&l, "vf-drivers", "0000:01:10.2", "no driver is bound", "drivers_probe");
	doctor_lab_finds(&l, "vf-pfs", "eth2", "the PF is down, so its 2 VFs have no link", "");
	doctor_lab_finds(&l, "cni-links", "/opt/cni/bin/macvlan", "leads to 'unirail'", "");
	doctor_lab_finds(&l, "pools", "/etc/unirail/pools", "rails.conf:3: gateway", "");
	doctor_lab_finds(&l, "leftover-links", "net1", "this macvlan of a pod", "");
	ASSERT_EQ(findings_count(&l.found, FINDING_PROBLEM), 12);
	findings_done(&l.found);
	host_facts_done(&l.f);
	host_remove(&l.host);
}

/* A missing or truncated recording is an error that names the file. */
static void test_damaged_recording_is_an_error(void **state)
{
	struct doctor_lab l;
	struct host_source src = {.root = &l.host.root, .dir = l.host.dir};
	struct err e = ERR_INIT;

	(void)state;
	doctor_lab_begin(&l, NULL);
	ASSERT_EQ(host_facts_read(&l.f, &src, &e), -EPROTONOSUPPORT);
	assert_non_null(strstr(e.text, "links.nl"));
	host_write(&l.host, "/unirail/netlink/links.nl", "# protocol route\n> 00");
	assert_true(host_facts_read(&l.f, &src, &e) < 0);
	assert_non_null(strstr(e.text, "links.nl:2"));
	doctor_lab_end(&l);
}

/* --- what is printed --- */

static void test_findings_are_printed_by_severity(void **state)
{
	auto_free char *out = NULL;
	auto_buf struct buf b;
	auto_json struct json_doc *d = NULL;
	size_t size;
	FILE *f = open_memstream(&out, &size);
	struct doctor_lab l;

	(void)state;
	doctor_lab_begin(&l, NULL);
	host_write(&l.host, "/proc/sys/kernel/osrelease", "6.12");
	struct finding v[] = {{"rail-mtu", FINDING_REMARK, (char[]){"ens1"}, (char[]){"small"},
			       (char[]){"enlarge"}, NULL},
			      {"pools", FINDING_PROBLEM, (char[]){"p"}, (char[]){"bad"},
			       (char[]){"mend"}, NULL}};
	const struct findings found = {.v = v, .n = 2};

	doctor_show_text(&l.f, &found, true, f);
	fclose(f);
	ASSERT_STR_EQ(out, "kernel 6.12; no RDMA; PFs: 0, VFs: 0; links: 0\n"
			   "problem  p: bad: mend\n"
			   "note     ens1: small: enlarge\n"
			   "37 checks: 1 problems, 1 notes\n");
	buf_init(&b, 1 << 16);
	doctor_show_json(&l.f, &found, &b);
	ASSERT_EQ(json_parse(&d, buf_span(&b), 1 << 16, NULL), 0);
	assert_false(json_bool(json_get(json_root(d), "ok")));
	ASSERT_EQ(json_len(json_get(json_root(d), "findings")), 2);
	doctor_lab_end(&l);
}

static void test_cni_configuration_that_sorts_first_is_checked(void **state)
{
	static const char own[] =
		"{\"unirail.io/generated\":true,\"plugins\":[{\"type\":\"unirail-cni\"}]}";
	static const char net[] = "{\"type\":\"bridge\"}", multus[] = "{\"type\":\"multus\"}";
	const struct finding *f;
	struct doctor_lab l;

	(void)state;
	doctor_lab_begin(&l, NULL);
	host_write(&l.host, "/etc/cni/net.d/10-net.conf", net);
	doctor_lab_run_all(&l);
	assert_null(doctor_lab_find(&l, "cni-first", "/etc/cni/net.d"));
	/* The plugin is installed and no configuration uses it: the finding is a remark. */
	ASSERT_EQ(dir_make(&l.host.root, "/opt/cni/bin", 0755, NULL), 0);
	host_write(&l.host, "/opt/cni/bin/unirail", "");
	ASSERT_EQ(link_replace(&l.host.root, "/opt/cni/bin/unirail-cni", "unirail", NULL), 0);
	doctor_lab_run_all(&l);
	f = doctor_lab_find(&l, "cni-first", "/etc/cni/net.d");
	assert_non_null(f);
	ASSERT_EQ(f->level, FINDING_REMARK);
	host_write(&l.host, "/etc/cni/net.d/0-unirail.conflist", own);
	doctor_lab_run_all(&l);
	assert_null(doctor_lab_find(&l, "cni-first", "/etc/cni/net.d"));
	host_write(&l.host, "/etc/cni/net.d/0-net.conf", net);
	doctor_lab_run_all(&l);
	f = doctor_lab_find(&l, "cni-first", "/etc/cni/net.d/0-net.conf");
	assert_non_null(f);
	ASSERT_EQ(f->level, FINDING_PROBLEM);
	assert_non_null(strstr(f->what, "not '0-unirail.conflist': pods get no rails"));
	assert_non_null(strstr(f->remedy, "cni-conf-name"));
	host_write(&l.host, "/etc/cni/net.d/0-net.conf", "{");
	doctor_lab_run_all(&l);
	f = doctor_lab_find(&l, "cni-first", "/etc/cni/net.d/0-net.conf");
	assert_non_null(f);
	assert_non_null(strstr(f->what, "it is invalid"));
	/* A Multus configuration is accepted if /opt/cni/bin/multus is a link to unirail. */
	host_write(&l.host, "/etc/cni/net.d/0-net.conf", multus);
	doctor_lab_run_all(&l);
	assert_non_null(doctor_lab_find(&l, "cni-first", "/etc/cni/net.d/0-net.conf"));
	ASSERT_EQ(link_replace(&l.host.root, "/opt/cni/bin/multus", "unirail", NULL), 0);
	doctor_lab_run_all(&l);
	assert_null(doctor_lab_find(&l, "cni-first", "/etc/cni/net.d/0-net.conf"));
	file_remove(&l.host.root, "/etc/cni/net.d/0-net.conf", NULL);
	ASSERT_EQ(file_rename(&l.host.root, "/etc/cni/net.d/0-unirail.conflist",
			      "/etc/cni/net.d/0-unirail.conflist.cilium_bak", true, NULL),
		  0);
	doctor_lab_run_all(&l);
	f = doctor_lab_find(&l, "cni-first", "/etc/cni/net.d/0-unirail.conflist.cilium_bak");
	assert_non_null(f);
	assert_non_null(strstr(f->remedy, "cni.exclusive=false"));
	doctor_lab_end(&l);
}

static void test_each_check_reports_a_broken_host_and_not_a_mended_host(void **state)
{
	(void)state;
	doctor_lab_verify("test_doctor");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_host_without_hardware_has_no_findings),
		cmocka_unit_test(test_rails_with_small_mtu_or_in_one_subnet_are_found),
		cmocka_unit_test(test_rdma_ports_that_are_down_are_found_with_their_cause),
		cmocka_unit_test(test_rdma_mode_that_does_not_suit_the_cni_is_found),
		cmocka_unit_test(test_functions_that_are_down_or_without_driver_are_found),
		cmocka_unit_test(test_nics_whose_driver_has_no_rdma_cause_no_rdma_finding),
		cmocka_unit_test(test_vf_without_its_rdma_device_is_found),
		cmocka_unit_test(test_broken_links_and_cni_configurations_are_found),
		cmocka_unit_test(test_invalid_pools_and_leftover_links_are_found),
		cmocka_unit_test(test_missing_master_of_a_cni_configuration_is_found),
		cmocka_unit_test(test_unpacked_snapshot_has_the_same_pci_functions_and_no_secrets),
		cmocka_unit_test(test_too_large_files_are_left_out_of_a_snapshot),
		cmocka_unit_test(test_faults_of_a_recorded_node_are_found),
		cmocka_unit_test(test_damaged_recording_is_an_error),
		cmocka_unit_test(test_findings_are_printed_by_severity),
		cmocka_unit_test(test_cni_configuration_that_sorts_first_is_checked),
		cmocka_unit_test(test_each_check_reports_a_broken_host_and_not_a_mended_host),
	};

	return T_RUN(tests, NULL, NULL);
}
