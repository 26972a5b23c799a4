/* SPDX-License-Identifier: Apache-2.0 */
#include "testlib.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/option.h"

struct values {
	int64_t rails, any, wait;
	bool keep;
	const char *name, *output;
};

static const struct opt opts[] = {
	{"rails", 'n', OPT_INT, "N", "number of rails", offsetof(struct values, rails), 1, 64},
	{"any", 0, OPT_INT, "N", "any number", offsetof(struct values, any), 0, 0},
	{"wait", 'w', OPT_DUR, "TIME", "how long", offsetof(struct values, wait), 0, 60000},
	{"keep", 'k', OPT_FLAG, NULL, "leave it", offsetof(struct values, keep), 0, 0},
	{"name", 0, OPT_STR, "NAME", "a name", offsetof(struct values, name), 0, 0},
	{"output", 'o', OPT_CHOICE, "text|json", "how", offsetof(struct values, output), 0, 0},
	{0},
};

static const struct cmd cmd = {"show", "[POOL] [MORE]", "show a pool", opts, 0, 2};
static struct values v;
static struct err e;
static char *arguments[16];

/* Splits `line` at blanks and parses it. */
static int parse(const struct cmd *c, const char *line)
{
	static char copy[256];
	int argc = 0;

	v = (struct values){0};
	err_clear(&e);
	str_copy(copy, sizeof(copy), line);
	for (char *w = strtok(copy, " "); w; w = strtok(NULL, " "))
		arguments[argc++] = w;
	arguments[argc] = NULL;
	return opt_parse(c, "unirail x show", argc, arguments, &v, &e);
}

static void test_options_are_parsed_in_every_form(void **state)
{
	(void)state;
	ASSERT_EQ(parse(&cmd, "--rails 3 --keep --output=json --wait 1500ms"), 6);
	ASSERT_EQ(v.rails, 3);
	assert_true(v.keep);
	ASSERT_STR_EQ(v.output, "json");
	ASSERT_EQ(v.wait, 1500);
	ASSERT_EQ(parse(&cmd, "-n 3 -k -ojson -w 2"), 6);
	ASSERT_EQ(v.rails, 3);
	ASSERT_STR_EQ(v.output, "json");
	ASSERT_EQ(v.wait, 2000);
	ASSERT_EQ(parse(&cmd, "--name=a=b --any -5"), 3);
	ASSERT_STR_EQ(v.name, "a=b");
	ASSERT_EQ(v.any, -5);
	ASSERT_EQ(parse(&cmd, "--name= -n 1 -n 2"), 5);
	ASSERT_STR_EQ(v.name, "");
	ASSERT_EQ(v.rails, 2);
	ASSERT_EQ(parse(&cmd, ""), 0);
}

static void test_operands_may_stand_between_options(void **state)
{
	(void)state;
	ASSERT_EQ(parse(&cmd, "a -o json b -k"), 3);
	ASSERT_STR_EQ(arguments[3], "a");
	ASSERT_STR_EQ(arguments[4], "b");
	assert_true(v.keep);
	ASSERT_EQ(parse(&cmd, "-k -- --name -o"), 2);
	ASSERT_STR_EQ(arguments[2], "--name");
	ASSERT_STR_EQ(arguments[3], "-o");
	ASSERT_EQ(parse(&cmd, "-"), 0);
	ASSERT_STR_EQ(arguments[0], "-");
	ASSERT_EQ(parse(&cmd, "--name -- x"), 2);
	ASSERT_STR_EQ(v.name, "--");
}

