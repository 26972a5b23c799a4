/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include <linux/netlink.h>
#include <netlink/socket.h>
#include <linux/netfilter/nfnetlink.h>

#include "base/buf.h"
#include "base/alloc.h"
#include "base/err.h"
#include "kern/netlink/attr.h"
#include "kern/netlink/internal.h"
#include "kern/sys/netns.h"

static const struct {
	const char *name;
	int number;
} protos[] = {
	[NL_ROUTE] = {"route", NETLINK_ROUTE},
	[NL_NETFILTER] = {"netfilter", NETLINK_NETFILTER},
	[NL_RDMA] = {"rdma", NETLINK_RDMA},
	[NL_GENERIC] = {"generic", NETLINK_GENERIC},
};

const char *nl_proto_name(enum nl_proto p)
{
	return protos[p].name;
}

bool nl_proto_find(const char *name, enum nl_proto *ret)
{
	for (size_t i = 0; i < sizeof(protos) / sizeof(protos[0]); i++) {
		if (!strcmp(protos[i].name, name)) {
			*ret = (enum nl_proto)i;
			return true;
		}
	}
	return false;
}

static void set_option(int fd, int level, int name, int value)
{
	/* Errors are ignored, because old kernels may lack an option. */
	(void)setsockopt(fd, level, name, &value, sizeof(value));
}

static void set_options(int fd)
{
	set_option(fd, SOL_NETLINK, NETLINK_EXT_ACK, 1);
	set_option(fd, SOL_NETLINK, NETLINK_CAP_ACK, 1);
	set_option(fd, SOL_NETLINK, NETLINK_GET_STRICT_CHK, 1);
	/* The receive buffer has room for the acks of more than two chunks (CHUNK_MESSAGES acks of
	 * 1 KiB each), the send buffer for a send of CHUNK_BYTES. SO_RCVBUFFORCE needs
	 * CAP_NET_ADMIN and is not limited by rmem_max. */
	set_option(fd, SOL_SOCKET, SO_RCVBUF, 256 << 10);
	set_option(fd, SOL_SOCKET, SO_RCVBUFFORCE, 256 << 10);
	set_option(fd, SOL_SOCKET, SO_SNDBUF, 128 << 10);
}

/* Opens the socket in the caller's present namespace. */
static int connect_here(struct nl_wire *w)
{
	w->sk = nl_socket_alloc();
	if (!w->sk)
		return -ENOMEM;
	errno = 0;
	if (nl_connect(w->sk, protos[w->proto].number) < 0)
		return errno ? -errno : -EIO;
	w->fd = nl_socket_get_fd(w->sk);
	set_options(w->fd);
	return 0;
}

static int connect_in(struct nl_wire *w, int netns_fd, struct err *e)
{
	struct netns_visit v = NETNS_VISIT_INIT;
	int r;

	if (netns_fd < 0)
		return connect_here(w);
	r = netns_enter(netns_fd, &v, e);
	if (r < 0)
		return r;
	r = connect_here(w);
	netns_leave(&v);
	return r;
}

static struct nl_wire *wire_new(enum nl_proto proto)
{
	struct nl_wire *w = xcalloc(1, sizeof(*w));

	w->proto = proto;
	w->fd = w->record_fd = -1;
	w->cap = NL_BUF_SIZE;
	w->buf = xmalloc(w->cap);
	return w;
}

static int nl_error_set(struct err *e, const struct nl_error *reason);

int nl_open(struct nl_wire **ret, enum nl_proto proto, int netns_fd, struct err *e)
{
	struct nl_wire *w = wire_new(proto);
	struct nl_error reason = {0};

	err_clear(e);
	reason.code = connect_in(w, netns_fd, e);
	if (reason.code < 0) {
		nl_wire_close(w);
		if (!e || !e->code)
			nl_error_set(e, &reason);
		return err_wrap(e, reason.code, "open %s netlink socket", protos[proto].name);
	}
	*ret = w;
	return 0;
}

