/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"

#include <errno.h>
#include <malloc.h>
#include <search.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"

enum { LONG_VECTOR = 4096 }; /* bytes */

/* Allocates nothing: formats into a fixed buffer, and calls write(2) and _exit(2), which run no
 * exit handlers. */
static void __attribute__((noreturn)) out_of_memory(size_t n)
{
	char line[80];
	int len = snprintf(line, sizeof(line),
			   "unirail: out of memory (at least %zu bytes requested)\n", n);

	if (write(STDERR_FILENO, line, (size_t)len) < 0)
		_exit(1);
	_exit(1);
}

void *xmalloc(size_t n)
{
	void *p = malloc(n ? n : 1);

	if (!p)
		out_of_memory(n);
	return p;
}

void *xcalloc(size_t n, size_t size)
{
	void *p = n && size ? calloc(n, size) : calloc(1, 1);

	if (!p)
		out_of_memory(n);
	return p;
}

void *xrealloc(void *p, size_t n)
{
	p = realloc(p, n ? n : 1);
	if (!p)
		out_of_memory(n);
	return p;
}

void *xtsearch(const void *key, void **root, int (*compare)(const void *, const void *))
{
	void *node = tsearch(key, root, compare);

	if (!node)
		out_of_memory(sizeof(void *));
	return node;
}

char *xstrdup(const char *s)
{
	size_t n = strlen(s) + 1;

	return memcpy(xmalloc(n), s, n);
}

char *xvasprintf(const char *fmt, va_list ap)
{
	char *s;

	if (vasprintf(&s, fmt, ap) < 0)
		out_of_memory(0);
	return s;
}

char *xasprintf(const char *fmt, ...)
{
	va_list ap;
	char *s;

	va_start(ap, fmt);
	s = xvasprintf(fmt, ap);
	va_end(ap);
	return s;
}

/*
 * The capacity is not stored with the vector: malloc_usable_size() returns it. So this function can
 * also grow an array that other code has allocated with malloc(). A long vector grows by a quarter:
 * the number of elements copied while n elements are appended is then proportional to n instead of
 * n * n (AddressSanitizer's realloc() always copies, musl's sometimes).
 */
void *vec_grow(void *p, size_t count, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(count + 1, size, &bytes))
		out_of_memory(count);
	if (!p || malloc_usable_size(p) < bytes)
		p = xrealloc(p, bytes < LONG_VECTOR ? bytes : bytes + bytes / 4);
	memset((char *)p + bytes - size, 0, size);
	return p;
}

void cleanup_free(void *p)
{
	int saved = errno;
	void *held;

	/* p is the address of a pointer of any type: memcpy() reads it without an aliasing
	 * violation */
	memcpy(&held, p, sizeof(held));
	free(held);
	errno = saved;
}

void cleanup_fd(int *fd)
{
	int saved = errno;

	if (*fd >= 0)
		close(*fd);
	*fd = -1;
	errno = saved;
}

int take_fd(int *fd)
{
	int value = *fd;

	*fd = -1;
	return value;
}
