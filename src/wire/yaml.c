/* SPDX-License-Identifier: Apache-2.0 */
/* What is nested in what; yaml_scalar.c reads the leaves. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "wire/yaml_priv.h"

enum { TEXT_MAX = 1 << 20 };

static int node(struct yaml *y, int indent, bool inline_only);

int yaml_fail(struct yaml *y, const char *fmt, ...)
{
	char text[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return err_kind(y->e, ERR_DECODE, -EINVAL, "%u:%d: %s", y->line, yaml_column(y) + 1, text);
}

char yaml_peek(const struct yaml *y, size_t n)
{
	if ((size_t)(y->end - y->p) <= n)
		return '\0';
	if (y->p[n] == '\r' && (size_t)(y->end - y->p) > n + 1 && y->p[n + 1] == '\n')
		return '\n';
	return y->p[n];
}

int yaml_column(const struct yaml *y)
{
	return (int)(y->p - y->line_start);
}

void yaml_newline(struct yaml *y)
{
	y->p += *y->p == '\r' ? 2 : 1;
	y->line++;
	y->line_start = y->p;
}

bool yaml_is_blank(char c)
{
	return c == ' ' || c == '\t';
}

bool yaml_is_break(char c)
{
	return yaml_is_blank(c) || c == '\n' || c == '\0';
}

static bool at_end(const struct yaml *y)
{
	return y->p == y->end;
}

/* To the next token, over blanks, comments and lines. */
static int skip(struct yaml *y)
{
	for (;;) {
		bool indenting = y->p == y->line_start;

		while (yaml_is_blank(yaml_peek(y, 0))) {
			if (indenting && !y->flow && *y->p == '\t')
				return yaml_fail(y, "a tab cannot indent: use blanks");
			y->p++;
		}
		if (yaml_peek(y, 0) == '#' && (y->p == y->line_start || yaml_is_blank(y->p[-1])))
			while (!at_end(y) && yaml_peek(y, 0) != '\n')
				y->p++;
		if (yaml_peek(y, 0) != '\n' || at_end(y))
			return 0;
		yaml_newline(y);
	}
}

/* Only blanks and a comment may follow in this line. */
static int end_of_line(struct yaml *y)
{
	unsigned int line = y->line;
	int r = skip(y);

	if (r < 0 || y->flow || at_end(y) || y->line != line)
		return r;
	return yaml_fail(y, "'%c' is not expected here", *y->p);
}

static bool is_dash(const struct yaml *y)
{
	return yaml_peek(y, 0) == '-' && yaml_is_break(yaml_peek(y, 1));
}

/* A ':' that ends a key. In flow, after a quoted key, JSON leaves the blank out. */
static bool is_colon(const struct yaml *y, bool quoted)
{
	char next = yaml_peek(y, 1);

	return yaml_peek(y, 0) == ':' &&
	       (yaml_is_break(next) || (y->flow && (quoted || strchr(",[]{}", next))));
}

static int enter(struct yaml *y)
{
	if (++y->depth > YAML_DEPTH_MAX)
		return yaml_fail(y, "nested deeper than %d levels", YAML_DEPTH_MAX);
	return 0;
}

/* What would begin something else, or something that is not read. */
static int unread(struct yaml *y, char c)
{
	switch (c) {
	case '&': return yaml_fail(y, "anchors ('&') are not read: write the value out");
	case '*': return yaml_fail(y, "aliases ('*') are not read: write the value out");
	case '!': return yaml_fail(y, "tags ('!') are not read");
	case '%': return yaml_fail(y, "directives ('%%') are not read");
	case '@':
	case '`': return yaml_fail(y, "'%c' cannot begin a value: put it into quotes", c);
	case '?':
		if (yaml_is_break(yaml_peek(y, 1)))
			return yaml_fail(y, "complex keys ('? ') are not read");
		break;
	case ',':
	case ']':
	case '}': return yaml_fail(y, "'%c' is not expected here", c);
	default: break;
	}
	return 0;
}

/* --- keys --- */

struct keys {
	size_t *at; /* offset and length of each in the output */
	size_t n;
};

static int take_key(struct yaml *y, struct keys *k)
{
	size_t from = y->out.b->len, n;

	if (strcmp(y->text.p, "<<") == 0)
		return yaml_fail(y, "merge keys are not read: write the keys out");
	jo_key(&y->out, y->text.p);
	n = y->out.b->len - from;
	/* The first key of a mapping has no comma before it. */
	if (y->out.b->p[from] == ',') {
		from++;
		n--;
	}
	for (size_t i = 0; i < k->n; i += 2)
		if (k->at[i + 1] == n && !memcmp(y->out.b->p + k->at[i], y->out.b->p + from, n))
			return yaml_fail(y, "key '%.64s' stands here twice", y->text.p);
	if (k->n >= 2 * YAML_KEYS_MAX)
		return yaml_fail(y, "more than %d keys in one mapping", YAML_KEYS_MAX);
	VEC_PUSH(k->at, k->n) = from;
	VEC_PUSH(k->at, k->n) = n;
	return 0;
}

/* The key at y->p and its colon. */
static int key(struct yaml *y, struct keys *k)
{
	bool quoted = yaml_peek(y, 0) == '"' || yaml_peek(y, 0) == '\'';
	int r = quoted ? 0 : unread(y, yaml_peek(y, 0));

	if (r == 0 && yaml_peek(y, 0) && strchr("{[|>", yaml_peek(y, 0)))
		r = yaml_fail(y, "a key cannot begin with '%c': put it into quotes", *y->p);
	if (r == 0)
		r = quoted ? yaml_quoted(y, -1, true) : yaml_plain(y, -1, true);
	while (r == 0 && yaml_is_blank(yaml_peek(y, 0)))
		y->p++;
	if (r == 0 && !is_colon(y, quoted))
		r = yaml_fail(y, "a key wants ': ' after it");
	if (r == 0)
		r = take_key(y, k);
	if (r == 0)
		y->p++;
	return r;
}

