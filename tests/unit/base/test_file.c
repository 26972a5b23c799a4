/* SPDX-License-Identifier: Apache-2.0 */
#include "testlib.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <sys/wait.h>
#include <signal.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/sweep.h"
#include "base/file.h"
#include "base/loop.h"

/* The tests that use setup() have an empty directory `dir`. in: `dir` opened as a root; host:
 * "/" opened as a root. */
struct place {
	char dir[T_DIR_MAX];
	struct root in, host;
};

static int setup(void **state)
{
	struct place *p = xcalloc(1, sizeof(*p));

	t_dir_make_in_tmp(p->dir, &p->in);
	*state = p;
	return root_open(&p->host, NULL, NULL);
}

static int teardown(void **state)
{
	struct place *p = *state;

	root_close(&p->host);
	t_dir_remove(p->dir, &p->in);
	free(p);
	return 0;
}

static void put(const struct root *r, const char *path, const char *text)
{
	struct err e = ERR_INIT;

	ASSERT_OK(file_replace(r, path, span_of(text), 0644, &e), &e);
}

static void expect(const struct root *r, const char *path, const char *text)
{
	struct err e = ERR_INIT;
	auto_buf struct buf b;

	buf_init(&b, 1 << 20);
	ASSERT_OK(file_read(r, path, 1 << 20, &b, &e), &e);
	ASSERT_STR_EQ(b.p, text);
}

static size_t count(const struct root *r, const char *path)
{
	char **names = NULL;
	size_t n = 0;

	ASSERT_EQ(dir_list(r, path, &names, &n, NULL), 0);
	str_list_free(names, n);
	return n;
}

/*
 * A user with write access to the directory created a FIFO: open() would wait for a writer while
 * this process holds locks.
 */
static void test_open_of_a_fifo_fails_without_waiting(void **state)
{
	struct place *p = *state;
	struct err e = ERR_INIT;
	auto_buf struct buf b;
	char path[80], text[200];

	buf_init(&b, 100);
	snprintf(path, sizeof(path), "%s/fifo", p->dir);
	ASSERT_EQ(mkfifo(path, 0666), 0);
	alarm(10);
	ASSERT_EQ(file_read(&p->in, "/fifo", 12, &b, &e), -EINVAL);
	ASSERT_STR_EQ(e.text, "file '/fifo' is a FIFO, expected a regular file");
	ASSERT_EQ(file_read(&p->host, path, 12, &b, &e), -EINVAL);
	snprintf(text, sizeof(text), "file '%s' is a FIFO, expected a regular file", path);
	ASSERT_STR_EQ(e.text, text);
	ASSERT_EQ(file_read(&p->host, "/dev/null", 12, &b, &e), 0);
	assert_true(file_read(&p->host, p->dir, 12, &b, &e) == -EISDIR);
	alarm(0);
}

static void put_link(const struct place *p, const char *name, const char *target, uid_t owner)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", p->dir, name);
	ASSERT_EQ(symlink(target, path), 0);
	ASSERT_EQ(lchown(path, owner, owner), 0);
}

static int open_at(const struct root *r, const struct place *p, const char *name, int flags,
		   struct err *e)
{
	char path[160];
	int fd;

	snprintf(path, sizeof(path), "%s%s", p->dir, name);
	fd = file_open(r, path, flags, 0600, e);
	if (fd >= 0)
		close(fd);
	return fd < 0 ? fd : 0;
}

static void strict_tree(struct place *p)
{
	char path[160];

	ASSERT_EQ(chmod(p->dir, 0755), 0);
	put(&p->in, "/file", "x");
	ASSERT_EQ(dir_make(&p->in, "/real/deep", 0755, NULL), 0);
	ASSERT_EQ(dir_make(&p->in, "/open", 0755, NULL), 0);
	put(&p->in, "/real/deep/file", "y");
	put_link(p, "admin", "real", 0);
	snprintf(path, sizeof(path), "%s/real/../real", p->dir);
	put_link(p, "absolute", path, 0);
	put_link(p, "chain", "admin/deep/", 0);
	put_link(p, "last", "admin/deep/file", 0);
	put_link(p, "dangling", "real/new", 0);
	put_link(p, "circle", "circle", 0);
	put_link(p, "theirs", "real", 1000);
	put_link(p, "to-theirs", "theirs/deep", 0);
	put_link(p, "open/link", "../real", 0);
}

