/* SPDX-License-Identifier: Apache-2.0 */
#include "testlib.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "wire/json/json.h"

static char dir[T_DIR_MAX], path[128];
static struct root root, host;

static int setup(void **state)
{
	(void)state;
	t_dir_make(dir, &root);
	snprintf(path, sizeof(path), "%s/sub/x.log", dir);
	return root_open(&host, NULL, NULL);
}

static int teardown(void **state)
{
	(void)state;
	root_close(&host);
	log_setup(&(struct log_conf){.level = LOG_INFO}, NULL);
	t_dir_remove(dir, &root);
	return 0;
}

static void open_log(enum log_format format, int64_t max_bytes, int max_files)
{
	struct log_conf c = {LOG_DEBUG, format, path, max_bytes, max_files};
	struct err e = ERR_INIT;

	ASSERT_OK(log_setup(&c, &e), &e);
}

static char *content(const char *suffix)
{
	auto_free char *name = xasprintf("%s%s", path, suffix);
	struct buf b;

	buf_init(&b, 1 << 22);
	if (file_read(&host, name, 1 << 22, &b, NULL) < 0)
		return NULL;
	return buf_take(&b);
}

/* Compares the text behind the timestamp of the log line, "ts=2024-01-02T03:04:05.678Z " (or the
 * same in JSON), and empties the file. */
static void expect(const char *want)
{
	auto_free char *text = content("");
	const char *s = text;

	assert_non_null(text);
	s += *s == '{' ? strlen("{\"ts\":\"") : strlen("ts=");
	ASSERT_EQ(s[4], '-');
	ASSERT_EQ(s[10], 'T');
	ASSERT_EQ(s[19], '.');
	ASSERT_EQ(s[23], 'Z');
	ASSERT_STR_EQ(s + 24 + (*text == '{' ? 2 : 1), want);
	ASSERT_EQ(truncate(path, 0), 0);
}

static void test_logfmt_quotes_values_with_special_characters(void **state)
{
	(void)state;
	open_log(LOG_LOGFMT, 0, 0);
	errno = EXDEV;
	log_info("attached", LOG_S("rail", "net1"), LOG_I("ms", -12), LOG_I("big", INT64_MIN));
	ASSERT_EQ(errno, EXDEV);
	expect("level=info msg=attached rail=net1 ms=-12 big=-9223372036854775808\n");
	log_warn("two words", LOG_S("e", ""), LOG_S("q", "say \"x\""), LOG_S("eq", "a=b"),
		 LOG_S("path", "C:\\x"), LOG_S("nl", "a\nb\tc\x01\x7f"),
		 LOG_S("u", "\xc3\xa9\xe2\x82\xac"));
	expect("level=warn msg=\"two words\" e=\"\" q=\"say \\\"x\\\"\" eq=\"a=b\" path=C:\\x "
	       "nl=\"a\\nb\\tc\\u0001\\u007f\" u=\xc3\xa9\xe2\x82\xac\n");
	log_error("bad", LOG_S("u", "a\xff\xe2\x82z\xed\xa0\x80\xc0\xaf\xf5"));
	expect("level=error msg=bad u=\"a\\ufffd\\ufffd\\ufffdz\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\"\n");
	log_debug("d");
	expect("level=debug msg=d\n");
}

static void test_json_lines_are_escaped(void **state)
{
	(void)state;
	open_log(LOG_JSON, 0, 0);
	log_info("a \"b\"", LOG_S("k", "\\\r\n\x1f"), LOG_I("n", 5), LOG_S("bad", "\xff"));
	expect("\"level\":\"info\",\"msg\":\"a \\\"b\\\"\",\"k\":\"\\\\\\r\\n\\u001f\",\"n\":5,"
	       "\"bad\":\"\\ufffd\"}\n");
}

