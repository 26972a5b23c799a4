/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Man pages, generated from the applet table. They have no date: two builds generate the same
 * bytes.
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "cli/cli.h"
#include "cli/reference.h"

struct man_opts {
	const char *all;
};

static const struct opt opts[] = {
	{"all", 0, OPT_STR, "DIR", "directory to write every man page into",
	 offsetof(struct man_opts, all), 0, 0},
	{0},
};

const struct cmd man_cmds[] = {
	{NULL, "[APPLET | TOPIC]", "man pages, made from the same tables as --help", opts, 0, 1},
	{0},
};

/*
 * Escapes text so that roff prints it literally, not as a request, an escape or typographic quotes
 * and hyphens.
 */
static void roff(struct buf *b, const char *s)
{
	static const struct {
		char c, text[5];
	} special[] = {{'\\', "\\e"},  {'-', "\\-"},   {'\'', "\\(aq"},
		       {'`', "\\(ga"}, {'^', "\\(ha"}, {'~', "\\(ti"}};
	size_t i;

	if (*s == '.')
		buf_str(b, "\\&");
	for (; *s; s++) {
		for (i = 0; i < ARRAY_LEN(special) && special[i].c != *s; i++)
			;
		if (i < ARRAY_LEN(special))
			buf_str(b, special[i].text);
		else
			buf_char(b, *s);
	}
}

static void roff_line(struct buf *b, const char *before, const char *s, const char *after)
{
	buf_str(b, before);
	roff(b, s);
	buf_str(b, after);
}

/* Returns the name of the page, such as "unirail-pool": the applet's name with the prefix
 * "unirail-", unless it already begins with this prefix. */
static char *page_name(const struct applet *a)
{
	if (strncmp(a->name, "unirail-", strlen("unirail-")) == 0)
		return xstrdup(a->name);
	return xasprintf("unirail-%s", a->name);
}

static void head(struct buf *b, const char *page, const char *help)
{
	buf_str(b, ".\\\" made by 'unirail man'\n.TH \"");
	for (const char *p = page; *p; p++)
		buf_char(b, *p >= 'a' && *p <= 'z' ? (char)(*p - 'a' + 'A') : *p);
	roff_line(b, "\" 1 \"\" \"unirail ", unirail_version(), "\" \"unirail\"\n");
	roff_line(b, ".SH NAME\n", page, " \\- ");
	roff_line(b, "", help, "\n");
}

static void paragraphs(struct buf *b, const char *text)
{
	struct span rest = span_of(text), line;

	while (span_cut(&rest, '\n', &line)) {
		auto_free char *s = span_dup(line);

		if (line.n)
			roff_line(b, ".PP\n", s, "\n");
	}
}

static void option(struct buf *b, const struct opt *o)
{
	buf_str(b, ".TP\n");
	if (o->letter)
		buf_printf(b, "\\fB\\-%c\\fR, ", o->letter);
	roff_line(b, "\\fB\\-\\-", o->name, "\\fR");
	if (o->type != OPT_FLAG)
		roff_line(b, " \\fI", o->arg ? o->arg : "VALUE", "\\fR");
	roff_line(b, "\n", o->help ? o->help : "", "\n");
}

static void options(struct buf *b, const struct cmd *c)
{
	for (const struct opt *o = c->opts; o && o->name; o++)
		option(b, o);
	buf_str(b, ".TP\n\\fB\\-h\\fR, \\fB\\-\\-help\\fR\nPrint help.\n");
}

static void usage(struct buf *b, const struct applet *a, const struct cmd *c)
{
	auto_free char *prog = c->name ? xasprintf("unirail %s %s", a->name, c->name)
				       : xasprintf("unirail %s", a->name);
	auto_buf struct buf line;

	buf_init(&line, 1024);
	opt_usage(c, prog, &line);
	roff_line(b, "", buf_span(&line).p, "\n");
}

static void commands(struct buf *b, const struct applet *a)
{
	buf_str(b, applet_has_commands(a) ? ".SH COMMANDS\n" : ".SH OPTIONS\n");
	for (const struct cmd *c = a->cmds; c && (c->name || c->help); c++) {
		if (c->name) {
			roff_line(b, ".SS ", c->name, "\n");
			roff_line(b, "", c->help, "\n");
		}
		options(b, c);
	}
}

static void section(struct buf *b, const char *title)
{
	buf_str(b, ".SH ");
	for (; *title; title++)
		buf_char(b, *title >= 'a' && *title <= 'z' ? (char)(*title - 'a' + 'A') : *title);
	buf_char(b, '\n');
}

static void row(struct buf *b, const char *name, const char *value, const char *help)
{
	roff_line(b, ".TP\n\\fB", name, "\\fR ");
	roff_line(b, "\\fI", value, "\\fR\n");
	roff_line(b, "", help, "\n");
}

static const struct reference_style pages = {section, paragraphs, row};

static void tool_page(struct buf *b, const struct applet *a)
{
	buf_str(b, ".SH SYNOPSIS\n.nf\n");
	for (const struct cmd *c = a->cmds; c && (c->name || c->help); c++)
		usage(b, a, c);
	buf_str(b, ".fi\n");
	if (a->about) {
		buf_str(b, ".SH DESCRIPTION\n");
		paragraphs(b, a->about);
	}
	commands(b, a);
	buf_str(b, ".SH EXIT STATUS\n0 success, 1 failure, 2 usage error");
	if (strcmp(a->name, "host") == 0 || strcmp(a->name, "migrate") == 0)
		buf_str(b, ", 3 a plan has steps, or steps of 'unirail host' were blocked");
	buf_str(b, ".\n");
}

