/* SPDX-License-Identifier: Apache-2.0 */
#include "testlib.h"

#include <string.h>

#include "base/alloc.h"
#include "spec/identity.h"

static const struct identity_conf both = {true, true}, none = {false, false};

struct identity_case {
	/* name of the pod; API version, kind and name of its controller */
	const char *name, *api, *kind, *owner;
	const char *label, *vm, *domain, *job; /* labels and annotations that KubeVirt sets */
};

#define OWNED(n, a, k, o, ...)                                                                     \
	{                                                                                          \
		.name = n, .api = a, .kind = k, .owner = o, ##__VA_ARGS__                          \
	}
#define VMI(api, ...)                                                                              \
	OWNED("x", api, "VirtualMachineInstance", "vm1", .label = "virt-launcher", ##__VA_ARGS__)

static void check(const struct identity_case *w, const struct identity_conf *c,
		  enum identity_kind kind, const char *name, bool migrating)
{
	struct pod_facts p = {.ns = (char *)"a",
			      .name = (char *)w->name,
			      .owner_api = (char *)w->api,
			      .owner_kind = (char *)w->kind,
			      .owner_name = (char *)w->owner};
	struct identity i;

	if (w->label)
		labels_put(&p.labels, "kubevirt.io", w->label);
	if (w->vm)
		labels_put(&p.labels, "vm.kubevirt.io/name", w->vm);
	if (w->domain)
		labels_put(&p.annotations, "kubevirt.io/domain", w->domain);
	if (w->job)
		labels_put(&p.annotations, "kubevirt.io/migrationJobName", w->job);
	identity_of(&p, c, &i);
	ASSERT_EQ(i.kind, kind);
	ASSERT_STR_EQ(i.name, name);
	ASSERT_STR_EQ(i.pod, w->name);
	ASSERT_STR_EQ(i.ns, "a");
	ASSERT_EQ(i.migrating, migrating);
	ASSERT_EQ(identity_is_sticky(&i), kind != IDENTITY_POD);
	labels_done(&p.labels);
	labels_done(&p.annotations);
}

static void test_pods_of_statefulsets_retain_addresses(void **state)
{
	static const struct identity_case plain = {.name = "web-0"},
					  job = OWNED("job-0", "batch/v1", "Job", "job"),
					  set = OWNED("web-0", "apps/v1", "StatefulSet", "web"),
					  kruise = OWNED("web-0", "apps.kruise.io/v1beta1",
							 "StatefulSet", "web"),
					  odd = OWNED("web-x", "apps/v1", "StatefulSet", "web"),
					  rs = OWNED("web-5-0", "apps/v1", "ReplicaSet", "web-5");

	(void)state;
	check(&plain, &both, IDENTITY_POD, "web-0", false);
	check(&job, &both, IDENTITY_POD, "job-0", false);
	check(&rs, &both, IDENTITY_POD, "web-5-0", false);
	check(&kruise, &both, IDENTITY_POD, "web-0", false);
	check(&odd, &both, IDENTITY_POD, "web-x", false);
	check(&set, &both, IDENTITY_STATEFULSET, "web-0", false);
	check(&set, &none, IDENTITY_POD, "web-0", false);
}

static void test_virtual_machines_retain_addresses(void **state)
{
	static const struct identity_case vmi = VMI("kubevirt.io/v1"),
					  old = VMI("kubevirt.io/v1alpha3"),
					  moving = VMI("kubevirt.io/v1", .job = "evacuation-1"),
					  other = VMI("example.org/v1"),
					  domain = {.name = "x",
						    .label = "virt-launcher",
						    .vm = "other",
						    .domain = "vm1"},
					  label = {.name = "x",
						   .label = "virt-launcher",
						   .vm = "vm1"},
					  /* These pods are not virtual machines: a pod of
					   * another owner (claims), whatever labels and
					   * annotations a user wrote to it, and pods without the
					   * label kubevirt.io (noted, job). */
		claims = OWNED("x", "apps/v1", "ReplicaSet", "y", .label = "virt-launcher",
			       .domain = "vm1"),
					  noted = {.name = "x", .vm = "vm1", .domain = "vm1"},
					  job = {.name = "x", .job = "evacuation-1"};

	(void)state;
	check(&vmi, &both, IDENTITY_MACHINE, "vm1", false);
	check(&old, &both, IDENTITY_MACHINE, "vm1", false);
	check(&moving, &both, IDENTITY_MACHINE, "vm1", true);
	check(&domain, &both, IDENTITY_MACHINE, "vm1", false);
	check(&label, &both, IDENTITY_MACHINE, "vm1", false);
	check(&claims, &both, IDENTITY_POD, "x", false);
	check(&noted, &both, IDENTITY_POD, "x", false);
	check(&other, &both, IDENTITY_POD, "x", false);
	check(&job, &both, IDENTITY_POD, "x", false);
	check(&moving, &none, IDENTITY_POD, "x", false);
}

static void test_ordinal_of_a_statefulset_pod_is_parsed(void **state)
{
	static const struct {
		const char *pod, *set;
		uint64_t ordinal;
	} v[] = {{"web-0", "web", 0}, {"a-b-12", "a-b", 12}, {"web-007", "web", 7}};
	static const char *const bad[] = {"web",    "web-",  "-1", "web-x",
					  "web-1x", "web--", "",   "web-99999999999999999999"};
	uint64_t ordinal;
	char set[254];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(v); i++) {
		assert_true(identity_ordinal(v[i].pod, set, &ordinal));
		ASSERT_STR_EQ_MSG(set, v[i].set, "v[%zu]", i);
		ASSERT_EQ_MSG(ordinal, v[i].ordinal, "v[%zu]", i);
	}
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_false(identity_ordinal(bad[i], set, &ordinal));
}

