/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CLI_VERIFY_RDMA_H
#define UNIRAIL_CLI_VERIFY_RDMA_H

/*
 * One side of a test: its queue pair, and memory with the same layout on both sides:
 *
 * 	slot 0 | slot 1 | ... slot depth-1 | ping to send | two places for received pings
 *
 * The slots have a pattern computed from a seed and the offset, so that the receiver can verify
 * every byte.
 */

#include "kern/rdma/verbs_qp.h"
#include "cli/verify/select.h"
#include "cli/verify/verify_tcp.h"

enum {
	VERIFY_SIZE_MAX = 8 << 20,
	VERIFY_DEPTH_MAX = 64,
	VERIFY_DATA_MAX = 16 << 20,
	/* size of a ping in bytes; each ping has its own cache line of VERIFY_PING_PLACE bytes */
	VERIFY_PING_SIZE = 8,
	VERIFY_PING_PLACE = 64,
};

struct verify_side {
	struct verbs_dev *dev;
	struct verbs_qp *qp;
	enum verbs_op op;
	uint32_t size, depth;
};
#define VERIFY_SIDE_INIT                                                                           \
	{                                                                                          \
		0                                                                                  \
	}

int verify_side_open(struct verify_side *s, const struct verify_rail *rail, enum verbs_op op,
		     uint32_t size, uint32_t depth, struct err *e);
void verify_side_close(struct verify_side *s);
/* Writes the queue pair's address and the rail into a hello or ready message. */
void verify_side_describe(const struct verify_side *s, const struct verify_rail *rail,
			  struct verify_msg *m);
int verify_side_connect(struct verify_side *s, const struct verify_msg *peer, struct err *e);

/* Returns the number of messages in flight: 64, or fewer if messages of `size` bytes are large. */
uint32_t verify_depth_for(uint32_t size);
size_t verify_data_len(const struct verify_side *s);
size_t verify_slot_at(const struct verify_side *s, uint64_t message);
size_t verify_ping_at(const struct verify_side *s); /* returns the offset of the ping to send */
size_t verify_pong_at(const struct verify_side *s,
		      /* returns the offset of received ping number `which`; the pings use two
		       * places in turn */
		      uint64_t which);

void verify_fill(uint8_t *p, size_t n, uint64_t seed);
/* Compares n bytes with the pattern. -EBADMSG: e has the number of wrong bytes and the offset of
 * the first. */
int verify_compare(const uint8_t *p, size_t n, uint64_t seed, struct err *e);

const char *verify_op_name(enum verbs_op op); /* "write", "send", "read" */
int verify_op_find(const char *name, enum verbs_op *ret);

#endif
