/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/completion.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/cli.h"

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
	if (strstr(metavar, "DIR"))
		return COMPLETE_DIR;
	if (strstr(metavar, "FILE") || strstr(metavar, "PATH"))
		return COMPLETE_FILE;
	return COMPLETE_NOTHING;
}

/* Kind of an option's value, from its type and the metavariable in its help (FILE, PATH, DIR). */
static enum complete_kind complete_value(const struct opt *o)
{
	if (o->type == OPT_CHOICE || o->type == OPT_BOOL)
		return COMPLETE_CHOICE;
	return o->type == OPT_STR || o->type == OPT_STRS ? kind_of(o->arg) : COMPLETE_NOTHING;
}

/* Adds the operands that a metavariable lists to the words that may follow. Metavariables:
 * "bash|zsh|fish" or "[on|off]"; APPLET stands for the names of all applets, FILE and DIR for
 * paths. */
static void offer_operands(struct complete_place *p, const char *args)
{
	struct span rest = span_of(args), word;

	if (!args)
		return;
	p->dirs = kind_of(args) == COMPLETE_DIR;
	p->files = kind_of(args) == COMPLETE_FILE;
	if (strstr(args, "APPLET"))
		offer_applets(p);
	if (rest.n > 2 && rest.p[0] == '[' && rest.p[rest.n - 1] == ']')
		rest = (struct span){rest.p + 1, rest.n - 2};
	if (!strpbrk(args, " ABCDEFGHIJKLMNOPQRSTUVWXYZ") && strchr(args, '|'))
		while (span_cut(&rest, '|', &word))
			offer(p, word, "");
}

/* Adds a position for each word of the command's path; the next word of the path may follow
 * there. */
static void add_command(struct complete *c, const struct applet *a, const struct cmd *cmd)
{
	auto_free char *path = cmd->name ? xasprintf("%s %s", a->name, cmd->name)
					 : xstrdup(a->name);
	struct complete_place *p;

	for (char *space = strchr(path, ' '); space;) {
		char *end = strchr(space + 1, ' ');
		size_t n = end ? (size_t)(end - space) - 1 : strlen(space + 1);

		p = place(c, (struct span){path, (size_t)(space - path)});
		offer(p, (struct span){space + 1, n}, end ? "" : cmd->help);
		space = end;
	}
	p = place(c, span_of(path));
	p->opts = cmd->opts;
	offer_operands(p, cmd->args);
}

/* After "help" the words of every other position may follow: after "help pool" the same words as
 * after "pool". */
static void add_help(struct complete *c, const char *help)
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

static void complete_collect(struct complete *c)
{
	struct complete_place *top;

	*c = (struct complete){0};
	top = place(c, span_of(""));
	offer_applets(top);
	for (const struct applet *a = applets; a->name; a++) {
		if (a->flags & APPLET_HIDDEN)
			continue;
		place(c, span_of(a->name));
		for (const struct cmd *cmd = a->cmds; cmd && (cmd->name || cmd->help); cmd++)
			add_command(c, a, cmd);
	}
	for (const struct applet *a = applets; a->name; a++)
		if (a->cmds && a->cmds->args && strstr(a->cmds->args, "APPLET [COMMAND"))
			add_help(c, a->name);
}

static void complete_done(struct complete *c)
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

/* Quotes 'text' as one word for any shell. */
static void complete_quote(struct buf *b, const char *text)
{
	buf_char(b, '\'');
	for (; *text; text++)
		if (*text == '\'')
			buf_str(b, "'\\''");
		else
			buf_char(b, *text);
	buf_char(b, '\'');
}

/* "a|b|c" -> "a b c" */
static void complete_choices(struct buf *b, const char *choices)
{
	for (; *choices; choices++)
		buf_char(b, *choices == '|' ? ' ' : *choices);
}

static void complete_bash(const struct complete *c, struct buf *b);

static void complete_fish(const struct complete *c, struct buf *b);

static void complete_zsh(const struct complete *c, struct buf *b);

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
	complete_collect(&c);
	if (strcmp(shell, "bash") == 0)
		complete_bash(&c, &b);
	else if (strcmp(shell, "zsh") == 0)
		complete_zsh(&c, &b);
	else if (strcmp(shell, "fish") == 0)
		complete_fish(&c, &b);
	else
		at = err_set(&e, -EINVAL, "unknown shell '%s': expected bash, zsh or fish", shell);
	complete_done(&c);
	return at < 0 ? opt_exit("unirail completion", at, &e) : opt_print(&b);
}

