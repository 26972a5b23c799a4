/* SPDX-License-Identifier: Apache-2.0 */
#include "kern/netlink/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/file.h"

enum { REPLAY_FILE_MAX = 64 << 20 };

struct datagram {
	char dir; /* '>': sent, '<': received */
	int line;
	unsigned char *p;
	size_t n;
};

struct nl_replay {
	char *file;
	struct datagram *list;
	size_t n, at;
};

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return -1;
}

/* Returns the error in the line, NULL if it is valid. */
static const char *parse_hex(struct span s, struct datagram *d)
{
	if (s.n % 2)
		return "odd number of hex digits";
	if (s.n / 2 > NL_BUF_MAX)
		return "longer than any datagram";
	d->p = xmalloc(s.n / 2);
	d->n = s.n / 2;
	for (size_t i = 0; i < d->n; i++) {
		int hi = hex_digit(s.p[2 * i]), lo = hex_digit(s.p[2 * i + 1]);

		if (hi < 0 || lo < 0)
			return "expected lower-case hex digits";
		d->p[i] = (unsigned char)(hi << 4 | lo);
	}
	return NULL;
}

static const char *parse_comment(struct nl_wire *w, struct span line)
{
	auto_free char *name = NULL;

	if (!span_has_prefix(line, "# protocol "))
		return NULL;
	line.p += strlen("# protocol ");
	line.n -= strlen("# protocol ");
	name = span_dup(line);
	return nl_proto_find(name, &w->proto) ? NULL : "unknown protocol";
}

static const char *parse_line(struct nl_wire *w, struct span line, int number)
{
	struct nl_replay *r = w->replay;
	struct datagram *d;

	line = span_trim(line);
	if (line.n == 0)
		return NULL;
	if (line.p[0] == '#')
		return parse_comment(w, line);
	if ((line.p[0] != '>' && line.p[0] != '<') || (line.n > 1 && line.p[1] != ' '))
		return "expected '> HEX', '< HEX' or a comment";
	d = &VEC_PUSH(r->list, r->n);
	d->dir = line.p[0];
	d->line = number;
	return parse_hex(line.n > 2 ? (struct span){line.p + 2, line.n - 2} : span_of(""), d);
}

static int read_file(const char *file, struct buf *text, struct err *e)
{
	auto_fd int fd = open(file, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return err_sys(e, -errno, "open recording '%s'", file);
	buf_init(text, REPLAY_FILE_MAX);
	return fd_read_all(fd, REPLAY_FILE_MAX, text, e);
}

int nl_replay_load(struct nl_wire *w, const char *file, struct err *e)
{
	auto_buf struct buf text = {0};
	struct span rest, line;
	int number = 0, r = read_file(file, &text, e);

	if (r < 0)
		return r;
	w->replay = xcalloc(1, sizeof(*w->replay));
	w->replay->file = xstrdup(file);
	for (rest = buf_span(&text); span_cut(&rest, '\n', &line);) {
		const char *wrong = parse_line(w, line, ++number);

		if (wrong)
			return err_set(e, -EINVAL, "%s:%d: %s", file, number, wrong);
	}
	return 0;
}

void nl_replay_free(struct nl_replay *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < r->n; i++)
		free(r->list[i].p);
	free(r->list);
	free(r->file);
	free(r);
}

static size_t first_difference(const unsigned char *a, const unsigned char *b, size_t n)
{
	size_t i = 0;

	while (i < n && a[i] == b[i])
		i++;
	return i;
}

/* Compares a datagram, whose messages are numbered as in recordings, with the recorded one. */
static int compare(const struct nl_replay *r, const struct datagram *d, const unsigned char *p,
		   size_t n, struct err *e)
{
	size_t i = first_difference(p, d->p, n < d->n ? n : d->n);

	if (i < n && i < d->n)
		return err_set(
			e, -EPROTO,
			"%s:%d: the request is not the recorded one: byte %zu is %02x, expected %02x",
			r->file, d->line, i, p[i], d->p[i]);
	if (n != d->n)
		return err_set(
			e, -EPROTO,
			"%s:%d: the request is not the recorded one: %zu bytes, expected %zu",
			r->file, d->line, n, d->n);
	return 0;
}

int nl_replay_check(struct nl_wire *w, const void *p, size_t n, struct err *e)
{
	struct nl_replay *r = w->replay;
	auto_buf struct buf copy = {0};
	const struct datagram *d;

	if (r->at == r->n)
		return err_set(e, -EPROTO, "%s: a request after the recording's end", r->file);
	d = &r->list[r->at];
	if (d->dir != '>')
		return err_set(e, -EPROTO,
			       "%s:%d: a request was sent before the recorded answer "
			       "in this line was read",
			       r->file, d->line);
	buf_init(&copy, n);
	buf_add(&copy, p, n);
	nl_renumber(copy.p, n, -w->base);
	r->at++;
	return compare(r, d, (unsigned char *)copy.p, n, e);
}

int nl_replay_next(struct nl_wire *w, size_t *n)
{
	struct nl_replay *r = w->replay;
	const struct datagram *d = r->at < r->n ? &r->list[r->at] : NULL;

	if (!d || d->dir != '<')
		return -EAGAIN;
	if (d->n > w->cap) {
		w->buf = xrealloc(w->buf, d->n);
		w->cap = d->n;
	}
	memcpy(w->buf, d->p, d->n);
	nl_renumber(w->buf, d->n, w->base);
	*n = d->n;
	r->at++;
	return 0;
}

int nl_replay_finished(struct nl_wire *w, struct err *e)
{
	const struct nl_replay *r = w->replay;

	if (!r || r->at == r->n)
		return 0;
	return err_set(e, -EPROTO, "%s:%d: %zu recorded datagrams were not used", r->file,
		       r->list[r->at].line, r->n - r->at);
}
