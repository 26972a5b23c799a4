/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the kinds of host.conf sections that configure hardware: their exact steps on the hosts
 * tests/hosts/hw_*, and the execution of steps. Tests also the exact steps of the whole
 * host.conf of each host tests/hosts/net_*. */
#include "host_lab.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "host/apply.h"
#include "host/dropin.h"
#include "host/kinds.h"
#include "host/steps/nics.h"

static struct err e;

enum { TEXT_MAX = 1 << 20 };

/* One section of host.conf: want_begin() sets the defaults of the kind, then the given keys
 * ("dscp=40"). */
struct want {
	struct host_want *w;
	struct host_wants list;
};

/* Opens a host of tests/hosts. */
static void open_host(struct host_lab *lab, struct host *h, const char *tree)
{
	host_unpack(lab, tree);
	ASSERT_OK(host_open(h, lab->dir, &e), &e);
}

static void close_host(struct host_lab *lab, struct host *h)
{
	host_close(h);
	host_remove(lab);
}

static void set_key(const struct host_kind *k, void *w, const char *line)
{
	for (const struct opt *o = k->keys; o->name; o++) {
		size_t n = strlen(o->name);
		char *at = (char *)w + o->offset;

		if (strncmp(line, o->name, n) != 0 || line[n] != '=')
			continue;
		if (o->type == OPT_INT)
			*(int64_t *)at = strtoll(line + n + 1, NULL, 10);
		else if (o->type == OPT_FLAG)
			*(bool *)at = !strcmp(line + n + 1, "true");
		else
			*(const char **)at = line + n + 1;
		return;
	}
	fail_msg("kind %s has no key '%s'", k->name, line);
}

static void want_begin(struct want *w, const struct host_kind *k, const char *const *lines)
{
	w->w = calloc(1, k->size);
	assert_non_null(w->w);
	w->w->origin = "test";
	if (k->init)
		k->init(w->w);
	for (; lines && *lines; lines++) {
		if (!strncmp(*lines, "NAME=", 5))
			w->w->name = *lines + 5;
		else
			set_key(k, w->w, *lines);
	}
	w->list = (struct host_wants){.kind = k, .v = &w->w, .n = 1};
}

/* Adds to `p` the steps of kind `k` for a section with the keys `lines`. Returns the result of
 * decide(), or the error of check() or observe(). */
static int plan(struct host *h, const struct host_kind *k, const char *const *lines,
		struct host_plan *p)
{
	struct want w;
	void *found = NULL;
	int r = 0;

	err_clear(&e);
	want_begin(&w, k, lines);
	if (k->check)
		r = k->check(w.w, &e);
	if (r >= 0)
		r = k->observe(h, &w.list, &found, &e);
	if (r >= 0)
		r = k->decide(&w.list, found, p, &e);
	k->forget(found);
	free(w.w);
	return r;
}

static void print(const struct host_plan *p, struct buf *b)
{
	for (size_t i = 0; i < p->n; i++) {
		const struct host_step *s = &p->v[i];

		buf_printf(b, "%s %s: %s -> %s | %s%s%s%s\n", s->kind, s->subject, s->current,
			   s->desired, s->command, s->interrupts ? " | interrupts" : "",
			   s->effect == HOST_NOW ? "" : " | ",
			   s->effect == HOST_NOW ? "" : host_effect_name(s->effect));
		if (s->blocked)
			buf_printf(b, "\tblocked: %s\n", s->blocked);
	}
	for (size_t i = 0; i < p->n_remarks; i++)
		buf_printf(b, "note %s %s: %s\n", p->remarks[i].kind, p->remarks[i].subject,
			   p->remarks[i].text);
}

static const struct {
	const char *kind;
	const char *const *keys;
	const char *only; /* this host of tests/hosts/hw_* only; NULL: all */
} asked[] = {
	{"modules", NULL, NULL},
	{"link-type", (const char *const[]){"all=roce", NULL}, NULL},
	{"vf", (const char *const[]){"NAME=ibs1", "num-vfs=2", "mtu=2044", NULL}, "infiniband"},
	{"acs", NULL, NULL},
	{"pci", (const char *const[]){"max-read-request=4096", NULL}, NULL},
	{"qos", NULL, NULL},
	{"gpudirect", NULL, NULL},
};

