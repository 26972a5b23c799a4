/* SPDX-License-Identifier: Apache-2.0 */
#include "testlib.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>

#include "cni_invoke.h"

static int calls, undone, fails;
/* arguments of the plugin's last call; their strings were freed after the call */
static struct cni_call last;
static char seen[512];

static int count_call(const struct cni_call *c, struct err *e)
{
	calls++;
	last = *c;
	snprintf(seen, sizeof(seen), "%s %s %s %s %s %s %s %d", c->command, c->container_id,
		 c->ifname, c->args_text, c->name, c->type, cni_version_str(c->version),
		 c->netns_override);
	return fails ? err_kind(e, ERR_AGAIN, -EBUSY, "device 'x' is busy") : 0;
}

static int add(struct cni_call *c, struct cni_result *out, struct err *e)
{
	if (json_get(c->conf, "result"))
		cni_result_iface(out, "eth0", NULL, "/ns");
	return count_call(c, e);
}

static int check(struct cni_call *c, struct err *e)
{
	return count_call(c, e);
}

static int del(struct cni_call *c, struct err *e)
{
	undone++;
	return count_call(c, e);
}

static int gc(struct cni_call *c, struct err *e)
{
	ASSERT_EQ(cni_is_valid(c, "a", "net1"), c->n_valid > 0);
	ASSERT_EQ(cni_is_valid(c, "a", NULL), c->n_valid > 0);
	assert_false(cni_is_valid(c, "a", "net2"));
	assert_false(cni_is_valid(c, "b", NULL));
	return count_call(c, e);
}

static const struct cni_plugin macvlan = {
	.name = "macvlan",
	.about = "CNI macvlan plugin unirail",
	.add = add,
	.check = check,
	.del = del,
	.gc = gc,
	.status = check,
};
static const struct cni_plugin tuning = {.name = "tuning", .prints_prev = true, .add = add};
static const struct cni_plugin old = {.name = "old",
				      .versions = 1 << CNI_0_3_1 | 1 << CNI_0_4_0,
				      .add = add,
				      .check = check};
static const struct cni_plugin nothing = {.name = "nothing"};

#define SUPPORTED                                                                                  \
	"\\\"0.1.0\\\" \\\"0.2.0\\\" \\\"0.3.0\\\" \\\"0.3.1\\\" \\\"0.4.0\\\" \\\"1.0.0\\\" "     \
	"\\\"1.1.0\\\""
#define OK(v) "{\"cniVersion\":\"" v "\",\"name\":\"n\",\"type\":\"t\"}"

static void reset(void)
{
	calls = undone = fails = 0;
}

/* The variables are checked in the order of pkg/skel, the main() of the original CNI plugins. */
static void test_missing_and_invalid_cni_variables_are_reported(void **state)
{
	static const struct {
		const char *env[8];
		const char *out;
	} cases[] = {
		{{"CNI_COMMAND=ADD"},
		 "{\"code\":4,\"msg\":\"required env variables "
		 "[CNI_CONTAINERID,CNI_NETNS,CNI_IFNAME,CNI_PATH] missing\"}"},
		{{"CNI_COMMAND=CHECK", "CNI_PATH=/x", "CNI_NETNS="},
		 "{\"code\":4,\"msg\":\"required env variables "
		 "[CNI_CONTAINERID,CNI_NETNS,CNI_IFNAME] missing\"}"},
		{{"CNI_COMMAND=DEL"},
		 "{\"code\":4,\"msg\":\"required env variables [CNI_CONTAINERID,CNI_IFNAME,CNI_PATH] "
		 "missing\"}"},
		{{"CNI_COMMAND=GC", "CNI_CONTAINERID=-", "CNI_IFNAME=/"},
		 "{\"code\":4,\"msg\":\"required env variables [CNI_PATH] missing\"}"},
		{{"CNI_COMMAND=STATUS"},
		 "{\"code\":4,\"msg\":\"required env variables [CNI_PATH] missing\"}"},
		{{"CNI_COMMAND=ADD", "CNI_CONTAINERID=-a"},
		 "{\"code\":4,\"msg\":\"invalid characters in containerID\",\"details\":\"-a\"}"},
		{{"CNI_COMMAND=ADD", "CNI_CONTAINERID=a\n"},
		 "{\"code\":4,\"msg\":\"invalid characters in containerID\",\"details\":\"a\\n\"}"},
		{{"CNI_COMMAND=ADD", "CNI_IFNAME=abcdefghijklmnop"},
		 "{\"code\":4,\"msg\":\"interface name is too long\",\"details\":\"interface name should "
		 "be less than 16 characters\"}"},
		{{"CNI_COMMAND=ADD", "CNI_IFNAME=.."},
		 "{\"code\":4,\"msg\":\"interface name is . or ..\"}"},
		{{"CNI_COMMAND=ADD", "CNI_IFNAME=a\u3000b"},
		 "{\"code\":4,\"msg\":\"interface name contains / or : or whitespace characters\"}"},
		{{"CNI_COMMAND=ADD", "CNI_IFNAME=a:b"},
		 "{\"code\":4,\"msg\":\"interface name contains / or : or whitespace characters\"}"},
	};

	(void)state;
	reset();
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		auto_answer struct answer a =
			invoke_env(&macvlan, (char *const *)cases[i].env, "{");

		ASSERT_EQ_MSG(a.status, 1, "cases[%zu]", i);
		ASSERT_STR_EQ_MSG(a.out.p, cases[i].out, "cases[%zu]", i);
	}
	ASSERT_EQ(calls, 0);
}

