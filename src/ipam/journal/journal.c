/* SPDX-License-Identifier: Apache-2.0 */
#include "ipam/journal/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/num.h"

enum {
	JOURNAL_MAX = 256 << 20,
	COMPACT_SLACK = 32 << 10,
	RECORD_BYTES = 64, /* approximate size of the record of one interface */
	/*
	 * Bytes reserved for the lines with which addresses will be released, so that a full disk
	 * does not stop a DEL. RESERVE_MIN is always reserved, plus RESERVE_USED for each used
	 * address. RESERVE_USED exceeds the longest such line: a `retain` line with a namespace of
	 * 63 bytes, and names of pod and pool of 253 bytes each.
	 */
	RESERVE_MIN = 4096,
	RESERVE_USED = 768,
};

static const char magic[] = "unirail-journal ";

/* Opens the file and reads it whole: sets j->fd, j->room, j->size and *text, which j->texts owns.
 * Returns 1, or 0 if the file does not exist. */
static int journal_read(struct journal *j, char **text, struct err *e)
{
	struct stat st;
	ssize_t n;

	j->fd = file_open(j->root, j->path, j->read_only ? O_RDONLY : O_RDWR, 0, e);
	if (j->fd == -ENOENT) {
		err_clear(e);
		return 0;
	}
	if (j->fd < 0)
		return j->fd;
	if (fstat(j->fd, &st) < 0)
		return err_sys(e, -errno, "stat '%s'", j->path);
	if (st.st_size > JOURNAL_MAX)
		return err_set(e, -EFBIG, "'%s' is longer than %d MiB", j->path, JOURNAL_MAX >> 20);
	j->room = (int64_t)st.st_blocks * 512 - st.st_size;
	*text = xmalloc((size_t)st.st_size + 1);
	VEC_PUSH(j->texts, j->n_texts) = *text;
	while (j->size < st.st_size) {
		n = pread(j->fd, *text + j->size, (size_t)(st.st_size - j->size), j->size);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_sys(e, -errno, "read '%s'", j->path);
		if (n == 0)
			break;
		j->size += n;
	}
	return 1;
}

static int damaged(const struct journal *j, size_t line, struct err *e)
{
	return err_kind(
		e, ERR_IO, -EBADMSG,
		"journal '%s': line %zu is damaged: run 'unirail pool check' for the remedy",
		j->path, line);
}

/* Returns whether the line begins like the first line of a journal. */
static bool journal_is_header(const char *line, size_t n)
{
	return span_has_prefix((struct span){line, n}, magic);
}

/* The format number is checked before the checksum, whose meaning depends on it. */
static int journal_header(struct journal *j, const char *line, size_t n, struct err *e)
{
	struct span rest = {line, n}, word;
	uint64_t format, base;

	if (!journal_is_header(line, n))
		return damaged(j, 1, e);
	rest.p += sizeof(magic) - 1;
	rest.n -= sizeof(magic) - 1;
	span_cut(&rest, ' ', &word);
	if (num_u64(word, 0, UINT32_MAX, &format) < 0)
		return damaged(j, 1, e);
	if (format > JOURNAL_FORMAT)
		return err_kind(e, ERR_UNAVAILABLE, -EPROTO,
				"journal '%s' has format %" PRIu64
				", this release reads format %d: use the "
				"release that wrote it, or drain the "
				"node and remove the journal's directory",
				j->path, format, JOURNAL_FORMAT);
	if (!line_is_whole(line, n) || !span_cut(&rest, ' ', &word) ||
	    !span_has_prefix(word, "base=") ||
	    num_u64((struct span){word.p + 5, word.n - 5}, 0, JOURNAL_MAX, &base) < 0)
		return damaged(j, 1, e);
	j->base = (int64_t)base;
	j->has_id = memmem(line, n, " id=", 4);
	j->name = line_sum(line, n);
	return 0;
}

/* The error for a journal that lost a part of its content. */
static int lost(const struct journal *j, struct err *e, const char *what)
{
	return err_kind(
		e, ERR_IO, -EBADMSG,
		"journal '%s' %s: addresses in use may be missing from it: run 'unirail pool check' for the remedy",
		j->path, what);
}

