/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_IPAM_JOURNAL_INTERNAL_H
#define UNIRAIL_IPAM_JOURNAL_INTERNAL_H

/* Shared by the files of this directory. */

#include "ipam/journal/journal.h"

/* Reads the whole file into j->texts and sets size. Returns 0 if it does not exist. */
int journal_read(struct journal *j, char **text, struct err *e);
/* The first line: format and base. */
bool journal_is_header(const char *line, size_t n);
int journal_header(struct journal *j, const char *line, size_t n, struct err *e);
/* Replaces the file by header and `body`, and opens it. */
int journal_rewrite(struct journal *j, struct span body, int64_t base, struct err *e);
/* Writes leases as lines, one per pod. */
void journal_render(const struct lease *v, size_t n, struct buf *b);

#endif
