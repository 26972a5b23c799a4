/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The GPUs of the pod for which the kubelet calls GetPreferredAllocation, derived from the
 * kubelet's lists of allocations.
 */
#include "testlib.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "device/serve/pod_gpus.h"

static struct node_gpu gpus[] = {{.bdf = "0000:17:00.0", .uuid = "GPU-0"},
				 {.bdf = "0000:2a:00.0", .uuid = "GPU-1"},
				 {.bdf = "0000:3b:00.0", .uuid = "GPU-2"}};
static const struct node_devices node = {.gpus = gpus, .n_gpus = 3};

/* Adds the device of `text`, "pod/container resource=id", after the devices added before. */
static void add(struct podres_list *l, const char *text)
{
	struct span rest = span_of(text), pod, container, resource;
	struct podres_container *c;
	struct podres_devices *d;
	struct podres_pod *p;

	span_cut(&rest, '/', &pod);
	span_cut(&rest, ' ', &container);
	span_cut(&rest, '=', &resource);
	p = l->n_pods ? &l->pods[l->n_pods - 1] : NULL;
	if (!p || !span_eq(pod, p->name)) {
		p = &VEC_PUSH(l->pods, l->n_pods);
		*p = (struct podres_pod){.name = span_dup(pod), .ns = xstrdup("t")};
	}
	c = p->n_containers ? &p->containers[p->n_containers - 1] : NULL;
	if (!c || !span_eq(container, c->name)) {
		c = &VEC_PUSH(p->containers, p->n_containers);
		*c = (struct podres_container){.name = span_dup(container)};
	}
	d = &VEC_PUSH(c->devices, c->n_devices);
	*d = (struct podres_devices){.resource = span_dup(resource)};
	VEC_PUSH(d->ids, d->n_ids) = span_dup(rest);
}

/* wanted: the IDs of GPUs that are used to select devices of rdma/a, each followed by a space */
static void assert_chosen(struct pod_gpus *g, const char *const *devices, const char *wanted)
{
	auto_podres struct podres_list l = {0};
	auto_free const char **ids = NULL;
	char found[256] = "";
	size_t n;

	for (; *devices; devices++)
		add(&l, *devices);
	n = pod_gpus_choose(g, &l, &node, "rdma/a", &ids);
	for (size_t i = 0; i < n; i++) {
		strcat(found, ids[i]);
		strcat(found, " ");
	}
	ASSERT_STR_EQ(found, wanted);
}

#define CHOSEN(g, wanted, ...)                                                                     \
	assert_chosen(g, (const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL}, wanted)

static void test_gpus_of_the_pod_that_appeared_last_are_used(void **state)
{
	struct pod_gpus g = {0};

	(void)state;
	CHOSEN(&g, "");
	CHOSEN(&g, "GPU-0 ", "a/c nvidia.com/gpu=GPU-0");
	CHOSEN(&g, "GPU-1 GPU-2 ", "a/c nvidia.com/gpu=GPU-0", "b/c nvidia.com/gpu=GPU-1",
	       "b/c nvidia.com/gpu=GPU-2");
	/* The same pod requests its second resource. */
	CHOSEN(&g, "GPU-1 GPU-2 ", "b/c nvidia.com/gpu=GPU-1", "b/c rdma/b=0",
	       "b/c nvidia.com/gpu=GPU-2", "a/c nvidia.com/gpu=GPU-0");
	/* Pod b already has rdma/a, so the kubelet's call is for pod a. */
	CHOSEN(&g, "GPU-0 ", "a/c nvidia.com/gpu=GPU-0", "b/c nvidia.com/gpu=GPU-1",
	       "b/c rdma/a=1");
	pod_gpus_done(&g);
}

static void test_gpus_of_all_containers_of_the_pod_are_used(void **state)
{
	struct pod_gpus g = {0};

	(void)state;
	CHOSEN(&g, "GPU-0 GPU-1 ", "a/c nvidia.com/gpu=GPU-0", "a/c rdma/a=0",
	       "a/d nvidia.com/gpu=GPU-1");
	CHOSEN(&g, "", "a/c nvidia.com/gpu=GPU-0", "a/c rdma/a=0", "a/d nvidia.com/gpu=GPU-1",
	       "a/d rdma/a=1");
	pod_gpus_done(&g);
}

static void test_no_gpus_are_chosen_when_two_pods_appear_at_once(void **state)
{
	struct pod_gpus g = {0};

	(void)state;
	/* Two pods appeared at once, as after a restart of the agent. */
	CHOSEN(&g, "", "a/c nvidia.com/gpu=GPU-0", "b/c nvidia.com/gpu=GPU-1");
	CHOSEN(&g, "", "a/c nvidia.com/gpu=GPU-0", "b/c nvidia.com/gpu=GPU-1");
	CHOSEN(&g, "GPU-2 ", "a/c nvidia.com/gpu=GPU-0", "b/c nvidia.com/gpu=GPU-1",
	       "c/c nvidia.com/gpu=GPU-2");
	/* No effect: a GPU that is not on this node, and devices of other resources. */
	CHOSEN(&g, "", "a/c nvidia.com/gpu=GPU-9", "b/c rdma/b=0", "c/c cpu=1");
	pod_gpus_done(&g);
}

static void test_gpu_ids_may_be_addresses_or_uuids(void **state)
{
	struct pod_gpus g = {0};

	(void)state;
	CHOSEN(&g, "0000:17:00.0 GPU-1::3 ", "a/c x.io/gpu=0000:17:00.0",
	       "a/c nvidia.com/gpu=GPU-1::3");
	pod_gpus_done(&g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_gpus_of_the_pod_that_appeared_last_are_used),
		cmocka_unit_test(test_gpus_of_all_containers_of_the_pod_are_used),
		cmocka_unit_test(test_no_gpus_are_chosen_when_two_pods_appear_at_once),
		cmocka_unit_test(test_gpu_ids_may_be_addresses_or_uuids),
	};

	return T_RUN(tests, NULL, NULL);
}
