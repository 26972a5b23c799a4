/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_IPAM_JOURNAL_ANCHOR_H
#define UNIRAIL_IPAM_JOURNAL_ANCHOR_H

/*
 * The minimum length of the journal: `journal.anchor` beside it. A truncated journal is a valid
 * shorter journal, and the addresses it no longer contains would be assigned twice. The anchor
 * detects this.
 *
 * The file has two slots of 512 bytes (one sector), written alternately, so that a write torn by a
 * power failure leaves the other slot intact. A slot is one line, padded with spaces:
 *
 *	unirail-anchor 1 seq=8 journal=<hex> end=331 line=<hex> next=<hex> next_end=96 #<sum>
 *
 * seq: of two intact slots, the one with the higher number counts. journal: checksum of the
 * journal's first line, which identifies one file (the line has a random id); 0: there was no file
 * yet. end: offset of the end of a line that is certainly durable; line: checksum of that line.
 * next: checksum of the first line of the file that may have replaced the journal since (a
 * compaction is in progress), 0: none; next_end: length of that file. A slot ends in the XXH64 of
 * the text before " #".
 *
 * The anchor is a lower bound, never too high: it is written after the fdatasync of the journal,
 * and synced only before the journal is replaced. So an ADD costs one more pwrite(2) and no further
 * fsync. If a process crashes between the two writes, the anchor lags by one change, which was not
 * reported to any caller; after a power failure it may lag by more, but then no pod of this node
 * runs any more. Neither case is an error.
 *
 * Journals of earlier releases have no id and no anchor: they are accepted, and get an anchor when
 * they are next opened for writing. A journal rewritten by an earlier release has lost its id and
 * is accepted as well.
 */

#include <stdint.h>

#include "base/file.h"

struct anchor_mark {
	uint64_t journal; /* 0: none */
	int64_t end;
	uint64_t line; /* checksum of the line that ends at `end`; unset in `next` */
};

struct journal_anchor {
	int fd; /* -1: the file does not exist */
	uint64_t seq;
	struct anchor_mark now, next;
};
#define JOURNAL_ANCHOR_INIT                                                                        \
	{                                                                                          \
		.fd = -1                                                                           \
	}

/* Reads <journal path>.anchor. If it does not exist, or no slot is valid, all members of *a except
 * fd are 0. read_only: the caller will not write the anchor. */
int anchor_open(struct journal_anchor *a, const struct root *r, const char *journal, bool read_only,
		struct err *e);
void anchor_close(struct journal_anchor *a);
/* Records that the journal is durable up to the line that the mark `now` describes; creates the
 * anchor file if needed. A failure is not reported, because the earlier anchor stays valid as a
 * lower bound. */
void anchor_set(struct journal_anchor *a, const struct root *r, const char *journal,
		const struct anchor_mark *now);
/* Writes and syncs `next`, the mark of the new file (checksum of its first line, and its
 * length), before the new file replaces the journal. */
int anchor_announce(struct journal_anchor *a, const struct root *r, const char *journal,
		    const struct anchor_mark *next, struct err *e);
/* Returns the mark that a journal must reach; journal: checksum of its first line; NULL: the
 * anchor has no mark for this journal. */
const struct anchor_mark *anchor_of(const struct journal_anchor *a, uint64_t journal);

#endif
