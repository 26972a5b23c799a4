/* SPDX-License-Identifier: Apache-2.0 */
/* The work queue, with an API server that answers when the test says so. */
#include "testlib.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "kube/workqueue.h"
#include "kube_lab.h"

static const struct kube_kind kind = {"", "v1", "pods", "pod", true};

/* --- the reconciler --- */

struct job {
	struct work w;
	char *own;	/* freed by drop() */
	int64_t due_ms; /* loop time at which the item must be reconciled; 0: not checked */
};

struct lab {
	struct kube k;
	struct workqueue *q;
	char trail[512]; /* "a b!": a was reconciled, the request of b was answered */
	bool sends, sends_again, removes_itself, frees_queue;
	size_t reconciled, logged;
};

static void record(struct lab *t, const char *name, const char *what)
{
	if (strlen(t->trail) + strlen(name) + 3 < sizeof(t->trail))
		sprintf(t->trail + strlen(t->trail), "%s%s%s", *t->trail ? " " : "", name, what);
}

static void send(struct job *j)
{
	const struct kube_request r = {.verb = KUBE_DELETE,
				       .on = {.kind = &kind, .ns = j->w.ns, .name = j->w.name}};

	workqueue_send(&j->w, &r);
}

static void reconcile(void *arg, void *item)
{
	struct lab *t = arg;
	struct job *j = item;

	record(t, j->w.name, "");
	t->reconciled++;
	if (j->due_ms)
		ASSERT_EQ(loop_now_ms(t->k.loop), j->due_ms);
	if (!j->own)
		j->own = xstrdup(j->w.name);
	if (t->removes_itself)
		workqueue_remove(&j->w);
	else if (t->sends)
		send(j);
}

static void done(void *arg, void *item, int status, const struct json *object, const struct err *e)
{
	struct lab *t = arg;
	struct job *j = item;

	(void)status, (void)object;
	record(t, j->w.name, "!");
	if (e) {
		workqueue_retry(&j->w);
		t->logged += log_once(&j->w.logged, e->text);
	} else {
		workqueue_forget(&j->w);
	}
	if (t->sends_again) {
		t->sends_again = false;
		send(j);
	}
	if (t->removes_itself)
		workqueue_remove(&j->w);
	if (t->frees_queue)
		workqueue_free(take(t->q));
}

static void drop(void *item)
{
	free(((struct job *)item)->own);
}

enum { AT_ONCE = 3, RETRY_MS = 1000, RETRY_MOST_MS = 8000 };

/* Fails the test: a work queue must not send list requests. */
static const struct err *list(const struct kube_list *l)
{
	fail_msg("the queue sent a list request for %s", l->kind->plural);
	return NULL;
}

static int setup(void **state)
{
	struct lab *t = xcalloc(1, sizeof(*t));

	*state = t;
	ASSERT_EQ(loop_new(&t->k.loop, NULL), 0);
	loop_set_now(t->k.loop, 0);
	t->k.list = list;
	t->q = workqueue_new(&(struct workqueue_conf){.kube = &t->k,
						      .in_flight_max = AT_ONCE,
						      .retry_ms = RETRY_MS,
						      .retry_most_ms = RETRY_MOST_MS,
						      .size = sizeof(struct job),
						      .reconcile = reconcile,
						      .done = done,
						      .drop = drop,
						      .arg = t});
	return 0;
}

static int teardown(void **state)
{
	struct lab *t = *state;

	workqueue_free(t->q);
	ASSERT_EQ(t->k.n_calls, 0);
	assert_null(t->k.watches);
	loop_free(t->k.loop);
	free(t);
	return 0;
}

static struct work *item(struct lab *t, const char *name)
{
	return workqueue_get(t->q, "ns", name);
}

/* Adds one item for each letter of `names`. */
static void add(struct lab *t, const char *names)
{
	for (; *names; names++)
		workqueue_add(item(t, (char[]){*names, '\0'}));
}

static void answer(struct lab *t, const char *name, const char *error)
{
	kl_answer(kl_call(&t->k, name), error ? 403 : 200, error);
}

static void pass(struct lab *t, int64_t ms)
{
	t_loop_run(t->k.loop, ms);
}

/* --- tests --- */

static void test_items_are_reconciled_once_in_the_order_of_their_addition(void **state)
{
	struct lab *t = *state;

	add(t, "cabacb");
	pass(t, 0);
	ASSERT_STR_EQ(t->trail, "c a b");
	ASSERT_EQ(workqueue_count(t->q), 3);
	assert_ptr_equal(workqueue_find(t->q, "ns", "a"), item(t, "a"));
	assert_null(workqueue_find(t->q, "other", "a"));
	assert_null(workqueue_find(t->q, "ns", "d"));
	ASSERT_STR_EQ(((struct work *)workqueue_first(t->q))->name, "c");
	ASSERT_STR_EQ(((struct work *)workqueue_next(workqueue_first(t->q)))->name, "a");
	workqueue_add(NULL);
	pass(t, 100);
	ASSERT_EQ(t->reconciled, 3);
}

