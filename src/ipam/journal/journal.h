/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_IPAM_JOURNAL_JOURNAL_H
#define UNIRAIL_IPAM_JOURNAL_JOURNAL_H

/*
 * The journal: what was granted and given back, durable. A text file that only grows at its end;
 * one line is one change, whole or not there, closed by the XXH64 of what stands before " #":
 *
 *	unirail-journal 1 base=0 id=<16 hex digits> #<16 hex digits>
 *	grant t=1763700000000 id=4f2a ns=default pod=a uid=9c1b netns=/run/netns/x if=net1
 *	  net=rails pool=rail0 ip=172.16.1.10/24 if=net2 pool=rail1 ip=172.16.2.10/24 #...
 *	free t=1763700300000 ip=172.16.1.10/24 ip=172.16.2.10/24 #...
 *
 * (The second is one line.) A word without '=' says what follows, with a clean slate: grant, free,
 * keep (given back but kept for its pod: sticky), quarantine. Each key=value then stays until it
 * is said anew, and every ip= is one record of all that was said. t is milliseconds since the
 * epoch; bytes up to blank, '%' and DEL are %xx. `base` is how long the file was when it was
 * last written anew; `id` is random, so that no two files begin alike.
 *
 * Later releases: the number after unirail-journal grows when an old release could not cope;
 * a word that begins with '~', and a key that is not known, may be ignored by it; any other
 * unknown word is refused.
 *
 * Crashes: each change is one write followed by fdatasync before anybody is told, so what can be
 * torn is the last line only. A last line without its new line and checksum, or with zeros in it
 * (a power failure may keep the length and lose the bytes), is cut. Any other damage is refused:
 * to go on without what it said could hand an address out twice. So is a file that is shorter than
 * it was known to be, another one, or none (ipam/journal/anchor.h); journal_repair() goes on then.
 *
 * A full disk: blocks are kept allocated behind the end (fallocate, where the file system has it), enough
 * to free every address that is used. Only what frees addresses writes there; a grant that would not
 * leave as much is refused with -ENOSPC.
 *
 * The caller holds the store's lock for as long as the journal is open.
 */

#include "base/file.h"
#include "ipam/journal/anchor.h"
#include "ipam/journal/record.h"

enum { JOURNAL_FORMAT = 1 };

struct journal {
	const struct root *root;
	char *path;
	int fd;	      /* -1: there is no file yet */
	int64_t end;  /* of the last whole line */
	int64_t size; /* of the file; past `end` lies a torn line */
	int64_t base;
	int64_t room;	 /* bytes allocated behind `end`; INT64_MAX: the file system cannot */
	uint64_t name;	 /* the checksum of the first line */
	uint64_t last;	 /* that of the last whole line */
	bool has_id;	 /* written by a release that keeps an anchor */
	bool reached;	 /* the mark of the anchor */
	bool no_newline; /* the last whole line lacks it */
	bool broken;	 /* a write failed: nothing more from this process */
	bool read_only;	 /* neither journal nor anchor may be written */
	struct journal_anchor anchor;
	struct lease_table leases;
	char **texts; /* what the leases' strings point into */
	size_t n_texts;
};
/* One that is not open: journal_close() is fine. */
#define JOURNAL_INIT                                                                               \
	{                                                                                          \
		.fd = -1, .anchor = JOURNAL_ANCHOR_INIT                                            \
	}

/*
 * Reads everything. A file that was never there is an empty journal. -EBADMSG, kind ERR_IO: damaged,
 * cut short or gone;
 * -EPROTO, kind ERR_UNAVAILABLE: written by a later release. `j` needs no journal_close() then.
 * read_only: nothing is written, neither now (a torn line, an anchor that lags and temporary files stay
 * as they are) nor by journal_commit() and journal_compact(), which are refused with -EROFS.
 */
int journal_open(struct journal *j, const struct root *r, const char *path, bool read_only,
		 struct err *e);
void journal_close(struct journal *j);
/* Makes the leases' new states durable, as one change, and takes them into j->leases. On failure
 * (a full disk) file and leases are as before. */
int journal_commit(struct journal *j, const struct lease *v, size_t n, struct err *e);
/* Whether the file has become much longer than what it says. */
bool journal_is_long(const struct journal *j);
/* Writes it anew: only what still matters, i.e. not what was freed or quarantined longer ago. */
int journal_compact(struct journal *j, int64_t now_ms, int64_t rest_ms, int64_t quarantine_ms,
		    struct err *e);
/*
 * For a damaged file, or one that is cut short or gone: writes it anew with every line that is whole,
 * what addresses can still be read in a damaged line as used by nobody known, and `found` (used leases
 * that were found elsewhere) where the file does not know the address as used or kept; the old one
 * stays beside it. Tells on `said` what it did.
 */
int journal_repair(const struct root *r, const char *path, int64_t now_ms,
		   const struct lease *found, size_t n_found, struct buf *said, struct err *e);

#endif
