/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_WIRE_JSON_STREAM_H
#define UNIRAIL_WIRE_JSON_STREAM_H

/*
 * Splits long JSON into pieces as it arrives, so that only one piece is held in memory:
 *
 *   JSON_SPLIT_LIST    one object; each element of its array "items" is a piece, and at the end
 *                      the object itself with that array empty
 *   JSON_SPLIT_STREAM  objects one after another, as a watch sends them
 *
 * The splitter only finds the end of each piece. The caller validates the piece with json_parse().
 */

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"

enum json_split_mode { JSON_SPLIT_LIST, JSON_SPLIT_STREAM };

/* in bytes; by default etcd stores objects of at most 1.5 MiB */
enum { JSON_PIECE_MAX = 4 << 20 };

struct json_split {
	enum json_split_mode mode;
	size_t max;
	struct buf piece, rest; /* rest: the list without its items */
	int depth;
	bool in_string, escaped;
	bool in_items, wants_value, done, handed;
	size_t key_at, key_n; /* offset in `rest` and length of the last string of depth 1 */
	struct err err;
};

void json_split_init(struct json_split *s, enum json_split_mode mode, size_t max);
void json_split_done(struct json_split *s);

/*
 * Consumes bytes of *in. Returns 1 if *ret is a piece, valid until the next call; *in then has the
 * bytes after the piece, and *item is false if the piece is the list itself. Returns 0 if all bytes
 * are consumed. After an error (-EBADMSG, -EFBIG, kind ERR_DECODE) every further call returns the
 * same error.
 */
int json_split_in(struct json_split *s, struct span *in, struct span *ret, bool *item,
		  struct err *e);
/* JSON_SPLIT_STREAM: returns whether the consumed bytes end between two pieces. JSON_SPLIT_LIST:
 * returns whether the consumed bytes include the end of the list object. */
bool json_split_is_whole(const struct json_split *s);

#endif
