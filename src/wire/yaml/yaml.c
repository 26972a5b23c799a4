/* SPDX-License-Identifier: Apache-2.0 */
/* What is nested in what; yaml_scalar.c reads the leaves. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "wire/yaml/yaml_priv.h"

static int node(struct yaml *y, int indent, bool inline_only);

static bool is_dash(const struct yaml *y)
{
	return yaml_peek(y, 0) == '-' && yaml_is_break(yaml_peek(y, 1));
}

static int enter(struct yaml *y)
{
	if (++y->depth > YAML_DEPTH_MAX)
		return yaml_fail(y, "nested deeper than %d levels", YAML_DEPTH_MAX);
	return 0;
}

/* --- block collections --- */

/* The value of a key in column `indent`. A sequence may stand in the column of its key. */
static int value(struct yaml *y, int indent)
{
	unsigned int line = y->line;
	int r = yaml_skip(y);

	if (r < 0)
		return r;
	if (y->line == line && !yaml_at_end(y))
		return node(y, indent, true);
	return node(y, !yaml_at_end(y) && is_dash(y) ? indent - 1 : indent, false);
}

/* Where the next entry of a collection in column `at` begins; 0: it is over. */
static int next_entry(struct yaml *y, int at)
{
	int r = yaml_skip(y);

	if (r < 0 || yaml_at_end(y) || yaml_column(y) < at)
		return r;
	if (yaml_column(y) > at)
		return yaml_fail(y, "indented by %d, wants %d", yaml_column(y), at);
	return 1;
}

static int mapping(struct yaml *y)
{
	int at = yaml_column(y), r = enter(y);
	struct yaml_keys k = {0};

	jo_obj(&y->out);
	if (r == 0)
		r = 1;
	while (r > 0) {
		if (is_dash(y)) {
			r = yaml_fail(y, "a sequence in the middle of a mapping");
			break;
		}
		r = yaml_key(y, &k);
		if (r == 0)
			r = value(y, at);
		if (r == 0)
			r = next_entry(y, at);
	}
	jo_end_obj(&y->out);
	free(k.v);
	y->depth--;
	return r;
}

static int sequence(struct yaml *y)
{
	int at = yaml_column(y), r = enter(y);

	jo_arr(&y->out);
	if (r == 0)
		r = 1;
	while (r > 0) {
		y->p++;
		r = node(y, at, false);
		if (r == 0)
			r = next_entry(y, at);
		/* The next key of the mapping that holds this sequence in its own column. */
		if (r > 0 && !is_dash(y))
			break;
	}
	jo_end_arr(&y->out);
	y->depth--;
	return r < 0 ? r : 0;
}

/* --- flow collections --- */

static int flow_value(struct yaml *y)
{
	char c;
	int r = yaml_skip(y);

	if (r < 0)
		return r;
	c = yaml_peek(y, 0);
	if (c == ',' || c == '}' || c == ']') {
		jo_null(&y->out);
		return 0;
	}
	return node(y, -1, true);
}

static int flow_entry(struct yaml *y, char close, struct yaml_keys *k)
{
	int r;

	if (close == ']')
		return node(y, -1, true);
	r = yaml_key(y, k);
	return r < 0 ? r : flow_value(y);
}

static int flow_end(struct yaml *y, char close)
{
	int r = yaml_skip(y);

	if (r == 0 && yaml_peek(y, 0) == ',') {
		y->p++;
		r = yaml_skip(y);
	} else if (r == 0 && yaml_peek(y, 0) != close) {
		r = yaml_at_end(y) ? yaml_fail(y, "'%c' is missing", close)
				   : yaml_fail(y, "wants ',' or '%c' here", close);
	}
	return r < 0 ? r : yaml_peek(y, 0) != close;
}

static int flow(struct yaml *y)
{
	char close = *y->p == '{' ? '}' : ']';
	struct yaml_keys k = {0};
	int r = enter(y);

	(close == '}' ? jo_obj : jo_arr)(&y->out);
	y->flow++;
	y->p++;
	if (r == 0)
		r = yaml_skip(y);
	if (r == 0)
		r = yaml_peek(y, 0) != close;
	while (r > 0) {
		r = flow_entry(y, close, &k);
		if (r == 0)
			r = flow_end(y, close);
	}
	(close == '}' ? jo_end_obj : jo_end_arr)(&y->out);
	free(k.v);
	y->flow--;
	y->depth--;
	if (r == 0)
		y->p++;
	return r;
}

