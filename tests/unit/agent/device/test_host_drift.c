/* SPDX-License-Identifier: Apache-2.0 */
/* How `unirail host watch` turns its plan into a report, how the agent turns the report into a
 * Node condition, and the intervals of the watch and of the agent. */
#include "host_lab.h"

#include <errno.h>
#include <string.h>

#include "agent/device/host_drift.h"
#include "base/alloc.h"
#include "base/loop.h"
#include "host/watch.h"
#include "kube/patch.h"

enum { TEXT_MAX = 1 << 16 };

static struct host_drift_state report_of(const struct host_plan *p, const struct err *failure)
{
	struct host_drift_state s = {0};
	auto_buf struct buf b;

	buf_init(&b, TEXT_MAX);
	host_watch_report(p, failure, &b);
	ASSERT_EQ(host_drift_read(buf_span(&b), &s), 0);
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
	ASSERT_STR_EQ(s.reason, "InSync");
	add(&p, "ens1", NULL);
	s = report_of(&p, NULL); /* all steps were carried out */
	ASSERT_STR_EQ(s.reason, "InSync");
	add(&p, "ens2", "a pod uses it");
	s = report_of(&p, NULL);
	ASSERT_STR_EQ(s.reason, "StepsLeft");
	ASSERT_EQ(s.steps, 1);
	ASSERT_EQ(s.blocked, 1);
	ASSERT_STR_EQ(s.message, "qos ens2: pfc off, expected pfc on 5");
	err_set(&e, -EPERM, "changes need root");
	s = report_of(&p, &e);
	ASSERT_STR_EQ(s.reason, "RoundFailed");
	ASSERT_EQ(s.steps, 2);
	assert_non_null(strstr(s.message, "changes need root; qos ens1"));
	for (int i = 0; i < 98; i++)
		add(&p, "ens3", NULL);
	s = report_of(&p, &e);
	ASSERT_EQ(s.steps, 100);
	assert_non_null(strstr(s.message, "; and 97 more"));
}

/* If another program reverts each change, the delay between rounds doubles, up to the interval;
 * after a round without steps the delay is the shortest again. */
static void test_delay_between_rounds_doubles_until_nothing_differs(void **state)
{
	enum { INTERVAL_MS = 30000 };
	static const int64_t wanted[] = {2000, 4000, 8000, 16000, 30000, 30000};
	int64_t delay = HOST_WATCH_DELAY_MIN_MS;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(wanted); i++) {
		delay = host_watch_delay(delay, INTERVAL_MS, false);
		ASSERT_EQ_MSG(delay, wanted[i], "wanted[%zu]", i);
	}
	ASSERT_EQ(host_watch_delay(delay, INTERVAL_MS, true), HOST_WATCH_DELAY_MIN_MS);
	/* An event waits until the delay since the last round has passed. */
	ASSERT_EQ(host_watch_due(1000, INTERVAL_MS, 0), 1000);
	ASSERT_EQ(host_watch_due(1000, INTERVAL_MS, 400), 600);
	ASSERT_EQ(host_watch_due(1000, INTERVAL_MS, 1000), 0);
	ASSERT_EQ(host_watch_due(30000, INTERVAL_MS, 29999), 1);
	/* A round begins at most one interval after the previous round, whatever the delay is. */
	ASSERT_EQ(host_watch_due(1000, 1000, 900), 100);
	ASSERT_EQ(host_watch_due(2000, 1000, 900), 100);
}

static void test_damaged_report_is_refused(void **state)
{
	struct host_drift_state s = {.steps = 7};

	(void)state;
	ASSERT_EQ(host_drift_read(span_of("{\"steps\": 1"), &s), -EINVAL);
	ASSERT_EQ(host_drift_read(span_of("{\"steps\": \"1\", \"blocked\": 0}"), &s), -EINVAL);
	ASSERT_EQ(s.steps, 7);
}

