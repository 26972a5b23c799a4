/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_BASE_SWEEP_H
#define UNIRAIL_BASE_SWEEP_H

#include "base/file.h"

/* file_sweep_folder() for a folder that others may write to now: only what was not written to for
 * FILE_OLD_S, which no file_replace() takes. */
enum { FILE_OLD_S = 10 * 60 };
void file_sweep_old(const struct root *r, const char *folder);

#endif
