/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CLI_INSTALL_SWAP_H
#define UNIRAIL_CLI_INSTALL_SWAP_H

/*
 * Changes several names of one directory together. New content is first written to temporary files,
 * so on a full disk the call fails before any name changes. swap_commit() gives existing files a
 * second name; then each name changes by one rename or unlink, in the order requested. If one of
 * these calls fails, swap_commit() reverts the earlier ones, which needs no disk space. A process
 * that opens a replaced name finds the old or the new file, never none.
 *
 * 	swap_open(&s, root, "/opt/cni/bin", &e)		locks the directory (flock) until swap_close
 * 	swap_text(&s, "a", text, 0644, &e)
 * 	swap_drop(&s, "b")
 * 	swap_commit(&s, &e)
 */

#include "base/file.h"

struct swap {
	int dir;
	struct swap_op *ops;
	size_t n;
};
#define SWAP_INIT                                                                                  \
	{                                                                                          \
		.dir = -1                                                                          \
	}

/* Also removes temporary files of an interrupted swap (".unirail-swap.xxxxxxxx.tmp"). */
int swap_open(struct swap *s, const struct root *r, const char *dir, struct err *e);
void swap_close(struct swap *s); /* without a commit no name changes */
#define auto_swap __attribute__((cleanup(swap_close)))

int swap_copy(struct swap *s, const char *name, int from, mode_t mode, struct err *e);
int swap_text(struct swap *s, const char *name, struct span text, mode_t mode, struct err *e);
int swap_link(struct swap *s, const char *name, const char *target, struct err *e);
/* `name` becomes a second name of the file or link `other`. */
int swap_same(struct swap *s, const char *name, const char *other, struct err *e);
void swap_drop(struct swap *s, const char *name);
int swap_commit(struct swap *s, struct err *e);

#endif
