/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_IPAM_JOURNAL_JOURNAL_H
#define UNIRAIL_IPAM_JOURNAL_JOURNAL_H

/*
 * The journal: allocations and releases, durable. A text file that is only appended to. One line is
 * one atomic change and ends in the XXH64 of the text before " #":
 *
 *	unirail-journal 1 base=0 id=<16 hex digits> #<16 hex digits>
 *	allocate t=1763700000000 id=4f2a ns=default pod=a uid=9c1b netns=/run/netns/x if=net1
 *	  net=rails pool=rail0 ip=172.16.1.10/24 if=net2 pool=rail1 ip=172.16.2.10/24 #...
 *	release t=1763700300000 ip=172.16.1.10/24 ip=172.16.2.10/24 #...
 *
 * (`allocate` is one line in the file, wrapped here.) A word without '=' is an operation and clears
 * all keys: allocate, release, retain (released but retained for its pod: sticky), quarantine. Each
 * key=value then stays set until it occurs again, and every ip= is one record with all keys set so
 * far. t is in milliseconds since the epoch; bytes up to space, '%' and DEL are written as %xx.
 * `base` is the length of the lines after the first one when the file was last compacted or
 * repaired, 0: never; `id` is random, so that the first line identifies the file.
 *
 * Later releases: the number after unirail-journal grows when an old release could not read the
 * file; an old release ignores a word that begins with '~', with the keys up to the next operation,
 * and an unknown key, and refuses any other unknown word.
 *
 * Crashes: each change is one write followed by fdatasync before the call returns, so only the last
 * line can be torn. A last line without its newline and checksum, or with zeros in it (a power
 * failure may preserve the length and lose the bytes), is cut off. Any other damage is refused,
 * because ignoring a record could assign an address twice. A missing file, a replaced file and one
 * shorter than its anchor requires are refused as well (ipam/journal/anchor.h); journal_repair()
 * handles these.
 *
 * Full disk: space after the end is reserved (fallocate, if the file system supports it), enough to
 * release every used address. Only changes that allocate no address use this space; an allocation
 * that would reduce it is refused with -ENOSPC.
 *
 * The caller holds the store's lock as long as the journal is open.
 */

#include "base/file.h"
#include "ipam/journal/anchor.h"
#include "ipam/journal/lease.h"

enum { JOURNAL_FORMAT = 1 };

struct journal {
	const struct root *root;
	char *path;
	int fd;	      /* -1: there is no file yet */
	int64_t end;  /* offset after the last complete line */
	int64_t size; /* file size; a torn line lies beyond `end` */
	int64_t base;
	/* bytes reserved after `end`, or requested if the file system cannot reserve space */
	int64_t room;
	uint64_t name;	 /* checksum of the first line, which identifies the file */
	uint64_t last;	 /* checksum of the last complete line */
	bool has_id;	 /* the file was written by a release that maintains an anchor */
	bool reached;	 /* the line that the anchor names was read */
	bool no_newline; /* the last complete line has no newline */
	bool broken;	 /* a write failed: this process refuses further writes */
	bool read_only;	 /* neither journal nor anchor may be written */
	struct journal_anchor anchor;
	struct lease_table leases;
	char **texts; /* memory of the leases' strings */
	size_t n_texts;
};
/* A closed journal, which journal_close() accepts. */
#define JOURNAL_INIT                                                                               \
	{                                                                                          \
		.fd = -1, .anchor = JOURNAL_ANCHOR_INIT                                            \
	}

/*
 * Reads the whole file. A file that never existed is an empty journal. -EBADMSG, kind ERR_IO:
 * damaged, truncated or missing; -EPROTO, kind ERR_UNAVAILABLE: written by a later release; after
 * an error `j` needs no journal_close(). read_only: nothing is written. A torn line, a lagging
 * anchor and temporary files stay, and journal_commit() and journal_compact() fail with -EROFS.
 */
int journal_open(struct journal *j, const struct root *r, const char *path, bool read_only,
		 struct err *e);
void journal_close(struct journal *j);
/* Makes new states of leases durable, as one change, and applies them to j->leases. On failure the
 * leases are unchanged, and either the file is unchanged (full disk) or j->broken is set. */
int journal_commit(struct journal *j, const struct lease *v, size_t n, struct err *e);
/* Returns whether the file is more than 32 KiB longer than twice `base` (and no write failed). */
bool journal_is_long(const struct journal *j);
/* Rewrites the file without leases whose reuse delay or quarantine is over. */
int journal_compact(struct journal *j, int64_t now_ms, int64_t reuse_delay_ms,
		    int64_t quarantine_ms, struct err *e);
/*
 * Repairs a damaged, truncated or missing file: rewrites it with every complete line; addresses
 * that are readable in a damaged line become used by an unknown owner; `found` (used leases found
 * elsewhere) are added unless the file has the address as retained or as used by a known owner. The
 * old content is kept in a file beside it. `message` describes the repair.
 */
int journal_repair(const struct root *r, const char *path, int64_t now_ms,
		   const struct lease *found, size_t n_found, struct buf *message, struct err *e);

#endif
