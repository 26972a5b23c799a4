/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_DOCTOR_TREE_H
#define UNIRAIL_DOCTOR_TREE_H

/*
 * Files, folders and symbolic links as one text, which a person can read and a test can unpack:
 *
 *	# a comment
 *	PATH = TEXT		a file of one line
 *	PATH :			a file; its lines follow, each behind a tab
 *		TEXT
 *	PATH -> TARGET		a symbolic link
 *	PATH/			a folder; only needed for an empty one
 *
 * Paths are absolute. A blank, a tab, a backslash, a new line and what is not printable in a path
 * is written \xHH; in a text and a target a backslash is \\, and what is no text (below 0x20 but
 * the tab, 0x7f) \xHH. A file ends with a new line, unless its text ends with "\c": an empty file
 * is "PATH = \c".
 *
 * `unirail doctor --snapshot` writes it, tests/hosts has hosts in it, and a root (--root) comes out
 * of it by tree_unpack().
 */

#include "base/file.h"

enum { TREE_TEXT_MAX = 64 << 20, TREE_FILE_MAX = 4 << 20 };

void tree_put_comment(struct buf *b, const char *text);
void tree_put_file(struct buf *b, const char *path, struct span content);
void tree_put_link(struct buf *b, const char *path, const char *target);
void tree_put_dir(struct buf *b, const char *path);

/* Makes all of it below a root, folders as needed. Nothing is made outside, whatever the text says.
 * Errors name `name` and the line. */
int tree_unpack(const struct root *into, struct span text, const char *name, struct err *e);

#endif
