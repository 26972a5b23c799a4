/* SPDX-License-Identifier: Apache-2.0 */
/* Records of VFs: their format and files. Owners and locks of VFs. */
#include "host_lab.h"
#include "kern_lab.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cni/device/vf_stores.h"
#include "cni/plugins/sriov/ib_sriov.h"
#include "cni/plugins/sriov/sriov.h"
#include "cni/device/vf_claim.h"

/* A record of the original plugin, for a VF in a VLAN and a pod that requested no attribute. */
static const char original[] =
	"{\"MAC\":\"\",\"MTU\":1500,\"Master\":\"ens1f0\",\"OrigVfState\":{\"HostIFName\":\"ens1f0v2\","
	"\"SpoofChk\":true,\"Trust\":false,\"AdminMAC\":\"02:00:00:00:00:03\","
	"\"EffectiveMAC\":\"02:00:00:00:00:04\",\"Vlan\":103,\"VlanQoS\":5,\"VlanProto\":34984,"
	"\"MinTxRate\":100,\"MaxTxRate\":2000,\"LinkState\":2,\"MTU\":9000},\"VFID\":2,"
	"\"cniVersion\":\"1.0.0\",\"deviceID\":\"0000:3b:00.2\",\"ipam\":{\"type\":\"static\"},"
	"\"max_tx_rate\":null,\"min_tx_rate\":null,\"name\":\"rail0\",\"runtimeConfig\":{},"
	"\"type\":\"sriov\",\"vlan\":null,\"vlanProto\":null,\"vlanQoS\":null}";

static int parse(const char *text, struct vf_record *r)
{
	err_clear(&e);
	return sriov_store.parse(span_of(text), r, &e);
}

static void test_record_of_the_original_is_read(void **state)
{
	auto_vf_record struct vf_record r = {0};
	struct mac admin = t_mac("02:00:00:00:00:03"), mac = t_mac("02:00:00:00:00:04");

	(void)state;
	OK(parse(original, &r));
	ASSERT_STR_EQ(r.device, "0000:3b:00.2");
	ASSERT_STR_EQ(r.name, "ens1f0v2");
	ASSERT_STR_EQ(r.pf, "ens1f0");
	ASSERT_STR_EQ(r.network, "rail0");
	assert_true(mac_eq(&r.was.mac, &admin) && mac_eq(&r.mac, &mac) && !r.pod_mac.len);
	assert_true(r.was.vf == 2 && r.was.vlans[0].id == 103 && r.was.vlans[0].qos == 5 &&
		    r.was.vlans[0].proto == VF_VLAN_8021AD);
	assert_true(r.was.min_rate == 100 && r.was.max_rate == 2000 &&
		    r.was.link_state == VF_LINK_DISABLE && r.was.spoofchk == 1 && r.was.trust == 0);
	assert_true(r.link_mtu == 9000 && r.mtu == 1500);
	assert_false(r.by_unirail || r.dpdk || r.netns || r.boot);
	ASSERT_EQ(r.requested, 0);
}

/* A VF with DPDK has no netdev, and the original does not record that it uses DPDK. */
static void test_dpdk_record_of_the_original_is_read(void **state)
{
	auto_vf_record struct vf_record r = {0};

	(void)state;
	OK(parse("{\"deviceID\":\"0000:3b:00.2\",\"OrigVfState\":{\"HostIFName\":\"\"},"
		 "\"spoofchk\":\"off\"}",
		 &r));
	assert_true(r.dpdk);
	ASSERT_EQ(r.requested, VF_ATTR_SPOOFCHK);
	ASSERT_EQ(r.was.vlans[0].proto, VF_VLAN_8021Q);
	ASSERT_EQ(r.was.mac.len, 0);
}