static bool is_there(const struct place *p, const char *name)
{
	char path[160];

	snprintf(path, sizeof(path), "%s%s", p->dir, name);
	return file_exists(&p->host, path);
}

/* Opens, creates, replaces, removes and locks files below a strict root (root.strict), through
 * each kind of symbolic link. */
static void strict_cases(struct place *p)
{
	const struct root r = {p->host.fd, true, true};
	char text[400], path[160];
	struct err e = ERR_INIT;
	int fd = -1;

	/* A strict root permits paths without symbolic links, links that only root can change,
	 * and, with O_PATH | O_NOFOLLOW, any link as the last name. */
	ASSERT_EQ(open_at(&r, p, "/file", O_RDWR, &e), 0);
	ASSERT_EQ(open_at(&r, p, "/real/deep/", O_PATH | O_DIRECTORY, &e), 0);
	ASSERT_EQ(open_at(&r, p, "/admin/deep/file", O_RDONLY, &e), 0);
	ASSERT_EQ(open_at(&r, p, "/absolute/deep/file", O_RDONLY, &e), 0);
	ASSERT_EQ(open_at(&r, p, "/chain/file", O_RDONLY, &e), 0);
	ASSERT_EQ(open_at(&r, p, "/last", O_RDONLY, &e), 0);
	ASSERT_EQ(open_at(&r, p, "/dangling", O_RDWR | O_CREAT, &e), 0);
	assert_true(is_there(p, "/real/new"));
	ASSERT_EQ(open_at(&r, p, "/admin/none", O_RDONLY, &e), -ENOENT);
	ASSERT_EQ(open_at(&r, p, "/admin/new/x", O_RDWR | O_CREAT, &e), -ENOTDIR);
	ASSERT_EQ(open_at(&r, p, "/circle", O_RDONLY, &e), -ELOOP);
	assert_null(strstr(e.text, "symbolic link that users"));
	ASSERT_EQ(open_at(&r, p, "/last", O_RDONLY | O_NOFOLLOW, &e), -ELOOP);
	ASSERT_EQ(open_at(&r, p, "/theirs", O_PATH | O_NOFOLLOW, &e), 0);

	/* A symbolic link that another user owns or can replace: the error names the link. */
	snprintf(text, sizeof(text),
		 "'%s/theirs' is a symbolic link that users other than root can change", p->dir);
	ASSERT_EQ(open_at(&r, p, "/theirs/deep/file", O_RDONLY, &e), -ELOOP);
	assert_non_null(strstr(e.text, text));
	ASSERT_EQ(open_at(&r, p, "/to-theirs/file", O_RDONLY, &e), -ELOOP);
	assert_non_null(strstr(e.text, text));
	ASSERT_EQ(open_at(&r, p, "/theirs", O_PATH | O_DIRECTORY, &e), -ELOOP);
	ASSERT_EQ(open_at(&r, p, "/open/link/deep", O_PATH, &e), 0);
	snprintf(path, sizeof(path), "%s/open", p->dir);
	ASSERT_EQ(chmod(path, 0777), 0);
	ASSERT_EQ(open_at(&r, p, "/open/link/deep", O_PATH, &e), -ELOOP);
	ASSERT_EQ(chmod(path, 01777), 0);
	ASSERT_EQ(open_at(&r, p, "/open/link/deep", O_PATH, &e), 0);
	ASSERT_EQ(chmod(path, 0755), 0);
	ASSERT_EQ(chown(path, 1000, 1000), 0);
	ASSERT_EQ(open_at(&r, p, "/open/link/deep", O_PATH, &e), -ELOOP);

	/* The same for functions that create, replace, remove and lock files. */
	snprintf(path, sizeof(path), "%s/theirs/new/folder", p->dir);
	ASSERT_EQ(dir_make(&r, path, 0755, &e), -ELOOP);
	assert_non_null(strstr(e.text, text));
	snprintf(path, sizeof(path), "%s/theirs/file", p->dir);
	ASSERT_EQ(file_replace(&r, path, span_of("z"), 0600, &e), -ELOOP);
	assert_non_null(strstr(e.text, text));
	ASSERT_EQ(file_remove(&r, path, &e), -ELOOP);
	ASSERT_EQ(lock_take(&r, path, 0, &fd, &e), -ELOOP);
	assert_non_null(strstr(e.text, text));
	snprintf(path, sizeof(path), "%s/theirs", p->dir);
	ASSERT_EQ(dir_make(&r, path, 0755, &e), -ELOOP);
	snprintf(path, sizeof(path), "%s/absolute/made/deep", p->dir);
	ASSERT_EQ(dir_make(&r, path, 0755, &e), 0);
	assert_true(is_there(p, "/real/made/deep"));
	assert_false(is_there(p, "/real/folder"));

	/* A root that is not strict follows all links. */
	ASSERT_EQ(open_at(&p->host, p, "/theirs/deep/file", O_RDONLY, &e), 0);

	/* Magic links of /proc are followed, and devices are opened. */
	for (size_t i = 0; i < 2; i++) {
		auto_fd int own =
			file_open(&r, i ? "/dev/null" : "/proc/self/exe", O_RDONLY, 0, &e);

		assert_true(own >= 0);
	}
}

