/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CLI_RDMA_H
#define UNIRAIL_CLI_RDMA_H

/* Output of `unirail rdma list`: one row per port, and whether verbs can use the device. */

#include <stdio.h>

#include "kern/rdma/rdma.h"

void rdma_show_text(const struct rdma_dev *list, size_t n, FILE *f);
void rdma_show_json(const struct rdma_dev *list, size_t n, struct buf *b);

#endif
