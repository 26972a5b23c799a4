/* SPDX-License-Identifier: Apache-2.0 */
/* The listening socket of a daemon: created, inherited, refused, removed. */
#include "testlib.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "ipam_lab.h"
#include "server/listener.h"

static int bind_at(const char *path, bool listens)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	str_copy(a.sun_path, sizeof(a.sun_path), path);
	ASSERT_EQ(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	if (listens)
		ASSERT_EQ(listen(fd, 1), 0);
	return fd;
}

static bool answers(const char *path)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	auto_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	str_copy(a.sun_path, sizeof(a.sun_path), path);
	return connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0;
}

static bool is_there(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0;
}

static void fails(const char *path, int code, const char *expected)
{
	struct listener l = LISTENER_INIT;
	struct err e = ERR_INIT;

	ASSERT_EQ(listener_open(&l, path, &e), code);
	ASSERT_HAS(e.text, expected);
	ASSERT_EQ(l.fd, -1);
	ASSERT_EQ(l.lock, -1);
}

static void test_listener_creates_and_removes_its_socket(void **state)
{
	auto_free char *path = il_path(&il_lab, "/new/folder/sock");
	struct listener l;
	struct stat st;

	(void)state;
	ASSERT_EQ(listener_open(&l, path, NULL), 0);
	ASSERT_EQ(lstat(path, &st), 0);
	assert_true(S_ISSOCK(st.st_mode));
	ASSERT_EQ(st.st_mode & 07777, 0600);
	assert_true(answers(path));
	listener_close(&l);
	assert_false(is_there(path));
	listener_close(&l);
}

static void test_second_server_is_refused_until_the_first_closes(void **state)
{
	auto_free char *path = il_path(&il_lab, "/sock");
	struct listener l;

	(void)state;
	ASSERT_EQ(listener_open(&l, path, NULL), 0);
	fails(path, -EWOULDBLOCK, "another server uses '");
	assert_true(answers(path));
	/* After listener_hide() the lock is still held: the next server can start only after
	 * listener_close(). */
	listener_hide(&l);
	fails(path, -EWOULDBLOCK, "another server uses '");
	listener_close(&l);
	ASSERT_EQ(listener_open(&l, path, NULL), 0);
	listener_close(&l);
}

static void test_socket_path_is_refused_while_its_server_lives_and_reused_afterwards(void **state)
{
	auto_free char *path = il_path(&il_lab, "/sock");
	struct listener l;
	int fd = bind_at(path, true);

	(void)state;
	/* A server that is not unirail does not take the lock file. */
	fails(path, -EADDRINUSE, "another program listens on '");
	assert_true(answers(path));
	close(fd);
	/* The other program has ended and its socket file still exists: unirail replaces it. */
	ASSERT_EQ(listener_open(&l, path, NULL), 0);
	assert_true(answers(path));
	/* Another process replaced the socket: the server must not remove the new one. */
	unlink(path);
	fd = bind_at(path, true);
	listener_close(&l);
	assert_true(answers(path));
	close(fd);
	unlink(path);
	il_write(&il_lab, "/x/file", "");
	free(take(path));
	path = il_path(&il_lab, "/x/file");
	fails(path, -EEXIST, "is not a socket");
	assert_true(is_there(path));
}

static void test_invalid_socket_paths_are_refused(void **state)
{
	char path[200] = "/tmp/";

	(void)state;
	memset(path + 5, 'x', 150);
	fails(path, -ENAMETOOLONG, "at most 107 bytes");
	fails("relative", -EINVAL, "absolute path");
	fails("/proc/none/sock", -ENOENT, "/proc/none");
}

/* Passes the socket as systemd does: as descriptor 3, with LISTEN_PID and LISTEN_FDS. Returns
 * the result of listener_inherit(); -1000: wrong descriptor or flags; -1001: a variable is still
 * set. */
static int inherit(const char *pid, const char *fds, int fd, struct err *e)
{
	struct listener l;
	int r;

	if (fd >= 0)
		dup2(fd, 3);
	setenv("LISTEN_PID", pid, 1);
	setenv("LISTEN_FDS", fds, 1);
	r = listener_inherit(&l, e);
	if (r == 1 &&
	    (l.fd != 3 || !(fcntl(3, F_GETFD) & FD_CLOEXEC) || !(fcntl(3, F_GETFL) & O_NONBLOCK)))
		r = -1000;
	if (getenv("LISTEN_FDS") || getenv("LISTEN_PID"))
		r = -1001;
	return r;
}

static int inherits(const char *path)
{
	struct err e = ERR_INIT;
	char me[20];
	int fd = bind_at(path, true);

	snprintf(me, sizeof(me), "%d", getpid());
	T_NEED(inherit(me, "1", fd, &e) == 1);
	T_NEED(inherit("1", "1", fd, &e) == 0);
	T_NEED(inherit(me, "0", fd, &e) == 0);
	T_NEED(inherit(me, "x", fd, &e) == 0);
	T_NEED(inherit(me, "2", fd, &e) == -EINVAL && strstr(e.text, "passed 2 sockets"));
	T_NEED(inherit(me, "1", open("/dev/null", O_RDONLY | O_CLOEXEC), &e) == -EINVAL);
	T_NEED(strstr(e.text, "no listening UNIX stream socket"));
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	T_NEED(inherit(me, "1", fd, &e) == -EINVAL);
	return 0;
}

static void test_socket_inherited_from_systemd_is_used_and_not_removed(void **state)
{
	auto_free char *path = il_path(&il_lab, "/sock");

	(void)state;
	ASSERT_EQ(t_in_child(inherits, path), 0);
	assert_true(is_there(path));
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, il_setup, il_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_listener_creates_and_removes_its_socket),
		TEST(test_second_server_is_refused_until_the_first_closes),
		TEST(test_socket_path_is_refused_while_its_server_lives_and_reused_afterwards),
		TEST(test_invalid_socket_paths_are_refused),
		TEST(test_socket_inherited_from_systemd_is_used_and_not_removed),
	};

	return T_RUN(tests, NULL, NULL);
}
