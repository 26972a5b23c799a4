/* SPDX-License-Identifier: Apache-2.0 */
/* Which of the pod's allocated devices each network of the pod gets. */
#include "testlib.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/paths.h"
#include "device/allocated.h"

static void take_is(struct allocated *a, const char *resource, const char *id)
{
	const char *got = allocated_take(a, resource);

	if (!got != !id || (id && strcmp(got, id) != 0))
		fail_msg("%s is %s, not %s", resource, got ? got : "none", id ? id : "none");
}

static void add(struct allocated *a, const char *resource, const char *id)
{
	allocated_add(a, span_of(resource), span_of(id));
}

/* Multus assigns devices in the kubelet's order, by which a rail may get the VF of another rail. */
static void test_devices_of_a_resource_are_assigned_in_natural_order(void **state)
{
	auto_allocated struct allocated a = {0};
	static const char *const is[] = {"0000:3b:02.1",
					 "0000:3b:0a.0",
					 "0000:3b:10.2",
					 "0001:01:00.0",
					 "10000:01:00.0",
					 "mlx5_2",
					 "mlx5_10",
					 "vf-002",
					 "vf-2",
					 "vf-3",
					 "vf-20",
					 "vf-20a",
					 NULL};

	(void)state;
	for (size_t i = ARRAY_LEN(is) - 1; i-- > 0;) {
		add(&a, "x/vf", is[i]);
		add(&a, "x/vf", is[i]);
	}
	allocated_sort(&a);
	for (size_t i = 0; i < ARRAY_LEN(is); i++)
		take_is(&a, "x/vf", is[i]);
	take_is(&a, "x/vf", NULL);
	take_is(&a, "x/other", NULL);
}

static void test_devices_are_read_from_the_pod_resources_api(void **state)
{
	auto_allocated struct allocated a = {0};
	char *first[] = {"vf-9"}, *second[] = {"vf-10", "vf-1"}, *other[] = {"gpu"};
	struct podres_devices d1[] = {{.resource = "x/vf", .ids = first, .n_ids = 1}};
	struct podres_devices d2[] = {{.resource = "x/vf", .ids = second, .n_ids = 2},
				      {.resource = "y/gpu", .ids = other, .n_ids = 1}};
	struct podres_container c[] = {{"a", d1, 1}, {"b", d2, 2}}, none = {"c", d1, 1};
	struct podres_pod pods[] = {
		{"q", "ns", &none, 1}, {"p", "ns", c, 2}, {"p", "ms", &none, 1}};
	struct podres_list l = {pods, 3};

	(void)state;
	allocated_podres(&a, &l, "ns", "p");
	take_is(&a, "x/vf", "vf-1");
	take_is(&a, "y/gpu", "gpu");
	take_is(&a, "x/vf", "vf-9");
	take_is(&a, "x/vf", "vf-10");
	take_is(&a, "x/vf", NULL);
}

#define ENTRY(uid, resource, ids)                                                                  \
	"{\"PodUID\":\"" uid "\",\"ContainerName\":\"c\",\"ResourceName\":\"" resource             \
	"\",\"DeviceIDs\":" ids ",\"AllocResp\":\"CgA=\"}"
#define CHECKPOINT(entries)                                                                        \
	"{\"Data\":{\"PodDeviceEntries\":" entries ",\"RegisteredDevices\":{}},\"Checksum\":1}"

static const char checkpoint[] =
	CHECKPOINT("[" ENTRY("u1", "x/vf", "{\"1\":[\"b2\"],\"0\":[\"b10\",\"b1\"]}") "," ENTRY(
		"u2", "x/vf", "[\"b3\"]") "," ENTRY("u1", "y/gpu", "[\"g1\",\"g0\"]") "]");

static void test_devices_are_read_from_the_kubelet_checkpoint(void **state)
{
	auto_allocated struct allocated a = {0}, none = {0};
	struct err e = ERR_INIT;

	(void)state;
	ASSERT_EQ(allocated_checkpoint(&a, span_of(checkpoint), "u1", &e), 0);
	take_is(&a, "x/vf", "b1");
	take_is(&a, "x/vf", "b2");
	take_is(&a, "x/vf", "b10");
	take_is(&a, "x/vf", NULL);
	take_is(&a, "y/gpu", "g0");
	take_is(&a, "y/gpu", "g1");
	ASSERT_EQ(allocated_checkpoint(&none, span_of(CHECKPOINT("null")), "u1", &e), 0);
	ASSERT_EQ(none.n, 0);
	assert_true(allocated_checkpoint(&none, span_of(CHECKPOINT("7")), "u1", &e) < 0);
	assert_non_null(strstr(e.text, "PodDeviceEntries is 7, expected an array"));
	assert_true(allocated_checkpoint(&none, span_of("{"), "u1", &e) < 0);
}

static void put_checkpoint(const struct root *r, const char *text)
{
	struct err e = ERR_INIT;

	if (dir_make(r, "/var/lib/kubelet/device-plugins", 0755, &e) < 0 ||
	    file_replace(r, PATH_KUBELET_CHECKPOINT, span_of(text), 0600, &e) < 0)
		fail_msg("%s", e.text);
}

static int devices_of(const struct root *root, const char *uid, struct allocated *a, struct err *e)
{
	auto_kubelet struct kubelet k = {0};
	int r = kubelet_query(&k, root, e);

	return r < 0 ? r : kubelet_devices(&k, "ns", "p", uid, a, e);
}

static void test_missing_checkpoint_is_empty_and_damaged_checkpoint_is_an_error(void **state)
{
	char dir[T_DIR_MAX];
	auto_allocated struct allocated a = {0};
	struct err e = ERR_INIT;
	struct root root;

	(void)state;
	t_dir_make(dir, &root);
	ASSERT_EQ(devices_of(&root, "u1", &a, &e), 0);
	ASSERT_EQ(a.n, 0);
	put_checkpoint(&root, checkpoint);
	ASSERT_EQ(devices_of(&root, "u2", &a, &e), 0);
	take_is(&a, "x/vf", "b3");
	put_checkpoint(&root, "{\"Data\":");
	assert_true(devices_of(&root, "u2", &a, &e) < 0);
	assert_non_null(strstr(e.text, "kubelet_internal_checkpoint"));
	t_dir_remove(dir, &root);
}

static void test_printed_devices_are_parsed_again(void **state)
{
	auto_allocated struct allocated a = {0}, b = {0};
	auto_buf struct buf text;

	(void)state;
	buf_init(&text, 4096);
	add(&a, "x/vf", "vf 2");
	add(&a, "x/vf", "vf 1");
	add(&a, "y/gpu", "g");
	allocated_print(&a, &text);
	ASSERT_STR_EQ(text.p, "x/vf\tvf 2\nx/vf\tvf 1\ny/gpu\tg\n");
	allocated_parse(&b, buf_span(&text));
	take_is(&b, "x/vf", "vf 1");
	take_is(&b, "x/vf", "vf 2");
	take_is(&b, "y/gpu", "g");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_devices_of_a_resource_are_assigned_in_natural_order),
		cmocka_unit_test(test_devices_are_read_from_the_pod_resources_api),
		cmocka_unit_test(test_devices_are_read_from_the_kubelet_checkpoint),
		cmocka_unit_test(
			test_missing_checkpoint_is_empty_and_damaged_checkpoint_is_an_error),
		cmocka_unit_test(test_printed_devices_are_parsed_again),
	};

	return T_RUN(tests, NULL, NULL);
}
