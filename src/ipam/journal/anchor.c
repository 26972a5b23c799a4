/* SPDX-License-Identifier: Apache-2.0 */
#include "ipam/journal/anchor.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/num.h"
#include "ipam/journal/lease.h"

enum { SLOT = 512, SLOTS = 2 };

static const char magic[] = "unirail-anchor 1 ";

/* Reads one "key=value"; keys of a later release are skipped. */
static void read_word(struct span word, struct journal_anchor *a)
{
	const struct {
		const char *key;
		uint64_t *hex;
		int64_t *number;
	} message[] = {
		{"journal=", &a->now.journal, NULL}, {"end=", NULL, &a->now.end},
		{"line=", &a->now.line, NULL},	     {"next=", &a->next.journal, NULL},
		{"next_end=", NULL, &a->next.end},
	};
	uint64_t seq;

	for (size_t i = 0; i < ARRAY_LEN(message); i++) {
		size_t n = strlen(message[i].key);
		struct span value = {word.p + n, word.n - n};

		if (!span_has_prefix(word, message[i].key))
			continue;
		if (message[i].hex)
			(void)num_hex(value, UINT64_MAX, message[i].hex);
		else
			(void)num_i64(value, 0, INT64_MAX, message[i].number);
		return;
	}
	if (span_has_prefix(word, "seq=") &&
	    num_u64((struct span){word.p + 4, word.n - 4}, 0, UINT64_MAX, &seq) == 0)
		a->seq = seq;
}

static bool read_slot(const char *p, struct journal_anchor *ret)
{
	struct journal_anchor a = JOURNAL_ANCHOR_INIT;
	struct span s = span_trim((struct span){p, SLOT}), word;

	if (!span_has_prefix(s, magic) || !line_is_whole(s.p, s.n))
		return false;
	s.n -= LINE_SUM_MAX;
	while (span_cut(&s, ' ', &word))
		read_word(word, &a);
	a.fd = ret->fd;
	*ret = a;
	return true;
}

static void read_slots(struct journal_anchor *a, const char *text, size_t n)
{
	for (size_t i = 0; i < SLOTS && (i + 1) * SLOT <= n; i++) {
		struct journal_anchor slot = {.fd = a->fd};

		if (read_slot(text + i * SLOT, &slot) && slot.seq >= a->seq)
			*a = slot;
	}
}

static char *path_of(const char *journal)
{
	return xasprintf("%s.anchor", journal);
}

int anchor_open(struct journal_anchor *a, const struct root *r, const char *journal, bool read_only,
		struct err *e)
{
	auto_free char *path = path_of(journal);
	char text[SLOT * SLOTS];
	ssize_t n;

	*a = (struct journal_anchor)JOURNAL_ANCHOR_INIT;
	a->fd = file_open(r, path, (read_only ? O_RDONLY : O_RDWR) | O_NOFOLLOW, 0, e);
	if (a->fd == -ENOENT) {
		a->fd = -1;
		err_clear(e);
		return 0;
	}
	if (a->fd < 0)
		return a->fd;
	do
		n = pread(a->fd, text, sizeof(text), 0);
	while (n < 0 && errno == EINTR);
	if (n < 0) {
		int code = -errno;

		anchor_close(a);
		return err_sys(e, code, "read '%s'", path);
	}
	read_slots(a, text, (size_t)n);
	return 0;
}

void anchor_close(struct journal_anchor *a)
{
	cleanup_fd(&a->fd);
	*a = (struct journal_anchor)JOURNAL_ANCHOR_INIT;
}

static int make_file(struct journal_anchor *a, const struct root *r, const char *journal,
		     struct err *e)
{
	auto_free char *path = path_of(journal);

	if (a->fd < 0)
		a->fd = file_open(r, path, O_RDWR | O_CREAT | O_NOFOLLOW, 0600, e);
	return a->fd < 0 ? a->fd : 0;
}

static int write_slot(struct journal_anchor *a, struct err *e)
{
	char text[SLOT];
	struct buf b;
	ssize_t n;

	a->seq++;
	buf_init(&b, sizeof(text));
	buf_printf(&b,
		   "%sseq=%" PRIu64 " journal=%016" PRIx64 " end=%" PRId64 " line=%016" PRIx64
		   " next=%016" PRIx64 " next_end=%" PRId64,
		   magic, a->seq, a->now.journal, a->now.end, a->now.line, a->next.journal,
		   a->next.end);
	buf_printf(&b, " #%016" PRIx64, xxh64(b.p, b.len));
	memset(text, ' ', sizeof(text));
	memcpy(text, b.p, b.len);
	text[sizeof(text) - 1] = '\n';
	buf_done(&b);
	/* The write is within one page of the file, so a process that is killed has written all of
	 * it or nothing. */
	do
		n = pwrite(a->fd, text, sizeof(text), (off_t)(a->seq % SLOTS * SLOT));
	while (n < 0 && errno == EINTR);
	if (n != (ssize_t)sizeof(text))
		return err_sys(e, n < 0 ? -errno : -EIO, "write the journal's anchor");
	return 0;
}

void anchor_set(struct journal_anchor *a, const struct root *r, const char *journal,
		const struct anchor_mark *now)
{
	a->now = *now;
	a->next = (struct anchor_mark){0};
	if (make_file(a, r, journal, NULL) == 0)
		(void)write_slot(a, NULL);
}

int anchor_announce(struct journal_anchor *a, const struct root *r, const char *journal,
		    const struct anchor_mark *next, struct err *e)
{
	int n = make_file(a, r, journal, e);

	a->next = *next;
	if (n == 0)
		n = write_slot(a, e);
	if (n == 0 && fdatasync(a->fd) < 0)
		n = err_sys(e, -errno, "fdatasync the journal's anchor");
	return n;
}

const struct anchor_mark *anchor_of(const struct journal_anchor *a, uint64_t journal)
{
	if (a->now.journal == journal)
		return &a->now;
	return a->next.journal == journal ? &a->next : NULL;
}
