/* SPDX-License-Identifier: Apache-2.0 */
/* A device plugin, and in the same process a client that calls it as the kubelet does. */
#include "testlib.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "device/plugin/plugin.h"
#include "wire/http/grpc.h"

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

/* --- the plugin, and a client in place of the kubelet --- */

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
	/* The stream of ListAndWatch does not end: the test's unary client times out and cancels
	 * the call. */
	call(l, "/v1beta1.DevicePlugin/ListAndWatch", span_of(""));
	assert_string_not_equal(l->error, "");
	while (l->reports != 1 + 100)
		run_ms(l, 1);
	call(l, "/v1beta1.DevicePlugin/Allocate", (struct span){"\x0a\x03\x0a\x01\x30", 5});
	ASSERT_STR_EQ(l->error, "");
	t_assert_hex(&l->reply, "0a0a0a080a0349445312013"
				"0");
	call(l, "/v1beta1.DevicePlugin/Allocate", (struct span){"\x0a\x03\x0a\x01\x39", 5});
	assert_non_null(strstr(l->error,
			       "device '9' is not, or no longer, a device of resource 'rdma/hca'"));
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
		cmocka_unit_test(test_resource_names_follow_the_rules_of_kubernetes),
		cmocka_unit_test_setup_teardown(test_plugin_serves_the_calls_of_the_kubelet,
						open_lab, close_lab),
		cmocka_unit_test_setup_teardown(test_resource_is_served_by_one_plugin_only,
						open_lab, close_lab),
	};

	return T_RUN(tests, NULL, NULL);
}
