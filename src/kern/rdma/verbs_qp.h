/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KERN_RDMA_VERBS_QP_H
#define UNIRAIL_KERN_RDMA_VERBS_QP_H

/*
 * One reliable connection (RC queue pair) with its memory and completions. The two sides exchange
 * their struct verbs_end, for example over TCP:
 *
 *	verbs_qp_new() -> verbs_qp_end() -> (exchange) -> verbs_qp_connect() -> post, wait
 *
 * verbs_wait() fails if work failed; its error has the meaning of the completion status and the
 * remedy.
 */

#include "kern/rdma/verbs_dev.h"

/* Address of one side of the connection, sent to the other side. */
struct verbs_end {
	uint32_t qpn, psn, rkey;
	uint32_t mtu;	 /* the largest MTU that this side accepts, in bytes */
	uint32_t reads;	 /* maximum number of RDMA READs that this side answers at a time */
	uint16_t lid;	 /* InfiniBand */
	uint8_t gid[16]; /* for RoCE, and for InfiniBand across subnets */
	bool ethernet;
	uint64_t addr, len; /* memory that the peer may write and read */
};

struct verbs_qp_conf {
	uint32_t port, mtu;
	int gid_index; /* -1: no GID, InfiniBand only: packets are routed by LID alone */
	bool ethernet;
	uint16_t lid;
	uint8_t gid[16];
	uint32_t depth; /* maximum number of work requests in flight, in each direction */
	size_t bytes;	/* size of the memory */
};

struct verbs_qp;

/* The device must stay open as long as the connection. Registers the memory: with a low
 * RLIMIT_MEMLOCK this fails, and e has the limit. */
int verbs_qp_new(struct verbs_qp **ret, struct verbs_dev *d, const struct verbs_qp_conf *conf,
		 struct err *e);
void verbs_qp_free(struct verbs_qp *q);
uint8_t *verbs_qp_mem(struct verbs_qp *q);
void verbs_qp_end(const struct verbs_qp *q, struct verbs_end *ret);
/* Connects the queue pair (state RTS). For RoCE the kernel looks up the peer's MAC address here. */
int verbs_qp_connect(struct verbs_qp *q, const struct verbs_end *peer, struct err *e);
uint32_t verbs_qp_mtu(const struct verbs_qp *q); /* the MTU in use, after verbs_qp_connect() */

enum verbs_op { VERBS_WRITE, VERBS_SEND, VERBS_READ };
/* Posts work request number `id` for `len` bytes at offset `at` of the local memory. `to`: for
 * WRITE and READ, the offset in the peer's memory; SEND ignores it. */
int verbs_post(struct verbs_qp *q, enum verbs_op op, uint64_t id, size_t at, size_t len,
	       uint64_t to, struct err *e);
int verbs_post_recv(struct verbs_qp *q, uint64_t id, size_t at, size_t len, struct err *e);

struct verbs_done {
	uint64_t id;
	uint32_t len; /* length of the received message */
	bool recv;
};
enum { VERBS_POLL_MAX = 16 };
/*
 * Waits for completed work: polls for a moment without sleeping, then sleeps. Returns the number of
 * elements of ret[VERBS_POLL_MAX]; 0: `other_fd` (-1: none) is readable. -ETIMEDOUT: nothing was
 * completed for timeout_ms. -EINTR: a signal.
 */
int verbs_wait(struct verbs_qp *q, int other_fd, int timeout_ms, struct verbs_done *ret,
	       struct err *e);

#endif
