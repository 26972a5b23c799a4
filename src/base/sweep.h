/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_BASE_SWEEP_H
#define UNIRAIL_BASE_SWEEP_H

#include "base/file.h"

/* file_sweep_dir() for a directory that other processes may be writing to: removes only
 * temporary files not modified for FILE_OLD_S, longer than any file_replace() takes. */
enum { FILE_OLD_S = 10 * 60 };
void file_sweep_old(const struct root *r, const char *dir);

#endif