/* The patch as text; "" if no patch is needed. */
static char *patch_of(const struct host_drift_state *s, const char *node)
{
	auto_json struct json_doc *doc = NULL;
	struct kube_patch p;
	char *text;

	ASSERT_EQ(json_parse(&doc, span_of(node), TEXT_MAX, NULL), 0);
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

static void test_condition_is_unknown_after_the_end_of_the_watch(void **state)
{
	struct host_drift_state s = {true, 1, 1, "m", "StepsLeft"};
	auto_free char *text = NULL, *again = NULL;

	(void)state;
	host_drift_stopped(&s);
	assert_false(s.known);
	ASSERT_EQ(s.steps + s.blocked, 0);
	text = patch_of(&s, CONDITION("True", "StepsLeft", "m"));
	assert_non_null(strstr(text, "\"status\":\"Unknown\",\"reason\":\"NotWatched\""));
	again = patch_of(&s, CONDITION("Unknown", "NotWatched",
				       "'unirail host watch' has ended: nothing compares the host "
				       "with host.conf"));
	ASSERT_STR_EQ(again, "");
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
	ASSERT_STR_EQ(same, "");
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
	ASSERT_STR_EQ(none, "");
	ASSERT_STR_EQ(old, "[{\"op\":\"test\",\"path\":\"/status/conditions/1/type\",\"value\":"
			   "\"HostDrift\"},{\"op\":\"remove\",\"path\":\"/status/conditions/1\"}]");
}

/* --- the agent's intervals --- */

#define REPORT "/run/unirail/drift.json"

struct agent {
	struct host_lab host;
	struct loop *loop;
	struct host_drift *drift;
	int64_t seen_ms; /* loop time of the last on_round() */
};

static void no_event(void *arg, bool is_warning, const char *reason, const char *text)
{
	(void)arg, (void)is_warning, (void)reason, (void)text;
}

static void write_report(void *arg)
{
	struct agent *a = arg;

	host_write(&a->host, REPORT, "{\"steps\":1,\"blocked\":0,\"drift\":[]}");
}

static void on_round(void *arg)
{
	struct agent *a = arg;

	a->seen_ms = loop_now_ms(a->loop);
	if (host_drift_state(a->drift)->known || a->seen_ms > 60000)
		loop_stop(a->loop, 0);
	else
		loop_add_timer(a->loop, 1000, on_round, a);
}

/* No API server listens; the agent reads the report nevertheless. */
static void test_report_is_read_every_ten_seconds(void **state)
{
	struct kube_conf conf = {0};
	struct agent a = {.seen_ms = 0};
	struct kube *kube;
	struct err e = ERR_INIT;

	(void)state;
	host_empty(&a.host);
	ASSERT_EQ(loop_new(&a.loop, &e), 0);
	loop_set_now(a.loop, 0);
	ASSERT_EQ(kube_conf_server(&conf, "https://127.0.0.1:1", &e), 0);
	kube = kube_new(a.loop, &a.host.root, &conf, &(struct kube_settings){0});
	a.drift = host_drift_new(&(struct host_drift_conf){.kube = kube,
							   .root = &a.host.root,
							   .node = "n1",
							   .path = REPORT,
							   .event = no_event});
	loop_add_timer(a.loop, 1500, write_report, &a);
	loop_add_timer(a.loop, 2000, on_round, &a);
	loop_run(a.loop);
	ASSERT_EQ(a.seen_ms, HOST_DRIFT_CHECK_MS);
	ASSERT_EQ(HOST_DRIFT_CHECK_MS, 10000);
	ASSERT_STR_EQ(host_drift_state(a.drift)->reason, "StepsLeft");
	host_drift_free(a.drift);
	kube_free(kube);
	kube_conf_done(&conf);
	loop_free(a.loop);
	host_remove(&a.host);
}

static void test_forbidden_write_of_the_condition_is_retried_after_five_minutes(void **state)
{
	(void)state;
	ASSERT_EQ(host_drift_retry_ms(-EPERM), 300000);
	ASSERT_EQ(host_drift_retry_ms(-ECONNREFUSED), 10000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_drift_report_counts_remaining_and_blocked_steps),
		cmocka_unit_test(test_delay_between_rounds_doubles_until_nothing_differs),
		cmocka_unit_test(test_damaged_report_is_refused),
		cmocka_unit_test(test_node_condition_is_patched_when_the_report_changes),
		cmocka_unit_test(test_condition_is_unknown_after_the_end_of_the_watch),
		cmocka_unit_test(test_condition_of_an_earlier_agent_is_removed),
		cmocka_unit_test(test_report_is_read_every_ten_seconds),
		cmocka_unit_test(
			test_forbidden_write_of_the_condition_is_retried_after_five_minutes),
	};

	return T_RUN(tests, NULL, NULL);
}
