/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KERN_RDMA_VERBS_QP_H
#define UNIRAIL_KERN_RDMA_VERBS_QP_H

/*
 * One reliable connection (RC queue pair) with its memory and completions. The two sides tell each
 * other their struct verbs_end by whatever way they have:
 *
 *	verbs_qp_new() -> verbs_qp_end() -> (exchange) -> verbs_qp_connect() -> post, poll
 *
 * Failures of work are errors of verbs_poll(), with what the completion's status means and what
 * to look at.
 */

#include "kern/rdma/verbs_dev.h"

enum { VERBS_DEPTH_MAX = 1024 };

/* What each side sends to the other. */
struct verbs_end {
	uint32_t qpn, psn, rkey;
	uint32_t mtu;	 /* bytes, the most this side takes */
	uint32_t reads;	 /* RDMA READs it answers at a time */
	uint16_t lid;	 /* InfiniBand */
	uint8_t gid[16]; /* RoCE; InfiniBand across subnets */
	bool ethernet;
	uint64_t addr, len; /* its memory, which the other may write and read */
};

struct verbs_qp_conf {
	uint32_t port, mtu;
	int gid_index; /* -1: none, InfiniBand by LID */
	bool ethernet;
	uint16_t lid;
	uint8_t gid[16];
	uint32_t depth; /* work requests in flight, in each direction */
	size_t bytes;	/* of memory */
};

struct verbs_qp;

/* The device stays open as long as the connection. Memory is registered here: with little
 * RLIMIT_MEMLOCK this is where it fails, with the limit in the text. */
int verbs_qp_new(struct verbs_qp **ret, struct verbs_dev *d, const struct verbs_qp_conf *conf,
		 struct err *e);
void verbs_qp_free(struct verbs_qp *q);
void verbs_qp_cleanup(struct verbs_qp **q);
#define auto_verbs_qp __attribute__((cleanup(verbs_qp_cleanup)))
uint8_t *verbs_qp_mem(struct verbs_qp *q);
void verbs_qp_end(const struct verbs_qp *q, struct verbs_end *ret);
/* To ready-to-send. For RoCE the kernel looks up the peer's MAC address here. */
int verbs_qp_connect(struct verbs_qp *q, const struct verbs_end *peer, struct err *e);
uint32_t verbs_qp_mtu(const struct verbs_qp *q); /* in use, after connect */

enum verbs_op { VERBS_WRITE, VERBS_SEND, VERBS_READ };
/* Message number `id` of `len` bytes at offset `at` of this memory; of WRITE and READ at offset
 * `to` of the peer's. */
int verbs_post(struct verbs_qp *q, enum verbs_op op, uint64_t id, size_t at, size_t len,
	       uint64_t to, struct err *e);
int verbs_post_recv(struct verbs_qp *q, uint64_t id, size_t at, size_t len, struct err *e);

struct verbs_done {
	uint64_t id;
	uint32_t len; /* of what was received */
	bool recv;
};
enum { VERBS_POLL_MAX = 16 };
/*
 * The same, waiting: polls for a moment without sleeping, then sleeps. 0: `other_fd` (-1: none) is
 * readable. -ETIMEDOUT: nothing came for timeout_ms. -EINTR: a signal.
 */
int verbs_wait(struct verbs_qp *q, int other_fd, int timeout_ms, struct verbs_done *ret,
	       struct err *e);

#endif
