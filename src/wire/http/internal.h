/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_WIRE_HTTP_INTERNAL_H
#define UNIRAIL_WIRE_HTTP_INTERNAL_H

/* Shared by the files of this directory. */

#include <stdint.h>

#include "base/ip.h"
#include "wire/http/http1.h"
#include "wire/http/https.h"
#include "wire/resolve.h"

/* Internal to http1.c. */

/* Sets the status a server answers with, and the error of both sides. */
int http1_refuse(int *status, int code, struct err *e, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

enum http1_framing { FRAME_NONE, FRAME_LENGTH, FRAME_CHUNKED, FRAME_EOF };

struct http1_head {
	struct http1_msg msg;
	struct http1_field *fields; /* as many as there are, owned by struct http1 */
	int minor;
	enum http1_framing framing;
	uint64_t length; /* FRAME_LENGTH */
	bool expects;	 /* Expect: 100-continue */
};

/* A whole head, its empty line too; *ret borrows from it. */
int http1_head_parse(enum http1_side side, struct span text, size_t body_max,
		     struct http1_head *ret, int *refusal, struct err *e);

/* Byte-wise check of a head or trailer for bytes that no line may contain. */
struct http1_lines {
	char last;
	size_t column, n_lines;
};
enum http1_line { LINE_GOES_ON, LINE_ENDS, LINE_EMPTY };
/* -EPROTO for a byte that is not allowed there. */
int http1_line_byte(struct http1_lines *l, char c);

enum http1_chunk_state {
	CHUNK_SIZE,
	CHUNK_BLANK,
	CHUNK_EXT,
	CHUNK_SIZE_LF,
	CHUNK_DATA,
	CHUNK_DATA_CR,
	CHUNK_DATA_LF,
	CHUNK_TRAILER,
	CHUNK_DONE,
};

struct http1_chunks {
	enum http1_chunk_state state;
	uint64_t left;
	unsigned int digits;
	size_t extra; /* bytes of extensions and trailer so far */
	struct http1_lines lines;
	bool colon; /* in this line of the trailer */
};

/* Takes bytes off *in, decoded ones onto body, up to the state CHUNK_DONE. */
int http1_chunks_in(struct http1_chunks *c, struct span *in, struct buf *body, size_t body_max,
		    int *refusal, struct err *e);

bool http1_is_token(struct span s);
bool http1_span_eq_nocase(struct span s, const char *word);

/* State of https.c. */

enum https_state {
	HTTPS_RESOLVING,
	HTTPS_CONNECTING,
	HTTPS_HANDSHAKE,
	HTTPS_OPEN,
	HTTPS_CLOSED,
};

struct https {
	struct loop *loop;
	const struct https_ops *ops;
	void *arg;
	char *host, *name, *where; /* where: "host:port", as in a URL */
	uint16_t port;
	struct tls_conf *conf;
	enum https_state state;
	/* opening */
	struct resolve *resolve;
	struct ipaddr addrs[RESOLVE_MAX];
	size_t n_addrs, next_addr;
	struct loop_timer *deadline, *attempt;
	int connect_ms;
	struct err last; /* why the previous address failed */
	/* the connection */
	int fd;
	struct loop_fd *watch;
	struct tls *tls;
	struct h2 *h2;
	struct buf out; /* taken from h2, not written yet */
	size_t out_at;
	struct loop_timer *kick, *idle;
	int64_t heard;
	bool pinged;
};

/* Ends the connection and calls `closed`, after which c may be freed. */
void https_fail(struct https *c, const struct err *reason);
void https_drop(struct https *c); /* socket and TLS only */
/* TLS is up. */
int https_begin(struct https *c, struct err *e);
void https_on_bytes(struct https *c);

#endif
