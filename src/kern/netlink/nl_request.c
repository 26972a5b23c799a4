/* SPDX-License-Identifier: Apache-2.0 */
#include "kern/netlink/nl_priv.h"

#include <errno.h>

#include "base/err.h"

enum {
	REQUEST_TRIES = 6, /* the first and five repetitions */
	LOSSES_MAX = 16,   /* ENOBUFS in a row before a dump is given up */
};

struct request {
	struct nl_wire *w;
	struct nlmsghdr *h;
	nl_cb cb;
	void *arg;
	int losses;
	int result; /* of the callback; negative: only waiting for the end */
	bool again; /* what was handed to the callback may be inconsistent or incomplete */
	bool done;
	struct nl_error why;
};

static bool is_dump(const struct nlmsghdr *h)
{
	return (h->nlmsg_flags & NLM_F_DUMP) == NLM_F_DUMP;
}

static void on_end(struct request *q, const struct nlmsghdr *h)
{
	int r = nl_error_parse(h, &q->why);

	q->done = true;
	if (r < 0)
		q->why.code = r;
}

static void on_data(struct request *q, struct nlmsghdr *h)
{
	if (q->result >= 0 && !q->again)
		q->result = q->cb(h, q->arg);
	if (!is_dump(q->h) && !(q->h->nlmsg_flags & NLM_F_ACK) && !(h->nlmsg_flags & NLM_F_MULTI))
		q->done = true;
}

static void on_message(struct request *q, struct nlmsghdr *h)
{
	if (h->nlmsg_seq != q->h->nlmsg_seq)
		return; /* the rest of an earlier conversation */
	if (h->nlmsg_flags & NLM_F_DUMP_INTR)
		q->again = true;
	if (h->nlmsg_type == NLMSG_ERROR || h->nlmsg_type == NLMSG_DONE)
		on_end(q, h);
	else if (h->nlmsg_type >= NLMSG_MIN_TYPE)
		on_data(q, h);
}

/* True when the datagram was a sound row of messages. */
static bool on_datagram(struct request *q, size_t n)
{
	struct nlmsghdr *h = (struct nlmsghdr *)q->w->buf;
	int rest = (int)n;

	for (; !q->done && nlmsg_ok(h, rest); h = nlmsg_next(h, &rest))
		on_message(q, h);
	return q->done || rest <= 0;
}

/* Lost answers: the rest of a dump still comes, the answer to anything else does not. */
static void on_loss(struct request *q, int code)
{
	q->again = true;
	q->why.code = code;
	q->done = !is_dump(q->h) || ++q->losses == LOSSES_MAX;
}

static void read_one(struct request *q)
{
	size_t n = 0;
	int r = nl_wire_recv(q->w, NL_ANSWER_MS, &n);

	if (r == -ENOBUFS || r == -EMSGSIZE) {
		on_loss(q, r);
		return;
	}
	if (r == 0 && !on_datagram(q, n))
		r = -EBADMSG;
	if (r < 0) {
		q->why.code = r == -EAGAIN ? -ETIMEDOUT : r;
		q->done = true;
	}
}

static int try_once(struct request *q, struct err *e)
{
	int r;

	q->h->nlmsg_seq = ++q->w->seq;
	r = nl_wire_send(q->w, q->h, q->h->nlmsg_len, e);
	if (r < 0)
		return r;
	while (!q->done)
		read_one(q);
	return 0;
}

static int outcome(const struct request *q, struct err *e)
{
	struct nl_error why = q->why;

	if (q->again && !why.code)
		why.code = -EINTR;
	if (q->result < 0)
		return q->result;
	return why.code < 0 ? nl_error_set(e, &why) : 0;
}

int nl_request(struct nl_wire *w, struct nl_msg *m, nl_cb cb, void (*reset)(void *), void *arg,
	       struct err *e)
{
	struct request q;
	int r = 0;

	err_clear(e);
	for (int i = 0; i < REQUEST_TRIES; i++) {
		q = (struct request){.w = w, .h = nlmsg_hdr(m), .cb = cb, .arg = arg};
		if (i > 0 && reset)
			reset(arg);
		r = try_once(&q, e);
		if (r < 0 || !q.again || q.result < 0)
			break;
	}
	nlmsg_free(m);
	return r < 0 ? r : outcome(&q, e);
}
