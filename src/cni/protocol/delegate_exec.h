/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_PROTOCOL_DELEGATE_EXEC_H
#define UNIRAIL_CNI_PROTOCOL_DELEGATE_EXEC_H

#include "base/buf.h"
#include "base/err.h"

/*
 * Runs a program with bytes on stdin until it has ended; `out` and `err` get what it wrote, each
 * up to its buffer's ceiling. A grandchild that keeps the pipes open is not waited for.
 * Returns 0 with the wait status in *status, or why the program could not be started.
 */
int delegate_exec(const char *path, char *const env[], struct span in, struct buf *out,
		  struct buf *err, int *status, struct err *e);

#endif
