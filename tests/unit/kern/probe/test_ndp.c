/* SPDX-License-Identifier: Apache-2.0 */
#include "testlib.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "kern/probe/ndp.h"

enum { MSG = 40, OPTIONS = 64, ETH = 6, IB = 20 };

static const struct mac mine = {6, {0x0a, 0, 0, 0, 0, 1}};
static const struct mac other = {6, {0x0a, 0, 0, 0, 0, 9}};
static const struct mac ib = {20, {0x80, 0, 0, 0x48, 0xfe, 0x80, [19] = 7}};
static const uint8_t nonce[PROBE_NONCE] = {1, 2, 3, 4, 5, 6};

/* Sets length and checksum again after a test has changed the packet. */
static void seal(uint8_t *p, size_t n)
{
	uint32_t sum = 58 + (uint32_t)(n - MSG);

	p[4] = (uint8_t)((n - MSG) >> 8);
	p[5] = (uint8_t)(n - MSG);
	p[MSG + 2] = p[MSG + 3] = 0;
	for (size_t i = 8; i < n; i++)
		sum += i % 2 ? p[i] : (uint32_t)p[i] << 8;
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	p[MSG + 2] = (uint8_t)(~sum >> 8);
	p[MSG + 3] = (uint8_t)~sum;
}

/* The expected checksum was computed independently. In test_probe.c the kernel checks the
 * packets. */
static void test_ndp_probe_has_the_bytes_of_rfc_4861(void **state)
{
	static const uint8_t want[] = {
		0x60, 0, 0, 0, 0,   32, 58,   255,  0, 0, 0,  0, 0,    0, 0, 0, 0, 0,
		0,    0, 0, 0, 0,   0,	0xff, 2,    0, 0, 0,  0, 0,    0, 0, 0, 0, 1,
		0xff, 2, 0, 3, 135, 0,	0x66, 0x88, 0, 0, 0,  0, 0xfd, 0, 0, 0, 0, 0,
		0,    0, 0, 0, 0,   0,	0,    2,    0, 3, 14, 1, 1,    2, 3, 4, 5, 6,
	};
	struct ipaddr a = t_ip("fd00::2:3");
	struct ndp m = ndp_probe(&a, nonce);
	uint8_t out[NDP_BYTES_MAX], again[sizeof(want)];

	(void)state;
	ASSERT_EQ(ndp_write(&m, out), sizeof(want));
	memcpy(again, want, sizeof(want));
	seal(again, sizeof(again));
	assert_memory_equal(again, want, sizeof(want));
	assert_memory_equal(out, want, sizeof(want));
}

static void round_trip(const struct ndp *m, uint8_t lladdr_len, size_t size)
{
	uint8_t out[NDP_BYTES_MAX + 20] = {0};
	struct ndp back;
	size_t n = ndp_write(m, out);

	ASSERT_EQ(n, size);
	/* Ethernet padding: bytes after the packet are ignored */
	out[n] = 0xff;
	ASSERT_EQ(ndp_read((struct span){(char *)out, sizeof(out)}, lladdr_len, &back), 0);
	ASSERT_EQ(back.type, m->type);
	assert_true(ip_eq(&back.src, &m->src) && ip_eq(&back.dst, &m->dst));
	assert_true(ip_eq(&back.target, &m->target));
	assert_true(mac_eq(&back.lladdr, &m->lladdr));
	ASSERT_EQ(back.override, m->override);
	ASSERT_EQ(back.solicited, m->solicited);
	ASSERT_EQ(back.router, m->router);
	ASSERT_EQ(back.has_nonce, m->has_nonce);
}

