/* SPDX-License-Identifier: Apache-2.0 */
/* Limits of RDMA objects: which limits each pod gets, and to which control groups of a fake
 * /sys/fs/cgroup they are written. */
#include "testlib.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/device/rdma_limits.h"
#include "base/alloc.h"
#include "ipam_lab.h"

#define UID "1f0c2a34-0000-4000-8000-00000000000"

/* A device ID of resource "rdma/all" stands for mlx5_0 and mlx5_1, a device ID of "rdma/one" for
 * mlx5_1; other resources have no RDMA device. */
static void on_devices(void *arg, const char *resource, const char *id, rdma_limits_device_fn each,
		       void *each_arg)
{
	(void)arg, (void)id;
	if (strcmp(resource, "rdma/all") == 0)
		each(each_arg, "mlx5_0");
	if (strcmp(resource, "rdma/all") == 0 || strcmp(resource, "rdma/one") == 0)
		each(each_arg, "mlx5_1");
}

/* "p1" and "p2" have the UIDs ...1 and ...2; "ended" has ended; the agent does not
 * know other pods yet. */
static const char *on_uid(void *arg, const char *ns, const char *name)
{
	(void)arg;
	ASSERT_STR_EQ(ns, "t");
	if (strcmp(name, "ended") == 0)
		return "";
	if (strcmp(name, "p1") == 0)
		return UID "1";
	return strcmp(name, "p2") == 0 ? UID "2" : NULL;
}

struct pod {
	const char *name;
	struct {
		const char *resource;
		size_t ids;
	} has[3];
};

static void list_make(struct podres_list *l, const struct pod *v, size_t n)
{
	*l = (struct podres_list){.pods = xcalloc(n, sizeof(*l->pods)), .n_pods = n};
	for (size_t i = 0; i < n; i++) {
		struct podres_pod *p = &l->pods[i];

		p->name = xstrdup(v[i].name);
		p->ns = xstrdup("t");
		for (size_t k = 0; k < ARRAY_LEN(v[i].has) && v[i].has[k].resource; k++) {
			struct podres_container *c = &VEC_PUSH(p->containers, p->n_containers);
			struct podres_devices *d;

			*c = (struct podres_container){.name = xstrdup("c")};
			d = &VEC_PUSH(c->devices, c->n_devices);
			*d = (struct podres_devices){.resource = xstrdup(v[i].has[k].resource)};
			for (size_t m = 0; m < v[i].has[k].ids; m++)
				VEC_PUSH(d->ids, d->n_ids) = xasprintf("%zu", m);
		}
	}
}

static struct rdma_limits_conf conf_of(const struct root *r, uint32_t handles, uint32_t objects)
{
	return (struct rdma_limits_conf){
		.root = r, .per_id = {handles, objects}, .devices = on_devices, .uid = on_uid};
}

static void test_each_device_id_of_a_pod_adds_its_limit(void **state)
{
	static const struct pod pods[] = {{"p1", {{"rdma/all", 2}, {"rdma/one", 1}}},
					  {"p2", {{"intel.com/vf", 3}}},
					  {"ended", {{"rdma/all", 1}}},
					  {"new", {{"rdma/one", 1}}}};
	const struct rdma_limits_conf c = conf_of(NULL, 10, CGROUP_RDMA_MAX);
	auto_podres struct podres_list l;
	auto_free struct rdma_limit *v = NULL;
	size_t n;

	(void)state;
	list_make(&l, pods, ARRAY_LEN(pods));
	rdma_limits_decide(&c, &l, &v, &n);
	ASSERT_EQ(n, 3);
	ASSERT_STR_EQ(v[0].pod, "new");
	assert_null(v[0].uid);
	ASSERT_STR_EQ(v[1].device, "mlx5_0");
	ASSERT_EQ(v[1].limit.handles, 20);
	ASSERT_STR_EQ(v[2].device, "mlx5_1");
	ASSERT_EQ(v[2].limit.handles, 30);
	ASSERT_EQ(v[2].limit.objects, CGROUP_RDMA_MAX);
}

