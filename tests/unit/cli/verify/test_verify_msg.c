/* SPDX-License-Identifier: Apache-2.0 */
#include "testlib.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/verify/verify_msg.h"

static int parse(const char *line, struct verify_msg *m, struct err *e)
{
	return verify_msg_parse(span_of(line), m, e);
}

static void test_every_field_of_a_message_is_read_back(void **state)
{
	struct verify_msg m = {
		.verb = VERIFY_HELLO,
		.qpn = 0xffffff,
		.psn = 1,
		.rkey = 0xdeadbeef,
		.path_mtu = 4096,
		.reads = 16,
		.lid = 0xbfff,
		.ethernet = 1,
		.addr = 0x7fffdeadbeef0000,
		.len = UINT64_MAX,
		.op = "write",
		.size = 65536,
		.depth = 64,
		.device = "mlx5_0",
		.port = 2,
		.gid_index = -1,
		.ifname = "net1",
		.step = "check",
		.seed = 0x123456789abcdef0,
		.count = 1000,
		.lat_min = 1,
		.lat_avg = 2,
		.lat_p50 = 3,
		.lat_p99 = 4,
		.rate = 50000000000,
		.bytes = 100000000000,
		.text = "no way = to the peer",
	};
	struct verify_msg back;
	auto_buf struct buf b;

	(void)state;
	memset(m.gid, 0, 10);
	memcpy(m.gid + 10, "\xff\xff\xac\x10\x01\x0a", 6);
	ASSERT_EQ(ip_parse(span_of("fd00::1"), &m.at), 0);
	ASSERT_EQ(ipnet_parse(span_of("172.16.1.10/24"), &m.net), 0);
	buf_init(&b, VERIFY_LINE_MAX);
	verify_msg_put(&m, &b);
	assert_false(b.over);
	ASSERT_EQ(b.p[b.len - 1], '\n');
	ASSERT_EQ(verify_msg_parse((struct span){b.p, b.len - 1}, &back, NULL), 0);
	assert_memory_equal(&back, &m, sizeof(m));
}

/*
 * A message with the longest text, device and interface name fits into a line: none is truncated.
 */
static void test_longest_texts_fit_into_a_line(void **state)
{
	struct verify_msg m, back;
	auto_buf struct buf b;

	(void)state;
	memset(&m, 0, sizeof(m));
	m.verb = VERIFY_FAIL;
	memset(m.text, 'x', sizeof(m.text) - 1);
	memset(m.device, 'd', sizeof(m.device) - 1);
	memset(m.ifname, 'i', sizeof(m.ifname) - 1);
	buf_init(&b, VERIFY_LINE_MAX);
	verify_msg_put(&m, &b);
	assert_false(b.over);
	ASSERT_EQ(verify_msg_parse((struct span){b.p, b.len - 1}, &back, NULL), 0);
	ASSERT_STR_EQ(back.text, m.text);
}

static void test_newline_in_a_text_does_not_begin_a_new_line(void **state)
{
	struct verify_msg m = {.verb = VERIFY_FAIL, .text = "a\nb\x1b[2J\xff"};
	auto_buf struct buf b;

	(void)state;
	buf_init(&b, VERIFY_LINE_MAX);
	verify_msg_put(&m, &b);
	ASSERT_STR_EQ(b.p, "unirail-verify/1 fail text=a?b?[2J?\n");
}

static void test_unknown_keys_are_ignored(void **state)
{
	struct verify_msg m;

	(void)state;
	ASSERT_EQ(parse("unirail-verify/1 ready of_tomorrow=1 qpn=5", &m, NULL), 0);
	ASSERT_EQ(m.verb, VERIFY_READY);
	ASSERT_EQ(m.qpn, 5);
	ASSERT_EQ(m.psn, 0);
}

