/* SPDX-License-Identifier: Apache-2.0 */
#include "testlib.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/alloc.h"

static void test_length_of_a_utf8_sequence_is_returned_and_zero_if_invalid(void **state)
{
	/* empty, a continuation byte, overlong forms, a surrogate, above U+10FFFF, truncated */
	static const char *const invalid[] = {"",
					      "\x80",
					      "\xc0\x80",
					      "\xc3",
					      "\xe0\x80\x80",
					      "\xed\xa0\x80",
					      "\xe2\x82",
					      "\xe2\x82z",
					      "\xf0\x80\x80\x80",
					      "\xf4\x90\x80\x80",
					      "\xf5\x80\x80\x80",
					      "\xff"};

	(void)state;
	ASSERT_EQ(utf8_len(span_of("a\xff")), 1);
	ASSERT_EQ(utf8_len(span_of("\xc3\xa9")), 2);
	ASSERT_EQ(utf8_len(span_of("\xef\xbf\xbd")), 3);
	ASSERT_EQ(utf8_len(span_of("\xf4\x8f\xbf\xbf")), 4);
	for (size_t i = 0; i < ARRAY_LEN(invalid); i++)
		ASSERT_EQ_MSG(utf8_len(span_of(invalid[i])), 0, "invalid[%zu]", i);
}

static void test_spans_are_trimmed_compared_and_split(void **state)
{
	struct span s = span_of(" \t a b\r\n"), rest, part;
	char *copy;

	(void)state;
	assert_true(span_eq(span_trim(s), "a b"));
	assert_true(span_eq(span_trim(span_of("  \n")), ""));
	assert_true(span_eq(span_of(NULL), ""));
	assert_false(span_eq(span_of("ab"), "a"));
	assert_true(span_has_prefix(span_of("abc"), "ab"));
	assert_false(span_has_prefix(span_of("a"), "ab"));
	assert_true(span_has_prefix(span_of(NULL), ""));
	copy = span_dup(span_trim(s));
	ASSERT_STR_EQ(copy, "a b");
	free(copy);

	rest = span_of("a,,b");
	assert_true(span_cut(&rest, ',', &part) && span_eq(part, "a"));
	assert_true(span_cut(&rest, ',', &part) && span_eq(part, ""));
	assert_true(span_cut(&rest, ',', &part) && span_eq(part, "b"));
	assert_false(span_cut(&rest, ',', &part));
	rest = span_of("a,");
	assert_true(span_cut(&rest, ',', &part) && span_eq(part, "a"));
	assert_true(span_cut(&rest, ',', &part) && span_eq(part, ""));
	assert_false(span_cut(&rest, ',', &part));
	rest = span_of("");
	assert_true(span_cut(&rest, ',', &part) && part.n == 0);
	assert_false(span_cut(&rest, ',', &part));
}

static void test_buffer_is_terminated_after_each_append(void **state)
{
	auto_buf struct buf b;
	char *taken;

	(void)state;
	buf_init(&b, 1 << 20);
	ASSERT_STR_EQ(b.p, "");
	ASSERT_STR_EQ(buf_span(&b).p, "");
	buf_printf(&b, "%s", "");
	ASSERT_STR_EQ(b.p, "");
	for (int i = 0; i < 1000; i++) {
		buf_printf(&b, "%d,", i);
		ASSERT_EQ(b.p[b.len], 0);
	}
	buf_str(&b, NULL);
	buf_char(&b, 'x');
	buf_add(&b, "\0y", 2);
	ASSERT_EQ(b.len, 2890 + 1000 + 3);
	assert_memory_equal(b.p + b.len - 5, "9,x\0y", 5);
	assert_false(b.over);
	taken = buf_take(&b);
	assert_memory_equal(taken, "0,1,2,", 6);
	free(taken);
	ASSERT_STR_EQ(b.p, "");
	buf_str(&b, "again");
	ASSERT_STR_EQ(b.p, "again");
	buf_reset(&b);
	ASSERT_STR_EQ(b.p, "");
	taken = buf_take(&b);
	ASSERT_STR_EQ(taken, "");
	free(taken);
}

static void test_text_beyond_the_maximum_size_is_dropped(void **state)
{
	struct buf b;

	(void)state;
	buf_init(&b, 5);
	buf_str(&b, "abcde");
	assert_false(b.over);
	buf_str(&b, "");
	assert_false(b.over);
	buf_char(&b, 'f');
	assert_true(b.over);
	ASSERT_STR_EQ(b.p, "abcde");
	buf_reset(&b);
	assert_false(b.over);
	buf_printf(&b, "%s", "abcdefgh");
	assert_true(b.over);
	ASSERT_STR_EQ(b.p, "abcde");
	/* After an overflow all text is dropped, even text that would fit. */
	b.len = 3;
	b.p[3] = '\0';
	buf_char(&b, 'x');
	buf_printf(&b, "y");
	ASSERT_STR_EQ(b.p, "abc");
	buf_done(&b);
	ASSERT_STR_EQ(b.p, "");
}

