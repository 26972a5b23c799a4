/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which device belongs to an address, matching of rails with the rails of the peer, the data
 * pattern, and number formats.
 */
#include "testlib.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/verify/verify.h"
#include "wire/json/json.h"

#define GID4(a, b, c, d)                                                                           \
	{                                                                                          \
		0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d                               \
	}
#define IB_GID                                                                                     \
	{                                                                                          \
		0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0xa0, 0x88, 0xc2, 3, 0, 0xe0, 0, 1                   \
	}

/* A pod with a shared device: indexes 4 and 5 are the pod's GIDs, 2 and 3 those of another pod with
 * the same address. */
static struct verbs_gid mlx5_0_gids[] = {
	{0, 1, VERBS_GID_ROCE_V1, GID4(172, 16, 1, 1), 2},
	{1, 1, VERBS_GID_ROCE_V2, GID4(172, 16, 1, 1), 2},
	{2, 1, VERBS_GID_ROCE_V1, GID4(172, 16, 1, 10), 9},
	{3, 1, VERBS_GID_ROCE_V2, GID4(172, 16, 1, 10), 9},
	{4, 1, VERBS_GID_ROCE_V1, GID4(172, 16, 1, 10), 3},
	{5, 1, VERBS_GID_ROCE_V2, GID4(172, 16, 1, 10), 3},
};
static struct verbs_gid mlx5_1_gids[] = {
	{0, 1, VERBS_GID_ROCE_V2, GID4(172, 16, 2, 10), 4},
	{1, 1, VERBS_GID_ROCE_V2, {0xfd, 0, [15] = 10}, 4},
};
static struct verbs_gid mlx5_2_gids[] = {{0, 1, VERBS_GID_IB, IB_GID, 0}};
static struct verbs_port eth_port[] = {{1, true, 4, 0, 4096}};
static struct verbs_port ib_port[] = {{1, false, 4, 7, 2048}};
static struct verify_dev devs[] = {
	{"mlx5_0", eth_port, 1, mlx5_0_gids, ARRAY_LEN(mlx5_0_gids)},
	{"mlx5_1", eth_port, 1, mlx5_1_gids, ARRAY_LEN(mlx5_1_gids)},
	{"mlx5_2", ib_port, 1, mlx5_2_gids, ARRAY_LEN(mlx5_2_gids)},
};
static struct link links[] = {
	{.index = 1, .name = "lo", .mtu = 65536},
	{.index = 3, .name = "net1", .mtu = 9000},
	{.index = 4, .name = "net10", .mtu = 1500},
	{.index = 5, .name = "net2", .mtu = 2044, .mac = {20, {0,    0, 1, 9,	 0xfe, 0x80, 0,
							       0,    0, 0, 0,	 0,    0xa0, 0x88,
							       0xc2, 3, 0, 0xe0, 0,    1}}},
	{.index = 6, .name = "eth0", .mtu = 1500},
};
static struct addr addrs[] = {
	{.index = 1, .net = {{4, {127, 0, 0, 1}}, 8}},
	{.index = 3, .net = {{4, {172, 16, 1, 10}}, 24}},
	{.index = 3, .net = {{6, {0xfe, 0x80, [15] = 1}}, 64}},
	{.index = 4, .net = {{6, {0xfd, 0, [15] = 10}}, 64}},
	{.index = 4, .net = {{4, {172, 16, 2, 10}}, 24}},
	{.index = 5, .net = {{4, {172, 16, 3, 10}}, 24}},
	{.index = 6, .net = {{4, {10, 0, 0, 5}}, 24}},
};
static char none[] = "";
static const struct verify_facts facts = {
	devs, ARRAY_LEN(devs), links, ARRAY_LEN(links), addrs, ARRAY_LEN(addrs), none, true,
};
static const struct verify_choice find_it = {NULL, 0, -1};

static void test_rails_of_a_pod_are_listed(void **state)
{
	auto_free struct verify_rail *v = NULL;
	size_t n;

	(void)state;
	verify_rails(&facts, &v, &n);
	ASSERT_EQ(n, 4);
	ASSERT_STR_EQ(v[0].ifname, "net1");
	ASSERT_STR_EQ(v[0].dev->name, "mlx5_0");
	ASSERT_EQ(v[0].gid_index, 5);
	ASSERT_EQ(v[0].mtu, 4096);
	ASSERT_STR_EQ(v[1].ifname, "net2");
	ASSERT_STR_EQ(v[1].dev->name, "mlx5_2");
	ASSERT_EQ(v[1].gid_index, -1);
	ASSERT_EQ(v[1].mtu, 2048);
	/* Rails are ordered by the number in the interface name (net2 before net10), IPv4 before
	 * IPv6. The MTU of the interface limits the RDMA MTU. */
	ASSERT_STR_EQ(v[2].ifname, "net10");
	ASSERT_EQ(v[2].net.ip.family, 4);
	ASSERT_EQ(v[2].gid_index, 0);
	ASSERT_EQ(v[2].mtu, 1024);
	ASSERT_EQ(v[3].gid_index, 1);
}

