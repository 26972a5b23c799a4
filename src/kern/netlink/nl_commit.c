/* SPDX-License-Identifier: Apache-2.0 */
#include "kern/netlink/nl_priv.h"

#include <arpa/inet.h>
#include <errno.h>

#include <linux/netfilter/nfnetlink.h>

#include "base/buf.h"
#include "kern/netlink/attr.h"

enum {
	CHUNK_MESSAGES = 48,	/* 1 KiB of the receive buffer for each ack */
	CHUNK_BYTES = 64 << 10, /* of one sendmsg() */
	LOSSES_MAX = 16,	/* ENOBUFS in a row before the rest is given up */
};

/* Some messages of a batch that go out together: items from..to. */
struct chunk {
	size_t from, to;
	uint32_t begin; /* sequence number of the netfilter transaction's first message; 0 none */
	size_t open;	/* items not answered */
	struct buf out;
};

static void append(struct chunk *c, const struct nlmsghdr *h)
{
	static const char zero[NLMSG_ALIGNTO];

	buf_add(&c->out, h, h->nlmsg_len);
	buf_add(&c->out, zero, NLMSG_ALIGN(h->nlmsg_len) - h->nlmsg_len);
}

/* NFNL_MSG_BATCH_BEGIN and _END make what stands between them one transaction. */
static void append_bracket(struct nl_wire *w, struct chunk *c, int type)
{
	struct nfgenmsg head = {.version = NFNETLINK_V0, .res_id = htons(NFNL_SUBSYS_NFTABLES)};
	struct nl_msg *m = msg_new(type, 0, &head, sizeof(head), 0);

	nlmsg_hdr(m)->nlmsg_seq = ++w->seq;
	append(c, nlmsg_hdr(m));
	nlmsg_free(m);
}

static bool fits(const struct chunk *c, const struct nl_item *it)
{
	return c->open < CHUNK_MESSAGES &&
	       c->out.len + NLMSG_ALIGN(nlmsg_hdr(it->m)->nlmsg_len) <= CHUNK_BYTES;
}

static void fill(struct nl_wire *w, struct nl_batch *b, struct chunk *c)
{
	if (w->proto == NL_NETFILTER) {
		c->begin = w->seq + 1;
		append_bracket(w, c, NFNL_MSG_BATCH_BEGIN);
	}
	for (c->to = c->from; c->to < b->n; c->to++) {
		struct nl_item *it = &b->items[c->to];

		if (it->result.code != NL_UNANSWERED)
			continue;
		if (c->open && !fits(c, it))
			break;
		it->seq = nlmsg_hdr(it->m)->nlmsg_seq = ++w->seq;
		nlmsg_hdr(it->m)->nlmsg_flags |= NLM_F_ACK;
		append(c, nlmsg_hdr(it->m));
		c->open++;
	}
	if (w->proto == NL_NETFILTER)
		append_bracket(w, c, NFNL_MSG_BATCH_END);
}

static void settle(struct chunk *c, struct nl_item *it, const struct nl_error *why)
{
	if (it->result.code == NL_UNANSWERED)
		c->open--;
	it->result = *why;
}

/* A transaction that fails as a whole is answered by the number of its first message. */
static void settle_all(struct nl_batch *b, struct chunk *c, const struct nl_error *why, bool open)
{
	for (size_t i = c->from; i < c->to; i++) {
		struct nl_item *it = &b->items[i];

		if (it->m && (!open || it->result.code == NL_UNANSWERED))
			settle(c, it, why);
	}
}

static struct nl_item *item_of(struct nl_batch *b, const struct chunk *c, uint32_t seq)
{
	for (size_t i = c->from; i < c->to; i++) {
		if (b->items[i].m && b->items[i].seq == seq)
			return &b->items[i];
	}
	return NULL;
}

static void on_ack(struct nl_batch *b, struct chunk *c, const struct nlmsghdr *h,
		   struct nl_error *whole)
{
	struct nl_error why;
	struct nl_item *it;
	int r = nl_error_parse(h, &why);

	if (r < 0)
		why.code = r;
	if (c->begin && h->nlmsg_seq == c->begin && why.code < 0)
		*whole = why;
	it = item_of(b, c, h->nlmsg_seq);
	if (it && it->result.code == NL_UNANSWERED)
		settle(c, it, &why);
}

