/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_BASE_BUF_H
#define UNIRAIL_BASE_BUF_H

/*
 * Spans are borrowed bytes with a length; buffers own bytes and grow up to a maximum size chosen at
 * creation. Writing more sets `over` and drops the rest: check `over` once, at the end. A buffer's
 * data is always followed by a NUL that len does not count. If memory is exhausted, the process
 * exits.
 */

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

struct span {
	const char *p;
	size_t n;
};

struct span span_of(const char *s); /* NULL gives an empty span */
bool span_eq(struct span s, const char *word);
bool span_has_prefix(struct span s, const char *prefix);
struct span span_trim(struct span s); /* without ASCII white space at both ends */
/* Cuts *rest at the first sep: sets *ret to the part before sep and *rest to the part after it.
 * Without sep, *ret is all of *rest, and rest->p becomes NULL. Returns false if rest->p is
 * already NULL. "a,,b" gives "a", "", "b". */
bool span_cut(struct span *rest, char sep, struct span *ret);
char *span_dup(struct span s);
/* Returns the length of the UTF-8 sequence at the start of s, 1 to 4; 0: s is empty, or the
 * sequence is invalid (overlong, a surrogate, above U+10FFFF, truncated). */
size_t utf8_len(struct span s);

struct buf {
	char *p;
	size_t len, cap, max;
	bool over;
};

void buf_init(struct buf *b, size_t max);
void buf_done(struct buf *b);
#define auto_buf __attribute__((cleanup(buf_done)))
void buf_reset(struct buf *b);
/* Empties the buffer, and frees its memory if that is larger than `keep` bytes. */
void buf_trim(struct buf *b, size_t keep);
void buf_add(struct buf *b, const void *p, size_t n);
void buf_str(struct buf *b, const char *s);
void buf_char(struct buf *b, char c);
void buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void buf_vprintf(struct buf *b, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));
struct span buf_span(const struct buf *b);
/* returns the NUL-terminated bytes, which the caller frees; empties b */
char *buf_take(struct buf *b);

/* Like the functions without "x", but if memory is exhausted, the process writes one line to stderr
 * and exits; n == 0 gives a valid pointer. */
void *xmalloc(size_t n);
void *xcalloc(size_t n, size_t size);
void *xrealloc(void *p, size_t n);
char *xstrdup(const char *s);
/* Like tsearch(): adds the key, or finds an equal one. */
void *xtsearch(const void *key, void **root, int (*compare)(const void *, const void *));
char *xvasprintf(const char *fmt, va_list ap) __attribute__((format(printf, 1, 0)));
char *xasprintf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Returns the vector p of `count` elements, grown by one zeroed element; p may have moved.
 * VEC_PUSH(list, count) appends such an element, increments count, and is an lvalue for the
 * element. */
void *vec_grow(void *p, size_t count, size_t size);
#define VEC_PUSH(p, n)                                                                             \
	(*({                                                                                       \
		(p) = vec_grow((p), (n), sizeof(*(p)));                                            \
		&(p)[(n)++];                                                                       \
	}))

/* --- strings that may be absent (NULL), and lists of strings --- */

const char *str_or_empty(const char *s); /* "" instead of NULL */
const char *str_if_set(const char *s);	 /* NULL instead of "" */
char *str_dup(const char *s); /* returns a copy, which the caller frees; NULL gives NULL */
bool str_list_has(char *const *v, size_t n, const char *s);
/* for qsort() and bsearch() of a list of strings (char *) */
int str_order(const void *a, const void *b);

/* Like strlcpy(), but returns whether s fits; false: dst has the truncated copy. */
bool str_copy(char *dst, size_t size, const char *s);

#endif
