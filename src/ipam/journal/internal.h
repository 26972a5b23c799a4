/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_IPAM_JOURNAL_INTERNAL_H
#define UNIRAIL_IPAM_JOURNAL_INTERNAL_H

/* Between journal.c, journal.c and journal_repair.c. */

#include "ipam/journal/journal.h"

/* The whole file into j->texts; sets size. 0: there is none. */
int journal_read(struct journal *j, char **text, struct err *e);
/* The first line: format, base. */
bool journal_is_header(const char *line, size_t n);
int journal_header(struct journal *j, const char *line, size_t n, struct err *e);
/* Writes the file anew as header and `body`, and opens it. */
int journal_rewrite(struct journal *j, struct span body, int64_t base, struct err *e);
/* Leases as lines, one a pod. */
void journal_render(const struct lease *v, size_t n, struct buf *b);

#endif
