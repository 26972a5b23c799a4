/* SPDX-License-Identifier: Apache-2.0 */
#include "testlib.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cli/install/swap.h"

static char dir[T_DIR_MAX];
static struct root root;

static int setup(void **state)
{
	(void)state;
	t_dir_make(dir, &root);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	t_dir_remove(dir, &root);
	return 0;
}

static void put(const char *path, const char *text)
{
	ASSERT_EQ(file_replace(&root, path, span_of(text), 0644, NULL), 0);
}

static void expect(const char *path, const char *text)
{
	auto_buf struct buf b;

	buf_init(&b, 1 << 20);
	ASSERT_EQ(file_read(&root, path, 1 << 20, &b, NULL), 0);
	ASSERT_STR_EQ(b.p, text);
}

static size_t count(void)
{
	char **names = NULL;
	size_t n = 0;

	ASSERT_EQ(dir_list(&root, "/", &names, &n, NULL), 0);
	str_list_free(names, n);
	return n;
}

static struct swap begin(void)
{
	struct swap s = SWAP_INIT;
	struct err e = ERR_INIT;

	ASSERT_OK(swap_open(&s, &root, "/", &e), &e);
	return s;
}

static void test_every_kind_of_change_is_committed(void **state)
{
	struct swap s;
	char target[32];
	struct stat st;
	int fd;

	(void)state;
	put("/changed", "old");
	put("/dropped", "old");
	put("/source", "content");
	put("/linked", "file");
	s = begin();
	fd = file_open(&root, "/source", 0, 0, NULL);
	ASSERT_EQ(swap_text(&s, "changed", span_of("new"), 0640, NULL), 0);
	ASSERT_EQ(swap_copy(&s, "copied", fd, 0755, NULL), 0);
	ASSERT_EQ(swap_link(&s, "linked", "changed", NULL), 0);
	ASSERT_EQ(swap_same(&s, "second", "dropped", NULL), 0);
	swap_drop(&s, "dropped");
	swap_drop(&s, "never-there");
	close(fd);
	expect("/changed", "old");
	ASSERT_EQ(swap_commit(&s, NULL), 0);
	swap_close(&s);
	expect("/changed", "new");
	expect("/copied", "content");
	ASSERT_EQ(link_read(&root, "/linked", target, sizeof(target), NULL), 0);
	ASSERT_STR_EQ(target, "changed");
	expect("/second", "old");
	assert_false(file_exists(&root, "/dropped"));
	ASSERT_EQ(file_lstat(&root, "/copied", &st, NULL), 0);
	ASSERT_EQ(st.st_mode & 07777, 0755);
	ASSERT_EQ(st.st_nlink, 1);
	ASSERT_EQ(count(), 5);
}

static void test_close_without_commit_changes_nothing(void **state)
{
	struct swap s;

	(void)state;
	put("/a", "old");
	s = begin();
	ASSERT_EQ(swap_text(&s, "a", span_of("new"), 0644, NULL), 0);
	ASSERT_EQ(swap_link(&s, "b", "a", NULL), 0);
	swap_drop(&s, "a");
	ASSERT_EQ(count(), 3);
	swap_close(&s);
	expect("/a", "old");
	ASSERT_EQ(count(), 1);
}

/* The fourth of five changes fails: the first three changes are undone. */
static void test_failed_commit_is_rolled_back(void **state)
{
	struct swap s;
	struct err e = ERR_INIT;
	char command[160];

	(void)state;
	put("/a", "old a");
	put("/b", "old b");
	put("/c", "old c");
	s = begin();
	ASSERT_EQ(swap_text(&s, "a", span_of("new"), 0644, NULL), 0);
	swap_drop(&s, "b");
	ASSERT_EQ(swap_text(&s, "fresh", span_of("new"), 0644, NULL), 0);
	ASSERT_EQ(swap_text(&s, "c", span_of("lost"), 0644, NULL), 0);
	ASSERT_EQ(swap_link(&s, "d", "a", NULL), 0);
	/* Another process removes the temporary file of c. */
	snprintf(command, sizeof(command), "cd '%s' && rm \"$(grep -l lost .unirail-swap.*)\"",
		 dir);
	ASSERT_EQ(system(command), 0);
	ASSERT_EQ(swap_commit(&s, &e), -ENOENT);
	ASSERT_STR_EQ(e.text, "change 'c': No such file or directory (ENOENT)");
	swap_close(&s);
	expect("/a", "old a");
	expect("/b", "old b");
	expect("/c", "old c");
	ASSERT_EQ(count(), 3);
}

