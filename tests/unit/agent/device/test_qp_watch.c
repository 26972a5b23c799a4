/* SPDX-License-Identifier: Apache-2.0 */
/* Containers without a queue pair: the state that follows from RDMA netlink, /proc and control
 * groups for each, and when a container is inspected. */
#include "testlib.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/device/qp_watch.h"
#include "base/alloc.h"
#include "ipam_lab.h"
#include "kern/netlink/nl.h"

#define UID "1f0c2a34-0000-4000-8000-00000000000"
#define ID  "5f2b8c6d9e"

/* --- findings --- */

static const char *const rxe0[] = {"rxe0"}, *const rxe1[] = {"rxe1"}, *const other[] = {"mlx5_0"};

static void process(const struct ipam_lab *l, int pid, const char *group, const char *limit,
		    const char *caps)
{
	const struct {
		const char *name;
		char *text;
	} files[] = {
		{"cgroup", xasprintf("12:rdma:/\n0::%s\n", group)},
		{"limits", xasprintf("Limit  Soft Limit  Hard Limit  Units\n"
				     "Max locked memory         %s              %s     bytes\n",
				     limit, limit)},
		{"status", xasprintf("Name:\tx\nCapEff:\t%s\n", caps)},
	};

	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		auto_free char *path = xasprintf("/proc/%d/%s", pid, files[i].name);

		il_write(l, path, files[i].text);
		free(files[i].text);
	}
}

static void inspect(const char *recording, const struct ipam_lab *l, struct qp_target *v, size_t n)
{
	auto_free char *path = xasprintf(TEST_DATA "replay/%s", recording);
	auto_nl struct nl_wire *w = NULL;
	struct err e = ERR_INIT;

	if (nl_open_replay(&w, path, &e) < 0 || qp_inspect(w, &l->root, v, n, &e) < 0 ||
	    nl_replay_finished(w, &e) < 0)
		fail_msg("%s", e.text);
}

static void test_cause_of_a_missing_queue_pair_is_named_for_each_container(void **state)
{
	struct ipam_lab l;
	struct qp_target v[] = {
		{.uid = UID "1",
		 .id = ID "1",
		 .devices = rxe0,
		 .n_devices = 1}, /* has queue pairs */
		/* has queue pairs; control group named by systemd */
		{.uid = UID "2", .devices = rxe0, .n_devices = 1},
		/* opened the device, low memlock limit */
		{.uid = UID "3", .devices = rxe0, .n_devices = 1},
		{.uid = UID "4", .devices = rxe0, .n_devices = 1},  /* opened rxe1 */
		{.uid = UID "5", .devices = rxe0, .n_devices = 1},  /* opened nothing */
		{.uid = UID "6", .devices = rxe1, .n_devices = 1},  /* its port is down */
		{.uid = UID "7", .devices = other, .n_devices = 1}, /* not visible */
	};

	(void)state;
	il_make(&l);
	process(&l, 101, "/kubepods/burstable/pod" UID "1/" ID "1", "unlimited", "0");
	process(&l, 202,
		"/kubepods.slice/kubepods-pod1f0c2a34_0000_4000_8000_000000000002.slice/"
		"cri-containerd-" ID "2.scope",
		"8388608", "0");
	process(&l, 303, "/../../kubepods/pod" UID "3/" ID "3", "8388608", "00000000a80425fb");
	process(&l, 404, "/kubepods/pod" UID "4/" ID "4", "65536", "00000000a80465fb");
	inspect("rdma_users.nl", &l, v, ARRAY_LEN(v));
	ASSERT_EQ(v[0].state, QP_PRESENT);
	ASSERT_EQ(v[1].state, QP_PRESENT);
	for (size_t i = 2; i < 6; i++)
		ASSERT_EQ(v[i].state, QP_NONE);
	ASSERT_HAS(v[2].reason, "process 303 may lock 8192 KiB (RLIMIT_MEMLOCK)");
	ASSERT_HAS(v[3].reason,
		   "the container has opened an RDMA device but has created no queue pair");
	ASSERT_HAS(v[4].reason, "no process of the container has opened an RDMA device");
	ASSERT_HAS(v[5].reason, "no port of the container's RDMA devices is active (rxe1 is DOWN)");
	ASSERT_EQ(v[6].state, QP_UNKNOWN);
	ASSERT_HAS(v[6].reason, "exclusive mode");
	il_drop(&l);
}

/* The control groups also count RDMA objects of processes and devices that netlink does not
 * show. */
