/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_BASE_UNDO_H
#define UNIRAIL_BASE_UNDO_H

/*
 * The undo list: after each successful change the caller pushes a step that reverses the change. On
 * failure undo_run() runs the steps newest first (all of them, even if one fails; failures are
 * logged); on success undo_disarm() discards them. undo_push() copies the argument of a step, but
 * not the data to which pointers in the argument point: that data must exist as long as the list.
 */

#include <stddef.h>

#include "base/err.h"

typedef int (*undo_fn)(void *arg, struct err *e);

struct undo {
	struct undo_step *steps;
	size_t n;
};

#define UNDO_INIT                                                                                  \
	{                                                                                          \
		0                                                                                  \
	}

void undo_push(struct undo *u, const char *what, undo_fn fn, const void *arg, size_t size);
/* Returns the number of steps that failed; the list is empty afterwards. */
int undo_run(struct undo *u);
void undo_disarm(struct undo *u);

#endif
