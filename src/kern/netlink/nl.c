/* SPDX-License-Identifier: Apache-2.0 */
#include "kern/netlink/nl_priv.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <linux/netlink.h>
#include <netlink/socket.h>

#include "base/buf.h"
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
	/* All are improvements that an old kernel may lack. */
	(void)setsockopt(fd, level, name, &value, sizeof(value));
}

static void set_options(int fd)
{
	set_option(fd, SOL_NETLINK, NETLINK_EXT_ACK, 1);
	set_option(fd, SOL_NETLINK, NETLINK_CAP_ACK, 1);
	set_option(fd, SOL_NETLINK, NETLINK_GET_STRICT_CHK, 1);
	/* Two batches' acks of 1 KiB each; sends of 64 KiB. FORCE needs CAP_NET_ADMIN and
	 * lifts the limit of rmem_max. */
	set_option(fd, SOL_SOCKET, SO_RCVBUF, 256 << 10);
	set_option(fd, SOL_SOCKET, SO_RCVBUFFORCE, 256 << 10);
	set_option(fd, SOL_SOCKET, SO_SNDBUF, 128 << 10);
}

/* In the namespace the caller is in. */
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

int nl_open(struct nl_wire **ret, enum nl_proto proto, int netns_fd, struct err *e)
{
	struct nl_wire *w = wire_new(proto);
	struct nl_error why = {0};

	err_clear(e);
	why.code = connect_in(w, netns_fd, e);
	if (why.code < 0) {
		nl_wire_close(w);
		if (!e || !e->code)
			nl_error_set(e, &why);
		return err_wrap(e, why.code, "open %s netlink socket", protos[proto].name);
	}
	*ret = w;
	return 0;
}

int nl_reopen(struct nl_wire *w, int netns_fd, struct err *e)
{
	struct nl_sock *old = w->sk;
	struct nl_error why = {0};
	int fd = w->fd;

	if (w->replay)
		return 0;
	err_clear(e);
	why.code = connect_in(w, netns_fd, e);
	if (why.code >= 0) {
		nl_socket_free(old);
		return 0;
	}
	if (w->sk != old)
		nl_socket_free(w->sk);
	w->sk = old;
	w->fd = fd;
	if (!e || !e->code)
		nl_error_set(e, &why);
	return err_wrap(e, why.code, "open %s netlink socket", protos[w->proto].name);
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

int nl_wire_send(struct nl_wire *w, void *p, size_t n, struct err *e)
{
	struct nl_error why = {0};
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
	why.code = -errno;
	nl_error_set(e, &why);
	return err_wrap(e, why.code, "send to the kernel by %s netlink", protos[w->proto].name);
}

/* One recvmsg. Datagrams that the kernel did not send count as interruptions. */
static ssize_t receive(struct nl_wire *w, int *flags)
{
	struct sockaddr_nl from = {0};
	struct iovec iov = {w->buf, w->cap};
	struct msghdr msg = {
		.msg_name = &from, .msg_namelen = sizeof(from), .msg_iov = &iov, .msg_iovlen = 1};
	/* MSG_TRUNC: the true length even when it did not fit */
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
	/* What is there already must stay readable: its head says whose answer it is. */
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

int nl_wire_recv(struct nl_wire *w, int timeout_ms, size_t *n)
{
	int r = w->replay ? nl_replay_next(w, n) : receive_live(w, timeout_ms, n);

	return r == 0 && *n == 0 ? -EBADMSG : r; /* nothing would come of an empty datagram */
}
