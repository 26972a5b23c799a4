/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_WIRE_YAML_INTERNAL_H
#define UNIRAIL_WIRE_YAML_INTERNAL_H

/*
 * State and helpers of yaml.c.
 */

#include "wire/json/json.h"
#include "wire/yaml/yaml.h"

struct yaml {
	const char *p, *end;
	const char *line_start;
	unsigned int line;
	int depth; /* of collections */
	int flow;  /* of flow collections */
	struct json_out out;
	struct buf text; /* the scalar at hand */
	struct err *e;
};

int yaml_fail(struct yaml *y, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The byte n ahead; '\0' at the end. A line's end is '\n' whatever it is in the file. */
char yaml_peek(const struct yaml *y, size_t n);
int yaml_column(const struct yaml *y);
void yaml_newline(struct yaml *y); /* past the line's end */
bool yaml_is_blank(char c);	   /* ' ', '\t' */
bool yaml_is_break(char c);	   /* blank, line's end, end */
bool yaml_at_end(const struct yaml *y);
int yaml_skip(struct yaml *y);	      /* to the next token, over blanks, comments and lines */
int yaml_end_of_line(struct yaml *y); /* only blanks and a comment may follow in this one */

/* Keys of one mapping, to detect duplicates. The owner frees `v`. */
struct yaml_keys {
	struct yaml_key_at {
		size_t from, n; /* in the output */
	} * v;			/* sorted by their bytes */
	size_t n;
};

enum { YAML_TEXT_MAX = 1 << 20 };

int yaml_unread(struct yaml *y, char c); /* fails when c begins something that is not read */
int yaml_key(struct yaml *y, struct yaml_keys *k); /* the key at y->p and its colon */
/* True if a key begins here: a colon that ends a key is in this line. */
bool yaml_is_key(const struct yaml *at);

/*
 * Each reads the scalar at y->p into y->text; continuation lines are indented deeper than
 * `indent`. A key's ends in its line.
 */
int yaml_quoted(struct yaml *y, int indent, bool key);
int yaml_plain(struct yaml *y, int indent, bool key);
int yaml_block(struct yaml *y, int indent);
/* y->text as what a plain scalar means. */
void yaml_put_plain(struct yaml *y);

#endif
