/* SPDX-License-Identifier: Apache-2.0 */
/* What a hook puts down; how it is told is in review_text.c. */
#include "controller/webhook/review.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "controller/webhook/review_priv.h"

void review_allow(struct review_answer *a)
{
	*a = (struct review_answer){0};
}

void review_drop(struct review_answer *a)
{
	for (size_t i = 0; i < a->n_causes; i++) {
		free(a->causes[i].field);
		free(a->causes[i].text);
	}
	for (size_t i = 0; i < a->n_warnings; i++)
		free(a->warnings[i]);
	free(a->causes);
	free(a->warnings);
	free(a->text);
	free(a->patch);
	review_allow(a);
}

/* What one line holds of an object's words. */
static char *one_line(const char *fmt, va_list ap, size_t max)
{
	struct buf b;

	buf_init(&b, max * 4);
	buf_vprintf(&b, fmt, ap);
	if (b.len > max) {
		/* Not in the middle of a character. */
		for (b.len = max; b.len > 0 && ((unsigned char)b.p[b.len] & 0xc0) == 0x80;)
			b.len--;
		b.p[b.len] = '\0';
		b.over = false;
		buf_str(&b, "...");
	}
	for (size_t i = 0; i < b.len; i++)
		if ((unsigned char)b.p[i] < ' ')
			b.p[i] = ' ';
	return buf_take(&b);
}

void review_refuse(struct review_answer *a, int code, const char *fmt, ...)
{
	va_list ap;

	if (a->text)
		return;
	va_start(ap, fmt);
	a->text = one_line(fmt, ap, REVIEW_TEXT_MAX);
	va_end(ap);
	a->code = code;
}

static char *line(size_t max, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static char *line(size_t max, const char *fmt, ...)
{
	va_list ap;
	char *text;

	va_start(ap, fmt);
	text = one_line(fmt, ap, max);
	va_end(ap);
	return text;
}

void review_cause(struct review_answer *a, enum review_fault fault, const char *field,
		  const char *text)
{
	struct review_cause *c;

	if (!a->code)
		a->code = 422;
	if (a->n_causes == REVIEW_CAUSES_MAX)
		return;
	c = &VEC_PUSH(a->causes, a->n_causes);
	*c = (struct review_cause){.fault = fault,
				   .field = line(REVIEW_TEXT_MAX, "%s", field),
				   .text = line(REVIEW_TEXT_MAX, "%s", text)};
}

void review_warn(struct review_answer *a, const char *fmt, ...)
{
	char **w;
	va_list ap;

	if (a->n_warnings == REVIEW_WARNINGS_MAX)
		return;
	w = &VEC_PUSH(a->warnings, a->n_warnings);
	va_start(ap, fmt);
	*w = one_line(fmt, ap, REVIEW_WARNING_MAX);
	va_end(ap);
}

void review_patch(struct review_answer *a, struct span patch)
{
	free(a->patch);
	a->patch = patch.n == 0 || span_eq(patch, "[]") ? NULL : span_dup(patch);
}
