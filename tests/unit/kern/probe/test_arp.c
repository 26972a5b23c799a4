/* SPDX-License-Identifier: Apache-2.0 */
#include "testlib.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "kern/probe/arp.h"

enum { ETHER = 1, IEEE802 = 6, INFINIBAND = 32, ETHER_BYTES = 28, IB_BYTES = 56 };

static const struct mac mine = {6, {0x0a, 0, 0, 0, 0, 1}};
static const struct mac sister = {6, {0x0a, 0, 0, 0, 0, 2}};
static const struct mac other = {6, {0x0a, 0, 0, 0, 0, 9}};
static const struct mac ib = {20, {0x80, 0, 0, 0x48, 0xfe, 0x80, [19] = 7}};

static void test_arp_probe_has_the_bytes_of_rfc_5227(void **state)
{
	static const uint8_t want[ETHER_BYTES] = {
		0, 1, 8, 0, 6, 4, 0,  1, 0x0a, 0, 0, 0, 0, 1, 0, 0, 0, 0, /* sender 0.0.0.0 */
		0, 0, 0, 0, 0, 0, 10, 0, 0,    2,
	};
	struct ipaddr a = t_ip("10.0.0.2");
	struct arp p = arp_probe(ETHER, &mine, &a);
	uint8_t out[ARP_BYTES_MAX];

	(void)state;
	ASSERT_EQ(arp_write(&p, out), ETHER_BYTES);
	assert_memory_equal(out, want, ETHER_BYTES);
}

static void test_arp_announcement_has_sender_and_target_address(void **state)
{
	struct ipaddr a = t_ip("10.0.0.2");
	struct arp p = arp_announcement(ETHER, &mine, &a), back;
	uint8_t out[ARP_BYTES_MAX];

	(void)state;
	ASSERT_EQ(arp_write(&p, out), ETHER_BYTES);
	ASSERT_EQ(arp_read((struct span){(char *)out, ETHER_BYTES}, &back), 0);
	ASSERT_EQ(back.op, ARP_REQUEST);
	assert_true(ip_eq(&back.spa, &a));
	assert_true(ip_eq(&back.tpa, &a));
}

/*
 * Spiderpool wrote hardware type 1 and length 6 before an address of 20 bytes, which no host could
 * parse.
 */
static void test_arp_on_infiniband_has_20_byte_addresses(void **state)
{
	struct ipaddr from = t_ip("10.0.0.2"), to = t_ip("10.0.0.1");
	struct arp p = arp_request(INFINIBAND, &ib, &from, &to), back;
	uint8_t out[ARP_BYTES_MAX];

	(void)state;
	ASSERT_EQ(arp_write(&p, out), IB_BYTES);
	ASSERT_EQ(out[1], INFINIBAND);
	ASSERT_EQ(out[4], 20);
	assert_memory_equal(out + 8, ib.b, 20);
	assert_memory_equal(out + 28, from.b, 4);
	assert_memory_equal(out + 52, to.b, 4);
	ASSERT_EQ(arp_read((struct span){(char *)out, IB_BYTES}, &back), 0);
	assert_true(mac_eq(&back.sha, &ib));
	ASSERT_EQ(arp_read((struct span){(char *)out, IB_BYTES - 1}, &back), -EBADMSG);
}

static void test_padded_arp_reply_is_decoded(void **state)
{
	uint8_t in[46] = {0,  1, 8, 0, 6, 4, 0, 2, 1, 2, 3,  4, 5, 6,
			  10, 0, 0, 1, 6, 5, 4, 3, 2, 1, 10, 0, 0, 2};
	struct ipaddr gw = t_ip("10.0.0.1"), a = t_ip("10.0.0.2");
	struct arp p;

	(void)state;
	ASSERT_EQ(arp_read((struct span){(char *)in, sizeof(in)}, &p), 0);
	ASSERT_EQ(p.op, ARP_REPLY);
	assert_true(ip_eq(&p.spa, &gw) && ip_eq(&p.tpa, &a));
	ASSERT_EQ(p.sha.b[5], 6);
	ASSERT_EQ(p.tha.b[5], 1);
	in[1] = IEEE802;
	ASSERT_EQ(arp_read((struct span){(char *)in, sizeof(in)}, &p), 0);
}

