/* SPDX-License-Identifier: Apache-2.0 */
/* The text, character by character and line by line. */
#include <errno.h>
#include <stdio.h>

#include "wire/yaml/yaml_priv.h"

int yaml_fail(struct yaml *y, const char *fmt, ...)
{
	char text[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return err_kind(y->e, ERR_DECODE, -EINVAL, "%u:%d: %s", y->line, yaml_column(y) + 1, text);
}

char yaml_peek(const struct yaml *y, size_t n)
{
	if ((size_t)(y->end - y->p) <= n)
		return '\0';
	if (y->p[n] == '\r' && (size_t)(y->end - y->p) > n + 1 && y->p[n + 1] == '\n')
		return '\n';
	return y->p[n];
}

int yaml_column(const struct yaml *y)
{
	return (int)(y->p - y->line_start);
}

void yaml_newline(struct yaml *y)
{
	y->p += *y->p == '\r' ? 2 : 1;
	y->line++;
	y->line_start = y->p;
}

bool yaml_is_blank(char c)
{
	return c == ' ' || c == '\t';
}

bool yaml_is_break(char c)
{
	return yaml_is_blank(c) || c == '\n' || c == '\0';
}

bool yaml_at_end(const struct yaml *y)
{
	return y->p == y->end;
}

int yaml_skip(struct yaml *y)
{
	for (;;) {
		bool indenting = y->p == y->line_start;

		while (yaml_is_blank(yaml_peek(y, 0))) {
			if (indenting && !y->flow && *y->p == '\t')
				return yaml_fail(y, "a tab cannot indent: use blanks");
			y->p++;
		}
		if (yaml_peek(y, 0) == '#' && (y->p == y->line_start || yaml_is_blank(y->p[-1])))
			while (!yaml_at_end(y) && yaml_peek(y, 0) != '\n')
				y->p++;
		if (yaml_peek(y, 0) != '\n' || yaml_at_end(y))
			return 0;
		yaml_newline(y);
	}
}

int yaml_end_of_line(struct yaml *y)
{
	unsigned int line = y->line;
	int r = yaml_skip(y);

	if (r < 0 || y->flow || yaml_at_end(y) || y->line != line)
		return r;
	return yaml_fail(y, "'%c' is not expected here", *y->p);
}