int nl_reopen(struct nl_wire *w, int netns_fd, struct err *e)
{
	struct nl_sock *old = w->sk;
	struct nl_error reason = {0};
	int fd = w->fd;

	if (w->replay)
		return 0;
	err_clear(e);
	reason.code = connect_in(w, netns_fd, e);
	if (reason.code >= 0) {
		nl_socket_free(old);
		return 0;
	}
	if (w->sk != old)
		nl_socket_free(w->sk);
	w->sk = old;
	w->fd = fd;
	if (!e || !e->code)
		nl_error_set(e, &reason);
	return err_wrap(e, reason.code, "open %s netlink socket", protos[w->proto].name);
}

int nl_open_replay(struct nl_wire **ret, const char *file, struct err *e)
{
	struct nl_wire *w = wire_new(NL_ROUTE);
	int r = nl_replay_load(w, file, e);

	if (r < 0) {
		nl_wire_close(w);
		return r;
	}
	*ret = w;
	return 0;
}

void nl_wire_close(struct nl_wire *w)
{
	if (!w)
		return;
	nl_socket_free(w->sk);
	nl_replay_free(w->replay);
	free(w->buf);
	free(w);
}

void nl_cleanup(struct nl_wire **w)
{
	int saved = errno;

	nl_wire_close(*w);
	*w = NULL;
	errno = saved;
}

/* Sends one datagram. The caller has numbered the messages in p by w->seq. */
static int nl_wire_send(struct nl_wire *w, void *p, size_t n, struct err *e)
{
	struct nl_error reason = {0};
	int r;

	w->base = ((struct nlmsghdr *)p)->nlmsg_seq;
	if (w->replay)
		return nl_replay_check(w, p, n, e);
	nl_record(w, '>', p, n);
	if (w->record_error)
		return err_sys(e, w->record_error, "record netlink");
	do {
		r = nl_sendto(w->sk, p, n);
	} while (r < 0 && errno == EINTR);
	if (r >= 0)
		return 0;
	reason.code = -errno;
	nl_error_set(e, &reason);
	return err_wrap(e, reason.code, "send to the kernel by %s netlink", protos[w->proto].name);
}

/* Makes one recvmsg(). -EINTR: interrupted, or the datagram is not from the kernel; the caller
 * tries again. */
static ssize_t receive(struct nl_wire *w, int *flags)
{
	struct sockaddr_nl from = {0};
	struct iovec iov = {w->buf, w->cap};
	struct msghdr msg = {
		.msg_name = &from, .msg_namelen = sizeof(from), .msg_iov = &iov, .msg_iovlen = 1};
	/* with MSG_TRUNC, recvmsg() returns the whole length of a datagram that did not fit */
	ssize_t n = recvmsg(w->fd, &msg, MSG_DONTWAIT | MSG_TRUNC);

	if (n < 0)
		return -errno;
	*flags = msg.msg_flags;
	return from.nl_pid == 0 ? n : -EINTR;
}

static int too_long(struct nl_wire *w, size_t want)
{
	if (want > NL_BUF_MAX)
		return -EMSGSIZE;
	/* xrealloc() keeps the bytes that were received */
	w->buf = xrealloc(w->buf, want);
	w->cap = want;
	return -EMSGSIZE;
}

static int wait_for(int fd, int timeout_ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	int r = timeout_ms > 0 ? poll(&p, 1, timeout_ms) : 0;

	if (r < 0)
		return errno == EINTR ? 0 : -errno;
	return r ? 0 : -EAGAIN;
}

static int receive_live(struct nl_wire *w, int timeout_ms, size_t *n)
{
	int flags = 0;

	for (;;) {
		ssize_t got = receive(w, &flags);
		size_t cap = w->cap;

		if (got >= 0) {
			*n = (size_t)got < cap ? (size_t)got : cap;
			nl_record(w, '<', w->buf, *n);
			return flags & MSG_TRUNC ? too_long(w, (size_t)got) : 0;
		}
		if (got == -EAGAIN)
			got = wait_for(w->fd, timeout_ms);
		if (got < 0 && got != -EINTR)
			return (int)got;
	}
}

