/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/num.h"
#include "base/sorted.h"
#include "wire/json/json.h"
#include "wire/yaml/yaml.h"

/*
 * State of a conversion.
 */

struct yaml {
	const char *p, *end;
	const char *line_start;
	unsigned int line;
	int depth; /* number of open collections, block and flow */
	int flow;  /* number of open flow collections */
	struct json_out out;
	struct buf text; /* the current scalar */
	bool too_long;	 /* an earlier scalar was longer than YAML_TEXT_MAX */
	struct err *e;
};

static void text_begin(struct yaml *y)
{
	y->too_long |= y->text.over;
	buf_reset(&y->text);
}

/* Keys of one mapping, to detect duplicates. The owner frees `v`. */
struct yaml_keys {
	struct yaml_key_at {
		size_t from, n; /* position and length in the output */
	} * v;			/* keys, sorted bytewise */
	size_t n;
};

enum { YAML_TEXT_MAX = 1 << 20 };

static int node(struct yaml *y, int indent, bool inline_only);

/* Returns whether the byte is a blank: ' ' or '\t'. */
static bool yaml_is_blank(char c)
{
	return c == ' ' || c == '\t';
}

/* Returns true for a blank, a line break and the end of the text. */
static bool yaml_is_break(char c)
{
	return yaml_is_blank(c) || c == '\n' || c == '\0';
}

/* Returns the byte n ahead; '\0' at the end of the text. CR LF is returned as '\n'. */
static char yaml_peek(const struct yaml *y, size_t n)
{
	if ((size_t)(y->end - y->p) <= n)
		return '\0';
	if (y->p[n] == '\r' && (size_t)(y->end - y->p) > n + 1 && y->p[n + 1] == '\n')
		return '\n';
	return y->p[n];
}

static bool is_dash(const struct yaml *y)
{
	return yaml_peek(y, 0) == '-' && yaml_is_break(yaml_peek(y, 1));
}

static int yaml_column(const struct yaml *y)
{
	return (int)(y->p - y->line_start);
}

