/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_BASE_PATH_H
#define UNIRAIL_BASE_PATH_H

/* Paths, and their resolution below a root. */

#include "base/file.h"

/* Like file_open(), but without an error text and a check of the file's type: returns a descriptor
 * or -errno. */
int path_open(const struct root *r, const char *path, int flags, mode_t mode);
/* After -ELOOP: sets ret to the absolute path of the link that path_open_strict() refused; false:
 * there is none. */
bool path_refused(const struct root *r, const char *path, char *ret, size_t size);
/* Returns true below /proc, /sys or /dev (except /dev/shm), where only the kernel and root create
 * names: `strict` does not apply. */
bool path_is_kernels(const char *path);
/*
 * Opens the directory that contains `path` and copies the last component into base[256]. For names
 * to be created, renamed or removed: the last component is never followed.
 */
int path_parent(const struct root *r, const char *path, char *base, int *dir);
/* fsync of a directory; 0 also if the file system does not support it or the directory may not be
 * read. */
int path_sync_dir(int dir);
/* Sets ret to the name of a temporary file, ".BASE.xxxxxxxx.tmp" with eight random digits. */
void path_temp_name(const char *base, char *ret);

/* The last component: what follows the last slash. */
const char *path_base(const char *path);

enum { PATH_NAME_MAX = 256 }; /* NAME_MAX and its NUL */

#endif