static void test_sum_of_limits_does_not_exceed_the_kernels_maximum(void **state)
{
	static const struct pod pods[] = {{"p1", {{"rdma/one", 3}}}};
	const struct rdma_limits_conf c = conf_of(NULL, INT32_MAX / 2, 1);
	auto_podres struct podres_list l;
	auto_free struct rdma_limit *v = NULL;
	size_t n;

	(void)state;
	list_make(&l, pods, 1);
	rdma_limits_decide(&c, &l, &v, &n);
	ASSERT_EQ(n, 1);
	ASSERT_EQ(v[0].limit.handles, CGROUP_RDMA_MAX);
	ASSERT_EQ(v[0].limit.objects, 3);
}

/* Fails unless the file contains exactly `text`. (The kernel's rdma.max would show the limits of
 * all devices.) */
static void has_limit(const struct ipam_lab *l, const char *path, const char *text)
{
	size_t n;
	auto_free char *now = il_read(l, path, &n);

	ASSERT_EQ(n, strlen(text));
	assert_memory_equal(now, text, n);
}

static const struct {
	const char *dir, *controller, *group;
} trees[] = {
	{"/sys/fs/cgroup/rdma", "/sys/fs/cgroup/rdma/cgroup.procs", "kubepods/pod" UID "1"},
	{"/sys/fs/cgroup/rdma", "/sys/fs/cgroup/rdma/cgroup.procs",
	 "kubelet/kubepods/besteffort/pod" UID "1"},
	{"/sys/fs/cgroup/rdma", "/sys/fs/cgroup/rdma/cgroup.procs", "root/kubepods/pod" UID "1"},
	{"/sys/fs/cgroup", "/sys/fs/cgroup/cgroup.controllers", "kubepods/burstable/pod" UID "1"},
	{"/sys/fs/cgroup", "/sys/fs/cgroup/cgroup.controllers",
	 "kubepods.slice/kubepods-burstable.slice/"
	 "kubepods-burstable-pod1f0c2a34_0000_4000_8000_000000000001.slice"},
	{"/sys/fs/cgroup", "/sys/fs/cgroup/cgroup.controllers",
	 "kubelet.slice/kubelet-kubepods.slice/"
	 "kubelet-kubepods-pod1f0c2a34_0000_4000_8000_000000000001.slice"},
};

static void test_limits_are_written_to_the_pods_control_group_in_each_cgroup_layout(void **state)
{
	static const struct pod pods[] = {{"p1", {{"rdma/one", 2}}}};
	auto_podres struct podres_list list;

	(void)state;
	list_make(&list, pods, 1);
	for (size_t i = 0; i < ARRAY_LEN(trees); i++) {
		auto_free char *path = xasprintf("%s/%s/rdma.max", trees[i].dir, trees[i].group);
		auto_free char *other = xasprintf("%s/kubepods/pod" UID "2/rdma.max", trees[i].dir);
		struct ipam_lab l;
		struct rdma_limits_conf c;
		struct err e = ERR_INIT;

		il_make(&l);
		il_write(&l, trees[i].controller, "cpu io rdma misc\n");
		il_write(&l, path,
			 "mlx5_0 hca_handle=max hca_object=max\n"
			 "mlx5_1 hca_handle=max hca_object=max\n");
		il_write(&l, other, "mlx5_1 hca_handle=max hca_object=max\n");
		c = conf_of(&l.root, 4, 1000);
		if (rdma_limits_apply(&c, &list, &e))
			fail_msg("%s: %s", path, e.text);
		has_limit(&l, path, "mlx5_1 hca_handle=8 hca_object=2000");
		has_limit(&l, other, "mlx5_1 hca_handle=max hca_object=max\n");
		/* A limit that is set already is not written again. */
		il_write(&l, path, "mlx5_1 hca_handle=8 hca_object=2000 \n");
		ASSERT_EQ_MSG(rdma_limits_apply(&c, &list, &e), 0, "trees[%zu]", i);
		has_limit(&l, path, "mlx5_1 hca_handle=8 hca_object=2000 \n");
		il_drop(&l);
	}
}

