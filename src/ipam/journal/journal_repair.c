/* SPDX-License-Identifier: Apache-2.0 */
/* Going on after damage, when a person asked for it. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "ipam/journal/journal_priv.h"

enum { BODY_MAX = 256 << 20 };

struct repair {
	struct journal j;
	int64_t now_ms;
	const struct lease *found;
	size_t n_found;
	struct ipnet *doubtful;
	size_t n_doubtful;
	size_t damaged; /* lines */
	struct buf *said;
};

/* The words of a damaged line cannot be trusted, but its addresses are better held back. */
static void salvage(struct repair *p, const char *line, size_t n, size_t number)
{
	auto_free struct ipnet *v = NULL;
	size_t count = line_salvage(line, n, &v);
	char text[IP_TEXT_MAX];

	p->damaged++;
	buf_printf(p->said, "line %zu is damaged", number);
	for (size_t i = 0; i < count; i++) {
		buf_printf(p->said, "%s%s", i ? ", " : ": held back ", ipnet_str(&v[i], text));
		VEC_PUSH(p->doubtful, p->n_doubtful) = v[i];
	}
	buf_str(p->said, count ? "\n" : ": no address can be read in it\n");
}

/* The header, or what stands in its place. Returns 1 when the line is to be read as any other. */
static int first_line(struct repair *p, const char *line, size_t n, struct err *e)
{
	int r = journal_header(&p->j, line, n, e);

	if (r == 0 || r == -EPROTO)
		return r;
	err_clear(e);
	/* A line of records that is whole holds nothing back, yet without a header nobody reads it. */
	if (line_is_whole(line, n) && !journal_is_header(line, n)) {
		p->damaged++;
		buf_str(p->said, "the first line is missing\n");
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

/* After all lines, whatever their order: an address too many is held back rather than one too few. */
static void hold_back(struct repair *p)
{
	for (size_t i = 0; i < p->n_doubtful; i++) {
		struct lease l = LEASE_INIT, *there;

		there = lease_find(&p->j.leases, &p->doubtful[i].ip);
		if (there && (there->state == LEASE_USED || there->state == LEASE_KEPT))
			continue;
		l.address = p->doubtful[i];
		l.at_ms = p->now_ms;
		lease_put(&p->j.leases, &l);
	}
	for (size_t i = 0; i < p->n_found; i++) {
		const struct lease *f = &p->found[i],
				   *there = lease_find(&p->j.leases, &f->address.ip);
		char text[IP_TEXT_MAX];

		if (there && (there->state == LEASE_KEPT ||
			      (there->state == LEASE_USED && *there->container_id)))
			continue;
		buf_printf(p->said, "%s is in use: ", ip_str(&f->address.ip, text));
		lease_owner_str(f, p->said);
		buf_printf(p->said, "%s%s\n", *f->netns ? " in " : "", f->netns);
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

	buf_init(&whole, BODY_MAX);
	buf_init(&body, BODY_MAX);
	if (p->j.fd >= 0) {
		n = file_read(p->j.root, p->j.path, BODY_MAX, &whole, e);
		if (n == 0)
			n = file_replace(p->j.root, aside, buf_span(&whole), 0600, e);
		if (n < 0)
			return n;
	}
	journal_render(p->j.leases.v, p->j.leases.n, &body);
	n = journal_rewrite(&p->j, buf_span(&body), (int64_t)body.len, e);
	if (n < 0)
		return n;
	buf_printf(p->said, "journal written anew with %zu records", p->j.leases.n);
	if (was_there)
		buf_printf(p->said, ", the old one is '%s'", aside);
	buf_char(p->said, '\n');
	if (p->n_doubtful > 0)
		buf_str(p->said,
			"addresses held back show no owner in 'unirail pool show': give each back "
			"with 'unirail pool release ADDRESS' when no running pod has it\n");
	return 0;
}

/* Whether the file is all of what was written, as far as its anchor knows. */
static int look_whole(const struct root *r, const char *path, struct buf *said, bool *ret,
		      struct err *e)
{
	struct err why = ERR_INIT;
	struct journal j;
	int n = journal_open(&j, r, path, true, &why);

	*ret = n >= 0;
	if (n >= 0)
		journal_close(&j);
	else if (n != -EBADMSG && e)
		*e = why;
	else if (n == -EBADMSG)
		buf_printf(said, "%s\n", why.text);
	return n == -EBADMSG ? 0 : n;
}

int journal_repair(const struct root *r, const char *path, int64_t now_ms,
		   const struct lease *found, size_t n_found, struct buf *said, struct err *e)
{
	struct repair p = {.j = {.root = r, .path = xstrdup(path), .fd = -1},
			   .now_ms = now_ms,
			   .found = found,
			   .n_found = n_found,
			   .said = said};
	char *text = NULL;
	bool whole;
	int n = anchor_open(&p.j.anchor, r, path, false, e);

	if (n >= 0)
		n = look_whole(r, path, said, &whole, e);
	if (n >= 0)
		n = journal_read(&p.j, &text, e);
	if (n > 0)
		n = walk(&p, text, e);
	if (n == 0 && p.damaged == 0 && whole) {
		buf_printf(said, "journal '%s' is not damaged\n", path);
	} else if (n == 0) {
		hold_back(&p);
		n = replace(&p, e);
	}
	free(p.doubtful);
	journal_close(&p.j);
	return n;
}
