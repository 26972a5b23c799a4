/* SPDX-License-Identifier: Apache-2.0 */
#include "testlib.h"

#include "base/alloc.h"
#include "cni/multi/registry.h"

static void test_link_driver_is_found_by_type(void **state)
{
	static const char *const types[] = {"macvlan", "ipvlan", "vlan",    "host-device",
					    "sriov",   "ipoib",	 "ib-sriov"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(types); i++) {
		const struct link_driver *k = link_driver_find(types[i]);

		assert_non_null(k);
		ASSERT_STR_EQ_MSG(k->type, types[i], "types[%zu]", i);
		ASSERT_EQ_MSG(link_driver_moves(k), i >= 3 && k != &ipoib_kind, "types[%zu]", i);
	}
	assert_null(link_driver_find("coordinator"));
	assert_null(link_driver_find(""));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_link_driver_is_found_by_type),
	};

	return T_RUN(tests, NULL, NULL);
}