static void put_next(const struct complete_place *p, struct buf *b)
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
static void completion_bash_place(const struct complete_place *p, struct buf *b)
{
	buf_str(b, "\t");
	complete_quote(b, p->path);
	buf_str(b, ")\n\t\twords='");
	put_next(p, b);
	buf_str(b, "'\n\t\topts='");
	options(p, b);
	buf_str(b, "'\n");
	if (p->files || p->dirs)
		buf_printf(b, "\t\tkind='%s'\n", p->dirs ? "directory" : "file");
	buf_str(b, "\t\t;;\n");
}

/* One row of `case "$path $prev"`, for each option that takes a value. */
static void value(const struct complete_place *p, const struct opt *o, struct buf *b)
{
	static const char kinds[][10] = {"none", "choice", "file", "directory"};
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

static void complete_bash(const struct complete *c, struct buf *b)
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
		completion_bash_place(&c->places[i], b);
	buf_str(b, "\tesac\n\tcase \"$path $prev\" in\n");
	for (size_t i = 0; i < c->n; i++)
		for (const struct opt *o = c->places[i].opts; o && o->name; o++)
			value(&c->places[i], o, b);
	buf_str(b, "\t*)\n\t\t[[ $cur == -* ]] && words=$opts kind=choice\n\t\t;;\n\tesac\n"
		   "\tCOMPREPLY=()\n\tcase \"$kind\" in\n\tnone) ;;\n"
		   "\tfile | directory)\n\t\tcompopt -o filenames 2>/dev/null\n"
		   "\t\tmapfile -t COMPREPLY < <(compgen -A \"$kind\" -- \"$cur\")\n"
		   "\t\t;;\n"
		   "\t*) mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\") ;;\n"
		   "\tesac\n}\ncomplete -F _unirail unirail\n");
}

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
	} else if (k == COMPLETE_DIR) {
		buf_str(b, " -a '(__fish_complete_directories)'");
	}
	describe(o->help, b);
	buf_char(b, '\n');
}

static void completion_fish_place(const struct complete_place *p, struct buf *b)
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
	if (p->files || p->dirs) {
		start(p, b);
		buf_str(b, p->dirs ? " -a '(__fish_complete_directories)'\n" : " -F\n");
	}
}

static void complete_fish(const struct complete *c, struct buf *b)
{
	buf_str(b, "# fish completion for unirail; made by 'unirail completion fish'\n"
		   "# True when the applet and command typed so far are those of the argument.\n"
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
		completion_fish_place(&c->places[i], b);
}

/* "word:help" in quotes, the format of zsh's _describe; the first colon ends the word. */
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

static void completion_zsh_place(const struct complete_place *p, struct buf *b)
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
	if (p->files || p->dirs)
		buf_printf(b, "\t\tkind=%s\n", p->dirs ? "directory" : "file");
	buf_str(b, "\t\t;;\n");
}

static void completion_zsh_value(const struct complete_place *p, const struct opt *o, struct buf *b)
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

static void complete_zsh(const struct complete *c, struct buf *b)
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
		completion_zsh_place(&c->places[i], b);
	buf_str(b, "\tesac\n\tcase \"$path_ $prev\" in\n");
	for (size_t i = 0; i < c->n; i++)
		for (const struct opt *o = c->places[i].opts; o && o->name; o++)
			completion_zsh_value(&c->places[i], o, b);
	buf_str(b, "\tesac\n\tif [[ $cur == -* ]]; then\n\t\t_describe -o option opts_\n"
		   "\telif [[ $kind == directory ]]; then\n\t\t_files -/\n"
		   "\telif [[ $kind == file ]]; then\n\t\t_files\n"
		   "\telif (( ${#words_} )); then\n\t\t_describe word words_\n\tfi\n}\n"
		   "if [[ ${funcstack[1]} == _unirail ]]; then\n\t_unirail \"$@\"\n"
		   "else\n\tcompdef _unirail unirail\nfi\n");
}
