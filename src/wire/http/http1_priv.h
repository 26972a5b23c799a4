/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_WIRE_HTTP_HTTP1_PRIV_H
#define UNIRAIL_WIRE_HTTP_HTTP1_PRIV_H

/* What http1.c, http1.c and http1.c share; not for other folders. */

#include <stdint.h>

#include "wire/http/http1.h"

/* A refusal: the server's status, and what both sides say. */
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

/* A head's (or trailer's) bytes, one by one: what no line may hold. */
struct http1_lines {
	char last;
	size_t column, n_lines;
};
enum http1_line { LINE_GOES_ON, LINE_ENDS, LINE_EMPTY };
/* -EPROTO for a byte that may not stand there. */
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

#endif
