/* SPDX-License-Identifier: Apache-2.0 */
/* ib-sriov: netconf, GUIDs, and the cache file in the formats of the original and of unirail. */
#include "host_lab.h"
#include "kern_lab.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "cni/attach/attach.h"
#include "cni/device/vf_plan.h"
#include "cni/device/vf_stores.h"
#include "rail_lab.h"

#define VF "0000:3d:00.2"

static int read_text(const char *more, struct rail_conf *c)
{
	auto_free char *text = xasprintf("{'deviceID':'" VF "'%s%s}", *more ? "," : "", more);
	auto_free char *quoted = t_quoted(text);

	return rl_read(&ib_sriov_kind, quoted, NULL, c, &e);
}

static struct ib_sriov_conf conf(const char *more)
{
	struct rail_conf c;

	ASSERT_OK(read_text(more, &c), &e);
	return c.ib_sriov;
}

static void refused(const char *more, enum err_kind kind, const char *part)
{
	struct rail_conf c;

	assert_true(read_text(more, &c) < 0);
	ASSERT_HAS(e.text, part);
	ASSERT_EQ(e.kind, kind);
}

static void test_guid_is_taken_from_runtime_config_before_args(void **state)
{
	(void)state;
	assert_true(conf("").guid == 0);
	assert_true(conf("'runtimeConfig':{'infinibandGUID':'02:00:00:00:00:00:00:01'},"
			 "'args':{'cni':{'guid':'02:00:00:00:00:00:00:02'}}")
			    .guid == 0x0200000000000001);
	assert_true(conf("'args':{'cni':{'guid':'0C:42:A1:03:00:16:05:1C'}}").guid ==
		    0x0c42a1030016051c);
	/* The original fails if args.cni has a bool. */
	assert_true(conf("'args':{'cni':{'debug':true,'guid':'02:00:00:00:00:00:00:02'}}").guid ==
		    0x0200000000000002);
}

static void test_invalid_ib_sriov_configuration_is_refused(void **state)
{
	struct rail_conf c;

	(void)state;
	refused("'args':{'cni':{'guid':'00:00:00:00:00:00:00:00'}}", ERR_CONF,
		"invalid guid 00:00:00:00:00:00:00:00 (conf.args.cni.guid: expected one");
	refused("'runtimeConfig':{'infinibandGUID':'ff:ff:ff:ff:ff:ff:ff:ff'}", ERR_CONF,
		"invalid guid ff:ff:ff:ff:ff:ff:ff:ff (conf.runtimeConfig.infinibandGUID");
	refused("'args':{'cni':{'guid':'02:00'}}", ERR_CONF, "invalid guid 02:00");
	refused("'link_state':'up'", ERR_CONF, "invalid link_state value: up");
	refused("'ipam':{'type':'dhcp'}", ERR_UNSUPPORTED, "ipam type dhcp is not supported");
	refused("'guidPool':'02:00:00:00:00:00:00:01'", ERR_CONF, "conf.guidPool is");
	refused("'pkey':1000", ERR_CONF, "conf.pkey");
	refused("'ibKubernetesEnabled':true", ERR_AGAIN, "is not \"configured\"");
	refused("'ibKubernetesEnabled':true,'args':{'cni':{'mellanox.infiniband.app':'configured'}}",
		ERR_CONF, "GUID must be provided by ib-kubernetes");
	assert_true(conf("'ibKubernetesEnabled':true,'args':{'cni':{'mellanox.infiniband.app':"
			 "'configured','guid':'02:00:00:00:00:00:00:02'}}")
			    .guid != 0);
	/* DEL still reads the device from an invalid configuration. */
	assert_true(read_text("'link_state':'up'", &c) < 0);
	ASSERT_STR_EQ(c.ib_sriov.device_id, VF);
}

