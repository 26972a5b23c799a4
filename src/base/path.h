/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_BASE_PATH_H
#define UNIRAIL_BASE_PATH_H

/* Paths, and their resolution below a root. */

#include "base/file.h"

/* Like file_open(), but sets no error text and does not check the file's type: returns a descriptor
 * or -errno. */
int path_open(const struct root *r, const char *path, int flags, mode_t mode);
/* After path_open() returned -ELOOP: sets ret to the absolute path of the link that it refused, and
 * returns true. Returns false if it refused no link. */
bool path_refused(const struct root *r, const char *path, char *ret, size_t size);
/* Returns true below /proc, /sys or /dev (except /dev/shm), where only the kernel and the user
 * root create names: `strict` does not apply. */
bool path_is_kernels(const char *path);
/*
 * Opens the directory that contains `path` and copies the last component into base[256]. For names
 * to be created, renamed or removed: the last component is never followed.
 */
int path_parent(const struct root *r, const char *path, char *base, int *dir);
/* fsync of a directory. Returns 0 also if the file system is read-only or does not support fsync
 * of directories, or if this process has no permission to read the directory. */
int path_sync_dir(int dir);
/* Sets ret to the name of a temporary file, ".BASE.xxxxxxxx.tmp" with eight random hexadecimal
 * digits; a BASE over 240 bytes is truncated. */
void path_temp_name(const char *base, char *ret);

/* The last component: what follows the last slash. */
const char *path_base(const char *path);

enum { PATH_NAME_MAX = 256 }; /* NAME_MAX and its NUL */

#endif
