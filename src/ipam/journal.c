/* SPDX-License-Identifier: Apache-2.0 */
#include "ipam/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/num.h"
#include "ipam/journal_priv.h"

enum {
	JOURNAL_MAX = 256 << 20,
	COMPACT_SLACK = 32 << 10,
	RECORD_BYTES = 64, /* about what one rail's record takes */
};

static const char magic[] = "unirail-journal ";

int journal_read(struct journal *j, char **text, struct err *e)
{
	struct stat st;
	ssize_t n;

	j->fd = file_open(j->root, j->path, O_RDWR, 0, e);
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
		"journal '%s': line %zu is damaged: see 'unirail pool check', which tells how "
		"to go on",
		j->path, line);
}

bool journal_is_header(const char *line, size_t n)
{
	return span_has_prefix((struct span){line, n}, magic);
}

/* The format number stands before the checksum's meaning does. */
int journal_header(struct journal *j, const char *line, size_t n, struct err *e)
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
				", this unirail reads format %d: use "
				"the release that wrote it, or drain the node and remove the file",
				j->path, format, JOURNAL_FORMAT);
	if (!line_is_whole(line, n) || !span_cut(&rest, ' ', &word) ||
	    !span_has_prefix(word, "base=") ||
	    num_u64((struct span){word.p + 5, word.n - 5}, 0, JOURNAL_MAX, &base) < 0)
		return damaged(j, 1, e);
	j->base = (int64_t)base;
	return 0;
}

/* Whether bytes that are no whole line are what a crash leaves of the last one. */
static bool is_torn(const char *line, size_t n, bool has_newline, bool is_last)
{
	return is_last && (!has_newline || memchr(line, '\0', n));
}

static int replay(struct journal *j, char *text, struct err *e)
{
	size_t at = 0, size = (size_t)j->size, number = 1;

	lease_table_reserve(&j->leases, size / RECORD_BYTES);
	for (; at < size || number == 1; number++) {
		char *line = text + at, *nl = memchr(line, '\n', size - at);
		size_t n = nl ? (size_t)(nl - line) : size - at;
		size_t next = at + n + (nl != NULL);
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
	}
	j->end = (int64_t)at;
	return 0;
}

int journal_open(struct journal *j, const struct root *r, const char *path, struct err *e)
{
	struct journal n = {.root = r, .path = xstrdup(path), .fd = -1};
	char *text = NULL;
	int ret;

	file_sweep(r, path); /* under the store's lock */
	ret = journal_read(&n, &text, e);
	if (ret > 0)
		ret = replay(&n, text, e);
	if (ret < 0) {
		journal_close(&n);
		err_default_kind(e, ERR_IO);
		return ret;
	}
	*j = n;
	return 0;
}

void journal_close(struct journal *j)
{
	cleanup_fd(&j->fd);
	j->fd = -1;
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
 * The new file may have the name all the same: the folder's fsync comes after the rename. Where
 * there was no journal there is none again. An old one says the same, but what we have open may
 * be the file without a name: nobody would read what is appended to that.
 */
static int rewrite_failed(struct journal *j, int code)
{
	if (j->fd >= 0)
		j->broken = !is_named(j);
	else if (file_remove(j->root, j->path, NULL) < 0)
		j->broken = true;
	return code;
}

int journal_rewrite(struct journal *j, struct span body, int64_t base, struct err *e)
{
	auto_buf struct buf b;
	int fd, n;

	buf_init(&b, JOURNAL_MAX);
	buf_printf(&b, "%s%d base=%" PRId64, magic, JOURNAL_FORMAT, base);
	buf_printf(&b, " #%016" PRIx64 "\n", xxh64(b.p, b.len));
	buf_add(&b, body.p, body.n);
	if (b.over)
		return err_set(e, -EFBIG, "journal '%s' would pass %d MiB", j->path,
			       JOURNAL_MAX >> 20);
	n = file_replace(j->root, j->path, buf_span(&b), 0600, e);
	if (n < 0)
		return rewrite_failed(j, n);
	fd = file_open(j->root, j->path, O_RDWR, 0, e);
	if (fd < 0)
		return rewrite_failed(j, fd);
	cleanup_fd(&j->fd);
	j->fd = fd;
	j->end = j->size = (int64_t)b.len;
	j->base = base;
	j->no_newline = false;
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

static int append(struct journal *j, struct span line, struct err *e)
{
	int64_t at = j->end;
	int n = 0;

	/* What a crash tore goes first: two halves must not make a line. */
	if (j->size > j->end && ftruncate(j->fd, j->end) < 0)
		n = -errno;
	if (n == 0 && j->no_newline)
		n = write_at(j->fd, "\n", 1, at++);
	if (n == 0)
		n = write_at(j->fd, line.p, line.n, at);
	if (n == 0 && fdatasync(j->fd) < 0)
		n = -errno;
	if (n < 0) {
		/* Whatever reached the disk must not look granted; a second fsync proves nothing. */
		j->broken = true;
		j->size = INT64_MAX;
		if (ftruncate(j->fd, j->end) == 0)
			fdatasync(j->fd);
		return err_sys(e, n, "write to journal '%s'%s", j->path,
			       n == -ENOSPC || n == -EDQUOT ? " (make room there)" : "");
	}
	j->end = j->size = at + (int64_t)line.n;
	j->no_newline = false;
	return 0;
}

int journal_commit(struct journal *j, const struct lease *v, size_t n, struct err *e)
{
	struct line_writer w;
	auto_buf struct buf b;
	char *text;
	int r;

	buf_init(&b, JOURNAL_MAX);
	if (j->broken)
		return err_set(e, -EIO, "journal '%s': an earlier write failed", j->path);
	line_begin(&w, &b);
	for (size_t i = 0; i < n; i++)
		line_put(&w, &v[i]);
	line_end(&w);
	r = j->fd < 0 ? journal_rewrite(j, buf_span(&b), 0, e) : append(j, buf_span(&b), e);
	if (r < 0) {
		err_default_kind(e, ERR_IO);
		return r;
	}
	/* The table learns it the way a restart would. */
	text = buf_take(&b);
	VEC_PUSH(j->texts, j->n_texts) = text;
	return line_apply(text, strlen(text) - 1, &j->leases, e);
}

bool journal_is_long(const struct journal *j)
{
	return j->fd >= 0 && !j->broken && j->size > 2 * j->base + COMPACT_SLACK;
}