static void test_buf_printf_truncates_the_text_at_each_maximum_size(void **state)
{
	(void)state;
	for (size_t max = 0; max < 200; max++) {
		struct buf b;
		char want[256];

		memset(want, 0, sizeof(want));
		buf_init(&b, max);
		for (int i = 0; i < 30; i++)
			buf_printf(&b, "<%d>", i);
		for (size_t i = 0, n = 0; i < 30 && n < sizeof(want) - 8; i++)
			n += (size_t)snprintf(want + n, 8, "<%zu>", i);
		want[max < 110 ? max : 110] = '\0';
		ASSERT_STR_EQ(b.p, want);
		ASSERT_EQ(b.over, max < 110);
		buf_done(&b);
	}
}

static void test_vector_grows_with_zeroed_elements(void **state)
{
	struct {
		int a, b;
	} *v = NULL;
	size_t n = 0;
	/* A vector that was allocated with an exact size grows as well. */
	char **list = xcalloc(3, sizeof(*list));
	size_t n_list = 3;

	(void)state;
	for (int i = 0; i < 1000; i++)
		VEC_PUSH(v, n).a = i;
	ASSERT_EQ(n, 1000);
	for (int i = 0; i < 1000; i++) {
		ASSERT_EQ(v[i].a, i);
		ASSERT_EQ(v[i].b, 0);
	}
	free(v);
	VEC_PUSH(list, n_list) = xstrdup("x");
	ASSERT_EQ(n_list, 4);
	assert_null(list[0]);
	free(list[3]);
	free(list);
}

static void test_string_that_does_not_fit_is_truncated(void **state)
{
	char small[4];
	char *s;

	(void)state;
	assert_true(str_copy(small, sizeof(small), "abc"));
	ASSERT_STR_EQ(small, "abc");
	assert_false(str_copy(small, sizeof(small), "abcd"));
	ASSERT_STR_EQ(small, "abc");
	assert_false(str_copy(small, 0, "a"));
	s = xasprintf("%s-%d", "a", 7);
	ASSERT_STR_EQ(s, "a-7");
	free(s);
	free(xmalloc(0));
	free(xcalloc(0, 8));
	free(xrealloc(NULL, 0));
}

static void test_cleanup_attributes_preserve_errno(void **state)
{
	int fd = dup(0), fd_taken;

	(void)state;
	errno = EXDEV;
	{
		auto_fd int a = fd;
		auto_fd int none = -1;
		auto_free char *p = xstrdup("x");
		auto_free char *null = NULL;
		auto_fd int b = dup(0);
		auto_free char *q = xstrdup("y");
		char *out = take(q);

		(void)a, (void)none, (void)p, (void)null;
		fd_taken = take_fd(&b);
		ASSERT_EQ(b, -1);
		assert_null(q);
		free(out);
	}
	ASSERT_EQ(errno, EXDEV);
	ASSERT_EQ(fcntl(fd, F_GETFD), -1);
	assert_int_not_equal(fcntl(fd_taken, F_GETFD), -1);
	close(fd_taken);
}

/* An allocation that fails: one line on stderr, exit status 1. */
static void test_out_of_memory_exits_with_one_line(void **state)
{
	int pipes[2], status;
	char line[256] = "";
	pid_t pid;

	(void)state;
	ASSERT_EQ(pipe(pipes), 0);
	pid = fork();
	if (pid == 0) {
		struct rlimit small = {1 << 20, 1 << 20};

		dup2(pipes[1], STDERR_FILENO);
#ifndef __SANITIZE_ADDRESS__
		setrlimit(RLIMIT_AS, &small);
		xmalloc(1 << 26);
#else
		(void)small;
		(void)vec_grow(NULL, SIZE_MAX / 2, 16);
#endif
		_exit(0);
	}
	close(pipes[1]);
	assert_true(read(pipes[0], line, sizeof(line) - 1) > 0);
	close(pipes[0]);
	waitpid(pid, &status, 0);
	ASSERT_EQ(WEXITSTATUS(status), 1);
	assert_memory_equal(line, "unirail: out of memory", 22);
	ASSERT_EQ(line[strlen(line) - 1], '\n');
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_length_of_a_utf8_sequence_is_returned_and_zero_if_invalid),
		cmocka_unit_test(test_spans_are_trimmed_compared_and_split),
		cmocka_unit_test(test_buffer_is_terminated_after_each_append),
		cmocka_unit_test(test_text_beyond_the_maximum_size_is_dropped),
		cmocka_unit_test(test_buf_printf_truncates_the_text_at_each_maximum_size),
		cmocka_unit_test(test_vector_grows_with_zeroed_elements),
		cmocka_unit_test(test_string_that_does_not_fit_is_truncated),
		cmocka_unit_test(test_cleanup_attributes_preserve_errno),
		cmocka_unit_test(test_out_of_memory_exits_with_one_line),
	};

	return T_RUN(tests, NULL, NULL);
}