/*
 * Reads one datagram, from the kernel or the recording, into w->buf, and sets *n to its length.
 * -EAGAIN: no datagram within timeout_ms. -ENOBUFS: the kernel dropped responses. -EMSGSIZE: the
 * datagram was longer than the buffer, which has the first *n bytes; the buffer was enlarged to the
 * datagram's length if that is at most NL_BUF_MAX.
 */
static int nl_wire_recv(struct nl_wire *w, int timeout_ms, size_t *n)
{
	int r = w->replay ? nl_replay_next(w, n) : receive_live(w, timeout_ms, n);

	return r == 0 && *n == 0 ? -EBADMSG : r; /* an empty datagram contains no response */
}

enum {
	REQUEST_TRIES = 6, /* the first try and five repetitions */
	/* number of lost responses after which the rest of a dump is not read */
	LOSSES_MAX = 16,
};

struct request {
	struct nl_wire *w;
	struct nlmsghdr *h;
	nl_cb cb;
	void *arg;
	int losses;
	int result; /* result of the callback; negative: the rest of the response is discarded */
	bool again; /* repeat the request, because its response may be inconsistent or incomplete */
	bool done;
	struct nl_error reason;
};

static bool is_dump(const struct nlmsghdr *h)
{
	return (h->nlmsg_flags & NLM_F_DUMP) == NLM_F_DUMP;
}

static int nl_error_parse(const struct nlmsghdr *h, struct nl_error *ret);

static void on_end(struct request *q, const struct nlmsghdr *h)
{
	int r = nl_error_parse(h, &q->reason);

	q->done = true;
	if (r < 0)
		q->reason.code = r;
}

static void on_data(struct request *q, struct nlmsghdr *h)
{
	if (q->result >= 0 && !q->again)
		q->result = q->cb ? q->cb(h, q->arg) : 0;
	if (!is_dump(q->h) && !(q->h->nlmsg_flags & NLM_F_ACK) && !(h->nlmsg_flags & NLM_F_MULTI))
		q->done = true;
}

static void on_message(struct request *q, struct nlmsghdr *h)
{
	if (h->nlmsg_seq != q->h->nlmsg_seq)
		return; /* ignores a late response to an earlier request */
	if (h->nlmsg_flags & NLM_F_DUMP_INTR)
		q->again = true;
	if (h->nlmsg_type == NLMSG_ERROR || h->nlmsg_type == NLMSG_DONE)
		on_end(q, h);
	else if (h->nlmsg_type >= NLMSG_MIN_TYPE)
		on_data(q, h);
}

/* Handles the messages of a datagram. Returns false if it is malformed before the response ends. */
static bool on_datagram(struct request *q, size_t n)
{
	struct nlmsghdr *h = (struct nlmsghdr *)q->w->buf;
	int rest = (int)n;

	for (; !q->done && nlmsg_ok(h, rest); h = nlmsg_next(h, &rest))
		on_message(q, h);
	return q->done || rest <= 0;
}