static void test_rdma_objects_of_hidden_processes_are_read_from_control_groups(void **state)
{
	static const struct {
		const char *uid, *file, *text;
		enum qp_state state;
		const char *reason;
	} cases[] = {
		{UID "2", NULL, NULL, QP_UNKNOWN, "hostPID: true"},
		{UID "3", "/kubepods/pod" UID "3/rdma.current", "rxe0 hca_handle=0 hca_object=0\n",
		 QP_NONE, "no process of the container has opened an RDMA device"},
		{UID "4", "/kubepods/besteffort/pod" UID "4/rdma.current",
		 "mlx5_9 hca_handle=0 hca_object=0\nrxe0 hca_handle=2 hca_object=0\n", QP_NONE,
		 "the container has opened an RDMA device but has created no queue pair"},
		{UID "5", "/kubepods/pod" UID "5/rdma.current", "rxe0 hca_handle=1 hca_object=4\n",
		 QP_PRESENT, ""},
		{UID "6", "/kubepods/pod" UID "6/rdma.current", "mlx5_9 hca_handle=0\n", QP_UNKNOWN,
		 "hostPID: true"},
	};
	struct qp_target v[ARRAY_LEN(cases) + 2] = {
		{.uid = UID "1", .id = ID "1", .devices = rxe0, .n_devices = 1},
		{.uid = UID "8", .id = ID "8", .devices = other, .n_devices = 1}};
	struct ipam_lab l;

	(void)state;
	il_make(&l);
	il_write(&l, "/sys/fs/cgroup/cgroup.controllers", "cpu rdma\n");
	process(&l, 101, "/kubepods/pod" UID "1/" ID "1", "unlimited", "0");
	/* The host's netlink does not show a device that is in the network namespace of a pod
	 * (exclusive mode). The RDMA objects of this pod belong to another of its containers. */
	il_write(&l, "/sys/fs/cgroup/kubepods/pod" UID "8/rdma.current",
		 "mlx5_0 hca_handle=1 hca_object=9\n");
	il_write(&l,
		 "/sys/fs/cgroup/kubepods/pod" UID "8/cri-containerd-" ID "8.scope/rdma.current",
		 "mlx5_0 hca_handle=0 hca_object=0\n");
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		auto_free char *path = cases[i].file ? xasprintf("/sys/fs/cgroup%s", cases[i].file)
						     : NULL;

		v[2 + i] = (struct qp_target){.uid = cases[i].uid, .devices = rxe0, .n_devices = 1};
		if (path)
			il_write(&l, path, cases[i].text);
	}
	inspect("rdma_users_hidden.nl", &l, v, ARRAY_LEN(v));
	ASSERT_EQ(v[0].state, QP_PRESENT);
	ASSERT_EQ(v[1].state, QP_NONE);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		ASSERT_EQ_MSG(v[2 + i].state, cases[i].state, "cases[%zu]", i);
		ASSERT_HAS(v[2 + i].reason, cases[i].reason);
	}
	il_drop(&l);
}

static void test_queue_pairs_of_the_kernel_are_not_counted(void **state)
{
	struct ipam_lab l;
	struct qp_target v[] = {{.uid = UID "1", .devices = rxe0, .n_devices = 1}};

	(void)state;
	il_make(&l);
	inspect("rdma_users_none.nl", &l, v, ARRAY_LEN(v));
	ASSERT_EQ(v[0].state, QP_NONE);
	ASSERT_HAS(v[0].reason, "'unirail verify' in the container");
	il_drop(&l);
}

/* --- schedule --- */

enum { AFTER_MS = 60 * 1000, NOW = 1000 * 1000 };

struct lab {
	struct qp_watch *w;
	char events[1024];
};

static void on_devices(void *arg, const char *resource, const char *id, qp_device_fn each,
		       void *each_arg)
{
	(void)arg, (void)id;
	if (strncmp(resource, "rdma/", 5) == 0)
		each(each_arg, "rxe0");
}

static const char *on_uid(void *arg, const char *ns, const char *name)
{
	(void)arg, (void)ns;
	if (strcmp(name, "ended") == 0)
		return "";
	return strcmp(name, "unknown") == 0 ? NULL : name;
}

static void on_event(void *arg, bool is_warning, const char *ns, const char *pod, const char *uid,
		     const char *reason, const char *text)
{
	struct lab *l = arg;
	auto_free char *line =
		xasprintf("%s%s %s/%s %s: %s\n", is_warning ? "!" : "", reason, ns, pod, uid, text);

	strncat(l->events, line, sizeof(l->events) - strlen(l->events) - 1);
}