static void test_number_of_requests_in_flight_is_bounded(void **state)
{
	struct lab *t = *state;

	t->sends = true;
	add(t, "abcde");
	pass(t, 100);
	ASSERT_STR_EQ(t->trail, "a b c");
	answer(t, "b", NULL);
	pass(t, 100);
	ASSERT_STR_EQ(t->trail, "a b c b! d");
	answer(t, "a", NULL);
	answer(t, "c", NULL);
	answer(t, "d", NULL);
	pass(t, 100);
	answer(t, "e", NULL);
	ASSERT_STR_EQ(t->trail, "a b c b! d a! c! d! e e!");
	ASSERT_EQ(t->k.most_calls, AT_ONCE);
}

static void test_item_added_while_its_request_is_in_flight_is_reconciled_afterwards(void **state)
{
	struct lab *t = *state;

	t->sends = true;
	add(t, "a");
	pass(t, 0);
	add(t, "aab");
	workqueue_add_after(item(t, "a"), 5);
	pass(t, 100);
	ASSERT_STR_EQ(t->trail, "a b");
	answer(t, "a", NULL);
	pass(t, 100);
	ASSERT_STR_EQ(t->trail, "a b a! a");
	answer(t, "a", NULL);
	answer(t, "b", NULL);
	pass(t, 100);
	ASSERT_STR_EQ(t->trail, "a b a! a a! b!");
}

/* done() sends a second request, for example for the status: the next reconcile of the item
 * waits for the answer to the second request. */
static void test_reconcile_waits_for_a_request_sent_by_the_done_callback(void **state)
{
	struct lab *t = *state;

	t->sends = true;
	add(t, "a");
	pass(t, 0);
	add(t, "a");
	t->sends_again = true;
	answer(t, "a", "refused");
	pass(t, 100);
	ASSERT_STR_EQ(t->trail, "a a!");
	ASSERT_EQ(t->k.n_calls, 1);
	answer(t, "a", NULL);
	pass(t, 0);
	ASSERT_STR_EQ(t->trail, "a a! a! a");
	ASSERT_EQ(t->k.n_calls, 1);
}

static void test_item_delayed_twice_is_reconciled_at_the_earlier_time(void **state)
{
	struct lab *t = *state;

	workqueue_add_after(item(t, "a"), 50);
	workqueue_add_after(item(t, "b"), 40);
	workqueue_add_after(item(t, "a"), 30);
	workqueue_add_after(item(t, "b"), 60);
	pass(t, 29);
	ASSERT_STR_EQ(t->trail, "");
	pass(t, 1);
	ASSERT_STR_EQ(t->trail, "a");
	/* A reconcile in the meantime cancels the delay. */
	add(t, "b");
	pass(t, 100);
	ASSERT_STR_EQ(t->trail, "a b");
}

static void test_many_delayed_items_become_due_in_the_order_of_their_times(void **state)
{
	struct lab *t = *state;
	size_t removed = 0;
	char name[16];

	for (unsigned int i = 0; i < 1000; i++) {
		struct job *j;

		snprintf(name, sizeof(name), "%u", i);
		j = workqueue_get(t->q, "ns", name);
		j->due_ms = 1 + i * 7919 % 1009;
		workqueue_add_after(&j->w, 5000 + i);
		workqueue_add_after(&j->w, j->due_ms);
	}
	for (unsigned int i = 0; i < 1000; i += 3, removed++) {
		snprintf(name, sizeof(name), "%u", i);
		workqueue_remove(item(t, name));
	}
	pass(t, 10000); /* reconcile() compares the loop time with due_ms */
	ASSERT_EQ(t->reconciled, 1000 - removed);
}

static void test_failed_item_is_retried_with_a_growing_delay_and_logged_once(void **state)
{
	struct lab *t = *state;
	int64_t last = 0;

	t->sends = true;
	add(t, "a");
	pass(t, 0);
	for (int i = 0; i < 8; i++) {
		int64_t sent = loop_now_ms(t->k.loop), wait = RETRY_MS << i;

		if (wait > RETRY_MOST_MS)
			wait = RETRY_MOST_MS;
		answer(t, "a", "refused");
		while (!t->k.n_calls)
			pass(t, 1);
		last = loop_now_ms(t->k.loop) - sent;
		assert_in_range(last, wait / 2, wait * 3 / 2 + 1);
	}
	ASSERT_EQ(t->logged, 1);
	answer(t, "a", "refused otherwise");
	ASSERT_EQ(t->logged, 2);
	pass(t, 2 * RETRY_MOST_MS);
	answer(t, "a", NULL);
	add(t, "a");
	pass(t, 0);
	answer(t, "a", "refused otherwise");
	ASSERT_EQ(t->logged, 3);
	pass(t, RETRY_MS * 3 / 2 + 1);
	ASSERT_EQ(t->k.n_calls, 1);
}

