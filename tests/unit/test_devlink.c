/* SPDX-License-Identifier: Apache-2.0 */
#include "kern_lab.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "kern/pci/devlink.h"

#define BDF "0000:3b:00.0"

static void eswitch_and_ports(void **state)
{
	auto_nl struct nl_wire *w = kern_replay("devlink.nl");
	auto_devlink struct devlink *d = NULL;
	auto_free struct devlink_port *list = NULL;
	enum eswitch_mode mode;
	size_t n;

	(void)state;
	OK(devlink_open(&d, w, &e));
	OK(devlink_eswitch_get(d, BDF, &mode, &e));
	assert_int_equal(mode, ESWITCH_LEGACY);
	FAILS(devlink_eswitch_set(d, BDF, ESWITCH_SWITCHDEV, &e), -EBUSY,
	      "set the eswitch mode of '" BDF "' to switchdev: Device or resource busy (EBUSY)");
	assert_int_equal(e.kind, ERR_AGAIN);
	OK(devlink_eswitch_set(d, BDF, ESWITCH_SWITCHDEV, &e));
	assert_int_equal(devlink_eswitch_set(d, BDF, ESWITCH_SWITCHDEV, &e), -EOPNOTSUPP);
	assert_non_null(strstr(e.text, "no eswitch to choose"));
	OK(devlink_port_list(d, BDF, &list, &n, &e));
	OK(nl_replay_finished(w, &e));
	assert_int_equal(n, 2);
	assert_int_equal(list[0].flavour, DEVLINK_PHYSICAL);
	assert_string_equal(list[0].ibdev, "mlx5_0");
	assert_int_equal(list[0].vf, -1);
	assert_int_equal(list[1].flavour, DEVLINK_PCI_VF);
	assert_string_equal(list[1].netdev, "ens1f0npf0vf2");
	assert_int_equal(list[1].pf, 0);
	assert_int_equal(list[1].vf, 2);
	assert_int_equal(list[1].netdev_index, 12);
}

static void use(struct nl_wire *w)
{
	auto_devlink struct devlink *d = NULL;
	auto_free struct devlink_port *list = NULL;
	enum eswitch_mode mode;
	size_t n;

	if (devlink_open(&d, w, NULL) < 0)
		return;
	devlink_eswitch_get(d, BDF, &mode, NULL);
	for (int i = 0; i < 3; i++)
		devlink_eswitch_set(d, BDF, ESWITCH_SWITCHDEV, NULL);
	devlink_port_list(d, NULL, &list, &n, NULL);
}

static void hostile(void **state)
{
	(void)state;
	kern_mutate("devlink.nl", 1000, use);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(eswitch_and_ports),
		cmocka_unit_test(hostile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