static void test_version_and_about_texts_are_printed(void **state)
{
	char *env[] = {"CNI_COMMAND=VERSION", NULL}, *none[] = {"CNI_COMMAND=", NULL};
	auto_buf struct buf out;
	int keep = dup(STDERR_FILENO), p[2];
	char text[256] = "";

	(void)state;
	buf_init(&out, 4096);
	ASSERT_EQ(cni_run_with(&macvlan, env, span_of("nonsense"), &out), 0);
	ASSERT_STR_EQ(out.p, "{\"cniVersion\":\"1.1.0\",\"supportedVersions\":[\"0.1.0\","
			     "\"0.2.0\",\"0.3.0\",\"0.3.1\",\"0.4.0\",\"1.0.0\",\"1.1.0\"]}\n");
	buf_reset(&out);
	ASSERT_EQ(cni_run_with(&old, env, span_of(""), &out), 0);
	ASSERT_STR_EQ(out.p,
		      "{\"cniVersion\":\"1.1.0\",\"supportedVersions\":[\"0.3.1\",\"0.4.0\"]}\n");

	buf_reset(&out);
	ASSERT_EQ(pipe(p), 0);
	dup2(p[1], STDERR_FILENO);
	ASSERT_EQ(cni_run_with(&macvlan, none, span_of(""), &out), 0);
	dup2(keep, STDERR_FILENO);
	assert_true(read(p[0], text, sizeof(text) - 1) > 0);
	ASSERT_STR_EQ(text, "CNI macvlan plugin unirail\nCNI protocol versions supported: 0.1.0, "
			    "0.2.0, 0.3.0, 0.3.1, 0.4.0, 1.0.0, 1.1.0\n");
	ASSERT_EQ(out.len, 0);
	close(p[0]);
	close(p[1]);
	close(keep);

	ASSERT_EQ(cni_run_with(&nothing, none, span_of(""), &out), 1);
	assert_non_null(strstr(out.p, "required env variables [CNI_COMMAND] missing"));
}

