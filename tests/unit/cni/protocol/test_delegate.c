/* SPDX-License-Identifier: Apache-2.0 */
#include "testlib.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/loop.h"
#include "cni/protocol/delegate.h"

static char dir[T_DIR_MAX];
static struct root root;

static int setup(void **state)
{
	(void)state;
	t_dir_make_in_tmp(dir, &root);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	t_dir_remove(dir, &root);
	return 0;
}

/* Creates a plugin that is a shell script. The script must not write to stderr unless it fails
 * without output on stdout: in all other cases its stderr is copied to the stderr of the test. */
static void script(const char *name, const char *body)
{
	auto_free char *path = xasprintf("/%s", name);
	auto_free char *text = xasprintf("#!/bin/sh\n%s\n", body);

	ASSERT_EQ(file_replace(&root, path, span_of(text), 0755, NULL), 0);
}

static struct cni_call call(void)
{
	static char path[128];

	snprintf(path, sizeof(path), "/nonexistent::%s", dir);
	return (struct cni_call){.container_id = "cid",
				 .netns = "/run/netns/x",
				 .ifname = "eth0",
				 .args_text = "A=1;B=2",
				 .path = path};
}

static int run(const char *type, const char *command, struct err *e)
{
	struct cni_call c = call();
	struct cni_delegate d = {type, command, &c, NULL, span_of("{\"name\":\"n\"}")};

	return cni_delegate_run(&d, e);
}

static int add(const char *type, const char *conf, enum cni_version v, struct cni_result *ret,
	       struct err *e)
{
	struct cni_call c = call();
	struct cni_delegate d = {type, "ADD", &c, "net1", span_of(conf)};

	return cni_delegate_add(&d, v, ret, e);
}

static void test_plugin_gets_cni_environment_and_configuration(void **state)
{
	auto_buf struct buf seen;
	struct err e = ERR_INIT;
	auto_result struct cni_result r = {0};
	auto_free char *want = NULL;

	(void)state;
	setenv("CNI_COMMAND", "wrong", 1);
	setenv("CNI_COMMAND_2", "kept", 1);
	setenv("UNIRAIL_TEST", "kept", 1);
	script("env",
	       "exec >${0%/*}/seen; cat; echo; env | grep -E 'CNI_|UNIRAIL_TEST' | LC_ALL=C sort");
	ASSERT_EQ(add("env", "{\"a\":1}", CNI_1_0_0, &r, &e), -EINVAL);
	unsetenv("CNI_COMMAND");
	buf_init(&seen, 4096);
	ASSERT_EQ(file_read(&root, "/seen", 4096, &seen, NULL), 0);
	want = xasprintf("{\"a\":1}\nCNI_ARGS=A=1;B=2\nCNI_COMMAND=ADD\nCNI_COMMAND_2=kept\n"
			 "CNI_CONTAINERID=cid\nCNI_IFNAME=net1\nCNI_NETNS=/run/netns/x\n"
			 "CNI_PATH=/nonexistent::%s\nUNIRAIL_CNI_DEPTH=1\nUNIRAIL_TEST=kept\n",
			 dir);
	ASSERT_STR_EQ(seen.p, want);
	ASSERT_STR_EQ(e.text, "failed to unmarshal raw result: unexpected end of JSON input");
}

