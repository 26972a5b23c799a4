/* SPDX-License-Identifier: Apache-2.0 */
#include "host_lab.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "device/resource/selector.h"

static void range(const char *item, const char *name, int64_t index, int code, bool named, bool in)
{
	bool n, i;

	ASSERT_EQ(select_range(item, name, index, &n, &i), code);
	assert_true(n == named && i == in);
}

static void test_pf_name_ranges_select_vfs(void **state)
{
	(void)state;
	range("pf0", "pf0", 3, 0, true, true);
	range("PF0", "pf0", -1, 0, true, true);
	range("pf0", "pf1", 3, 0, false, false);
	range("pf0#0-3,5", "pf0", 3, 0, true, true);
	range("pf0#0-3,5", "pf0", 4, 0, true, false);
	range("pf0#0-3,5", "pf0", 5, 0, true, true);
	range("pf0#0-3", "pf0", -1, 0, true, false);
	range("0000:3b:00.0#7", "0000:3b:00.0", 7, 0, true, true);
	range("pf0#", "pf0", 0, -EINVAL, true, false);
	range("pf0#1,", "pf0", 1, -EINVAL, true, false);
	range("pf0#3-1", "pf0", 2, -EINVAL, true, false);
	range("pf0#a", "pf0", 2, -EINVAL, true, false);
	range("pf0#99999999999", "pf0", 2, -EINVAL, true, false);
	range("", "pf0", 0, 0, false, false);
}

/* If no selector object matches, the reported text is that of the object that meets the most
 * conditions. */
static void test_reason_of_the_best_matching_selector_is_reported(void **state)
{
	const char *intel[] = {"8086"}, *mlx[] = {"15b3"}, *drivers[] = {"vfio-pci"};
	struct selector s[2] = {{.lists[SELECT_VENDORS] = {intel, 1}},
				{.lists[SELECT_VENDORS] = {mlx, 1},
				 .lists[SELECT_DRIVERS] = {drivers, 1}}};
	const struct resource_conf c = {.form = RESOURCE_SRIOV, .selectors = s, .n_selectors = 2};
	const struct node_device d = {.vendor = "15b3", .driver = "mlx5_core", .path = ""};
	struct verdict v;
	size_t which = 0;

	(void)state;
	resource_consider(&c, &d, &v, &which);
	assert_false(v.matches);
	ASSERT_STR_EQ(v.key, "drivers");
	ASSERT_STR_EQ(v.text, "drivers requires vfio-pci, the device has mlx5_core");
	ASSERT_EQ(which, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pf_name_ranges_select_vfs),
		cmocka_unit_test(test_reason_of_the_best_matching_selector_is_reported),
	};

	return T_RUN(tests, NULL, NULL);
}
