/* SPDX-License-Identifier: Apache-2.0 */
/* Which stale extended resources the agent removes from the Node, and which extended resources
 * it records on disk. */
#include "testlib.h"

#include <stdlib.h>
#include <string.h>

#include "agent/device/sweep.h"
#include "base/alloc.h"
#include "base/log.h"
#include "ipam_lab.h"
#include "kube/patch.h"

enum { GRACE_MS = 1000 };

#define STATE "/state/device-resources.json"

struct lab {
	struct ipam_lab files;
	struct device_sweep *sweep;
	const char *served[4];
	const char *prefixes;
	char events[1024];
	char patch[1024];
};

static size_t on_served(void *arg, const char **v, size_t max)
{
	const struct lab *l = arg;
	size_t n = 0;

	while (n < max && n < ARRAY_LEN(l->served) && l->served[n]) {
		v[n] = l->served[n];
		n++;
	}
	return n;
}

static void on_event(void *arg, bool is_warning, const char *text)
{
	struct lab *l = arg;

	assert_false(is_warning);
	strcat(l->events, text);
}

static void open_sweep(struct lab *l)
{
	l->sweep = device_sweep_new(&(struct device_sweep_conf){.root = &l->files.root,
								.node = "n1",
								.state_dir = "/state",
								.prefixes = l->prefixes,
								.grace_ms = GRACE_MS,
								.served = on_served,
								.event = on_event,
								.arg = l});
}

static void begin(struct lab *l, const char *prefixes)
{
	*l = (struct lab){.prefixes = prefixes};
	log_threshold = LOG_NONE;
	il_make(&l->files);
	dir_make(&l->files.root, "/state", 0755, NULL);
	open_sweep(l);
}

static void end(struct lab *l)
{
	device_sweep_free(l->sweep);
	il_drop(&l->files);
}

/* Writes to l->patch the patch for a Node with this status.capacity and the same
 * status.allocatable. Returns the number of resources that the patch removes. */
static size_t plan(struct lab *l, const char *capacity, int64_t now_ms)
{
	auto_free char *text = xasprintf("{\"status\":{\"capacity\":{%s},\"allocatable\":{%s}}}",
					 capacity, capacity);
	auto_json struct json_doc *d = NULL;
	struct kube_patch patch;
	struct span s;
	size_t n;

	ASSERT_EQ(json_parse(&d, span_of(text), 1 << 16, NULL), 0);
	kube_patch_init(&patch);
	n = device_sweep_plan(l->sweep, json_root(d), now_ms, &patch);
	s = kube_patch_end(&patch);
	assert_true(s.n < sizeof(l->patch));
	memcpy(l->patch, s.p, s.n);
	l->patch[s.n] = '\0';
	kube_patch_done(&patch);
	return n;
}

#define REMOVE_A                                                                                   \
	"[{\"op\":\"test\",\"path\":\"/status/capacity/rdma~1a\",\"value\":\"0\"},"                \
	"{\"op\":\"remove\",\"path\":\"/status/capacity/rdma~1a\"},"                               \
	"{\"op\":\"remove\",\"path\":\"/status/allocatable/rdma~1a\"}]"

static void test_resource_is_removed_when_it_was_not_served_for_the_grace_period(void **state)
{
	struct lab l;

	(void)state;
	begin(&l, NULL);
	l.served[0] = "rdma/a";
	ASSERT_EQ(plan(&l, "\"rdma/a\":\"0\",\"cpu\":\"0\"", 0), 0);
	l.served[0] = NULL;
	/* The resource is removed only after the grace period, and not while the kubelet reports
	 * devices. */
	ASSERT_EQ(plan(&l, "\"rdma/a\":\"0\"", 100), 0);
	ASSERT_EQ(plan(&l, "\"rdma/a\":\"0\"", 100 + GRACE_MS - 1), 0);
	ASSERT_EQ(plan(&l, "\"rdma/a\":\"8\"", 100 + GRACE_MS), 0);
	ASSERT_EQ(plan(&l, "\"rdma/b\":\"0\",\"rdma/a\":\"0\"", 100 + GRACE_MS), 1);
	ASSERT_STR_EQ(l.patch, REMOVE_A);
	device_sweep_done(l.sweep);
	ASSERT_HAS(l.events, "extended resource 'rdma/a' removed from the Node");
	/* Another plugin serves the resource after its removal: it is not removed again. */
	ASSERT_EQ(plan(&l, "\"rdma/a\":\"0\"", 100 + 9 * GRACE_MS), 0);
	end(&l);
}

static void test_resource_served_again_is_not_removed(void **state)
{
	struct lab l;

	(void)state;
	begin(&l, NULL);
	l.served[0] = "rdma/a";
	plan(&l, "", 0);
	l.served[0] = NULL;
	plan(&l, "", 1);
	l.served[0] = "rdma/a";
	ASSERT_EQ(plan(&l, "\"rdma/a\":\"0\"", 10 * GRACE_MS), 0);
	l.served[0] = "rdma/b";
	ASSERT_EQ(plan(&l, "\"rdma/a\":\"0\"", 11 * GRACE_MS), 0);
	ASSERT_EQ(plan(&l, "\"rdma/a\":\"0\"", 12 * GRACE_MS), 1);
	end(&l);
}

