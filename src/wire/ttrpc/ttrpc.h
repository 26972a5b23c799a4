/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_WIRE_TTRPC_TTRPC_H
#define UNIRAIL_WIRE_TTRPC_TTRPC_H

/*
 * ttrpc as used by NRI, with requests of both sides over one socket (containerd/ttrpc PROTOCOL.md,
 * containerd/nri pkg/net/multiplex): frames {u32 connection, u32 length, payload}, big-endian, in
 * which connection 1 carries requests of the container runtime to its plugin, and connection 2
 * requests of the plugin to the runtime. Within a connection: messages {u32 length, u32 stream, u8
 * type, u8 flags, payload}. Unary calls only. The codec never touches a descriptor.
 *
 * Errors: -EPROTO if a message of the peer is invalid; -EMSGSIZE if a message is over
 * TTRPC_MESSAGE_MAX, or if the peer does not read the answers to its requests. After an error the
 * socket must be closed. A frame may be larger than a message, and a message may span frames.
 * Frames of other connections are skipped.
 */

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum { TTRPC_MESSAGE_MAX = 4 << 20 };

struct ttrpc_ops {
	/* Handles a request of the peer. Appends the answer's message to *reply and returns 0; or
	 * returns a negative errno and sets e. The codec then answers with the text of e and the
	 * status UNIMPLEMENTED for -EOPNOTSUPP, INVALID_ARGUMENT for -EINVAL, else INTERNAL. */
	int (*request)(void *arg, const char *service, const char *method, struct span message,
		       struct buf *reply, struct err *e);
	/* Called with the answer to ttrpc_call(): status 0 and the message, or another gRPC status
	 * and its error text. */
	void (*response)(void *arg, uint32_t stream, int status, struct span message,
			 const char *text);
};

struct ttrpc;

struct ttrpc *ttrpc_new(const struct ttrpc_ops *ops, void *arg);
void ttrpc_free(struct ttrpc *t); /* accepts NULL */
/* Processes bytes from the peer, in portions of any size. Calls the ops, which may call
 * ttrpc_call(). */
int ttrpc_in(struct ttrpc *t, struct span bytes, struct err *e);
/* Returns the bytes to send to the peer, valid until the next call of any function; n 0: there are
 * none. ttrpc_sent() removes the first n bytes. */
struct span ttrpc_out(const struct ttrpc *t);
void ttrpc_sent(struct ttrpc *t, size_t n);
/* Queues a request; returns its stream, for ttrpc_ops.response. */
uint32_t ttrpc_call(struct ttrpc *t, const char *service, const char *method, struct span message);

#endif
