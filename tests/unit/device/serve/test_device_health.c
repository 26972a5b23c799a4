/* SPDX-License-Identifier: Apache-2.0 */
/* Which devices are unhealthy, by the rules of device/serve/health.h. */
#include "testlib.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "device/serve/health.h"
#include "device/serve/sources.h"

enum { PFS = 4, START = 1000000, LATE = START + HEALTH_GRACE_MS };

struct lab {
	struct health *h;
	struct node_device v[PFS + 1]; /* the last element is a VF of the first PF */
	struct node_devices node;
	enum health_link links[PFS + 1];
	int64_t pci_errors[PFS + 1];
	enum health_report reports[PFS + 1];
};

static void init(struct lab *l, enum health_link state)
{
	*l = (struct lab){.h = health_new(START), .node = {.v = l->v, .n = PFS + 1}};
	for (int i = 0; i <= PFS; i++) {
		snprintf(l->v[i].id, sizeof(l->v[i].id), "0000:3b:00.%d", i);
		str_copy(l->v[i].link_type, sizeof(l->v[i].link_type), "ether");
		l->links[i] = state;
		l->pci_errors[i] = -1;
	}
	str_copy(l->v[PFS].pf, sizeof(l->v[PFS].pf), l->v[0].id);
	l->links[PFS] = HEALTH_UNKNOWN;
}

static bool judge(struct lab *l, int64_t now)
{
	return health_judge(l->h, &l->node,
			    &(struct health_state){l->links, l->pci_errors, l->reports}, now);
}

static bool is_unhealthy(struct lab *l, int i, int64_t now)
{
	judge(l, now);
	return l->v[i].unhealthy != NULL;
}

static void test_lost_link_is_unhealthy_at_once(void **state)
{
	struct lab l;

	(void)state;
	init(&l, HEALTH_UP);
	assert_false(is_unhealthy(&l, 0, START));
	l.links[0] = HEALTH_DOWN;
	assert_true(judge(&l, START + 1));
	ASSERT_STR_EQ(l.v[0].unhealthy, "the link is down or was down recently");
	/* The VF of the PF is unhealthy as well, other PFs are not. */
	ASSERT_STR_EQ(l.v[PFS].unhealthy, "the link is down or was down recently");
	assert_null(l.v[1].unhealthy);
	assert_false(judge(&l, START + 2));
	health_free(l.h);
}

static void test_recovered_link_is_healthy_after_a_stable_period(void **state)
{
	struct lab l;

	(void)state;
	init(&l, HEALTH_UP);
	is_unhealthy(&l, 0, START);
	l.links[0] = HEALTH_DOWN;
	is_unhealthy(&l, 0, START + 10);
	l.links[0] = HEALTH_UP;
	assert_true(is_unhealthy(&l, 0, START + 20));
	ASSERT_EQ(health_due(l.h), START + 20 + HEALTH_STABLE_MS);
	assert_true(is_unhealthy(&l, 0, START + 19 + HEALTH_STABLE_MS));
	assert_false(is_unhealthy(&l, 0, START + 20 + HEALTH_STABLE_MS));
	ASSERT_EQ(health_due(l.h), -1);
	health_free(l.h);
}

static void test_flapping_link_stays_unhealthy(void **state)
{
	int64_t now = START;
	struct lab l;

	(void)state;
	init(&l, HEALTH_UP);
	is_unhealthy(&l, 0, now);
	for (int i = 0; i < 20; i++) {
		l.links[0] = HEALTH_DOWN;
		assert_true(is_unhealthy(&l, 0, ++now));
		l.links[0] = HEALTH_UP;
		assert_true(is_unhealthy(&l, 0, ++now));
	}
	assert_true(is_unhealthy(&l, 0, now + HEALTH_STABLE_MAX_MS - 1));
	assert_false(is_unhealthy(&l, 0, now + HEALTH_STABLE_MAX_MS));
	health_free(l.h);
}

/* A port that was never up is a fault only if most other ports are up, and only after the grace
 * period HEALTH_GRACE_MS: it may have no cable. */