static void test_context_keys_are_in_each_line(void **state)
{
	(void)state;
	open_log(LOG_LOGFMT, 0, 0);
	log_context("pod", "a/b");
	log_context("cid", "77");
	log_info("m", LOG_S("x", "1"));
	expect("level=info msg=m pod=a/b cid=77 x=1\n");
	log_context("pod", "c");
	log_context("cid", NULL);
	log_context("absent", NULL);
	log_info("m");
	expect("level=info msg=m pod=c\n");
	/* A key that the call passes replaces the key of the context. */
	log_info("m", LOG_S("pod", "mine"));
	expect("level=info msg=m pod=mine\n");
	log_context("pod", NULL);
	for (int i = 0; i < 20; i++) {
		char key[8];

		snprintf(key, sizeof(key), "k%d", i);
		log_context(key, "v");
	}
	log_info("m");
	expect("level=info msg=m k0=v k1=v k2=v k3=v k4=v k5=v k6=v k7=v\n");
	for (int i = 0; i < 20; i++) {
		char key[8];

		snprintf(key, sizeof(key), "k%d", i);
		log_context(key, NULL);
	}
}

static void test_lines_below_the_threshold_are_dropped(void **state)
{
	static const char *const names[] = {"debug", "INFO",  "Warn", "warning",
					    "error", "fatal", "panic"};
	static const enum log_level levels[] = {LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_WARN,
						LOG_ERROR, LOG_NONE, LOG_NONE};
	enum log_level v = LOG_WARN;

	(void)state;
	open_log(LOG_LOGFMT, 0, 0);
	log_threshold = LOG_WARN;
	log_info("no");
	log_warn("yes");
	expect("level=warn msg=yes\n");
	log_threshold = LOG_NONE;
	log_error("no");
	ASSERT_EQ(log_level_parse("loud", &v), -EINVAL);
	ASSERT_EQ(v, LOG_WARN);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		ASSERT_EQ_MSG(log_level_parse(names[i], &v), 0, "names[%zu]", i);
		ASSERT_EQ_MSG(v, levels[i], "names[%zu]", i);
	}
}

/* A value of any length gives one well-formed line; a truncated line has the key "cut". */
static void test_long_lines_are_truncated_and_well_formed(void **state)
{
	static char value[6000];

	(void)state;
	for (size_t n = 3900; n < 4300; n++) {
		for (int kind = 0; kind < 3; kind++) {
			struct err e = ERR_INIT;
			auto_free char *text = NULL;
			auto_json struct json_doc *d = NULL;
			size_t at = 0;

			while (at < n)
				at += (size_t)sprintf(value + at, "%s",
						      kind == 0	  ? "v"
						      : kind == 1 ? "\x01"
								  : "\xe2\x82\xac");
			open_log(LOG_JSON, 0, 0);
			log_info("m", LOG_S("a", value), LOG_I("b", 7), LOG_S("c", value),
				 LOG_I("d", 8));
			text = content("");
			ASSERT_EQ(truncate(path, 0), 0);
			assert_true(strlen(text) <= 4096);
			assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
			if (json_parse(&d, span_of(text), 8192, &e) < 0)
				fail_msg("%s: %s", e.text, text);
			assert_non_null(strstr(text, "\"cut\":true}"));
		}
	}
	memset(value, 'v', 3000);
	value[3000] = '\0';
	log_info("m", LOG_S("a", value));
	{
		auto_free char *text = content("");

		assert_null(strstr(text, "cut"));
		ASSERT_EQ(truncate(path, 0), 0);
	}
	open_log(LOG_LOGFMT, 0, 0);
	for (size_t n = 3900; n < 4100; n++) {
		auto_free char *text = NULL;

		memset(value, 'v', n);
		value[n / 2] = n % 2 ? ' ' : 'v';
		value[n] = '\0';
		log_info("m", LOG_S("a", value), LOG_I("b", INT64_MIN), LOG_S("c", "x"),
			 LOG_S("d", ""));
		text = content("");
		ASSERT_EQ(truncate(path, 0), 0);
		ASSERT_EQ(text[strlen(text) - 1], '\n');
		assert_true(strlen(text) <= 4096);
		if (n > 4060)
			assert_non_null(strstr(text, " cut=true\n"));
	}
}