static void test_items_do_not_wait_for_the_backoff_of_another_item(void **state)
{
	struct lab *t = *state;

	t->sends = true;
	add(t, "a");
	pass(t, 0);
	answer(t, "a", "refused");
	add(t, "b");
	pass(t, 0);
	answer(t, "b", NULL);
	ASSERT_STR_EQ(t->trail, "a a! b b!");
}

static void test_no_more_than_a_batch_is_reconciled_in_a_turn_of_the_loop(void **state)
{
	struct lab *t = *state;
	char name[16];

	for (int i = 0; i < 3 * WORKQUEUE_BATCH; i++) {
		snprintf(name, sizeof(name), "%d", i);
		workqueue_add(item(t, name));
	}
	pass(t, 0);
	ASSERT_EQ(t->reconciled, WORKQUEUE_BATCH);
	pass(t, 100);
	ASSERT_EQ(t->reconciled, 3 * WORKQUEUE_BATCH);
}

/* The request of a removed item is cancelled, and the next waiting item is reconciled instead. */
static void test_request_of_a_removed_item_is_cancelled(void **state)
{
	struct lab *t = *state;

	t->sends = true;
	add(t, "abcd");
	pass(t, 0);
	workqueue_remove(item(t, "b"));
	ASSERT_EQ(t->k.cancelled, 1);
	pass(t, 0);
	ASSERT_STR_EQ(t->trail, "a b c d");
	ASSERT_EQ(workqueue_count(t->q), 3);
	answer(t, "a", NULL);
	workqueue_add_after(item(t, "a"), 10);
	workqueue_remove(item(t, "a"));
	add(t, "e");
	workqueue_remove(item(t, "e"));
	pass(t, 100);
	ASSERT_STR_EQ(t->trail, "a b c d a!");
}

static void test_callback_may_remove_its_own_item(void **state)
{
	struct lab *t = *state;

	t->removes_itself = true;
	add(t, "ab");
	pass(t, 0);
	ASSERT_STR_EQ(t->trail, "a b");
	ASSERT_EQ(workqueue_count(t->q), 0);
	t->removes_itself = false;
	t->sends = true;
	add(t, "c");
	pass(t, 0);
	add(t, "c");
	t->removes_itself = true;
	answer(t, "c", "refused");
	pass(t, 10 * RETRY_MS);
	ASSERT_STR_EQ(t->trail, "a b c c!");
	ASSERT_EQ(workqueue_count(t->q), 0);
}

/* The replica loses the leadership while the server handles requests and items wait. */
static void test_freed_queue_calls_no_callback(void **state)
{
	struct lab *t = *state;

	t->sends = true;
	add(t, "abcde");
	pass(t, 0);
	workqueue_add_after(item(t, "f"), 10);
	workqueue_free(take(t->q));
	ASSERT_EQ(t->k.cancelled, AT_ONCE);
	ASSERT_EQ(t->k.n_calls, 0);
	pass(t, 1000);
	ASSERT_STR_EQ(t->trail, "a b c");
}

static void test_callback_of_an_answer_may_free_the_queue(void **state)
{
	struct lab *t = *state;

	t->sends = t->frees_queue = true;
	add(t, "abcde");
	pass(t, 0);
	add(t, "a");
	answer(t, "a", "refused");
	ASSERT_EQ(t->k.cancelled, AT_ONCE - 1);
	pass(t, 10 * RETRY_MS);
	ASSERT_STR_EQ(t->trail, "a b c a!");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_items_are_reconciled_once_in_the_order_of_their_addition),
		TEST(test_number_of_requests_in_flight_is_bounded),
		TEST(test_item_added_while_its_request_is_in_flight_is_reconciled_afterwards),
		TEST(test_reconcile_waits_for_a_request_sent_by_the_done_callback),
		TEST(test_item_delayed_twice_is_reconciled_at_the_earlier_time),
		TEST(test_many_delayed_items_become_due_in_the_order_of_their_times),
		TEST(test_failed_item_is_retried_with_a_growing_delay_and_logged_once),
		TEST(test_items_do_not_wait_for_the_backoff_of_another_item),
		TEST(test_no_more_than_a_batch_is_reconciled_in_a_turn_of_the_loop),
		TEST(test_request_of_a_removed_item_is_cancelled),
		TEST(test_callback_may_remove_its_own_item),
		TEST(test_freed_queue_calls_no_callback),
		TEST(test_callback_of_an_answer_may_free_the_queue),
	};

	return T_RUN(tests, NULL, NULL);
}