static void test_links_of_other_users_are_refused_below_a_strict_root(void **state)
{
	strict_tree(*state);
	strict_cases(*state);
}

/* Makes openat2() fail: with ENOSYS as in Linux before 5.6, or with EPERM as in a container whose
 * seccomp filter does not know openat2(). */
static void refuse_openat2(int code)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned int)code),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = {ARRAY_LEN(filter), filter};

	ASSERT_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	ASSERT_EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
	ASSERT_EQ(syscall(SYS_openat2, 0, "/", NULL, 0), -1);
	ASSERT_EQ(errno, code);
}

static void without_openat2(struct place *p, int code)
{
	int status;
	pid_t pid;

	strict_tree(p);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		/* If an assertion fails, cmocka runs the remaining tests in the child, for 20 s at
		 * most. The child's exit status is then not 77. */
		alarm(20);
		refuse_openat2(code);
		strict_cases(p);
		_exit(77);
	}
	ASSERT_EQ(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	ASSERT_EQ(WEXITSTATUS(status), 77);
}

static void test_links_of_other_users_are_refused_without_openat2(void **state)
{
	without_openat2(*state, ENOSYS);
}

static void test_links_of_other_users_are_refused_if_openat2_is_filtered(void **state)
{
	without_openat2(*state, EPERM);
}

/*
 * Opening a FIFO for reading blocks until it has a writer; another user placed a FIFO where a lock
 * or a log is expected.
 */
static void test_fifo_in_place_of_a_file_is_refused(void **state)
{
	struct place *p = *state;
	const struct root r = {p->host.fd, true, true};
	struct err e = ERR_INIT;
	char path[128], text[200];
	int fd = -1;

	snprintf(path, sizeof(path), "%s/fifo", p->dir);
	snprintf(text, sizeof(text), "file '%s' is a FIFO, expected a regular file", path);
	ASSERT_EQ(mkfifo(path, 0666), 0);
	alarm(10);
	ASSERT_EQ(open_at(&r, p, "/fifo", O_RDONLY, &e), -EINVAL);
	ASSERT_STR_EQ(e.text, text);
	ASSERT_EQ(open_at(&r, p, "/fifo", O_RDWR | O_CREAT, &e), -EINVAL);
	ASSERT_EQ(open_at(&r, p, "/fifo", O_WRONLY | O_APPEND, &e), -ENXIO);
	ASSERT_EQ(lock_take(&r, path, 0, &fd, &e), -EINVAL);
	assert_non_null(strstr(e.text, text));
	ASSERT_EQ(lock_take(&p->host, path, 0, &fd, &e), -EINVAL);
	alarm(0);
	ASSERT_EQ(open_at(&r, p, "/fifo", O_PATH, &e), 0);
}