static int check_anchor(const struct journal *j, struct err *e)
{
	const struct anchor_mark *m = anchor_of(&j->anchor, j->name);
	char message[96];

	if (m && j->reached)
		return 0;
	if (m) {
		snprintf(message, sizeof(message),
			 "is truncated (%" PRId64 " of %" PRId64 " bytes)", j->end, m->end);
		return lost(j, e, message);
	}
	if (j->has_id)
		return lost(j, e,
			    j->anchor.seq ? "does not match its anchor file"
					  : "lacks a valid anchor file");
	if (j->anchor.now.journal)
		log_warn("journal was rewritten by an earlier release", LOG_S("file", j->path));
	return 0;
}

/* Returns whether a crash may have left this damaged line: it is the last line of the file, and
 * has no newline or contains zero bytes. */
static bool is_torn(const char *line, size_t n, bool has_newline, bool is_last)
{
	return is_last && (!has_newline || memchr(line, '\0', n));
}

/* Returns whether the complete line that ends at `at` is the line whose end the anchor records.
 * The newline of the last line may be missing. */
static bool is_mark(const struct journal *j, int64_t at)
{
	const struct anchor_mark *m = anchor_of(&j->anchor, j->name);

	return m && (at == m->end || (j->no_newline && at + 1 == m->end)) &&
	       (!m->line || j->last == m->line);
}

static int replay(struct journal *j, char *text, struct err *e)
{
	size_t at = 0, size = (size_t)j->size, number = 1;

	lease_table_reserve(&j->leases, size / RECORD_BYTES);
	for (; at < size || number == 1; number++) {
		char *line = text + at, *nl = memchr(line, '\n', size - at);
		size_t n = nl ? (size_t)(nl - line) : size - at;
		size_t next = at + n + (nl != NULL);
		uint64_t sum = line_sum(line, n);
		int r = 0;

		if (number == 1)
			r = journal_header(j, line, n, e);
		else if (line_is_whole(line, n))
			r = line_apply(line, n, &j->leases, e);
		else if (is_torn(line, n, nl != NULL, next == size))
			break;
		else
			r = damaged(j, number, e);
		if (r == -EPROTO && number > 1) {
			err_wrap(e, r, "journal '%s': line %zu", j->path, number);
			err_default_kind(e, ERR_UNAVAILABLE);
		}
		if (r < 0)
			return r;
		at = next;
		j->no_newline = !nl;
		j->last = sum;
		j->reached |= is_mark(j, (int64_t)at);
	}
	j->end = (int64_t)at;
	return check_anchor(j, e);
}

static void set_anchor(struct journal *j)
{
	anchor_set(&j->anchor, j->root, j->path, &(struct anchor_mark){j->name, j->end, j->last});
}

/* Writes the anchor if it does not record the journal's last line: a process was killed before
 * it wrote the anchor, or an earlier release wrote that line. The line may not be on the disk
 * yet, so the journal is synced first. */
static void catch_up(struct journal *j)
{
	const struct anchor_mark *now = &j->anchor.now;

	if (now->journal == j->name && now->end >= j->end)
		return;
	if (!j->no_newline && fdatasync(j->fd) == 0)
		set_anchor(j);
}

int journal_open(struct journal *j, const struct root *r, const char *path, bool read_only,
		 struct err *e)
{
	struct journal n = {.root = r, .path = xstrdup(path), .fd = -1, .read_only = read_only};
	char *text = NULL;
	int ret;

	if (!read_only)
		file_sweep(r, path); /* no other process writes: the store is locked */
	ret = anchor_open(&n.anchor, r, path, read_only, e);
	if (ret >= 0)
		ret = journal_read(&n, &text, e);
	if (ret > 0)
		ret = replay(&n, text, e);
	else if (ret == 0 && n.anchor.now.journal)
		ret = lost(&n, e, "is missing");
	if (ret < 0) {
		journal_close(&n);
		err_default_kind(e, ERR_IO);
		return ret;
	}
	if (n.fd >= 0 && !read_only)
		catch_up(&n);
	*j = n;
	return 0;
}

void journal_close(struct journal *j)
{
	cleanup_fd(&j->fd);
	j->fd = -1;
	anchor_close(&j->anchor);
	lease_table_done(&j->leases);
	str_list_free(j->texts, j->n_texts);
	j->texts = NULL;
	j->n_texts = 0;
	free(j->path);
	j->path = NULL;
}

static bool is_named(const struct journal *j)
{
	struct stat is, named;

	return fstat(j->fd, &is) == 0 && file_lstat(j->root, j->path, &named, NULL) == 0 &&
	       is.st_ino == named.st_ino && is.st_dev == named.st_dev;
}

