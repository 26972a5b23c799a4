/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/completion.h"

static void start(const struct complete_place *p, struct buf *b)
{
	buf_str(b, "complete -c unirail -n '__unirail_at \"");
	buf_str(b, p->path);
	buf_str(b, "\"'");
}

static void describe(const char *help, struct buf *b)
{
	if (!help || !*help)
		return;
	buf_str(b, " -d \"");
	for (; *help; help++) {
		if (*help == '"' || *help == '\\' || *help == '$')
			buf_char(b, '\\');
		buf_char(b, *help);
	}
	buf_char(b, '"');
}

static void option(const struct complete_place *p, const struct opt *o, struct buf *b)
{
	enum complete_kind k = complete_value(o);

	start(p, b);
	if (o->letter)
		buf_printf(b, " -s %c", o->letter);
	buf_printf(b, " -l %s", o->name);
	if (o->type != OPT_FLAG)
		buf_str(b, k == COMPLETE_FILE ? " -rF" : " -x");
	if (k == COMPLETE_CHOICE) {
		buf_str(b, " -a '");
		complete_choices(b, o->arg);
		buf_char(b, '\'');
	} else if (k == COMPLETE_FOLDER) {
		buf_str(b, " -a '(__fish_complete_directories)'");
	}
	describe(o->help, b);
	buf_char(b, '\n');
}

static void place(const struct complete_place *p, struct buf *b)
{
	for (size_t i = 0; i < p->n_next; i++) {
		start(p, b);
		buf_printf(b, " -a %s", p->next[i].word);
		describe(p->next[i].help, b);
		buf_char(b, '\n');
	}
	for (const struct opt *o = p->opts; o && o->name; o++)
		option(p, o, b);
	start(p, b);
	buf_str(b, " -s h -l help -d 'print help'\n");
	if (p->files || p->folders) {
		start(p, b);
		buf_str(b, p->folders ? " -a '(__fish_complete_directories)'\n" : " -F\n");
	}
}

void complete_fish(const struct complete *c, struct buf *b)
{
	buf_str(b, "# fish completion for unirail; made by 'unirail completion fish'\n"
		   "# True when the words typed so far lead to this place.\n"
		   "function __unirail_at\n\tset -l places");
	for (size_t i = 1; i < c->n; i++) {
		buf_char(b, ' ');
		complete_quote(b, c->places[i].path);
	}
	buf_str(b, "\n\tset -l at ''\n"
		   "\tfor word in (commandline -opc)[2..-1]\n"
		   "\t\tset -l next (string trim -- \"$at $word\")\n"
		   "\t\tcontains -- $next $places; and set at $next\n"
		   "\tend\n\ttest \"$at\" = \"$argv[1]\"\nend\n"
		   "complete -c unirail -f\n");
	for (size_t i = 0; i < c->n; i++)
		place(&c->places[i], b);
}
