/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Health reporters of devlink: a child process lists them, and notifications update the list in the
 * loop.
 */
#include "testlib.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "device/serve/sources.h"
#include "loop_gap.h"

/* If true, the kill() below, which replaces that of libc, does nothing, so a child survives
 * SIGKILL as a process in uninterruptible sleep does. */
static bool is_unkillable;

int kill(pid_t pid, int sig)
{
	return is_unkillable ? 0 : (int)syscall(SYS_kill, pid, sig);
}

/* LONG_MS: a timeout that does not expire on a loaded machine either. */
enum { LIST_MS = 500, LONG_MS = 600 * 1000, MANY = 300 };

struct lab {
	struct loop *loop;
	struct health_sources *s;
	struct node_device v[2];
	struct node_devices node;
	enum health_report reports[2];
	struct loop_gap gap;
	int changes;
};

/*
 * Memory shared with the children: how many began to list, and whether the waiting child may exit.
 */
static struct shared {
	atomic_int begun, is_released;
} * shared;

static void begin(void)
{
	atomic_fetch_add(&shared->begun, 1);
}

static int list_never(struct devlink_reporter **ret, size_t *n, struct err *e)
{
	(void)ret, (void)n, (void)e;
	begin();
	while (!atomic_load(&shared->is_released))
		usleep(1000);
	return 0;
}

static struct devlink_reporter reporter(const char *dev, const char *name, bool is_error)
{
	struct devlink_reporter p = {.bus = "pci", .is_error = is_error, .can_recover = true};

	str_copy(p.dev, sizeof(p.dev), dev);
	str_copy(p.name, sizeof(p.name), name);
	return p;
}

/* Lists two reporters of the PF, and many of its VF. The reporters of the VF are not stored. */
static int list_error(struct devlink_reporter **ret, size_t *n, struct err *e)
{
	(void)e;
	begin();
	for (int i = 0; i < MANY; i++)
		VEC_PUSH(*ret, *n) = reporter("0000:3b:01.0", "tx", true);
	VEC_PUSH(*ret, *n) = reporter("0000:3b:00.0", "fw", false);
	VEC_PUSH(*ret, *n) = reporter("0000:3b:00.0", "fw_fatal", true);
	return 0;
}

static int list_fails(struct devlink_reporter **ret, size_t *n, struct err *e)
{
	(void)ret, (void)n;
	begin();
	return err_set(e, -EIO, "no answer");
}

static void on_health(void *arg)
{
	((struct lab *)arg)->changes++;
}

static void on_devices(void *arg)
{
	(void)arg;
}

/* The work of the agent's loop, called at each tick: reads the reports. */
static void read_reports(void *arg)
{
	struct lab *l = arg;

	health_sources_read(l->s, &l->node, l->reports);
}

typedef int (*list_fn)(struct devlink_reporter **ret, size_t *n, struct err *e);

static void init(struct lab *l, list_fn list, int64_t list_ms, int64_t every_ms)
{
	*l = (struct lab){.node = {.v = l->v, .n = 2}};
	str_copy(l->v[0].id, sizeof(l->v[0].id), "0000:3b:00.0");
	str_copy(l->v[1].id, sizeof(l->v[1].id), "0000:3b:01.0");
	str_copy(l->v[1].pf, sizeof(l->v[1].pf), l->v[0].id);
	atomic_store(&shared->begun, 0);
	atomic_store(&shared->is_released, 0);
	ASSERT_EQ(loop_new(&l->loop, NULL), 0);
	l->gap = (struct loop_gap){.loop = l->loop, .each = read_reports, .arg = l};
	l->s = health_sources_new(&(struct health_sources_conf){.loop = l->loop,
								.health = on_health,
								.devices = on_devices,
								.arg = l,
								.list = list,
								.list_ms = list_ms,
								.every_ms = every_ms});
}

static void done(struct lab *l)
{
	health_sources_free(l->s);
	loop_free(l->loop);
	loop_gap_reap();
}

