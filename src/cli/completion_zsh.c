/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/completion.h"

/* "word:help" in quotes, as _describe wants it; a colon ends the word. */
static void described(struct buf *b, const char *prefix, const char *word, const char *help)
{
	struct buf text;

	buf_init(&text, 1024);
	buf_str(&text, prefix);
	for (; *word; word++) {
		if (*word == ':')
			buf_char(&text, '\\');
		buf_char(&text, *word);
	}
	if (help && *help)
		buf_printf(&text, ":%s", help);
	buf_char(b, ' ');
	complete_quote(b, buf_span(&text).p);
	buf_done(&text);
}

static void place(const struct complete_place *p, struct buf *b)
{
	buf_str(b, "\t");
	complete_quote(b, p->path);
	buf_str(b, ")\n\t\twords_=(");
	for (size_t i = 0; i < p->n_next; i++)
		described(b, "", p->next[i].word, p->next[i].help);
	buf_str(b, " )\n\t\topts_=(");
	for (const struct opt *o = p->opts; o && o->name; o++) {
		if (o->letter)
			described(b, "-", (const char[]){o->letter, '\0'}, o->help);
		described(b, "--", o->name, o->help);
	}
	buf_str(b, " '--help:print help' )\n");
	if (p->files || p->folders)
		buf_printf(b, "\t\tkind=%s\n", p->folders ? "folder" : "file");
	buf_str(b, "\t\t;;\n");
}

static void value(const struct complete_place *p, const struct opt *o, struct buf *b)
{
	static const char actions[][16] = {"", "compadd", "_files", "_files -/"};
	enum complete_kind k = complete_value(o);

	if (o->type == OPT_FLAG)
		return;
	buf_printf(b, "\t'%s --%s'", p->path, o->name);
	if (o->letter)
		buf_printf(b, "|'%s -%c'", p->path, o->letter);
	if (k == COMPLETE_NOTHING) {
		buf_str(b, ")\n\t\t_message ");
		complete_quote(b, o->help ? o->help : o->name);
	} else {
		buf_printf(b, ")\n\t\t%s", actions[k]);
	}
	if (k == COMPLETE_CHOICE) {
		buf_str(b, " -- ");
		complete_choices(b, o->arg);
	}
	buf_str(b, "\n\t\treturn ;;\n");
}

void complete_zsh(const struct complete *c, struct buf *b)
{
	buf_str(b, "#compdef unirail\n# made by 'unirail completion zsh'\n_unirail()\n{\n"
		   "\tlocal cur=${words[CURRENT]} prev=${words[CURRENT-1]} path_= kind= word\n"
		   "\tlocal -a words_ opts_\n"
		   "\tif [[ $cur == --*=* ]]; then\n"
		   "\t\tprev=${cur%%=*}\n\t\tcompset -P '*='\n\tfi\n"
		   "\tfor word in ${words[2,CURRENT-1]}; do\n"
		   "\t\tcase \"${path_:+$path_ }$word\" in\n\t\t");
	for (size_t i = 1; i < c->n; i++) {
		complete_quote(b, c->places[i].path);
		buf_str(b, i + 1 < c->n ? "|\\\n\t\t\t" : "");
	}
	buf_str(b, ") path_=\"${path_:+$path_ }$word\" ;;\n\t\tesac\n\tdone\n"
		   "\tcase \"$path_\" in\n");
	for (size_t i = 0; i < c->n; i++)
		place(&c->places[i], b);
	buf_str(b, "\tesac\n\tcase \"$path_ $prev\" in\n");
	for (size_t i = 0; i < c->n; i++)
		for (const struct opt *o = c->places[i].opts; o && o->name; o++)
			value(&c->places[i], o, b);
	buf_str(b, "\tesac\n\tif [[ $cur == -* ]]; then\n\t\t_describe -o option opts_\n"
		   "\telif [[ $kind == folder ]]; then\n\t\t_files -/\n"
		   "\telif [[ $kind == file ]]; then\n\t\t_files\n"
		   "\telif (( ${#words_} )); then\n\t\t_describe word words_\n\tfi\n}\n"
		   "if [[ ${funcstack[1]} == _unirail ]]; then\n\t_unirail \"$@\"\n"
		   "else\n\tcompdef _unirail unirail\nfi\n");
}
