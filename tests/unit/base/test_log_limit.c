/* SPDX-License-Identifier: Apache-2.0 */
#include "testlib.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "base/loop.h"

static char dir[T_DIR_MAX], path[128];
static struct root root, host;

static int setup(void **state)
{
	struct log_conf c = {LOG_INFO, LOG_LOGFMT, path, 0, 0};

	(void)state;
	t_dir_make(dir, &root);
	snprintf(path, sizeof(path), "%s/x.log", dir);
	log_limit_end();
	return root_open(&host, NULL, NULL) < 0 ? -1 : log_setup(&c, NULL);
}

static int teardown(void **state)
{
	(void)state;
	log_limit_end();
	log_setup(&(struct log_conf){.level = LOG_INFO}, NULL);
	root_close(&host);
	t_dir_remove(dir, &root);
	return 0;
}

/* Returns the lines logged since the last call, without their times; the caller frees. */
static char *logged(void)
{
	auto_buf struct buf b;
	struct buf lines;
	struct span rest, line;

	buf_init(&b, 64 << 20);
	buf_init(&lines, 64 << 20);
	ASSERT_EQ(file_read(&host, path, 64 << 20, &b, NULL), 0);
	rest = buf_span(&b);
	while (rest.n > 0) {
		span_cut(&rest, '\n', &line);
		assert_true(line.n > 28);
		buf_add(&lines, line.p + 28, line.n - 28);
		buf_char(&lines, '\n');
	}
	buf_str(&lines, "");
	ASSERT_EQ(truncate(path, 0), 0);
	return buf_take(&lines);
}

static void expect(const char *want)
{
	auto_free char *text = logged();

	ASSERT_STR_EQ(text ? text : "", want);
}

static size_t count_lines(const char *s)
{
	size_t n = 0;

	for (; s && *s; s++)
		n += *s == '\n';
	return n;
}

static void refuse_at(int64_t now_ms, const char *peer, const char *error)
{
	static struct log_place place;
	const struct log_kv kv[] = {LOG_S("peer", peer), LOG_S("error", error)};

	log_write_limited(&place, 1, now_ms, LOG_WARN, "refused", kv, 2);
}

static void test_flood_of_lines_becomes_a_few_lines_and_a_count(void **state)
{
	(void)state;
	for (int i = 0; i < 100000; i++)
		refuse_at(1000 + i / 10, "10.1.2.3", i % 2 ? "odd" : "even");
	expect("level=warn msg=refused peer=10.1.2.3 error=even\n"
	       "level=warn msg=refused peer=10.1.2.3 error=odd\n"
	       "level=warn msg=refused peer=10.1.2.3 error=even\n");
	ASSERT_EQ(log_limit_flush(11000), 50000);
	expect("");
	ASSERT_EQ(log_limit_flush(61000), -1);
	expect("level=warn msg=refused peer=10.1.2.3 suppressed=99997 seconds=60 last=odd\n");
	refuse_at(61001, "10.1.2.3", "again");
	expect("level=warn msg=refused peer=10.1.2.3 error=again\n");
}

/* If log_limit_flush() is not called, the subject's first line after the period writes the count
 * of that period. */
static void test_first_line_after_a_period_writes_the_count_of_the_period(void **state)
{
	(void)state;
	for (int i = 0; i < 5; i++)
		refuse_at(200000, "a", "x");
	refuse_at(260000, "a", "y");
	expect("level=warn msg=refused peer=a error=x\n"
	       "level=warn msg=refused peer=a error=x\n"
	       "level=warn msg=refused peer=a error=x\n"
	       "level=warn msg=refused peer=a suppressed=2 seconds=60 last=x\n"
	       "level=warn msg=refused peer=a error=y\n");
}

static void test_flood_of_one_subject_does_not_hide_another(void **state)
{
	(void)state;
	for (int i = 0; i < 1000; i++)
		refuse_at(400000, "loud", "x");
	free(logged());
	refuse_at(400001, "quiet", "y");
	expect("level=warn msg=refused peer=quiet error=y\n");
}

/* Each line names a different address: a peer can send from every address of its IPv6 prefix. */
static void test_lines_of_many_subjects_are_limited(void **state)
{
	auto_free char *text = NULL;
	uint64_t suppressed = 0, written = 0;
	char peer[32];

	(void)state;
	for (int i = 0; i < 100000; i++) {
		snprintf(peer, sizeof(peer), "fd00::%x", i);
		refuse_at(600000, peer, "x");
	}
	log_limit_flush(700000);
	text = logged();
	assert_true(count_lines(text) <= LOG_PLACE_LINES + 11);
	/* The sum of all counts equals the number of suppressed lines. */
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
		const char *n = strstr(line, "suppressed=");

		suppressed += n ? strtoull(n + strlen("suppressed="), NULL, 10) : 0;
		written += !n;
	}
	ASSERT_EQ(suppressed + written, 100000);
	/* In the next period lines are written again. */
	refuse_at(700001, "fd00::1", "x");
	expect("level=warn msg=refused peer=fd00::1 error=x\n");
}

/* 1000 subjects write lines for 500 s, more than eight periods. In each period their call site
 * reaches its limit, and lines of subjects without a row in the table are added to the count of
 * the call site. */
