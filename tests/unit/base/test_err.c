/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/err.h"

static void test_errno_text_has_description_and_name(void **state)
{
	(void)state;
	assert_string_equal(errno_text(ENOENT), "No such file or directory (ENOENT)");
	assert_string_equal(errno_text(-ENOTRECOVERABLE),
			    "State not recoverable (ENOTRECOVERABLE)");
	assert_string_equal(errno_text(EOPNOTSUPP), "Operation not supported (EOPNOTSUPP)");
	assert_string_equal(errno_text(EWOULDBLOCK), "Resource temporarily unavailable (EAGAIN)");
	assert_string_equal(errno_text(-524), "Operation not supported (ENOTSUPP)");
	assert_string_equal(errno_text(4711), "errno 4711");
	assert_string_equal(errno_text(0), "errno 0");
	assert_string_equal(errno_text(41), "errno 41"); /* an unused number in the kernel's list */
	assert_string_equal(errno_text(INT32_MIN), "errno 2147483648");
}

static int innermost(struct err *e)
{
	return err_sys(e, -EPERM, "open '%s'", "/dev/x");
}

static void test_wrapped_error_has_outer_and_inner_text(void **state)
{
	struct err e = ERR_INIT;

	(void)state;
	assert_int_equal(err_wrap(&e, innermost(&e), "rail %d", 3), -EPERM);
	assert_int_equal(err_wrap(&e, -EIO, "attach"), -EIO);
	assert_string_equal(e.text,
			    "attach: rail 3: open '/dev/x': Operation not permitted (EPERM)");
	assert_int_equal(e.code, -EPERM);
	assert_int_equal(e.kind, ERR_OTHER);
	err_default_kind(&e, ERR_IO);
	err_default_kind(&e, ERR_CONF);
	err_wrap(&e, -EIO, "x");
	assert_int_equal(e.kind, ERR_IO);
	err_details(&e, "see %s", "there");
	assert_string_equal(e.details, "see there");
	err_clear(&e);
	assert_int_equal(e.code, 0);
	assert_string_equal(e.text, "");
	assert_string_equal(e.details, "");
	assert_int_equal(e.kind, ERR_OTHER);
}

static void test_wrapping_an_empty_error_names_the_errno(void **state)
{
	struct err e = ERR_INIT;

	(void)state;
	assert_int_equal(err_wrap(&e, -EINVAL, "address '%s'", "x"), -EINVAL);
	assert_string_equal(e.text, "address 'x': Invalid argument (EINVAL)");
	assert_int_equal(e.code, -EINVAL);
}

static void test_functions_accept_null_errors(void **state)
{
	(void)state;
	assert_int_equal(err_set(NULL, -EINVAL, "x"), -EINVAL);
	assert_int_equal(err_kind(NULL, ERR_IO, EINVAL, "x"), -EINVAL);
	assert_int_equal(err_sys(NULL, ENOENT, "x"), -ENOENT);
	assert_int_equal(err_wrap(NULL, -EIO, "x"), -EIO);
	err_details(NULL, "x");
	err_default_kind(NULL, ERR_IO);
	err_clear(NULL);
}

static void test_set_clears_kind_and_details(void **state)
{
	struct err e = ERR_INIT;

	(void)state;
	err_kind(&e, ERR_AGAIN, -EBUSY, "busy");
	err_details(&e, "d");
	/* The old text may be an argument of the new text. */
	err_set(&e, -EIO, "again: %s", e.text);
	assert_string_equal(e.text, "again: busy");
	assert_int_equal(e.kind, ERR_OTHER);
	assert_int_equal(e.code, -EIO);
	assert_string_equal(e.details, "");
}

static void test_long_error_texts_are_truncated_with_dots(void **state)
{
	char big[3000];
	struct err e = ERR_INIT;
	size_t n;

	(void)state;
	memset(big, 'a', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	err_set(&e, -EIO, "%s", big);
	n = strlen(e.text);
	assert_int_equal(n, ERR_TEXT_MAX - 1);
	assert_string_equal(e.text + n - 4, "a...");

	/* The errno is retained after a long subject. */
	err_sys(&e, -ENOENT, "%s", big);
	n = strlen(e.text);
	assert_true(n < ERR_TEXT_MAX);
	assert_string_equal(e.text + n - 40, "a...: No such file or directory (ENOENT)");

	/* A long context leaves half of the space to the inner error. */
	err_sys(&e, -EPERM, "open 'x'");
	err_wrap(&e, -EPERM, "%s", big);
	assert_non_null(strstr(e.text, "a...: open 'x': Operation not permitted (EPERM)"));

	/* Wrapping a full text retains the context and marks the truncation. */
	err_set(&e, -EIO, "%s", big);
	err_wrap(&e, -EIO, "outer");
	assert_int_equal(strncmp(e.text, "outer: aaa", 10), 0);
	assert_string_equal(e.text + strlen(e.text) - 4, "a...");
}

static void test_utf8_is_not_split(void **state)
{
	char big[3000] = "";
	struct err e = ERR_INIT;

	(void)state;
	for (unsigned int shift = 0; shift < 3; shift++) {
		char *p = big;
		const char *dots;

		memset(p, 'x', shift);
		p += shift;
		for (int i = 0; i < 600; i++)
			p = stpcpy(p, "\xe2\x82\xac"); /* euro sign, three bytes */
		err_set(&e, -EIO, "%s", big);
		dots = strstr(e.text, "...");
		assert_non_null(dots);
		assert_int_equal((dots - e.text - (long)shift) % 3, 0);
		err_details(&e, "%s", big);
		dots = strstr(e.details, "...");
		assert_non_null(dots);
		assert_int_equal((dots - e.details - (long)shift) % 3, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_errno_text_has_description_and_name),
		cmocka_unit_test(test_wrapped_error_has_outer_and_inner_text),
		cmocka_unit_test(test_wrapping_an_empty_error_names_the_errno),
		cmocka_unit_test(test_functions_accept_null_errors),
		cmocka_unit_test(test_set_clears_kind_and_details),
		cmocka_unit_test(test_long_error_texts_are_truncated_with_dots),
		cmocka_unit_test(test_utf8_is_not_split),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
