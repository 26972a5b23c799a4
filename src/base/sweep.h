/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_BASE_SWEEP_H
#define UNIRAIL_BASE_SWEEP_H

#include "base/file.h"

/* file_sweep_dir() for a directory that other processes may be writing to: removes only
 * temporary files that were last modified more than FILE_OLD_S seconds ago. No file_replace()
 * takes that long. */
enum { FILE_OLD_S = 10 * 60 };
void file_sweep_old(const struct root *r, const char *dir);

#endif