static void test_commit_that_would_replace_a_directory_changes_nothing(void **state)
{
	struct swap s;
	struct err e = ERR_INIT;

	(void)state;
	put("/a", "old");
	ASSERT_EQ(dir_make(&root, "/d", 0755, NULL), 0);
	s = begin();
	ASSERT_EQ(swap_text(&s, "a", span_of("new"), 0644, NULL), 0);
	ASSERT_EQ(swap_text(&s, "d", span_of("new"), 0644, NULL), 0);
	ASSERT_EQ(swap_commit(&s, &e), -EPERM);
	ASSERT_STR_EQ(
		e.text,
		"give 'd' a second name before it is replaced or removed: Operation not permitted (EPERM)");
	swap_close(&s);
	expect("/a", "old");
	ASSERT_EQ(count(), 2);
}

static void test_leftover_temporary_files_are_removed(void **state)
{
	struct swap s;

	(void)state;
	put("/.unirail-swap.01234567.tmp", "x");
	put("/.unirail-swap.other", "x");
	put("/.unirail-install.json", "x");
	s = begin();
	ASSERT_EQ(count(), 2);
	swap_close(&s);
}

static void test_errors_name_the_file_or_link(void **state)
{
	struct swap s;
	struct err e = ERR_INIT;

	(void)state;
	s = begin();
	ASSERT_EQ(swap_same(&s, "b", "none", &e), -ENOENT);
	ASSERT_STR_EQ(e.text, "link 'b' to 'none': No such file or directory (ENOENT)");
	swap_close(&s);
	ASSERT_EQ(swap_open(&s, &root, "/none", &e), -ENOENT);
	ASSERT_STR_EQ(e.text, "open '/none': No such file or directory (ENOENT)");
}

/* A full disk is detected before the first change. */
static void test_full_disk_changes_nothing(void **state)
{
	static char big[1 << 16];
	struct swap s;
	struct err e = ERR_INIT;

	(void)state;
	if (mount("tmpfs", dir, "tmpfs", 0, "size=16k") < 0) {
		assert_int_not_equal(geteuid(), 0);
		return;
	}
	root_close(&root);
	ASSERT_EQ(root_open(&root, dir, NULL), 0);
	memset(big, 'x', sizeof(big) - 1);
	put("/a", "old");
	s = begin();
	ASSERT_EQ(swap_link(&s, "l", "a", NULL), 0);
	ASSERT_EQ(swap_text(&s, "a", span_of(big), 0644, &e), -ENOSPC);
	ASSERT_STR_EQ(e.text, "file 'a': write: No space left on device (ENOSPC)");
	swap_close(&s);
	expect("/a", "old");
	ASSERT_EQ(count(), 1);
	root_close(&root);
	ASSERT_EQ(umount2(dir, MNT_DETACH), 0);
	ASSERT_EQ(root_open(&root, dir, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_every_kind_of_change_is_committed, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_close_without_commit_changes_nothing, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_failed_commit_is_rolled_back, setup, teardown),
		cmocka_unit_test_setup_teardown(
			test_commit_that_would_replace_a_directory_changes_nothing, setup,
			teardown),
		cmocka_unit_test_setup_teardown(test_leftover_temporary_files_are_removed, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_errors_name_the_file_or_link, setup, teardown),
		cmocka_unit_test_setup_teardown(test_full_disk_changes_nothing, setup, teardown),
	};

	return T_RUN(tests, NULL, NULL);
}
