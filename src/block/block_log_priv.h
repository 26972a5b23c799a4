/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_BLOCK_BLOCK_LOG_PRIV_H
#define UNIRAIL_BLOCK_BLOCK_LOG_PRIV_H

/* Between the block_log*.c files. */

#include "base/buf.h"
#include "block/block_log.h"

/* The whole file; `behind` says afterwards whether it is. */
int block_log_write(struct block_log *l, const struct block_table *t, struct err *e);
/* Into l and t, whose node is known. */
int block_log_read(struct block_log *l, struct block_table *t, struct span text, struct err *e);

#endif