static void test_file_larger_than_the_read_limit_is_refused(void **state)
{
	struct place *p = *state;
	struct err e = ERR_INIT;
	auto_buf struct buf b;
	char line[8];

	put(&p->in, "/a", "first\nsecond\n");
	expect(&p->in, "/a", "first\nsecond\n");
	buf_init(&b, 100);
	ASSERT_EQ(file_read(&p->in, "/a", 13, &b, &e), 0);
	buf_reset(&b);
	ASSERT_EQ(file_read(&p->in, "/a", 12, &b, &e), -EFBIG);
	ASSERT_STR_EQ(e.text, "file '/a': read: more than 12 bytes");
	buf_reset(&b);
	ASSERT_EQ(file_read(&p->in, "/b", 12, &b, &e), -ENOENT);
	ASSERT_STR_EQ(e.text, "open '/b': No such file or directory (ENOENT)");
	ASSERT_EQ(file_read(&p->in, "a", 12, &b, &e), -EINVAL);
	ASSERT_STR_EQ(e.text, "open 'a' (must be an absolute path): Invalid argument (EINVAL)");
	ASSERT_EQ(file_read_line(&p->in, "/a", line, 6, &e), 0);
	ASSERT_STR_EQ(line, "first");
	ASSERT_EQ(file_read_line(&p->in, "/a", line, 5, &e), -EFBIG);
	put(&p->in, "/a", "x");
	ASSERT_EQ(file_read_line(&p->in, "/a", line, sizeof(line), &e), 0);
	ASSERT_STR_EQ(line, "x");
	put(&p->in, "/a", "");
	ASSERT_EQ(file_read_line(&p->in, "/a", line, sizeof(line), &e), 0);
	ASSERT_STR_EQ(line, "");
	ASSERT_EQ(file_read_line(&p->in, "/", line, sizeof(line), &e), -EISDIR);
	/* A file without end. */
	ASSERT_EQ(file_read(&p->host, "/dev/zero", 100, &b, &e), -EFBIG);
	ASSERT_EQ(file_read_line(&p->host, "/dev/zero", line, sizeof(line), &e), -EFBIG);
}

static void test_file_write_attr_writes_to_existing_files_only(void **state)
{
	struct place *p = *state;
	struct err e = ERR_INIT;

	ASSERT_EQ(file_write_attr(&p->in, "/a", "1", &e), -ENOENT);
	assert_false(file_exists(&p->in, "/a"));
	put(&p->in, "/a", "longer");
	assert_true(file_exists(&p->in, "/a"));
	ASSERT_EQ(file_write_attr(&p->in, "/a", "1", &e), 0);
	expect(&p->in, "/a", "1");
	ASSERT_EQ(file_write_attr(&p->host, "/dev/full", "1\n", &e), -ENOSPC);
	ASSERT_STR_EQ(e.text, "write '1' to '/dev/full': No space left on device (ENOSPC)");
}

/* Symbolic links are resolved within the root: a link to an absolute path or to ".." never
 * reaches a file outside. */
static void test_symbolic_links_do_not_leave_the_root(void **state)
{
	struct place *p = *state;
	struct err e = ERR_INIT;
	auto_buf struct buf b;
	char outside[128], target[64];

	buf_init(&b, 4096);
	snprintf(outside, sizeof(outside), "%s.outside", p->dir);
	put(&p->host, outside, "secret");
	ASSERT_EQ(dir_make(&p->in, "/d/e", 0755, &e), 0);
	put(&p->in, "/d/e/f", "inside");
	ASSERT_EQ(link_replace(&p->in, "/abs", "/d/e/f", &e), 0);
	expect(&p->in, "/abs", "inside");
	ASSERT_EQ(link_replace(&p->in, "/d/up", "../../../../d/e/f", &e), 0);
	expect(&p->in, "/d/up", "inside");
	ASSERT_EQ(link_replace(&p->in, "/out", outside, &e), 0);
	ASSERT_EQ(file_read(&p->in, "/out", 99, &b, &e), -ENOENT);
	ASSERT_EQ(link_replace(&p->in, "/dots", "/", &e), 0);
	ASSERT_EQ(file_replace(&p->in, "/dots/d/../../new", span_of("n"), 0600, &e), 0);
	expect(&p->in, "/new", "n");
	ASSERT_EQ(link_read(&p->in, "/dots", target, sizeof(target), &e), 0);
	ASSERT_STR_EQ(target, "/");
	ASSERT_EQ(link_read(&p->in, "/out", target, 5, &e), -ENAMETOOLONG);
	ASSERT_EQ(link_read(&p->in, "/new", target, sizeof(target), &e), -EINVAL);
	unlink(outside);
}

