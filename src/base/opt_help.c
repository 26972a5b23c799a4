/* SPDX-License-Identifier: Apache-2.0 */
/* --help of one command, or of the commands of an applet. */
#include <stdio.h>
#include <string.h>

#include "base/opt.h"

enum { COLUMN = 30, WIDTH = 80 };

void opt_wrap(struct buf *b, const char *text, size_t at)
{
	struct span rest = span_of(text), word;
	size_t col = at;

	while (span_cut(&rest, ' ', &word)) {
		if (col > at && col + 1 + word.n > WIDTH) {
			buf_printf(b, "\n%*s", (int)at, "");
			col = at;
		}
		if (col > at) {
			buf_char(b, ' ');
			col++;
		}
		buf_add(b, word.p, word.n);
		col += word.n;
	}
	buf_char(b, '\n');
}

void opt_row(struct buf *b, const char *left, const char *help)
{
	int n = (int)strlen(left);

	if (n + 4 > COLUMN)
		buf_printf(b, "  %s\n%*s", left, COLUMN, "");
	else
		buf_printf(b, "  %-*s", COLUMN - 2, left);
	opt_wrap(b, help ? help : "", COLUMN);
}

void opt_left(const struct opt *o, char *ret, size_t size)
{
	char letter[8] = "    ";

	if (o->letter)
		snprintf(letter, sizeof(letter), "-%c, ", o->letter);
	snprintf(ret, size, "%s--%s%s%s", letter, o->name, o->type == OPT_FLAG ? "" : " ",
		 o->type == OPT_FLAG ? ""
		 : o->arg	     ? o->arg
				     : "VALUE");
}

void opt_usage(const struct cmd *c, const char *prog, struct buf *b)
{
	buf_str(b, prog);
	if (c->opts && c->opts->name)
		buf_str(b, " [OPTION...]");
	if (c->args)
		buf_printf(b, " %s", c->args);
}

void opt_help(const struct cmd *c, const char *prog, struct buf *b)
{
	char left[160];

	buf_str(b, "usage: ");
	opt_usage(c, prog, b);
	buf_char(b, '\n');
	if (c->help)
		buf_printf(b, "\n%s\n", c->help);
	buf_str(b, "\noptions:\n");
	for (const struct opt *o = c->opts; o && o->name; o++) {
		opt_left(o, left, sizeof(left));
		opt_row(b, left, o->help);
	}
	opt_row(b, "-h, --help", "print this");
}

void opt_commands(const struct cmd *cmds, const char *prog, struct buf *b)
{
	char left[160];

	buf_printf(b, "usage: %s COMMAND [OPTION...]\n\ncommands:\n", prog);
	for (const struct cmd *c = cmds; c->name || c->help; c++) {
		if (!c->name)
			continue;
		snprintf(left, sizeof(left), "%s%s%s", c->name, c->args ? " " : "",
			 c->args ? c->args : "");
		opt_row(b, left, c->help);
	}
	buf_printf(b, "\nsee '%s COMMAND --help' for the options of one\n", prog);
}