static void test_error_of_a_failed_limit_names_the_file_and_the_remedy(void **state)
{
	static const struct pod pods[] = {{"p1", {{"rdma/one", 1}}}, {"p2", {{"rdma/one", 1}}}};
	const char *const file = "/sys/fs/cgroup/rdma/kubepods/pod" UID "1/rdma.max";
	auto_podres struct podres_list list;
	struct rdma_limits_conf c;
	struct err e = ERR_INIT;
	struct ipam_lab l;

	(void)state;
	list_make(&list, pods, ARRAY_LEN(pods));
	il_make(&l);
	c = conf_of(&l.root, 1, 1);
	il_write(&l, "/sys/fs/cgroup/cgroup.controllers", "cpu io misc\n");
	ASSERT_EQ(rdma_limits_apply(&c, &list, &e), 2);
	ASSERT_EQ(e.code, -EOPNOTSUPP);
	ASSERT_HAS(e.text, "/sys/fs/cgroup/cgroup.controllers' (v2): use a kernel with "
			   "CONFIG_CGROUP_RDMA, without cgroup_disable=rdma");
	il_write(&l, "/sys/fs/cgroup/rdma/cgroup.procs", "");
	ASSERT_EQ(rdma_limits_apply(&c, &list, &e), 2);
	ASSERT_HAS(e.text, "pod t/p1 has no control group below '/sys/fs/cgroup/rdma'");
	il_write(&l, file, "mlx5_0 hca_handle=max hca_object=max\n");
	ASSERT_EQ(rdma_limits_apply(&c, &list, &e), 2);
	ASSERT_HAS(e.text, "pod t/p1: '/sys/fs/cgroup/rdma/kubepods/pod" UID
			   "1/rdma.max' has no RDMA device 'mlx5_1'");
	/* One failure does not prevent the limits of other pods. */
	il_write(&l, "/sys/fs/cgroup/rdma/kubepods/pod" UID "2/rdma.max", "mlx5_1 hca_handle=2\n");
	ASSERT_EQ(rdma_limits_apply(&c, &list, &e), 1);
	has_limit(&l, "/sys/fs/cgroup/rdma/kubepods/pod" UID "2/rdma.max",
		  "mlx5_1 hca_handle=1 hca_object=1");
	il_drop(&l);
}

/* cgroup v2: the parent groups have the controller, but do not enable it for their children. */
static void test_rdma_controller_is_enabled_for_the_pods_control_group(void **state)
{
	static const struct pod pods[] = {{"p1", {{"rdma/one", 1}}}};
	static const char *const above[] = {"", "/kubepods", "/kubepods/burstable"};
	auto_podres struct podres_list list;
	struct rdma_limits_conf c;
	struct ipam_lab l;

	(void)state;
	list_make(&list, pods, 1);
	il_make(&l);
	c = conf_of(&l.root, 1, 1);
	il_write(&l, "/sys/fs/cgroup/cgroup.controllers", "rdma");
	il_write(&l, "/sys/fs/cgroup/kubepods/burstable/pod" UID "1/cgroup.subtree_control", "");
	for (size_t i = 0; i < ARRAY_LEN(above); i++) {
		auto_free char *file =
			xasprintf("/sys/fs/cgroup%s/cgroup.subtree_control", above[i]);

		il_write(&l, file, "cpu");
	}
	ASSERT_EQ(rdma_limits_apply(&c, &list, NULL), 1);
	for (size_t i = 0; i < ARRAY_LEN(above); i++) {
		auto_free char *file =
			xasprintf("/sys/fs/cgroup%s/cgroup.subtree_control", above[i]);

		has_limit(&l, file, "+rdma");
	}
	has_limit(&l, "/sys/fs/cgroup/kubepods/burstable/pod" UID "1/cgroup.subtree_control", "");
	il_drop(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_device_id_of_a_pod_adds_its_limit),
		cmocka_unit_test(test_sum_of_limits_does_not_exceed_the_kernels_maximum),
		cmocka_unit_test(
			test_limits_are_written_to_the_pods_control_group_in_each_cgroup_layout),
		cmocka_unit_test(test_error_of_a_failed_limit_names_the_file_and_the_remedy),
		cmocka_unit_test(test_rdma_controller_is_enabled_for_the_pods_control_group),
	};

	return T_RUN(tests, NULL, NULL);
}