/* The last of repeated keys is used, without a rest of the previous value. */
static void test_last_of_repeated_keys_is_used(void **state)
{
	struct verify_msg m;
	auto_buf struct buf b;

	(void)state;
	ASSERT_EQ(parse("unirail-verify/1 hello op=write op=", &m, NULL), 0);
	buf_init(&b, VERIFY_LINE_MAX);
	verify_msg_put(&m, &b);
	ASSERT_STR_EQ(b.p, "unirail-verify/1 hello\n");
}

static void test_invalid_messages_are_refused(void **state)
{
	static const struct {
		const char *line, *says;
		int code;
	} cases[] = {
		{"", "not 'unirail verify'", -EBADMSG},
		{"HTTP/1.1 400 Bad Request", "not 'unirail verify'", -EBADMSG},
		{"unirail-verify/", "not 'unirail verify'", -EBADMSG},
		{"unirail-verify/x hello", "not 'unirail verify'", -EBADMSG},
		{"unirail-verify/2 hello", "version 2 of the protocol, this side 1",
		 -EPROTONOSUPPORT},
		{"unirail-verify/1", "without a message after", -EBADMSG},
		{"unirail-verify/1 shutdown", "unknown message", -EBADMSG},
		{"unirail-verify/1 hello qpn", "'key=value'", -EBADMSG},
		{"unirail-verify/1 hello qpn=", "value of 'qpn': ''", -EBADMSG},
		{"unirail-verify/1 hello qpn=-1", "value of 'qpn': '-1'", -EBADMSG},
		{"unirail-verify/1 hello qpn=4294967296", "value of 'qpn': '4294967296'", -EBADMSG},
		{"unirail-verify/1 hello len=18446744073709551616", "'len'", -EBADMSG},
		{"unirail-verify/1 hello rkey=1ffffffff", "'rkey'", -EBADMSG},
		{"unirail-verify/1 hello gid=00", "value of 'gid': '00'", -EBADMSG},
		{"unirail-verify/1 hello gid=0x000000000000000000000000000000", "'gid'", -EBADMSG},
		{"unirail-verify/1 hello gid=g0000000000000000000000000000000", "'gid'", -EBADMSG},
		{"unirail-verify/1 hello op=writewrite", "'op'", -EBADMSG},
		{"unirail-verify/1 hello at=172.16.1.300", "'at'", -EBADMSG},
		{"unirail-verify/1 rail net=172.16.1.1/33", "'net'", -EBADMSG},
		{"unirail-verify/1 rail ifname=0123456789abcdef", "'ifname'", -EBADMSG},
		{"unirail-verify/1 step step=\x1b[2J", "'step'", -EBADMSG},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct verify_msg m = {.qpn = 77};
		struct err e = ERR_INIT;

		ASSERT_EQ_MSG(parse(cases[i].line, &m, &e), cases[i].code, "cases[%zu]", i);
		if (!strstr(e.text, cases[i].says))
			fail_msg("'%s': '%s' does not contain '%s'", cases[i].line, e.text,
				 cases[i].says);
		ASSERT_EQ_MSG(m.qpn, 77, "cases[%zu]", i);
	}
}

static void test_too_long_message_is_refused(void **state)
{
	char line[VERIFY_LINE_MAX + 1];
	struct verify_msg m;
	struct err e = ERR_INIT;

	(void)state;
	memset(line, ' ', sizeof(line));
	memcpy(line, "unirail-verify/1 bye", 20);
	ASSERT_EQ(verify_msg_parse((struct span){line, sizeof(line)}, &m, &e), -EBADMSG);
	assert_non_null(strstr(e.text, "longer than"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_field_of_a_message_is_read_back),
		cmocka_unit_test(test_longest_texts_fit_into_a_line),
		cmocka_unit_test(test_newline_in_a_text_does_not_begin_a_new_line),
		cmocka_unit_test(test_unknown_keys_are_ignored),
		cmocka_unit_test(test_last_of_repeated_keys_is_used),
		cmocka_unit_test(test_invalid_messages_are_refused),
		cmocka_unit_test(test_too_long_message_is_refused),
	};

	return T_RUN(tests, NULL, NULL);
}