static void test_truncated_or_invalid_arp_packets_are_refused(void **state)
{
	static const struct {
		size_t at;
		uint8_t value;
	} bad[] = {
		{1, 24}, /* IEEE 1394 has no target hardware address */
		{1, INFINIBAND}, {0, 1},   {2, 0x86}, {3, 6}, {4, 0},
		{4, 20},	 {4, 255}, {5, 16},   {5, 0},
	};
	const uint8_t good[ETHER_BYTES] = {0, 1, 8, 0, 6, 4, 0, 1};
	struct arp p = {.op = 77};

	(void)state;
	for (size_t n = 0; n < sizeof(good); n++) {
		/* Allocated on the heap so that ASan detects a read past the end. */
		char *cut = xmalloc(n);

		memcpy(cut, good, n);
		ASSERT_EQ(arp_read((struct span){cut, n}, &p), -EBADMSG);
		cleanup_free(&cut);
	}
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		uint8_t in[ETHER_BYTES];

		memcpy(in, good, sizeof(in));
		in[bad[i].at] = bad[i].value;
		ASSERT_EQ_MSG(arp_read((struct span){(char *)in, sizeof(in)}, &p), -EBADMSG,
			      "bad[%zu]", i);
	}
	ASSERT_EQ(p.op, 77);
}

static void test_arp_packets_are_classified_as_conflict_or_gateway(void **state)
{
	const struct mac own[] = {mine, sister};
	const struct probe_ears q = {
		.ip = t_ip("10.0.0.2"), .gateway = t_ip("10.0.0.1"), .mine = own, .n_mine = 2};
	const struct {
		const char *what, *spa, *tpa;
		const struct mac *sha;
		uint16_t op;
		bool unicast;
		enum probe_saw want;
	} rows[] = {
		{"the owner of the address replies", "10.0.0.2", "0.0.0.0", &other, ARP_REPLY, true,
		 SAW_CONFLICT},
		{"the owner of the address requests another address", "10.0.0.2", "10.0.0.7",
		 &other, ARP_REQUEST, false, SAW_CONFLICT},
		{"the owner announces the address by gratuitous ARP", "10.0.0.2", "10.0.0.2",
		 &other, ARP_REQUEST, false, SAW_CONFLICT},
		{"another host probes the address", "0.0.0.0", "10.0.0.2", &other, ARP_REQUEST,
		 false, SAW_CONFLICT},
		{"a switch probes the address by unicast, to track its ports", "0.0.0.0",
		 "10.0.0.2", &other, ARP_REQUEST, true, SAW_NOTHING},
		{"this node's probe is looped back", "0.0.0.0", "10.0.0.2", &mine, ARP_REQUEST,
		 false, SAW_NOTHING},
		{"another rail of this node replies", "10.0.0.2", "0.0.0.0", &sister, ARP_REPLY,
		 true, SAW_NOTHING},
		{"another host resolves the address", "10.0.0.5", "10.0.0.2", &other, ARP_REQUEST,
		 false, SAW_NOTHING},
		{"another host probes another address", "0.0.0.0", "10.0.0.6", &other, ARP_REQUEST,
		 false, SAW_NOTHING},
		{"the gateway replies to the probe", "10.0.0.1", "10.0.0.2", &other, ARP_REPLY,
		 true, SAW_GATEWAY},
		{"the gateway resolves the address", "10.0.0.1", "10.0.0.2", &other, ARP_REQUEST,
		 true, SAW_NOTHING},
		{"the gateway announces its address by a reply to all", "10.0.0.1", "10.0.0.1",
		 &other, ARP_REPLY, false, SAW_NOTHING},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct arp a = {.htype = ETHER,
				.op = rows[i].op,
				.sha = *rows[i].sha,
				.spa = t_ip(rows[i].spa),
				.tpa = t_ip(rows[i].tpa)};
		struct mac owner = {0};

		if (arp_judge(&a, rows[i].unicast, &q, &owner) != rows[i].want)
			fail_msg("%s", rows[i].what);
		ASSERT_EQ_MSG(mac_eq(&owner, &other), rows[i].want != SAW_NOTHING, "rows[%zu]", i);
	}
}

/* A peer may report other flags in the first byte of the host's own IPoIB address. */
static void test_own_infiniband_address_is_no_conflict(void **state)
{
	const struct probe_ears q = {.ip = t_ip("10.0.0.2"), .mine = &ib, .n_mine = 1};
	struct arp a = arp_probe(INFINIBAND, &ib, &q.ip);
	struct mac owner = {0};

	(void)state;
	a.sha.b[0] = 0;
	ASSERT_EQ(arp_judge(&a, false, &q, &owner), SAW_NOTHING);
	a.sha.b[3] ^= 1; /* another queue pair */
	ASSERT_EQ(arp_judge(&a, false, &q, &owner), SAW_CONFLICT);
	ASSERT_EQ(owner.len, 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_arp_probe_has_the_bytes_of_rfc_5227),
		cmocka_unit_test(test_arp_announcement_has_sender_and_target_address),
		cmocka_unit_test(test_arp_on_infiniband_has_20_byte_addresses),
		cmocka_unit_test(test_padded_arp_reply_is_decoded),
		cmocka_unit_test(test_truncated_or_invalid_arp_packets_are_refused),
		cmocka_unit_test(test_arp_packets_are_classified_as_conflict_or_gateway),
		cmocka_unit_test(test_own_infiniband_address_is_no_conflict),
	};

	return T_RUN(tests, NULL, NULL);
}
