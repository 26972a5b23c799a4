/* SPDX-License-Identifier: Apache-2.0 */
/* Help, man pages and completion agree, since one table generates all three. */
#include "testlib.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "cli/completion.h"
#include "cli/cli.h"

static const struct opt list_opts[] = {
	{"output", 'o', OPT_CHOICE, "text|json", "the output format", 0, 0, 0},
	{"dir", 0, OPT_STR, "DIR", "a \\folder, it's \"here\": $x `y`", 0, 0, 0},
	{"count", 'n', OPT_INT, "N", ".starts with a dot", 0, 1, 9},
	{0},
};
static const struct cmd list_cmds[] = {
	{"list", "[NAME...]", "list things", list_opts, 0, -1},
	{"range add", "NAME", "add a range", NULL, 1, 1},
	{"mode", "[on|off]", "show or set", NULL, 0, 1},
	{0},
};
static const struct cmd single_cmds[] = {{NULL, NULL, "does it", list_opts, 0, 0}, {0}};

static const struct applet table[] = {
	{"plug", "a plugin", NULL, APPLET_CNI | APPLET_LINK, NULL, NULL},
	{"addr", "an IPAM plugin", NULL, APPLET_CNI | APPLET_IPAM | APPLET_LINK, NULL, NULL},
	{"things", "look at things", NULL, 0, list_cmds, "First paragraph.\n\n'Second' one."},
	{"single", "do it", NULL, 0, single_cmds, NULL},
	{"secret", "a hidden applet", NULL, APPLET_HIDDEN, NULL, NULL},
	{"help", "help on an applet", help_main, 0, help_cmds, NULL},
	{"completion", "completion script", completion_main, 0, completion_cmds, NULL},
	{"man", "man pages", man_main, 0, man_cmds, NULL},
	{0},
};

#define RUN(fn, ...) t_main(fn, (const char *const[]){#fn, ##__VA_ARGS__, NULL})

static void test_help_lists_applets_commands_and_options(void **state)
{
	(void)state;
	ASSERT_EQ(RUN(help_main), 0);
	ASSERT_HAS(t_out, "  plug                        a plugin\n");
	ASSERT_HAS(t_out, "  addr                        an IPAM plugin\n");
	ASSERT_HAS(t_out, "  things                      look at things\n");
	assert_null(strstr(t_out, "secret"));
	ASSERT_EQ(RUN(help_main, "things"), 0);
	ASSERT_HAS(t_out, "usage: unirail things COMMAND [OPTION...]\n");
	ASSERT_HAS(t_out, "  range add NAME              add a range\n");
	ASSERT_HAS(t_out, "\nFirst paragraph.\n\n'Second' one.\n");
	ASSERT_EQ(RUN(help_main, "things", "list"), 0);
	ASSERT_HAS(t_out, "usage: unirail things list [OPTION...] [NAME...]\n");
	ASSERT_HAS(t_out, "  -n, --count N               .starts with a dot\n");
	ASSERT_EQ(RUN(help_main, "things", "range", "add"), 0);
	ASSERT_HAS(t_out, "usage: unirail things range add NAME\n");
	ASSERT_EQ(RUN(help_main, "single"), 0);
	ASSERT_HAS(t_out, "usage: unirail single [OPTION...]\n");
	ASSERT_EQ(RUN(help_main, "plug"), 0);
	ASSERT_HAS(t_out, "usage: plug <NETCONF");
	ASSERT_HAS(t_out, "UNIRAIL_LOG");
	ASSERT_STR_EQ(t_err, "");
}

static void test_help_of_an_unknown_command_suggests_a_similar_command(void **state)
{
	(void)state;
	ASSERT_EQ(RUN(help_main, "thigns"), 2);
	ASSERT_STR_EQ(t_err, "unirail help: unknown applet 'thigns'; did you mean 'things'?\n");
	ASSERT_STR_EQ(t_out, "");
	ASSERT_EQ(RUN(help_main, "things", "lsit"), 2);
	ASSERT_STR_EQ(
		t_err,
		"unirail help: unknown command 'lsit': expected list, range add or mode; did you mean 'list'?\n");
	ASSERT_EQ(RUN(help_main, "things", "list", "more"), 2);
	ASSERT_STR_EQ(t_err, "unirail help: unknown command 'things more'\n");
	ASSERT_EQ(RUN(help_main, "single", "x"), 2);
	ASSERT_STR_EQ(t_err, "unirail help: applet 'single' has no commands: remove operand 'x'\n");
}

static void test_man_page_escapes_special_characters(void **state)
{
	(void)state;
	ASSERT_EQ(RUN(man_main, "things"), 0);
	ASSERT_HAS(t_out, ".TH \"UNIRAIL-THINGS\" 1 \"\" \"unirail ");
	ASSERT_HAS(t_out, "unirail\\-things \\- look at things\n");
	ASSERT_HAS(t_out, "\nunirail things list [OPTION...] [NAME...]\n");
	ASSERT_HAS(t_out, ".SS range add\n");
	ASSERT_HAS(t_out, "\\fB\\-n\\fR, \\fB\\-\\-count\\fR \\fIN\\fR\n\\&.starts with a dot\n");
	ASSERT_HAS(t_out, "a \\efolder, it\\(aqs \"here\": $x \\(gay\\(ga\n");
	ASSERT_HAS(t_out, ".PP\n\\(aqSecond\\(aq one.\n");
	ASSERT_EQ(RUN(man_main), 0);
	ASSERT_HAS(t_out, ".BR unirail\\-plug (1)\n");
	assert_null(strstr(t_out, "secret"));
	ASSERT_EQ(RUN(man_main, "nothing"), 2);
	ASSERT_EQ(RUN(man_main, "--all", "/tmp", "plug"), 2);
}

