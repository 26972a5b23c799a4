/* SPDX-License-Identifier: Apache-2.0 */
/* What devlink tells of devices, asked by a child process that a driver may block. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "device/serve/facts.h"

enum { TIMEOUT_MS = 100, TICK_MS = 5, DEVICES = 4 };

static const char *const ids[DEVICES] = {"0000:3b:00.0", "0000:5e:00.0", "0000:86:00.0",
					 "mlx5_core.sf.4"};

struct lab {
	struct loop *loop;
	struct device_facts *f;
	struct node_device v[DEVICES], old[DEVICES];
	struct node_devices now, before;
	int changes, ticks, stop_at;
	int64_t last, gap; /* the longest time between two turns of the loop */
};

/* In shared memory: which device the driver blocks (-1: none), what devlink tells of each, how many children began. */
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

static void ask(const struct node_device *d, struct node_fact *ret)
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

static void init(struct lab *l)
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
	assert_int_equal(loop_new(&l->loop, NULL), 0);
	l->f = device_facts_new(&(struct device_facts_conf){.loop = l->loop,
							    .changed = on_changed,
							    .arg = l,
							    .ask = ask,
							    .timeout_ms = TIMEOUT_MS});
}

static void on_tick(void *arg)
{
	struct lab *l = arg;
	int64_t now = now_mono_ms();

	if (l->last && now - l->last > l->gap)
		l->gap = now - l->last;
	l->last = now;
	if (++l->ticks < l->stop_at)
		loop_add_timer(l->loop, TICK_MS, on_tick, l);
	else
		loop_stop(l->loop, 0);
}

static void turn(struct lab *l, int ticks)
{
	l->stop_at = l->ticks + ticks;
	l->last = 0;
	on_tick(l);
	loop_run(l->loop);
}

static void until_changes(struct lab *l, int n)
{
	while (l->changes < n)
		turn(l, 2);
}

/* As the next scan of the node: devlink's answers are not in sysfs. */
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
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

static void answers_come_later(void **state)
{
	struct lab l;

	(void)state;
	init(&l);
	atomic_store(&shared->enabled[1], 1);
	atomic_store(&shared->enabled[3], 1);
	apply(&l);
	assert_false(device_facts_are_known(l.f) || l.v[1].rdma_enabled);
	until_changes(&l, 1);
	assert_true(device_facts_are_known(l.f));
	apply(&l);
	for (int i = 0; i < DEVICES; i++)
		assert_int_equal(l.v[i].rdma_enabled, i % 2);
	/* The same answers again: nothing to read again. */
	while (atomic_load(&shared->begun) < 2)
		turn(&l, 2);
	turn(&l, TIMEOUT_MS / TICK_MS);
	assert_int_equal(l.changes, 1);
	atomic_store(&shared->enabled[1], 0);
	apply(&l);
	until_changes(&l, 2);
	apply(&l);
	assert_false(l.v[1].rdma_enabled);
	done(&l);
}

/* An HCA that its driver resets loses its RDMA device for seconds, and its driver answers nothing. */
static void driver_that_blocks_delays_nothing(void **state)
{
	struct lab l;

	(void)state;
	init(&l);
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
	/* The answer before the one that never comes is taken. */
	until_changes(&l, 2);
	apply(&l);
	assert_true(l.v[1].rdma_enabled && l.v[0].rdma_enabled);
	/* It has ended: the next one asks. */
	until_changes(&l, 3);
	assert_true(l.gap < 20 * TIMEOUT_MS);
	apply(&l);
	assert_true(l.v[1].rdma_enabled);
	atomic_store(&shared->blocked, -1);
	for (int n = 4; l.v[1].rdma_enabled; n++) {
		until_changes(&l, n);
		apply(&l);
	}
	done(&l);
}

/* A device that comes while a child asks is asked about by the next one. */
static void device_that_comes_meanwhile(void **state)
{
	struct lab l;

	(void)state;
	init(&l);
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

static void nothing_to_ask(void **state)
{
	struct lab l;

	(void)state;
	init(&l);
	for (int i = 0; i < DEVICES; i++)
		l.v[i].n_rdma = 1;
	apply(&l);
	assert_true(device_facts_are_known(l.f));
	turn(&l, 4);
	assert_int_equal(l.changes + atomic_load(&shared->begun), 0);
	done(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(answers_come_later),
		cmocka_unit_test(driver_that_blocks_delays_nothing),
		cmocka_unit_test(device_that_comes_meanwhile),
		cmocka_unit_test(nothing_to_ask),
	};

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	return shared == MAP_FAILED ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