static void lab_open(struct lab *l)
{
	*l = (struct lab){0};
	l->w = qp_watch_new(&(struct qp_watch_conf){.after_ms = AFTER_MS,
						    .devices = on_devices,
						    .uid = on_uid,
						    .event = on_event,
						    .arg = l});
}

/* A container of the pod, with one device ID of `resource`. The UID of a pod equals its name. */
struct container {
	const char *pod, *name, *resource;
};

static void list(struct lab *l, int64_t now_ms, const struct container *v, size_t n)
{
	auto_podres struct podres_list list = {0};

	for (size_t i = 0; i < n; i++) {
		struct podres_pod *p;
		struct podres_container *c;
		struct podres_devices *d;

		if (!i || strcmp(v[i].pod, v[i - 1].pod) != 0)
			VEC_PUSH(list.pods, list.n_pods) =
				(struct podres_pod){.name = xstrdup(v[i].pod), .ns = xstrdup("t")};
		p = &list.pods[list.n_pods - 1];
		c = &VEC_PUSH(p->containers, p->n_containers);
		*c = (struct podres_container){.name = xstrdup(v[i].name)};
		d = &VEC_PUSH(c->devices, c->n_devices);
		*d = (struct podres_devices){.resource = xstrdup(v[i].resource)};
		VEC_PUSH(d->ids, d->n_ids) = xstrdup("0");
	}
	qp_watch_list(l->w, &list, now_ms);
}

/*
 * The API server's answer at loop time now_ms: containers a and b of the pod started at_s seconds
 * after 2026-11-23T10:00:00Z, which is loop time NOW.
 */
static void started(struct lab *l, int64_t now_ms, const char *pod, int at_s)
{
	auto_free char *text =
		xasprintf("{\"metadata\": {\"uid\": \"%s\"}, \"status\": {\"containerStatuses\": ["
			  "{\"name\": \"a\", \"containerID\": \"containerd://" ID
			  "a\", \"state\": {\"running\": "
			  "{\"startedAt\": \"2026-11-23T10:00:%02dZ\"}}}, "
			  "{\"name\": \"b\", \"containerID\": \"containerd://" ID
			  "b\", \"state\": {\"running\": "
			  "{\"startedAt\": \"2026-11-23T10:00:%02dZ\"}}}]}}",
			  pod, at_s, at_s);
	auto_json struct json_doc *doc = NULL;
	const int64_t wall = 1795428000000 + now_ms - NOW;

	ASSERT_EQ(json_parse(&doc, span_of(text), 4096, NULL), 0);
	qp_watch_take_pod(l->w, "t", pod, json_root(doc), now_ms, wall);
}

static size_t due(struct lab *l, int64_t now_ms, const char *first)
{
	auto_free struct qp_target *v = NULL;
	size_t n;

	qp_watch_due(l->w, now_ms, &v, &n);
	if (n && first)
		ASSERT_STR_EQ(v[0].id ? v[0].id : v[0].uid, first);
	return n;
}

static void test_missing_queue_pair_and_its_later_creation_are_reported_once_each(void **state)
{
	static const struct container one[] = {{"p", "a", "rdma/x"}};
	const char *ns = NULL, *pod = NULL;
	struct lab l;

	(void)state;
	lab_open(&l);
	list(&l, NOW, one, 1);
	assert_false(qp_watch_next_pod(l.w, NOW + AFTER_MS - 1, &ns, &pod));
	assert_true(qp_watch_next_pod(l.w, NOW + AFTER_MS, &ns, &pod));
	ASSERT_STR_EQ(ns, "t");
	ASSERT_STR_EQ(pod, "p");
	/* The container started 20 s after the pod was first listed, since its image was pulled
	 * first. */
	started(&l, NOW + AFTER_MS, "p", 20);
	assert_false(qp_watch_next_pod(l.w, NOW + 2 * AFTER_MS, &ns, &pod));
	ASSERT_EQ(due(&l, NOW + AFTER_MS + 19999, NULL), 0);
	ASSERT_EQ(due(&l, NOW + AFTER_MS + 20000, "p"), 1);
	qp_watch_take(l.w, 0, QP_NONE, "why", NOW + AFTER_MS + 20000);
	ASSERT_STR_EQ(l.events,
		      "!NoQueuePair t/p p: container 'a' has rdma/x, has run for at least 60 s "
		      "and has no queue pair: why\n");
	/* The container is inspected again, but the same state is not reported again. */
	l.events[0] = '\0';
	for (int64_t t = NOW + 3 * AFTER_MS; t < NOW + 10 * AFTER_MS; t += AFTER_MS) {
		list(&l, t, one, 1);
		ASSERT_EQ(due(&l, t, "p"), 1);
		qp_watch_take(l.w, 0, QP_NONE, "why", t);
	}
	ASSERT_STR_EQ(l.events, "");
	ASSERT_EQ(due(&l, NOW + 20 * AFTER_MS, "p"), 1);
	qp_watch_take(l.w, 0, QP_PRESENT, "", NOW + 20 * AFTER_MS);
	ASSERT_STR_EQ(l.events, "QueuePairPresent t/p p: container 'a' uses RDMA now\n");
	ASSERT_EQ(due(&l, NOW + 99 * AFTER_MS, NULL), 0);
	qp_watch_free(l.w);
}