static void test_man_pages_of_all_applets_are_written(void **state)
{
	char dir[T_DIR_MAX];
	auto_free char *sub = NULL;
	char **names = NULL;
	size_t n = 0;
	struct root r, in;

	(void)state;
	t_dir_make(dir, &in);
	sub = xasprintf("%s/share/man1", dir);
	ASSERT_EQ(RUN(man_main, "--all", sub), 0);
	ASSERT_STR_EQ(t_out, "");
	ASSERT_EQ(root_open(&r, NULL, NULL), 0);
	ASSERT_EQ(dir_list(&r, sub, &names, &n, NULL), 0);
	ASSERT_EQ(n, 12);
	ASSERT_STR_EQ(names[0], "unirail-addr.1");
	ASSERT_STR_EQ(names[11], "unirail.1");
	str_list_free(names, n);
	root_close(&r);
	t_dir_remove(dir, &in);
	ASSERT_EQ(RUN(man_main, "--all", "/proc/none"), 1);
	assert_memory_equal(t_err, "unirail man: create directory '/proc/none': ", 44);
}

/* Fails the test unless bash's completions for `line`, separated by one space, are `want`. */
static void completes(const char *line, const char *want)
{
	auto_free char *script =
		xasprintf("source /dev/fd/3; COMP_WORDS=(%s); COMP_CWORD=$((${#COMP_WORDS[@]}-1));"
			  "_unirail; echo \"${COMPREPLY[*]}\" >&4",
			  line);
	FILE *in = tmpfile(), *out = tmpfile();
	char got[1024];
	int status;

	fputs(t_out, in);
	rewind(in);
	if (fork() == 0) {
		dup2(fileno(in), 3);
		dup2(fileno(out), 4);
		execlp("bash", "bash", "--norc", "-c", script, (char *)NULL);
		_exit(127);
	}
	wait(&status);
	ASSERT_EQ(status, 0);
	fclose(in);
	t_slurp(out, got, sizeof(got));
	got[strcspn(got, "\n")] = '\0';
	if (strcmp(got, want) != 0)
		fail_msg("%s: completes '%s', expected '%s'", line, got, want);
}

static void test_bash_completes_commands_options_and_values(void **state)
{
	(void)state;
	ASSERT_EQ(RUN(completion_main, "bash"), 0);
	completes("unirail ''", "plug addr things single help completion man");
	completes("unirail th", "things");
	completes("unirail things ''", "list range mode");
	completes("unirail things range ''", "add");
	completes("unirail things list -", "-o --output --dir -n --count -h --help");
	completes("unirail things list -o ''", "text json");
	completes("unirail things list --output = j", "json");
	completes("unirail things -o json ''", "list range mode");
	completes("unirail things list --count ''", "");
	completes("unirail things mode ''", "on off");
	completes("unirail single --", "--output --dir --count --help");
	completes("unirail completion ''", "bash zsh fish");
	completes("unirail help things r", "range");
	completes("unirail help things range ''", "add");
	completes("unirail man pl", "plug");
	completes("unirail secret ''", "plug addr things single help completion man");
}

static void test_zsh_and_fish_completions_are_quoted(void **state)
{
	(void)state;
	ASSERT_EQ(RUN(completion_main, "zsh"), 0);
	ASSERT_HAS(t_out, "\t'things list')\n");
	ASSERT_HAS(t_out, "'--dir:a \\folder, it'\\''s \"here\": $x `y`'");
	ASSERT_HAS(t_out, "\t'things list --output'|'things list -o')\n\t\tcompadd -- text json\n");
	assert_null(strstr(t_out, "secret"));
	ASSERT_EQ(RUN(completion_main, "fish"), 0);
	ASSERT_HAS(
		t_out,
		"complete -c unirail -n '__unirail_at \"things list\"' -s o -l output -x -a 'text json' "
		"-d \"the output format\"\n");
	ASSERT_HAS(t_out, "-d \"a \\\\folder, it's \\\"here\\\": \\$x `y`\"\n");
	assert_null(strstr(t_out, "secret"));
	ASSERT_EQ(RUN(completion_main, "csh"), 2);
	ASSERT_STR_EQ(t_err,
		      "unirail completion: unknown shell 'csh': expected bash, zsh or fish\n");
	ASSERT_EQ(RUN(completion_main), 2);
	ASSERT_STR_EQ(t_err, "unirail completion: operand missing: expected bash|zsh|fish\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_help_lists_applets_commands_and_options),
		cmocka_unit_test(test_help_of_an_unknown_command_suggests_a_similar_command),
		cmocka_unit_test(test_man_page_escapes_special_characters),
		cmocka_unit_test(test_man_pages_of_all_applets_are_written),
		cmocka_unit_test(test_bash_completes_commands_options_and_values),
		cmocka_unit_test(test_zsh_and_fish_completions_are_quoted),
	};

	applets = table;
	return T_RUN(tests, NULL, NULL);
}