static void test_results_of_other_cni_versions_are_parsed_and_invalid_ones_refused(void **state)
{
	static const struct {
		const char *out;
		size_t n_ips;
		const char *error;
	} cases[] = {
		{"{\"ips\":[{\"address\":\"10.0.0.1/24\"}]}", 1, NULL},
		{"{\"cniVersion\":\"\",\"ips\":[{\"address\":\"10.0.0.1/24\"}]}", 1, NULL},
		/* a result of another CNI version than the configuration has */
		{"{\"cniVersion\":\"0.2.0\",\"ip4\":{\"ip\":\"10.0.0.1/24\"}}", 1, NULL},
		{"null", 0, NULL},
		{"{\"cniVersion\":\"7\"}", 0, "unsupported CNI result version \"7\""},
		{"[]", 0, "result is an array, expected an object"},
		{"nonsense", 0,
		 "failed to unmarshal raw result: 1:1: invalid literal, expected a valid literal such as "
		 "'null'"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		auto_free char *body = xasprintf("echo '%s'", cases[i].out);
		auto_result struct cni_result r = {0};
		struct err e = ERR_INIT;

		script("result", body);
		ASSERT_EQ_MSG(add("result", "{}", CNI_1_0_0, &r, &e), cases[i].error ? -EINVAL : 0,
			      "cases[%zu]", i);
		ASSERT_STR_EQ_MSG(e.text, cases[i].error ? cases[i].error : "", "cases[%zu]", i);
		ASSERT_EQ_MSG(r.n_ips, cases[i].n_ips, "cases[%zu]", i);
	}
}

static void test_error_of_the_plugin_is_passed_on(void **state)
{
	static const struct {
		const char *body, *text, *details;
		int code;
	} cases[] = {
		{"echo '{\"code\":11,\"msg\":\"busy\",\"details\":\"by x\"}'; exit 1", "busy",
		 "by x", 11},
		{"echo '{\"cniVersion\":\"1.0.0\",\"code\":123,\"msg\":\"own\"}'; exit 1", "own",
		 "", 123},
		{"echo '{\"msg\":\"none\"}'; exit 1", "none", "", 0},
		{"exit 3", "netplugin failed with no error message: exit status 3", "", 999},
		{"kill -9 $$", "netplugin failed with no error message: signal 9", "", 999},
		{"echo 'a \"b\"' >&2; exit 1",
		 "netplugin failed: \"a \\\"b\\\"\\n\": exit status 1", "", 999},
		{"printf oops; exit 1",
		 "netplugin failed but error parsing its diagnostic message \"oops\": 1:1: unexpected "
		 "character, expected a valid root value",
		 "", 999},
		{"echo '{\"code\":\"x\"}'; exit 1",
		 "netplugin failed but error parsing its diagnostic message \"{\\\"code\\\":\\\"x\\\"}\\n\": "
		 "error.code is \"x\", expected a whole number",
		 "", 999},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct err e = ERR_INIT;

		script("fail", cases[i].body);
		assert_true(run("fail", "DEL", &e) < 0);
		ASSERT_STR_EQ_MSG(e.text, cases[i].text, "cases[%zu]", i);
		ASSERT_STR_EQ_MSG(e.details, cases[i].details, "cases[%zu]", i);
		ASSERT_EQ_MSG(cni_code(&e), cases[i].code, "cases[%zu]", i);
	}
	script("fail", "exit 1");
	assert_true(run("fail", "DEL", NULL) < 0);
}

static void test_plugin_is_searched_in_all_directories_of_cni_path(void **state)
{
	struct cni_call c = call();
	struct err e = ERR_INIT;
	auto_free char *link = xasprintf("%s/link", dir), *folder = xasprintf("%s/folder", dir);
	auto_free char *expected = NULL;
	auto_buf struct buf path;

	(void)state;
	buf_init(&path, 4096);
	script("real", "exit 0");
	ASSERT_EQ(symlink("real", link), 0);
	ASSERT_EQ(mkdir(folder, 0755), 0);
	ASSERT_EQ(cni_delegate_find("link", c.path, &path, &e), 0);
	ASSERT_STR_EQ(path.p, link);
	ASSERT_EQ(run("link", "CHECK", &e), 0);
	ASSERT_EQ(cni_delegate_find("folder", c.path, &path, &e), -ENOENT);
	expected = xasprintf("failed to find plugin \"folder\" in path [/nonexistent  %s]", dir);
	ASSERT_STR_EQ(e.text, expected);
	ASSERT_EQ(e.kind, ERR_UNAVAILABLE);
	ASSERT_EQ(cni_delegate_find("../real", c.path, &path, &e), -EINVAL);
	ASSERT_STR_EQ(e.text, "invalid plugin name: ../real");
	ASSERT_EQ(cni_delegate_find("", c.path, &path, &e), -EINVAL);
	ASSERT_STR_EQ(e.text, "no plugin name provided");
	ASSERT_EQ(cni_delegate_find("real", "", &path, &e), -EINVAL);
}

/* Input and output are larger than a pipe buffer; one plugin does not read its stdin. Output above
 * the limit of 4 MiB is an error. */
static void test_input_and_output_may_exceed_a_pipe_buffer(void **state)
{
	static char conf[300000];
	auto_result struct cni_result r = {0};
	struct err e = ERR_INIT;

	(void)state;
	memset(conf, ' ', sizeof(conf) - 1);
	script("much", "head -c 200000 /dev/zero | tr '\\0' ' '; cat; echo null");
	ASSERT_OK(add("much", conf, CNI_1_0_0, &r, &e), &e);
	script("deaf", "exec <&-; echo null");
	ASSERT_EQ(add("deaf", conf, CNI_1_0_0, &r, &e), 0);
	script("loud", "head -c 9000000 /dev/zero | tr '\\0' ' '; echo null");
	assert_true(add("loud", "{}", CNI_1_0_0, &r, &e) < 0);
}

/* A daemon that the plugin left behind has the pipes open: the caller does not wait for it. */
static void test_daemon_left_behind_by_a_plugin_does_not_delay_the_result(void **state)
{
	int64_t start = now_mono_ms();

	(void)state;
	script("daemon", "sleep 5 & exit 0");
	ASSERT_EQ(run("daemon", "DEL", NULL), 0);
	assert_in_range(now_mono_ms() - start, 0, 3000);
}

/* The plugin is being installed: another process has it open for writing at the first attempt. */
static void test_busy_plugin_file_is_retried(void **state)
{
	auto_free char *path = xasprintf("%s/busy", dir);
	auto_free char *copy = xasprintf("cp /bin/true %s", path);
	struct err e = ERR_INIT;
	pid_t writer;
	int fd;

	(void)state;
	ASSERT_EQ(system(copy), 0);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	writer = fork();
	if (writer == 0) {
		usleep(300000);
		_exit(0);
	}
	close(fd); /* the child has the file open for 300 ms */
	ASSERT_OK(run("busy", "DEL", &e), &e);
	ASSERT_EQ(fchmodat(AT_FDCWD, path, 0644, 0), 0);
	ASSERT_EQ(run("busy", "DEL", &e), -EACCES);
	assert_non_null(strstr(e.text, "Permission denied (EACCES)"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plugin_gets_cni_environment_and_configuration),
		cmocka_unit_test(
			test_results_of_other_cni_versions_are_parsed_and_invalid_ones_refused),
		cmocka_unit_test(test_error_of_the_plugin_is_passed_on),
		cmocka_unit_test(test_plugin_is_searched_in_all_directories_of_cni_path),
		cmocka_unit_test(test_input_and_output_may_exceed_a_pipe_buffer),
		cmocka_unit_test(test_daemon_left_behind_by_a_plugin_does_not_delay_the_result),
		cmocka_unit_test(test_busy_plugin_file_is_retried),
	};

	return T_RUN(tests, setup, teardown);
}
