/* SPDX-License-Identifier: Apache-2.0 */
/* Scalars of whole lines: | and >. */
#include "wire/yaml/yaml_priv.h"

struct block {
	char style, chomp; /* chomp: '-', '+' or 0 */
	int indent;	   /* of its lines; 0: as the first one's */
};

static int block_header(struct yaml *y, int indent, struct block *b)
{
	*b = (struct block){.style = *y->p++};
	for (char c = yaml_peek(y, 0); !yaml_is_break(c); c = yaml_peek(y, 0)) {
		if ((c == '-' || c == '+') && !b->chomp)
			b->chomp = c;
		else if (c >= '1' && c <= '9' && !b->indent)
			b->indent = (indent < 0 ? 0 : indent) + c - '0';
		else
			return yaml_fail(y, "'%c' is not known after '%c'", c, b->style);
		y->p++;
	}
	while (yaml_is_blank(yaml_peek(y, 0)))
		y->p++;
	if (yaml_peek(y, 0) == '#')
		while (yaml_peek(y, 0) != '\n' && y->p < y->end)
			y->p++;
	if (yaml_peek(y, 0) != '\n' && y->p < y->end)
		return yaml_fail(y, "the lines of '%c' begin below it", b->style);
	return 0;
}

static int blanks_ahead(const struct yaml *y)
{
	int n = 0;

	while (yaml_peek(y, (size_t)n) == ' ')
		n++;
	return n;
}

/* What stands between two lines of a > block: `breaks` line ends. */
static void join(struct yaml *y, const struct block *b, unsigned int breaks, bool deeper)
{
	bool folds = b->style == '>' && !deeper;

	if (folds && breaks == 1)
		buf_char(&y->text, ' ');
	for (unsigned int i = folds ? 1 : 0; i < breaks; i++)
		buf_char(&y->text, '\n');
}

int yaml_block(struct yaml *y, int indent)
{
	struct block b;
	unsigned int breaks = 0; /* since the last line that holds something */
	bool first = true, deeper = false;
	int r = block_header(y, indent, &b);

	buf_reset(&y->text);
	while (r == 0 && y->p < y->end) {
		int n;
		bool deep;

		yaml_newline(y);
		n = blanks_ahead(y);
		if (y->p + n == y->end)
			break;
		if (yaml_peek(y, (size_t)n) == '\n' && (!b.indent || n <= b.indent)) {
			y->p += n;
			breaks++;
			continue;
		}
		if (n <= indent || (b.indent && n < b.indent))
			break;
		if (!b.indent)
			b.indent = n;
		deep = n > b.indent || yaml_peek(y, (size_t)b.indent) == '\t';
		if (first)
			for (; breaks > 0; breaks--)
				buf_char(&y->text, '\n');
		else
			join(y, &b, breaks + 1, deep || deeper);
		breaks = 0;
		first = false;
		deeper = deep;
		for (y->p += b.indent; y->p < y->end && yaml_peek(y, 0) != '\n'; y->p++)
			buf_char(&y->text, *y->p);
	}
	/* Without a line's end at the end of the text there is none to keep. */
	if (!first && b.chomp != '-' && (y->p < y->end || y->p[-1] == '\n' || breaks))
		buf_char(&y->text, '\n');
	for (; b.chomp == '+' && breaks > 0; breaks--)
		buf_char(&y->text, '\n');
	return r;
}