static void test_retained_addresses_are_released_when_no_owner_needs_them(void **state)
{
	static const struct identity_set unasked,
		three = {true, true, 0, 3}, from5 = {true, true, 5, 2}, zero = {true, true, 0, 0},
		deleted = {true, false, 0, 0};
	static const struct identity_machine not_asked,
		no_vm = {.known = true}, lives = {.known = true, .vmi_exists = true},
		ending = {.known = true, .vmi_exists = true, .vmi_deleting = true},
		stopped = {.known = true, .vm_exists = true},
		restarting = {.known = true,
			      .vmi_exists = true,
			      .vmi_deleting = true,
			      .vm_exists = true},
		removed = {.known = true, .vm_exists = true, .vm_deleting = true};
	static const struct identity_conf only_sets = {.statefulset = true},
					  only_machines = {.kubevirt = true};
	static const struct {
		const char *name;
		const struct identity_conf *c;
		const struct identity_set *set;
		const struct identity_machine *machine;
		bool over;
	} v[] = {
		{"web-2", &both, &three, &no_vm, false},
		{"web-3", &both, &three, &no_vm, true},
		{"web-4", &both, &from5, &no_vm, true},
		{"web-5", &both, &from5, &no_vm, false},
		{"web-6", &both, &from5, &no_vm, false},
		{"web-7", &both, &from5, &no_vm, true},
		{"web-0", &both, &zero, &no_vm, true},
		{"web-0", &both, &deleted, &no_vm, true},
		/* An address is retained until each possible owner is confirmed as deleted. */
		{"web-0", &both, &unasked, &no_vm, false},
		{"web-9", &both, &deleted, &not_asked, false},
		{"vm", &both, &unasked, &not_asked, false},
		/* The name of a virtual machine may end in a number, like that of a
		 * StatefulSet's pod. */
		{"vm-1", &both, &deleted, &lives, false},
		{"vm", &both, &unasked, &lives, false},
		{"vm", &both, &unasked, &no_vm, true},
		{"vm", &both, &unasked, &ending, true},
		{"vm", &both, &unasked, &stopped, false},
		{"vm", &both, &unasked, &restarting, false},
		{"vm", &both, &unasked, &removed, true},
		/* A disabled feature retains no address. */
		{"web-0", &none, &three, &lives, true},
		{"web-9", &only_sets, &three, &not_asked, true},
		{"web-0", &only_sets, &three, &not_asked, false},
		{"vm-0", &only_machines, &unasked, &no_vm, true},
		{"vm-0", &only_machines, &unasked, &stopped, false},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(v); i++)
		if (identity_is_over(v[i].name, v[i].c, v[i].set, v[i].machine) != v[i].over)
			fail_msg("row %zu: identity_is_over() of '%s'", i, v[i].name);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pods_of_statefulsets_retain_addresses),
		cmocka_unit_test(test_virtual_machines_retain_addresses),
		cmocka_unit_test(test_ordinal_of_a_statefulset_pod_is_parsed),
		cmocka_unit_test(test_retained_addresses_are_released_when_no_owner_needs_them),
	};

	return T_RUN(tests, NULL, NULL);
}
