/* SPDX-License-Identifier: Apache-2.0 */
#include "testlib.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/undo.h"

static char trail[64];

struct step {
	char letter;
	int result;
};

static int back(void *arg, struct err *e)
{
	const struct step *s = arg;

	strncat(trail, &s->letter, 1);
	return s->result < 0 ? err_sys(e, s->result, "step %c", s->letter) : 0;
}

static int silent(void *arg, struct err *e)
{
	(void)arg, (void)e;
	strcat(trail, "-");
	return -EIO;
}

static void push(struct undo *u, char letter, int result)
{
	/* undo_push() must copy the argument and the description: the caller may overwrite both
	 * afterwards. */
	struct step s = {letter, result};
	char what[16];

	snprintf(what, sizeof(what), "step %c", letter);
	undo_push(u, what, back, &s, sizeof(s));
	memset(&s, 0, sizeof(s));
	memset(what, 0, sizeof(what));
}

static void test_undo_runs_all_steps_in_reverse_order_even_if_some_fail(void **state)
{
	struct undo u = UNDO_INIT;

	(void)state;
	log_threshold = LOG_NONE;
	trail[0] = '\0';
	push(&u, 'a', 0);
	push(&u, 'b', -EBUSY);
	undo_push(&u, "x", silent, NULL, 0);
	push(&u, 'c', 0);
	ASSERT_EQ(undo_run(&u), 2);
	ASSERT_STR_EQ(trail, "c-ba");
	ASSERT_EQ(undo_run(&u), 0);
	ASSERT_STR_EQ(trail, "c-ba");
}

static void test_disarmed_undo_runs_nothing(void **state)
{
	struct undo u = UNDO_INIT;

	(void)state;
	trail[0] = '\0';
	push(&u, 'a', 0);
	undo_disarm(&u);
	ASSERT_EQ(undo_run(&u), 0);
	ASSERT_STR_EQ(trail, "");
	push(&u, 'b', 0);
	ASSERT_EQ(undo_run(&u), 0);
	ASSERT_STR_EQ(trail, "b");
}

static struct undo growing;

static int pushes_more(void *arg, struct err *e)
{
	(void)arg, (void)e;
	for (char c = 'd'; c < 'h'; c++)
		push(&growing, c, 0);
	return 0;
}

static void test_undo_step_may_push_further_steps(void **state)
{
	(void)state;
	trail[0] = '\0';
	push(&growing, 'a', 0);
	undo_push(&growing, "more", pushes_more, NULL, 0);
	ASSERT_EQ(undo_run(&growing), 0);
	ASSERT_STR_EQ(trail, "gfeda");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_undo_runs_all_steps_in_reverse_order_even_if_some_fail),
		cmocka_unit_test(test_disarmed_undo_runs_nothing),
		cmocka_unit_test(test_undo_step_may_push_further_steps),
	};

	return T_RUN(tests, NULL, NULL);
}
