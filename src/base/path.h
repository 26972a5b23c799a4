/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_BASE_PATH_H
#define UNIRAIL_BASE_PATH_H

/* How file.c, dir.c and lock.c find a path below a root, and tools/swap.c its folder. */

#include "base/file.h"

/* As file_open, without words: a descriptor or -errno. */
int path_open(const struct root *r, const char *path, int flags, mode_t mode);
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
