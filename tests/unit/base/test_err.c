/* SPDX-License-Identifier: Apache-2.0 */
#include "testlib.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"

static void test_errno_text_has_description_and_name(void **state)
{
	(void)state;
	ASSERT_STR_EQ(errno_text(ENOENT), "No such file or directory (ENOENT)");
	ASSERT_STR_EQ(errno_text(-ENOTRECOVERABLE), "State not recoverable (ENOTRECOVERABLE)");
	ASSERT_STR_EQ(errno_text(EOPNOTSUPP), "Operation not supported (EOPNOTSUPP)");
	ASSERT_STR_EQ(errno_text(EWOULDBLOCK), "Resource temporarily unavailable (EAGAIN)");
	ASSERT_STR_EQ(errno_text(-524), "Operation not supported (ENOTSUPP)");
	ASSERT_STR_EQ(errno_text(4711), "errno 4711");
	ASSERT_STR_EQ(errno_text(0), "errno 0");
	ASSERT_STR_EQ(errno_text(41), "errno 41"); /* an unused number in the kernel's list */
	ASSERT_STR_EQ(errno_text(INT32_MIN), "errno 2147483648");
}

static int innermost(struct err *e)
{
	return err_sys(e, -EPERM, "open '%s'", "/dev/x");
}

static void test_wrapped_error_has_outer_and_inner_text(void **state)
{
	struct err e = ERR_INIT;

	(void)state;
	ASSERT_EQ(err_wrap(&e, innermost(&e), "rail %d", 3), -EPERM);
	ASSERT_EQ(err_wrap(&e, -EIO, "attach"), -EIO);
	ASSERT_STR_EQ(e.text, "attach: rail 3: open '/dev/x': Operation not permitted (EPERM)");
	ASSERT_EQ(e.code, -EPERM);
	ASSERT_EQ(e.kind, ERR_OTHER);
	err_default_kind(&e, ERR_IO);
	err_default_kind(&e, ERR_CONF);
	err_wrap(&e, -EIO, "x");
	ASSERT_EQ(e.kind, ERR_IO);
	err_details(&e, "see %s", "there");
	ASSERT_STR_EQ(e.details, "see there");
	err_clear(&e);
	ASSERT_EQ(e.code, 0);
	ASSERT_STR_EQ(e.text, "");
	ASSERT_STR_EQ(e.details, "");
	ASSERT_EQ(e.kind, ERR_OTHER);
}

static void test_wrapping_an_empty_error_names_the_errno(void **state)
{
	struct err e = ERR_INIT;

	(void)state;
	ASSERT_EQ(err_wrap(&e, -EINVAL, "address '%s'", "x"), -EINVAL);
	ASSERT_STR_EQ(e.text, "address 'x': Invalid argument (EINVAL)");
	ASSERT_EQ(e.code, -EINVAL);
}

static void test_error_functions_accept_null(void **state)
{
	(void)state;
	ASSERT_EQ(err_set(NULL, -EINVAL, "x"), -EINVAL);
	ASSERT_EQ(err_kind(NULL, ERR_IO, EINVAL, "x"), -EINVAL);
	ASSERT_EQ(err_sys(NULL, ENOENT, "x"), -ENOENT);
	ASSERT_EQ(err_wrap(NULL, -EIO, "x"), -EIO);
	err_details(NULL, "x");
	err_default_kind(NULL, ERR_IO);
	err_clear(NULL);
}

static void test_err_set_clears_kind_and_details(void **state)
{
	struct err e = ERR_INIT;

	(void)state;
	err_kind(&e, ERR_AGAIN, -EBUSY, "busy");
	err_details(&e, "d");
	/* The old text may be an argument of the new text. */
	err_set(&e, -EIO, "again: %s", e.text);
	ASSERT_STR_EQ(e.text, "again: busy");
	ASSERT_EQ(e.kind, ERR_OTHER);
	ASSERT_EQ(e.code, -EIO);
	ASSERT_STR_EQ(e.details, "");
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
	ASSERT_EQ(n, ERR_TEXT_MAX - 1);
	ASSERT_STR_EQ(e.text + n - 4, "a...");

	/* After a long text the errno is still shown in full. */
	err_sys(&e, -ENOENT, "%s", big);
	n = strlen(e.text);
	assert_true(n < ERR_TEXT_MAX);
	ASSERT_STR_EQ(e.text + n - 40, "a...: No such file or directory (ENOENT)");

	/* A long context leaves half of the space to the inner error. */
	err_sys(&e, -EPERM, "open 'x'");
	err_wrap(&e, -EPERM, "%s", big);
	assert_non_null(strstr(e.text, "a...: open 'x': Operation not permitted (EPERM)"));

	/* If the inner error already fills the buffer, err_wrap() retains the outer text and
	 * ends the result with dots. */
	err_set(&e, -EIO, "%s", big);
	err_wrap(&e, -EIO, "outer");
	ASSERT_EQ(strncmp(e.text, "outer: aaa", 10), 0);
	ASSERT_STR_EQ(e.text + strlen(e.text) - 4, "a...");
}

static void test_truncation_does_not_split_utf8_sequences(void **state)
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
		ASSERT_EQ((dots - e.text - (long)shift) % 3, 0);
		err_details(&e, "%s", big);
		dots = strstr(e.details, "...");
		assert_non_null(dots);
		ASSERT_EQ((dots - e.details - (long)shift) % 3, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_errno_text_has_description_and_name),
		cmocka_unit_test(test_wrapped_error_has_outer_and_inner_text),
		cmocka_unit_test(test_wrapping_an_empty_error_names_the_errno),
		cmocka_unit_test(test_error_functions_accept_null),
		cmocka_unit_test(test_err_set_clears_kind_and_details),
		cmocka_unit_test(test_long_error_texts_are_truncated_with_dots),
		cmocka_unit_test(test_truncation_does_not_split_utf8_sequences),
	};

	return T_RUN(tests, NULL, NULL);
}
