/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_TESTS_FUZZ_FILES_H
#define UNIRAIL_TESTS_FUZZ_FILES_H

/*
 * Files in memory, in place of those of base/file.h: the linker's --wrap (tools/build/fuzz.mk) maps
 * the functions of base/file.h that the fuzzers need, and the calls on descriptors, to files.c,
 * since a system call costs as much as a parser's work on a short input. Files, descriptors and
 * replacements behave as on a disk: an open descriptor of a replaced file keeps the old content.
 * There are no links, and no modes.
 */

#include "base/file.h"

/* Creates or replaces a file; directories are implicit. */
void files_put(const char *path, struct span content);
/* Gets the content, which is valid until the file changes; false: there is no such file. */
bool files_get(const char *path, struct span *content);
/* Removes all files. None may be open: that would be a leak. */
void files_clear(void);

#endif
