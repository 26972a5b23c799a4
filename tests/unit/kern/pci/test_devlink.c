/* SPDX-License-Identifier: Apache-2.0 */
#include "kern_lab.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "kern/pci/devlink.h"
#include "kern/pci/devlink_health.h"

#define BDF "0000:3b:00.0"

static void test_eswitch_mode_is_read_and_set(void **state)
{
	auto_nl struct nl_wire *w = kern_replay("devlink.nl");
	auto_devlink struct devlink *d = NULL;
	enum eswitch_mode mode;

	(void)state;
	OK(devlink_open(&d, w, &e));
	OK(devlink_eswitch_get(d, BDF, &mode, &e));
	ASSERT_EQ(mode, ESWITCH_LEGACY);
	FAILS(devlink_eswitch_set(d, BDF, ESWITCH_SWITCHDEV, &e), -EBUSY,
	      "set the eswitch mode of '" BDF "' to switchdev: Device or resource busy (EBUSY)");
	ASSERT_EQ(e.kind, ERR_AGAIN);
	OK(devlink_eswitch_set(d, BDF, ESWITCH_SWITCHDEV, &e));
	ASSERT_EQ(devlink_eswitch_set(d, BDF, ESWITCH_SWITCHDEV, &e), -EOPNOTSUPP);
	assert_non_null(strstr(e.text, "or its driver has no eswitch"));
	OK(nl_replay_finished(w, &e));
}

static void use(struct nl_wire *w)
{
	auto_devlink struct devlink *d = NULL;
	enum eswitch_mode mode;

	if (devlink_open(&d, w, NULL) < 0)
		return;
	devlink_eswitch_get(d, BDF, &mode, NULL);
	for (int i = 0; i < 3; i++)
		devlink_eswitch_set(d, BDF, ESWITCH_SWITCHDEV, NULL);
}

/* The device in devlink_info.nl reports running versions of several components, and for
 * fw.app.name also a stored version. */
static void test_running_versions_and_parameters_are_read(void **state)
{
	auto_nl struct nl_wire *w = kern_replay("devlink_info.nl");
	auto_devlink struct devlink *d = NULL;
	char ddp[64] = "";
	bool on = false;

	(void)state;
	OK(devlink_open(&d, w, &e));
	OK(devlink_info_version(d, BDF, "fw.app.name", ddp, sizeof(ddp), &e));
	ASSERT_STR_EQ(ddp, "ICE OS Default Package");
	FAILS(devlink_info_version(d, BDF, "fw.psid", ddp, sizeof(ddp), &e), -ENOENT,
	      "'" BDF "' reports no version of fw.psid");
	OK(devlink_param_bool(d, BDF, "enable_rdma", &on, &e));
	assert_true(on);
	OK(devlink_param_bool(d, "mlx5_core.sf.4", "enable_rdma", &on, &e));
	assert_false(on);
	FAILS(devlink_param_bool(d, BDF, "none", &on, &e), -EINVAL,
	      "get parameter none of '" BDF "': Invalid argument (EINVAL)");
	OK(nl_replay_finished(w, &e));
}

static void use_info(struct nl_wire *w)
{
	auto_devlink struct devlink *d = NULL;
	char ddp[64];
	bool on;

	if (devlink_open(&d, w, NULL) < 0)
		return;
	devlink_info_version(d, BDF, "fw.app.name", ddp, sizeof(ddp), NULL);
	devlink_info_version(d, BDF, "fw.psid", ddp, sizeof(ddp), NULL);
	devlink_param_bool(d, BDF, "enable_rdma", &on, NULL);
	devlink_param_bool(d, "mlx5_core.sf.4", "enable_rdma", &on, NULL);
}

