/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of the device plugin API. */
#include "testlib.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "device/plugin/message.h"

static void test_messages_have_the_bytes_of_the_go_encoder(void **state)
{
	auto_buf struct buf b;
	struct device_plugin_list l = {0};

	(void)state;
	buf_init(&b, 4096);
	message_register_encode("hca_shared.sock", "rdma/hca_shared", false, false, &b);
	t_assert_hex(&b,
		     "0a0776316265746131120f6863615f7368617265642e736f636b1a0f72646d612f6863615f73"
		     "6861726564");
	buf_reset(&b);
	message_info_encode("rdma/hca_shared", "/var/lib/kubelet/plugins_registry/hca_shared.sock",
			    &b);
	t_assert_hex(
		&b, "0a0c446576696365506c7567696e120f72646d612f6863615f7368617265641a312f7661722f6c"
		    "69622f6b7562656c65742f706c7567696e735f72656769737472792f6863615f7368617265642e"
		    "736f636b22087631616c70686131220776316265746131");
	buf_reset(&b);
	device_plugin_list_add(&l, "0000:3b:00.2", true, 1);
	message_list_encode(&l, &b);
	t_assert_hex(&b, "0a1d0a0c303030303a33623a30302e3212074865616c7468791a040a020801");
	device_plugin_list_done(&l);
	/* NUMA node 0 is encoded as an empty message and must be sent. */
	buf_reset(&b);
	device_plugin_list_add(&l, "0000:3b:00.2", true, 0);
	message_list_encode(&l, &b);
	t_assert_hex(&b, "0a1b0a0c303030303a33623a30302e3212074865616c7468791a020a00");
	device_plugin_list_done(&l);
	/* Without a NUMA node the message has no topology; the second device is unhealthy. */
	buf_reset(&b);
	device_plugin_list_add(&l, "0", true, -1);
	device_plugin_list_add(&l, "1", false, -1);
	message_list_encode(&l, &b);
	t_assert_hex(&b, "0a0c0a013012074865616c7468790a0e0a01311209556e6865616c746879");
	device_plugin_list_done(&l);
	buf_reset(&b);
	message_options_encode(true, true, &b);
	t_assert_hex(&b, "08011001");
	buf_reset(&b);
	message_options_encode(false, false, &b);
	ASSERT_EQ(b.len, 0);
}

static void test_allocation_is_encoded_without_duplicates(void **state)
{
	struct device_plugin_allocation a = {0};
	auto_buf struct buf b;

	(void)state;
	buf_init(&b, 4096);
	device_plugin_env(&a, "K", "old");
	device_plugin_env(&a, "K", "v");
	device_plugin_node(&a, "/d", "/d", "rw");
	device_plugin_node(&a, "/d", "/other", "rw");
	device_plugin_cdi(&a, "v/c=0");
	message_allocation_encode(&a, 1, &b);
	t_assert_hex(&b, "0a1f"
			 "0a060a014b120176"
			 "1a0c0a022f6412022f641a027277"
			 "2a070a05762f633d30");
	device_plugin_allocation_done(&a);
}

static void test_requests_of_the_kubelet_are_decoded(void **state)
{
	auto_message_request struct message_request q = {0};
	auto_free char *error = NULL;
	struct err e = ERR_INIT;
	bool registered = true;

	(void)state;
	ASSERT_EQ(message_allocate_decode(
			  (struct span){"\x0a\x06\x0a\x01\x30\x0a\x01\x31\x0a\x00", 10}, &q, &e),
		  0);
	ASSERT_EQ(q.n, 2);
	ASSERT_EQ(q.v[0].ids.n, 2);
	ASSERT_STR_EQ(q.v[0].ids.v[1], "1");
	ASSERT_EQ(q.v[1].ids.n, 0);
	message_request_done(&q);
	/* available: a, b; required: b; size: 2 */
	ASSERT_EQ(message_preferred_decode((struct span){"\x0a\x0b\x0a\x01"
							 "a\x0a\x01"
							 "b\x12\x01"
							 "b\x18\x02",
							 13},
					   &q, &e),
		  0);
	ASSERT_EQ(q.v[0].ids.n, 2);
	ASSERT_STR_EQ(q.v[0].must.v[0], "b");
	ASSERT_EQ(q.v[0].size, 2);
	message_request_done(&q);
	ASSERT_EQ(message_status_decode((struct span){"\x12\x02no", 4}, &registered, &error, &e),
		  0);
	assert_false(registered);
	ASSERT_STR_EQ(error, "no");
}

static void test_malformed_requests_are_refused(void **state)
{
	static const struct {
		const char *p;
		size_t n;
	} rows[] = {
		{"\x0a", 1},		     /* truncated */
		{"\x0a\x05\x0a\x01", 4},     /* length is longer than the message */
		{"\x0a\x03\x0a\x01\x00", 5}, /* NUL in a device ID */
		{"\x0a\x02\x0a\x00", 4},     /* an empty device ID */
		{"\xff\xff\xff\xff\xff", 5}, /* no tag */
	};
	struct message_request q = {.n = 7};
	struct err e = ERR_INIT;
	char many[2 * DEVICE_PLUGIN_CONTAINERS_MAX + 2];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		ASSERT_EQ_MSG(message_allocate_decode((struct span){rows[i].p, rows[i].n}, &q, &e),
			      -EBADMSG, "rows[%zu]", i);
		ASSERT_EQ_MSG(q.n, 7, "rows[%zu]", i);
	}
	for (size_t i = 0; i < sizeof(many); i += 2) {
		many[i] = 0x0a;
		many[i + 1] = 0;
	}
	ASSERT_EQ(message_allocate_decode((struct span){many, sizeof(many)}, &q, &e), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_messages_have_the_bytes_of_the_go_encoder),
		cmocka_unit_test(test_allocation_is_encoded_without_duplicates),
		cmocka_unit_test(test_requests_of_the_kubelet_are_decoded),
		cmocka_unit_test(test_malformed_requests_are_refused),
	};

	return T_RUN(tests, NULL, NULL);
}
