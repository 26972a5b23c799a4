/* SPDX-License-Identifier: Apache-2.0 */
#include "testlib.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "wire/tls/digest.h"

#define EMPTY "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define ABC   "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
/* SHA-256 of a million times "a", the long example of FIPS 180-2. */
#define MILLION "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"

static void test_sha256_of_memory_is_computed(void **state)
{
	char hex[DIGEST_HEX];

	(void)state;
	digest_sha256(span_of("abc"), hex);
	ASSERT_STR_EQ(hex, ABC);
	digest_sha256(span_of(NULL), hex);
	ASSERT_STR_EQ(hex, EMPTY);
}

static void test_sha256_of_a_file_is_computed(void **state)
{
	char dir[T_DIR_MAX], hex[DIGEST_HEX] = "kept";
	auto_free char *million = xmalloc(1000000);
	struct err e = ERR_INIT;
	struct root r;

	(void)state;
	t_dir_make(dir, &r);
	memset(million, 'a', 1000000);
	ASSERT_EQ(file_replace(&r, "/f", (struct span){million, 1000000}, 0600, &e), 0);
	ASSERT_EQ(digest_sha256_file(&r, "/missing", hex, &e), -ENOENT);
	assert_non_null(strstr(e.text, "'/missing'"));
	ASSERT_STR_EQ(hex, "kept");
	err_clear(&e);
	ASSERT_EQ(digest_sha256_file(&r, "/", hex, &e), -EISDIR);
	assert_non_null(strstr(e.text, "Is a directory (EISDIR)"));
	ASSERT_STR_EQ(hex, "kept");
	ASSERT_EQ(digest_sha256_file(&r, "/f", hex, NULL), 0);
	ASSERT_STR_EQ(hex, MILLION);
	t_dir_remove(dir, &r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sha256_of_memory_is_computed),
		cmocka_unit_test(test_sha256_of_a_file_is_computed),
	};

	return T_RUN(tests, NULL, NULL);
}