/*
 * Handles a failed rewrite. The rename may have succeeded, because the fsync of the directory,
 * which can also fail, comes after it. If there was no journal before, the new file is removed.
 * Otherwise the old file stays valid: compaction omits only leases that no longer matter, and a
 * failed repair can be repeated. But if the rename succeeded, the open file is the old one without
 * a name, and lines appended to it would be lost, so the journal is marked broken.
 */
static int rewrite_failed(struct journal *j, int code)
{
	if (j->fd >= 0)
		j->broken = !is_named(j);
	else if (file_remove(j->root, j->path, NULL) < 0)
		j->broken = true;
	return code;
}

static uint64_t random_id(void)
{
	uint64_t id = 0;

	if (getrandom(&id, sizeof(id), GRND_NONBLOCK) != sizeof(id))
		id = (uint64_t)now_real_ms() << 20 ^ (uint64_t)getpid();
	return id;
}

/* Allocates `n` bytes at offset `at` without changing the file's length. Returns -ENOSPC or
 * -EDQUOT, otherwise 0, even if the file system cannot do this. */
static int keep_room(int fd, int64_t at, int64_t n)
{
	int r;

	do
		r = fallocate(fd, FALLOC_FL_KEEP_SIZE, at, n) < 0 ? -errno : 0;
	while (r == -EINTR);
	return r == -ENOSPC || r == -EDQUOT ? r : 0;
}

static int64_t reserve(const struct journal *j, size_t more)
{
	int64_t n = RESERVE_MIN + (int64_t)more * RESERVE_USED;

	for (size_t i = 0; i < j->leases.n; i++)
		if (j->leases.v[i].state == LEASE_USED)
			n += RESERVE_USED;
	return n;
}

static int no_room(const struct journal *j, int code, struct err *e)
{
	return err_sys(e, code, "write to journal '%s'%s", j->path,
		       code == -ENOSPC || code == -EDQUOT ? " (make free space on its file system)"
							  : "");
}

/* Replaces the journal by a new file with the given text, and with space for `room` more bytes. */
static int rewrite(const struct journal *j, struct span text, int64_t room, struct err *e)
{
	auto_file_temp struct file_temp t = FILE_TEMP_INIT;
	int n = file_temp_open(j->root, j->path, 0600, &t, e);

	if (n == 0)
		n = fd_write_all(t.fd, text.p, text.n, e);
	if (n < 0)
		return err_wrap(e, n, "replace '%s'", j->path);
	n = keep_room(t.fd, (int64_t)text.n, room);
	if (n < 0)
		return no_room(j, n, e);
	n = file_temp_commit(&t, e);
	return n < 0 ? err_wrap(e, n, "replace '%s'", j->path) : 0;
}

static size_t count_records(struct span body)
{
	static const char key[] = " ip=";
	const char *end = body.p + body.n;
	size_t n = 0;

	for (const char *p = body.p; p && (p = memmem(p, (size_t)(end - p), key, 4)); p += 4)
		n++;
	return n;
}

static int read_only_error(const struct journal *j, struct err *e)
{
	return err_kind(e, ERR_IO, -EROFS, "journal '%s' was opened for reading only", j->path);
}

/* Replaces the file by a header and `body`, and opens the new file. */
static int journal_rewrite(struct journal *j, struct span body, int64_t base, struct err *e)
{
	auto_buf struct buf b;
	struct anchor_mark next = {0};
	int64_t room;
	int fd, n;

	buf_init(&b, JOURNAL_MAX);
	if (j->read_only)
		return read_only_error(j, e);
	buf_printf(&b, "%s%d base=%" PRId64 " id=%016" PRIx64, magic, JOURNAL_FORMAT, base,
		   random_id());
	next.journal = xxh64(b.p, b.len);
	buf_printf(&b, " #%016" PRIx64 "\n", next.journal);
	buf_add(&b, body.p, body.n);
	if (b.over)
		return err_set(e, -EFBIG, "journal '%s' would exceed %d MiB", j->path,
			       JOURNAL_MAX >> 20);
	next.end = (int64_t)b.len;
	/* If there was no file, `body` may be the first change, whose records are not in the
	 * table yet: they are counted in the text. */
	room = reserve(j, j->fd < 0 ? count_records(body) : 0);
	n = anchor_announce(&j->anchor, j->root, j->path, &next, e);
	if (n == 0)
		n = rewrite(j, buf_span(&b), room, e);
	if (n < 0)
		return rewrite_failed(j, n);
	fd = file_open(j->root, j->path, O_RDWR, 0, e);
	if (fd < 0)
		return rewrite_failed(j, fd);
	cleanup_fd(&j->fd);
	j->fd = fd;
	j->end = j->size = (int64_t)b.len;
	j->base = base;
	j->room = room;
	j->name = next.journal;
	j->last = line_sum(b.p, b.len - 1);
	j->no_newline = false;
	j->has_id = true;
	set_anchor(j);
	return 0;
}