static void test_file_is_replaced_atomically_with_its_mode(void **state)
{
	struct place *p = *state;
	struct err e = ERR_INIT;
	char long_name[300] = "/";
	struct stat st;

	umask(077);
	put(&p->in, "/a", "one");
	ASSERT_EQ(file_replace(&p->in, "/a", span_of("two"), 0640, &e), 0);
	umask(022);
	expect(&p->in, "/a", "two");
	ASSERT_EQ(file_lstat(&p->in, "/a", &st, &e), 0);
	ASSERT_EQ(st.st_mode & 07777, 0640);
	ASSERT_EQ(count(&p->in, "/"), 1);
	ASSERT_EQ(file_replace(&p->in, "/none/a", span_of("x"), 0600, &e), -ENOENT);
	ASSERT_EQ(file_replace(&p->in, "/", span_of("x"), 0600, &e), -EINVAL);
	/* A name of the maximum length of 255 bytes works: the name of the temporary file, which
	 * has the same limit, contains only the first 240 bytes of it. */
	memset(long_name + 1, 'n', 255);
	ASSERT_EQ(file_replace(&p->in, long_name, span_of("x"), 0600, &e), 0);
	long_name[256] = 'n';
	ASSERT_EQ(file_replace(&p->in, long_name, span_of("x"), 0600, &e), -ENAMETOOLONG);
	ASSERT_EQ(count(&p->in, "/"), 2);
	/* file_replace() does not replace a directory, and it leaves no temporary file behind. */
	ASSERT_EQ(dir_make(&p->in, "/dir", 0755, &e), 0);
	ASSERT_EQ(file_replace(&p->in, "/dir", span_of("x"), 0600, &e), -EISDIR);
	ASSERT_EQ(count(&p->in, "/"), 3);
}

/* If the disk is full, the old file is retained and no temporary file remains. The test
 * simulates a full disk with a file size limit and, where mounting is permitted, with a tmpfs of
 * 8 KiB too. */
static void test_failed_replace_on_a_full_disk_retains_the_file(void **state)
{
	struct place *p = *state;
	struct err e = ERR_INIT;
	struct rlimit before, small = {4, RLIM_INFINITY};
	static char big[1 << 16];
	char path[128];

	put(&p->in, "/a", "old");
	memset(big, 'x', sizeof(big) - 1);
	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &before);
	small.rlim_max = before.rlim_max;
	setrlimit(RLIMIT_FSIZE, &small);
	ASSERT_EQ(file_replace(&p->in, "/a", span_of(big), 0600, &e), -EFBIG);
	setrlimit(RLIMIT_FSIZE, &before);
	ASSERT_STR_EQ(e.text, "replace '/a': write: File too large (EFBIG)");
	expect(&p->in, "/a", "old");
	ASSERT_EQ(count(&p->in, "/"), 1);

	ASSERT_EQ(dir_make(&p->in, "/t", 0755, &e), 0);
	snprintf(path, sizeof(path), "%s/t", p->dir);
	if (mount("tmpfs", path, "tmpfs", 0, "size=8k") < 0) {
		assert_int_not_equal(geteuid(), 0);
		return;
	}
	put(&p->in, "/t/a", "old");
	ASSERT_EQ(file_replace(&p->in, "/t/a", span_of(big), 0600, &e), -ENOSPC);
	expect(&p->in, "/t/a", "old");
	ASSERT_EQ(count(&p->in, "/t"), 1);
	umount(path);
}

/* file_sweep() removes only temporary files of the given name: another process may be writing
 * others. */
