/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_BASE_FILE_H
#define UNIRAIL_BASE_FILE_H

/*
 * Files under a root. Every absolute path that the program opens is resolved below `root` (an
 * O_PATH descriptor of "/" or of another directory), so that a recorded /sys, /proc, /etc can
 * replace the host's. Below a root that is not "/", neither ".." nor a symbolic link leads outside
 * (openat2 RESOLVE_IN_ROOT, Linux 5.6).
 */

#include <stdbool.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

struct root {
	int fd;	   /* O_PATH|O_DIRECTORY; AT_FDCWD is never used */
	bool host; /* fd is "/" itself: paths are the host's paths */
	/*
	 * Set `strict` after root_open() if other users may influence the paths that are opened. It
	 * has no effect on a root other than the host's, nor below /proc, /sys and /dev (except
	 * /dev/shm). For all other paths:
	 *  - a symbolic link is followed only if the user root owns the link and its directory, and
	 *  that
	 *    directory is either sticky or writable by its owner only. Examples: /var/run, an
	 *    administrator's link to another disk. For any other link the function returns -ELOOP,
	 *    and the error names the link.
	 *  - a file that file_open() opens for its content must be a regular file or a directory,
	 *    and opening never blocks: a FIFO or device is -EINVAL; a socket, or writing to a FIFO
	 *    without reader, is -ENXIO.
	 */
	bool strict;
};

int root_open(struct root *r, const char *dir, struct err *e); /* dir NULL: "/" */
void root_close(struct root *r);

/* `path` is always absolute ("/sys/..."), and errors name it. Functions that return int return a
 * descriptor, 0 or -errno. */
int file_open(const struct root *r, const char *path, int flags, mode_t mode, struct err *e);
bool file_exists(const struct root *r, const char *path);
/* Reads the whole file, at most max bytes (-EFBIG: it is longer). A missing file (-ENOENT) sets e
 * as well. */
int file_read(const struct root *r, const char *path, size_t max, struct buf *into, struct err *e);
/* Reads the first line without its line end into a fixed buffer; for sysfs and proc. */
int file_read_line(const struct root *r, const char *path, char *ret, size_t size, struct err *e);
/* Writes an existing file by one write(2); for sysfs and proc. */
int file_write_attr(const struct root *r, const char *path, const char *value, struct err *e);
/* Replaces the content atomically: temporary file in the same directory (".NAME.xxxxxxxx.tmp"),
 * fsync, rename, fsync of the directory. If the disk is full, the old file stays unchanged; if only
 * the last fsync fails, the new file is in place. The mode is exact (no umask). */
int file_replace(const struct root *r, const char *path, struct span data, mode_t mode,
		 struct err *e);
/* removes the file; a missing file is success as well */
int file_remove(const struct root *r, const char *path, struct err *e);
/* Removes temporary files that a killed file_replace(path) left. Call it only while no process
 * writes the file. */
void file_sweep(const struct root *r, const char *path);
/* Like file_sweep(), for every file of the directory `dir`. */
void file_sweep_dir(const struct root *r, const char *dir);
/* creates missing parent directories as well, like mkdir -p */
int dir_make(const struct root *r, const char *path, mode_t mode, struct err *e);
/* creates the directory that contains the file `path`, and missing parent directories */
int dir_make_parent(const struct root *r, const char *path, mode_t mode, struct err *e);
/* Lists the names in a directory except "." and "..", sorted bytewise; free them with
 * str_list_free(). */
int dir_list(const struct root *r, const char *path, char ***names, size_t *n, struct err *e);
void str_list_free(char **names, size_t n);
int link_read(const struct root *r, const char *path, char *ret, size_t size, struct err *e);
/* Creates the symlink `path` -> target. An existing file other than a directory is replaced
 * atomically. */
int link_replace(const struct root *r, const char *path, const char *target, struct err *e);
/* renameat2() within a root; `exclusive`: -EEXIST instead of replacing a file. Syncs the directory
 * of `to`. */
int file_rename(const struct root *r, const char *from, const char *to, bool exclusive,
		struct err *e);
/* lstat(): type, mode and size of the file itself, which may be a link. A missing file (-ENOENT)
 * sets e as well. */
struct stat;
int file_lstat(const struct root *r, const char *path, struct stat *ret, struct err *e);

/*
 * Takes a flock(2) on a regular file (created with mode 0600; -EINVAL, -EISDIR or -ENXIO for any
 * other type), released when *fd is closed or the process ends. timeout_ms < 0: waits without
 * limit. -EWOULDBLOCK, kind ERR_AGAIN, when the time expires; e names the file.
 */
int lock_take(const struct root *r, const char *path, int timeout_ms, int *fd, struct err *e);

/* Returns 1 if a process has the lock, 0 if not; -ENOENT if the file does not exist, or another
 * -errno. The test takes a shared lock for a moment. */
int lock_is_held(const struct root *r, const char *path);

/* Locks an open descriptor, for instance of a directory; timeout_ms as in lock_take(). Returns 0
 * or -errno. */
int lock_fd(int fd, int timeout_ms);

/*
 * For content that is not in memory: create a temporary file in the directory of `path`, write to
 * t.fd, then commit (fsync, rename, fsync of the directory) or abort. Commit and abort close t.fd;
 * abort after commit has no effect.
 */
struct file_temp {
	int dir, fd;
	char name[256], base[256];
};
#define FILE_TEMP_INIT                                                                             \
	{                                                                                          \
		.dir = -1, .fd = -1                                                                \
	}
int file_temp_open(const struct root *r, const char *path, mode_t mode, struct file_temp *t,
		   struct err *e);
int file_temp_commit(struct file_temp *t, struct err *e);
void file_temp_abort(struct file_temp *t);
#define auto_file_temp __attribute__((cleanup(file_temp_abort)))

/* Returns the absolute form of a path from the command line; a relative path starts at the
 * working directory, and stays relative only if getcwd() fails. Returns NULL for NULL; the
 * caller frees the result. */
char *path_absolute(const char *path);

/* Writes all bytes: repeats write(2) after EINTR and short writes. */
int fd_write_all(int fd, const void *p, size_t n, struct err *e);
int fd_read_all(int fd, size_t max, struct buf *into, struct err *e);

#endif
