/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes that devlink reports of devices: a child process requests them, because a driver
 * may block the request. */
#include "testlib.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "device/serve/facts.h"
#include "loop_gap.h"

/* LONG_MS: a timeout that does not expire on a loaded machine either. */
enum { TIMEOUT_MS = 1000, LONG_MS = 600 * 1000, DEVICES = 4 };

static const char *const ids[DEVICES] = {"0000:3b:00.0", "0000:5e:00.0", "0000:86:00.0",
					 "mlx5_core.sf.4"};

struct lab {
	struct loop *loop;
	struct device_facts *f;
	struct node_device v[DEVICES], old[DEVICES];
	struct node_devices now, before;
	struct loop_gap gap;
	int changes;
};

/* In shared memory: the device whose driver blocks (-1: none), the attributes that devlink
 * reports of each device, and how many children have started. */
static struct shared {
	atomic_int blocked, enabled[DEVICES], begun;
} * shared;

static int number(const char *id)
{
	for (int i = 0; i < DEVICES; i++)
		if (strcmp(ids[i], id) == 0)
			return i;
	return -1;
}

static void read_fact(const struct node_device *d, struct node_fact *ret)
{
	int i = number(d->id);

	if (i == 0)
		atomic_fetch_add(&shared->begun, 1);
	while (atomic_load(&shared->blocked) == i)
		usleep(1000);
	str_copy(ret->id, sizeof(ret->id), d->id);
	ret->rdma_enabled = atomic_load(&shared->enabled[i]);
}

static void on_changed(void *arg)
{
	((struct lab *)arg)->changes++;
}

static void init(struct lab *l, int timeout_ms)
{
	*l = (struct lab){.now = {.v = l->v, .n = DEVICES}, .before = {.v = l->old, .n = DEVICES}};
	for (int i = 0; i < DEVICES; i++) {
		str_copy(l->v[i].id, sizeof(l->v[i].id), ids[i]);
		l->v[i].class = pci_bdf_ok(ids[i]) ? NODE_NET : NODE_AUX;
		l->old[i] = l->v[i];
		atomic_store(&shared->enabled[i], 0);
	}
	atomic_store(&shared->blocked, -1);
	atomic_store(&shared->begun, 0);
	ASSERT_EQ(loop_new(&l->loop, NULL), 0);
	l->gap.loop = l->loop;
	l->f = device_facts_new(&(struct device_facts_conf){.loop = l->loop,
							    .changed = on_changed,
							    .arg = l,
							    .read = read_fact,
							    .timeout_ms = timeout_ms});
}

static void until_changes(struct lab *l, int n)
{
	while (l->changes < n)
		loop_gap_run(&l->gap, 2);
}

/* Applies the stored facts to a new scan of the node: sysfs does not have devlink's attributes. */
static void apply(struct lab *l)
{
	for (int i = 0; i < DEVICES; i++)
		l->v[i].rdma_enabled = false;
	device_facts_apply(l->f, &l->now, &l->before);
}

static void done(struct lab *l)
{
	device_facts_free(l->f);
	loop_free(l->loop);
	loop_gap_reap();
}

static void test_facts_reported_by_the_child_apply_at_the_next_scan(void **state)
{
	struct lab l;

	(void)state;
	init(&l, LONG_MS);
	atomic_store(&shared->enabled[1], 1);
	atomic_store(&shared->enabled[3], 1);
	apply(&l);
	assert_false(device_facts_are_known(l.f) || l.v[1].rdma_enabled);
	until_changes(&l, 1);
	assert_true(device_facts_are_known(l.f));
	apply(&l);
	for (int i = 0; i < DEVICES; i++)
		ASSERT_EQ(l.v[i].rdma_enabled, i % 2);
	/* The same answers again cause no further scan. */
	while (atomic_load(&shared->begun) < 2)
		loop_gap_run(&l.gap, 2);
	loop_gap_run(&l.gap, 20);
	ASSERT_EQ(l.changes, 1);
	atomic_store(&shared->enabled[1], 0);
	apply(&l);
	until_changes(&l, 2);
	apply(&l);
	assert_false(l.v[1].rdma_enabled);
	done(&l);
}

/* While the driver resets an HCA, the HCA has no RDMA device, and the driver does not answer
 * devlink requests for seconds. */
static void
test_blocked_driver_does_not_delay_the_loop_and_its_hca_stays_an_rdma_device(void **state)
{
	struct lab l;

	(void)state;
	init(&l, TIMEOUT_MS);
	apply(&l);
	until_changes(&l, 1);
	atomic_store(&shared->blocked, 1);
	atomic_store(&shared->enabled[0], 1);
	l.old[1].rdma_enabled = true;
	l.v[1].n_rdma = 1;
	apply(&l);
	l.v[1].n_rdma = 0;
	apply(&l);
	assert_true(l.v[1].rdma_enabled && !l.v[0].rdma_enabled);
	/* The running child does not request the attributes of device 1, which had an RDMA
	 * device when the child started. Its answer for device 0 is applied. */
	until_changes(&l, 2);
	apply(&l);
	assert_true(l.v[1].rdma_enabled && l.v[0].rdma_enabled);
	/* The next child blocked at device 1, was killed at its timeout and has ended, so
	 * another child can start. */
	until_changes(&l, 3);
	assert_true(l.gap.gap_ms < TIMEOUT_MS);
	apply(&l);
	assert_true(l.v[1].rdma_enabled);
	atomic_store(&shared->blocked, -1);
	for (int n = 4; l.v[1].rdma_enabled; n++) {
		until_changes(&l, n);
		apply(&l);
	}
	done(&l);
}

static void test_device_added_during_a_request_is_in_the_next_request(void **state)
{
	struct lab l;

	(void)state;
	init(&l, LONG_MS);
	atomic_store(&shared->enabled[2], 1);
	l.now.n = 2;
	apply(&l);
	l.now.n = DEVICES;
	apply(&l);
	assert_false(l.v[2].rdma_enabled);
	until_changes(&l, 1);
	apply(&l);
	until_changes(&l, 2);
	apply(&l);
	assert_true(l.v[2].rdma_enabled);
	done(&l);
}

static void test_no_child_starts_without_a_device_that_needs_devlink(void **state)
{
	struct lab l;

	(void)state;
	init(&l, LONG_MS);
	for (int i = 0; i < DEVICES; i++)
		l.v[i].n_rdma = 1;
	apply(&l);
	assert_true(device_facts_are_known(l.f));
	loop_gap_run(&l.gap, 4);
	ASSERT_EQ(l.changes + atomic_load(&shared->begun), 0);
	done(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_facts_reported_by_the_child_apply_at_the_next_scan),
		cmocka_unit_test(
			test_blocked_driver_does_not_delay_the_loop_and_its_hca_stays_an_rdma_device),
		cmocka_unit_test(test_device_added_during_a_request_is_in_the_next_request),
		cmocka_unit_test(test_no_child_starts_without_a_device_that_needs_devlink),
	};

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	return shared == MAP_FAILED ? 1 : T_RUN(tests, NULL, NULL);
}