static void test_link_that_was_never_up_is_unhealthy_if_most_links_are_up(void **state)
{
	struct lab l;

	(void)state;
	init(&l, HEALTH_DOWN);
	assert_false(is_unhealthy(&l, 0, LATE));
	health_free(l.h);
	init(&l, HEALTH_UP);
	l.links[3] = HEALTH_DOWN;
	assert_false(is_unhealthy(&l, 3, LATE - 1));
	ASSERT_EQ(health_due(l.h), LATE);
	assert_true(is_unhealthy(&l, 3, LATE));
	l.links[3] = HEALTH_UP;
	assert_false(is_unhealthy(&l, 3, LATE + 1));
	health_free(l.h);
}

/* After an error of sysfs, or while a device is in a pod, the health does not change. */
static void test_unknown_link_state_does_not_change_health(void **state)
{
	struct lab l;

	(void)state;
	init(&l, HEALTH_UP);
	is_unhealthy(&l, 0, START);
	l.links[0] = HEALTH_UNKNOWN;
	assert_false(is_unhealthy(&l, 0, LATE));
	l.links[0] = HEALTH_DOWN;
	assert_true(is_unhealthy(&l, 0, LATE + 1));
	l.links[0] = HEALTH_UNKNOWN;
	assert_true(is_unhealthy(&l, 0, LATE + 100000));
	health_free(l.h);
}

/* A device that is removed and added again starts in a new state: a fault from before the
 * removal is not reported. */
static void test_removed_device_returns_with_a_new_state(void **state)
{
	struct lab l;

	(void)state;
	init(&l, HEALTH_UP);
	is_unhealthy(&l, 3, START);
	l.links[3] = HEALTH_DOWN;
	assert_true(is_unhealthy(&l, 3, START + 1));
	l.node.n = 3;
	judge(&l, START + 2);
	l.node.n = PFS;
	l.links[3] = HEALTH_UP;
	assert_false(is_unhealthy(&l, 3, START + 3));
	health_free(l.h);
}

static void test_device_with_rising_pci_errors_is_unhealthy(void **state)
{
	struct lab l;

	(void)state;
	init(&l, HEALTH_UP);
	/* Errors from before the first reading are ignored. */
	l.pci_errors[0] = 7;
	assert_false(is_unhealthy(&l, 0, START));
	assert_false(is_unhealthy(&l, 0, START + 1));
	l.pci_errors[0] = 8;
	assert_true(is_unhealthy(&l, 0, START + 10));
	assert_non_null(strstr(l.v[0].unhealthy, "PCIe"));
	assert_ptr_equal(l.v[PFS].unhealthy, l.v[0].unhealthy);
	assert_null(l.v[1].unhealthy);
	ASSERT_EQ(health_due(l.h), START + 10 + HEALTH_PCI_STABLE_MS);
	/* Another error restarts the period HEALTH_PCI_STABLE_MS. */
	l.pci_errors[0] = 9;
	assert_true(is_unhealthy(&l, 0, START + 20));
	assert_true(is_unhealthy(&l, 0, START + 19 + HEALTH_PCI_STABLE_MS));
	assert_false(is_unhealthy(&l, 0, START + 20 + HEALTH_PCI_STABLE_MS));
	ASSERT_EQ(health_due(l.h), -1);
	health_free(l.h);
}

static void test_reset_or_unreadable_pci_errors_are_not_a_rise(void **state)
{
	struct lab l;

	(void)state;
	init(&l, HEALTH_UP);
	l.pci_errors[0] = 7;
	is_unhealthy(&l, 0, START);
	l.pci_errors[0] = 0;
	assert_false(is_unhealthy(&l, 0, START + 1));
	l.pci_errors[0] = -1;
	assert_false(is_unhealthy(&l, 0, START + 2));
	l.pci_errors[0] = 0;
	assert_false(is_unhealthy(&l, 0, START + 3));
	l.pci_errors[0] = 1;
	assert_true(is_unhealthy(&l, 0, START + 4));
	/* An unreadable counter changes nothing and leaves no overdue timer. */
	l.pci_errors[0] = -1;
	assert_true(is_unhealthy(&l, 0, START + 5 + HEALTH_PCI_STABLE_MS));
	ASSERT_EQ(health_due(l.h), -1);
	l.pci_errors[0] = 1;
	assert_false(is_unhealthy(&l, 0, START + 6 + HEALTH_PCI_STABLE_MS));
	health_free(l.h);
}

