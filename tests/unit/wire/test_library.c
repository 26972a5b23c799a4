/* SPDX-License-Identifier: Apache-2.0 */
#include "testlib.h"

#include <string.h>

#include "base/alloc.h"
#include "wire/library.h"

static void test_versions_of_bundled_libraries_are_reported(void **state)
{
	static const char *const names[] = {"mbedtls", "nghttp2", "yyjson", "nanopb"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		const char *v = wire_library_version(names[i]);

		assert_non_null(v);
		assert_true(v[0] >= '0' && v[0] <= '9');
		assert_non_null(strchr(v, '.'));
	}
	assert_null(wire_library_version("libnl"));
	assert_null(wire_library_version(""));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_versions_of_bundled_libraries_are_reported),
	};

	return T_RUN(tests, NULL, NULL);
}
