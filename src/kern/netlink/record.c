/* SPDX-License-Identifier: Apache-2.0 */
#include "kern/netlink/internal.h"

#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"

void nl_renumber(void *p, size_t n, uint32_t by)
{
	struct nlmsghdr *h = p;
	int rest = (int)n;

	for (; nlmsg_ok(h, rest); h = nlmsg_next(h, &rest)) {
		h->nlmsg_seq += by;
		h->nlmsg_pid = 0;
	}
}

/* Renumbers the headers of requests that acks contain. */
static void renumber_acks(void *p, size_t n, uint32_t by)
{
	struct nlmsghdr *h = p;
	int rest = (int)n;

	for (; nlmsg_ok(h, rest); h = nlmsg_next(h, &rest)) {
		struct nlmsgerr *err = nlmsg_data(h);

		if (h->nlmsg_type != NLMSG_ERROR || nlmsg_datalen(h) < (int)sizeof(*err))
			continue;
		err->msg.nlmsg_seq += by;
		err->msg.nlmsg_pid = 0;
	}
}

static void put_hex(struct buf *b, const unsigned char *p, size_t n)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < n; i++) {
		buf_char(b, digits[p[i] >> 4]);
		buf_char(b, digits[p[i] & 15]);
	}
}

static void write_line(struct nl_wire *w, const struct buf *line)
{
	int r = fd_write_all(w->record_fd, line->p, line->len, NULL);

	if (r < 0 && !w->record_error)
		w->record_error = r;
}

void nl_record(struct nl_wire *w, char dir, const void *p, size_t n)
{
	auto_buf struct buf copy = {0}, line = {0};

	if (w->record_fd < 0)
		return;
	buf_init(&copy, n);
	buf_add(&copy, p, n);
	nl_renumber(copy.p, n, -w->base);
	renumber_acks(copy.p, n, -w->base);
	buf_init(&line, 2 * n + 3);
	buf_char(&line, dir);
	buf_char(&line, ' ');
	put_hex(&line, (unsigned char *)copy.p, n);
	buf_char(&line, '\n');
	write_line(w, &line);
}

int nl_record_to(struct nl_wire *w, int fd, struct err *e)
{
	auto_buf struct buf line = {0};
	int r;

	buf_init(&line, 64);
	buf_printf(&line, "# protocol %s\n", nl_proto_name(w->proto));
	r = fd_write_all(fd, line.p, line.len, e);
	if (r < 0)
		return err_wrap(e, r, "record netlink");
	w->record_fd = fd;
	return 0;
}