static void test_served_resources_are_recorded(void **state)
{
	struct lab l;

	(void)state;
	begin(&l, NULL);
	l.served[0] = "rdma/b";
	l.served[1] = "rdma/a";
	plan(&l, "", 0);
	l.served[0] = l.served[1] = NULL;
	device_sweep_free(l.sweep);
	open_sweep(&l);
	ASSERT_EQ(plan(&l, "\"rdma/a\":\"0\"", GRACE_MS), 1);
	ASSERT_STR_EQ(l.patch, REMOVE_A);
	device_sweep_done(l.sweep);
	device_sweep_free(l.sweep);
	/* The removed resource is deleted from the record. */
	open_sweep(&l);
	ASSERT_EQ(plan(&l, "\"rdma/a\":\"0\",\"rdma/b\":\"0\"", GRACE_MS), 1);
	ASSERT_HAS(l.patch, "rdma~1b");
	end(&l);
}

static void test_resources_with_configured_prefixes_are_removed(void **state)
{
	struct lab l;

	(void)state;
	begin(&l, "spidernet.io, rdma");
	ASSERT_EQ(plan(&l, "\"rdma/a\":\"0\",\"rdma.io/a\":\"0\",\"rdm/a\":\"0\"", 0), 0);
	ASSERT_EQ(plan(&l, "\"rdma/a\":\"0\",\"rdma.io/a\":\"0\",\"rdm/a\":\"0\"", GRACE_MS), 1);
	ASSERT_STR_EQ(l.patch, REMOVE_A);
	/* Resources of other programs are not recorded. */
	assert_false(file_exists(&l.files.root, STATE));
	end(&l);
}

/* A Node object is large, and each agent of the cluster reads its own. */
static void test_reads_of_an_unchanged_node_become_rare_and_stop(void **state)
{
	enum { MINUTE_MS = 60 * 1000, DAY_MS = 24 * 60 * MINUTE_MS };
	struct lab l;

	(void)state;
	begin(&l, NULL);
	assert_false(device_sweep_due(l.sweep, GRACE_MS));
	l.served[0] = "rdma/a";
	l.served[1] = "rdma/b";
	plan(&l, "", 1);
	assert_false(device_sweep_due(l.sweep, DAY_MS));
	/* No read is due before the grace period ends. For the next FAST_MS (15 minutes) every
	 * check reads the Node, since the kubelet sets the capacity to 0 after five minutes. */
	l.served[0] = l.served[1] = NULL;
	plan(&l, "\"rdma/a\":\"8\"", 2);
	assert_false(device_sweep_due(l.sweep, 1 + GRACE_MS));
	assert_true(device_sweep_due(l.sweep, 2 + GRACE_MS));
	plan(&l, "\"rdma/a\":\"8\"", 10 * MINUTE_MS);
	assert_true(device_sweep_due(l.sweep, 10 * MINUTE_MS + 1));
	/* After that a read is due every five minutes. After a day the agent forgets a resource
	 * that another plugin serves or that the Node does not have, and the reads stop. */
	plan(&l, "\"rdma/a\":\"8\"", 20 * MINUTE_MS);
	assert_false(device_sweep_due(l.sweep, 24 * MINUTE_MS));
	assert_true(device_sweep_due(l.sweep, 25 * MINUTE_MS));
	plan(&l, "\"rdma/a\":\"8\"", DAY_MS + MINUTE_MS);
	assert_false(device_sweep_due(l.sweep, 2 * DAY_MS));
	device_sweep_free(l.sweep);
	open_sweep(&l);
	assert_false(device_sweep_due(l.sweep, 2 * DAY_MS));
	end(&l);
	begin(&l, "rdma");
	assert_true(device_sweep_due(l.sweep, 0));
	plan(&l, "\"rdma/a\":\"8\"", 0);
	assert_false(device_sweep_due(l.sweep, GRACE_MS - 1));
	assert_true(device_sweep_due(l.sweep, GRACE_MS));
	end(&l);
}

static void test_damaged_record_is_treated_as_empty(void **state)
{
	static const char *const texts[] = {"", "{", "[]", "{\"resources\":7}",
					    "{\"resources\":[7,null,{}]}"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		struct lab l;

		begin(&l, NULL);
		device_sweep_free(l.sweep);
		il_write(&l.files, STATE, texts[i]);
		open_sweep(&l);
		ASSERT_EQ_MSG(plan(&l, "\"rdma/a\":\"0\"", 9 * GRACE_MS), 0, "texts[%zu]", i);
		end(&l);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			test_resource_is_removed_when_it_was_not_served_for_the_grace_period),
		cmocka_unit_test(test_resource_served_again_is_not_removed),
		cmocka_unit_test(test_served_resources_are_recorded),
		cmocka_unit_test(test_resources_with_configured_prefixes_are_removed),
		cmocka_unit_test(test_damaged_record_is_treated_as_empty),
		cmocka_unit_test(test_reads_of_an_unchanged_node_become_rare_and_stop),
	};

	return T_RUN(tests, NULL, NULL);
}