/* --- any of them --- */

static int scalar(struct yaml *y, int indent, char c)
{
	int r;

	if (c == '"' || c == '\'') {
		r = yaml_quoted(y, indent, false);
		if (r == 0)
			jo_str(&y->out, y->text.p);
	} else if ((c == '|' || c == '>') && !y->flow) {
		r = yaml_block(y, indent);
		if (r == 0)
			jo_str(&y->out, y->text.p);
		return r;
	} else {
		r = yaml_plain(y, indent, false);
		if (r == 0)
			yaml_put_plain(y);
	}
	return r < 0 ? r : yaml_end_of_line(y);
}

/* A node indented deeper than `indent`; nothing there is null. inline_only: in the line of its
 * key, where no block collection can begin. */
static int node(struct yaml *y, int indent, bool inline_only)
{
	int r = yaml_skip(y);
	char c = yaml_peek(y, 0);

	if (r < 0)
		return r;
	if (yaml_at_end(y) || (!y->flow && yaml_column(y) <= indent)) {
		jo_null(&y->out);
		return 0;
	}
	r = yaml_unread(y, c);
	if (r < 0)
		return r;
	if (c == '{' || c == '[') {
		r = flow(y);
		return r < 0 ? r : yaml_end_of_line(y);
	}
	if (y->flow)
		return scalar(y, indent, c);
	if (inline_only && (is_dash(y) || yaml_is_key(y)))
		return yaml_fail(y, "a %s cannot begin in the line of its key",
				 is_dash(y) ? "sequence" : "mapping");
	if (is_dash(y))
		return sequence(y);
	return yaml_is_key(y) ? mapping(y) : scalar(y, indent, c);
}

/* "---" or "..." alone. */
static bool is_marker(const struct yaml *y, const char *marker)
{
	return y->p == y->line_start && (size_t)(y->end - y->p) >= 3 && !memcmp(y->p, marker, 3) &&
	       yaml_is_break(yaml_peek(y, 3));
}

/* Where the document ends: at "...", or at a "---" that begins another. */
static int cut_documents(struct yaml *y)
{
	struct yaml at = *y;

	while (at.p < at.end) {
		const char *nl = memchr(at.p, '\n', (size_t)(at.end - at.p));

		at.line_start = at.p;
		if (is_marker(&at, "---")) {
			y->p = y->line_start = at.p;
			y->line = at.line;
			return yaml_fail(y, "a second document begins: only one is read");
		}
		if (is_marker(&at, "...")) {
			y->end = at.p;
			return 0;
		}
		at.p = nl ? nl + 1 : at.end;
		at.line++;
	}
	return 0;
}

static int check_bytes(struct yaml *y)
{
	for (struct yaml at = *y; at.p < at.end; at.p++) {
		unsigned char c = (unsigned char)*at.p;

		if (c == '\n') {
			at.line++;
			at.line_start = at.p + 1;
		}
		if ((c < ' ' && c != '\n' && c != '\t' && yaml_peek(&at, 0) != '\n') || c == 127)
			return yaml_fail(&at, "a byte 0x%02x is no text", c);
	}
	return 0;
}

static int document(struct yaml *y)
{
	int r = check_bytes(y);

	if (r == 0)
		r = yaml_skip(y);
	if (r == 0 && yaml_peek(y, 0) == '%')
		return yaml_unread(y, '%');
	if (r == 0 && is_marker(y, "---"))
		y->p += 3;
	if (r == 0)
		r = cut_documents(y);
	if (r == 0)
		r = node(y, -1, false);
	if (r == 0)
		r = yaml_skip(y);
	if (r == 0 && !yaml_at_end(y))
		r = yaml_fail(y, "'%c' is not expected here", *y->p);
	return r;
}

int yaml_to_json(struct span text, struct buf *json, struct err *e)
{
	struct yaml y = {.line = 1, .e = e};
	int r;

	if (span_has_prefix(text, "\xef\xbb\xbf")) {
		text.p += 3;
		text.n -= 3;
	}
	y.p = y.line_start = text.p ? text.p : "";
	y.end = y.p + text.n;
	jo_init(&y.out, json, 0);
	buf_init(&y.text, YAML_TEXT_MAX);
	r = document(&y);
	if (r == 0 && (json->over || y.text.over))
		r = err_kind(e, ERR_DECODE, -EFBIG, "too long");
	buf_done(&y.text);
	return r;
}
