/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/num.h"
#include "cli/cli.h"
#include "cli/reference.h"

const struct cmd help_cmds[] = {
	{NULL, "[APPLET [COMMAND] | TOPIC [PART]]",
	 "help on an applet, a command or a topic; only the topic settings has a PART: agent, "
	 "controller or ipam",
	 NULL, 0, -1},
	{0},
};

bool applet_has_commands(const struct applet *a)
{
	for (const struct cmd *c = a->cmds; c && (c->name || c->help); c++)
		if (c->name)
			return true;
	return false;
}

int help_unknown(const char *name, struct err *e)
{
	const char *near, *list[64];
	size_t n = 0;

	for (const struct applet *a = applets; a->name && n < ARRAY_LEN(list); a++)
		list[n++] = a->name;
	near = opt_suggest(name, list, n);
	if (near)
		return err_set(e, -ENOENT, "unknown applet '%s'; did you mean '%s'?", name, near);
	return err_set(e, -ENOENT, "unknown applet '%s'; see 'unirail --help'", name);
}

static void list_group(struct buf *b, const char *title, unsigned int mask, unsigned int want)
{
	buf_printf(b, "\n%s\n", title);
	for (const struct applet *a = applets; a->name; a++)
		if (!(a->flags & APPLET_HIDDEN) && (a->flags & mask) == want)
			opt_row(b, a->name, a->help);
}

void help_list(struct buf *b)
{
	const unsigned int mask = APPLET_CNI | APPLET_IPAM;

	buf_printf(b,
		   "unirail %s: gives Kubernetes pods their RDMA rails\n\n"
		   "usage: unirail APPLET [COMMAND] [OPTION...]\n"
		   "       APPLET [OPTION...]            (through a link of that name)\n",
		   unirail_version());
	list_group(b, "CNI plugins, which a container runtime calls:", mask, APPLET_CNI);
	list_group(b, "IPAM plugins, which CNI plugins call:", mask, mask);
	list_group(b, "tools:", mask, 0);
	buf_str(b, "\ntopics of 'unirail help':\n");
	for (const struct reference_topic *t = reference_topics; t->name; t++)
		opt_row(b, t->name, t->help);
	buf_str(b, "\nsee 'unirail help APPLET', or 'unirail APPLET --help'\n");
}

/* Writes each line of `about` as a wrapped paragraph after an empty line. */
static void help_about(const char *about, struct buf *b)
{
	struct span rest = span_of(about), line;

	while (span_cut(&rest, '\n', &line)) {
		auto_free char *text = span_dup(line);

		if (line.n) {
			buf_char(b, '\n');
			opt_wrap(b, text, 0);
		}
	}
}

const char help_plugin_text[] =
	"A container runtime (or, if this is an IPAM plugin, a CNI plugin) calls this with "
	"CNI_COMMAND and the other CNI_* variables set; it takes no arguments. The network "
	"configuration comes on standard input, the result or the error object goes to standard "
	"output. Standard error has warnings and errors; UNIRAIL_LOG in the environment sets "
	"another lowest level: debug, info, warn or error.";

static void reference_section(struct buf *b, const char *title)
{
	buf_printf(b, "\n%s:\n", title);
}

static void reference_paragraph(struct buf *b, const char *text)
{
	buf_char(b, '\n');
	opt_wrap(b, text, 0);
}

static void reference_row(struct buf *b, const char *name, const char *value, const char *help)
{
	auto_free char *left = xasprintf("%s%s%s", name, *value ? " " : "", value);

	opt_row(b, left, help);
}

static const struct reference_style terminal = {reference_section, reference_paragraph,
						reference_row};

static void help_plugin(const struct applet *a, struct buf *b)
{
	buf_printf(b, "usage: %s <NETCONF    (with CNI_COMMAND and the other CNI_* variables)\n\n",
		   a->name);
	buf_printf(b, "%s\n", a->help);
	help_about(help_plugin_text, b);
	buf_str(b, "\noptions, when CNI_COMMAND is not set:\n");
	opt_row(b, "-h, --help", "print help");
	opt_row(b, "-V, --version", "print the version");
}

void help_applet(const struct applet *a, struct buf *b)
{
	auto_free char *prog = xasprintf("unirail %s", a->name);

	if (a->flags & APPLET_CNI) {
		help_plugin(a, b);
		buf_str(b, a->cmds ? "\n" : "");
	}
	if (applet_has_commands(a))
		opt_commands(a->cmds, prog, b);
	else if (a->cmds)
		opt_help(a->cmds, prog, b);
	else if (!(a->flags & APPLET_CNI))
		buf_printf(b, "usage: %s\n\n%s\n", prog, a->help);
	if (a->about)
		help_about(a->about, b);
	reference_keys(a, &terminal, b);
}

static int help_command(const struct applet *a, int argc, char **argv, struct buf *b, struct err *e)
{
	auto_free char *prog = xasprintf("unirail %s", a->name), *full = NULL;
	const struct cmd *c;
	int used, r;

	if (!applet_has_commands(a))
		return err_set(e, -EINVAL, "applet '%s' has no commands: remove operand '%s'",
			       a->name, argv[1]);
	r = cmd_pick(prog, a->cmds, argc, argv, &c, &used, e);
	if (r < 0)
		return r;
	if (used < argc - 1)
		return err_set(e, -EINVAL, "unknown command '%s %s'", argv[0], argv[used + 1]);
	full = xasprintf("%s %s", prog, c->name);
	opt_help(c, full, b);
	return 0;
}

static int help_on(int argc, char **argv, struct buf *b, struct err *e)
{
	const struct reference_topic *topic;
	const struct applet *a;

	if (argc == 0) {
		help_list(b);
		return 0;
	}
	topic = reference_find(argv[0]);
	if (topic && argc <= 2) {
		buf_printf(b, "%s\n", topic->help);
		return reference_write(topic, argv[1], &terminal, b, e);
	}
	a = applet_find(argv[0]);
	if (!a)
		return help_unknown(argv[0], e);
	if (argc > 1)
		return help_command(a, argc, argv, b, e);
	help_applet(a, b);
	return 0;
}

int help_main(int argc, char **argv)
{
	struct err e = ERR_INIT;
	auto_buf struct buf b;
	int r, at;

	buf_init(&b, HELP_MAX);
	r = at = opt_parse(help_cmds, "unirail help", argc - 1, argv + 1, NULL, &e);
	if (r >= 0)
		r = help_on(argc - 1 - at, argv + 1 + at, &b, &e);
	return r < 0 ? opt_exit("unirail help", r, &e) : opt_print(&b);
}