/* True when the datagram was a sound row of messages. */
static bool on_datagram(struct nl_wire *w, struct nl_batch *b, struct chunk *c, size_t n,
			struct nl_error *whole)
{
	struct nlmsghdr *h = (struct nlmsghdr *)w->buf;
	int rest = (int)n;

	for (; nlmsg_ok(h, rest); h = nlmsg_next(h, &rest)) {
		if (h->nlmsg_type == NLMSG_ERROR)
			on_ack(b, c, h, whole);
	}
	return rest <= 0;
}

/*
 * The kernel works a batch off within sendmsg(), so every answer is there already. What it could
 * not queue is lost (ENOBUFS): the rest is still read, without waiting.
 */
static void read_acks(struct nl_wire *w, struct nl_batch *b, struct chunk *c)
{
	struct nl_error whole = {0}, lost = {0};

	for (int losses = 0; c->open && losses < LOSSES_MAX;) {
		size_t n = 0;
		int r = nl_wire_recv(w, whole.code || losses ? 0 : NL_ANSWER_MS, &n);

		if (r == 0 && !on_datagram(w, b, c, n, &whole))
			r = -EBADMSG;
		if (r < 0 && !lost.code)
			lost.code = r == -EAGAIN ? -ETIMEDOUT : r;
		if (r == -ENOBUFS || r == -EMSGSIZE)
			losses++;
		else if (r < 0)
			break;
	}
	if (whole.code)
		settle_all(b, c, &whole, false);
	settle_all(b, c, &lost, true);
}

static bool tolerated(const struct nl_item *it)
{
	switch (it->result.code) {
	case -EEXIST: return it->flags & NL_OK_EXIST;
	case -ENOENT:
	case -ENODEV:
	case -ESRCH:
	case -EADDRNOTAVAIL: return it->flags & NL_OK_ABSENT;
	default: return false;
	}
}

static int conclude(struct nl_batch *b, struct err *e)
{
	int first = 0;

	for (size_t i = 0; i < b->n; i++) {
		struct nl_item *it = &b->items[i];

		if (tolerated(it))
			it->result.code = 0;
		if (first || it->result.code >= 0)
			continue;
		first = nl_error_set(e, &it->result);
		err_wrap(e, first, "%s", it->what);
	}
	return first;
}

/* 0 when it was sent, whatever the answers. */
static int send_chunk(struct nl_wire *w, struct nl_batch *b, struct chunk *c, struct err *e)
{
	struct nl_error too_long = {.code = -EMSGSIZE};
	int r;

	if (!c->open)
		return 0;
	if (w->proto == NL_NETFILTER && c->to < b->n)
		return nl_error_set(e, &too_long); /* half a transaction is worse than none */
	r = nl_wire_send(w, c->out.p, c->out.len, e);
	if (r == 0)
		read_acks(w, b, c);
	return r;
}

/* Bad input: nothing of the batch is sent. */
static bool refused(struct nl_batch *b)
{
	struct nl_error canceled = {.code = -ECANCELED};
	bool any = false;

	for (size_t i = 0; i < b->n; i++)
		any |= !b->items[i].m;
	for (size_t i = 0; any && i < b->n; i++) {
		if (b->items[i].result.code == NL_UNANSWERED)
			b->items[i].result = canceled;
	}
	return any;
}

/* The refused message, before those that were not sent because of it. */
static int conclude_refused(struct nl_batch *b, struct err *e)
{
	size_t i = 0;

	while (b->items[i].m)
		i++;
	nl_error_set(e, &b->items[i].result);
	return err_wrap(e, b->items[i].result.code, "%s", b->items[i].what);
}

/* e holds why nothing from item `from` on was sent. */
static int not_sent(struct nl_batch *b, size_t from, int code, struct err *e)
{
	for (size_t i = from; i < b->n; i++) {
		if (b->items[i].result.code == NL_UNANSWERED)
			b->items[i].result.code = code;
	}
	return err_wrap(e, code, "%s", b->items[from].what);
}

int nl_batch_commit(struct nl_wire *w, struct nl_batch *b, struct err *e)
{
	size_t from = 0;

	err_clear(e);
	if (refused(b))
		return conclude_refused(b, e);
	while (from < b->n) {
		struct chunk c = {.from = from};
		int r;

		buf_init(&c.out, NL_BUF_MAX);
		fill(w, b, &c);
		r = send_chunk(w, b, &c, e);
		buf_done(&c.out);
		if (r < 0)
			return not_sent(b, from, r, e);
		from = c.to;
	}
	return conclude(b, e);
}
