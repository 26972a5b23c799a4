/* SPDX-License-Identifier: Apache-2.0 */
/* Metrics in the text format of Prometheus. */
#include "testlib.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/api/metrics.h"
#include "server/prometheus.h"
#include "base/alloc.h"

static char *text_of(const struct metrics *m)
{
	struct buf b;

	buf_init(&b, METRICS_TEXT_MAX);
	metrics_text(&b, m);
	assert_false(b.over);
	return buf_take(&b);
}

static void has(const char *text, const char *line)
{
	auto_free char *whole = xasprintf("\n%s\n", line);

	if (!strstr(text, whole))
		fail_msg("no line '%s' in:\n%s", line, text);
}

static int count(const char *text, const char *part)
{
	int n = 0;

	for (const char *s = text; (s = strstr(s, part)); s += strlen(part))
		n++;
	return n;
}

/* Names that Spiderpool documents; its exporter adds "_total" to the names of counters. */
static void test_metrics_have_the_names_of_spiderpool(void **state)
{
	static const char *const names[] = {
		"spiderpool_ipam_allocation_counts_total 3",
		"spiderpool_ipam_allocation_failure_counts_total 2",
		"spiderpool_ipam_allocation_err_internal_counts_total 0",
		"spiderpool_ipam_allocation_err_no_available_pool_counts_total 1",
		"spiderpool_ipam_allocation_err_retries_exhausted_counts_total 0",
		"spiderpool_ipam_allocation_err_ip_used_out_counts_total 1",
		"spiderpool_ipam_allocation_duration_seconds_count 0",
		"spiderpool_ipam_allocation_average_duration_seconds 0.000000",
		"spiderpool_ipam_allocation_max_limit_duration_seconds 0.000000",
		"spiderpool_ipam_release_counts_total 0",
		"spiderpool_ipam_release_latest_duration_seconds 0.000000",
		"spiderpool_ip_gc_counts_total 0",
		"spiderpool_ip_gc_failure_counts_total 0",
	};
	struct err full = {.code = -ENOSPC, .kind = ERR_AGAIN};
	struct err none = {.code = -ENOENT, .kind = ERR_CONF};
	struct metrics m = {.allocation.done = 1};
	char *text;

	(void)state;
	metrics_failure(&m.allocation, &full, false);
	metrics_failure(&m.allocation, &none, false);
	text = text_of(&m);
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		has(text, names[i]);
	free(text);
}

static void test_durations_are_counted_in_buckets(void **state)
{
	struct metrics m = {0};
	char *text;

	(void)state;
	metrics_time(&m.allocation.all, 100000);
	metrics_time(&m.allocation.all, 100001);
	metrics_time(&m.allocation.all, 20000000);
	metrics_phase_time(&m, METRICS_BLOCKS, 2000);
	text = text_of(&m);
	has(text, "spiderpool_ipam_allocation_duration_seconds_bucket{le=\"0.1\"} 1");
	has(text, "spiderpool_ipam_allocation_duration_seconds_bucket{le=\"0.3\"} 2");
	has(text, "spiderpool_ipam_allocation_duration_seconds_bucket{le=\"15\"} 2");
	has(text, "spiderpool_ipam_allocation_duration_seconds_bucket{le=\"+Inf\"} 3");
	has(text, "spiderpool_ipam_allocation_duration_seconds_sum 20.200001");
	has(text, "spiderpool_ipam_allocation_max_duration_seconds 20.000000");
	has(text, "spiderpool_ipam_allocation_min_duration_seconds 0.100000");
	has(text, "spiderpool_ipam_allocation_latest_duration_seconds 20.000000");
	has(text, "unirail_ipam_phase_duration_seconds_bucket{phase=\"blocks\",le=\"0.001\"} 0");
	has(text, "unirail_ipam_phase_duration_seconds_bucket{phase=\"blocks\",le=\"0.0025\"} 1");
	has(text, "unirail_ipam_phase_duration_seconds_count{phase=\"blocks\"} 1");
	free(text);
}

/* Prometheus allows at most one TYPE line for each metric, before the samples of the metric. */
static void test_each_metric_has_one_type_line(void **state)
{
	struct metrics m = {0};
	char *text = text_of(&m), *line = text;

	(void)state;
	while ((line = strstr(line, "# TYPE "))) {
		auto_free char *one = span_dup((struct span){line, strcspn(line, "\n") + 1});

		ASSERT_EQ(count(text, one), 1);
		line++;
	}
	ASSERT_EQ(count(text, "# TYPE "), count(text, "# HELP "));
	free(text);
}

static void test_labels_are_escaped(void **state)
{
	struct buf b;

	(void)state;
	buf_init(&b, 256);
	sample_value(&b, "x", "pool", "a\"b\\c\nd", -1);
	ASSERT_STR_EQ(b.p, "x{pool=\"a\\\"b\\\\c\\nd\"} -1\n");
	buf_done(&b);
}

static void test_failure_after_waiting_is_counted_by_its_cause(void **state)
{
	struct err full = {.code = -ENOSPC, .kind = ERR_AGAIN}, other = {.code = -EIO};
	struct metrics_ipam m = {0};

	(void)state;
	metrics_failure(&m, &full, true);
	metrics_failure(&m, &other, true);
	ASSERT_EQ(m.failed, 2);
	ASSERT_EQ(m.used_out, 1);
	ASSERT_EQ(m.retries, 1);
	ASSERT_EQ(m.internal, 1);
	ASSERT_EQ(m.no_pool, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_metrics_have_the_names_of_spiderpool),
		cmocka_unit_test(test_durations_are_counted_in_buckets),
		cmocka_unit_test(test_each_metric_has_one_type_line),
		cmocka_unit_test(test_labels_are_escaped),
		cmocka_unit_test(test_failure_after_waiting_is_counted_by_its_cause),
	};

	return T_RUN(tests, NULL, NULL);
}
