/* SPDX-License-Identifier: Apache-2.0 */
/* Firmware settings of an emulated mlx5 card (fwctl_lab.h). */
#include "host_lab.h"

#include <errno.h>
#include <string.h>

#include "fwctl_lab.h"

static struct err e;

static void test_link_type_is_read_and_stored(void **state)
{
	/* The test checks that setting the link type changes no other bit of the firmware's
	 * setting. */
	struct fwctl_card c = {
		.stored = {0, 0xa5a5a505}, .running = {0, 0xa5a5a505}, .has_item = true};
	struct fwctl f = fwctl_card_open(&c);
	enum fwctl_link_type t;

	(void)state;
	ASSERT_EQ(fwctl_link_type_get(&f, 1, FWCTL_STORED, &t, &e), 0);
	ASSERT_EQ(t, FWCTL_LINK_IB);
	ASSERT_EQ(fwctl_link_type_set(&f, 1, FWCTL_LINK_IB, &e), 0);
	ASSERT_EQ(c.writes, 0);
	ASSERT_EQ(fwctl_link_type_set(&f, 1, FWCTL_LINK_ETH, &e), 0);
	ASSERT_EQ(c.writes, 1);
	ASSERT_EQ(c.stored[1], 0xa5a5a509);
	ASSERT_EQ(fwctl_link_type_get(&f, 1, FWCTL_STORED, &t, &e), 0);
	ASSERT_EQ(t, FWCTL_LINK_ETH);
	ASSERT_EQ(fwctl_link_type_get(&f, 1, FWCTL_RUNNING, &t, &e), 0);
	ASSERT_EQ(t, FWCTL_LINK_IB);
}

static void test_failures_of_firmware_and_driver_are_reported(void **state)
{
	struct fwctl_card c = {.stored = {0, 0x4}, .running = {0, 0x4}};
	struct fwctl f = fwctl_card_open(&c);
	enum fwctl_link_type t = FWCTL_LINK_ETH;

	(void)state;
	ASSERT_EQ(fwctl_link_type_get(&f, 1, FWCTL_STORED, &t, &e), -EOPNOTSUPP);
	ASSERT_STR_EQ(e.text, "read LINK_TYPE_P1 of 0000:3b:00.0 (fwctl0): the firmware refuses "
			      "the command: status 0x03, syndrome 0xbad0cab1");
	ASSERT_EQ(t, FWCTL_LINK_ETH);
	ASSERT_EQ(fwctl_link_type_get(&f, 3, FWCTL_STORED, &t, &e), -EINVAL);
	c.has_item = c.forgets_write = true;
	ASSERT_EQ(fwctl_link_type_set(&f, 1, FWCTL_LINK_ETH, &e), -EIO);
	assert_non_null(strstr(e.text, "it is 1 afterwards"));
	c.stored[1] = 0xc;
	ASSERT_EQ(fwctl_link_type_get(&f, 1, FWCTL_STORED, &t, &e), -EBADMSG);
	c.fail = EBADMSG;
	ASSERT_EQ(fwctl_link_type_get(&f, 1, FWCTL_STORED, &t, &e), -EBADMSG);
	assert_non_null(strstr(e.text, "the driver does not allow this command"));
	c.fail = EPERM;
	ASSERT_EQ(fwctl_link_type_set(&f, 1, FWCTL_LINK_ETH, &e), -EPERM);
}

static void test_ecn_is_switched_for_one_priority(void **state)
{
	struct fwctl_card c = {.has_item = true};
	struct fwctl f = fwctl_card_open(&c);
	bool is = true;

	(void)state;
	ASSERT_EQ(fwctl_cong_get(&f, FWCTL_CONG_RP, 5, &is, &e), 0);
	assert_false(is);
	ASSERT_EQ(fwctl_cong_set(&f, FWCTL_CONG_RP, 5, true, &e), 0);
	assert_true(c.rp[5]);
	assert_false(c.np[5]);
	ASSERT_EQ(fwctl_cong_set(&f, FWCTL_CONG_NP, 5, true, &e), 0);
	assert_true(c.np[5]);
	ASSERT_EQ(fwctl_cong_set(&f, FWCTL_CONG_RP, 5, false, &e), 0);
	assert_false(c.rp[5]);
	ASSERT_EQ(fwctl_cong_set(&f, FWCTL_CONG_RP, 8, true, &e), -EINVAL);
}

/*
 * The name of the fwctl device is read from the function's directory in sysfs. If the function has
 * no fwctl device, the error names the kernel version and the module that fwctl requires.
 */
static void test_fwctl_device_of_a_function_is_opened(void **state)
{
	struct host_lab h;
	struct fwctl f;

	(void)state;
	host_unpack(&h, "mlx5_roce.tree");
	ASSERT_EQ(fwctl_open(&f, &h.root, "0000:3d:00.0", &e), -ENODEV);
	ASSERT_STR_EQ(e.text, "'0000:3d:00.0' has no fwctl device: it needs Linux 6.15 and "
			      "'modprobe mlx5_fwctl'");
	host_write(&h, "/sys/bus/pci/devices/0000:3d:00.0/fwctl/fwctl3/dev", "10:3");
	ASSERT_EQ(fwctl_open(&f, &h.root, "0000:3d:00.0", &e), -ENOENT);
	host_write(&h, "/dev/fwctl/fwctl3", "");
	ASSERT_EQ(fwctl_open(&f, &h.root, "0000:3d:00.0", &e), 0);
	ASSERT_STR_EQ(f.name, "0000:3d:00.0 (fwctl3)");
	fwctl_close(&f);
	ASSERT_EQ(fwctl_open(&f, &h.root, "../etc", &e), -EINVAL);
	host_remove(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_link_type_is_read_and_stored),
		cmocka_unit_test(test_failures_of_firmware_and_driver_are_reported),
		cmocka_unit_test(test_ecn_is_switched_for_one_priority),
		cmocka_unit_test(test_fwctl_device_of_a_function_is_opened),
	};

	return T_RUN(tests, NULL, NULL);
}