static void test_reporters_are_listed_by_a_child(void **state)
{
	struct lab l;

	(void)state;
	init(&l, list_error, LONG_MS, LONG_MS);
	health_sources_read(l.s, &l.node, l.reports);
	ASSERT_EQ(l.reports[0], HEALTH_REPORT_UNKNOWN);
	while (!l.changes)
		loop_gap_run(&l.gap, 10);
	health_sources_read(l.s, &l.node, l.reports);
	ASSERT_EQ(l.reports[0], HEALTH_REPORT_DEVICE);
	ASSERT_EQ(l.reports[1], HEALTH_REPORT_UNKNOWN);
	ASSERT_EQ(atomic_load(&shared->begun), 1);
	done(&l);
}

/*
 * The child is killed at its timeout, the next child starts when it is due, and the loop continues
 * meanwhile.
 */
static void test_endless_reporter_list_does_not_delay_the_loop(void **state)
{
	struct lab l;

	(void)state;
	init(&l, list_never, LIST_MS, 1);
	while (atomic_load(&shared->begun) < 3)
		loop_gap_run(&l.gap, 10);
	/* Waiting for a list would delay the loop by LIST_MS at least. */
	assert_true(l.gap.gap_ms < LIST_MS);
	ASSERT_EQ(l.changes, 0);
	ASSERT_EQ(l.reports[0], HEALTH_REPORT_UNKNOWN);
	done(&l);
}

static void test_no_second_child_starts_while_the_first_is_unkillable(void **state)
{
	struct lab l;

	(void)state;
	is_unkillable = true;
	init(&l, list_never, LIST_MS, 1);
	while (!atomic_load(&shared->begun))
		loop_gap_run(&l.gap, 10);
	loop_gap_run(&l.gap, 3 * LIST_MS / LOOP_GAP_TICK_MS);
	ASSERT_EQ(atomic_load(&shared->begun), 1);
	/* After the child has exited, the next one lists. */
	atomic_store(&shared->is_released, 1);
	while (!l.changes)
		loop_gap_run(&l.gap, 10);
	assert_true(atomic_load(&shared->begun) > 1);
	is_unkillable = false;
	done(&l);
}

static void test_failed_reporter_list_is_retried(void **state)
{
	struct lab l;

	(void)state;
	init(&l, list_fails, LONG_MS, 1);
	while (atomic_load(&shared->begun) < 3)
		loop_gap_run(&l.gap, 10);
	ASSERT_EQ(l.changes, 0);
	done(&l);
}

static void test_notification_updates_the_reporter_list(void **state)
{
	struct devlink_reporter p = reporter("0000:3b:00.0", "tx", true), *v = NULL;
	size_t n = 0;

	(void)state;
	p.of_port = true;
	assert_true(health_reporters_update(&v, &n, &p));
	p.port = 1;
	assert_true(health_reporters_update(&v, &n, &p));
	ASSERT_EQ(n, 2);
	p.is_error = false;
	assert_true(health_reporters_update(&v, &n, &p));
	ASSERT_EQ(n, 2);
	assert_true(v[0].is_error && !v[1].is_error);
	for (p.port = 2; p.port < HEALTH_REPORTERS_MAX; p.port++)
		assert_true(health_reporters_update(&v, &n, &p));
	assert_false(health_reporters_update(&v, &n, &p));
	p.port = 0;
	assert_true(health_reporters_update(&v, &n, &p));
	ASSERT_EQ(n, HEALTH_REPORTERS_MAX);
	free(v);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reporters_are_listed_by_a_child),
		cmocka_unit_test(test_endless_reporter_list_does_not_delay_the_loop),
		cmocka_unit_test(test_no_second_child_starts_while_the_first_is_unkillable),
		cmocka_unit_test(test_failed_reporter_list_is_retried),
		cmocka_unit_test(test_notification_updates_the_reporter_list),
	};

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	return shared == MAP_FAILED ? 1 : T_RUN(tests, NULL, NULL);
}