static void test_health_reporters_are_listed(void **state)
{
	auto_nl struct nl_wire *w = kern_replay("devlink_health.nl");
	auto_devlink struct devlink *d = NULL;
	auto_free struct devlink_reporter *v = NULL;
	size_t n = 0;

	(void)state;
	OK(devlink_open(&d, w, &e));
	OK(devlink_reporter_list(d, &v, &n, &e));
	ASSERT_EQ(n, 5);
	ASSERT_STR_EQ(v[0].name, "fw");
	assert_true(v[0].is_error && !v[0].can_recover && !v[0].of_port);
	assert_true(!v[1].is_error && v[1].can_recover);
	ASSERT_STR_EQ(v[2].dev, "0000:3b:00.1");
	ASSERT_STR_EQ(v[2].name, "fw_fatal");
	assert_true(v[2].is_error && v[2].can_recover && !v[2].of_port);
	ASSERT_STR_EQ(v[3].name, "tx");
	assert_true(v[3].is_error && v[3].of_port && v[3].port == 1);
	assert_false(v[4].is_error);
	FAILS(devlink_reporter_list(d, &v, &n, &e), -EOPNOTSUPP,
	      "list devlink health reporters: Operation not supported (EOPNOTSUPP)");
	OK(nl_replay_finished(w, &e));
}

static void use_health(struct nl_wire *w)
{
	auto_devlink struct devlink *d = NULL;

	if (devlink_open(&d, w, NULL) < 0)
		return;
	for (int i = 0; i < 2; i++) {
		auto_free struct devlink_reporter *v = NULL;
		size_t n = 0;

		devlink_reporter_list(d, &v, &n, NULL);
	}
}

/*
 * The notification HEALTH_REPORTER_RECOVER of "fw_fatal", as the kernel sends it to the multicast
 * group.
 */
static void test_health_notification_is_decoded_unless_truncated(void **state)
{
	_Alignas(4) static unsigned char report[] = {
		0x78, 0x00, 0x00, 0x00, 0x15, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
		0x00, 0x00, 0x36, 0x01, 0x00, 0x00, 0x08, 0x00, 0x01, 0x00, 0x70, 0x63, 0x69, 0x00,
		0x11, 0x00, 0x02, 0x00, 0x30, 0x30, 0x30, 0x30, 0x3a, 0x33, 0x62, 0x3a, 0x30, 0x30,
		0x2e, 0x30, 0x00, 0x00, 0x00, 0x00, 0x48, 0x00, 0x72, 0x00, 0x0d, 0x00, 0x73, 0x00,
		0x66, 0x77, 0x5f, 0x66, 0x61, 0x74, 0x61, 0x6c, 0x00, 0x00, 0x00, 0x00, 0x05, 0x00,
		0x74, 0x00, 0x01, 0x00, 0x00, 0x00, 0x0c, 0x00, 0x75, 0x00, 0x01, 0x00, 0x00, 0x00,
		0x00, 0x00, 0x00, 0x00, 0x0c, 0x00, 0x76, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
		0x00, 0x00, 0x0c, 0x00, 0x78, 0x00, 0x60, 0xea, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
		0x05, 0x00, 0x79, 0x00, 0x01, 0x00, 0x00, 0x00,
	};
	auto_nl struct nl_wire *w = kern_replay("devlink_health.nl");
	auto_devlink struct devlink *d = NULL;
	struct devlink_reporter p;

	(void)state;
	OK(devlink_open(&d, w, &e));
	assert_true(
		devlink_report_parse(d, (struct span){(const char *)report, sizeof(report)}, &p));
	ASSERT_STR_EQ(p.bus, "pci");
	ASSERT_STR_EQ(p.dev, "0000:3b:00.0");
	ASSERT_STR_EQ(p.name, "fw_fatal");
	assert_true(p.is_error && p.can_recover && !p.of_port && p.port == 0);
	for (size_t n = 0; n < sizeof(report); n++)
		assert_false(devlink_report_parse(d, (struct span){(const char *)report, n}, &p));
	report[4]++; /* message type of another netlink family */
	assert_false(
		devlink_report_parse(d, (struct span){(const char *)report, sizeof(report)}, &p));
}

static void test_mutated_devlink_answers_do_not_crash(void **state)
{
	(void)state;
	kern_mutate("devlink_health.nl", 1000, use_health);
	kern_mutate("devlink.nl", 1000, use);
	kern_mutate("devlink_info.nl", 1000, use_info);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_eswitch_mode_is_read_and_set),
		cmocka_unit_test(test_running_versions_and_parameters_are_read),
		cmocka_unit_test(test_health_reporters_are_listed),
		cmocka_unit_test(test_health_notification_is_decoded_unless_truncated),
		cmocka_unit_test(test_mutated_devlink_answers_do_not_crash),
	};

	return T_RUN(tests, NULL, NULL);
}