static void test_leftover_temporary_files_are_removed(void **state)
{
	struct place *p = *state;

	put(&p->in, "/f", "f");
	put(&p->in, "/.f.0123abcd.tmp", "left by a kill");
	put(&p->in, "/.f.g.0123abcd.tmp", "of f.g");
	put(&p->in, "/.ff.0123abcd.tmp", "of ff");
	file_sweep(&p->in, "/f");
	assert_false(file_exists(&p->in, "/.f.0123abcd.tmp"));
	expect(&p->in, "/f", "f");
	expect(&p->in, "/.f.g.0123abcd.tmp", "of f.g");
	expect(&p->in, "/.ff.0123abcd.tmp", "of ff");
	file_sweep(&p->in, "/none/f");
	/* file_sweep_dir() removes the temporary files of all names, and no other file. */
	file_sweep_dir(&p->in, "/");
	assert_false(file_exists(&p->in, "/.f.g.0123abcd.tmp"));
	assert_false(file_exists(&p->in, "/.ff.0123abcd.tmp"));
	expect(&p->in, "/f", "f");
	file_sweep_dir(&p->in, "/none");
	/* file_sweep_old() removes only temporary files last modified more than FILE_OLD_S
	 * seconds ago: other processes may still be writing to newer ones. */
	{
		auto_free char *old = xasprintf("%s/.f.0123abcd.tmp", p->dir);
		auto_free char *other = xasprintf("%s/old.tmp", p->dir);
		const struct timespec past[2] = {{.tv_sec = time(NULL) - FILE_OLD_S - 60},
						 {.tv_sec = time(NULL) - FILE_OLD_S - 60}};

		put(&p->in, "/.f.0123abcd.tmp", "");
		put(&p->in, "/.f.4567abcd.tmp", "");
		put(&p->in, "/old.tmp", "");
		ASSERT_EQ(utimensat(AT_FDCWD, old, past, 0), 0);
		ASSERT_EQ(utimensat(AT_FDCWD, other, past, 0), 0);
		file_sweep_old(&p->in, "/");
		assert_false(file_exists(&p->in, "/.f.0123abcd.tmp"));
		assert_true(file_exists(&p->in, "/.f.4567abcd.tmp"));
		assert_true(file_exists(&p->in, "/old.tmp"));
		file_sweep_old(&p->in, "/none");
	}
}

static void test_directories_are_created_and_listed(void **state)
{
	struct place *p = *state;
	struct err e = ERR_INIT;
	char **names = NULL;
	size_t n = 0;

	ASSERT_EQ(dir_make(&p->in, "/x//y/z/", 0755, &e), 0);
	ASSERT_EQ(dir_make(&p->in, "/x/y", 0755, &e), 0);
	ASSERT_EQ(dir_make(&p->in, "/", 0755, &e), 0);
	put(&p->in, "/x/f", "");
	ASSERT_EQ(dir_make(&p->in, "/x/f", 0755, &e), -ENOTDIR);
	ASSERT_EQ(dir_make(&p->in, "/x/f/g", 0755, &e), -ENOTDIR);
	ASSERT_STR_EQ(e.text, "create directory '/x/f': Not a directory (ENOTDIR)");
	ASSERT_EQ(dir_make(&p->in, "x", 0755, &e), -EINVAL);
	put(&p->in, "/x/b", "");
	put(&p->in, "/x/B", "");
	ASSERT_EQ(dir_list(&p->in, "/x", &names, &n, &e), 0);
	ASSERT_EQ(n, 4);
	ASSERT_STR_EQ(names[0], "B");
	ASSERT_STR_EQ(names[1], "b");
	ASSERT_STR_EQ(names[2], "f");
	ASSERT_STR_EQ(names[3], "y");
	str_list_free(names, n);
	ASSERT_EQ(dir_list(&p->in, "/x/f", &names, &n, &e), -ENOTDIR);
	ASSERT_EQ(file_remove(&p->in, "/x/f", &e), 0);
	ASSERT_EQ(file_remove(&p->in, "/x/f", &e), 0);
	ASSERT_EQ(file_remove(&p->in, "/none/f", &e), 0);
	ASSERT_EQ(file_remove(&p->in, "/x", &e), -EISDIR);
}

