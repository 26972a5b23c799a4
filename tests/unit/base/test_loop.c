/* SPDX-License-Identifier: Apache-2.0 */
#include "testlib.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/loop.h"

static char trail[256];
static struct loop *l;
static struct loop_fd *watches[3];
static struct loop_timer *timers[3];

static int setup(void **state)
{
	(void)state;
	trail[0] = '\0';
	return loop_new(&l, NULL);
}

static int teardown(void **state)
{
	(void)state;
	loop_free(l);
	return 0;
}

static void on_timer(void *arg)
{
	strcat(trail, arg);
}

static void test_timers_run_in_order_of_time(void **state)
{
	(void)state;
	loop_set_now(l, 1000);
	loop_add_timer(l, 30, on_timer, "c");
	loop_add_timer(l, 10, on_timer, "a");
	loop_add_timer(l, 20, on_timer, "b");
	/* timers of the same time run in the order in which they were added */
	loop_add_timer(l, 10, on_timer, "A");
	loop_add_timer(l, -5, on_timer, "0");
	loop_add_timer(l, INT64_MAX, on_timer, "last");
	ASSERT_EQ(loop_run(l), 0);
	ASSERT_STR_EQ(trail, "0aAbclast");
	assert_true(loop_now_ms(l) == INT64_MAX);
}

static void test_virtual_time_jumps_to_the_next_timer(void **state)
{
	(void)state;
	loop_set_now(l, 0);
	loop_add_timer(l, 3600 * 1000, on_timer, "x");
	ASSERT_EQ(loop_run(l), 0);
	ASSERT_EQ(loop_now_ms(l), 3600 * 1000);
}

static void deletes_others(void *arg)
{
	(void)arg;
	strcat(trail, "d");
	loop_del_timer(timers[0]); /* itself */
	loop_del_timer(timers[1]); /* due at the same time */
	loop_del_timer(timers[2]); /* later */
	loop_del_timer(NULL);
	loop_add_timer(l, 5, on_timer, "n");
}

static void test_timer_may_delete_other_timers(void **state)
{
	(void)state;
	loop_set_now(l, 0);
	timers[0] = loop_add_timer(l, 10, deletes_others, NULL);
	timers[1] = loop_add_timer(l, 10, on_timer, "x");
	timers[2] = loop_add_timer(l, 20, on_timer, "x");
	loop_add_timer(l, 12, on_timer, "y");
	loop_run(l);
	ASSERT_STR_EQ(trail, "dyn");
}

static int rounds;

static void again(void *arg)
{
	(void)arg;
	if (++rounds < 1000)
		loop_add_timer(l, 0, again, NULL);
}

static void readable(void *arg, uint32_t events)
{
	assert_true(events & EPOLLIN);
	strcat(trail, "r");
	/* The number of timers that ran before; the test expects at most one. */
	*(int *)arg = rounds;
	loop_del_fd(watches[0]);
}

static void test_immediate_timers_do_not_starve_fds(void **state)
{
	int pipes[2], seen = -1;

	(void)state;
	rounds = 0;
	ASSERT_EQ(pipe(pipes), 0);
	ASSERT_EQ(write(pipes[1], "x", 1), 1);
	loop_add_timer(l, 0, again, NULL);
	ASSERT_EQ(loop_add_fd(l, pipes[0], EPOLLIN, readable, &seen, &watches[0], NULL), 0);
	loop_run(l);
	ASSERT_STR_EQ(trail, "r");
	assert_in_range(seen, 0, 1);
	ASSERT_EQ(rounds, 1000);
	close(pipes[0]);
	close(pipes[1]);
}

static void deletes_all(void *arg, uint32_t events)
{
	(void)arg, (void)events;
	strcat(trail, "f");
	for (int i = 0; i < 3; i++)
		loop_del_fd(watches[i]);
	/* Deleting a second time within the callback has no effect. */
	loop_del_fd(watches[0]);
	loop_del_fd(NULL);
}

static void test_deleted_descriptor_gets_no_event(void **state)
{
	int pipes[3][2];

	(void)state;
	for (int i = 0; i < 3; i++) {
		ASSERT_EQ(pipe(pipes[i]), 0);
		ASSERT_EQ(write(pipes[i][1], "x", 1), 1);
		ASSERT_EQ(loop_add_fd(l, pipes[i][0], EPOLLIN, deletes_all, NULL, &watches[i],
				      NULL),
			  0);
	}
	/* All three are ready in one batch; the first callback deletes the others. */
	loop_run(l);
	ASSERT_STR_EQ(trail, "f");
	for (int i = 0; i < 3; i++) {
		close(pipes[i][0]);
		close(pipes[i][1]);
	}
}

static void count_down(void *arg, uint32_t events)
{
	int *left = arg;

	(void)events;
	if (--*left == 1)
		loop_set_events(watches[0], 0, NULL);
}

static void test_descriptor_gets_no_event_after_loop_set_events_with_zero(void **state)
{
	int pipes[2], left = 4;
	struct err e = ERR_INIT;

	(void)state;
	ASSERT_EQ(pipe(pipes), 0);
	ASSERT_EQ(write(pipes[1], "x", 1), 1);
	ASSERT_EQ(loop_add_fd(l, pipes[0], EPOLLIN, count_down, &left, &watches[0], &e), 0);
	ASSERT_EQ(loop_add_fd(l, pipes[0], EPOLLIN, count_down, &left, &watches[1], &e), -EEXIST);
	loop_add_timer(l, 30, (loop_timer_fn)loop_del_fd, watches[0]);
	loop_run(l);
	ASSERT_EQ(left, 1);
	close(pipes[0]);
	close(pipes[1]);
}