static void test_containers_of_one_pod_are_distinguished(void **state)
{
	static const struct container v[] = {{"p", "a", "rdma/x"}, {"p", "b", "rdma/x"}};
	struct lab l;

	(void)state;
	lab_open(&l);
	list(&l, NOW, v, 2);
	started(&l, NOW + AFTER_MS, "p", 0);
	ASSERT_EQ(due(&l, NOW + AFTER_MS, ID "a"), 2);
	qp_watch_take(l.w, 0, QP_PRESENT, "", NOW + AFTER_MS);
	qp_watch_take(l.w, 1, QP_NONE, "why", NOW + AFTER_MS);
	ASSERT_HAS(l.events, "!NoQueuePair t/p p: container 'b'");
	assert_null(strstr(l.events, "'a'"));
	qp_watch_free(l.w);
}

static void test_unknown_state_of_queue_pairs_causes_no_event(void **state)
{
	static const struct container v[] = {{"ended", "a", "rdma/x"},
					     {"p", "a", "intel.com/vf"},
					     {"unknown", "a", "rdma/x"},
					     {"z", "a", "rdma/x"}};
	const char *ns, *pod;
	struct lab l;

	(void)state;
	lab_open(&l);
	list(&l, NOW, v, ARRAY_LEN(v));
	assert_true(qp_watch_next_pod(l.w, NOW + AFTER_MS, &ns, &pod));
	ASSERT_STR_EQ(pod, "z");
	/* Two reads of the Pod object fail; each is retried later. */
	qp_watch_take_pod(l.w, "t", "z", NULL, NOW + AFTER_MS, 0);
	assert_false(qp_watch_next_pod(l.w, NOW + AFTER_MS, &ns, &pod));
	assert_true(qp_watch_next_pod(l.w, NOW + 3 * AFTER_MS, &ns, &pod));
	qp_watch_take_pod(l.w, "t", "z", NULL, NOW + 3 * AFTER_MS, 0);
	started(&l, NOW + 5 * AFTER_MS, "z", 0);
	ASSERT_EQ(due(&l, NOW + 5 * AFTER_MS, "z"), 1);
	qp_watch_take(l.w, 0, QP_UNKNOWN, "exclusive mode", NOW + 5 * AFTER_MS);
	ASSERT_EQ(due(&l, NOW + 7 * AFTER_MS, "z"), 1);
	/* The container has ended, so qp_watch_due() does not return it, and a result for index
	 * 0 is ignored. */
	list(&l, NOW + 7 * AFTER_MS, v, 1);
	ASSERT_EQ(due(&l, NOW + 7 * AFTER_MS, NULL), 0);
	qp_watch_take(l.w, 0, QP_NONE, "why", NOW + 7 * AFTER_MS);
	ASSERT_STR_EQ(l.events, "");
	qp_watch_free(l.w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cause_of_a_missing_queue_pair_is_named_for_each_container),
		cmocka_unit_test(
			test_rdma_objects_of_hidden_processes_are_read_from_control_groups),
		cmocka_unit_test(test_queue_pairs_of_the_kernel_are_not_counted),
		cmocka_unit_test(
			test_missing_queue_pair_and_its_later_creation_are_reported_once_each),
		cmocka_unit_test(test_containers_of_one_pod_are_distinguished),
		cmocka_unit_test(test_unknown_state_of_queue_pairs_causes_no_event),
	};

	return T_RUN(tests, NULL, NULL);
}