/* Responses were lost: the rest of a dump still arrives, the response to any other request does not. */
static void on_loss(struct request *q, int code)
{
	q->again = true;
	q->reason.code = code;
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
		q->reason.code = r == -EAGAIN ? -ETIMEDOUT : r;
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
	struct nl_error reason = q->reason;

	if (q->again && !reason.code)
		reason.code = -EINTR;
	if (q->result < 0)
		return q->result;
	return reason.code < 0 ? nl_error_set(e, &reason) : 0;
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

/* Prepares the kernel's text for a one-line error: replaces control characters by spaces, and
 * removes spaces and dots at the end. */
static void one_line(char *s)
{
	size_t n = strlen(s);

	for (char *p = s; *p; p++) {
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			*p = ' ';
	}
	while (n > 0 && (s[n - 1] == ' ' || s[n - 1] == '.'))
		s[--n] = '\0';
}

static void ext_ack(const struct nlmsghdr *h, size_t skip, struct nl_error *ret)
{
	struct nlattr *tb[NLMSGERR_ATTR_MAX + 1];

	if (!(h->nlmsg_flags & NLM_F_ACK_TLVS) || msg_attrs(h, skip, tb, NLMSGERR_ATTR_MAX) < 0)
		return;
	get_str(tb[NLMSGERR_ATTR_MSG], ret->text, sizeof(ret->text));
	one_line(ret->text);
}

/* Returns the offset of the attributes in an ack. Without NLM_F_CAPPED the ack repeats the whole
 * request between the code and the attributes. */
static size_t error_head(const struct nlmsghdr *h, const struct nlmsgerr *err)
{
	size_t n = sizeof(*err);

	if (!(h->nlmsg_flags & NLM_F_CAPPED) && err->msg.nlmsg_len > NLMSG_HDRLEN)
		n += err->msg.nlmsg_len - NLMSG_HDRLEN;
	return n < (size_t)nlmsg_datalen(h) ? n : (size_t)nlmsg_datalen(h);
}

/* Parses NLMSG_ERROR or NLMSG_DONE; -EBADMSG: an NLMSG_ERROR is too short. */
static int nl_error_parse(const struct nlmsghdr *h, struct nl_error *ret)
{
	bool done = h->nlmsg_type == NLMSG_DONE;
	int code = 0;

	*ret = (struct nl_error){0};
	if (done && nlmsg_datalen(h) < (int)sizeof(code))
		return 0; /* old kernels and RDMA netlink send NLMSG_DONE without a code */
	if (!done && nlmsg_datalen(h) < (int)sizeof(struct nlmsgerr))
		return -EBADMSG;
	memcpy(&code, nlmsg_data(h), sizeof(code));
	ret->code = code < 0 && code >= -4095 ? code : code ? -EBADMSG : 0;
	ext_ack(h, done ? sizeof(code) : error_head(h, nlmsg_data(h)), ret);
	return 0;
}

/* Kinds of errors for common errno values, and their explanations or remedies. */
static const struct meaning {
	int code;
	enum err_kind kind;
	const char *text;
} meanings[] = {
	{-EPERM, ERR_UNAVAILABLE, "needs CAP_NET_ADMIN: run as root"},
	{-EBUSY, ERR_AGAIN, NULL},
	{-EAGAIN, ERR_AGAIN, NULL},
	{-EINTR, ERR_AGAIN,
	 "the list changed, or parts of the answer were lost, each time it "
	 "was read"},
	{-ENOBUFS, ERR_AGAIN, "the kernel's answer was lost, so the outcome is unknown"},
	{-ETIMEDOUT, ERR_AGAIN, "no answer from the kernel"},
	{-EBADMSG, ERR_OTHER, "malformed answer from the kernel"},
	{-EMSGSIZE, ERR_OTHER, "does not fit a netlink message"},
	{-EOPNOTSUPP, ERR_UNAVAILABLE, NULL},
	{-EAFNOSUPPORT, ERR_UNAVAILABLE, "this kernel lacks the address family"},
	{-EPROTONOSUPPORT, ERR_UNAVAILABLE, "this kernel lacks the netlink protocol"},
};

static const struct meaning *meaning_of(int code)
{
	static const struct meaning none = {0, ERR_OTHER, NULL};

	for (size_t i = 0; i < sizeof(meanings) / sizeof(meanings[0]); i++) {
		if (meanings[i].code == code)
			return &meanings[i];
	}
	return &none;
}

static const char *remedy(const struct nl_error *reason)
{
	/* rtnetlink's response to a kind of link whose module could not be loaded */
	if (reason->code == -EOPNOTSUPP && !strcasecmp(reason->text, "unknown device type"))
		return ": load the kernel module of this device type";
	return "";
}

/* Sets e to "Operation not permitted (EPERM): explanation: text of the kernel: remedy", with the
 * kind of the code. Parts that do not exist are left out. */
static int nl_error_set(struct err *e, const struct nl_error *reason)
{
	const struct meaning *m = meaning_of(reason->code);
	const char *message = m->text ? m->text : "";

	return err_kind(e, m->kind, reason->code, "%s%s%s%s%s%s", errno_text(reason->code),
			*message ? ": " : "", message, reason->text[0] ? ": " : "", reason->text,
			remedy(reason));
}

/* --- collecting the messages of a batch --- */

struct nl_batch *nl_batch_new(void)
{
	return xcalloc(1, sizeof(struct nl_batch));
}

void nl_batch_reset(struct nl_batch *b)
{
	for (size_t i = 0; i < b->n; i++) {
		free(b->items[i].h);
		free(b->items[i].what);
		free(b->items[i].text);
	}
	free(b->items);
	nlmsg_free(b->last);
	*b = (struct nl_batch){0};
}

void nl_batch_free(struct nl_batch *b)
{
	if (!b)
		return;
	nl_batch_reset(b);
	free(b);
}

void nl_batch_cleanup(struct nl_batch **b)
{
	int saved = errno;

	nl_batch_free(*b);
	*b = NULL;
	errno = saved;
}

size_t nl_batch_len(const struct nl_batch *b)
{
	return b->n;
}

int nl_batch_result(const struct nl_batch *b, size_t i)
{
	assert(i < b->n);
	return b->items[i].code < 0 ? b->items[i].code : 0;
}

static char *format(const char *fmt, va_list ap)
{
	struct buf b;

	buf_init(&b, ERR_TEXT_MAX);
	buf_vprintf(&b, fmt, ap);
	return buf_take(&b);
}

/* Most messages do not use all their room for attributes: the batch keeps a copy without the unused
 * room. The original is freed only after the next message was allocated: musl returns a page to the
 * kernel when nothing on it is allocated, and would map it again for each message. */
static struct nlmsghdr *take_message(struct nl_batch *b, struct nl_msg *m)
{
	const struct nlmsghdr *h = nlmsg_hdr(m);
	struct nlmsghdr *copy = xmalloc(h->nlmsg_len);

	memcpy(copy, h, h->nlmsg_len);
	nlmsg_free(b->last);
	b->last = m;
	return copy;
}

size_t nl_batch_add(struct nl_batch *b, struct nl_msg *m, unsigned int flags, const char *fmt, ...)
{
	struct nl_item *it = &VEC_PUSH(b->items, b->n);
	va_list ap;

	it->h = take_message(b, m);
	it->flags = flags;
	it->code = NL_UNANSWERED;
	va_start(ap, fmt);
	it->what = format(fmt, ap);
	va_end(ap);
	return b->n - 1;
}

size_t nl_batch_refuse(struct nl_batch *b, int code, const char *reason, const char *fmt, ...)
{
	struct nl_item *it = &VEC_PUSH(b->items, b->n);
	va_list ap;

	it->code = code;
	it->text = xstrdup(reason);
	va_start(ap, fmt);
	it->what = format(fmt, ap);
	va_end(ap);
	return b->n - 1;
}

enum {
	/* maximum number of messages; the ack of each takes up to 1 KiB of the receive buffer */
	CHUNK_MESSAGES = 48,
	/* in bytes; a further message that would exceed it goes into the next chunk */
	CHUNK_BYTES = 64 << 10,
	/* after this number of losses, messages still without an ack fail */
	NL_COMMIT_LOSSES_MAX = 16,
};

/* Messages of a batch that are sent together: items `from` to `to` - 1. */
struct chunk {
	size_t from, to;
	/* sequence number of the first message of the netfilter transaction; 0: none */
	uint32_t begin;
	size_t open; /* number of items without a response */
	struct buf out;
};

static void append(struct chunk *c, const struct nlmsghdr *h)
{
	static const char zero[NLMSG_ALIGNTO];

	buf_add(&c->out, h, h->nlmsg_len);
	buf_add(&c->out, zero, NLMSG_ALIGN(h->nlmsg_len) - h->nlmsg_len);
}

/* Adds NFNL_MSG_BATCH_BEGIN or _END; the messages between the two are one transaction. */
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
	       c->out.len + NLMSG_ALIGN(it->h->nlmsg_len) <= CHUNK_BYTES;
}