/*
 * A recovered link does not hide PCI errors, and the end of PCI errors does not hide a link that is
 * down.
 */
static void test_link_and_pci_errors_are_judged_separately(void **state)
{
	struct lab l;

	(void)state;
	init(&l, HEALTH_UP);
	l.pci_errors[0] = 0;
	is_unhealthy(&l, 0, START);
	l.pci_errors[0] = 1;
	l.links[0] = HEALTH_DOWN;
	assert_true(is_unhealthy(&l, 0, START + 1));
	ASSERT_STR_EQ(l.v[0].unhealthy, "the link is down or was down recently");
	l.links[0] = HEALTH_UP;
	is_unhealthy(&l, 0, START + 2);
	assert_true(is_unhealthy(&l, 0, START + 2 + HEALTH_STABLE_MS));
	assert_non_null(strstr(l.v[0].unhealthy, "PCIe"));
	l.links[0] = HEALTH_DOWN;
	assert_true(is_unhealthy(&l, 0, START + 1 + HEALTH_PCI_STABLE_MS));
	ASSERT_STR_EQ(l.v[0].unhealthy, "the link is down or was down recently");
	health_free(l.h);
}

static void test_fatal_pci_errors_are_counted_without_unsupported_requests(void **state)
{
	(void)state;
	ASSERT_EQ(health_parse_pci_errors(span_of("Undefined 0\nDLP 2\nTLP 3\nUnsupReq 40\n"
						  "TOTAL_ERR_FATAL 45\n")),
		  5);
	ASSERT_EQ(health_parse_pci_errors(span_of("DLP 0\nTOTAL_ERR_NONFATAL 0\n")), 0);
	ASSERT_EQ(health_parse_pci_errors(span_of("DLP 1")), 1);
	ASSERT_EQ(health_parse_pci_errors(span_of("")), -1);
	ASSERT_EQ(health_parse_pci_errors(span_of("\n\nDLP\nTLP x\nFCP -1\n")), -1);
	ASSERT_EQ(health_parse_pci_errors(span_of("DLP 99999999999999999999\nTLP 1\n")), 1);
}

static void test_device_is_unhealthy_at_once_if_its_driver_reports_an_error(void **state)
{
	struct lab l;

	(void)state;
	init(&l, HEALTH_UP);
	l.reports[0] = HEALTH_REPORT_OK;
	assert_false(is_unhealthy(&l, 0, START));
	l.reports[0] = HEALTH_REPORT_DEVICE;
	assert_true(is_unhealthy(&l, 0, START + 1));
	assert_non_null(strstr(l.v[PFS].unhealthy, "devlink health show"));
	assert_null(l.v[1].unhealthy);
	/* A failed reading changes nothing. */
	l.reports[0] = HEALTH_REPORT_UNKNOWN;
	assert_true(is_unhealthy(&l, 0, LATE));
	l.reports[0] = HEALTH_REPORT_OK;
	assert_true(is_unhealthy(&l, 0, LATE + 1));
	ASSERT_EQ(health_due(l.h), LATE + 1 + HEALTH_STABLE_MS);
	assert_false(is_unhealthy(&l, 0, LATE + 1 + HEALTH_STABLE_MS));
	ASSERT_EQ(health_due(l.h), -1);
	/* A recovered link does not end the reported error; the device is healthy only after the
	 * link has recovered and the error has ended. */
	l.reports[0] = HEALTH_REPORT_DEVICE;
	l.links[0] = HEALTH_DOWN;
	is_unhealthy(&l, 0, 2 * LATE);
	l.links[0] = HEALTH_UP;
	is_unhealthy(&l, 0, 2 * LATE + 1);
	assert_true(is_unhealthy(&l, 0, 3 * LATE));
	l.reports[0] = HEALTH_REPORT_OK;
	is_unhealthy(&l, 0, 3 * LATE + 1);
	assert_false(is_unhealthy(&l, 0, 4 * LATE));
	health_free(l.h);
}