static void test_usage_errors_name_the_option_or_operand(void **state)
{
	static const struct cmd none = {"list", NULL, "list", NULL, 0, 0};
	static const struct cmd one = {"get", "POOL", "get", NULL, 1, 1};
	static const struct {
		const struct cmd *c;
		const char *line, *text;
	} rows[] = {
		{&cmd, "--rails 65", "option '--rails': '65' is not a number from 1 to 64"},
		{&cmd, "--rails=x", "option '--rails': 'x' is not a number from 1 to 64"},
		{&cmd, "--any 1x", "option '--any': '1x' is not a number"},
		{&cmd, "-w 61s",
		 "option '--wait': '61s' is not a time from 0ms to 60000ms (60s, 500ms)"},
		{&cmd, "-o yaml", "option '--output': 'yaml' is not one of text|json"},
		{&cmd, "-o tex", "option '--output': 'tex' is not one of text|json"},
		{&cmd, "--output", "option '--output' needs a value (text|json)"},
		{&cmd, "-n", "option '-n' needs a value (N)"},
		{&cmd, "--keep=yes", "option '--keep' accepts no value ('--keep=yes')"},
		{&cmd, "--rial 3", "unknown option '--rial'; did you mean '--rails'?"},
		{&cmd, "--keeep", "unknown option '--keeep'; did you mean '--keep'?"},
		{&cmd, "--hlep", "unknown option '--hlep'; did you mean '--help'?"},
		{&cmd, "--unrelated",
		 "unknown option '--unrelated': expected --rails, --any, --wait, --keep, --name, --output or --help"},
		{&cmd, "-x",
		 "unknown option '-x': expected --rails, --any, --wait, --keep, --name, --output or --help"},
		{&cmd, "--help=x", "unknown option '--help=x'; did you mean '--help'?"},
		{&cmd, "a b c", "unexpected operand 'c'; expected [POOL] [MORE]"},
		{&none, "a", "unexpected operand 'a'"},
		{&one, "", "operand missing: expected POOL"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		ASSERT_EQ_MSG(parse(rows[i].c, rows[i].line), -EINVAL, "rows[%zu]", i);
		ASSERT_STR_EQ_MSG(e.text, rows[i].text, "rows[%zu]", i);
	}
}

static void test_help_goes_to_stdout(void **state)
{
	static char text[4096];
	int pipes[2], out = dup(STDOUT_FILENO);
	ssize_t n;

	(void)state;
	ASSERT_EQ(pipe(pipes), 0);
	fflush(stdout);
	dup2(pipes[1], STDOUT_FILENO);
	ASSERT_EQ(parse(&cmd, "a -k --help --nonsense"), -ECANCELED);
	fflush(stdout);
	dup2(out, STDOUT_FILENO);
	n = read(pipes[0], text, sizeof(text) - 1);
	assert_true(n > 0);
	assert_non_null(strstr(text, "usage: unirail x show [OPTION...] [POOL] [MORE]\n"));
	assert_non_null(strstr(text, "  -n, --rails N               number of rails\n"));
	assert_non_null(strstr(text, "      --name NAME             a name\n"));
	assert_non_null(strstr(text, "  -o, --output text|json      how\n"));
	ASSERT_EQ(opt_exit("x", -ECANCELED, &e), 0);
	close(pipes[0]);
	close(pipes[1]);
	close(out);
}

static const struct cmd cmds[] = {
	{"list", NULL, "list pools", NULL, 0, 0},
	{"qos", NULL, "show qos", NULL, 0, 0},
	{"qos set", "NIC", "set qos", NULL, 1, 1},
	{0},
};

static int pick(const char *a, const char *b, const char **name, int *n)
{
	char *argv[] = {(char[]){"pool"}, a ? strdup(a) : NULL, b ? strdup(b) : NULL, NULL};
	const struct cmd *c = NULL;
	int r;

	err_clear(&e);
	r = cmd_pick("unirail pool", cmds, 1 + !!a + !!b, argv, &c, n, &e);
	*name = c ? c->name : NULL;
	free(argv[1]);
	free(argv[2]);
	return r;
}

static void test_command_is_selected_by_its_name(void **state)
{
	static const struct cmd single[] = {{NULL, "[X]", "does it", NULL, 0, 1}, {0}};
	char *argv[] = {(char[]){"version"}, (char[]){"x"}, NULL};
	const struct cmd *c;
	const char *name;
	int n;

	(void)state;
	ASSERT_EQ(pick("list", NULL, &name, &n), 0);
	ASSERT_STR_EQ(name, "list");
	ASSERT_EQ(n, 1);
	ASSERT_EQ(pick("qos", "set", &name, &n), 0);
	ASSERT_STR_EQ(name, "qos set");
	ASSERT_EQ(n, 2);
	ASSERT_EQ(pick("qos", "eth0", &name, &n), 0);
	ASSERT_STR_EQ(name, "qos");
	ASSERT_EQ(n, 1);
	ASSERT_EQ(pick("lsit", NULL, &name, &n), -EINVAL);
	ASSERT_STR_EQ(
		e.text,
		"unknown command 'lsit': expected list, qos or qos set; did you mean 'list'?");
	ASSERT_EQ(pick("zzzz", NULL, &name, &n), -EINVAL);
	ASSERT_STR_EQ(e.text, "unknown command 'zzzz': expected list, qos or qos set");
	ASSERT_EQ(pick(NULL, NULL, &name, &n), -EINVAL);
	ASSERT_STR_EQ(e.text, "no command given: expected list, qos or qos set");
	ASSERT_EQ(cmd_pick("unirail version", single, 2, argv, &c, &n, &e), 0);
	assert_ptr_equal(c, single);
	ASSERT_EQ(n, 0);
}

static void test_similar_options_and_commands_are_suggested(void **state)
{
	static const char *const list[] = {"macvlan", "ipvlan", "pool", "rdma", "man"};

	(void)state;
	ASSERT_STR_EQ(opt_suggest("macvaln", list, 5), "macvlan");
	ASSERT_STR_EQ(opt_suggest("ipvlan2", list, 5), "ipvlan");
	ASSERT_STR_EQ(opt_suggest("rmda", list, 5), "rdma");
	assert_null(opt_suggest("xyz", list, 5));
	assert_null(opt_suggest("an-argument-much-longer-than-any-word-of-the-list", list, 5));
}

static void test_help_text_is_wrapped(void **state)
{
	auto_buf struct buf b;

	(void)state;
	buf_init(&b, 4096);
	opt_row(&b, "--a-very-long-option-name-indeed X",
		"one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
		"fifteen sixteen");
	ASSERT_STR_EQ(b.p,
		      "  --a-very-long-option-name-indeed X\n"
		      "                              one two three four five six seven eight nine "
		      "ten\n"
		      "                              eleven twelve thirteen fourteen fifteen "
		      "sixteen\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_options_are_parsed_in_every_form),
		cmocka_unit_test(test_operands_may_stand_between_options),
		cmocka_unit_test(test_usage_errors_name_the_option_or_operand),
		cmocka_unit_test(test_help_goes_to_stdout),
		cmocka_unit_test(test_command_is_selected_by_its_name),
		cmocka_unit_test(test_similar_options_and_commands_are_suggested),
		cmocka_unit_test(test_help_text_is_wrapped),
	};

	return T_RUN(tests, NULL, NULL);
}