static void fill(struct nl_wire *w, struct nl_batch *b, struct chunk *c)
{
	if (w->proto == NL_NETFILTER) {
		c->begin = w->seq + 1;
		append_bracket(w, c, NFNL_MSG_BATCH_BEGIN);
	}
	for (c->to = c->from; c->to < b->n; c->to++) {
		struct nl_item *it = &b->items[c->to];

		if (it->code != NL_UNANSWERED)
			continue;
		if (c->open && !fits(c, it))
			break;
		it->seq = it->h->nlmsg_seq = ++w->seq;
		it->h->nlmsg_flags |= NLM_F_ACK;
		append(c, it->h);
		c->open++;
	}
	if (w->proto == NL_NETFILTER)
		append_bracket(w, c, NFNL_MSG_BATCH_END);
}

static void settle(struct chunk *c, struct nl_item *it, const struct nl_error *reason)
{
	if (it->code == NL_UNANSWERED)
		c->open--;
	free(it->text);
	it->code = reason->code;
	it->text = reason->text[0] ? xstrdup(reason->text) : NULL;
}

/* Sets the result of all items of the chunk; if `open`, only of those without a response. */
static void settle_all(struct nl_batch *b, struct chunk *c, const struct nl_error *reason,
		       bool open)
{
	for (size_t i = c->from; i < c->to; i++) {
		struct nl_item *it = &b->items[i];

		if (it->h && (!open || it->code == NL_UNANSWERED))
			settle(c, it, reason);
	}
}