static void test_invalid_records_are_refused(void **state)
{
	static const char *const bad[] = {
		"",
		"{",
		"{\"deviceID\":\"0000:3b:00.2\"}",
		"{\"OrigVfState\":{}}",
		"{\"deviceID\":\"../../x\",\"OrigVfState\":{}}",
		"{\"deviceID\":\"0000:3b:00.2\",\"OrigVfState\":{\"HostIFName\":\"a/b\"}}",
		"{\"Master\":\"a/b\",\"deviceID\":\"0000:3b:00.2\",\"OrigVfState\":{}}",
		"{\"deviceID\":\"0000:3b:00.2\",\"OrigVfState\":{\"Vlan\":4096}}",
		"{\"deviceID\":\"0000:3b:00.2\",\"OrigVfState\":{\"LinkState\":3}}",
		"{\"deviceID\":\"0000:3b:00.2\",\"OrigVfState\":{\"AdminMAC\":\"x\"}}",
		"{\"deviceID\":\"0000:3b:00.2\",\"OrigVfState\":{},\"unirail\":{\"nodeGUID\":\"x\","
		"\"portGUID\":\"y\"}}",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct vf_record r = {0};

		if (parse(bad[i], &r) >= 0)
			fail_msg("'%s' is accepted, expected a refusal", bad[i]);
		assert_null(r.network);
	}
}

static struct vf_record sample(void)
{
	struct vf_record r = {
		.network = xstrdup("rail0"),
		.mtu = 1500,
		.was = {.vf = 2,
			.mac = t_mac("02:00:00:00:00:03"),
			.vlans = {{103, 5, VF_VLAN_8021AD}},
			.n_vlans = 1,
			.min_rate = 100,
			.max_rate = 2000,
			.spoofchk = 1,
			.link_state = VF_LINK_DISABLE},
		.mac = t_mac("02:00:00:00:00:04"),
		.link_mtu = 9000,
	};

	strcpy(r.device, "0000:3b:00.2");
	strcpy(r.pf, "ens1f0");
	strcpy(r.name, "ens1f0v2");
	return r;
}

static void print(const struct vf_record *r, const struct sriov_conf *c, const char *conf,
		  struct buf *b)
{
	auto_json struct json_doc *d = NULL;
	const struct sriov_netconf n = {c, NULL, "1.0.0", "static"};
	struct sriov_netconf with = n;

	buf_init(b, 1 << 16);
	OK(json_parse(&d, span_of(conf), 1 << 16, &e));
	with.conf = json_root(d);
	sriov_record_print(r, &with, b);
}

/* The bytes of the original, with one additional key of unirail. */
static void test_written_record_has_the_bytes_of_the_original(void **state)
{
	auto_vf_record struct vf_record r = sample();
	const struct sriov_conf c = {0};
	auto_buf struct buf b;
	auto_free char *want = NULL;
	char *at;

	(void)state;
	print(&r, &c, "{}", &b);
	want = xasprintf(
		"%.*s,\"unirail\":{\"altnames\":[],\"dpdk\":false,\"mtu\":9000,\"spoofchk\":1,\"trust\":0,"
		"\"up\":false},%s",
		(int)(strstr(original, ",\"vlan\":") - original), original,
		strstr(original, "\"vlan\":"));
	ASSERT_STR_EQ(b.p, want);
	at = strstr(b.p, ",\"unirail\"");
	memmove(at, strstr(at, ",\"vlan\""), strlen(strstr(at, ",\"vlan\"")) + 1);
	ASSERT_STR_EQ(b.p, original);
}