static void test_guid_is_taken_from_the_pool_by_vf_number(void **state)
{
	struct ib_guid_pool p;
	uint64_t guid;

	(void)state;
	OK(ib_guid_pool_parse("02:00:00:00:00:00:01:00-02:00:00:00:00:00:01:ff", &p, &e));
	OK(ib_guid_from_pool(&p, 255, &guid, &e));
	assert_true(guid == 0x02000000000001ff);
	ASSERT_EQ(ib_guid_from_pool(&p, 256, &guid, &e), -ERANGE);
	ASSERT_STR_EQ(e.text,
		      "conf.guidPool has 256 GUIDs, too few for VF 256 of the node (VFs are "
		      "numbered from 0 over all VFs that the node's HCAs support): make the pool "
		      "larger");
	assert_true(ib_guid_pool_parse("", &p, &e) < 0);
	assert_true(ib_guid_pool_parse("02:00:00:00:00:00:01:00-", &p, &e) < 0);
	assert_true(ib_guid_pool_parse("02:00:00:00:00:00:01:01-02:00:00:00:00:00:01:00", &p, &e) <
		    0);
}

/* The derived bytes must never change: the configuration of a subnet manager may contain the
 * GUID. */
static void test_guid_derived_from_the_pf_is_stable(void **state)
{
	uint64_t a = ib_guid_derive("00:02:c9:03:c2:ec:49:11", 0);
	uint64_t b = ib_guid_derive("00:02:c9:03:c2:ec:49:11", 1);
	char text[VF_GUID_TEXT_MAX];

	(void)state;
	ASSERT_STR_EQ(vf_guid_str(a, text), "b6:5b:ba:d8:8c:57:f3:30");
	assert_true(a != b);
	ASSERT_EQ(a >> 56 & 3, 2);
	ASSERT_EQ(b >> 56 & 3, 2);
	assert_true(ib_guid_valid(a));
	assert_false(ib_guid_valid(0));
	assert_false(ib_guid_valid(UINT64_MAX));
}

static void test_guid_of_a_link_is_read_from_its_address(void **state)
{
	struct mac ib = t_mac("80:00:00:81:fe:80:00:00:00:00:00:00:00:02:c9:03:c2:ec:49:11");
	struct mac eth = t_mac("02:00:00:00:00:01");

	(void)state;
	assert_true(ib_guid_of_link(&ib) == 0x0002c903c2ec4911);
	assert_true(ib_guid_of_link(&eth) == 0);
}

static void test_position_of_a_vf_counts_the_vfs_of_preceding_pfs(void **state)
{
	struct host_lab h;
	uint64_t n = 0;

	(void)state;
	host_unpack(&h, "mlx5_roce.tree");
	OK(ib_guid_place(&h.root, "0000:3d:00.0", 3, &n, &e));
	ASSERT_EQ(n, 3);
	OK(ib_guid_place(&h.root, "0000:3d:00.1", 3, &n, &e));
	ASSERT_EQ(n, 16 + 3);
	assert_true(ib_guid_place(&h.root, "0000:ff:00.0", 3, &n, &e) < 0);
	host_remove(&h);
}

/* --- the cache file --- */

#define LEGACY                                                                                     \
	"{\"ContIFNames\":\"net1\",\"HostIFGUID\":\"00:02:c9:03:c2:ec:49:11\","                    \
	"\"HostIFNames\":\"ib2\",\"Master\":\"ib0\",\"RdmaNetState\":{\"version\":\"1.0\","        \
	"\"deviceID\":\"" VF "\",\"sandboxRdmaDevName\":\"mlx5_2\",\"containerRdmaDevName\":"      \
	"\"mlx5_2\"},\"VFID\":3,\"args\":{\"cni\":{\"guid\":\"02:00:00:00:00:00:00:02\"}},"        \
	"\"cniVersion\":\"0.3.1\",\"deviceID\":\"" VF "\",\"ipam\":{\"type\":\"static\"},"         \
	"\"link_state\":\"enable\",\"name\":\"rail0\",\"pkey\":\"0x8001\",\"rdmaIsolation\":true," \
	"\"runtimeConfig\":{},\"type\":\"ib-sriov\""

static int parse(const char *text, struct vf_record *r)
{
	return ib_sriov_store.parse(span_of(text), r, &e);
}