static int yaml_fail(struct yaml *y, const char *fmt, ...)
{
	char text[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return err_kind(y->e, ERR_DECODE, -EINVAL, "%u:%d: %s", y->line, yaml_column(y) + 1, text);
}

static int enter(struct yaml *y)
{
	if (++y->depth > YAML_DEPTH_MAX)
		return yaml_fail(y, "nested deeper than %d levels", YAML_DEPTH_MAX);
	return 0;
}

/* --- block collections --- */

static bool yaml_at_end(const struct yaml *y)
{
	return y->p == y->end;
}

static int yaml_skip(struct yaml *y);

/* Reads the value of a key that is in column `indent`. A sequence may start in the same column
 * as its key. */
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

/* Moves to the next entry of a collection that starts in column `at`; returns 0 if the collection
 * ends here. */
static int next_entry(struct yaml *y, int at)
{
	int r = yaml_skip(y);

	if (r < 0 || yaml_at_end(y) || yaml_column(y) < at)
		return r;
	if (yaml_column(y) > at)
		return yaml_fail(y, "indented by %d, expected %d", yaml_column(y), at);
	return 1;
}

static int yaml_key(struct yaml *y, struct yaml_keys *k);

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
		/* In the same column, the next key of the enclosing mapping ends the sequence. */
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
				   : yaml_fail(y, "expected ',' or '%c' here", close);
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

/* --- scalars and nodes --- */

static int yaml_block(struct yaml *y, int indent);

/* Skips to the next token. Outside flow collections, fails if the token is in the same line. */
static int yaml_end_of_line(struct yaml *y)
{
	unsigned int line = y->line;
	int r = yaml_skip(y);

	if (r < 0 || y->flow || yaml_at_end(y) || y->line != line)
		return r;
	return yaml_fail(y, "'%c' is not expected here", *y->p);
}

/* Moves past the line break. */
static void yaml_newline(struct yaml *y)
{
	y->p += *y->p == '\r' ? 2 : 1;
	y->line++;
	y->line_start = y->p;
}

/*
 * At the end of a line inside a scalar: skips to the next line with content and adds the folded
 * line breaks: a single one becomes a space; of several, each but the first stays a line break.
 * Returns false and leaves y->p unchanged if the scalar ends here, because the next line is
 * indented too little, the text ends, or a comment follows a plain scalar.
 */
static bool fold(struct yaml *y, int indent, bool plain)
{
	struct yaml at = *y;
	unsigned int breaks = 0;

	while (yaml_peek(&at, 0) == '\n' && at.p < at.end) {
		yaml_newline(&at);
		breaks++;
		while (yaml_is_blank(yaml_peek(&at, 0)))
			at.p++;
	}
	if (at.p == at.end || (!y->flow && yaml_column(&at) <= indent))
		return false;
	if (plain && *at.p == '#')
		return false;
	if (breaks == 1)
		buf_char(&y->text, ' ');
	for (; breaks > 1; breaks--)
		buf_char(&y->text, '\n');
	y->p = at.p;
	y->line = at.line;
	y->line_start = at.line_start;
	return true;
}

static void trim_blanks(struct buf *b, size_t from)
{
	while (b->len > from && yaml_is_blank(b->p[b->len - 1]))
		b->p[--b->len] = '\0';
}

static bool ends_plain(const struct yaml *y)
{
	char c = yaml_peek(y, 0), next = yaml_peek(y, 1);

	if (c == '\n' || c == '\0')
		return true;
	if (c == ':' && (yaml_is_break(next) || (y->flow && strchr(",[]{}", next))))
		return true;
	if (c == '#' && y->p > y->line_start && yaml_is_blank(y->p[-1]))
		return true;
	return y->flow && strchr(",[]{}", c);
}

static int yaml_plain(struct yaml *y, int indent, bool key)
{
	text_begin(y);
	do {
		size_t from = y->text.len;

		while (!ends_plain(y))
			buf_char(&y->text, *y->p++);
		trim_blanks(&y->text, from);
		if (y->text.len == 0)
			return yaml_fail(y, "a key or a value is missing");
		/* A plain scalar ends at a comment. A colon would make the scalar a key, which
		 * is not allowed here. */
		if (key || yaml_peek(y, 0) == '#')
			return 0;
		if (yaml_peek(y, 0) == ':')
			return yaml_fail(
				y,
				"': ' is not allowed in a plain value: put the value into quotes");
		if (y->flow && yaml_peek(y, 0) != '\n')
			return 0;
	} while (fold(y, indent, true) && !(y->flow && ends_plain(y)));
	if (y->flow)
		trim_blanks(&y->text, 0);
	return 0;
}

/* Returns whether the text is a number in JSON syntax, which has no leading '+'. */
static bool is_number(const char *s)
{
	size_t n;

	s += *s == '-';
	n = strspn(s, "0123456789");
	if (n == 0 || (n > 1 && s[0] == '0'))
		return false;
	s += n;
	if (*s == '.') {
		n = strspn(s + 1, "0123456789");
		if (n == 0)
			return false;
		s += 1 + n;
	}
	if (*s == 'e' || *s == 'E') {
		s += 1 + (s[1] == '+' || s[1] == '-');
		n = strspn(s, "0123456789");
		if (n == 0)
			return false;
		s += n;
	}
	return *s == '\0';
}

static bool is_word(const char *s, const char *lower, const char *title, const char *upper)
{
	return !strcmp(s, lower) || !strcmp(s, title) || !strcmp(s, upper);
}

/* Writes the plain scalar y->text as null, boolean, number or string. */
static void yaml_put_plain(struct yaml *y)
{
	const char *s = y->text.p;
	int64_t v;

	if (!strcmp(s, "~") || is_word(s, "null", "Null", "NULL"))
		jo_null(&y->out);
	else if (is_word(s, "true", "True", "TRUE"))
		jo_bool(&y->out, true);
	else if (is_word(s, "false", "False", "FALSE"))
		jo_bool(&y->out, false);
	else if (num_i64(span_of(s), INT64_MIN, INT64_MAX, &v) == 0 && is_number(s))
		jo_int(&y->out, v);
	else if (is_number(s))
		jo_real(&y->out, strtod(s, NULL));
	else
		jo_str(&y->out, s);
}

static int yaml_quoted(struct yaml *y, int indent, bool key);

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

/* Returns true at a ':' that ends a key. In a flow collection the ':' after a quoted key needs
 * no blank after it, as in JSON. */
static bool is_colon(const struct yaml *y, bool quoted)
{
	char next = yaml_peek(y, 1);

	return yaml_peek(y, 0) == ':' &&
	       (yaml_is_break(next) || (y->flow && (quoted || strchr(",[]{}", next))));
}

/* Returns true if a key begins here, which means that a colon in this line ends it. */
static bool yaml_is_key(const struct yaml *at)
{
	struct yaml y = *at;
	bool quoted = yaml_peek(&y, 0) == '"' || yaml_peek(&y, 0) == '\'', found;
	struct err e = ERR_INIT;

	y.e = &e;
	buf_init(&y.text, YAML_TEXT_MAX);
	found = (quoted ? yaml_quoted(&y, -1, true) : yaml_plain(&y, -1, true)) == 0;
	while (found && yaml_is_blank(yaml_peek(&y, 0)))
		y.p++;
	found = found && is_colon(&y, quoted);
	buf_done(&y.text);
	return found;
}

/* Fails if c begins syntax that is not supported, or cannot begin a key or a value. */
static int yaml_unread(struct yaml *y, char c)
{
	switch (c) {
	case '&': return yaml_fail(y, "anchors ('&') are not supported: repeat the value");
	case '*': return yaml_fail(y, "aliases ('*') are not supported: repeat the value");
	case '!': return yaml_fail(y, "tags ('!') are not supported");
	case '%':
		return yaml_fail(y, "directives ('%%') are not supported; a value that begins "
				    "with this character needs quotes");
	case '@':
	case '`': return yaml_fail(y, "'%c' cannot begin a key or a value without quotes", c);
	case '?':
		if (yaml_is_break(yaml_peek(y, 1)))
			return yaml_fail(y, "complex keys ('? ') are not supported");
		break;
	case ',':
	case ']':
	case '}': return yaml_fail(y, "'%c' is not expected here", c);
	default: break;
	}
	return 0;
}

/* Reads a node indented deeper than `indent`; a missing one is null. inline_only: the node is in
 * the line of its key, where no block collection can begin. */
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

/* Returns whether the line begins with `marker` ("---" or "...") as a word of its own. */
static bool is_marker(const struct yaml *y, const char *marker)
{
	return y->p == y->line_start && (size_t)(y->end - y->p) >= 3 && !memcmp(y->p, marker, 3) &&
	       yaml_is_break(yaml_peek(y, 3));
}

/* Ends the text at "..."; fails at a further "---", since only one document is supported. */
static int cut_documents(struct yaml *y)
{
	struct yaml at = *y;

	while (at.p < at.end) {
		const char *nl = memchr(at.p, '\n', (size_t)(at.end - at.p));

		at.line_start = at.p;
		if (is_marker(&at, "---")) {
			y->p = y->line_start = at.p;
			y->line = at.line;
			return yaml_fail(y, "a second document begins: only one is supported");
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
			return yaml_fail(&at, "byte 0x%02x is not allowed in text", c);
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

/* Refuses bytes that are not UTF-8: all of them would become U+FFFD in JSON, so that two different
 * keys could become equal. */
static int check_utf8(struct span text, struct err *e)
{
	struct span rest = text;
	unsigned int line = 1;
	const char *start = text.p;

	for (size_t n; rest.n > 0; rest.p += n, rest.n -= n) {
		n = utf8_len(rest);
		if (n == 0)
			return err_kind(e, ERR_DECODE, -EILSEQ, "%u:%td: byte 0x%02x is not UTF-8",
					line, rest.p - start + 1, (unsigned char)*rest.p);
		if (*rest.p == '\n') {
			line++;
			start = rest.p + 1;
		}
	}
	return 0;
}

int yaml_to_json(struct span text, struct buf *json, struct err *e)
{
	struct yaml y = {.line = 1, .e = e};
	int r;

	if (span_has_prefix(text, "\xef\xbb\xbf")) {
		text.p += 3;
		text.n -= 3;
	}
	r = check_utf8(text, e);
	if (r < 0)
		return r;
	y.p = y.line_start = text.p ? text.p : "";
	y.end = y.p + text.n;
	jo_init(&y.out, json, 0);
	buf_init(&y.text, YAML_TEXT_MAX);
	r = document(&y);
	if (r == 0 && (json->over || y.text.over || y.too_long))
		r = err_kind(e, ERR_DECODE, -EFBIG,
			     "the YAML text is too long, or a value in it is longer than %d bytes",
			     YAML_TEXT_MAX);
	buf_done(&y.text);
	return r;
}

/* --- block scalars: | and > --- */

struct block {
	char style, chomp; /* chomp: '-', '+' or 0 */
	int indent;	   /* indentation of the lines; 0: that of the first line */
};

static int block_header(struct yaml *y, int indent, struct block *b)
{
	*b = (struct block){.style = *y->p++};
	for (char c = yaml_peek(y, 0); !yaml_is_break(c); c = yaml_peek(y, 0)) {
		if ((c == '-' || c == '+') && !b->chomp)
			b->chomp = c;
		else if (c >= '1' && c <= '9' && !b->indent)
			b->indent = (indent < 0 ? 0 : indent) + c - '0';
		else
			return yaml_fail(y, "unexpected block scalar indicator '%c' after '%c'", c,
					 b->style);
		y->p++;
	}
	while (yaml_is_blank(yaml_peek(y, 0)))
		y->p++;
	if (yaml_peek(y, 0) == '#')
		while (yaml_peek(y, 0) != '\n' && y->p < y->end)
			y->p++;
	if (yaml_peek(y, 0) != '\n' && y->p < y->end)
		return yaml_fail(y, "text after '%c' must start in the next line", b->style);
	return 0;
}

static int blanks_ahead(const struct yaml *y)
{
	int n = 0;

	while (yaml_peek(y, (size_t)n) == ' ')
		n++;
	return n;
}

/* Writes the separator of two lines of a block scalar that are `breaks` line breaks apart. */
static void join(struct yaml *y, const struct block *b, unsigned int breaks, bool deeper)
{
	bool folds = b->style == '>' && !deeper;

	if (folds && breaks == 1)
		buf_char(&y->text, ' ');
	for (unsigned int i = folds ? 1 : 0; i < breaks; i++)
		buf_char(&y->text, '\n');
}

static int yaml_block(struct yaml *y, int indent)
{
	struct block b;
	unsigned int breaks = 0; /* number of empty lines since the last line with content */
	bool first = true, deeper = false;
	int r = block_header(y, indent, &b);

	text_begin(y);
	while (r == 0 && y->p < y->end) {
		int n;
		bool deep;

		yaml_newline(y);
		n = blanks_ahead(y);
		if (y->p + n == y->end)
			break;
		if (yaml_peek(y, (size_t)n) == '\n' && (!b.indent || n <= b.indent)) {
			y->p += n;
			breaks++;
			continue;
		}
		if (n <= indent || (b.indent && n < b.indent))
			break;
		if (!b.indent)
			b.indent = n;
		deep = n > b.indent || yaml_peek(y, (size_t)b.indent) == '\t';
		if (first)
			for (; breaks > 0; breaks--)
				buf_char(&y->text, '\n');
		else
			join(y, &b, breaks + 1, deep || deeper);
		breaks = 0;
		first = false;
		deeper = deep;
		for (y->p += b.indent; y->p < y->end && yaml_peek(y, 0) != '\n'; y->p++)
			buf_char(&y->text, *y->p);
	}
	/* If the text ends without a line break, the scalar has none either. */
	if (!first && b.chomp != '-' && (y->p < y->end || y->p[-1] == '\n' || breaks))
		buf_char(&y->text, '\n');
	for (; b.chomp == '+' && breaks > 0; breaks--)
		buf_char(&y->text, '\n');
	return r;
}

/* --- keys of mappings --- */

static int compare(const char *a, size_t n, const char *b, size_t m)
{
	int r = memcmp(a, b, n < m ? n : m);

	return r ? r : n < m ? -1 : n > m;
}

/* Inserts the key into the sorted list; returns false if it is a duplicate. */
static bool is_new_key(struct yaml_keys *k, const char *out, size_t from, size_t n)
{
	size_t at = LOWER_BOUND(i, k->n, compare(out + k->v[i].from, k->v[i].n, out + from, n) < 0);

	if (at < k->n && compare(out + k->v[at].from, k->v[at].n, out + from, n) == 0)
		return false;
	(void)VEC_PUSH(k->v, k->n);
	memmove(&k->v[at + 1], &k->v[at], (k->n - 1 - at) * sizeof(*k->v));
	k->v[at] = (struct yaml_key_at){from, n};
	return true;
}

static int take_key(struct yaml *y, struct yaml_keys *k)
{
	size_t from = y->out.b->len, n;

	if (strcmp(y->text.p, "<<") == 0)
		return yaml_fail(y, "merge keys are not supported: repeat the keys");
	jo_key(&y->out, y->text.p);
	n = y->out.b->len - from;
	/* The writer puts a comma before every key except the first of a mapping. The comparison
	 * leaves out the comma, so that equal keys have equal bytes. */
	if (y->out.b->p[from] == ',') {
		from++;
		n--;
	}
	if (!is_new_key(k, y->out.b->p, from, n))
		return yaml_fail(y, "duplicate key '%.64s'", y->text.p);
	if (k->n > YAML_KEYS_MAX)
		return yaml_fail(y, "more than %d keys in one mapping", YAML_KEYS_MAX);
	return 0;
}

/* Reads the key at y->p and its colon. */
static int yaml_key(struct yaml *y, struct yaml_keys *k)
{
	bool quoted = yaml_peek(y, 0) == '"' || yaml_peek(y, 0) == '\'';
	int r = quoted ? 0 : yaml_unread(y, yaml_peek(y, 0));

	if (r == 0 && yaml_peek(y, 0) && strchr("{[|>", yaml_peek(y, 0)))
		r = yaml_fail(y, "a key cannot begin with '%c': put it into quotes", *y->p);
	if (r == 0)
		r = quoted ? yaml_quoted(y, -1, true) : yaml_plain(y, -1, true);
	while (r == 0 && yaml_is_blank(yaml_peek(y, 0)))
		y->p++;
	if (r == 0 && !is_colon(y, quoted))
		r = yaml_fail(y, "': ' is missing after a key");
	if (r == 0)
		r = take_key(y, k);
	if (r == 0)
		y->p++;
	return r;
}

/* Skips blanks, comments and line breaks up to the next token. */
static int yaml_skip(struct yaml *y)
{
	for (;;) {
		bool indenting = y->p == y->line_start;

		while (yaml_is_blank(yaml_peek(y, 0))) {
			if (indenting && !y->flow && *y->p == '\t')
				return yaml_fail(y, "a tab cannot indent: use spaces");
			y->p++;
		}
		if (yaml_peek(y, 0) == '#' && (y->p == y->line_start || yaml_is_blank(y->p[-1])))
			while (!yaml_at_end(y) && yaml_peek(y, 0) != '\n')
				y->p++;
		if (yaml_peek(y, 0) != '\n' || yaml_at_end(y))
			return 0;
		yaml_newline(y);
	}
}

/* --- quoted scalars --- */

static void put_utf8(struct buf *b, uint32_t c)
{
	if (c < 0x80) {
		buf_char(b, (char)c);
	} else if (c < 0x800) {
		buf_char(b, (char)(0xc0 | c >> 6));
		buf_char(b, (char)(0x80 | (c & 0x3f)));
	} else if (c < 0x10000) {
		buf_char(b, (char)(0xe0 | c >> 12));
		buf_char(b, (char)(0x80 | (c >> 6 & 0x3f)));
		buf_char(b, (char)(0x80 | (c & 0x3f)));
	} else {
		buf_char(b, (char)(0xf0 | c >> 18));
		buf_char(b, (char)(0x80 | (c >> 12 & 0x3f)));
		buf_char(b, (char)(0x80 | (c >> 6 & 0x3f)));
		buf_char(b, (char)(0x80 | (c & 0x3f)));
	}
}

static int hex(struct yaml *y, size_t digits, uint32_t *ret)
{
	uint64_t v;

	for (size_t i = 0; i < digits; i++)
		if (!strchr("0123456789abcdefABCDEF", yaml_peek(y, i)) || !yaml_peek(y, i))
			return yaml_fail(y, "an escape requires %zu hexadecimal digits", digits);
	if (num_hex((struct span){y->p, digits}, 0x10ffff, &v) < 0 || v == 0)
		return yaml_fail(y, "the escape is NUL or above U+10FFFF");
	*ret = (uint32_t)v;
	y->p += digits;
	return 0;
}

/* Reads the digits of an escape. A character above U+FFFF may be two escapes, a surrogate pair,
 * as in JSON. */
static int code_point(struct yaml *y, size_t digits)
{
	uint32_t c, low;
	int r = hex(y, digits, &c);

	if (r == 0 && c >= 0xd800 && c < 0xdc00) {
		if (yaml_peek(y, 0) != '\\' || yaml_peek(y, 1) != 'u')
			return yaml_fail(y, "the escape is half of a surrogate pair");
		y->p += 2;
		r = hex(y, 4, &low);
		if (r == 0 && (low < 0xdc00 || low > 0xdfff))
			return yaml_fail(y, "the escape is half of a surrogate pair");
		if (r == 0)
			c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
	} else if (r == 0 && c >= 0xdc00 && c < 0xe000) {
		return yaml_fail(y, "the escape is half of a surrogate pair");
	}
	if (r == 0)
		put_utf8(&y->text, c);
	return r;
}

static int escape(struct yaml *y)
{
	static const char from[] = "abtnvfre \"/\\\t", to[] = "\a\b\t\n\v\f\r\033 \"/\\\t";
	char c = yaml_peek(y, 0);
	const char *at = c ? strchr(from, c) : NULL;

	if (c == '\0' || c == '\n')
		return yaml_fail(y, "the closing \" is missing in this line");
	y->p++;
	if (at)
		buf_char(&y->text, to[at - from]);
	else if (c == 'x' || c == 'u' || c == 'U')
		return code_point(y, c == 'x' ? 2 : c == 'u' ? 4 : 8);
	else if (c == 'N' || c == '_')
		put_utf8(&y->text, c == 'N' ? 0x85 : 0xa0);
	else if (c == 'L' || c == 'P')
		put_utf8(&y->text, c == 'L' ? 0x2028 : 0x2029);
	else
		return yaml_fail(y, "escape '\\%c' is not known", c);
	return 0;
}

/* A "\" at the end of a line joins this line and the next line without a blank; an empty line
 * between them is a line break. */
static int joined_line(struct yaml *y)
{
	bool first = true;

	while (yaml_peek(y, 0) == '\n') {
		if (!first)
			buf_char(&y->text, '\n');
		first = false;
		yaml_newline(y);
		while (yaml_is_blank(yaml_peek(y, 0)))
			y->p++;
	}
	return 0;
}

static int quoted_break(struct yaml *y, char quote, int indent, bool key, size_t *keep)
{
	if (key || y->p == y->end)
		return yaml_fail(y, "the closing %c is missing%s", quote,
				 key ? " in this line" : "");
	trim_blanks(&y->text, *keep);
	if (!fold(y, indent, false))
		return yaml_fail(y,
				 "the closing %c is missing, or the next line is indented too "
				 "little",
				 quote);
	*keep = y->text.len;
	return 0;
}

/*
 * yaml_quoted() and yaml_plain() read the scalar at y->p into y->text; continuation lines are
 * indented deeper than `indent`. A key must end in its line.
 */
static int yaml_quoted(struct yaml *y, int indent, bool key)
{
	char quote = *y->p++, c;
	/* length of the prefix that must not be trimmed: it ends in a line break or an escape */
	size_t keep = 0;
	int r = 0;

	text_begin(y);
	while (r == 0 &&
	       ((c = yaml_peek(y, 0)) != quote || (quote == '\'' && yaml_peek(y, 1) == c))) {
		if (c == '\n' || c == '\0') {
			r = quoted_break(y, quote, indent, key, &keep);
			continue;
		}
		y->p++;
		if (c == quote) {
			buf_char(&y->text, *y->p++);
		} else if (c == '\\' && quote == '"') {
			r = yaml_peek(y, 0) == '\n' && !key ? joined_line(y) : escape(y);
			keep = y->text.len;
		} else {
			buf_char(&y->text, c);
		}
	}
	if (r == 0)
		y->p++;
	return r;
}