static void test_record_has_the_requested_attributes(void **state)
{
	auto_vf_record struct vf_record r = sample();
	struct sriov_conf c = {
		.has_vlan = true,
		.has_max = true,
		.spoofchk = "off",
		.trust = "on",
		.link_state = "enable",
		.runtime_mac = "02:00:00:00:00:07",
		.log_level = "debug",
		.want.to = {.vlans = {{7, 3, VF_VLAN_8021Q}}, .max_rate = 50},
	};
	auto_buf struct buf b;
	static const char *const parts[] = {
		"\"vlan\":7,\"vlanProto\":\"802.1q\",\"vlanQoS\":3}",
		"\"max_tx_rate\":50,\"min_tx_rate\":null,",
		"\"link_state\":\"enable\",\"logLevel\":\"debug\",",
		"\"runtimeConfig\":{\"mac\":\"02:00:00:00:00:07\"},\"spoofchk\":\"off\",\"trust\":\"on\"",
		"\"capabilities\":{\"mac\":true},\"cniVersion\":\"1.0.0\"",
		"\"dns\":{\"domain\":\"x\"},\"ipam\"",
		"\"prevResult\":{\"a\":2,\"b\":1},\"runtimeConfig\"",
		"{\"MAC\":\"02:00:00:00:00:07\",\"MTU\":1500,",
	};

	(void)state;
	r.pod_mac = t_mac("02:00:00:00:00:07");
	print(&r, &c,
	      "{\"capabilities\":{\"mac\":true},\"dns\":{\"domain\":\"x\"},"
	      "\"prevResult\":{\"b\":1,\"a\":2}}",
	      &b);
	for (size_t i = 0; i < ARRAY_LEN(parts); i++)
		if (!strstr(b.p, parts[i]))
			fail_msg("%s is not in %s", parts[i], b.p);
	vf_record_done(&r);
	OK(parse(b.p, &r));
	ASSERT_EQ(r.requested, VF_ATTR_SPOOFCHK | VF_ATTR_TRUST);
}

static void fill_own(struct vf_record *r)
{
	r->container = xstrdup("c1");
	r->ifname = xstrdup("net1");
	r->netns = xstrdup("/run/netns/p");
	r->pod = xstrdup("team/p");
	r->boot = xstrdup("b-1");
	r->instance = xstrdup("18446744073709551615");
	strcpy(r->alias, "uplink <1>");
	VEC_PUSH(r->altnames, r->n_altnames) = xstrdup("enp59s0v2");
	VEC_PUSH(r->altnames, r->n_altnames) = xstrdup("x");
	strcpy(r->rdma, "mlx5_3");
	r->up = true;
	r->was.trust = -1;
	r->was.has_guid = true;
	r->was.node_guid = 0x0c42a1030016051c;
}

static void test_written_record_is_read_back(void **state)
{
	auto_vf_record struct vf_record r = sample(), got = {0};
	const struct sriov_conf c = {0};
	auto_buf struct buf b;

	(void)state;
	fill_own(&r);
	print(&r, &c, "{}", &b);
	OK(parse(b.p, &got));
	assert_true(got.by_unirail && got.up && !got.dpdk);
	ASSERT_STR_EQ(got.container, "c1");
	ASSERT_STR_EQ(got.ifname, "net1");
	ASSERT_STR_EQ(got.netns, "/run/netns/p");
	ASSERT_STR_EQ(got.pod, "team/p");
	ASSERT_STR_EQ(got.boot, "b-1");
	ASSERT_STR_EQ(got.instance, "18446744073709551615");
	ASSERT_STR_EQ(got.alias, "uplink <1>");
	ASSERT_EQ(got.n_altnames, 2);
	ASSERT_STR_EQ(got.altnames[0], "enp59s0v2");
	ASSERT_STR_EQ(got.rdma, "mlx5_3");
	assert_true(got.was.spoofchk == 1 && got.was.trust == -1);
	assert_true(got.was.has_guid && got.was.node_guid == 0x0c42a1030016051c &&
		    got.was.port_guid == 0);
	ASSERT_EQ(vf_plan_missing(&(struct vf_attrs){VF_ATTR_ALL, r.was}, &got.was), 0);
}

/* --- files --- */

static void write_record(struct host_lab *h, struct vf_record *r)
{
	const struct sriov_conf c = {0};
	auto_buf struct buf b;

	print(r, &c, "{}", &b);
	OK(vf_record_save(&h->root, &sriov_store, r, buf_span(&b), &e));
}

