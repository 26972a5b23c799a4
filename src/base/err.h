/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_BASE_ERR_H
#define UNIRAIL_BASE_ERR_H

/*
 * Errors: functions return 0 (or a count) or a negative errno; the last parameter is a caller-owned
 * `struct err *e` (may be NULL) that collects "outer: inner: message of the kernel". The function
 * where the failure occurs sets it, callers wrap it; only an applet prints it.
 *
 *	if (fd < 0)
 *		return err_sys(e, -errno, "open '%s'", path);
 *	r = rtnl_link_get(w, name, &l, e);
 *	if (r < 0)
 *		return err_wrap(e, r, "rail %s", rail);
 *
 * The kind shows the caller of the program, such as the container runtime, how to react; each
 * protocol maps the kind to its own codes in one place (cni/protocol/error.c,
 * wire/http/grpc_session.c). The kind is ERR_OTHER until a function sets another one; err_wrap()
 * does not change it.
 */

#include <stdarg.h>
#include <stddef.h>

/* Marks a text that begins with a message of the replaced program, which users and scripts
 * search for: it must not be changed. tools/words does not read it. */
#define ORIG(text) text

enum err_kind {
	ERR_OTHER,	 /* CNI 999 */
	ERR_VERSION,	 /* CNI 1: incompatible version */
	ERR_UNSUPPORTED, /* CNI 2: field or feature this plugin does not support */
	ERR_ENV,	 /* CNI 4: environment variables, CNI_ARGS */
	ERR_IO,		 /* CNI 5: reading input, writing state */
	ERR_DECODE,	 /* CNI 6: malformed input */
	ERR_CONF,	 /* CNI 7: invalid configuration; retrying will not help */
	ERR_NETNS,	 /* CNI 8: invalid network namespace */
	ERR_AGAIN,	 /* CNI 11: try again later (busy, exhausted, conflict) */
	ERR_UNAVAILABLE, /* CNI 50: a prerequisite is missing (permission, daemon, device) */
};

enum { ERR_TEXT_MAX = 1024, ERR_DETAILS_MAX = 512 };

struct err {
	int code; /* negative errno; 0: no error */
	enum err_kind kind;
	char text[ERR_TEXT_MAX];
	char details[ERR_DETAILS_MAX]; /* CNI "details", usually empty */
};

#define ERR_INIT                                                                                   \
	{                                                                                          \
		0                                                                                  \
	}

/* err_set(), err_kind(), err_sys() and err_wrap() return `code` (made negative), so that `return
 * err_set(...)` works; e may be NULL. The first three discard the previous content of e. Arguments
 * may point into e. */
int err_set(struct err *e, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
int err_kind(struct err *e, enum err_kind kind, int code, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* Like err_set(), and appends the text of the errno `code`: ": No such file or directory
 * (ENOENT)". */
int err_sys(struct err *e, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Prefixes the text of e with "context: "; if e has no text, the text of the errno `code`
 * follows the context. Sets the code of e only if it was 0; does not change the kind. A text
 * that is too long is truncated and marked "...". */
int err_wrap(struct err *e, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void err_details(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Sets the kind of e if it is still ERR_OTHER. */
void err_default_kind(struct err *e, enum err_kind kind);
void err_clear(struct err *e);

/* Returns "No such file or directory (ENOENT)" for 2 or -2, with the text of the GNU C library;
 * "errno 4711" for an unknown number (static buffer per thread). */
const char *errno_text(int code);

#endif