static void test_device_of_an_address_is_selected(void **state)
{
	const struct verify_choice forced = {"mlx5_0", 1, 1}, lid = {"mlx5_2", 0, -1};
	struct ipaddr a = t_ip("172.16.1.10"), eth0 = t_ip("10.0.0.5");
	struct verify_rail r;

	(void)state;
	ASSERT_EQ(verify_pick(&facts, &a, &find_it, &r, NULL), 0);
	ASSERT_EQ(r.gid_index, 5);
	ASSERT_EQ(verify_pick(&facts, &a, &forced, &r, NULL), 0);
	ASSERT_EQ(r.gid_index, 1);
	ASSERT_EQ(r.gid[15], 1);
	/* A port of InfiniBand is selected by its device: it needs neither an address nor a GID
	 * index. */
	ASSERT_EQ(verify_pick(&facts, &eth0, &lid, &r, NULL), 0);
	ASSERT_EQ(r.gid_index, -1);
	ASSERT_EQ(r.gid[0], 0xfe);
	ASSERT_STR_EQ(r.ifname, "");
}

static void pick_fails(const struct verify_facts *f, const char *local,
		       const struct verify_choice *c, const char *says)
{
	struct ipaddr a = t_ip(local);
	struct verify_rail r;
	struct err e = ERR_INIT;

	assert_true(verify_pick(f, &a, c, &r, &e) < 0);
	if (!strstr(e.text, says))
		fail_msg("'%s' does not contain '%s'", e.text, says);
}

static void test_failed_selection_lists_existing_devices(void **state)
{
	static char reason[] = "mlx4_0: no provider";
	const struct verify_choice absent = {"mlx5_7", 0, -1}, port = {"mlx5_0", 2, -1},
				   index = {"mlx5_1", 0, 9}, no_gid = {"mlx5_1", 0, -1};
	struct verify_facts f = {.reason = none};

	(void)state;
	pick_fails(
		&facts, "10.0.0.5", &find_it,
		"no RDMA device has a port for address 10.0.0.5 (with --port: the port of that number); addresses with an RDMA device: 172.16.1.10 "
		"(net1, mlx5_0), 172.16.3.10 (net2, mlx5_2)");
	pick_fails(&facts, "10.0.0.5", &absent,
		   "no usable RDMA device 'mlx5_7'; usable are: mlx5_0, mlx5_1");
	pick_fails(&facts, "172.16.1.10", &port, "'mlx5_0' has no port 2; it has 1");
	pick_fails(&facts, "10.0.0.5", &index,
		   "'mlx5_1' has no GID with index 9 on port 1; it has: 0 172.16.2.10 (RoCE v2), 1 "
		   "fd00::a (RoCE v2)");
	pick_fails(&facts, "10.0.0.5", &no_gid,
		   "'mlx5_1' has no RoCE v2 GID for 10.0.0.5 on port 1; it has: 0 172.16.2.10");
	pick_fails(&f, "10.0.0.5", &find_it, "module ib_core is not loaded");
	f.supported = true;
	pick_fails(&f, "10.0.0.5", &find_it, "no RDMA devices in this network namespace");
	f.reason = reason;
	pick_fails(&f, "10.0.0.5", &find_it, "no usable RDMA device: mlx4_0: no provider");
}

static void test_long_list_of_devices_is_truncated(void **state)
{
	struct verify_dev many[200] = {0};
	struct verify_facts f = {.devs = many, .n_devs = 200, .reason = none, .supported = true};
	const struct verify_choice absent = {"mlx5_7", 0, -1};

	(void)state;
	for (size_t i = 0; i < 200; i++)
		strcpy(many[i].name, "rocep23s0f0");
	pick_fails(&f, "10.0.0.5", &absent, "...");
}

static void test_rails_are_matched_by_subnet_then_name(void **state)
{
	const struct verify_rail near[] = {
		{.ifname = "net1", .net = {{4, {172, 16, 1, 10}}, 24}},
		{.ifname = "net2", .net = {{4, {172, 16, 2, 10}}, 27}},
		{.ifname = "net2", .net = {{6, {0xfd, 2, [15] = 10}}, 64}},
		{.ifname = "net3", .net = {{4, {172, 16, 3, 10}}, 24}},
	};
	const struct verify_far far[] = {
		{"net2", "mlx5_1", {{4, {172, 16, 2, 40}}, 27}},
		{"net9", "mlx5_8", {{4, {172, 16, 1, 11}}, 24}},
		{"net1", "mlx5_0", {{4, {172, 16, 9, 11}}, 24}},
		{"net2", "mlx5_2", {{4, {172, 16, 2, 12}}, 27}},
	};
	int ret[4];

	(void)state;
	verify_match(near, 4, far, 4, ret);
	ASSERT_EQ(ret[0], 1); /* the subnet has precedence over the name */
	ASSERT_EQ(ret[1], 3); /* subnet and name have precedence over the name alone */
	verify_match(near, 4, far, 3, ret);
	/* net2 of one node and net2 of the other are in different subnets: matched by name */
	ASSERT_EQ(ret[1], 0);
	ASSERT_EQ(ret[2], -1);
	ASSERT_EQ(ret[3], -1);
}

