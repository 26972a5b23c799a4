/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_IPAM_JOURNAL_ANCHOR_H
#define UNIRAIL_IPAM_JOURNAL_ANCHOR_H

/*
 * How long the journal is known to be: `journal.anchor` beside it. A journal that was cut short reads
 * like one that never was longer, and would hand out again what it does not name any more; the anchor
 * tells the two apart.
 *
 * Two slots of 512 bytes (one sector), written in turn, so that a write that a power failure tears
 * leaves the other one. A slot is one line, padded with blanks:
 *
 *	unirail-anchor 1 seq=8 journal=<hex> end=331 line=<hex> next=<hex> next_end=96 #<sum>
 *
 * seq: the slot with the higher one counts. journal: the checksum of the journal's first line, which
 * names one file (the line has a random id); 0: there was none yet. end: where a line ended that is
 * durable for certain, and `line` its checksum. next: the file that may have taken the journal's name
 * since (it is being written anew), 0 for none. A slot ends in the XXH64 of what stands before " #".
 *
 * A lower bound, never more: the anchor is written after the fdatasync of what it tells of, and is
 * itself synced only before the journal gets another file. So an ADD has one pwrite(2) more and no
 * fsync. A crash of a process between the two leaves it behind by one change, which nobody was told of;
 * a power failure by more, yet then no pod of this node runs any more. Neither is an alarm.
 *
 * Journals of earlier releases have no id and no anchor: they are read as they are, and get an anchor
 * with the next change. One that an earlier release wrote anew has lost its id: it is taken as it is.
 */

#include <stdint.h>

#include "base/file.h"

struct anchor_mark {
	uint64_t journal; /* 0: none */
	int64_t end;
	uint64_t line; /* not of the next one */
};

struct journal_anchor {
	int fd; /* -1: there is no file */
	uint64_t seq;
	struct anchor_mark now, next;
};
#define JOURNAL_ANCHOR_INIT                                                                        \
	{                                                                                          \
		.fd = -1                                                                           \
	}

/* Reads <journal path>.anchor. One that is not there, or of which no slot can be read, is {0}.
 * read_only: the caller does not write it. */
int anchor_open(struct journal_anchor *a, const struct root *r, const char *journal, bool read_only,
		struct err *e);
void anchor_close(struct journal_anchor *a);
/* The journal is durable up to there. Failure leaves a bound that is lower; makes the file if there
 * is none. */
void anchor_set(struct journal_anchor *a, const struct root *r, const char *journal,
		const struct anchor_mark *now);
/* Before a file with that first line gets the journal's name: synced. */
int anchor_announce(struct journal_anchor *a, const struct root *r, const char *journal,
		    const struct anchor_mark *next, struct err *e);
/* The mark that such a journal must reach; NULL: nothing is known of it. */
const struct anchor_mark *anchor_of(const struct journal_anchor *a, uint64_t journal);

#endif