/* Compares the plan with the expected file. With RECORD=1 in the environment, it writes the plan
 * to this file instead, for review. */
static void compare(const char *file, const struct host_plan *p)
{
	auto_fd int fd = open(file, O_RDONLY | O_CLOEXEC);
	auto_buf struct buf want, got;

	buf_init(&want, TEXT_MAX);
	buf_init(&got, TEXT_MAX);
	print(p, &got);
	if (getenv("RECORD")) {
		FILE *f = fopen(file, "w");

		assert_non_null(f);
		fputs(got.len ? got.p : "", f);
		fclose(f);
		return;
	}
	if (fd >= 0)
		ASSERT_EQ(fd_read_all(fd, TEXT_MAX, &want, NULL), 0);
	if (want.len != got.len || memcmp(want.p, got.p, got.len) != 0)
		fail_msg("%s, expected:\n%s---\ngot:\n%s---", file, want.len ? want.p : "",
			 got.len ? got.p : "");
}

static void steps_of(const char *name)
{
	auto_free char *tree = xasprintf("hw_%s.tree", name);
	auto_free char *file = xasprintf(TEST_DATA "hosts/hw_%s.steps", name);
	auto_host_plan struct host_plan p = {0};
	struct host_lab lab;
	struct host h;

	host_unpack(&lab, tree);
	ASSERT_EQ(host_open(&h, lab.dir, &e), 0);
	assert_true(h.recorded);
	for (size_t i = 0; i < ARRAY_LEN(asked); i++)
		if ((!asked[i].only || !strcmp(asked[i].only, name)) &&
		    plan(&h, host_kind_find(asked[i].kind), asked[i].keys, &p) < 0)
			fail_msg("%s: %s: %s", name, asked[i].kind, e.text);
	host_close(&h);
	host_remove(&lab);
	compare(file, &p);
}

/*
 * Plans as `unirail host plan --root` does: with host.conf, links, addresses, routes, rules and
 * RDMA mode of the tree.
 */
static void conf_steps_of(const char *name)
{
	auto_free char *tree = xasprintf("net_%s.tree", name);
	auto_free char *file = xasprintf(TEST_DATA "hosts/net_%s.steps", name);
	auto_host_plan struct host_plan p = {0};
	auto_host_conf struct host_conf c;
	struct host_lab lab;
	struct host h;

	host_conf_init(&c);
	host_unpack(&lab, tree);
	ASSERT_EQ(host_open(&h, lab.dir, &e), 0);
	assert_true(h.recorded);
	if (host_dropin_read(&c, &h.root, HOST_CONF, true, &e) < 0 ||
	    host_plan_make(&h, &c, NULL, &p, &e) < 0)
		fail_msg("%s: %s", name, e.text);
	host_close(&h);
	host_remove(&lab);
	compare(file, &p);
}

/* Plans gpudirect on the host; returns whether a remark contains the text. */
static bool is_remarked(struct host *h, const char *text)
{
	auto_host_plan struct host_plan p = {0};
	bool found = false;

	ASSERT_OK(plan(h, host_kind_find("gpudirect"), NULL, &p), &e);
	for (size_t i = 0; i < p.n_remarks; i++)
		found |= strstr(p.remarks[i].text, text) != NULL;
	return found;
}