static void test_full_file_is_rotated(void **state)
{
	(void)state;
	open_log(LOG_LOGFMT, 200, 2);
	for (int i = 0; i < 12; i++)
		log_info("0123456789", LOG_I("i", i));
	/* Lines have 58 or 59 bytes: three lines in a file. The newest file has no number. */
	for (int f = 0; f < 3; f++) {
		char suffix[8] = "", first[32];
		auto_free char *text = NULL;

		if (f)
			snprintf(suffix, sizeof(suffix), ".%d", f);
		text = content(suffix);
		assert_non_null(text);
		assert_true(strlen(text) <= 200);
		snprintf(first, sizeof(first), "i=%d\n", 9 - 3 * f);
		assert_non_null(strstr(text, first));
	}
	assert_null(content(".3"));
}

static void test_rotation_with_max_files_zero_keeps_no_old_file(void **state)
{
	auto_free char *text = NULL;

	(void)state;
	open_log(LOG_LOGFMT, 100, 0);
	for (int i = 0; i < 5; i++)
		log_info("0123456789", LOG_I("i", i));
	text = content("");
	assert_non_null(strstr(text, "i=4\n"));
	assert_null(strstr(text, "i=3\n"));
	assert_null(content(".1"));
}

static void test_removed_log_file_is_created_again(void **state)
{
	(void)state;
	open_log(LOG_LOGFMT, 0, 0);
	log_info("one");
	unlink(path);
	log_info("two");
	expect("level=info msg=two\n");
}

/* Several processes write to and rotate one file: no line is lost or mixed with another. */
static void test_concurrent_writers_lose_no_line(void **state)
{
	enum { WRITERS = 4, LINES = 200 };
	int seen[WRITERS] = {0};

	(void)state;
	for (int w = 0; w < WRITERS; w++)
		if (fork() == 0) {
			open_log(LOG_LOGFMT, 4000, 100);
			for (int i = 0; i < LINES; i++)
				log_info("line", LOG_I("w", w), LOG_I("i", i));
			_exit(0);
		}
	for (int w = 0; w < WRITERS; w++)
		wait(NULL);
	for (int f = 0; f <= 100; f++) {
		char suffix[8] = "";
		auto_free char *text = NULL;

		if (f)
			snprintf(suffix, sizeof(suffix), ".%d", f);
		text = content(suffix);
		for (char *line = text ? strtok(text, "\n") : NULL; line;
		     line = strtok(NULL, "\n")) {
			int w, i;

			ASSERT_EQ(sscanf(line + 28, "level=info msg=line w=%d i=%d", &w, &i), 2);
			seen[w]++;
		}
	}
	for (int w = 0; w < WRITERS; w++)
		ASSERT_EQ(seen[w], LINES);
}

static void test_invalid_log_files_are_refused(void **state)
{
	struct log_conf c = {LOG_DEBUG, LOG_LOGFMT, "relative.log", 0, 0};
	struct err e = ERR_INIT;
	char file[160];

	(void)state;
	ASSERT_EQ(log_setup(&c, &e), -EINVAL);
	ASSERT_STR_EQ(e.text, "log file 'relative.log': must be an absolute path");
	open_log(LOG_LOGFMT, 0, 0);
	snprintf(file, sizeof(file), "%s/x", path);
	c.path = file;
	ASSERT_EQ(log_setup(&c, &e), -ENOTDIR);
	/* The previous log file stays in use. */
	log_info("still");
	expect("level=info msg=still\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_logfmt_quotes_values_with_special_characters,
						setup, teardown),
		cmocka_unit_test_setup_teardown(test_json_lines_are_escaped, setup, teardown),
		cmocka_unit_test_setup_teardown(test_context_keys_are_in_each_line, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_lines_below_the_threshold_are_dropped, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_long_lines_are_truncated_and_well_formed,
						setup, teardown),
		cmocka_unit_test_setup_teardown(test_full_file_is_rotated, setup, teardown),
		cmocka_unit_test_setup_teardown(test_rotation_with_max_files_zero_keeps_no_old_file,
						setup, teardown),
		cmocka_unit_test_setup_teardown(test_removed_log_file_is_created_again, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_concurrent_writers_lose_no_line, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_invalid_log_files_are_refused, setup,
						teardown),
	};

	return T_RUN(tests, NULL, NULL);
}