static void test_files_are_renamed_and_linked_atomically(void **state)
{
	struct place *p = *state;
	struct err e = ERR_INIT;
	char target[16];

	put(&p->in, "/a", "a");
	put(&p->in, "/b", "b");
	ASSERT_EQ(file_rename(&p->in, "/a", "/b", true, &e), -EEXIST);
	expect(&p->in, "/b", "b");
	ASSERT_EQ(file_rename(&p->in, "/a", "/b", false, &e), 0);
	expect(&p->in, "/b", "a");
	ASSERT_EQ(file_rename(&p->in, "/a", "/c", true, &e), -ENOENT);
	ASSERT_STR_EQ(e.text, "rename '/a' to '/c': No such file or directory (ENOENT)");
	ASSERT_EQ(file_rename(&p->in, "/b", "/c", true, &e), 0);
	/* A symbolic link replaces an existing file atomically. */
	ASSERT_EQ(link_replace(&p->in, "/c", "t1", &e), 0);
	ASSERT_EQ(link_replace(&p->in, "/c", "t2", &e), 0);
	ASSERT_EQ(link_read(&p->in, "/c", target, sizeof(target), &e), 0);
	ASSERT_STR_EQ(target, "t2");
	ASSERT_EQ(count(&p->in, "/"), 1);
}

/* After file_temp_commit() the program is closed for writing, so it can be executed. */
static void test_temporary_program_is_executable_after_commit(void **state)
{
	struct place *p = *state;
	struct err e = ERR_INIT;
	char path[128];
	pid_t pid;
	int status;

	struct file_temp t = FILE_TEMP_INIT;

	ASSERT_EQ(file_temp_open(&p->in, "/run", 0755, &t, &e), 0);
	ASSERT_EQ(count(&p->in, "/"), 1);
	file_temp_abort(&t);
	file_temp_abort(&t);
	ASSERT_EQ(count(&p->in, "/"), 0);
	ASSERT_EQ(file_temp_open(&p->in, "/run", 0755, &t, &e), 0);
	ASSERT_EQ(fd_write_all(t.fd, "#!/bin/sh\nexit 7\n", 17, &e), 0);
	ASSERT_EQ(file_temp_commit(&t, &e), 0);
	snprintf(path, sizeof(path), "%s/run", p->dir);
	pid = fork();
	if (pid == 0) {
		execl(path, path, (char *)NULL);
		_exit(99);
	}
	waitpid(pid, &status, 0);
	ASSERT_EQ(WEXITSTATUS(status), 7);
}

static void test_second_lock_of_a_file_fails_after_its_timeout(void **state)
{
	struct place *p = *state;
	struct err e = ERR_INIT;
	int fd = -1, other = -1;
	int64_t start;
	struct stat st;

	ASSERT_EQ(lock_is_held(&p->in, "/l"), -ENOENT);
	ASSERT_EQ(lock_take(&p->in, "/l", 0, &fd, &e), 0);
	ASSERT_EQ(lock_is_held(&p->in, "/l"), 1);
	ASSERT_EQ(file_lstat(&p->in, "/l", &st, &e), 0);
	ASSERT_EQ(st.st_mode & 07777, 0600);
	start = now_mono_ms();
	ASSERT_EQ(lock_take(&p->in, "/l", 60, &other, &e), -EWOULDBLOCK);
	assert_in_range(now_mono_ms() - start, 60, 2000);
	ASSERT_EQ(e.kind, ERR_AGAIN);
	ASSERT_STR_EQ(e.text, "lock '/l': another process held it for 60 ms");
	ASSERT_EQ(other, -1);
	close(fd);
	ASSERT_EQ(lock_is_held(&p->in, "/l"), 0);
	ASSERT_EQ(lock_take(&p->in, "/l", 0, &other, &e), 0);
	close(other);
	ASSERT_EQ(lock_take(&p->in, "/none/l", 0, &other, &e), -ENOENT);
}

/* If the lock file is removed while a process waits for its lock, the process locks a new file
 * of the same name instead of the removed one. */
static void test_lock_of_a_file_removed_during_the_wait_is_taken_on_a_new_file(void **state)
{
	struct place *p = *state;
	int first, second = -1, third = -1, status;
	pid_t pid;

	ASSERT_EQ(lock_take(&p->in, "/l", 0, &first, NULL), 0);
	pid = fork();
	if (pid == 0) {
		usleep(30000);
		file_remove(&p->in, "/l", NULL);
		/* the exit closes the child's copy of the descriptor `first`, which releases the
		 * lock */
		_exit(0);
	}
	close(first);
	ASSERT_EQ(lock_take(&p->in, "/l", 5000, &second, NULL), 0);
	ASSERT_EQ(lock_take(&p->in, "/l", 0, &third, NULL), -EWOULDBLOCK);
	waitpid(pid, &status, 0);
	close(second);
}

