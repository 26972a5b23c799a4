/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_IPAM_JOURNAL_H
#define UNIRAIL_IPAM_JOURNAL_H

/*
 * The journal: what was granted and given back, durable. A text file that only grows at its end;
 * one line is one change, whole or not there, closed by the XXH64 of what stands before " #":
 *
 *	unirail-journal 1 base=0 #<16 hex digits>
 *	grant t=1763700000000 id=4f2a ns=default pod=a uid=9c1b netns=/run/netns/x if=net1
 *	  net=rails pool=rail0 ip=172.16.1.10/24 if=net2 pool=rail1 ip=172.16.2.10/24 #...
 *	free t=1763700300000 ip=172.16.1.10/24 ip=172.16.2.10/24 #...
 *
 * (The second is one line.) A word without '=' says what follows, with a clean slate: grant, free,
 * keep (given back but kept for its pod: sticky), quarantine. Each key=value then stays until it
 * is said anew, and every ip= is one record of all that was said. t is milliseconds since the
 * epoch; bytes up to blank, '%' and DEL are %xx. `base` is how long the file was when it was
 * last written anew.
 *
 * Later releases: the number after unirail-journal grows when an old release could not cope;
 * a word that begins with '~', and a key that is not known, may be ignored by it; any other
 * unknown word is refused.
 *
 * Crashes: each change is one write followed by fdatasync before anybody is told, so what can be
 * torn is the last line only. A last line without its new line and checksum, or with zeros in it
 * (a power failure may keep the length and lose the bytes), is cut. Any other damage is refused:
 * to go on without what it said could hand an address out twice.
 *
 * The caller holds the store's lock for as long as the journal is open.
 */

#include "base/file.h"
#include "ipam/journal_line.h"

enum { JOURNAL_FORMAT = 1 };

struct journal {
	const struct root *root;
	char *path;
	int fd;	      /* -1: there is no file yet */
	int64_t end;  /* of the last whole line */
	int64_t size; /* of the file; past `end` lies a torn line */
	int64_t base;
	bool no_newline; /* the last whole line lacks it */
	bool broken;	 /* a write failed: nothing more from this process */
	struct lease_table leases;
	char **texts; /* what the leases' strings point into */
	size_t n_texts;
};

/*
 * Reads everything. A file that is not there is an empty journal. -EBADMSG, kind ERR_IO: damaged;
 * -EPROTO, kind ERR_UNAVAILABLE: written by a later release. `j` needs no journal_close() then.
 */
int journal_open(struct journal *j, const struct root *r, const char *path, struct err *e);
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
 * For a damaged file: writes it anew with every line that is whole, and what addresses can still
 * be read in a damaged line as used by nobody known; the old one stays beside it. Tells on `said`
 * what it did.
 */
int journal_repair(const struct root *r, const char *path, int64_t now_ms, struct buf *said,
		   struct err *e);

#endif