static void test_rdma_mtu_is_the_largest_that_fits_but_at_least_256(void **state)
{
	static const struct {
		uint32_t link, rdma;
	} all[] = {{9000, 4096}, {4192, 4096}, {4191, 2048}, {1500, 1024}, {1119, 512}, {68, 256}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		ASSERT_EQ_MSG(verify_roce_mtu(all[i].link), all[i].rdma, "all[%zu]", i);
}

static void test_wrong_bytes_are_detected_with_their_position(void **state)
{
	uint8_t buf[1003];
	char says[64];
	struct err e = ERR_INIT;

	(void)state;
	verify_fill(buf, sizeof(buf), 42);
	ASSERT_EQ(verify_compare(buf, sizeof(buf), 42, NULL), 0);
	for (size_t i = 0; i < sizeof(buf); i++) {
		buf[i] ^= 0x10;
		ASSERT_EQ(verify_compare(buf, sizeof(buf), 42, &e), -EBADMSG);
		snprintf(says, sizeof(says), "1 of 1003 bytes, the first at %zu (", i);
		assert_non_null(strstr(e.text, says));
		buf[i] ^= 0x10;
	}
	ASSERT_EQ(verify_compare(buf, sizeof(buf), 43, NULL), -EBADMSG);
	/* a slot that received the bytes of another slot */
	memmove(buf + 512, buf, 256);
	ASSERT_EQ(verify_compare(buf, sizeof(buf), 42, NULL), -EBADMSG);
}

static void test_host_and_port_are_parsed(void **state)
{
	struct verify_place p;
	struct err e = ERR_INIT;
	static const struct {
		const char *text, *host;
		uint16_t port;
	} good[] = {
		{"172.16.1.10", "172.16.1.10", VERIFY_PORT},
		{"node2:9000", "node2", 9000},
		{"fd00::1", "fd00::1", VERIFY_PORT},
		{"[fd00::1]", "fd00::1", VERIFY_PORT},
		{"[fd00::1]:9000", "fd00::1", 9000},
		{":9000", "", 9000},
		{"", "", VERIFY_PORT},
	};
	static const char *const bad[] = {
		"a:0", "a:65536", "a:", "a:b", "[fd00::1]9000", "[fd00::1]:"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		ASSERT_EQ_MSG(verify_place_parse(good[i].text, &p, &e), 0, "good[%zu]", i);
		ASSERT_STR_EQ_MSG(p.host, good[i].host, "good[%zu]", i);
		ASSERT_EQ_MSG(p.port, good[i].port, "good[%zu]", i);
	}
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		ASSERT_EQ_MSG(verify_place_parse(bad[i], &p, &e), -EINVAL, "bad[%zu]", i);
		assert_non_null(strstr(e.text, "expected HOST, HOST:PORT or [IPV6]:PORT"));
	}
}

static void test_rates_and_times_are_formatted(void **state)
{
	char s[VERIFY_NUMBER_MAX];

	(void)state;
	ASSERT_STR_EQ(verify_rate_str(0, s), "0.00 b/s");
	ASSERT_STR_EQ(verify_rate_str(12500000000, s), "100 Gb/s");
	ASSERT_STR_EQ(verify_rate_str(12157500000, s), "97.3 Gb/s");
	ASSERT_STR_EQ(verify_rate_str(154321, s), "1.23 Mb/s");
	ASSERT_STR_EQ(verify_time_str(830, s), "0.83 us");
	ASSERT_STR_EQ(verify_time_str(12345, s), "12.3 us");
	ASSERT_STR_EQ(verify_time_str(4300000, s), "4.30 ms");
	ASSERT_STR_EQ(verify_time_str(61000000000, s), "61.0 s");
	ASSERT_STR_EQ(verify_size_str(8, s), "8 bytes");
	ASSERT_STR_EQ(verify_size_str(65536, s), "64.0 KiB");
	ASSERT_STR_EQ(verify_size_str((uint64_t)3 << 30, s), "3.00 GiB");
}