static void test_lock_is_released_when_its_process_dies(void **state)
{
	struct place *p = *state;
	int fd = -1, pipes[2], status;
	char c;
	pid_t pid;

	ASSERT_EQ(pipe(pipes), 0);
	pid = fork();
	if (pid == 0) {
		if (lock_take(&p->in, "/l", 0, &fd, NULL) < 0 || write(pipes[1], "x", 1) != 1)
			_exit(1);
		pause();
	}
	ASSERT_EQ(read(pipes[0], &c, 1), 1);
	ASSERT_EQ(lock_take(&p->in, "/l", 0, &fd, NULL), -EWOULDBLOCK);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	ASSERT_EQ(lock_take(&p->in, "/l", -1, &fd, NULL), 0);
	close(fd);
	close(pipes[0]);
	close(pipes[1]);
}

static void test_missing_root_directory_is_an_error(void **state)
{
	struct err e = ERR_INIT;
	struct root r = {.fd = -1};

	(void)state;
	ASSERT_EQ(root_open(&r, "/no/such", &e), -ENOENT);
	ASSERT_STR_EQ(e.text, "open root directory '/no/such': No such file or directory (ENOENT)");
	ASSERT_EQ(root_open(&r, "/", &e), 0);
	assert_true(r.host);
	assert_true(file_exists(&r, "/proc/self/exe"));
	root_close(&r);
	ASSERT_EQ(r.fd, -1);
}

static void test_relative_path_becomes_absolute(void **state)
{
	char cwd[4096];
	char *a = path_absolute("/etc/x"), *b = path_absolute("pools"), *c;

	(void)state;
	ASSERT_STR_EQ(a, "/etc/x");
	assert_non_null(getcwd(cwd, sizeof(cwd)));
	assert_memory_equal(b, cwd, strlen(cwd));
	ASSERT_STR_EQ(b + strlen(cwd), "/pools");
	assert_null(path_absolute(NULL));
	free(a);
	free(b);
	ASSERT_EQ(chdir("/"), 0);
	c = path_absolute("pools");
	ASSERT_EQ(chdir(cwd), 0);
	ASSERT_STR_EQ(c, "/pools");
	free(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_relative_path_becomes_absolute),
		cmocka_unit_test_setup_teardown(test_open_of_a_fifo_fails_without_waiting, setup,
						teardown),
		cmocka_unit_test_setup_teardown(
			test_links_of_other_users_are_refused_below_a_strict_root, setup, teardown),
		cmocka_unit_test_setup_teardown(
			test_links_of_other_users_are_refused_without_openat2, setup, teardown),
		cmocka_unit_test_setup_teardown(
			test_links_of_other_users_are_refused_if_openat2_is_filtered, setup,
			teardown),
		cmocka_unit_test_setup_teardown(test_fifo_in_place_of_a_file_is_refused, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_file_larger_than_the_read_limit_is_refused,
						setup, teardown),
		cmocka_unit_test_setup_teardown(test_file_write_attr_writes_to_existing_files_only,
						setup, teardown),
		cmocka_unit_test_setup_teardown(test_symbolic_links_do_not_leave_the_root, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_file_is_replaced_atomically_with_its_mode,
						setup, teardown),
		cmocka_unit_test_setup_teardown(test_failed_replace_on_a_full_disk_retains_the_file,
						setup, teardown),
		cmocka_unit_test_setup_teardown(test_leftover_temporary_files_are_removed, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_directories_are_created_and_listed, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_files_are_renamed_and_linked_atomically, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_temporary_program_is_executable_after_commit,
						setup, teardown),
		cmocka_unit_test_setup_teardown(test_second_lock_of_a_file_fails_after_its_timeout,
						setup, teardown),
		cmocka_unit_test_setup_teardown(
			test_lock_of_a_file_removed_during_the_wait_is_taken_on_a_new_file, setup,
			teardown),
		cmocka_unit_test_setup_teardown(test_lock_is_released_when_its_process_dies, setup,
						teardown),
		cmocka_unit_test(test_missing_root_directory_is_an_error),
	};

	return T_RUN(tests, NULL, NULL);
}
