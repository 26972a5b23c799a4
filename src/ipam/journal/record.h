/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_IPAM_JOURNAL_RECORD_H
#define UNIRAIL_IPAM_JOURNAL_RECORD_H

/* One line of the journal, to and from leases; what a line looks like is in journal.h. */

#include "base/err.h"
#include "ipam/journal/lease.h"

/* Writes leases onto one line; what the lease before said already is left out. */
struct line_writer {
	struct buf *b;
	size_t start;
	struct lease last;
	bool begun;
};

void line_begin(struct line_writer *w, struct buf *b);
void line_put(struct line_writer *w, const struct lease *l);
void line_end(struct line_writer *w); /* checksum and new line */

/* " #<16 hex digits>" */
enum { LINE_SUM_MAX = 18 };

/* True when the n bytes (without a new line) end in their own checksum. */
bool line_is_whole(const char *line, size_t n);
/* The checksum that such a line ends in. */
uint64_t line_sum(const char *line, size_t n);
/*
 * Puts what the line says into the table. The line is whole, is written to (its strings are
 * ended in place) and must live as long as the table. -EPROTO: a word of a later release.
 */
int line_apply(char *line, size_t n, struct lease_table *t, struct err *e);
/* Every address a damaged line still shows (for repair). */
size_t line_salvage(const char *line, size_t n, struct ipnet **ret);

#endif
