/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_TESTS_TESTLIB_H
#define UNIRAIL_TESTS_TESTLIB_H

/*
 * What every unit test uses: cmocka and the headers that cmocka needs, comparisons that print the
 * expressions with their values, and values parsed from text. A helper that cannot do its work
 * fails the test. The caller owns what a helper returns.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/ip.h"
#include "base/loop.h"
#include "wire/json/json.h"

/*
 * Fails the test unless two integers, enumerators, booleans or bit fields are equal. As with
 * assert_int_equal(), both are converted to uintmax_t, so (size_t)-1 equals -1. A failure prints
 * both expressions, their values, file and line. The _MSG variant also prints a text (printf
 * format): which row of a table, which round of a loop. Each argument is evaluated once.
 */
#define ASSERT_EQ(a, b)		 t_assert_eq(T_INT(a), T_INT(b), T_AT(#a, #b), "%s", "")
#define ASSERT_EQ_MSG(a, b, ...) t_assert_eq(T_INT(a), T_INT(b), T_AT(#a, #b), __VA_ARGS__)

/* Fails the test unless two strings are equal. A failure prints the same as that of ASSERT_EQ. */
#define ASSERT_STR_EQ(a, b)	     t_assert_str_eq(a, b, T_AT(#a, #b), "%s", "")
#define ASSERT_STR_EQ_MSG(a, b, ...) t_assert_str_eq(a, b, T_AT(#a, #b), __VA_ARGS__)

/* Fails the test unless the text contains `part`. */
#define ASSERT_HAS(text, part) t_assert_has(text, part, T_AT(#text, #part))

/* Fails the test if the call returns a negative value; the failure prints the text of the error
 * e, which the call sets. */
#define ASSERT_OK(call, e) t_assert_ok(call, e, T_AT(#call, ""))

/*
 * Runs the tests of an array and returns the exit status of the program. The group has the name of
 * the module under test, for example base/buf. setup, teardown: fixtures of the group, or NULL.
 */
#define T_RUN(tests, setup, teardown)                                                              \
	_cmocka_run_group_tests(t_module((char[64]){0}, __FILE__), tests,                          \
				sizeof(tests) / sizeof((tests)[0]), setup, teardown)

/* Parse an address, a network (a bare address: /32 or /128), a MAC address. */
struct ipaddr t_ip(const char *text);
struct ipnet t_net(const char *text);
struct mac t_mac(const char *text);

/* The text with double quotes in place of single ones. The caller frees. */
char *t_quoted(const char *text);
/* Parse a JSON text; t_json_quoted(): with single quotes in place of double ones. */
struct json_doc *t_json(const char *text);
struct json_doc *t_json_quoted(const char *text);
/* Decodes pairs of hexadecimal digits; returns the number of bytes. Fails the test if there are
 * more than `size`. */
size_t t_hex(const char *hex, uint8_t *ret, size_t size);
/* Fails the test unless the buffer has the bytes of these pairs of digits. */
void t_assert_hex(const struct buf *b, const char *hex);

/* Reads the file from its start, at most size - 1 bytes, as a string, and closes it. */
void t_slurp(FILE *f, char *into, size_t size);

/*
 * Runs a main() in this process with these arguments, of which the first is the program's name and
 * the last is NULL. Returns the exit status; t_out and t_err have what the main() wrote to stdout
 * and stderr.
 */
int t_main(int (*fn)(int argc, char **argv), const char *const *args);
extern char t_out[1 << 16], t_err[1 << 14];

/*
 * Calls the function in a child process, which exits with its result, and returns the child's wait
 * status: 0 if the function returned 0. In the function, T_NEED() returns __LINE__ % 255 + 1 unless
 * the condition holds.
 */
int t_in_child(int (*fn)(const char *arg), const char *arg);
#define T_NEED(x)                                                                                  \
	do {                                                                                       \
		if (!(x))                                                                          \
			return __LINE__ % 255 + 1;                                                 \
	} while (0)

/* Runs the loop for `ms` milliseconds of its clock (loop_set_now()). */
void t_loop_run(struct loop *l, int64_t ms);

/* Creates an empty temporary directory, in /dev/shm if possible, and opens it as a root. */
enum { T_DIR_MAX = 32 };
void t_dir_make(char path[static T_DIR_MAX], struct root *root);
/* Like t_dir_make(), but in /tmp: for tests that execute a file (/dev/shm may be mounted with
 * noexec) or need a path outside of /dev. */
void t_dir_make_in_tmp(char path[static T_DIR_MAX], struct root *root);
void t_dir_remove(const char *path, struct root *root); /* with everything in it */

/* cmocka's fixtures for each test: *state is a struct t_dir with a directory of t_dir_make(). */
struct t_dir {
	char path[T_DIR_MAX];
	struct root root;
};

int t_dir_setup(void **state);
int t_dir_teardown(void **state);

/* cmocka's setup that switches the log off, for tests whose refusals are logged. */
int t_log_off(void **state);

/* What the ASSERT_ macros pass to the functions below: t_int is an integer, t_at the expressions
 * and the place of the call. */
struct t_int {
	uintmax_t v;
	bool is_signed;
};

struct t_at {
	const char *a, *b, *file;
	int line;
};

/* A function instead of a compound literal in the macro: gcc 12 warns of {0} in the latter. */
static inline struct t_int t_int(uintmax_t v, bool is_signed)
{
	return (struct t_int){v, is_signed};
}

#define T_INT(x)   t_int((uintmax_t)(x), (__typeof__((x) + 0))-1 < (__typeof__((x) + 0))1)
#define T_AT(a, b) ((struct t_at){a, b, __FILE__, __LINE__})

void t_assert_eq(struct t_int a, struct t_int b, struct t_at at, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
void t_assert_str_eq(const char *a, const char *b, struct t_at at, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
void t_assert_has(const char *text, const char *part, struct t_at at);
void t_assert_ok(int r, const struct err *e, struct t_at at);
const char *t_module(char *ret, const char *file);

#endif