static void stop(void *arg)
{
	loop_stop(l, *(int *)arg);
}

static void test_stopped_loop_returns_the_value_of_loop_stop(void **state)
{
	int seven = 7, fd;
	struct err e = ERR_INIT;

	(void)state;
	loop_add_timer(l, 1, stop, &seven);
	loop_add_timer(l, 100000, on_timer, "x");
	ASSERT_EQ(loop_run(l), 7);
	ASSERT_STR_EQ(trail, "");
	loop_stop(l, 3);
	ASSERT_EQ(loop_run(l), 3);
	fd = open("/proc/self/exe", O_RDONLY);
	ASSERT_EQ(loop_add_fd(l, fd, EPOLLIN, readable, NULL, &watches[0], &e), -EPERM);
	close(fd);
	/* the teardown of the test frees the remaining timer */
}

static void test_timers_run_at_their_real_time(void **state)
{
	int64_t start = now_mono_ms();

	(void)state;
	loop_add_timer(l, 20, on_timer, "b");
	loop_add_timer(l, 5, on_timer, "a");
	loop_run(l);
	ASSERT_STR_EQ(trail, "ab");
	assert_in_range(now_mono_ms() - start, 20, 5000);
	assert_true(now_real_ms() > 1600000000000);
}

struct owner {
	struct loop_alarm alarm;
	int rounds;
};

static void on_alarm(void *arg)
{
	struct owner *o = arg;

	assert_false(loop_alarm_armed(&o->alarm));
	sprintf(trail + strlen(trail), "%d ", (int)loop_now_ms(l));
	if (o->rounds-- > 0)
		loop_alarm_within(&o->alarm, 7);
}

static void test_loop_alarm_within_moves_an_alarm_earlier_and_never_later(void **state)
{
	struct owner o = {LOOP_ALARM(l, on_alarm, &o), 0};

	(void)state;
	loop_set_now(l, 0);
	assert_false(loop_alarm_armed(&o.alarm));
	loop_alarm_within(&o.alarm, INT64_MAX);
	assert_true(loop_alarm_armed(&o.alarm));
	loop_alarm_within(&o.alarm, 100);
	loop_alarm_within(&o.alarm, 200);
	loop_alarm_within(&o.alarm, INT64_MAX);
	loop_run(l);
	ASSERT_STR_EQ(trail, "100 ");
	assert_false(loop_alarm_armed(&o.alarm));
	loop_alarm_within(&o.alarm, 5);
	loop_alarm_set(&o.alarm, 50);
	loop_alarm_within(&o.alarm, 40);
	loop_run(l);
	ASSERT_STR_EQ(trail, "100 140 ");
	loop_alarm_set(&o.alarm, 30);
	loop_alarm_within(&o.alarm, -1);
	loop_run(l);
	ASSERT_STR_EQ(trail, "100 140 140 ");
}

static void test_alarm_is_armed_again_from_its_callback(void **state)
{
	struct owner o = {LOOP_ALARM(l, on_alarm, &o), 3};

	(void)state;
	loop_set_now(l, 0);
	loop_alarm_within(&o.alarm, 0);
	loop_run(l);
	ASSERT_STR_EQ(trail, "0 7 14 21 ");
}

static void test_cancelled_alarm_does_not_run(void **state)
{
	struct owner o = {LOOP_ALARM(l, on_alarm, &o), 0}, none = {0};

	(void)state;
	loop_set_now(l, 0);
	loop_alarm_within(&o.alarm, 10);
	loop_alarm_cancel(&o.alarm);
	assert_false(loop_alarm_armed(&o.alarm));
	loop_alarm_cancel(&o.alarm);
	loop_alarm_cancel(&none.alarm);
	loop_run(l);
	ASSERT_STR_EQ(trail, "");
	loop_alarm_within(&o.alarm, 10);
	loop_run(l);
	ASSERT_STR_EQ(trail, "10 ");
}

static void frees_owner(void *arg)
{
	struct owner *o = arg;

	loop_alarm_within(&o->alarm, 1);
	loop_alarm_cancel(&o->alarm);
	free(o);
	strcat(trail, "f");
}

static void test_alarm_callback_may_free_the_owner_of_the_alarm(void **state)
{
	struct owner *o = calloc(1, sizeof(*o));

	(void)state;
	assert_non_null(o);
	loop_set_now(l, 0);
	o->alarm = LOOP_ALARM(l, frees_owner, o);
	loop_alarm_set(&o->alarm, 3);
	loop_run(l);
	ASSERT_STR_EQ(trail, "f");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_timers_run_in_order_of_time, setup, teardown),
		cmocka_unit_test_setup_teardown(test_virtual_time_jumps_to_the_next_timer, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_timer_may_delete_other_timers, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_immediate_timers_do_not_starve_fds, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_deleted_descriptor_gets_no_event, setup,
						teardown),
		cmocka_unit_test_setup_teardown(
			test_descriptor_gets_no_event_after_loop_set_events_with_zero, setup,
			teardown),
		cmocka_unit_test_setup_teardown(test_stopped_loop_returns_the_value_of_loop_stop,
						setup, teardown),
		cmocka_unit_test_setup_teardown(test_timers_run_at_their_real_time, setup,
						teardown),
		cmocka_unit_test_setup_teardown(
			test_loop_alarm_within_moves_an_alarm_earlier_and_never_later, setup,
			teardown),
		cmocka_unit_test_setup_teardown(test_alarm_is_armed_again_from_its_callback, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_cancelled_alarm_does_not_run, setup, teardown),
		cmocka_unit_test_setup_teardown(test_alarm_callback_may_free_the_owner_of_the_alarm,
						setup, teardown),
	};

	return T_RUN(tests, NULL, NULL);
}
