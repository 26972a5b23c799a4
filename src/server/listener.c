/* SPDX-License-Identifier: Apache-2.0 */
#include "server/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/num.h"

/* LOCK_MS: wait for the lock. A server that is being replaced releases the lock before it finishes
 * its open requests. */
enum { LOCK_MS = 2000, BACKLOG = 1024, SYSTEMD_FD = 3 };

static int address(struct sockaddr_un *a, const char *path, struct err *e)
{
	*a = (struct sockaddr_un){.sun_family = AF_UNIX};
	if (*path != '/')
		return err_kind(e, ERR_CONF, -EINVAL, "socket is '%s', expected an absolute path",
				path);
	if (!str_copy(a->sun_path, sizeof(a->sun_path), path))
		return err_kind(e, ERR_CONF, -ENAMETOOLONG,
				"socket '%s': a socket's path has at most %zu bytes", path,
				sizeof(a->sun_path) - 1);
	return 0;
}

static int take_lock(struct listener *l, const struct root *r, const char *path, struct err *e)
{
	auto_free char *lock = xasprintf("%s.lock", path);
	int n = lock_take(r, lock, LOCK_MS, &l->lock, e);

	if (n == -EWOULDBLOCK)
		return err_kind(e, ERR_UNAVAILABLE, n,
				"another server uses '%s' (it has locked '%s'): stop it first",
				path, lock);
	return n;
}

/* Returns 1 if a process accepts connections at the path, 0 if none does, or -errno. */
static int is_alive(const struct sockaddr_un *a)
{
	auto_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	if (connect(fd, (const struct sockaddr *)a, sizeof(*a)) == 0 || errno == EAGAIN)
		return 1;
	return errno == ECONNREFUSED || errno == ENOENT ? 0 : -errno;
}

static int clear_place(const struct root *r, const struct sockaddr_un *a, struct err *e)
{
	const char *path = a->sun_path;
	struct stat st;
	int n = file_lstat(r, path, &st, NULL);

	if (n == -ENOENT)
		return 0;
	if (n < 0)
		return err_sys(e, n, "stat '%s'", path);
	if (!S_ISSOCK(st.st_mode))
		return err_kind(e, ERR_CONF, -EEXIST,
				"'%s' exists and is not a socket: remove it, or name another path",
				path);
	n = is_alive(a);
	if (n < 0)
		return err_sys(e, n, "check whether a program listens on '%s'", path);
	if (n > 0)
		return err_kind(e, ERR_UNAVAILABLE, -EADDRINUSE,
				"another program listens on '%s': stop it first", path);
	return file_remove(r, path, e);
}

static int bind_and_listen(struct listener *l, const struct sockaddr_un *a, struct err *e)
{
	mode_t old = umask(0177);
	struct stat st;
	int r = 0;

	if (bind(l->fd, (const struct sockaddr *)a, sizeof(*a)) < 0)
		r = -errno;
	umask(old);
	if (r == 0 && (lstat(a->sun_path, &st) < 0 || listen(l->fd, BACKLOG) < 0))
		r = -errno;
	if (r < 0)
		return err_sys(e, r, "listen on '%s'", a->sun_path);
	l->dev = st.st_dev;
	l->ino = st.st_ino;
	return 0;
}

static int open_here(struct listener *l, const struct root *root, const char *path, struct err *e)
{
	struct sockaddr_un a;
	int r = address(&a, path, e);

	if (r == 0)
		r = dir_make_parent(root, path, 0755, e);
	if (r == 0)
		r = take_lock(l, root, path, e);
	if (r == 0)
		r = clear_place(root, &a, e);
	if (r < 0)
		return r;
	l->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (l->fd < 0)
		return err_sys(e, -errno, "open a UNIX socket");
	l->path = xstrdup(path);
	return bind_and_listen(l, &a, e);
}

int listener_open(struct listener *l, const char *path, struct err *e)
{
	struct root root;
	int r = root_open(&root, NULL, e);

	*l = (struct listener)LISTENER_INIT;
	if (r < 0)
		return r;
	r = open_here(l, &root, path, e);
	root_close(&root);
	if (r < 0)
		listener_close(l);
	return r;
}

/* --- sockets passed by systemd --- */

static bool sock_is(int fd, int option, int want)
{
	int value = -1;
	socklen_t n = sizeof(value);

	return getsockopt(fd, SOL_SOCKET, option, &value, &n) == 0 && value == want;
}

/* Reads LISTEN_FDS only if LISTEN_PID is this process, and removes the variables from the
 * environment of children. */
static uint64_t passed(void)
{
	const char *pid = getenv("LISTEN_PID"), *fds = getenv("LISTEN_FDS");
	uint64_t p = 0, n = 0;

	if (num_u64(span_of(pid), 1, INT32_MAX, &p) < 0 || p != (uint64_t)getpid() ||
	    num_u64(span_of(fds), 0, INT32_MAX, &n) < 0)
		n = 0;
	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_FDNAMES");
	return n;
}

int listener_inherit(struct listener *l, struct err *e)
{
	uint64_t n = passed();

	*l = (struct listener)LISTENER_INIT;
	if (n == 0)
		return 0;
	if (n > 1)
		return err_kind(e, ERR_CONF, -EINVAL,
				"systemd passed %d sockets, expected 1: one ListenStream= in the "
				".socket unit",
				(int)n);
	if (!sock_is(SYSTEMD_FD, SO_DOMAIN, AF_UNIX) ||
	    !sock_is(SYSTEMD_FD, SO_TYPE, SOCK_STREAM) || !sock_is(SYSTEMD_FD, SO_ACCEPTCONN, 1))
		return err_kind(e, ERR_CONF, -EINVAL,
				"systemd passed no listening UNIX stream socket: expected "
				"ListenStream=/PATH and Accept=no");
	if (fcntl(SYSTEMD_FD, F_SETFD, FD_CLOEXEC) < 0 ||
	    fcntl(SYSTEMD_FD, F_SETFL, fcntl(SYSTEMD_FD, F_GETFL) | O_NONBLOCK) < 0)
		return err_sys(e, -errno, "set up the socket that systemd passed");
	l->fd = SYSTEMD_FD;
	l->inherited = true;
	return 1;
}

void listener_hide(struct listener *l)
{
	struct stat st;

	if (l->path && l->ino && lstat(l->path, &st) == 0 && st.st_dev == l->dev &&
	    st.st_ino == l->ino)
		unlink(l->path);
	l->ino = 0;
}

void listener_close(struct listener *l)
{
	listener_hide(l);
	cleanup_fd(&l->fd);
	/* Does not remove the lock file, because a waiting server may have it open. */
	cleanup_fd(&l->lock);
	free(l->path);
	*l = (struct listener)LISTENER_INIT;
}
