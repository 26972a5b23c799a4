/* SPDX-License-Identifier: Apache-2.0 */
/*
 * With FLAVOUR=count, the compiler inserts a call of __sanitizer_cov_trace_pc() into every basic
 * block of src and of the tests, except the functions marked PLAIN; the linker maps calls of libc's
 * memory and string functions to this file (--wrap), which counts a step for the call and for every
 * 16 bytes.
 */
#include <string.h>

#include "growth.h"

#define PLAIN	__attribute__((no_sanitize_coverage))
#define STEP(n) (count_work += 1 + (n) / 16)

uint64_t count_work;

void __sanitizer_cov_trace_pc(void);
PLAIN void __sanitizer_cov_trace_pc(void)
{
	count_work++;
}

#define WRAP(type, name, ...)                                                                      \
	type __real_##name(__VA_ARGS__);                                                           \
	type __wrap_##name(__VA_ARGS__);                                                           \
	PLAIN type __wrap_##name(__VA_ARGS__)

/* Length of the common prefix of two strings: the bytes that a comparison reads. */
static PLAIN size_t common(const char *a, const char *b, size_t max)
{
	size_t n = 0;

	while (n < max && a[n] == b[n] && a[n])
		n++;
	return n;
}

WRAP(void *, memcpy, void *to, const void *from, size_t n)
{
	STEP(n);
	return __real_memcpy(to, from, n);
}

WRAP(void *, memmove, void *to, const void *from, size_t n)
{
	STEP(n);
	return __real_memmove(to, from, n);
}

WRAP(void *, memset, void *to, int c, size_t n)
{
	STEP(n);
	return __real_memset(to, c, n);
}

WRAP(int, memcmp, const void *a, const void *b, size_t n)
{
	STEP(n);
	return __real_memcmp(a, b, n);
}

WRAP(void *, memchr, const void *a, int c, size_t n)
{
	const char *at = __real_memchr(a, c, n);

	STEP(at ? (size_t)(at - (const char *)a) : n);
	return (void *)at;
}

WRAP(size_t, strlen, const char *s)
{
	size_t n = __real_strlen(s);

	STEP(n);
	return n;
}

WRAP(char *, strchr, const char *s, int c)
{
	char *at = __real_strchr(s, c);

	STEP(at ? (size_t)(at - s) : __real_strlen(s));
	return at;
}

WRAP(char *, strstr, const char *s, const char *what)
{
	char *at = __real_strstr(s, what);

	STEP(at ? (size_t)(at - s) : __real_strlen(s));
	return at;
}

WRAP(size_t, strspn, const char *s, const char *set)
{
	size_t n = __real_strspn(s, set);

	STEP(n);
	return n;
}

WRAP(char *, strpbrk, const char *s, const char *set)
{
	char *at = __real_strpbrk(s, set);

	STEP(at ? (size_t)(at - s) : __real_strlen(s));
	return at;
}

WRAP(int, strcmp, const char *a, const char *b)
{
	STEP(common(a, b, SIZE_MAX));
	return __real_strcmp(a, b);
}

WRAP(int, strncmp, const char *a, const char *b, size_t n)
{
	STEP(common(a, b, n));
	return __real_strncmp(a, b, n);
}
