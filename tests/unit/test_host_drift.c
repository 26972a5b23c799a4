/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the plan of `unirail host watch` to its report, and from the report to the Node condition.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "agent/device/host_drift.h"
#include "base/alloc.h"
#include "host/watch.h"
#include "kube/patch.h"

enum { TEXT_MAX = 1 << 16 };

static struct host_drift_state report_of(const struct host_plan *p, const struct err *failure)
{
	struct host_drift_state s = {0};
	auto_buf struct buf b;

	buf_init(&b, TEXT_MAX);
	host_watch_report(p, failure, &b);
	assert_int_equal(host_drift_read(buf_span(&b), &s), 0);
	return s;
}

static void add(struct host_plan *p, const char *subject, const char *blocked)
{
	struct host_step *s = host_plan_add(p, "qos", subject);

	host_step_text(s, "pfc off", "pfc on 5");
	if (blocked)
		host_step_blocked(s, "%s", blocked);
}

static void test_drift_report_counts_remaining_and_blocked_steps(void **state)
{
	auto_host_plan struct host_plan p = {0};
	struct err e = ERR_INIT;
	struct host_drift_state s = report_of(&p, NULL);

	(void)state;
	assert_true(s.known);
	assert_string_equal(s.reason, "InSync");
	add(&p, "ens1", NULL);
	s = report_of(&p, NULL); /* carried out */
	assert_string_equal(s.reason, "InSync");
	add(&p, "ens2", "a pod uses it");
	s = report_of(&p, NULL);
	assert_string_equal(s.reason, "StepsLeft");
	assert_int_equal(s.steps, 1);
	assert_int_equal(s.blocked, 1);
	assert_string_equal(s.message, "qos ens2: pfc off, wants pfc on 5");
	err_set(&e, -EPERM, "changes need root");
	s = report_of(&p, &e);
	assert_string_equal(s.reason, "RoundFailed");
	assert_int_equal(s.steps, 2);
	assert_non_null(strstr(s.message, "changes need root; qos ens1"));
}

/* Another program sets the opposite each time: rounds get rarer, up to the interval, and are soon after each change again
 * once the host is in sync. */
static void test_delay_between_rounds(void **state)
{
	enum { INTERVAL_MS = 30000 };
	static const int64_t wanted[] = {2000, 4000, 8000, 16000, 30000, 30000};
	int64_t delay = HOST_WATCH_DELAY_MIN_MS;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(wanted); i++) {
		delay = host_watch_delay(delay, INTERVAL_MS, false);
		assert_int_equal(delay, wanted[i]);
	}
	assert_int_equal(host_watch_delay(delay, INTERVAL_MS, true), HOST_WATCH_DELAY_MIN_MS);
	/* The first event after a round waits for the rest of the delay, later ones for none. */
	assert_int_equal(host_watch_due(1000, INTERVAL_MS, 0), 1000);
	assert_int_equal(host_watch_due(1000, INTERVAL_MS, 400), 600);
	assert_int_equal(host_watch_due(1000, INTERVAL_MS, 1000), 0);
	assert_int_equal(host_watch_due(30000, INTERVAL_MS, 29999), 1);
	/* An event does not postpone the round of a shorter interval. */
	assert_int_equal(host_watch_due(1000, 1000, 900), 100);
	assert_int_equal(host_watch_due(2000, 1000, 900), 100);
}

static void test_damaged_report_is_refused(void **state)
{
	struct host_drift_state s = {.steps = 7};

	(void)state;
	assert_int_equal(host_drift_read(span_of("{\"steps\": 1"), &s), -EINVAL);
	assert_int_equal(host_drift_read(span_of("{\"steps\": \"1\", \"blocked\": 0}"), &s),
			 -EINVAL);
	assert_int_equal(s.steps, 7);
}