static void test_missing_nvidia_driver_is_remarked_only_with_an_nvidia_gpu(void **state)
{
	static const char text[] = "NVIDIA's GPU driver is not loaded";
	auto_free struct pci_dev *all = NULL;
	auto_free char *module = NULL, *away = NULL;
	struct host_lab lab;
	struct host h;
	size_t n = 0, gpus = 0;

	(void)state;
	host_unpack(&lab, "hw_eight_ofed.tree");
	ASSERT_OK(host_open(&h, lab.dir, &e), &e);
	assert_false(is_remarked(&h, text));
	module = xasprintf("%s/sys/module/nvidia", lab.dir);
	away = xasprintf("%s/sys/module/other", lab.dir);
	ASSERT_EQ(rename(module, away), 0);
	assert_true(is_remarked(&h, text));
	ASSERT_OK(pci_list(&h.root, &all, &n, &e), &e);
	for (size_t i = 0; i < n; i++) {
		auto_free char *vendor = xasprintf("/sys/bus/pci/devices/%s/vendor", all[i].bdf);

		if (!host_is_gpu(&all[i]))
			continue;
		gpus++;
		ASSERT_OK(file_replace(&h.root, vendor, span_of("0x1002\n"), 0644, &e), &e);
	}
	ASSERT_EQ(gpus, 8);
	assert_false(is_remarked(&h, text));
	host_close(&h);
	host_remove(&lab);
}

