/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/completion.h"

static void words(const struct complete_place *p, struct buf *b)
{
	for (size_t i = 0; i < p->n_next; i++)
		buf_printf(b, "%s%s", i ? " " : "", p->next[i].word);
}

static void options(const struct complete_place *p, struct buf *b)
{
	for (const struct opt *o = p->opts; o && o->name; o++) {
		if (o->letter)
			buf_printf(b, "-%c ", o->letter);
		buf_printf(b, "--%s ", o->name);
	}
	buf_str(b, "-h --help");
}

/* One row of `case "$path"`. */
static void place(const struct complete_place *p, struct buf *b)
{
	buf_str(b, "\t");
	complete_quote(b, p->path);
	buf_str(b, ")\n\t\twords='");
	words(p, b);
	buf_str(b, "'\n\t\topts='");
	options(p, b);
	buf_str(b, "'\n");
	if (p->files || p->folders)
		buf_printf(b, "\t\tkind='%s'\n", p->folders ? "folder" : "file");
	buf_str(b, "\t\t;;\n");
}

/* One row of `case "$path $prev"`, for each option that takes a value. */
static void value(const struct complete_place *p, const struct opt *o, struct buf *b)
{
	static const char kinds[][8] = {"none", "choice", "file", "folder"};
	enum complete_kind k = complete_value(o);

	if (o->type == OPT_FLAG)
		return;
	buf_printf(b, "\t'%s --%s'", p->path, o->name);
	if (o->letter)
		buf_printf(b, " | '%s -%c'", p->path, o->letter);
	buf_printf(b, ")\n\t\tkind='%s'", kinds[k]);
	if (k == COMPLETE_CHOICE) {
		buf_str(b, " words='");
		complete_choices(b, o->arg);
		buf_char(b, '\'');
	}
	buf_str(b, "\n\t\t;;\n");
}

static void known(const struct complete *c, struct buf *b)
{
	buf_str(b, "\t\tcase \"${path:+$path }$word\" in\n\t\t");
	for (size_t i = 0; i < c->n; i++)
		if (*c->places[i].path) {
			complete_quote(b, c->places[i].path);
			buf_str(b, i + 1 < c->n ? " | \\\n\t\t\t" : "");
		}
	buf_str(b, ") path=\"${path:+$path }$word\" ;;\n\t\tesac\n");
}

void complete_bash(const struct complete *c, struct buf *b)
{
	buf_str(b, "# bash completion for unirail; made by 'unirail completion bash'\n"
		   "_unirail()\n{\n"
		   "\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
		   "\tlocal path='' words='' opts='' kind='' word='' i\n"
		   "\t# \"--name=value\" comes as three words.\n"
		   "\tif [ \"$cur\" = = ]; then\n\t\tcur=\n"
		   "\telif [ \"$prev\" = = ]; then\n\t\tprev=${COMP_WORDS[COMP_CWORD-2]}\n\tfi\n"
		   "\tfor ((i = 1; i < COMP_CWORD; i++)); do\n\t\tword=${COMP_WORDS[i]}\n");
	known(c, b);
	buf_str(b, "\tdone\n\tcase \"$path\" in\n");
	for (size_t i = 0; i < c->n; i++)
		place(&c->places[i], b);
	buf_str(b, "\tesac\n\tcase \"$path $prev\" in\n");
	for (size_t i = 0; i < c->n; i++)
		for (const struct opt *o = c->places[i].opts; o && o->name; o++)
			value(&c->places[i], o, b);
	buf_str(b,
		"\t*)\n\t\t[[ $cur == -* ]] && words=$opts kind=choice\n\t\t;;\n\tesac\n"
		"\tCOMPREPLY=()\n\tcase \"$kind\" in\n\tnone) ;;\n"
		"\tfile | folder)\n\t\tcompopt -o filenames 2>/dev/null\n"
		"\t\tmapfile -t COMPREPLY < <(compgen -A \"${kind/folder/directory}\" -- \"$cur\")\n"
		"\t\t;;\n"
		"\t*) mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\") ;;\n"
		"\tesac\n}\ncomplete -F _unirail unirail\n");
}