static void test_written_ndp_messages_are_decoded(void **state)
{
	struct ipaddr a = t_ip("fd00::2"), gw = t_ip("fe80::1"), nodes = t_ip("ff02::1");
	struct ndp m = ndp_solicitation(&mine, &a, &gw);

	(void)state;
	round_trip(&m, ETH, 40 + 24 + 8);
	m = ndp_solicitation(&ib, &a, &gw);
	round_trip(&m, IB, 40 + 24 + 24);
	m = ndp_announcement(&mine, &a);
	assert_true(m.override && !m.solicited);
	assert_true(ip_eq(&m.dst, &nodes));
	round_trip(&m, ETH, 40 + 24 + 8);
	m = ndp_announcement(&ib, &a);
	round_trip(&m, IB, 40 + 24 + 24);
	m = ndp_probe(&a, nonce);
	round_trip(&m, IB, 40 + 24 + 8);
}

static void test_multicast_macs_are_derived_for_ethernet_and_infiniband(void **state)
{
	static const struct mac eth = {6, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff}};
	/* full membership of PKey 0x8001, site-local scope */
	static const struct mac bcast = {20,
					 {0, 0xff, 0xff, 0xff, 0xff, 0x15, 0x40, 0x1b, 0x80,
					  1, [16] = 0xff, 0xff, 0xff, 0xff}};
	static const uint8_t want_ib[20] = {0, 0xff, 0xff, 0xff, 0xff, 0x15, 0x60, 0x1b, 0x80, 1,
					    0, 0,    0,	   0,	 0,    1,    0xff, 2,	 0,    3};
	struct ipaddr a = t_ip("fd00::2:3"), group = ndp_solicited_node(&a);
	struct mac m = ndp_multicast_mac(&group, &eth);

	(void)state;
	ASSERT_EQ(m.len, 6);
	assert_memory_equal(m.b, "\x33\x33\xff\x02\x00\x03", 6);
	m = ndp_multicast_mac(&group, &bcast);
	ASSERT_EQ(m.len, 20);
	assert_memory_equal(m.b, want_ib, 20);
}

/* An advertisement with `n` bytes of options. */
static size_t advert(uint8_t *p, const void *options, size_t n)
{
	struct ipaddr a = t_ip("fd00::2"), us = t_ip("fd00::5");
	struct ndp m = {.type = NDP_ADVERTISE, .src = a, .dst = us, .target = a, .solicited = true};
	size_t len = ndp_write(&m, p);

	memcpy(p + len, options, n);
	seal(p, len + n);
	return len + n;
}

/* Spiderpool accepted a reply only if it had exactly one option. */
static void test_advertisement_may_have_any_options(void **state)
{
	static const uint8_t several[] = {
		14, 1, 0,    0, 0, 0, 0, 0,			    /* a nonce */
		2,  1, 0x0a, 0, 0, 0, 0, 9,			    /* the link address */
		77, 2, 0,    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, /* unknown */
	};
	static const uint8_t wrong_kind[] = {1, 1, 1, 2, 3, 4, 5, 6}, ib_size[24] = {2, 3};
	uint8_t p[256];
	struct ndp m;
	size_t n;

	(void)state;
	n = advert(p, several, sizeof(several));
	ASSERT_EQ(ndp_read((struct span){(char *)p, n}, ETH, &m), 0);
	assert_true(mac_eq(&m.lladdr, &other));
	n = advert(p, "", 0);
	ASSERT_EQ(ndp_read((struct span){(char *)p, n}, ETH, &m), 0);
	ASSERT_EQ(m.lladdr.len, 0);
	n = advert(p, wrong_kind, sizeof(wrong_kind));
	ASSERT_EQ(ndp_read((struct span){(char *)p, n}, ETH, &m), 0);
	ASSERT_EQ(m.lladdr.len, 0);
	n = advert(p, ib_size, sizeof(ib_size));
	ASSERT_EQ(ndp_read((struct span){(char *)p, n}, ETH, &m), 0);
	ASSERT_EQ(m.lladdr.len, 0);
}