#define STEPS(name)                                                                                \
	static void test_planned_steps_of_##name(void **state)                                     \
	{                                                                                          \
		(void)state;                                                                       \
		steps_of(#name);                                                                   \
	}
STEPS(eight_ofed)
STEPS(inbox)
STEPS(infiniband)
STEPS(bluefield)
STEPS(bond)
STEPS(vm)

#define CONF_STEPS(name)                                                                           \
	static void test_planned_steps_of_host_conf_##name(void **state)                           \
	{                                                                                          \
		(void)state;                                                                       \
		conf_steps_of(#name);                                                              \
	}
CONF_STEPS(networkd)
CONF_STEPS(networkmanager)
CONF_STEPS(netplan)
CONF_STEPS(ipoib)

/* --- executing steps on a copy of sysfs in a directory --- */

static int carry(struct host *h, const struct host_plan *p, bool undo)
{
	for (size_t i = 0; i < p->n; i++) {
		const struct host_step *s = &p->v[undo ? p->n - 1 - i : i];
		const struct host_op *op = undo ? &s->undo : &s->action;
		int r = host_kind_find(s->kind)->act(h, op, &e);

		/* a step must also succeed the second time, because it may be repeated after a
		 * kill */
		if (r >= 0)
			r = host_kind_find(s->kind)->act(h, op, &e);
		if (r < 0)
			return r;
	}
	return 0;
}

static size_t left(struct host *h, const char *kind, const char *const *keys)
{
	auto_host_plan struct host_plan p = {0};

	ASSERT_EQ(plan(h, host_kind_find(kind), keys, &p), 0);
	return p.n;
}

static void test_acs_and_pci_steps_are_executed_and_undone(void **state)
{
	static const char *const keys[] = {"max-read-request=4096", "relaxed-ordering=off", NULL};
	static const char *const every[] = {"bridges=all", NULL};
	auto_host_plan struct host_plan acs = {0}, pci = {0};
	struct host_lab lab;
	struct host h;

	(void)state;
	open_host(&lab, &h, "hw_eight_ofed.tree");
	ASSERT_EQ(plan(&h, host_kind_find("acs"), every, &acs), 0);
	ASSERT_EQ(plan(&h, host_kind_find("pci"), keys, &pci), 0);
	ASSERT_EQ(acs.n, 16);
	ASSERT_EQ(pci.n, 8 + 9);
	ASSERT_EQ(carry(&h, &acs, false), 0);
	ASSERT_EQ(carry(&h, &pci, false), 0);
	ASSERT_EQ(left(&h, "acs", every), 0);
	ASSERT_EQ(left(&h, "pci", keys), 0);
	ASSERT_EQ(carry(&h, &acs, true), 0);
	ASSERT_EQ(carry(&h, &pci, true), 0);
	ASSERT_EQ(left(&h, "acs", every), 16);
	ASSERT_EQ(left(&h, "pci", keys), 17);
	close_host(&lab, &h);
}

/* --- mistakes --- */

static void refuses(struct host *h, const char *kind, const char *key, const char *expected)
{
	const char *const keys[] = {key, NULL};
	auto_host_plan struct host_plan p = {0};

	assert_true(plan(h, host_kind_find(kind), keys, &p) < 0);
	ASSERT_EQ(e.kind, ERR_CONF);
	if (!strstr(e.text, expected))
		fail_msg("'%s' is not in '%s'", expected, e.text);
}

static void refuses_both(struct host *h, const char *kind, const char *first, const char *second,
			 const char *expected)
{
	const char *const keys[] = {first, second, NULL};
	auto_host_plan struct host_plan p = {0};

	assert_true(plan(h, host_kind_find(kind), keys, &p) < 0);
	ASSERT_EQ(e.kind, ERR_CONF);
	if (!strstr(e.text, expected))
		fail_msg("'%s' is not in '%s'", expected, e.text);
}

static void test_invalid_hardware_settings_are_refused(void **state)
{
	struct host_lab lab;
	struct host h;

	(void)state;
	open_host(&lab, &h, "hw_eight_ofed.tree");
	refuses(&h, "qos", "nics=ens1np0,ens2np1", "no RDMA NIC 'ens2np1'; did you mean 'ens");
	refuses(&h, "qos", "cnp-priority=5", "are both 5");
	refuses(&h, "qos", "dscp=26", "dscp is 26, expected 40 to 47");
	refuses(&h, "qos", "storage-priority=6", "storage-priority and storage-cnp-priority");
	refuses(&h, "qos", "storage-dscp=24", "storage-dscp without storage-priority");
	refuses(&h, "qos", "storage-cnp-priority=6",
		"storage-cnp-priority without storage-priority");
	refuses_both(&h, "qos", "priority=4", "storage-cnp-dscp=48",
		     "storage-cnp-dscp without storage-priority");
	refuses(&h, "qos", "ets=50,50", "expected 8 numbers");
	refuses(&h, "qos", "ets=50,40,0,0,0,0,0,0", "adds up to 90");
	refuses(&h, "qos", "priority-buffer=0,0,0,0,0,9,0,0", "at most 7");
	refuses(&h, "pci", "max-read-request=1000", "expected 128, 256");
	refuses(&h, "pci", "nics=mlx5_99", "no RDMA NIC 'mlx5_99'");
	refuses(&h, "link-type", "nics=mlx5_0", "no link type: set all, or gpu, or other");
	refuses(&h, "vf", "mtu=1500", "num-vfs is missing");
	refuses_both(&h, "vf", "num-vfs=4", "pf-names=ens1np0#2-", "is not a range of VFs");
	refuses_both(&h, "vf", "num-vfs=4", "pf-names=ens1np0#3-2", "is not a range of VFs");
	refuses_both(&h, "vf", "num-vfs=4", "pf-names=ens1np0#2-4",
		     "ends with VF 4, and num-vfs is 4: the last VF is 3");
	refuses_both(&h, "vf", "num-vfs=4", "pf-names=ens1np0#0-1,ens1np0#3",
		     "has 'ens1np0' more than once");
	refuses_both(&h, "vf", "num-vfs=4", "pf-names=ens1np1#0-1", "did you mean 'ens1np0'");
	refuses(&h, "modules", "load=ib_umad,../evil", "expected names of modules");
	close_host(&lab, &h);
}

/* Storage NICs have a traffic class of their own. The GPU NIC ens8np0 has the default values
 * already, so it has no step. */
static void test_storage_nics_have_a_traffic_class_of_their_own(void **state)
{
	static const char *const keys[] = {"storage-priority=3", "storage-cnp-priority=6",
					   "nics=ens8np0,ens9np0", NULL};
	auto_host_plan struct host_plan p = {0};
	struct host_lab lab;
	struct host h;

	(void)state;
	open_host(&lab, &h, "hw_eight_ofed.tree");
	ASSERT_EQ(plan(&h, host_kind_find("qos"), keys, &p), 0);
	for (size_t i = 0; i < p.n; i++) {
		assert_string_not_equal(p.v[i].subject, "ens8np0");
		if (!strncmp(p.v[i].desired, "PFC", 3))
			ASSERT_STR_EQ(p.v[i].desired, "PFC on priority 3");
	}
	/* 6 steps for ens9np0 (trust, PFC, ECN roce_np, ECN roce_rp, DSCP of CNPs, traffic
	 * class) and 1 for the host (tcp_ecn) */
	ASSERT_EQ(p.n, 7);
	close_host(&lab, &h);
}

/* A step that changes the number of VFs is blocked while a pod has one of them, and names the pod.
 * Also refused: more VFs than the PF can have, and a name or a vendor that no PF has. */
static void test_vfs_of_pods_are_not_changed(void **state)
{
	static const char *const more[] = {"NAME=ibs1", "num-vfs=4", NULL};
	static const char *const many[] = {"NAME=ibs1", "num-vfs=9", NULL};
	static const char *const none[] = {"NAME=ibs2", "num-vfs=1", NULL};
	static const char *const other[] = {"NAME=all", "vendor=8086", "num-vfs=1", NULL};
	auto_host_plan struct host_plan p = {0};
	struct host_lab lab;
	struct host h;

	(void)state;
	open_host(&lab, &h, "hw_infiniband.tree");
	ASSERT_EQ(plan(&h, host_kind_find("vf"), more, &p), 0);
	ASSERT_EQ(p.n, 5);
	ASSERT_STR_EQ(p.v[0].current, "2 VFs");
	ASSERT_STR_EQ(p.v[0].desired, "4 VFs");
	ASSERT_STR_EQ(p.v[0].blocked,
		      "VF '0000:18:00.2' is in the pod with UID '3c9f': delete the pod "
		      "or drain the node first");
	ASSERT_EQ(host_kind_find("vf")->act(&h, &p.v[0].action, &e), -EBUSY);
	assert_non_null(strstr(e.text, "is in the pod with UID '3c9f'"));
	assert_string_not_equal(host_op_get(&p.v[1].action, "guid"),
				host_op_get(&p.v[2].action, "guid"));
	ASSERT_EQ(plan(&h, host_kind_find("vf"), many, &p), -ERANGE);
	assert_non_null(strstr(e.text, "'ibs1' can have 8"));
	ASSERT_EQ(plan(&h, host_kind_find("vf"), none, &p), -ENODEV);
	assert_non_null(strstr(e.text, "did you mean 'ibs1'?"));
	ASSERT_EQ(plan(&h, host_kind_find("vf"), other, &p), -ENODEV);
	assert_non_null(strstr(e.text, "no PF matches"));
	close_host(&lab, &h);
}

static void test_number_of_vfs_is_set_and_undone(void **state)
{
	static const char *const keys[] = {"NAME=ens1np0", "num-vfs=4", "identity=driver", NULL};
	auto_host_plan struct host_plan p = {0};
	struct host_lab lab;
	struct host h;

	(void)state;
	open_host(&lab, &h, "hw_eight_ofed.tree");
	ASSERT_EQ(plan(&h, host_kind_find("vf"), keys, &p), 0);
	ASSERT_EQ(p.n, 1);
	assert_null(p.v[0].blocked);
	ASSERT_EQ(carry(&h, &p, false), 0);
	ASSERT_EQ(left(&h, "vf", keys), 0);
	ASSERT_EQ(carry(&h, &p, true), 0);
	ASSERT_EQ(left(&h, "vf", keys), 1);
	close_host(&lab, &h);
}

/* Two sections with the same number of VFs share a PF, each with a range of its own; sections with
 * different numbers are refused. */
static void test_sections_with_vf_ranges_share_a_pf(void **state)
{
	static const char *const low[] = {"pf-names=ens1np0#0-1", "num-vfs=4", "driver=vfio-pci",
					  "identity=driver", NULL};
	static const char *const high[] = {"pf-names=ens1np0#3", "num-vfs=4",	 "mtu=2000",
					   "identity=driver",	 "is-rdma=true", NULL};
	static const char *const other[] = {"pf-names=ens1np0#2", "num-vfs=3", NULL};
	static const char *const vfio[] = {"NAME=ens1np0", "num-vfs=1", "driver=vfio-pci",
					   "is-rdma=true", NULL};
	const struct host_kind *k = host_kind_find("vf");
	auto_host_plan struct host_plan p = {0}, q = {0};
	struct want a, b, c;
	void *found = NULL;
	struct host_lab lab;
	struct host h;

	(void)state;
	open_host(&lab, &h, "hw_eight_ofed.tree");
	want_begin(&a, k, low);
	want_begin(&b, k, high);
	want_begin(&c, k, other);
	{
		struct host_want *two[] = {a.w, b.w}, *odd[] = {a.w, c.w};
		struct host_wants w = {.kind = k, .v = two, .n = 2};

		ASSERT_EQ(k->check(a.w, &e), 0);
		ASSERT_EQ(k->check(b.w, &e), 0);
		ASSERT_EQ(k->observe(&h, &w, &found, &e), 0);
		ASSERT_EQ(k->decide(&w, found, &p, &e), 0);
		ASSERT_EQ(p.n, 4);
		ASSERT_STR_EQ(p.v[0].desired, "4 VFs");
		ASSERT_STR_EQ(p.v[1].subject, "ens1np0 VF 0");
		ASSERT_STR_EQ(p.v[2].subject, "ens1np0 VF 1");
		ASSERT_STR_EQ(p.v[2].desired, "driver vfio-pci");
		ASSERT_STR_EQ(p.v[3].subject, "ens1np0 VF 3");
		ASSERT_STR_EQ(p.v[3].desired, "MTU 2000");
		w.v = odd;
		ASSERT_EQ(k->decide(&w, found, &q, &e), -EINVAL);
		assert_non_null(strstr(e.text, "request 4 and 3 VFs of 'ens1np0'"));
	}
	k->forget(found);
	free(a.w);
	free(b.w);
	free(c.w);
	assert_true(plan(&h, k, vfio, &q) < 0);
	assert_non_null(strstr(e.text, "is-rdma and driver vfio-pci exclude each other"));
	close_host(&lab, &h);
}

/* Refused: two sections that name the same PF, be it by interface, PCI address or RDMA device, and
 * have a VF in common. Accepted: sections for different ranges of its VFs, and a section that
 * selects PFs only by vendor. */
static void test_two_sections_that_name_the_same_vfs_are_refused(void **state)
{
	static const char *const lists[][4] = {{"NAME=ens1np0", "num-vfs=4", NULL},
					       {"NAME=0000:13:00.0", "num-vfs=4", NULL},
					       {"NAME=mlx5_0#0-1", "num-vfs=4", NULL},
					       {"NAME=gpus", "pf-names=0000:13:00.0#2", "num-vfs=4",
						NULL},
					       {"NAME=all", "vendor=15b3", "num-vfs=4", NULL}};
	static const struct {
		int a, b;
		bool refused;
	} pairs[] = {{0, 1, true}, {0, 2, true}, {1, 3, true}, {2, 3, false}, {4, 0, false}};
	const struct host_kind *k = host_kind_find("vf");
	struct host_lab lab;
	struct host h;

	(void)state;
	open_host(&lab, &h, "hw_eight_ofed.tree");
	for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
		auto_host_plan struct host_plan p = {0};
		void *found = NULL;
		struct want a, b;

		want_begin(&a, k, lists[pairs[i].a]);
		want_begin(&b, k, lists[pairs[i].b]);
		a.w->origin = "host.conf:3";
		b.w->origin = "host.conf:7";
		{
			struct host_want *two[] = {a.w, b.w};
			struct host_wants w = {.kind = k, .v = two, .n = 2};

			ASSERT_EQ_MSG(k->observe(&h, &w, &found, &e), 0, "pairs[%zu]", i);
			ASSERT_EQ_MSG(k->decide(&w, found, &p, &e), pairs[i].refused ? -EEXIST : 0,
				      "pairs[%zu]", i);
		}
		if (i == 0)
			ASSERT_STR_EQ_MSG(
				e.text,
				"host.conf:7: section '0000:13:00.0' selects PF 'ens1np0' "
				"(0000:13:00.0), and so does section 'ens1np0' at host.conf:3: "
				"remove one, or select different VFs (ens1np0#0-3)",
				"pairs[%zu]", i);
		k->forget(found);
		free(a.w);
		free(b.w);
	}
	close_host(&lab, &h);
}

static int in_effect(struct host *h, const struct host_step *s, bool undo)
{
	const struct host_kind *k = host_kind_find(s->kind);

	return k->in_effect(h, undo ? &s->undo : &s->action, &e);
}

/* in_effect() returns 1 for a step's undo before the step is executed, and for its action
 * afterwards; with a third value, set by another program, it returns 0 for both. */
static void test_value_set_by_another_program_is_not_in_effect(void **state)
{
	static const char *const pci[] = {"max-read-request=4096", "nics=ens1np0", NULL};
	static const char *const other[] = {"max-read-request=2048", "nics=ens1np0", NULL};
	static const char *const every[] = {"bridges=all", NULL};
	static const char *const vfs[] = {"NAME=ens1np0", "num-vfs=4", "identity=driver", NULL};
	static const struct {
		const char *kind;
		const char *const *keys, *const *third;
	} cases[] = {{"pci", pci, other}, {"acs", every, NULL}, {"vf", vfs, NULL}};
	struct host_lab lab;
	struct host h;

	(void)state;
	open_host(&lab, &h, "hw_eight_ofed.tree");
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		auto_host_plan struct host_plan p = {0}, third = {0};
		const struct host_kind *k = host_kind_find(cases[i].kind);

		ASSERT_EQ_MSG(plan(&h, k, cases[i].keys, &p), 0, "cases[%zu]", i);
		assert_true(p.n > 0);
		ASSERT_EQ_MSG(in_effect(&h, &p.v[0], true), 1, "cases[%zu]", i);
		/* The step of kind vf counts as in effect while the PF has 0 VFs: it sets the
		 * number to 0 before it sets another number, so it may be half done. */
		ASSERT_EQ_MSG(in_effect(&h, &p.v[0], false), !strcmp(k->name, "vf"), "cases[%zu]",
			      i);
		ASSERT_EQ_MSG(k->act(&h, &p.v[0].action, &e), 0, "cases[%zu]", i);
		ASSERT_EQ_MSG(in_effect(&h, &p.v[0], false), 1, "cases[%zu]", i);
		ASSERT_EQ_MSG(in_effect(&h, &p.v[0], true), 0, "cases[%zu]", i);
		if (!cases[i].third)
			continue;
		ASSERT_EQ_MSG(plan(&h, k, cases[i].third, &third), 0, "cases[%zu]", i);
		ASSERT_EQ_MSG(k->act(&h, &third.v[0].action, &e), 0, "cases[%zu]", i);
		ASSERT_EQ_MSG(in_effect(&h, &p.v[0], false), 0, "cases[%zu]", i);
		ASSERT_EQ_MSG(in_effect(&h, &p.v[0], true), 0, "cases[%zu]", i);
	}
	close_host(&lab, &h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_missing_nvidia_driver_is_remarked_only_with_an_nvidia_gpu),
		cmocka_unit_test(test_planned_steps_of_eight_ofed),
		cmocka_unit_test(test_planned_steps_of_inbox),
		cmocka_unit_test(test_planned_steps_of_infiniband),
		cmocka_unit_test(test_planned_steps_of_bluefield),
		cmocka_unit_test(test_planned_steps_of_bond),
		cmocka_unit_test(test_planned_steps_of_vm),
		cmocka_unit_test(test_planned_steps_of_host_conf_networkd),
		cmocka_unit_test(test_planned_steps_of_host_conf_networkmanager),
		cmocka_unit_test(test_planned_steps_of_host_conf_netplan),
		cmocka_unit_test(test_planned_steps_of_host_conf_ipoib),
		cmocka_unit_test(test_acs_and_pci_steps_are_executed_and_undone),
		cmocka_unit_test(test_invalid_hardware_settings_are_refused),
		cmocka_unit_test(test_storage_nics_have_a_traffic_class_of_their_own),
		cmocka_unit_test(test_vfs_of_pods_are_not_changed),
		cmocka_unit_test(test_number_of_vfs_is_set_and_undone),
		cmocka_unit_test(test_sections_with_vf_ranges_share_a_pf),
		cmocka_unit_test(test_two_sections_that_name_the_same_vfs_are_refused),
		cmocka_unit_test(test_value_set_by_another_program_is_not_in_effect),
	};

	return T_RUN(tests, NULL, NULL);
}
