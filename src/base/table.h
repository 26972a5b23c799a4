/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_BASE_TABLE_H
#define UNIRAIL_BASE_TABLE_H

/*
 * Aligned columns for terminal output: cells are collected, then each column is printed as wide as
 * its widest cell. The first row is the header.
 */

#include <stdio.h>

#include "base/buf.h"

enum { COLUMNS_MAX = 12 };

struct columns {
	unsigned int n; /* columns */
	const char *indent;
	char **cells;
	size_t n_cells;
};

/* n: number of columns, at most COLUMNS_MAX. */
void columns_init(struct columns *c, unsigned int n, const char *indent);
void columns_done(struct columns *c);
#define auto_columns __attribute__((cleanup(columns_done)))
/* Adds one cell; cells are added from left to right, row by row. NULL or "" prints as "-". */
void columns_add(struct columns *c, const char *s);
void columns_addf(struct columns *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void columns_put(const struct columns *c, struct buf *b);
void columns_print(const struct columns *c, FILE *f);

#endif
