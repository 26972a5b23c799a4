/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Cuts s at n bytes or a little before, so that no UTF-8 sequence is split, and says so. */
static void cut(char *s, size_t n)
{
	static const char mark[] = "...";

	n -= sizeof(mark) - 1;
	while (n > 0 && ((unsigned char)s[n] & 0xc0) == 0x80)
		n--;
	memcpy(s + n, mark, sizeof(mark));
}

/* vsnprintf that cuts cleanly; returns the length of what is in `into`. */
static size_t format(char *into, size_t size, const char *fmt, va_list ap)
{
	int n = vsnprintf(into, size, fmt, ap);

	if (n < 0)
		into[0] = '\0';
	else if ((size_t)n >= size)
		cut(into, size - 1);
	return strlen(into);
}

static int negative(int code)
{
	return code > 0 ? -code : code;
}

/* All setters format into a text of their own first: arguments may point into *e. */
static void begin(struct err *e, enum err_kind kind, int code, const char *text)
{
	e->code = negative(code);
	e->kind = kind;
	e->details[0] = '\0';
	memcpy(e->text, text, strlen(text) + 1);
}

int err_set(struct err *e, int code, const char *fmt, ...)
{
	char text[ERR_TEXT_MAX];
	va_list ap;

	if (!e)
		return negative(code);
	va_start(ap, fmt);
	format(text, sizeof(text), fmt, ap);
	va_end(ap);
	begin(e, ERR_OTHER, code, text);
	return e->code;
}

int err_kind(struct err *e, enum err_kind kind, int code, const char *fmt, ...)
{
	char text[ERR_TEXT_MAX];
	va_list ap;

	if (!e)
		return negative(code);
	va_start(ap, fmt);
	format(text, sizeof(text), fmt, ap);
	va_end(ap);
	begin(e, kind, code, text);
	return e->code;
}

int err_sys(struct err *e, int code, const char *fmt, ...)
{
	const char *name = errno_text(code);
	char text[ERR_TEXT_MAX];
	va_list ap;
	size_t n;

	if (!e)
		return negative(code);
	va_start(ap, fmt);
	/* The errno is the point of the message: a long subject gives way to it. */
	n = format(text, sizeof(text) - strlen(name) - 2, fmt, ap);
	va_end(ap);
	snprintf(text + n, sizeof(text) - n, ": %s", name);
	begin(e, ERR_OTHER, code, text);
	return e->code;
}

int err_wrap(struct err *e, int code, const char *fmt, ...)
{
	char text[ERR_TEXT_MAX];
	const char *inner;
	va_list ap;
	size_t n;

	code = negative(code);
	if (!e)
		return code;
	inner = e->text[0] ? e->text : errno_text(code);
	va_start(ap, fmt);
	/* Half for the context: the innermost words say what happened. */
	n = format(text, sizeof(text) / 2, fmt, ap);
	va_end(ap);
	if ((size_t)snprintf(text + n, sizeof(text) - n, ": %s", inner) >= sizeof(text) - n)
		cut(text, sizeof(text) - 1);
	memcpy(e->text, text, strlen(text) + 1);
	if (!e->code)
		e->code = code;
	return code;
}

void err_details(struct err *e, const char *fmt, ...)
{
	char text[ERR_DETAILS_MAX];
	va_list ap;

	if (!e)
		return;
	va_start(ap, fmt);
	format(text, sizeof(text), fmt, ap);
	va_end(ap);
	memcpy(e->details, text, strlen(text) + 1);
}

void err_default_kind(struct err *e, enum err_kind kind)
{
	if (e && e->kind == ERR_OTHER)
		e->kind = kind;
}

void err_clear(struct err *e)
{
	if (!e)
		return;
	e->code = 0;
	e->kind = ERR_OTHER;
	e->text[0] = e->details[0] = '\0';
}