static int write_at(int fd, const char *p, size_t n, int64_t at)
{
	while (n > 0) {
		ssize_t done = pwrite(fd, p, n, at);

		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0)
			return -errno;
		p += done;
		n -= (size_t)done;
		at += done;
	}
	return 0;
}

/* Removes the remains of a failed write. If the removal is certain (disk full, before any
 * fdatasync), the journal is unchanged and stays usable; otherwise it is marked broken. */
static void roll_back(struct journal *j, int code, bool synced)
{
	struct stat st;

	j->room = 0;
	if (!synced && (code == -ENOSPC || code == -EDQUOT) && fstat(j->fd, &st) == 0 &&
	    (st.st_size == j->end || ftruncate(j->fd, j->end) == 0)) {
		j->size = j->end;
		return;
	}
	/* A change that was reported as failed may have reached the disk, but must not take effect
	 * at the next start. A second fsync would not prove that it was removed. */
	j->broken = true;
	j->size = INT64_MAX;
	if (ftruncate(j->fd, j->end) == 0)
		fdatasync(j->fd);
}

static int append(struct journal *j, struct span line, size_t allocations, struct err *e)
{
	int64_t at = j->end,
		want = (int64_t)line.n + 1 + (allocations ? reserve(j, allocations) : 0);
	bool synced = false;
	int n = 0;

	/* Cuts off a torn line first, because it would form one line with the new text. */
	if (j->size > j->end) {
		n = ftruncate(j->fd, j->end) < 0 ? -errno : 0;
		j->room = 0;
	}
	if (n == 0 && j->room < want && allocations) {
		n = keep_room(j->fd, j->end, want + RESERVE_MIN);
		if (n < 0)
			return no_room(j, n, e);
		j->room = want + RESERVE_MIN;
	}
	if (n == 0 && j->no_newline)
		n = write_at(j->fd, "\n", 1, at++);
	if (n == 0)
		n = write_at(j->fd, line.p, line.n, at);
	if (n == 0) {
		synced = true;
		n = fdatasync(j->fd) < 0 ? -errno : 0;
	}
	if (n < 0) {
		roll_back(j, n, synced);
		return no_room(j, n, e);
	}
	j->end = j->size = at + (int64_t)line.n;
	j->room -= (int64_t)line.n;
	j->last = line_sum(line.p, line.n - 1);
	j->no_newline = false;
	set_anchor(j);
	return 0;
}

int journal_commit(struct journal *j, const struct lease *v, size_t n, struct err *e)
{
	struct line_writer w;
	auto_buf struct buf b;
	size_t allocations = 0;
	char *text;
	int r;

	buf_init(&b, JOURNAL_MAX);
	if (j->read_only)
		return read_only_error(j, e);
	if (j->broken)
		return err_set(e, -EIO, "journal '%s': an earlier write failed", j->path);
	line_begin(&w, &b);
	for (size_t i = 0; i < n; i++) {
		line_put(&w, &v[i]);
		allocations += v[i].state == LEASE_USED;
	}
	line_end(&w);
	r = j->fd < 0 ? journal_rewrite(j, buf_span(&b), 0, e)
		      : append(j, buf_span(&b), allocations, e);
	if (r < 0) {
		err_default_kind(e, ERR_IO);
		return r;
	}
	/* Applies to the table the same text that a restart would read. */
	text = buf_take(&b);
	VEC_PUSH(j->texts, j->n_texts) = text;
	return line_apply(text, strlen(text) - 1, &j->leases, e);
}

bool journal_is_long(const struct journal *j)
{
	return j->fd >= 0 && !j->broken && j->size > 2 * j->base + COMPACT_SLACK;
}

/* --- rewriting the journal: compaction and repair --- */

enum { BODY_MAX = 256 << 20 };