static void test_invalid_network_configuration_is_refused(void **state)
{
	static const struct {
		const char *command, *conf, *out;
	} cases[] = {
		{"ADD", "",
		 "{\"code\":6,\"msg\":\"error unmarshall network config: unexpected end of JSON "
		 "input\"}"},
		{"ADD", "{\"name\":5}",
		 "{\"code\":6,\"msg\":\"error unmarshall network config: conf.name is 5, expected a "
		 "string\"}"},
		{"ADD", "{}", "{\"code\":7,\"msg\":\"missing network name\"}"},
		{"ADD", "{\"name\":\"a b\"}",
		 "{\"code\":7,\"msg\":\"invalid characters found in network name\",\"details\":\"a "
		 "b\"}"},
		{"FOO", "{\"name\":\"n\"}", "{\"code\":4,\"msg\":\"unknown CNI_COMMAND: FOO\"}"},
		{"FOO", "{}", "{\"code\":7,\"msg\":\"missing network name\"}"},
		{"ADD", OK("9.0.0"),
		 "{\"code\":1,\"msg\":\"incompatible CNI versions\",\"details\":\"config is "
		 "\\\"9.0.0\\\", plugin supports [" SUPPORTED "]\"}"},
		{"ADD", "{\"name\":\"n\",\"cniVersion\":1}",
		 "{\"code\":6,\"msg\":\"decoding version from network config: conf.cniVersion is 1, "
		 "expected a string\"}"},
		{"CHECK", OK("0.3.1"),
		 "{\"code\":1,\"msg\":\"config version does not allow CHECK\"}"},
		{"CHECK", OK("9"), "{\"code\":1,\"msg\":\"plugin version does not allow CHECK\"}"},
		{"CHECK", OK("1.0"),
		 "{\"code\":1,\"msg\":\"incompatible CNI versions\",\"details\":\"config is \\\"1.0\\\", "
		 "plugin supports [" SUPPORTED "]\"}"},
		{"CHECK", OK("1.0.0.0"),
		 "{\"code\":6,\"msg\":\"invalid version \\\"1.0.0.0\\\": too many parts\"}"},
		{"CHECK", OK("1.x"),
		 "{\"code\":6,\"msg\":\"failed to convert minor version part \\\"x\\\": strconv.Atoi: "
		 "parsing \\\"x\\\": invalid syntax\"}"},
		{"GC", OK("1.0.0"), "{\"code\":1,\"msg\":\"config version does not allow GC\"}"},
		{"STATUS", OK("1.0.0"),
		 "{\"code\":1,\"msg\":\"config version does not allow STATUS\"}"},
		{"ADD", "{\"name\":\"n\",\"type\":[]}",
		 "{\"code\":7,\"msg\":\"conf.type is an array, expected a string\"}"},
	};

	(void)state;
	reset();
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		expect(&(struct invocation){.plugin = &macvlan,
					    .command = cases[i].command,
					    .conf = cases[i].conf},
		       1, cases[i].out);
	ASSERT_EQ(calls, 0);
}

static void test_cni_versions_the_plugin_does_not_support_are_refused(void **state)
{
	struct invocation v = {.plugin = &old, .command = "ADD", .conf = OK("1.0.0")};

	(void)state;
	reset();
	expect(&v, 1,
	       "{\"code\":1,\"msg\":\"incompatible CNI versions\",\"details\":\"config is "
	       "\\\"1.0.0\\\", plugin supports [\\\"0.3.1\\\" \\\"0.4.0\\\"]\"}");
	v.command = "CHECK";
	expect(&v, 1, "{\"code\":1,\"msg\":\"plugin version does not allow CHECK\"}");
	v.conf = OK("0.4.0");
	expect(&v, 0, "");
	ASSERT_EQ(calls, 1);
}

static void test_each_cni_command_calls_the_plugin(void **state)
{
	static const char *const verbs[] = {"ADD", "CHECK", "DEL", "GC", "STATUS"};
	struct invocation v = {.plugin = &macvlan,
			       .args = "A=1",
			       .conf = "{\"cniVersion\":\"1.1.0\",\"name\":\"n\",\"type\":\"t\","
				       "\"cni.dev/valid-attachments\":[]}"};

	(void)state;
	reset();
	for (size_t i = 0; i < ARRAY_LEN(verbs); i++) {
		char want[128];

		v.command = verbs[i];
		expect(&v, 0, i == 0 ? "{\"cniVersion\":\"1.1.0\"}" : "");
		snprintf(want, sizeof(want), "%s c1 eth0 A=1 n t 1.1.0 0", verbs[i]);
		ASSERT_STR_EQ_MSG(seen, want, "verbs[%zu]", i);
	}
	ASSERT_EQ(calls, 5);
	fails = 1;
	expect(&v, 1, "{\"code\":11,\"msg\":\"device 'x' is busy\"}");
	v.plugin = &nothing;
	for (size_t i = 0; i < ARRAY_LEN(verbs); i++) {
		v.command = verbs[i];
		expect(&v, 0, "");
	}
	reset();
	expect(&(struct invocation){.plugin = &macvlan,
				    .command = "ADD",
				    .conf = "{\"name\":\"n\"}"},
	       1, "{\"code\":7,\"msg\":\"cannot convert: no valid IP addresses\"}");
}