static void test_device_is_unhealthy_if_a_port_error_outlasts_the_recovery_time(void **state)
{
	struct lab l;

	(void)state;
	init(&l, HEALTH_UP);
	l.reports[0] = HEALTH_REPORT_PORT;
	assert_false(is_unhealthy(&l, 0, START));
	ASSERT_EQ(health_due(l.h), START + HEALTH_RECOVERY_MS);
	l.reports[0] = HEALTH_REPORT_OK;
	assert_false(is_unhealthy(&l, 0, START + HEALTH_RECOVERY_MS - 1));
	ASSERT_EQ(health_due(l.h), -1);
	assert_false(is_unhealthy(&l, 0, LATE));
	l.reports[0] = HEALTH_REPORT_PORT;
	assert_false(is_unhealthy(&l, 0, LATE + 1));
	assert_true(is_unhealthy(&l, 0, LATE + 1 + HEALTH_RECOVERY_MS));
	l.reports[0] = HEALTH_REPORT_OK;
	assert_true(is_unhealthy(&l, 0, 2 * LATE));
	assert_false(is_unhealthy(&l, 0, 2 * LATE + HEALTH_STABLE_MS));
	health_free(l.h);
}

static void test_device_has_the_worst_state_of_its_health_reporters(void **state)
{
	struct devlink_reporter v[] = {
		{"pci", "0000:3b:00.0", "fw", false, true, false,
		 /* a reporter that cannot recover is ignored, since its error would never end */
		 0},
		{"pci", "0000:3b:00.1", "fw_fatal", false, true, true, 0},
		{"pci", "0000:3b:00.1", "tx", true, true, true, 0},
		{"pci", "0000:3b:00.2", "tx", true, true, true, 0},
		{"pci", "0000:3b:00.2", "rx", true, false, true, 0},
		{"pci", "0000:3b:00.3", "fw_fatal", false, false, true, 0},
		{"pci", "0000:3b:00.4", "fw_fatal", false, true, true, 0}, /* a VF */
		{"auxiliary", "mlx5_core.sf.4", "tx", true, true, true, 0},
	};
	static const enum health_report expected[] = {HEALTH_REPORT_UNKNOWN, HEALTH_REPORT_DEVICE,
						      HEALTH_REPORT_PORT, HEALTH_REPORT_OK,
						      HEALTH_REPORT_UNKNOWN};
	struct lab l;

	(void)state;
	init(&l, HEALTH_UP);
	health_reports(v, ARRAY_LEN(v), &l.node, l.reports);
	assert_memory_equal(l.reports, expected, sizeof(expected));
	health_free(l.h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_device_is_unhealthy_at_once_if_its_driver_reports_an_error),
		cmocka_unit_test(
			test_device_is_unhealthy_if_a_port_error_outlasts_the_recovery_time),
		cmocka_unit_test(test_device_has_the_worst_state_of_its_health_reporters),
		cmocka_unit_test(test_lost_link_is_unhealthy_at_once),
		cmocka_unit_test(test_recovered_link_is_healthy_after_a_stable_period),
		cmocka_unit_test(test_flapping_link_stays_unhealthy),
		cmocka_unit_test(test_link_that_was_never_up_is_unhealthy_if_most_links_are_up),
		cmocka_unit_test(test_unknown_link_state_does_not_change_health),
		cmocka_unit_test(test_removed_device_returns_with_a_new_state),
		cmocka_unit_test(test_device_with_rising_pci_errors_is_unhealthy),
		cmocka_unit_test(test_reset_or_unreadable_pci_errors_are_not_a_rise),
		cmocka_unit_test(test_link_and_pci_errors_are_judged_separately),
		cmocka_unit_test(test_fatal_pci_errors_are_counted_without_unsupported_requests),
	};

	return T_RUN(tests, NULL, NULL);
}
