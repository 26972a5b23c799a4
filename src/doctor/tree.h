/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_DOCTOR_TREE_H
#define UNIRAIL_DOCTOR_TREE_H

/*
 * Files, directories and symbolic links as one text, which users can read and tests can unpack:
 *
 * 	# a comment
 * 	PATH = TEXT		a file of one line
 * 	PATH :			a file; its lines follow, each after a tab
 * 		TEXT
 * 	PATH -> TARGET		a symbolic link
 * 	PATH/			a directory; required only for an empty one
 *
 * Paths are absolute. Blanks, tabs, backslashes, newlines and unprintable bytes in a path are
 * written as \xHH. In a text or target a backslash is written as \\, and control characters (below
 * 0x20 except tab) and bytes from 0x7f on as \xHH, so that a snapshot is ASCII. A file ends with a
 * newline, unless its text ends with "\c": an empty file is "PATH = \c".
 *
 * `unirail doctor --snapshot` writes this format, tests/hosts has snapshots in it, and
 * tree_unpack() creates a root directory (--root) from it.
 */

#include "base/file.h"

enum { TREE_TEXT_MAX = 64 << 20, TREE_FILE_MAX = 4 << 20 };

void tree_put_comment(struct buf *b, const char *text);
void tree_put_file(struct buf *b, const char *path, struct span content);
void tree_put_link(struct buf *b, const char *path, const char *target);
void tree_put_dir(struct buf *b, const char *path);

/*
 * Creates everything below a root, with parent directories. Nothing is created outside, whatever
 * the text contains. Errors in the text contain `name` and the line; errors of the file system may
 * lack them.
 */
int tree_unpack(const struct root *into, struct span text, const char *name, struct err *e);

#endif
