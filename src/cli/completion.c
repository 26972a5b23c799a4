/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/completion.h"
#include "cli/tools.h"

const struct cmd completion_cmds[] = {
	{NULL, "bash|zsh|fish", "completion script for a shell", NULL, 1, 1},
	{0},
};

static struct complete_place *place(struct complete *c, struct span path)
{
	struct complete_place *p;

	for (size_t i = 0; i < c->n; i++)
		if (span_eq(path, c->places[i].path))
			return &c->places[i];
	p = &VEC_PUSH(c->places, c->n);
	p->path = span_dup(path);
	return p;
}

static void offer(struct complete_place *p, struct span word, const char *help)
{
	struct complete_word *w;

	for (size_t i = 0; i < p->n_next; i++)
		if (span_eq(word, p->next[i].word))
			return;
	w = &VEC_PUSH(p->next, p->n_next);
	w->word = span_dup(word);
	w->help = help;
}

static void offer_applets(struct complete_place *p)
{
	for (const struct applet *a = applets; a->name; a++)
		if (!(a->flags & APPLET_HIDDEN))
			offer(p, span_of(a->name), a->help);
}

static enum complete_kind kind_of(const char *metavar)
{
	if (!metavar)
		return COMPLETE_NOTHING;
	if (strstr(metavar, "DIR") || strstr(metavar, "FOLDER"))
		return COMPLETE_FOLDER;
	if (strstr(metavar, "FILE") || strstr(metavar, "PATH"))
		return COMPLETE_FILE;
	return COMPLETE_NOTHING;
}

enum complete_kind complete_value(const struct opt *o)
{
	if (o->type == OPT_CHOICE)
		return COMPLETE_CHOICE;
	return o->type == OPT_STR ? kind_of(o->arg) : COMPLETE_NOTHING;
}

/* What the words for operands say: "bash|zsh|fish" or "[on|off]" are choices, APPLET is one of
 * ours. */
static void offer_operands(struct complete_place *p, const char *args)
{
	struct span rest = span_of(args), word;

	if (!args)
		return;
	p->folders = kind_of(args) == COMPLETE_FOLDER;
	p->files = kind_of(args) == COMPLETE_FILE;
	if (strstr(args, "APPLET"))
		offer_applets(p);
	if (rest.n > 2 && rest.p[0] == '[' && rest.p[rest.n - 1] == ']')
		rest = (struct span){rest.p + 1, rest.n - 2};
	if (!strpbrk(args, " ABCDEFGHIJKLMNOPQRSTUVWXYZ") && strchr(args, '|'))
		while (span_cut(&rest, '|', &word))
			offer(p, word, "");
}

/* The places on the way to a command: each offers the next word. */
static void gather_command(struct complete *c, const struct applet *a, const struct cmd *cmd)
{
	auto_free char *path = cmd->name ? xasprintf("%s %s", a->name, cmd->name)
					 : xstrdup(a->name);
	struct complete_place *p;

	for (char *space = strchr(path, ' '); space;) {
		char *end = strchr(space + 1, ' ');
		size_t n = end ? (size_t)(end - space) - 1 : strlen(space + 1);

		p = place(c, (struct span){path, (size_t)(space - path)});
		p->options = true;
		offer(p, (struct span){space + 1, n}, end ? "" : cmd->help);
		space = end;
	}
	p = place(c, span_of(path));
	p->options = true;
	p->opts = cmd->opts;
	offer_operands(p, cmd->args);
}

/* "help" takes the words of the others: "help pool" goes on as "pool" does. */
static void gather_help(struct complete *c, const char *help)
{
	size_t n = c->n;

	for (size_t i = 0; i < n; i++) {
		auto_free char *path = xasprintf("%s %s", help, c->places[i].path);
		struct complete_place *from, *to;

		if (!*c->places[i].path || !c->places[i].n_next ||
		    strncmp(c->places[i].path, help, strlen(help)) == 0)
			continue;
		to = place(c, span_of(path));
		from = &c->places[i];
		for (size_t j = 0; j < from->n_next; j++)
			offer(to, span_of(from->next[j].word), from->next[j].help);
	}
}

void complete_gather(struct complete *c)
{
	struct complete_place *top;

	*c = (struct complete){0};
	top = place(c, span_of(""));
	top->options = true;
	offer_applets(top);
	for (const struct applet *a = applets; a->name; a++) {
		if (a->flags & APPLET_HIDDEN)
			continue;
		place(c, span_of(a->name))->options = true;
		for (const struct cmd *cmd = a->cmds; cmd && (cmd->name || cmd->help); cmd++)
			gather_command(c, a, cmd);
	}
	for (const struct applet *a = applets; a->name; a++)
		if (a->cmds && a->cmds->args && strstr(a->cmds->args, "APPLET [COMMAND"))
			gather_help(c, a->name);
}

void complete_done(struct complete *c)
{
	for (size_t i = 0; i < c->n; i++) {
		struct complete_place *p = &c->places[i];

		for (size_t j = 0; j < p->n_next; j++)
			free(p->next[j].word);
		free(p->next);
		free(p->path);
	}
	free(c->places);
	*c = (struct complete){0};
}

void complete_quote(struct buf *b, const char *text)
{
	buf_char(b, '\'');
	for (; *text; text++)
		if (*text == '\'')
			buf_str(b, "'\\''");
		else
			buf_char(b, *text);
	buf_char(b, '\'');
}

void complete_choices(struct buf *b, const char *choices)
{
	for (; *choices; choices++)
		buf_char(b, *choices == '|' ? ' ' : *choices);
}

int completion_main(int argc, char **argv)
{
	struct err e = ERR_INIT;
	auto_buf struct buf b;
	struct complete c;
	const char *shell;
	int at = opt_parse(completion_cmds, "unirail completion", argc - 1, argv + 1, NULL, &e);

	buf_init(&b, HELP_MAX);
	if (at < 0)
		return opt_exit("unirail completion", at, &e);
	shell = argv[1 + at];
	complete_gather(&c);
	if (strcmp(shell, "bash") == 0)
		complete_bash(&c, &b);
	else if (strcmp(shell, "zsh") == 0)
		complete_zsh(&c, &b);
	else if (strcmp(shell, "fish") == 0)
		complete_fish(&c, &b);
	else
		at = err_set(&e, -EINVAL, "unknown shell '%s'; wants bash, zsh or fish", shell);
	complete_done(&c);
	return at < 0 ? opt_exit("unirail completion", at, &e) : help_put(&b);
}