/* Does a key begin here? It does when a colon that ends one is in this line. */
static bool is_key(const struct yaml *at)
{
	struct yaml y = *at;
	bool quoted = yaml_peek(&y, 0) == '"' || yaml_peek(&y, 0) == '\'', found;
	struct err e = ERR_INIT;

	y.e = &e;
	buf_init(&y.text, TEXT_MAX);
	found = (quoted ? yaml_quoted(&y, -1, true) : yaml_plain(&y, -1, true)) == 0;
	while (found && yaml_is_blank(yaml_peek(&y, 0)))
		y.p++;
	found = found && is_colon(&y, quoted);
	buf_done(&y.text);
	return found;
}

/* --- block collections --- */

/* The value of a key in column `indent`. A sequence may stand in the column of its key. */
static int value(struct yaml *y, int indent)
{
	unsigned int line = y->line;
	int r = skip(y);

	if (r < 0)
		return r;
	if (y->line == line && !at_end(y))
		return node(y, indent, true);
	return node(y, !at_end(y) && is_dash(y) ? indent - 1 : indent, false);
}

/* Where the next entry of a collection in column `at` begins; 0: it is over. */
static int next_entry(struct yaml *y, int at)
{
	int r = skip(y);

	if (r < 0 || at_end(y) || yaml_column(y) < at)
		return r;
	if (yaml_column(y) > at)
		return yaml_fail(y, "indented by %d, wants %d", yaml_column(y), at);
	return 1;
}

static int mapping(struct yaml *y)
{
	int at = yaml_column(y), r = enter(y);
	struct keys k = {0};

	jo_obj(&y->out);
	if (r == 0)
		r = 1;
	while (r > 0) {
		if (is_dash(y)) {
			r = yaml_fail(y, "a sequence in the middle of a mapping");
			break;
		}
		r = key(y, &k);
		if (r == 0)
			r = value(y, at);
		if (r == 0)
			r = next_entry(y, at);
	}
	jo_end_obj(&y->out);
	free(k.at);
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
	int r = skip(y);

	if (r < 0)
		return r;
	c = yaml_peek(y, 0);
	if (c == ',' || c == '}' || c == ']') {
		jo_null(&y->out);
		return 0;
	}
	return node(y, -1, true);
}

static int flow_entry(struct yaml *y, char close, struct keys *k)
{
	int r;

	if (close == ']')
		return node(y, -1, true);
	r = key(y, k);
	return r < 0 ? r : flow_value(y);
}

static int flow_end(struct yaml *y, char close)
{
	int r = skip(y);

	if (r == 0 && yaml_peek(y, 0) == ',') {
		y->p++;
		r = skip(y);
	} else if (r == 0 && yaml_peek(y, 0) != close) {
		r = at_end(y) ? yaml_fail(y, "'%c' is missing", close)
			      : yaml_fail(y, "wants ',' or '%c' here", close);
	}
	return r < 0 ? r : yaml_peek(y, 0) != close;
}

static int flow(struct yaml *y)
{
	char close = *y->p == '{' ? '}' : ']';
	struct keys k = {0};
	int r = enter(y);

	(close == '}' ? jo_obj : jo_arr)(&y->out);
	y->flow++;
	y->p++;
	if (r == 0)
		r = skip(y);
	if (r == 0)
		r = yaml_peek(y, 0) != close;
	while (r > 0) {
		r = flow_entry(y, close, &k);
		if (r == 0)
			r = flow_end(y, close);
	}
	(close == '}' ? jo_end_obj : jo_end_arr)(&y->out);
	free(k.at);
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
	return r < 0 ? r : end_of_line(y);
}

/* A node indented deeper than `indent`; nothing there is null. inline_only: in the line of its
 * key, where no block collection can begin. */
static int node(struct yaml *y, int indent, bool inline_only)
{
	int r = skip(y);
	char c = yaml_peek(y, 0);

	if (r < 0)
		return r;
	if (at_end(y) || (!y->flow && yaml_column(y) <= indent)) {
		jo_null(&y->out);
		return 0;
	}
	r = unread(y, c);
	if (r < 0)
		return r;
	if (c == '{' || c == '[') {
		r = flow(y);
		return r < 0 ? r : end_of_line(y);
	}
	if (y->flow)
		return scalar(y, indent, c);
	if (inline_only && (is_dash(y) || is_key(y)))
		return yaml_fail(y, "a %s cannot begin in the line of its key",
				 is_dash(y) ? "sequence" : "mapping");
	if (is_dash(y))
		return sequence(y);
	return is_key(y) ? mapping(y) : scalar(y, indent, c);
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
		r = skip(y);
	if (r == 0 && yaml_peek(y, 0) == '%')
		return unread(y, '%');
	if (r == 0 && is_marker(y, "---"))
		y->p += 3;
	if (r == 0)
		r = cut_documents(y);
	if (r == 0)
		r = node(y, -1, false);
	if (r == 0)
		r = skip(y);
	if (r == 0 && !at_end(y))
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
	buf_init(&y.text, TEXT_MAX);
	r = document(&y);
	if (r == 0 && (json->over || y.text.over))
		r = err_kind(e, ERR_DECODE, -EFBIG, "too long");
	buf_done(&y.text);
	return r;
}
