/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_BASE_PATH_H
#define UNIRAIL_BASE_PATH_H

/* How file.c, file.c and file.c find a path below a root, and cli/install/swap.c its folder. */

#include "base/file.h"

/* As file_open, without words: a descriptor or -errno. */
int path_open(const struct root *r, const char *path, int flags, mode_t mode);
/* The same below a root that is `strict` (path.c). */
int path_open_strict(const struct root *r, const char *path, int flags, mode_t mode);
/* After -ELOOP: the link that path_open_strict() does not follow, as an absolute path; false: there is none. */
bool path_refused(const struct root *r, const char *path, char *ret, size_t size);
/* Below /proc, /sys or /dev (but not /dev/shm), where only the kernel and root make names: a strict root has no say. */
bool path_is_kernels(const char *path);
/*
 * What to add to an error about `path`, "" or with a space in front: after -ELOOP below a strict root the symbolic link
 * that is refused.
 */
enum { PATH_HINT_MAX = 400 };
const char *path_hint(const struct root *r, const char *path, int code,
		      char buf[static PATH_HINT_MAX]);
/* 0 when st is a regular file or a folder, else -EINVAL with *e: "file 'PATH' is a FIFO, wants a regular file". */
struct stat;
int path_check_kind(const struct stat *st, const char *path, struct err *e);
/*
 * Opens the folder that holds `path` and copies the last component into base[256]. For names to
 * be made, renamed or removed: the last component is never followed.
 */
int path_parent(const struct root *r, const char *path, char *base, int *dir);
/* fsync of a folder; file systems that cannot do it are none of the caller's business. */
int path_sync_dir(int dir);
/* ".BASE.xxxxxxxx.tmp", at random */
void path_temp_name(const char *base, char *ret);

enum { PATH_NAME_MAX = 256 }; /* NAME_MAX and its NUL */

#endif
