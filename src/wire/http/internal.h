/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_WIRE_HTTP_INTERNAL_H
#define UNIRAIL_WIRE_HTTP_INTERNAL_H

/* Shared by the files of this directory. */

#include <stdint.h>

#include "base/ip.h"
#include "wire/http/http1.h"
#include "wire/http/https.h"
#include "wire/resolve.h"

/* Compares the name of a header field, as nghttp2 passes it (h2.c). */
bool h2_name_is(const uint8_t *name, size_t n, const char *word);

/* State of an HTTP/1.1 codec (http1.c). */

enum http1_framing { FRAME_NONE, FRAME_LENGTH, FRAME_CHUNKED, FRAME_EOF };

struct http1_head {
	struct http1_msg msg;
	struct http1_field *fields; /* msg.n_fields elements, owned by struct http1 */
	int minor;
	enum http1_framing framing;
	uint64_t length; /* FRAME_LENGTH */
	bool expects;	 /* Expect: 100-continue */
};

/* State of http1_line_byte(), which checks a head or trailer byte by byte. */
struct http1_lines {
	char last;
	size_t column, n_lines;
};
enum http1_line { LINE_GOES_ON, LINE_ENDS, LINE_EMPTY };

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
	size_t extra; /* bytes of chunk extensions and trailers so far */
	struct http1_lines lines;
	bool colon; /* the current line of the trailer has a colon */
};

/* State of an HTTPS connection (https.c). */

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
	char *host, *name, *where; /* where: "host:port", for :authority */
	uint16_t port;
	struct tls_conf *conf;
	enum https_state state;
	/* opening */
	struct resolve *resolve;
	struct ipaddr addrs[RESOLVE_MAX];
	size_t n_addrs, next_addr;
	struct loop_timer *deadline, *attempt;
	int connect_ms;
	struct err last; /* error of the last address that was tried */
	/* the connection */
	int fd;
	struct loop_fd *watch;
	struct tls *tls;
	struct h2 *h2;
	struct buf out; /* output of h2, written to the socket up to out_at */
	size_t out_at;
	struct loop_timer *kick, *idle;
	int64_t heard;
	bool pinged;
};

#endif
