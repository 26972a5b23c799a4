/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_DEVICE_INTERNAL_H
#define UNIRAIL_DEVICE_INTERNAL_H

/* Internals of inventory.c. */

#include "device/inventory.h"

/* A file's first line; "" when there is none. */
void inventory_line(const struct root *r, char *ret, size_t size, const char *path);
/* The function's RDMA devices. */
int inventory_rdma_read(const struct root *r, struct inventory_function *f, struct err *e);

#endif
