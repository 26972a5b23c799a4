/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of the device plugin API, and a plugin between a kubelet and its client in one process.
 */
#include "testlib.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "device/plugin/message.h"
#include "device/plugin/plugin.h"
#include "wire/http/grpc.h"

static void same_hex(const struct buf *b, const char *hex)
{
	auto_buf struct buf text;

	buf_init(&text, 1 << 16);
	for (size_t i = 0; i < b->len; i++)
		buf_printf(&text, "%02x", (unsigned char)b->p[i]);
	buf_str(&text, "");
	ASSERT_STR_EQ(text.p ? text.p : "", hex);
}

static void test_messages_have_the_bytes_of_the_go_encoder(void **state)
{
	auto_buf struct buf b;
	struct device_plugin_list l = {0};

	(void)state;
	buf_init(&b, 4096);
	message_register_encode("hca_shared.sock", "rdma/hca_shared", false, false, &b);
	same_hex(&b, "0a0776316265746131120f6863615f7368617265642e736f636b1a0f72646d612f6863615f73"
		     "6861726564");
	buf_reset(&b);
	message_info_encode("rdma/hca_shared", "/var/lib/kubelet/plugins_registry/hca_shared.sock",
			    &b);
	same_hex(&b,
		 "0a0c446576696365506c7567696e120f72646d612f6863615f7368617265641a312f7661722f6c"
		 "69622f6b7562656c65742f706c7567696e735f72656769737472792f6863615f7368617265642e"
		 "736f636b22087631616c70686131220776316265746131");
	buf_reset(&b);
	device_plugin_list_add(&l, "0000:3b:00.2", true, 1);
	message_list_encode(&l, &b);
	same_hex(&b, "0a1d0a0c303030303a33623a30302e3212074865616c7468791a040a020801");
	device_plugin_list_done(&l);
	/* NUMA node 0 is encoded as an empty message and must be sent. */
	buf_reset(&b);
	device_plugin_list_add(&l, "0000:3b:00.2", true, 0);
	message_list_encode(&l, &b);
	same_hex(&b, "0a1b0a0c303030303a33623a30302e3212074865616c7468791a020a00");
	device_plugin_list_done(&l);
	/* Without a NUMA node the message has no topology; the device is unhealthy. */
	buf_reset(&b);
	device_plugin_list_add(&l, "0", true, -1);
	device_plugin_list_add(&l, "1", false, -1);
	message_list_encode(&l, &b);
	same_hex(&b, "0a0c0a013012074865616c7468790a0e0a01311209556e6865616c746879");
	device_plugin_list_done(&l);
	buf_reset(&b);
	message_options_encode(true, true, &b);
	same_hex(&b, "08011001");
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
	same_hex(&b, "0a1f"
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
		{"\x0a", 1},		     /* cut */
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

static void test_resource_names_follow_the_rules_of_kubernetes(void **state)
{
	static const char *const good[] = {"rdma/hca_shared", "spidernet.io/shared_cx5_gpu1",
					   "intel.com/intel_sriov_netdevice", "a.b-c/X.1"};
	static const char *const bad[] = {"",
					  "x",
					  "/x",
					  "x/",
					  "a/b/c",
					  "A.b/x",
					  "a..b/x",
					  "-a/x",
					  "a/-x",
					  "a/x y",
					  "kubernetes.io/x",
					  "x.kubernetes.io/y",
					  "requests.a/x"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		ASSERT_EQ_MSG(plugin_resource_check(good[i], NULL), 0, "good[%zu]", i);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct err e = ERR_INIT;

		if (plugin_resource_check(bad[i], &e) != -EINVAL || !strstr(e.text, bad[i]))
			fail_msg("'%s': '%s'", bad[i], e.text);
	}
}

/* --- a kubelet in this process --- */

struct lab {
	struct loop *loop;
	char dir[T_DIR_MAX], registry[64], devices[64];
	struct root root;
	struct device_plugins *set;
	struct device_plugin *plugin;
	bool healthy;
	int reports;
	struct grpc_async *call;
	struct buf reply;
	char error[ERR_TEXT_MAX];
};

static void on_list(void *arg, struct device_plugin_list *ret)
{
	struct lab *l = arg;

	for (int i = 0; i < 3; i++) {
		char id[4];

		snprintf(id, sizeof(id), "%d", i);
		device_plugin_list_add(ret, id, l->healthy, 0);
	}
}

static int on_allocate(void *arg, const struct device_plugin_ids *ids,
		       struct device_plugin_allocation *ret, struct err *e)
{
	(void)arg, (void)e;
	device_plugin_env(ret, "IDS", ids->v[0]);
	return 0;
}

static void on_reported(void *arg, bool registered, const char *reason)
{
	struct lab *l = arg;

	(void)reason;
	l->reports += registered ? 1 : 100;
}

static const struct device_plugin_ops ops = {.list = on_list,
					     .allocate = on_allocate,
					     .registered = on_reported};

static int open_lab(void **state)
{
	struct lab *l = xcalloc(1, sizeof(*l));
	struct device_plugins_conf c = {.dir = l->devices, .registry = l->registry};

	t_dir_make(l->dir, &l->root);
	snprintf(l->registry, sizeof(l->registry), "%s/registry", l->dir);
	snprintf(l->devices, sizeof(l->devices), "%s/devices", l->dir);
	ASSERT_EQ(mkdir(l->registry, 0755), 0);
	ASSERT_EQ(loop_new(&l->loop, NULL), 0);
	ASSERT_EQ(device_plugins_new(&l->set, l->loop, &c, NULL), 0);
	l->healthy = true;
	ASSERT_EQ(plugin_serve(l->set, "rdma/hca", "hca", &ops, l, &l->plugin, NULL), 0);
	buf_init(&l->reply, 1 << 16);
	*state = l;
	return 0;
}

static int close_lab(void **state)
{
	struct lab *l = *state;

	device_plugins_free(l->set);
	/* The plugin has removed all of its sockets. */
	ASSERT_EQ(rmdir(l->registry), 0);
	rmdir(l->devices);
	ASSERT_EQ(access(l->devices, F_OK), -1);
	t_dir_remove(l->dir, &l->root);
	loop_free(l->loop);
	buf_done(&l->reply);
	free(l);
	return 0;
}

static void stop(void *arg)
{
	loop_stop(arg, 1);
}

static void run_ms(struct lab *l, int ms)
{
	struct loop_timer *t = loop_add_timer(l->loop, ms, stop, l->loop);

	if (loop_run(l->loop) != 1)
		loop_del_timer(t);
}

static void on_reply(void *arg, struct span reply, const struct err *e)
{
	struct lab *l = arg;

	buf_reset(&l->reply);
	buf_add(&l->reply, reply.p, reply.n);
	snprintf(l->error, sizeof(l->error), "%s", e ? e->text : "");
	loop_stop(l->loop, 0);
}

static void call(struct lab *l, const char *method, struct span request)
{
	char socket[128];
	struct grpc_call c = {
		.socket = socket, .method = method, .request = request, .timeout_ms = 300};

	snprintf(socket, sizeof(socket), "%s/hca.sock", l->registry);
	ASSERT_EQ(grpc_start(l->loop, &c, on_reply, l, &l->call, NULL), 0);
	loop_run(l->loop);
}

static void test_plugin_serves_the_calls_of_the_kubelet(void **state)
{
	struct lab *l = *state;

	run_ms(l, 1);
	call(l, "/pluginregistration.Registration/GetInfo", span_of(""));
	ASSERT_STR_EQ(l->error, "");
	assert_non_null(memmem(l->reply.p, l->reply.len, "rdma/hca", 8));
	call(l, "/v1beta1.DevicePlugin/GetDevicePluginOptions", span_of(""));
	ASSERT_EQ(l->reply.len, 0);
	/* No device has been listed yet. */
	call(l, "/v1beta1.DevicePlugin/Allocate", (struct span){"\x0a\x03\x0a\x01\x30", 5});
	assert_non_null(strstr(l->error, "FAILED_PRECONDITION"));
	/* A stream does not end: the test's unary client times out and is cancelled. */
	call(l, "/v1beta1.DevicePlugin/ListAndWatch", span_of(""));
	assert_string_not_equal(l->error, "");
	while (l->reports != 1 + 100)
		run_ms(l, 1);
	call(l, "/v1beta1.DevicePlugin/Allocate", (struct span){"\x0a\x03\x0a\x01\x30", 5});
	ASSERT_STR_EQ(l->error, "");
	same_hex(&l->reply, "0a0a0a080a0349445312013"
			    "0");
	call(l, "/v1beta1.DevicePlugin/Allocate", (struct span){"\x0a\x03\x0a\x01\x39", 5});
	assert_non_null(
		strstr(l->error, "device '9' is not (or no longer) one of resource 'rdma/hca'"));
	call(l, "/v1beta1.DevicePlugin/Allocate", span_of("nonsense"));
	assert_non_null(strstr(l->error, "INVALID_ARGUMENT"));
}

static void test_resource_is_served_by_one_plugin_only(void **state)
{
	struct lab *l = *state;
	struct device_plugin *p;
	struct err e = ERR_INIT;

	ASSERT_EQ(plugin_serve(l->set, "rdma/hca", "x", &ops, l, &p, &e), -EEXIST);
	ASSERT_EQ(plugin_serve(l->set, "hca", "x", &ops, l, &p, &e), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_messages_have_the_bytes_of_the_go_encoder),
		cmocka_unit_test(test_allocation_is_encoded_without_duplicates),
		cmocka_unit_test(test_requests_of_the_kubelet_are_decoded),
		cmocka_unit_test(test_malformed_requests_are_refused),
		cmocka_unit_test(test_resource_names_follow_the_rules_of_kubernetes),
		cmocka_unit_test_setup_teardown(test_plugin_serves_the_calls_of_the_kubelet,
						open_lab, close_lab),
		cmocka_unit_test_setup_teardown(test_resource_is_served_by_one_plugin_only,
						open_lab, close_lab),
	};

	return T_RUN(tests, NULL, NULL);
}