static void test_malformed_ndp_options_are_refused(void **state)
{
	static const struct {
		size_t n;
		uint8_t b[16];
	} bad[] = {
		{8, {2, 0, 1, 2, 3, 4, 5, 6}}, /* length 0: parsing would not end */
		{8, {2, 2, 1, 2, 3, 4, 5, 6}}, /* the option is longer than the packet */
		{8, {77, 255}},
		{1, {2}},
		{9, {77, 1, 0, 0, 0, 0, 0, 0, 2}},
	};
	uint8_t p[256];
	struct ndp m;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		size_t n = advert(p, bad[i].b, bad[i].n);

		ASSERT_EQ_MSG(ndp_read((struct span){(char *)p, n}, ETH, &m), -EBADMSG, "bad[%zu]",
			      i);
	}
}

static void test_malformed_ndp_messages_are_refused(void **state)
{
	static const struct {
		size_t at;
		uint8_t value;
		const char *what;
	} bad[] = {
		{0, 0x45, "version 4 of IP"},
		{6, 17, "next header UDP"},
		{6, 0, "next header hop-by-hop options"},
		{7, 254, "hop limit below 255: the message came through a router"},
		{MSG, 134, "type router advertisement"},
		{MSG + 1, 1, "code other than 0"},
		{MSG + 8, 0xff, "target is a multicast group"},
		{8, 0xff, "source is a multicast group"},
		{24, 0xff, "solicited flag in a message to a multicast group"},
	};
	uint8_t good[256], p[256];
	size_t n = advert(good, "", 0);
	struct ndp m = {.type = 7};

	(void)state;
	for (size_t len = 0; len < n; len++) {
		char *cut = xmalloc(len);

		memcpy(cut, good, len);
		ASSERT_EQ(ndp_read((struct span){cut, len}, ETH, &m), -EBADMSG);
		cleanup_free(&cut);
	}
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		memcpy(p, good, n);
		p[bad[i].at] = bad[i].value;
		seal(p, n);
		if (ndp_read((struct span){(char *)p, n}, ETH, &m) != -EBADMSG)
			fail_msg("%s", bad[i].what);
	}
	memcpy(p, good, n);
	p[MSG + 9] ^= 1; /* checksum */
	ASSERT_EQ(ndp_read((struct span){(char *)p, n}, ETH, &m), -EBADMSG);
	memcpy(p, good, n);
	p[5] = 23; /* payload shorter than the message */
	ASSERT_EQ(ndp_read((struct span){(char *)p, n}, ETH, &m), -EBADMSG);
	p[4] = 0xff; /* payload longer than the packet */
	ASSERT_EQ(ndp_read((struct span){(char *)p, n}, ETH, &m), -EBADMSG);
	ASSERT_EQ(m.type, 7);
}

/* RFC 4861 7.1.1: a solicitation from :: has no source link-layer address option, and its
 * destination is a solicited-node multicast address. */
static void test_malformed_ndp_probes_are_refused(void **state)
{
	struct ipaddr a = t_ip("fd00::2"), group = t_ip("ff02::1");
	struct ndp m = ndp_probe(&a, nonce), back;
	uint8_t p[NDP_BYTES_MAX];
	size_t n;

	(void)state;
	m.lladdr = other;
	n = ndp_write(&m, p);
	ASSERT_EQ(ndp_read((struct span){(char *)p, n}, ETH, &back), -EBADMSG);
	m.lladdr.len = 0;
	m.dst = group;
	n = ndp_write(&m, p);
	ASSERT_EQ(ndp_read((struct span){(char *)p, n}, ETH, &back), -EBADMSG);
}

struct row {
	const char *what;
	uint8_t type;
	const char *src, *dst, *target;
	const struct mac *option, *frame;
	bool our_nonce;
	enum probe_saw want;
};

static void judge(const struct row *r, const struct probe_ears *q)
{
	const struct mac none = {0};
	struct ndp m = {.type = r->type,
			.src = t_ip(r->src),
			.dst = t_ip(r->dst),
			.target = t_ip(r->target),
			.has_nonce = r->our_nonce};
	struct mac owner = {0};

	memcpy(m.nonce, nonce, PROBE_NONCE);
	if (r->option)
		m.lladdr = *r->option;
	if (ndp_judge(&m, r->frame ? r->frame : &none, q, &owner) != r->want)
		fail_msg("%s", r->what);
	ASSERT_EQ(mac_eq(&owner, &other), r->want != SAW_NOTHING && (r->option || r->frame));
}