static const struct verify_result results[] = {
	{.ifname = "net1",
	 .device = "mlx5_0",
	 .peer_ifname = "net1",
	 .peer_device = "mlx5_0",
	 .net = {{4, {172, 16, 1, 10}}, 24},
	 .peer_net = {{4, {172, 16, 1, 11}}, 24},
	 .port = 1,
	 .peer_port = 1,
	 .gid_index = 5,
	 .peer_gid_index = 3,
	 .ethernet = true,
	 .size = 65536,
	 .mtu = 4096,
	 .link_mtu = 9000,
	 .peer_link_mtu = 4200,
	 .checked = 20971520,
	 .lat_min_ns = 1100,
	 .lat_p50_ns = 1230,
	 .lat_p99_ns = 2000,
	 .bytes = 25000000000,
	 .rate = 12157500000},
	{.ifname = "net2",
	 .device = "mlx5_1",
	 .net = {{4, {172, 16, 2, 10}}, 24},
	 .err = {.code = -ETIMEDOUT, .text = "no answer"}},
};

static void test_results_are_shown_as_text(void **state)
{
	auto_free char *out = NULL;
	size_t size;
	FILE *f = open_memstream(&out, &size);

	(void)state;
	verify_show_one(&results[0], f);
	verify_show_table(results, 2, f);
	fclose(f);
	ASSERT_STR_EQ(
		out,
		"172.16.1.10 (net1, mlx5_0 port 1, GID 5) and 172.16.1.11 (net1, mlx5_0 port 1, GID 3)\n"
		"RoCE, RDMA MTU 4096\n"
		"  data       20.0 MiB by RDMA write, every byte correct\n"
		"  latency    1.23 us (least 1.10 us, 99 of 100 within 2.00 us)\n"
		"  bandwidth  97.3 Gb/s (RDMA write, messages of 64.0 KiB, 23.3 GiB in all)\n"
		"  note       MTU 9000 of 'net1' here differs from 4200 of 'net1' at the peer: set 9000 on both "
		"('unirail host addr NIC --mtu 9000' on the host, mtu in the pods' network)\n"
		"INTERFACE  ADDRESS      DEVICE  PEER         PEER DEVICE  MTU   DATA CHECK  LATENCY  "
		"BANDWIDTH\n"
		"net1       172.16.1.10  mlx5_0  172.16.1.11  mlx5_0       4096  right       1.23 us  "
		"97.3 Gb/s\n"
		"net2       172.16.2.10  mlx5_1  -            -            -     -           -        "
		"-\n"
		"net1 172.16.1.10: MTU 9000 of 'net1' here differs from 4200 of 'net1' at the peer: set 9000 on both "
		"('unirail host addr NIC --mtu 9000' on the host, mtu in the pods' network)\n"
		"net2 172.16.2.10: no answer\n"
		"1 of 2 rails failed\n");
}

static void test_results_are_shown_as_json(void **state)
{
	auto_json struct json_doc *d = NULL;
	auto_buf struct buf b;
	const struct json *rail;
	int64_t v;

	(void)state;
	buf_init(&b, 1 << 16);
	verify_show_json(results, 2, &b);
	ASSERT_EQ(json_parse(&d, buf_span(&b), 1 << 16, NULL), 0);
	assert_false(json_bool(json_get(json_root(d), "ok")));
	rail = json_at(json_get(json_root(d), "rails"), 0);
	assert_true(json_bool(json_get(rail, "ok")));
	ASSERT_EQ(json_kind(json_get(rail, "error")), JSON_NULL);
	ASSERT_EQ(json_int(json_get(json_get(rail, "here"), "gidIndex"), &v), 0);
	ASSERT_EQ(v, 5);
	ASSERT_EQ(json_int(json_get(rail, "bytesPerSecond"), &v), 0);
	ASSERT_EQ(v, 12157500000);
	rail = json_at(json_get(json_root(d), "rails"), 1);
	ASSERT_STR_EQ(json_string(json_get(rail, "error")), "no answer");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rails_of_a_pod_are_listed),
		cmocka_unit_test(test_device_of_an_address_is_selected),
		cmocka_unit_test(test_long_list_of_devices_is_truncated),
		cmocka_unit_test(test_failed_selection_lists_existing_devices),
		cmocka_unit_test(test_rails_are_matched_by_subnet_then_name),
		cmocka_unit_test(test_rdma_mtu_is_the_largest_that_fits_but_at_least_256),
		cmocka_unit_test(test_wrong_bytes_are_detected_with_their_position),
		cmocka_unit_test(test_host_and_port_are_parsed),
		cmocka_unit_test(test_rates_and_times_are_formatted),
		cmocka_unit_test(test_results_are_shown_as_text),
		cmocka_unit_test(test_results_are_shown_as_json),
	};

	return T_RUN(tests, NULL, NULL);
}
