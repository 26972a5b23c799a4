/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_PROTOCOL_DELEGATE_EXEC_H
#define UNIRAIL_CNI_PROTOCOL_DELEGATE_EXEC_H

#include "base/buf.h"
#include "base/err.h"

/*
 * Runs a program with `in` on stdin and waits until it exits; `out` and `err` receive its output,
 * each up to the buffer's limit. It does not wait for a grandchild that keeps the pipes open.
 * Returns 0 with the wait status in *status, or -errno if the program could not be started.
 */
int delegate_exec(const char *path, char *const env[], struct span in, struct buf *out,
		  struct buf *err, int *status, struct err *e);

#endif