static void plugin_page(struct buf *b, const struct applet *a)
{
	roff_line(b, ".SH SYNOPSIS\n.B ", a->name, "\n<\\fInetconf\\fR\n.SH DESCRIPTION\n");
	paragraphs(b, help_plugin_text);
	if (a->about)
		paragraphs(b, a->about);
	buf_str(b, ".SH OPTIONS\nWhen CNI_COMMAND is not set:\n"
		   ".TP\n\\fB\\-h\\fR, \\fB\\-\\-help\\fR\nPrint help.\n"
		   ".TP\n\\fB\\-V\\fR, \\fB\\-\\-version\\fR\nPrint the version.\n");
	if (a->cmds)
		commands(b, a);
}

static void applet_page(struct buf *b, const struct applet *a)
{
	auto_free char *page = page_name(a);

	head(b, page, a->help);
	if (a->flags & APPLET_CNI)
		plugin_page(b, a);
	else
		tool_page(b, a);
	reference_keys(a, &pages, b);
	buf_str(b, ".SH SEE ALSO\n.BR unirail (1)\n");
}

static int topic_page(struct buf *b, const struct reference_topic *t, const char *part,
		      struct err *e)
{
	auto_free char *page = xasprintf("unirail-%s", t->name);
	int r;

	head(b, page, t->help);
	buf_str(b, ".SH DESCRIPTION\n");
	r = reference_write(t, part, &pages, b, e);
	buf_str(b, ".SH SEE ALSO\n.BR unirail (1)\n");
	return r;
}

static void main_page(struct buf *b)
{
	head(b, "unirail", "gives Kubernetes pods their RDMA rails");
	buf_str(b, ".SH SYNOPSIS\n.B unirail\n\\fIAPPLET\\fR [\\fICOMMAND\\fR] "
		   "[\\fIOPTION\\fR...]\n");
	buf_str(b, ".SH DESCRIPTION\nOne program with many applets: the first operand, or the "
		   "name of the link through which the program is called, selects the applet. "
		   "An unknown applet ends the program with status 127; without an operand it "
		   "prints the list of applets and exits with status 2.\n.SH APPLETS\n");
	for (const struct applet *a = applets; a->name; a++) {
		auto_free char *page = page_name(a);

		if (a->flags & APPLET_HIDDEN)
			continue;
		roff_line(b, ".TP\n.BR ", page, " (1)\n");
		roff_line(b, "", a->help, "\n");
	}
	buf_str(b, ".SH TOPICS\n");
	for (const struct reference_topic *t = reference_topics; t->name; t++) {
		roff_line(b, ".TP\n.BR unirail\\-", t->name, " (1)\n");
		roff_line(b, "", t->help, "\n");
	}
}

static int write_page(const struct root *r, const char *dir, const char *page, struct buf *b,
		      struct err *e)
{
	auto_free char *path = xasprintf("%s/%s.1", dir, page);
	int n = file_replace(r, path, buf_span(b), 0644, e);

	buf_reset(b);
	return n;
}

static int write_all(const char *dir, struct buf *b, struct err *e)
{
	struct root r;
	int n = root_open(&r, NULL, e);

	if (n < 0)
		return n;
	n = dir_make(&r, dir, 0755, e);
	if (n == 0) {
		main_page(b);
		n = write_page(&r, dir, "unirail", b, e);
	}
	for (const struct applet *a = applets; n == 0 && a->name; a++) {
		auto_free char *page = page_name(a);

		applet_page(b, a);
		n = write_page(&r, dir, page, b, e);
	}
	for (const struct reference_topic *t = reference_topics; n == 0 && t->name; t++) {
		auto_free char *page = xasprintf("unirail-%s", t->name);

		n = topic_page(b, t, NULL, e);
		if (n == 0)
			n = write_page(&r, dir, page, b, e);
	}
	root_close(&r);
	return n;
}

/* Makes the path absolute, as write_all() requires; `make install` may give a relative one. */
static int write_all_in(const char *dir, struct buf *b, struct err *e)
{
	auto_free char *here = NULL, *full = NULL;

	if (dir[0] == '/')
		return write_all(dir, b, e);
	here = getcwd(NULL, 0);
	if (!here)
		return err_sys(e, -errno, "find the current directory");
	full = xasprintf("%s/%s", here, dir);
	return write_all(full, b, e);
}

int man_main(int argc, char **argv)
{
	const struct reference_topic *topic = NULL;
	const struct applet *a = NULL;
	struct man_opts o = {0};
	struct err e = ERR_INIT;
	auto_buf struct buf b;
	int at = opt_parse(man_cmds, "unirail man", argc - 1, argv + 1, &o, &e);
	const char *name;

	buf_init(&b, HELP_MAX);
	if (at < 0)
		return opt_exit("unirail man", at, &e);
	name = argv[1 + at];
	if (name && strcmp(name, "unirail") != 0) {
		topic = reference_find(name);
		a = applet_find(name);
		if (!a && !topic)
			return opt_exit("unirail man", help_unknown(name, &e), &e);
	}
	if (o.all) {
		if (name) {
			err_set(&e, -EINVAL,
				"unexpected operand '%s': --all writes every "
				"page",
				name);
			return opt_exit("unirail man", -EINVAL, &e);
		}
		if (write_all_in(o.all, &b, &e) == 0)
			return 0;
		fprintf(stderr, "unirail man: %s\n", e.text);
		return 1;
	}
	if (a)
		applet_page(&b, a);
	else if (topic)
		topic_page(&b, topic, NULL, NULL);
	else
		main_page(&b);
	return opt_print(&b);
}