static bool same_line(const struct lease *a, const struct lease *b)
{
	return a->state == b->state && a->at_ms == b->at_ms &&
	       strcmp(a->container_id, b->container_id) == 0;
}

/* Writes leases as lines; consecutive leases of one container, state and time share a line. */
static void journal_render(const struct lease *v, size_t n, struct buf *b)
{
	struct line_writer w;

	for (size_t i = 0; i < n; i++) {
		if (i == 0 || !same_line(&v[i - 1], &v[i]))
			line_begin(&w, b);
		line_put(&w, &v[i]);
		if (i + 1 == n || !same_line(&v[i], &v[i + 1]))
			line_end(&w);
	}
}

static bool matters(const struct lease *l, int64_t now_ms, int64_t reuse_delay_ms,
		    int64_t quarantine_ms)
{
	if (l->state == LEASE_ADOPTED)
		return false;
	if (l->state == LEASE_FREE)
		return lease_lasts(l, now_ms, reuse_delay_ms);
	if (l->state == LEASE_QUARANTINED)
		return lease_lasts(l, now_ms, quarantine_ms);
	return true;
}

int journal_compact(struct journal *j, int64_t now_ms, int64_t reuse_delay_ms,
		    int64_t quarantine_ms, struct err *e)
{
	auto_free struct lease *live = xcalloc(j->leases.n + 1, sizeof(*live));
	auto_buf struct buf b;
	size_t n = 0;
	int r;

	for (size_t i = 0; i < j->leases.n; i++)
		if (matters(&j->leases.v[i], now_ms, reuse_delay_ms, quarantine_ms))
			live[n++] = j->leases.v[i];
	buf_init(&b, BODY_MAX);
	journal_render(live, n, &b);
	r = journal_rewrite(j, buf_span(&b), (int64_t)b.len, e);
	return r < 0 ? err_wrap(e, r, "rewrite the journal") : 0;
}

/* --- Repair, on request of the user --- */

enum { JOURNAL_REPAIR_BODY_MAX = 256 << 20 };

struct repair {
	struct journal j;
	int64_t now_ms;
	const struct lease *found;
	size_t n_found;
	struct ipnet *doubtful;
	size_t n_doubtful;
	size_t damaged; /* number of damaged lines */
	struct buf *message;
};

/* Keys of a damaged line cannot be trusted, but its addresses are treated as used. */
static void salvage(struct repair *p, const char *line, size_t n, size_t number)
{
	auto_free struct ipnet *v = NULL;
	size_t count = line_salvage(line, n, &v);
	char text[IP_TEXT_MAX];

	p->damaged++;
	buf_printf(p->message, "line %zu is damaged", number);
	for (size_t i = 0; i < count; i++) {
		buf_printf(p->message, "%s%s", i ? ", " : ": reserved ", ipnet_str(&v[i], text));
		VEC_PUSH(p->doubtful, p->n_doubtful) = v[i];
	}
	buf_str(p->message, count ? "\n" : ": no address in it is readable\n");
}

/* Reads the first line, which should be the header. Returns 1 if the caller must read the line like
 * any other. */
static int first_line(struct repair *p, const char *line, size_t n, struct err *e)
{
	int r = journal_header(&p->j, line, n, e);

	if (r == 0 || r == -EPROTO)
		return r;
	err_clear(e);
	/* A complete line of records: the header is missing, which counts as damage. The caller
	 * reads the records. */
	if (line_is_whole(line, n) && !journal_is_header(line, n)) {
		p->damaged++;
		buf_str(p->message, "the first line is missing\n");
		return 1;
	}
	salvage(p, line, n, 1);
	return 0;
}

static int walk(struct repair *p, char *text, struct err *e)
{
	size_t at = 0, size = (size_t)p->j.size;

	if (size == 0)
		return first_line(p, text, 0, e);
	for (size_t number = 1; at < size; number++) {
		char *line = text + at, *nl = memchr(line, '\n', size - at);
		size_t n = nl ? (size_t)(nl - line) : size - at;
		int r = number == 1 ? first_line(p, line, n, e) : 1;

		at += n + 1;
		if (r < 0)
			return r;
		if (r == 0)
			continue;
		if (!line_is_whole(line, n))
			salvage(p, line, n, number);
		else if ((r = line_apply(line, n, &p->j.leases, e)) < 0)
			return err_wrap(e, r, "journal '%s': line %zu", p->j.path, number);
	}
	return 0;
}