/* The original executes the command, prints its result, and only then prints the error. */
static void test_add_and_del_in_the_host_namespace_are_refused(void **state)
{
	struct invocation v = {.plugin = &macvlan,
			       .command = "ADD",
			       .netns = "/proc/self/ns/net",
			       .conf = OK("1.0.0")};
	char *env[] = {"CNI_COMMAND=ADD",
		       "CNI_CONTAINERID=c",
		       "CNI_NETNS=/proc/self/ns/net",
		       "CNI_IFNAME=eth0",
		       "CNI_PATH=/x",
		       "CNI_NETNS_OVERRIDE=true",
		       NULL};
	static const char expected[] =
		"{\"code\":8,\"msg\":\"plugin's netns and netns from CNI_NETNS "
		"should not be the same\"}";

	(void)state;
	reset();
	expect(&v, 1, expected);
	v.command = "DEL";
	expect(&v, 1, expected);
	ASSERT_EQ(calls, 0);
	v.command = "CHECK";
	expect(&v, 0, "");
	for (int i = 0; i < 2; i++) {
		auto_answer struct answer a = invoke_env(&macvlan, env, OK("1.0.0"));

		ASSERT_EQ(a.status, 0);
		env[5] = "CNI_NETNS_OVERRIDE=1";
	}
	ASSERT_EQ(calls, 3);
	env[5] = "CNI_NETNS_OVERRIDE=yes";
	{
		auto_answer struct answer a = invoke_env(&macvlan, env, OK("1.0.0"));

		ASSERT_STR_EQ(a.out.p, expected);
	}
}

#define PREV "\"prevResult\":{\"ips\":[{\"address\":\"10.0.0.1/24\"}]}"

static void test_prev_result_is_parsed_by_add_and_ignored_by_del(void **state)
{
	struct invocation v = {.plugin = &tuning, .command = "ADD"};
	static const char bad[] = "{\"cniVersion\":\"1.0.0\",\"name\":\"n\","
				  "\"prevResult\":{\"ips\":[{}]}}";

	(void)state;
	reset();
	v.conf = "{\"cniVersion\":\"1.0.0\",\"name\":\"n\"," PREV "}";
	expect(&v, 0, "{\"cniVersion\":\"1.0.0\",\"ips\":[{\"address\":\"10.0.0.1/24\"}]}");
	assert_true(last.has_prev);
	v.conf = "{\"cniVersion\":\"0.3.1\",\"name\":\"n\"," PREV "}";
	expect(&v, 0,
	       "{\"cniVersion\":\"0.3.1\",\"ips\":[{\"version\":\"4\",\"address\":\"10.0.0.1/24\"}],"
	       "\"dns\":{}}");
	v.conf = "{\"cniVersion\":\"1.0.0\",\"name\":\"n\",\"result\":1," PREV "}";
	expect(&v, 0,
	       "{\"cniVersion\":\"1.0.0\",\"interfaces\":[{\"name\":\"eth0\",\"sandbox\":\"/ns\"}]}");
	v.conf = "{\"cniVersion\":\"1.0.0\",\"name\":\"n\",\"prevResult\":null}";
	expect(&v, 0, "{\"cniVersion\":\"1.0.0\"}");
	assert_false(last.has_prev);
	v.conf = bad;
	expect(&v, 1,
	       "{\"code\":7,\"msg\":\"could not parse prevResult: result.ips[0].address is missing\"}");
	/* A DEL that failed for this reason would make the pod undeletable. */
	v = (struct invocation){.plugin = &macvlan, .command = "DEL", .conf = bad};
	reset();
	expect(&v, 0, "");
	ASSERT_EQ(calls, 1);
	assert_false(last.has_prev);
}

/* If the result of ADD cannot be expressed in the requested version, ADD fails and is undone. */
static void test_add_with_an_unprintable_result_is_undone(void **state)
{
	(void)state;
	reset();
	expect(&(struct invocation){.plugin = &macvlan,
				    .command = "ADD",
				    .conf = "{\"name\":\"n\",\"result\":1}"},
	       1, "{\"code\":7,\"msg\":\"cannot convert: no valid IP addresses\"}");
	ASSERT_EQ(undone, 1);
}

/*
 * Runs the plugin as a program, in a child whose stdin is the configuration and whose stdout is
 * `to`. Returns its exit status plus 100 for each undone ADD.
 */