static void test_counts_of_many_subjects_over_several_periods_are_complete(void **state)
{
	auto_free char *text = NULL;
	uint64_t sum = 0;
	char peer[32];

	(void)state;
	for (int i = 0; i < 50000; i++) {
		snprintf(peer, sizeof(peer), "p%d", i % 1000);
		refuse_at(1000000 + i * 10, peer, "x");
	}
	log_limit_end();
	text = logged();
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
		const char *n = strstr(line, "suppressed=");

		sum += n ? strtoull(n + strlen("suppressed="), NULL, 10) : 1;
	}
	ASSERT_EQ(sum, 50000);
}

static void test_call_sites_are_limited_separately(void **state)
{
	(void)state;
	for (int i = 0; i < 5; i++) {
		log_limited(LOG_WARN, 1, "one", LOG_S("peer", "a"));
		log_limited(LOG_INFO, 2, "two", LOG_S("namespace", "n"), LOG_I("id", 7));
		log_limited(LOG_ERROR, 0, "three", LOG_S("error", "e"));
		log_limited(LOG_DEBUG, 0, "below the threshold");
	}
	free(logged());
	log_limit_end();
	{
		auto_free char *text = logged();

		ASSERT_EQ(count_lines(text), 3);
		assert_non_null(
			strstr(text, "level=warn msg=one peer=a suppressed=2 seconds=60\n"));
		assert_non_null(strstr(
			text, "level=info msg=two namespace=n id=7 suppressed=2 seconds=60\n"));
		assert_non_null(
			strstr(text, "level=error msg=three suppressed=2 seconds=60 last=e\n"));
	}
}

/* No event of a descriptor or timer wakes the loop before the period ends. */
static void test_loop_writes_counts_at_the_end_of_a_period(void **state)
{
	auto_free char *text = NULL;
	struct loop *l;
	int64_t now = now_mono_ms();
	int p[2];
	struct loop_fd *f;

	(void)state;
	ASSERT_EQ(loop_new(&l, NULL), 0);
	ASSERT_EQ(pipe(p), 0);
	ASSERT_EQ(loop_add_fd(l, p[0], 1, NULL, NULL, &f, NULL), 0);
	for (int i = 0; i < 5; i++)
		refuse_at(now - LOG_PERIOD_MS + 50, "p", "x");
	loop_add_timer(l, 20000, (loop_timer_fn)abort, NULL);
	{
		/*
		 * loop_run() does not return. So a child process runs the loop, and the test waits
		 * for the line that the child logs.
		 */
		pid_t pid = fork();

		if (pid == 0)
			_exit(loop_run(l));
		for (int i = 0; i < 1000 && !(text && strstr(text, "suppressed=2")); i++) {
			auto_buf struct buf b;

			usleep(10000);
			free(text);
			buf_init(&b, 1 << 20);
			file_read(&host, path, 1 << 20, &b, NULL);
			text = buf_take(&b);
		}
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	assert_non_null(strstr(text, "suppressed=2"));
	loop_free(l);
	close(p[0]);
	close(p[1]);
}

static void test_counts_are_written_at_exit(void **state)
{
	pid_t pid = fork();
	int status;

	(void)state;
	if (pid == 0) {
		for (int i = 0; i < 5; i++)
			refuse_at(1, "p", "x");
		exit(0);
	}
	waitpid(pid, &status, 0);
	expect("level=warn msg=refused peer=p error=x\n"
	       "level=warn msg=refused peer=p error=x\n"
	       "level=warn msg=refused peer=p error=x\n"
	       "level=warn msg=refused peer=p suppressed=2 seconds=60 last=x\n");
}

static void test_long_texts_of_limited_lines_are_truncated(void **state)
{
	char longest[5000];
	auto_free char *text = NULL;

	(void)state;
	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	for (int i = 0; i < 5; i++)
		refuse_at(1, longest, longest);
	free(logged());
	log_limit_end();
	text = logged();
	ASSERT_EQ(count_lines(text), 1);
	assert_true(strlen(text) < 400);
}

static void test_repeated_text_is_logged_once(void **state)
{
	struct log_once o = {0};

	(void)state;
	assert_false(log_once_clear(&o));
	assert_true(log_once(&o, "a"));
	assert_false(log_once(&o, "a"));
	assert_true(log_once(&o, "b"));
	assert_true(log_once(&o, "a"));
	assert_true(log_once_clear(&o));
	assert_false(log_once_clear(&o));
	assert_true(log_once(&o, NULL));
	assert_false(log_once(&o, ""));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_flood_of_lines_becomes_a_few_lines_and_a_count,
						setup, teardown),
		cmocka_unit_test_setup_teardown(
			test_first_line_after_a_period_writes_the_count_of_the_period, setup,
			teardown),
		cmocka_unit_test_setup_teardown(test_flood_of_one_subject_does_not_hide_another,
						setup, teardown),
		cmocka_unit_test_setup_teardown(test_lines_of_many_subjects_are_limited, setup,
						teardown),
		cmocka_unit_test_setup_teardown(
			test_counts_of_many_subjects_over_several_periods_are_complete, setup,
			teardown),
		cmocka_unit_test_setup_teardown(test_call_sites_are_limited_separately, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_loop_writes_counts_at_the_end_of_a_period,
						setup, teardown),
		cmocka_unit_test_setup_teardown(test_counts_are_written_at_exit, setup, teardown),
		cmocka_unit_test_setup_teardown(test_long_texts_of_limited_lines_are_truncated,
						setup, teardown),
		cmocka_unit_test(test_repeated_text_is_logged_once),
	};

	return T_RUN(tests, NULL, NULL);
}