/*
 * Adds the addresses of damaged lines as used, then the leases in `found` (see journal_repair()).
 * The caller has applied all complete lines before, also those after a damaged line: treating a
 * free address as used is safer than allocating a used one.
 */
static void hold_back(struct repair *p)
{
	for (size_t i = 0; i < p->n_doubtful; i++) {
		struct lease l = LEASE_INIT, *there;

		there = lease_find(&p->j.leases, &p->doubtful[i].ip);
		if (there && (there->state == LEASE_USED || there->state == LEASE_RETAINED))
			continue;
		l.address = p->doubtful[i];
		l.at_ms = p->now_ms;
		lease_put(&p->j.leases, &l);
	}
	for (size_t i = 0; i < p->n_found; i++) {
		const struct lease *f = &p->found[i],
				   *there = lease_find(&p->j.leases, &f->address.ip);
		char text[IP_TEXT_MAX];

		if (there && (there->state == LEASE_RETAINED ||
			      (there->state == LEASE_USED && *there->container_id)))
			continue;
		buf_printf(p->message, "%s is in use: ", ip_str(&f->address.ip, text));
		lease_owner_str(f, p->message);
		buf_printf(p->message, "%s%s\n", *f->netns ? " in " : "", f->netns);
		p->n_doubtful += !*f->container_id;
		lease_put(&p->j.leases, f);
	}
}

static int replace(struct repair *p, struct err *e)
{
	auto_free char *aside = xasprintf("%s.damaged-%" PRId64, p->j.path, p->now_ms / 1000);
	bool was_there = p->j.fd >= 0;
	auto_buf struct buf whole, body;
	int n;

	buf_init(&whole, JOURNAL_REPAIR_BODY_MAX);
	buf_init(&body, JOURNAL_REPAIR_BODY_MAX);
	if (p->j.fd >= 0) {
		n = file_read(p->j.root, p->j.path, JOURNAL_REPAIR_BODY_MAX, &whole, e);
		if (n == 0)
			n = file_replace(p->j.root, aside, buf_span(&whole), 0600, e);
		if (n < 0)
			return n;
	}
	journal_render(p->j.leases.v, p->j.leases.n, &body);
	n = journal_rewrite(&p->j, buf_span(&body), (int64_t)body.len, e);
	if (n < 0)
		return n;
	buf_printf(p->message, "journal rewritten with %zu records", p->j.leases.n);
	if (was_there)
		buf_printf(p->message, ", the old journal is '%s'", aside);
	buf_char(p->message, '\n');
	if (p->n_doubtful > 0)
		buf_str(p->message,
			"reserved addresses show no owner in 'unirail pool show': release each "
			"with 'unirail pool release ADDRESS' when no running pod has it\n");
	return 0;
}

/* Sets *ret to whether the file is undamaged and has all lines that its anchor requires; otherwise
 * adds the reason to the message. */
static int read_whole(const struct root *r, const char *path, struct buf *message, bool *ret,
		      struct err *e)
{
	struct err cause = ERR_INIT;
	struct journal j;
	int n = journal_open(&j, r, path, true, &cause);

	*ret = n >= 0;
	if (n >= 0)
		journal_close(&j);
	else if (n != -EBADMSG && e)
		*e = cause;
	else if (n == -EBADMSG)
		buf_printf(message, "%s\n", cause.text);
	return n == -EBADMSG ? 0 : n;
}

int journal_repair(const struct root *r, const char *path, int64_t now_ms,
		   const struct lease *found, size_t n_found, struct buf *message, struct err *e)
{
	struct repair p = {.j = {.root = r, .path = xstrdup(path), .fd = -1},
			   .now_ms = now_ms,
			   .found = found,
			   .n_found = n_found,
			   .message = message};
	char *text = NULL;
	bool whole;
	int n = anchor_open(&p.j.anchor, r, path, false, e);

	if (n >= 0)
		n = read_whole(r, path, message, &whole, e);
	if (n >= 0)
		n = journal_read(&p.j, &text, e);
	if (n > 0)
		n = walk(&p, text, e);
	if (n == 0 && p.damaged == 0 && whole) {
		buf_printf(message, "journal '%s' is not damaged\n", path);
	} else if (n == 0) {
		hold_back(&p);
		n = replace(&p, e);
	}
	free(p.doubtful);
	journal_close(&p.j);
	return n;
}
