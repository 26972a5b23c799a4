/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_BASE_FILE_H
#define UNIRAIL_BASE_FILE_H

/*
 * Files under a root.  Every absolute path the program opens is resolved below `root` (an
 * O_PATH descriptor of "/" or of another folder), so that a recorded /sys, /proc, /etc can stand in
 * for the host's. Below a root that is not "/", neither ".." nor a symbolic link
 * leads out of it (openat2 RESOLVE_IN_ROOT, Linux 5.6).
 *
 * Split over file.c (content), file.c (folders and links) and lock.c.
 */

#include <stdbool.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

struct root {
	int fd;	   /* O_PATH|O_DIRECTORY; AT_FDCWD is never used */
	bool host; /* fd is "/" itself: paths mean what they mean to everybody */
	/*
	 * Set by the caller after root_open(), where root opens paths of the host that others may have a hand in; no
	 * effect on another root than the host's, nor below /proc, /sys and /dev:
	 *  - a symbolic link is followed when root owns it and its folder, and only root can change that folder (or it
	 *    is sticky): /var/run, an administrator's link to another disk. Any other link is -ELOOP, and the error names it.
	 *  - what file_open() opens for its content is a regular file or a folder, and is not waited for: a FIFO, socket
	 *    or device is -EINVAL (-ENXIO where nobody reads the FIFO).
	 */
	bool strict;
};

int root_open(struct root *r, const char *dir, struct err *e); /* NULL: "/" */
void root_close(struct root *r);

/* All take an absolute path ("/sys/...") and name it in their errors. Return fd, 0 or -errno. */
int file_open(const struct root *r, const char *path, int flags, mode_t mode, struct err *e);
bool file_exists(const struct root *r, const char *path);
/* Reads the whole file, at most max bytes (-EFBIG beyond).  -ENOENT sets e as well. */
int file_read(const struct root *r, const char *path, size_t max, struct buf *into, struct err *e);
/* First line without its end, into a fixed buffer; for sysfs and proc. */
int file_read_line(const struct root *r, const char *path, char *ret, size_t size, struct err *e);
/* One write(2) to an existing file; for sysfs and proc. */
int file_write_attr(const struct root *r, const char *path, const char *value, struct err *e);
/* New content, all or nothing: temporary file beside it (".NAME.xxxxxxxx.tmp"), fsync, rename,
 * fsync of the folder. A full disk leaves the old file as it was; a failure of the last fsync
 * leaves the new one. The mode is exact (no umask). */
int file_replace(const struct root *r, const char *path, struct span data, mode_t mode,
		 struct err *e);
int file_remove(const struct root *r, const char *path, struct err *e); /* -ENOENT is 0 */
/* Removes the temporary files that a kill left of file_replace(path). For who knows that nobody
 * writes it now. */
void file_sweep(const struct root *r, const char *path);
/* Of all files in a folder. */
void file_sweep_folder(const struct root *r, const char *folder);
int dir_make(const struct root *r, const char *path, mode_t mode, struct err *e); /* mkdir -p */
/* Names in a directory but "." and "..", sorted bytewise; caller frees with str_list_free(). */
int dir_list(const struct root *r, const char *path, char ***names, size_t *n, struct err *e);
void str_list_free(char **names, size_t n);
int link_read(const struct root *r, const char *path, char *ret, size_t size, struct err *e);
/* The symlink `path` -> target, made or replaced in one step (whatever file was there). */
int link_replace(const struct root *r, const char *path, const char *target, struct err *e);
/* renameat2 within a root; `exclusive` refuses to replace (-EEXIST). The folder is synced. */
int file_rename(const struct root *r, const char *from, const char *to, bool exclusive,
		struct err *e);
/* lstat: type, mode and size of the name itself. -ENOENT sets e as well. */
struct stat;
int file_lstat(const struct root *r, const char *path, struct stat *ret, struct err *e);

/*
 * flock(2) on a regular file (created 0600; -EINVAL for any other), released by close or death.  timeout_ms < 0 waits for
 * ever; -EWOULDBLOCK with kind ERR_AGAIN when time is up, naming the file.
 */
int lock_take(const struct root *r, const char *path, int timeout_ms, int *fd, struct err *e);

/* The same wait on a descriptor of one's own, a folder's for instance; 0 or -errno. */
int lock_fd(int fd, int timeout_ms);

/*
 * Content from elsewhere than memory: create a temporary file beside `path`, write to t.fd, then
 * commit (fsync, rename, fsync of the folder) or abort. Both close it; abort after commit is fine.
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

/* What a person typed, as an absolute path: a relative one counts from the working directory.
 * NULL stays NULL; free() it. */
char *path_absolute(const char *path);

/* write(2) until done, EINTR and short writes handled. */
int fd_write_all(int fd, const void *p, size_t n, struct err *e);
int fd_read_all(int fd, size_t max, struct buf *into, struct err *e);

#endif
