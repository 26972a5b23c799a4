/* SPDX-License-Identifier: Apache-2.0 */
#include "base/table.h"
#include "base/alloc.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_MAX = 64 << 20 };

void columns_init(struct columns *c, unsigned int n, const char *indent)
{
	assert(n <= COLUMNS_MAX);
	*c = (struct columns){.n = n, .indent = indent};
}

void columns_done(struct columns *c)
{
	for (size_t i = 0; i < c->n_cells; i++)
		free(c->cells[i]);
	free(c->cells);
	c->cells = NULL;
	c->n_cells = 0;
}

void columns_add(struct columns *c, const char *s)
{
	VEC_PUSH(c->cells, c->n_cells) = xstrdup(s && *s ? s : "-");
}

void columns_addf(struct columns *c, const char *fmt, ...)
{
	auto_free char *text = NULL;
	va_list ap;

	va_start(ap, fmt);
	text = xvasprintf(fmt, ap);
	va_end(ap);
	columns_add(c, text);
}

static void widths(const struct columns *c, int *w)
{
	for (size_t i = 0; i < c->n_cells; i++) {
		int n = (int)strlen(c->cells[i]);

		if (n > w[i % c->n])
			w[i % c->n] = n;
	}
}

void columns_put(const struct columns *c, struct buf *b)
{
	int w[COLUMNS_MAX] = {0};

	widths(c, w);
	for (size_t i = 0; i < c->n_cells; i++) {
		unsigned int col = (unsigned int)(i % c->n);

		if (col == 0)
			buf_str(b, c->indent);
		if (col + 1 == c->n)
			buf_printf(b, "%s\n", c->cells[i]);
		else
			buf_printf(b, "%-*s  ", w[col], c->cells[i]);
	}
}

void columns_print(const struct columns *c, FILE *f)
{
	struct buf b;

	buf_init(&b, TEXT_MAX);
	columns_put(c, &b);
	if (b.len)
		fwrite(b.p, 1, b.len, f);
	buf_done(&b);
}