static int mode_of(struct host_lab *h, const char *path)
{
	struct stat st;

	ASSERT_EQ(file_lstat(&h->root, path, &st, NULL), 0);
	return st.st_mode & 07777;
}

static int count(void *arg, struct vf_record *r, struct err *err)
{
	(void)err;
	assert_non_null(r->file);
	++*(int *)arg;
	return 0;
}

static void test_record_files_are_saved_listed_and_removed(void **state)
{
	auto_vf_record struct vf_record r = sample(), got = {0};
	struct host_lab h;
	int n = 0;

	(void)state;
	host_unpack(&h, "qemu_igb.tree");
	ASSERT_EQ(vf_record_load(&h.root, &sriov_store, "c1", "net1", &got, &e), -ENOENT);
	OK(vf_record_each(&h.root, &sriov_store, count, &n, &e));
	fill_own(&r);
	write_record(&h, &r);
	ASSERT_STR_EQ(r.file, "c1-net1");
	ASSERT_EQ(mode_of(&h, "/var/lib/cni/sriov/c1-net1"), 0600);
	ASSERT_EQ(mode_of(&h, "/var/lib/cni/sriov"), 0700);
	/* temporary files, damaged records and the directory pci are not listed */
	host_write(&h, "/var/lib/cni/sriov/.c1-net2.0123.tmp", "{}");
	host_write(&h, "/var/lib/cni/sriov/c2-net1", "{\"deviceID\":");
	host_write(&h, "/var/lib/cni/sriov/pci/0000:3b:00.2", "/run/netns/p");
	OK(vf_record_each(&h.root, &sriov_store, count, &n, &e));
	ASSERT_EQ(n, 1);
	OK(vf_record_load(&h.root, &sriov_store, "c1", "net1", &got, &e));
	ASSERT_STR_EQ(got.file, "c1-net1");
	vf_record_done(&got);
	ASSERT_EQ(vf_record_load(&h.root, &sriov_store, "c2", "net1", &got, &e), -EINVAL);
	assert_non_null(strstr(e.text, "/var/lib/cni/sriov/c2-net1"));
	OK(vf_record_remove(&h.root, &sriov_store, "c1-net1", &e));
	OK(vf_record_remove(&h.root, &sriov_store, "c1-net1", &e));
	n = 0;
	OK(vf_record_each(&h.root, &sriov_store, count, &n, &e));
	ASSERT_EQ(n, 0);
	host_remove(&h);
}

/* The record of the original plugin has neither container nor interface; its file name has both. */
static void test_record_of_the_original_gets_container_and_interface_of_its_file_name(void **state)
{
	auto_vf_record struct vf_record got = {0};
	struct host_lab h;

	(void)state;
	host_unpack(&h, "qemu_igb.tree");
	host_write(&h, "/var/lib/cni/sriov/c-1-net1", original);
	OK(vf_record_load(&h.root, &sriov_store, "c-1", "net1", &got, &e));
	ASSERT_STR_EQ(got.container, "c-1");
	ASSERT_STR_EQ(got.ifname, "net1");
	host_remove(&h);
}

/* --- the owner of a VF --- */

static void test_owner_of_a_vf_is_written_and_read(void **state)
{
	auto_free char *netns = NULL;
	struct host_lab h;
	char path[64];

	(void)state;
	host_unpack(&h, "qemu_igb.tree");
	ASSERT_EQ(vf_owner_read(&h.root, "0000:3b:00.2", &netns, &e), -ENOENT);
	OK(vf_owner_write(&h.root, "0000:3b:00.2", "/run/netns/p", &e));
	OK(vf_owner_read(&h.root, "0000:3b:00.2", &netns, &e));
	ASSERT_STR_EQ(netns, "/run/netns/p");
	OK(vf_owner_remove(&h.root, "0000:3b:00.2", &e));
	OK(vf_owner_remove(&h.root, "0000:3b:00.2", &e));
	assert_false(file_exists(&h.root, "/var/lib/cni/sriov/pci/0000:3b:00.2"));
	assert_true(vf_owner_lives("/proc/self/ns/net"));
	assert_false(vf_owner_lives("/run/netns/there-is-none"));
	assert_false(vf_owner_lives(""));
	/* the file that remains when the namespace is unmounted */
	snprintf(path, sizeof(path), "%s/run/empty", h.dir);
	host_write(&h, "/run/empty", "");
	assert_false(vf_owner_lives(path));
	host_remove(&h);
}