static int run_onto(int to, const char *command)
{
	int in[2], status = 0;
	pid_t pid;

	ASSERT_EQ(pipe(in), 0);
	ASSERT_EQ(write(in[1], OK("1.0.0"), strlen(OK("1.0.0"))), strlen(OK("1.0.0")));
	close(in[1]);
	reset();
	pid = fork();
	if (pid == 0) {
		dup2(in[0], STDIN_FILENO);
		dup2(to, STDOUT_FILENO);
		dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
		setenv("CNI_COMMAND", command, 1);
		setenv("CNI_CONTAINERID", "c1", 1);
		setenv("CNI_NETNS", "/run/netns/not-there", 1);
		setenv("CNI_IFNAME", "eth0", 1);
		setenv("CNI_PATH", "/opt/cni/bin", 1);
		status = cni_run(&macvlan);
		_exit(100 * undone + status);
	}
	close(in[0]);
	close(to);
	ASSERT_EQ(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static int pipe_without_reader(void)
{
	int p[2];

	ASSERT_EQ(pipe(p), 0);
	close(p[0]);
	return p[1];
}

/* The runtime gets no result, so ADD fails and is undone. */
static void test_add_with_an_undelivered_result_is_undone(void **state)
{
	(void)state;
	ASSERT_EQ(run_onto(open("/dev/full", O_WRONLY), "ADD"), 101);
	ASSERT_EQ(run_onto(pipe_without_reader(), "ADD"), 101);
	ASSERT_EQ(run_onto(open("/dev/null", O_WRONLY), "ADD"), 0);
	ASSERT_EQ(run_onto(open("/dev/full", O_WRONLY), "VERSION"), 1);
	ASSERT_EQ(run_onto(open("/dev/full", O_WRONLY), "CHECK"), 0); /* CHECK writes nothing */
}

static void test_gc_calls_the_plugin_only_with_a_list_of_attachments(void **state)
{
	static const struct {
		const char *list;
		bool has;
		size_t n;
	} cases[] = {
		{"", false, 0},
		{",\"cni.dev/valid-attachments\":null", true, 0},
		{",\"cni.dev/valid-attachments\":[]", true, 0},
		{",\"cni.dev/attachments\":[{\"containerID\":\"a\",\"ifname\":\"net1\"}]", true, 1},
		{",\"cni.dev/attachments\":[],\"cni.dev/valid-attachments\":[{\"containerID\":\"a\","
		 "\"ifname\":\"net1\"},{}]",
		 true, 2},
	};
	struct invocation v = {.plugin = &macvlan, .command = "GC"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		auto_free char *conf =
			xasprintf("{\"cniVersion\":\"1.1.0\",\"name\":\"n\"%s}", cases[i].list);

		reset();
		v.conf = conf;
		expect(&v, 0, "");
		/* Without the list of valid attachments, no container can be considered deleted,
		 * so the plugin is not called. */
		ASSERT_EQ_MSG(calls, cases[i].has, "cases[%zu]", i);
		if (!cases[i].has)
			continue;
		assert_true(last.has_valid);
		ASSERT_EQ_MSG(last.n_valid, cases[i].n, "cases[%zu]", i);
	}
	reset();
	v.conf = "{\"cniVersion\":\"1.1.0\",\"name\":\"n\",\"cni.dev/valid-attachments\":[\"a\"]}";
	expect(&v, 1,
	       "{\"code\":7,\"msg\":\"conf.cni.dev/valid-attachments[0] is \\\"a\\\", expected an "
	       "object\"}");
	ASSERT_EQ(calls, 0);
}

static void test_missing_root_directory_is_an_error(void **state)
{
	struct invocation v = {.plugin = &nothing, .command = "ADD", .conf = OK("1.0.0")};

	(void)state;
	v.root = "/nonexistent/dir";
	{
		auto_answer struct answer a = invoke(&v);

		ASSERT_EQ(a.status, 1);
		assert_non_null(strstr(a.out.p, "/nonexistent/dir"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_missing_and_invalid_cni_variables_are_reported),
		cmocka_unit_test(test_version_and_about_texts_are_printed),
		cmocka_unit_test(test_invalid_network_configuration_is_refused),
		cmocka_unit_test(test_cni_versions_the_plugin_does_not_support_are_refused),
		cmocka_unit_test(test_each_cni_command_calls_the_plugin),
		cmocka_unit_test(test_add_and_del_in_the_host_namespace_are_refused),
		cmocka_unit_test(test_prev_result_is_parsed_by_add_and_ignored_by_del),
		cmocka_unit_test(test_add_with_an_unprintable_result_is_undone),
		cmocka_unit_test(test_add_with_an_undelivered_result_is_undone),
		cmocka_unit_test(test_gc_calls_the_plugin_only_with_a_list_of_attachments),
		cmocka_unit_test(test_missing_root_directory_is_an_error),
	};

	return T_RUN(tests, NULL, NULL);
}
