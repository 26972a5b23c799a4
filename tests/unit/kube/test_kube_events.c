/* SPDX-License-Identifier: Apache-2.0 */
/* Which Events are sent, and which are counted, combined or dropped. */
#include "testlib.h"

#include <stdio.h>
#include <string.h>

#include "kube/events.h"

static struct kube_event event(const char *name, const char *reason, const char *message)
{
	return (struct kube_event){.kind = "Pod",
				   .ns = "ns",
				   .name = name,
				   .uid = "u",
				   .reason = reason,
				   .message = message};
}

static struct kube_event_plan add(struct kube_event_filter *f, const char *name,
				  const char *message, int64_t now)
{
	struct kube_event e = event(name, "Failed", message);

	return kube_event_filter_add(f, &e, now);
}

static void test_repeated_event_is_counted(void **state)
{
	struct kube_event_filter *f = kube_event_filter_new();
	struct kube_event_plan a = add(f, "a", "x", 0), b = add(f, "a", "x", 5), c;

	(void)state;
	ASSERT_EQ(a.fate, KUBE_EVENT_NEW);
	ASSERT_EQ(b.fate, KUBE_EVENT_AGAIN);
	ASSERT_EQ(a.slot, b.slot);
	ASSERT_EQ(b.count, 2);
	c = add(f, "b", "x", 5);
	ASSERT_EQ(c.fate, KUBE_EVENT_NEW);
	assert_int_not_equal(c.slot, a.slot);
	ASSERT_EQ(add(f, "a", "y", 5).fate, KUBE_EVENT_NEW);
	kube_event_filter_free(f);
}

static void test_similar_events_are_combined_after_ten(void **state)
{
	struct kube_event_filter *f = kube_event_filter_new();
	struct kube_event_plan p = {0};
	char text[16];

	(void)state;
	for (int i = 0; i < 12; i++) {
		snprintf(text, sizeof(text), "m%d", i);
		p = add(f, "a", text, i);
		ASSERT_EQ(p.combined, i >= 10);
		ASSERT_EQ(p.fate, i > 10 ? KUBE_EVENT_AGAIN : KUBE_EVENT_NEW);
	}
	ASSERT_EQ(p.count, 2);
	/* A message that already has its own Event is counted there and not combined; ten
	 * minutes later the count of different messages starts again. */
	assert_false(add(f, "a", "m3", 20).combined);
	assert_false(add(f, "a", "m99", 600020).combined);
	kube_event_filter_free(f);
}

static void test_events_of_one_object_are_rate_limited(void **state)
{
	struct kube_event_filter *f = kube_event_filter_new();
	int sent = 0;

	(void)state;
	for (int i = 0; i < 100; i++)
		sent += add(f, "a", "x", i).fate != KUBE_EVENT_DROP;
	ASSERT_EQ(sent, 25);
	/* Events about another object are not affected. */
	ASSERT_EQ(add(f, "b", "x", 100).fate, KUBE_EVENT_NEW);
	/* One Event in five minutes is sent; Events that were not sent are counted. */
	ASSERT_EQ(add(f, "a", "x", 299999).fate, KUBE_EVENT_DROP);
	ASSERT_EQ(add(f, "a", "x", 300000).fate, KUBE_EVENT_AGAIN);
	ASSERT_EQ(add(f, "a", "x", 300001).fate, KUBE_EVENT_DROP);
	ASSERT_EQ(add(f, "a", "x", 600000).count, 104);
	/* A new Event that is dropped because of the rate is sent as a new one when the rate
	 * permits it again. */
	ASSERT_EQ(add(f, "a", "y", 600001).fate, KUBE_EVENT_DROP);
	ASSERT_EQ(add(f, "a", "y", 900000).fate, KUBE_EVENT_NEW);
	kube_event_filter_free(f);
}

static void test_full_table_forgets_the_event_not_seen_for_the_longest_time(void **state)
{
	struct kube_event_filter *f = kube_event_filter_new();
	char name[16];

	(void)state;
	for (int i = 0; i < 300; i++) {
		snprintf(name, sizeof(name), "p%d", i);
		ASSERT_EQ(add(f, name, "x", i).fate, KUBE_EVENT_NEW);
	}
	ASSERT_EQ(add(f, "p299", "x", 300).fate, KUBE_EVENT_AGAIN);
	ASSERT_EQ(add(f, "p0", "x", 300).fate, KUBE_EVENT_NEW);
	kube_event_filter_free(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_repeated_event_is_counted),
		cmocka_unit_test(test_similar_events_are_combined_after_ten),
		cmocka_unit_test(test_events_of_one_object_are_rate_limited),
		cmocka_unit_test(test_full_table_forgets_the_event_not_seen_for_the_longest_time),
	};

	return T_RUN(tests, NULL, NULL);
}