static void test_error_for_a_vf_in_use_names_its_pod(void **state)
{
	auto_vf_record struct vf_record r = sample(), other = sample(), got = {0};
	struct host_lab h;

	(void)state;
	host_unpack(&h, "qemu_igb.tree");
	FAILS(vf_in_use(&h.root, "0000:3b:00.2", "/run/netns/p", &e), -EBUSY,
	      "pci address 0000:3b:00.2 is already allocated: another pod has the VF (no record names the pod; network namespace '/run/netns/p')");
	host_write(&h, "/var/lib/cni/sriov/0-net1", original);
	FAILS(vf_in_use(&h.root, "0000:3b:00.2", "/run/netns/p", &e), -EBUSY,
	      "pci address 0000:3b:00.2 is already allocated: another pod has the VF (record "
	      "'0-net1'; network namespace '/run/netns/p')");
	fill_own(&r);
	write_record(&h, &r);
	fill_own(&other);
	strcpy(other.container, "c2");
	strcpy(other.netns, "/run/netns/q");
	write_record(&h, &other);
	/* of two records of a VF, the one that has the given namespace takes precedence */
	assert_true(vf_record_of(&h.root, NULL, "0000:3b:00.2", "/run/netns/q", &got));
	ASSERT_STR_EQ(got.container, "c2");
	assert_true(vf_record_is_others(&h.root, "0000:3b:00.2", "c2", "net1"));
	assert_true(vf_record_is_others(&h.root, "0000:3b:00.2", "c1", "net2"));
	assert_false(vf_record_is_others(&h.root, "0000:3b:00.3", "c2", "net1"));
	assert_null(vf_owner(&h.root, "0000:3b:00.2"));
	FAILS(vf_in_use(&h.root, "0000:3b:00.2", "/run/netns/p", &e), -EBUSY,
	      "pci address 0000:3b:00.2 is already allocated: another pod has the VF (pod "
	      "'team/p', container 'c1', interface 'net1'; network namespace '/run/netns/p')");
	ASSERT_EQ(e.kind, ERR_AGAIN);
	vf_record_done(&got);
	assert_false(vf_record_of(&h.root, NULL, "0000:3b:00.3", NULL, &got));
	host_remove(&h);
}

/* A VF that a pod uses through ib-sriov is in use for sriov as well. */
static void test_error_for_a_vf_in_use_by_ib_sriov_names_its_pod(void **state)
{
	static const char ib[] =
		"{\"deviceID\":\"0000:3b:00.2\",\"name\":\"ib\",\"unirail\":{\"container\":\"c9\","
		"\"ifname\":\"ib0\",\"netns\":\"/proc/self/ns/net\",\"pod\":\"team/ib\"}}";
	auto_vf_record struct vf_record got = {0};
	auto_free char *netns = NULL;
	struct host_lab h;

	(void)state;
	host_unpack(&h, "mlx5_ib.tree");
	assert_null(vf_owner(&h.root, "0000:3b:00.2"));
	host_write(&h, "/var/lib/cni/ib-sriov/c9-ib0", ib);
	netns = vf_owner(&h.root, "0000:3b:00.2");
	assert_non_null(netns);
	FAILS(vf_in_use(&h.root, "0000:3b:00.2", netns, &e), -EBUSY,
	      "pci address 0000:3b:00.2 is already allocated: another pod has the VF (pod "
	      "'team/ib', container 'c9', interface 'ib0'; network namespace "
	      "'/proc/self/ns/net')");
	assert_true(vf_record_of(&h.root, &ib_sriov_store, "0000:3b:00.2", NULL, &got));
	vf_record_done(&got);
	assert_false(vf_record_of(&h.root, &sriov_store, "0000:3b:00.2", NULL, &got));
	assert_true(vf_record_is_others(&h.root, "0000:3b:00.2", "c1", "net1"));
	assert_false(vf_record_is_others(&h.root, "0000:3b:00.2", "c9", "ib0"));
	host_remove(&h);
}