/* The patch as text; "" if no patch is needed. */
static char *patch_of(const struct host_drift_state *s, const char *node)
{
	auto_json struct json_doc *doc = NULL;
	struct kube_patch p;
	char *text;

	assert_int_equal(json_parse(&doc, span_of(node), TEXT_MAX, NULL), 0);
	kube_patch_init(&p);
	text = host_drift_plan(s, json_root(doc), 0, &p) ? span_dup(kube_patch_end(&p))
							 : xstrdup("");
	kube_patch_done(&p);
	return text;
}

#define CONDITION(status, reason, message)                                                               \
	"{\"status\":{\"conditions\":[{\"type\":\"Ready\"},{\"type\":\"HostDrift\",\"status\":\"" status \
	"\",\"reason\":\"" reason "\",\"message\":\"" message                                            \
	"\",\"lastTransitionTime\":\"2026-01-01T00:00:00Z\"}]}}"

static void test_condition_after_the_end_of_the_watch(void **state)
{
	struct host_drift_state s = {true, 1, 1, "m", "StepsLeft"};
	auto_free char *text = NULL, *again = NULL;

	(void)state;
	host_drift_stopped(&s);
	assert_false(s.known);
	assert_int_equal(s.steps + s.blocked, 0);
	text = patch_of(&s, CONDITION("True", "StepsLeft", "m"));
	assert_non_null(strstr(text, "\"status\":\"Unknown\",\"reason\":\"NotWatched\""));
	again = patch_of(&s, CONDITION("Unknown", "NotWatched",
				       "'unirail host watch' has ended: nothing compares the host "
				       "with host.conf"));
	assert_string_equal(again, "");
}

static void test_node_condition_is_patched_when_the_report_changes(void **state)
{
	struct host_drift_state s = {true, 1, 0, "m", "StepsLeft"};
	auto_free char *first =
		patch_of(&s, "{\"status\":{\"conditions\":[{\"type\":\"Ready\"}]}}");
	auto_free char *same = patch_of(&s, CONDITION("True", "StepsLeft", "m"));
	auto_free char *message = patch_of(&s, CONDITION("True", "StepsLeft", "n"));
	auto_free char *turned = patch_of(&s, CONDITION("False", "InSync", "n"));

	(void)state;
	assert_non_null(strstr(first, "\"op\":\"add\",\"path\":\"/status/conditions/-\""));
	assert_non_null(strstr(first, "\"status\":\"True\""));
	assert_string_equal(same, "");
	assert_non_null(strstr(message, "\"op\":\"test\",\"path\":\"/status/conditions/1/type\","
					"\"value\":\"HostDrift\""));
	assert_non_null(strstr(message, "\"op\":\"replace\",\"path\":\"/status/conditions/1\""));
	assert_non_null(strstr(message, "\"lastTransitionTime\":\"2026-01-01T00:00:00Z\""));
	assert_non_null(strstr(turned, "\"lastTransitionTime\":\"1970-01-01T00:00:00Z\""));
}

static void test_condition_of_an_earlier_agent_is_removed(void **state)
{
	struct host_drift_state never = {.known = false};
	auto_free char *none =
		patch_of(&never, "{\"status\":{\"conditions\":[{\"type\":\"Ready\"}]}}");
	auto_free char *old = patch_of(&never, CONDITION("True", "StepsLeft", "m"));

	(void)state;
	assert_string_equal(none, "");
	assert_string_equal(
		old, "[{\"op\":\"test\",\"path\":\"/status/conditions/1/type\",\"value\":"
		     "\"HostDrift\"},{\"op\":\"remove\",\"path\":\"/status/conditions/1\"}]");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_drift_report_counts_remaining_and_blocked_steps),
		cmocka_unit_test(test_delay_between_rounds),
		cmocka_unit_test(test_damaged_report_is_refused),
		cmocka_unit_test(test_node_condition_is_patched_when_the_report_changes),
		cmocka_unit_test(test_condition_after_the_end_of_the_watch),
		cmocka_unit_test(test_condition_of_an_earlier_agent_is_removed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