static void test_ndp_messages_are_classified_as_conflict_or_gateway(void **state)
{
	const struct probe_ears q = {.ip = t_ip("fd00::2"),
				     .gateway = t_ip("fe80::1"),
				     .mine = &mine,
				     .n_mine = 1,
				     .nonce = {1, 2, 3, 4, 5, 6}};
	static const struct row rows[] = {
		{"the owner of the address advertises it", NDP_ADVERTISE, "fd00::2", "ff02::1",
		 "fd00::2", &other, &other, 0, SAW_CONFLICT},
		{"the owner advertises the address without a link-layer option", NDP_ADVERTISE,
		 "fd00::2", "ff02::1", "fd00::2", NULL, &other, 0, SAW_CONFLICT},
		{"the owner advertises the address without option and sender (IPoIB)",
		 NDP_ADVERTISE, "fe80::9", "ff02::1", "fd00::2", NULL, NULL, 0, SAW_CONFLICT},
		{"the owner of the address solicits another address", NDP_SOLICIT, "fd00::2",
		 "ff02::1:ff00:7", "fd00::7", &other, &other, 0, SAW_CONFLICT},
		{"another host probes the address", NDP_SOLICIT, "::", "ff02::1:ff00:2", "fd00::2",
		 NULL, &other, 0, SAW_CONFLICT},
		{"this node's probe is looped back", NDP_SOLICIT, "::", "ff02::1:ff00:2", "fd00::2",
		 NULL, &mine, 0, SAW_NOTHING},
		{"this node's probe is looped back without a sender (IPoIB)", NDP_SOLICIT,
		 "::", "ff02::1:ff00:2", "fd00::2", NULL, NULL, 1, SAW_NOTHING},
		{"this node's kernel advertises the address", NDP_ADVERTISE, "fd00::2", "ff02::1",
		 "fd00::2", &mine, &mine, 0, SAW_NOTHING},
		{"another host resolves the address", NDP_SOLICIT, "fd00::5", "ff02::1:ff00:2",
		 "fd00::2", &other, &other, 0, SAW_NOTHING},
		{"another address with the same last bytes is advertised", NDP_ADVERTISE, "fd01::2",
		 "ff02::1", "fd01::2", &other, &other, 0, SAW_NOTHING},
		{"the gateway advertises its address to the prober", NDP_ADVERTISE, "fe80::1",
		 "fd00::2", "fe80::1", &other, &other, 0, SAW_GATEWAY},
		{"the gateway advertises its address without a link-layer option", NDP_ADVERTISE,
		 "fe80::1", "fd00::2", "fe80::1", NULL, &other, 0, SAW_GATEWAY},
		{"the gateway advertises its address to all nodes", NDP_ADVERTISE, "fe80::1",
		 "ff02::1", "fe80::1", &other, &other, 0, SAW_NOTHING},
		{"the gateway solicits the address", NDP_SOLICIT, "fe80::1", "fd00::2", "fd00::2",
		 &other, &other, 0, SAW_NOTHING},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		judge(&rows[i], &q);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ndp_probe_has_the_bytes_of_rfc_4861),
		cmocka_unit_test(test_written_ndp_messages_are_decoded),
		cmocka_unit_test(test_multicast_macs_are_derived_for_ethernet_and_infiniband),
		cmocka_unit_test(test_advertisement_may_have_any_options),
		cmocka_unit_test(test_malformed_ndp_options_are_refused),
		cmocka_unit_test(test_malformed_ndp_messages_are_refused),
		cmocka_unit_test(test_malformed_ndp_probes_are_refused),
		cmocka_unit_test(test_ndp_messages_are_classified_as_conflict_or_gateway),
	};

	return T_RUN(tests, NULL, NULL);
}