/* --- locks --- */

static void test_vf_locks_are_exclusive_and_a_vf_listed_twice_is_refused(void **state)
{
	const char *const two[] = {"0000:3b:00.3", "0000:3b:00.2"};
	const char *const twice[] = {"0000:3b:00.3", "0000:3b:00.2", "0000:3b:00.3"};
	struct host_lab h;
	int fds[3], again;

	(void)state;
	host_unpack(&h, "qemu_igb.tree");
	ASSERT_EQ(vf_lock(&h.root, twice, 3, fds, &e), -EEXIST);
	assert_non_null(
		strstr(e.text, "'0000:3b:00.3' is also that of another network of this pod"));
	assert_true(fds[0] == -1 && fds[1] == -1 && fds[2] == -1);
	OK(vf_lock(&h.root, two, 2, fds, &e));
	ASSERT_EQ(mode_of(&h, "/var/lib/cni/sriov/pci/vf_lock/0000:3b:00.3.lock"), 0600);
	ASSERT_EQ(lock_take(&h.root, "/var/lib/cni/sriov/pci/vf_lock/0000:3b:00.2.lock", 0, &again,
			    NULL),
		  -EWOULDBLOCK);
	cleanup_fd(&fds[1]);
	OK(lock_take(&h.root, "/var/lib/cni/sriov/pci/vf_lock/0000:3b:00.2.lock", 0, &again, &e));
	cleanup_fd(&fds[0]);
	cleanup_fd(&again);
	host_remove(&h);
}

/* Two processes lock the same VFs in opposite order, 20 times each, without a deadlock. */
static void test_opposite_lock_orders_do_not_deadlock(void **state)
{
	const char *const there[] = {"0000:3b:00.2", "0000:3b:00.3"};
	const char *const back[] = {"0000:3b:00.3", "0000:3b:00.2"};
	struct host_lab h;
	int fds[2], status;
	pid_t child;

	(void)state;
	host_unpack(&h, "qemu_igb.tree");
	child = fork();
	assert_true(child >= 0);
	for (int i = 0; i < 20; i++) {
		OK(vf_lock(&h.root, child ? there : back, 2, fds, &e));
		cleanup_fd(&fds[0]);
		cleanup_fd(&fds[1]);
	}
	if (!child)
		_exit(0);
	ASSERT_EQ(waitpid(child, &status, 0), child);
	ASSERT_EQ(status, 0);
	host_remove(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_record_of_the_original_is_read),
		cmocka_unit_test(test_dpdk_record_of_the_original_is_read),
		cmocka_unit_test(test_invalid_records_are_refused),
		cmocka_unit_test(test_written_record_has_the_bytes_of_the_original),
		cmocka_unit_test(test_record_has_the_requested_attributes),
		cmocka_unit_test(test_written_record_is_read_back),
		cmocka_unit_test(test_record_files_are_saved_listed_and_removed),
		cmocka_unit_test(
			test_record_of_the_original_gets_container_and_interface_of_its_file_name),
		cmocka_unit_test(test_owner_of_a_vf_is_written_and_read),
		cmocka_unit_test(test_error_for_a_vf_in_use_names_its_pod),
		cmocka_unit_test(test_error_for_a_vf_in_use_by_ib_sriov_names_its_pod),
		cmocka_unit_test(test_vf_locks_are_exclusive_and_a_vf_listed_twice_is_refused),
		cmocka_unit_test(test_opposite_lock_orders_do_not_deadlock),
	};

	return T_RUN(tests, NULL, NULL);
}
