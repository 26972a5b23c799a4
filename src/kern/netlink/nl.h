/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KERN_NETLINK_NL_H
#define UNIRAIL_KERN_NETLINK_NL_H

/*
 * The netlink wire: one conversation with one protocol in one network namespace, over libnl's
 * sockets and messages. A socket stays in the namespace it was opened in, so work in the pod's
 * namespace needs setns() only to open the wire.
 *
 * A wire talks to the kernel; nl_record_to() makes it write every datagram to a file as well.  The
 * wire of nl_open_replay() reads the responses from such a file instead of the kernel: a request
 * that is not the next recorded one fails with -EPROTO, and the error names the difference.
 *
 * A recording is text, one line per datagram: "> HEX" (sent) or "< HEX" (received).  Port ids are
 * 0.  Sequence numbers are counted from the first message of the last request, so that they do not
 * depend on earlier traffic.  A line that begins with "#" is a comment; "# protocol netfilter"
 * names the protocol (route, netfilter, rdma or generic; without such a line it is route).
 *
 * Most changes go through batches: messages are collected, sent together in as few sendmsg() calls
 * as possible, and every ack is matched to its message.  The kernel carries out a batch in order and
 * does not stop at a failed message (on a netfilter wire it then applies no message of the batch: see
 * nl_batch_commit()).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct nl_wire;
struct nl_batch;
struct nl_msg; /* libnl's */

enum nl_proto { NL_ROUTE, NL_NETFILTER, NL_RDMA, NL_GENERIC };

/* Opens a wire. netns_fd -1: in the caller's namespace. -EPROTONOSUPPORT: the kernel does not have
 * the protocol. */
int nl_open(struct nl_wire **ret, enum nl_proto proto, int netns_fd, struct err *e);
/* Replaces the socket of the wire, so that no response to an earlier request is left in it.
 * netns_fd: as in nl_open(). On failure the wire is unchanged. */
int nl_reopen(struct nl_wire *w, int netns_fd, struct err *e);
void nl_wire_close(struct nl_wire *w); /* not nl_close(), which is a function of libnl */
void nl_cleanup(struct nl_wire **w);
#define auto_nl __attribute__((cleanup(nl_cleanup)))

int nl_record_to(struct nl_wire *w, int fd, struct err *e); /* the wire does not close fd */
int nl_open_replay(struct nl_wire **ret, const char *file, struct err *e);
/* Returns 0 if every recorded datagram was used, else -EPROTO. */
int nl_replay_finished(struct nl_wire *w, struct err *e);

/*
 * Batches. `what` describes the action for the user ("create macvlan 'net1'"); the error is
 * "<what>: File exists (EEXIST): <the kernel's ext-ack text if any>".
 */
enum nl_flags {
	NL_OK_EXIST = 1 << 0,  /* EEXIST is success */
	NL_OK_ABSENT = 1 << 1, /* ENOENT, ENODEV, ESRCH, EADDRNOTAVAIL are success */
};

struct nl_batch *nl_batch_new(void);
void nl_batch_free(struct nl_batch *b);
void nl_batch_cleanup(struct nl_batch **b);
#define auto_batch __attribute__((cleanup(nl_batch_cleanup)))
size_t nl_batch_len(const struct nl_batch *b);
/*
 * Sends the collected messages and waits for every response. Returns 0, or the code of the first
 * failure with e set. Until nl_batch_reset(), nl_batch_result() returns the result of each message
 * (0 or a negative errno; 0 also for an error that its NL_OK_* flags tolerate), and no message is
 * sent again. On a netfilter wire the batch is one transaction: the kernel applies it completely or
 * not at all.
 */
int nl_batch_commit(struct nl_wire *w, struct nl_batch *b, struct err *e);
int nl_batch_result(const struct nl_batch *b, size_t i);
void nl_batch_reset(struct nl_batch *b);

/* For src/kern: adds a libnl message to the batch, which owns it from then on; returns its index in
 * the batch. */
size_t nl_batch_add(struct nl_batch *b, struct nl_msg *m, unsigned int flags, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* Adds an item for a message that cannot be created (a name that is too long ...): nothing of the
 * batch is sent, and the commit fails with "<what>: <code>: <reason>". */
size_t nl_batch_refuse(struct nl_batch *b, int code, const char *reason, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* Opens a socket that receives the notifications of a multicast group. Returns the descriptor or -errno. */
int nl_listen(int protocol, unsigned int group);
/* Receives a notification of the kernel from a non-blocking socket. Returns its length, 0 if none is queued, or -errno;
 * -ENOBUFS: notifications were lost. */
int nl_receive(int fd, void *bytes, size_t size);
/* Sends a request and calls cb (may be NULL) for every message of the response (a struct
 * nlmsghdr *). A negative result of cb ends the request and is returned. A request whose dump was
 * interrupted (NLM_F_DUMP_INTR) or whose response was lost is repeated up to 5 times: `reset` (may
 * be NULL) is called before each repetition. Takes ownership of m. */
typedef int (*nl_cb)(void *nlmsghdr, void *arg);
int nl_request(struct nl_wire *w, struct nl_msg *m, nl_cb cb, void (*reset)(void *), void *arg,
	       struct err *e);

#endif
