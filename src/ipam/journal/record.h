/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_IPAM_JOURNAL_RECORD_H
#define UNIRAIL_IPAM_JOURNAL_RECORD_H

/* Converts one line of the journal to and from leases; journal.h has the format. */

#include "base/err.h"
#include "ipam/journal/lease.h"

/* Writes leases to one line; omits keys that are already set by the previous lease. */
struct line_writer {
	struct buf *b;
	size_t start;
	struct lease last;
	bool begun;
};

void line_begin(struct line_writer *w, struct buf *b);
void line_put(struct line_writer *w, const struct lease *l);
void line_end(struct line_writer *w); /* checksum and newline */

/* " #<16 hex digits>" */
enum { LINE_SUM_MAX = 18 };

/* Returns whether the n bytes (without newline) end in their own checksum. */
bool line_is_whole(const char *line, size_t n);
/* The checksum at the end of a line that line_is_whole() accepts. */
uint64_t line_sum(const char *line, size_t n);
/* Applies a complete line to the table. The line is modified (its strings are terminated in place)
 * and must live as long as the table. -EPROTO: a word of a later release. */
int line_apply(char *line, size_t n, struct lease_table *t, struct err *e);
/* Returns all addresses that are readable in a damaged line (for repair). */
size_t line_salvage(const char *line, size_t n, struct ipnet **ret);

#endif