static void test_cache_file_of_the_original_is_read(void **state)
{
	auto_vf_record struct vf_record r = {0};

	(void)state;
	OK(parse(LEGACY "}", &r));
	ASSERT_STR_EQ(r.device, VF);
	ASSERT_STR_EQ(r.name, "ib2");
	ASSERT_STR_EQ(r.pf, "ib0");
	ASSERT_STR_EQ(r.rdma, "mlx5_2");
	ASSERT_STR_EQ(r.network, "rail0");
	ASSERT_EQ(r.was.vf, 3);
	assert_true(r.was.has_guid);
	assert_true(r.was.port_guid == 0x0002c903c2ec4911);
	ASSERT_EQ(r.requested, VF_ATTR_GUID | VF_ATTR_LINK_STATE);
	assert_false(r.by_unirail);
}

static void test_written_cache_file_has_the_bytes_of_the_original_and_is_read_back(void **state)
{
	struct ib_sriov_conf c = conf("'args':{'cni':{'guid':'02:00:00:00:00:00:00:02'}},'pkey':"
				      "'0x8001','link_state':'enable','rdmaIsolation':true");
	const struct ib_netconf n = {.c = &c,
				     .version = "0.3.1",
				     .ipam_type = "static",
				     .host_guid = 0x0002c903c2ec4911,
				     .sets_guid = true};
	auto_vf_record struct vf_record r = {0}, back = {0};
	auto_buf struct buf b;

	(void)state;
	OK(parse(LEGACY "}", &r));
	r.by_unirail = true;
	r.container = xstrdup("c1");
	r.netns = xstrdup("/ns");
	r.was.node_guid = 0;
	r.was.port_guid = 0;
	r.up = true;
	buf_init(&b, 1 << 16);
	ib_record_print(&r, &n, &b);
	ASSERT_STR_EQ(buf_span(&b).p,
		      LEGACY ",\"unirail\":{\"altnames\":[],\"container\":\"c1\",\"dpdk\":false,"
			     "\"ifname\":\"net1\",\"netns\":\"/ns\",\"nodeGUID\":\"00:00:00:00:00:"
			     "00:00:00\",\"portGUID\":\"00:00:00:00:00:00:00:00\",\"rdma\":"
			     "\"mlx5_2\",\"spoofchk\":0,\"trust\":0,\"up\":true}}");
	OK(parse(buf_span(&b).p, &back));
	assert_true(back.by_unirail);
	assert_true(back.was.has_guid && back.was.port_guid == 0);
	ASSERT_STR_EQ(back.container, "c1");
	assert_true(back.up);
}

static void test_invalid_cache_files_are_refused(void **state)
{
	static const char *const bad[] = {"",
					  "[]",
					  "{}",
					  "{\"deviceID\":\"x\"}",
					  "{\"deviceID\":\"" VF "\",\"HostIFGUID\":\"x\"}",
					  "{\"deviceID\":\"" VF "\",\"HostIFNames\":\"a/b\"}"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct vf_record r = {0};

		if (parse(bad[i], &r) >= 0)
			fail_msg("'%s' is accepted, expected a refusal", bad[i]);
		vf_record_done(&r);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_guid_is_taken_from_runtime_config_before_args),
		cmocka_unit_test(test_invalid_ib_sriov_configuration_is_refused),
		cmocka_unit_test(test_guid_is_taken_from_the_pool_by_vf_number),
		cmocka_unit_test(test_guid_derived_from_the_pf_is_stable),
		cmocka_unit_test(test_guid_of_a_link_is_read_from_its_address),
		cmocka_unit_test(test_position_of_a_vf_counts_the_vfs_of_preceding_pfs),
		cmocka_unit_test(test_cache_file_of_the_original_is_read),
		cmocka_unit_test(
			test_written_cache_file_has_the_bytes_of_the_original_and_is_read_back),
		cmocka_unit_test(test_invalid_cache_files_are_refused),
	};

	return T_RUN(tests, NULL, rl_teardown);
}