static struct nl_item *item_of(struct nl_batch *b, const struct chunk *c, uint32_t seq)
{
	for (size_t i = c->from; i < c->to; i++) {
		if (b->items[i].h && b->items[i].seq == seq)
			return &b->items[i];
	}
	return NULL;
}

/* Sets the result of the item that the ack belongs to. An error with the sequence number of
 * NFNL_MSG_BATCH_BEGIN concerns the whole netfilter transaction and is stored in *whole. */
static void on_ack(struct nl_batch *b, struct chunk *c, const struct nlmsghdr *h,
		   struct nl_error *whole)
{
	struct nl_error reason;
	struct nl_item *it;
	int r = nl_error_parse(h, &reason);

	if (r < 0)
		reason.code = r;
	if (c->begin && h->nlmsg_seq == c->begin && reason.code < 0)
		*whole = reason;
	it = item_of(b, c, h->nlmsg_seq);
	if (it && it->code == NL_UNANSWERED)
		settle(c, it, &reason);
}

/* Returns true if the datagram was a valid sequence of messages. */
static bool nl_commit_on_datagram(struct nl_wire *w, struct nl_batch *b, struct chunk *c, size_t n,
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
 * Reads the acks. The kernel executes a batch within sendmsg(), so all acks are queued already.
 * After a loss (ENOBUFS) or the error of a whole transaction, some acks never come: the function
 * then reads only what is queued and does not wait.
 */
static void read_acks(struct nl_wire *w, struct nl_batch *b, struct chunk *c)
{
	struct nl_error whole = {0}, lost = {0};

	for (int losses = 0; c->open && losses < NL_COMMIT_LOSSES_MAX;) {
		size_t n = 0;
		int r = nl_wire_recv(w, whole.code || losses ? 0 : NL_ANSWER_MS, &n);

		if (r == 0 && !nl_commit_on_datagram(w, b, c, n, &whole))
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
	switch (it->code) {
	case -EEXIST: return it->flags & NL_OK_EXIST;
	case -ENOENT:
	case -ENODEV:
	case -ESRCH:
	case -EADDRNOTAVAIL: return it->flags & NL_OK_ABSENT;
	default: return false;
	}
}

static int item_failed(const struct nl_item *it, struct err *e)
{
	struct nl_error reason = {.code = it->code};

	str_copy(reason.text, sizeof(reason.text), it->text ? it->text : "");
	nl_error_set(e, &reason);
	return err_wrap(e, it->code, "%s", it->what);
}

static int conclude(struct nl_batch *b, struct err *e)
{
	int first = 0;

	for (size_t i = 0; i < b->n; i++) {
		struct nl_item *it = &b->items[i];

		if (tolerated(it))
			it->code = 0;
		if (first == 0 && it->code < 0)
			first = item_failed(it, e);
	}
	return first;
}

/* Returns 0 if the chunk was sent, whatever the responses are, or if it has no message to send. */
static int send_chunk(struct nl_wire *w, struct nl_batch *b, struct chunk *c, struct err *e)
{
	struct nl_error too_long = {.code = -EMSGSIZE};
	int r;

	if (!c->open)
		return 0;
	if (w->proto == NL_NETFILTER && c->to < b->n)
		return nl_error_set(e, &too_long); /* half a transaction must not be sent */
	r = nl_wire_send(w, c->out.p, c->out.len, e);
	if (r == 0)
		read_acks(w, b, c);
	return r;
}

/* Returns whether the batch has a message of nl_batch_refuse(). If so, nothing of the batch is
 * sent, and the result of the messages that were not refused becomes -ECANCELED. */
static bool refused(struct nl_batch *b)
{
	bool any = false;

	for (size_t i = 0; i < b->n; i++)
		any |= !b->items[i].h;
	for (size_t i = 0; any && i < b->n; i++) {
		if (b->items[i].code == NL_UNANSWERED)
			b->items[i].code = -ECANCELED;
	}
	return any;
}

/* Sets e to the error of the first refused message, not to the -ECANCELED of the others. */
static int conclude_refused(struct nl_batch *b, struct err *e)
{
	size_t i = 0;

	while (b->items[i].h)
		i++;
	return item_failed(&b->items[i], e);
}

/* Sets the result of all items from `from` on, which were not sent; e has the reason. */
static int not_sent(struct nl_batch *b, size_t from, int code, struct err *e)
{
	for (size_t i = from; i < b->n; i++) {
		if (b->items[i].code == NL_UNANSWERED)
			b->items[i].code = code;
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

int nl_listen(int protocol, unsigned int group)
{
	struct sockaddr_nl self = {.nl_family = AF_NETLINK};
	auto_fd int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol);

	/* The kernel does not deliver a notification to the socket with the sender's port id.
	 * The kernel's own port id is 0, like that of an unbound socket, so this socket must be
	 * bound. */
	if (fd < 0 || bind(fd, (const struct sockaddr *)&self, sizeof(self)) < 0 ||
	    setsockopt(fd, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group, sizeof(group)) < 0)
		return -errno;
	return take_fd(&fd);
}

int nl_receive(int fd, void *bytes, size_t size)
{
	for (;;) {
		struct sockaddr_nl from = {0};
		socklen_t len = sizeof(from);
		ssize_t n = recvfrom(fd, bytes, size, 0, (struct sockaddr *)&from, &len);

		if (n < 0 && errno != EINTR)
			return errno == EAGAIN ? 0 : -errno;
		/* a process with CAP_NET_ADMIN may send to the group as well; only the kernel
		 * has port 0 */
		if (n > 0 && from.nl_pid == 0)
			return (int)n;
	}
}
