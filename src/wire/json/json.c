/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/json/json.h"
#include "wire/json/suggest.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "base/alloc.h"
#include "base/sorted.h"
#include "wire/json/internal.h"

/* Documents and values: yyjson with additional limits. */

struct chunk {
	struct chunk *next;
	max_align_t bytes[];
};

struct json_doc {
	yyjson_doc *doc;
	struct chunk *chunks;
};

/* A struct json is a read-only yyjson_val. */
static yyjson_val *val_of(const struct json *v)
{
	return (yyjson_val *)v;
}

static const struct json *json_of(yyjson_val *v)
{
	return (const struct json *)v;
}

/* Sets the error "3:14: what": line and column of the byte at `pos`, both counted from 1, the
 * column in characters. */
static int fail_with(struct span text, size_t pos, int code, struct err *e, const char *what)
{
	unsigned int line = 1, column = 1;

	for (size_t i = 0; i < pos && i < text.n; i++) {
		if (text.p[i] == '\n') {
			line++;
			column = 1;
		} else if (((unsigned char)text.p[i] & 0xc0) != 0x80) {
			column++;
		}
	}
	return err_kind(e, ERR_DECODE, code, "%u:%u: %s", line, column, what);
}

static int fail_at(struct span text, size_t pos, struct err *e, const char *what)
{
	return fail_with(text, pos, -EINVAL, e, what);
}

/* Skips the string that starts at text.p[*i]; returns false if it contains an escaped NUL. */
static bool skip_string(struct span text, size_t *i)
{
	for ((*i)++; *i < text.n && text.p[*i] != '"'; (*i)++) {
		if (text.p[*i] != '\\')
			continue;
		if (text.n - *i >= 6 && memcmp(text.p + *i, "\\u0000", 6) == 0)
			return false;
		(*i)++;
	}
	return true;
}

/* A container that is open at the scanned position. */
struct level {
	struct span key; /* key of the current member */
	size_t index;	 /* index of the current element */
	bool is_list;
};

static void put_place(struct buf *b, const struct level *v, int depth)
{
	for (int i = 0; i < depth; i++)
		if (v[i].is_list)
			buf_printf(b, "[%zu]", v[i].index);
		else
			buf_printf(b, "%s%.*s", i ? "." : "",
				   (int)(v[i].key.n < 64 ? v[i].key.n : 64), v[i].key.p);
}

/* Writes the path of the value at the byte `pos`, such as "request.object.spec.ips[9999]"; the
 * path is meaningless if the text before `pos` is not valid JSON. */
static void place_at(struct span text, size_t pos, struct buf *ret)
{
	struct level v[JSON_DEPTH_MAX + 1] = {0};
	struct span string = {0};
	int depth = 0;

	for (size_t i = 0; i < pos && depth <= JSON_DEPTH_MAX; i++) {
		struct level *at = depth ? &v[depth - 1] : NULL;
		char c = text.p[i];

		if (c == '"') {
			size_t from = i + 1;

			skip_string(text, &i);
			string = (struct span){text.p + from, i - from};
		} else if (c == '{' || c == '[') {
			v[depth++] = (struct level){.is_list = c == '['};
		} else if ((c == '}' || c == ']') && depth > 0) {
			depth--;
		} else if (c == ',' && at) {
			at->index++;
		} else if (c == ':' && at) {
			at->key = string;
		}
	}
	put_place(ret, v, depth < JSON_DEPTH_MAX ? depth : JSON_DEPTH_MAX);
}

static int too_many(struct span text, size_t pos, size_t values, struct err *e)
{
	auto_buf struct buf place;
	auto_free char *what = NULL;

	buf_init(&place, 256);
	place_at(text, pos, &place);
	what = xasprintf("more than %zu values, at %s", values, place.len ? place.p : "the top");
	return fail_with(text, pos, -E2BIG, e, what);
}

/* Enforces the limits that yyjson lacks (depth, number of values, NUL in strings) before yyjson
 * parses the text. At this point the text may be invalid JSON: each ',', ':', '{' and '['
 * outside of strings counts as one value. */
static int check_limits(struct span text, size_t values, struct err *e)
{
	size_t n = 0;
	int depth = 0;

	for (size_t i = 0; i < text.n; i++) {
		char c = text.p[i];

		if ((c == ',' || c == ':' || c == '{' || c == '[') && ++n >= values)
			return too_many(text, i + 1, values, e);

		if (c == '"' && !skip_string(text, &i))
			return fail_at(text, i, e, "NUL character in string");
		if ((c == '{' || c == '[') && ++depth > JSON_DEPTH_MAX)
			return fail_at(text, i, e, "nested deeper than 32 levels");
		if (c == '}' || c == ']')
			depth--;
	}
	return 0;
}

static int fail_read(struct span text, const yyjson_read_err *r, struct err *e)
{
	switch (r->code) {
	case YYJSON_READ_ERROR_MEMORY_ALLOCATION:
		free(xmalloc(SIZE_MAX /
			     /* xmalloc() fails and ends the process with its message about
			      * exhausted memory */
			     2));
		return -ENOMEM;
	case YYJSON_READ_ERROR_UNEXPECTED_END:
		return fail_at(text, r->pos, e, "unexpected end of JSON input");
	default: return fail_at(text, r->pos, e, r->msg);
	}
}

int json_parse(struct json_doc **ret, struct span text, size_t max, struct err *e)
{
	return json_parse_values(ret, text, max, SIZE_MAX, e);
}

int json_parse_values(struct json_doc **ret, struct span text, size_t max, size_t values,
		      struct err *e)
{
	struct json_doc *d;
	yyjson_read_err reason;
	yyjson_doc *doc;
	int r;

	if (text.n > max)
		return err_kind(e, ERR_DECODE, -EFBIG, "%zu bytes of JSON, the limit is %zu",
				text.n, max);
	if (span_trim(text).n == 0)
		return err_kind(e, ERR_DECODE, -EINVAL, "unexpected end of JSON input");
	r = check_limits(text, values, e);
	if (r < 0)
		return r;
	/* Without YYJSON_READ_INSITU yyjson does not write to the text. */
	doc = yyjson_read_opts((char *)text.p, text.n, YYJSON_READ_BIGNUM_AS_RAW, NULL, &reason);
	if (!doc)
		return fail_read(text, &reason, e);
	d = xcalloc(1, sizeof(*d));
	d->doc = doc;
	*ret = d;
	return 0;
}

void json_free(struct json_doc *d)
{
	struct chunk *c, *next;

	if (!d)
		return;
	for (c = d->chunks; c; c = next) {
		next = c->next;
		free(c);
	}
	yyjson_doc_free(d->doc);
	free(d);
}

void json_cleanup(struct json_doc **d)
{
	int saved = errno;

	json_free(*d);
	*d = NULL;
	errno = saved;
}

void *json_alloc(struct json_doc *d, size_t n, size_t size)
{
	struct chunk *c;

	/* n counts values of a parsed text: the product cannot overflow. */
	c = xcalloc(1, sizeof(*c) + n * size);
	c->next = d->chunks;
	d->chunks = c;
	return c->bytes;
}

const struct json *json_root(const struct json_doc *d)
{
	return json_of(yyjson_doc_get_root(d->doc));
}

enum json_kind json_kind(const struct json *v)
{
	switch (yyjson_get_type(val_of(v))) {
	case YYJSON_TYPE_BOOL: return JSON_BOOL;
	/* YYJSON_READ_BIGNUM_AS_RAW creates this type, and only for numbers */
	case YYJSON_TYPE_RAW:
	case YYJSON_TYPE_NUM: return JSON_NUMBER;
	case YYJSON_TYPE_STR: return JSON_STRING;
	case YYJSON_TYPE_ARR: return JSON_ARRAY;
	case YYJSON_TYPE_OBJ: return JSON_OBJECT;
	default: return JSON_NULL;
	}
}

const char *json_kind_name(const struct json *v)
{
	static const char names[][8] = {"null", "bool", "number", "string", "array", "object"};

	return names[json_kind(v)];
}

bool json_bool(const struct json *v)
{
	return yyjson_get_bool(val_of(v));
}

const char *json_string(const struct json *v)
{
	return yyjson_get_str(val_of(v));
}

const char *json_text(const struct json *v)
{
	const char *s = json_string(v);

	return s ? s : "";
}

const char *json_get_text(const struct json *v, const char *key)
{
	return json_text(json_get(v, key));
}

/* Returns the text of an integer that does not fit 64 bits or of a real that does not fit a double;
 * NULL for any other value. */
static const char *json_raw(const struct json *v)
{
	return yyjson_get_raw(val_of(v));
}

/* Returns the value of an integer above INT64_MAX. */
static uint64_t json_unsigned(const struct json *v)
{
	return yyjson_get_uint(val_of(v));
}

static double json_real(const struct json *v)
{
	return yyjson_get_num(val_of(v));
}

static bool json_is_integer(const struct json *v)
{
	const char *raw = json_raw(v);

	return raw ? !strpbrk(raw, ".eE") : yyjson_is_int(val_of(v));
}

int json_int(const struct json *v, int64_t *ret)
{
	if (!json_is_integer(v))
		return -EINVAL;
	if (json_raw(v) || (yyjson_is_uint(val_of(v)) && yyjson_get_uint(val_of(v)) > INT64_MAX))
		return -ERANGE;
	*ret = yyjson_get_sint(val_of(v));
	return 0;
}

int64_t json_int_or(const struct json *v, int64_t fallback)
{
	int64_t n;

	return json_int(v, &n) == 0 ? n : fallback;
}

size_t json_len(const struct json *v)
{
	return yyjson_is_obj(val_of(v)) ? yyjson_obj_size(val_of(v)) : yyjson_arr_size(val_of(v));
}

const struct json *json_at(const struct json *v, size_t i)
{
	return json_of(yyjson_arr_get(val_of(v), i));
}

struct json_walk json_walk_start(const struct json *v)
{
	if (!yyjson_is_ctn(val_of(v)))
		return (struct json_walk){0};
	return (struct json_walk){json_of(unsafe_yyjson_get_first(val_of(v))), json_len(v),
				  yyjson_is_obj(val_of(v))};
}

const struct json *json_walk_next(struct json_walk *w, const char **key)
{
	yyjson_val *v = val_of(w->next);

	if (key)
		*key = w->left && w->pairs ? yyjson_get_str(v) : NULL;
	if (w->left == 0)
		return NULL;
	if (w->pairs)
		v++; /* yyjson stores a key directly before its value */
	w->left--;
	w->next = json_of(unsafe_yyjson_get_next(v));
	return json_of(v);
}

const struct json *json_pair(const struct json *v, size_t i, const char **key)
{
	struct json_walk w = json_walk_start(v);

	if (!w.pairs || i >= w.left)
		return NULL;
	while (i-- > 0)
		json_walk_next(&w, key);
	return json_walk_next(&w, key);
}

const struct json *json_get(const struct json *obj, const char *key)
{
	struct json_walk w = json_walk_start(obj);
	const struct json *v, *found = NULL;
	const char *k;

	while ((v = json_walk_next(&w, &k)))
		if (k && strcmp(k, key) == 0)
			found = v;
	return found;
}

static int by_key(const void *a, const void *b)
{
	const struct json_member *x = a, *y = b;
	int r = strcmp(x->key, y->key);

	return r ? r : x->v < y->v ? -1 : 1; /* yyjson stores values in document order */
}

struct json_index json_index_of(const struct json *obj)
{
	struct json_walk w = json_walk_start(obj);
	struct json_index x = {0};
	size_t n = w.pairs ? w.left : 0;

	if (n == 0)
		return x;
	x.v = xcalloc(n, sizeof(*x.v));
	for (size_t i = 0; i < n; i++)
		x.v[i].v = json_walk_next(&w, &x.v[i].key);
	qsort(x.v, n, sizeof(*x.v), by_key);
	for (size_t i = 0; i < n; i++)
		if (i + 1 == n || strcmp(x.v[i].key, x.v[i + 1].key) != 0)
			x.v[x.n++] = x.v[i];
	return x;
}

const struct json *json_index_get(const struct json_index *x, const char *key)
{
	size_t at = LOWER_BOUND(i, x->n, strcmp(x->v[i].key, key) < 0);

	return at < x->n && strcmp(x->v[at].key, key) == 0 ? x->v[at].v : NULL;
}

void json_index_cleanup(struct json_index *x)
{
	int saved = errno;

	free(x->v);
	*x = (struct json_index){0};
	errno = saved;
}

static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

bool json_key_folds(const char *key, const char *name)
{
	for (; *name; name++) {
		char want = lower(*name);

		/* U+017F and U+212A are the only non-ASCII characters that Unicode simple
		 * folding maps to ASCII letters. */
		if (want == 's' && strncmp(key, "\u017f", 2) == 0)
			key += 2;
		else if (want == 'k' && strncmp(key, "\u212a", 3) == 0)
			key += 3;
		else if (lower(*key++) != want)
			return false;
	}
	return *key == '\0';
}

const struct json *json_get_go(const struct json *obj, const char *key)
{
	struct json_walk w = json_walk_start(obj);
	const struct json *v, *found = NULL;
	const char *k;

	while ((v = json_walk_next(&w, &k)))
		if (k && json_kind(v) != JSON_NULL && json_key_folds(k, key))
			found = v;
	return found;
}

/* --- writing parsed values and real numbers --- */

/* Formats v as "d.ddde[+-]xx" with the fewest digits that parse back to v. */
static void shortest(double v, char ret[static 32])
{
	for (int digits = 0; digits < 17; digits++) {
		snprintf(ret, 32, "%.*e", digits, v);
		if (strtod(ret, NULL) == v)
			break;
	}
}

/* Appends 0.`digits` * 10^(point) in plain notation, padded with zeros on either side. */
static void add_plain(struct buf *b, const char *digits, int point)
{
	int n = (int)strlen(digits);

	if (point <= 0) {
		buf_printf(b, "0.%.*s%s", -point, "000000", digits);
		return;
	}
	for (int i = 0; i < n || i < point; i++) {
		if (i == point)
			buf_char(b, '.');
		buf_char(b, i < n ? digits[i] : '0');
	}
}

/* Writes a number as Go does: in plain notation if it is 0 or its magnitude is at least 1e-6 and
 * below 1e21, otherwise as "1e-7" or "1.5e+21". Infinity and NaN become null. */
void jo_real(struct json_out *o, double v)
{
	char text[32], *exp, *from = text, digits[24] = "";
	int exponent;

	if (!isfinite(v)) {
		jo_null(o);
		return;
	}
	shortest(v, text);
	exp = strchr(text, 'e');
	exponent = atoi(exp + 1);
	*exp = '\0';
	jo_text(o, ""); /* writes the comma and line break that precede the number */
	if (v != 0 && (exponent < -6 || exponent >= 21)) {
		buf_printf(o->b, "%se%s%d", text, exponent < 0 ? "" : "+", exponent);
		return;
	}
	if (*from == '-')
		buf_char(o->b, *from++);
	digits[0] = from[0];
	if (from[1])
		strcpy(digits + 1, from + 2);
	add_plain(o->b, digits, exponent + 1);
}

static void add_number(struct json_out *o, const struct json *v)
{
	const char *raw = json_raw(v);
	int64_t n;

	if (raw)
		jo_text(o, raw);
	else if (yyjson_is_sint(val_of(v)) && yyjson_get_sint(val_of(v)) == 0)
		jo_text(o, "-0"); /* as jo_real() and Go write -0.0 */
	else if (json_int(v, &n) == 0)
		jo_int(o, n);
	else if (json_is_integer(v))
		jo_uint(o, json_unsigned(v));
	else
		jo_real(o, json_real(v));
}

/* Writes members as Go writes a map: sorted bytewise by key, of equal keys the last one. */
static void add_sorted(struct json_out *o, const struct json *v)
{
	auto_json_index struct json_index x = json_index_of(v);

	for (size_t i = 0; i < x.n; i++) {
		jo_key(o, x.v[i].key);
		jo_val(o, x.v[i].v, true);
	}
}

static void add_object(struct json_out *o, const struct json *obj, bool sorted)
{
	struct json_walk w = json_walk_start(obj);
	const struct json *v;
	const char *key;

	jo_obj(o);
	if (sorted)
		add_sorted(o, obj);
	else
		while ((v = json_walk_next(&w, &key))) {
			jo_key(o, key);
			jo_val(o, v, false);
		}
	jo_end_obj(o);
}

static void add_array(struct json_out *o, const struct json *list, bool sorted)
{
	struct json_walk w = json_walk_start(list);
	const struct json *v;

	jo_arr(o);
	while ((v = json_walk_next(&w, NULL)))
		jo_val(o, v, sorted);
	jo_end_arr(o);
}

/* The recursion is bounded: a parsed value is at most JSON_DEPTH_MAX deep. */
void jo_val(struct json_out *o, const struct json *v, bool sorted)
{
	switch (json_kind(v)) {
	case JSON_NULL: jo_null(o); return;
	case JSON_BOOL: jo_bool(o, json_bool(v)); return;
	case JSON_NUMBER: add_number(o, v); return;
	case JSON_STRING: jo_str(o, json_string(v)); return;
	case JSON_ARRAY: add_array(o, v, sorted); return;
	case JSON_OBJECT: add_object(o, v, sorted); return;
	}
}

static void sorted_text(const struct json *v, struct buf *ret)
{
	struct json_out o;

	buf_init(ret, SIZE_MAX);
	jo_init(&o, ret, 0);
	jo_val(&o, v, true);
}

bool json_same(const struct json *a, const struct json *b)
{
	auto_buf struct buf x, y;

	sorted_text(a, &x);
	sorted_text(b, &y);
	return x.len == y.len && memcmp(x.p, y.p, x.len) == 0;
}

enum { KEY_MAX = 64 };

static size_t min3(size_t a, size_t b, size_t c)
{
	size_t m = a < b ? a : b;

	return m < c ? m : c;
}

/* Returns the Levenshtein distance of a and b, ignoring case. */
static size_t distance(const char *a, const char *b)
{
	size_t row[KEY_MAX + 1], n = strlen(b);

	for (size_t j = 0; j <= n; j++)
		row[j] = j;
	for (size_t i = 1; a[i - 1]; i++) {
		size_t diagonal = row[0];

		row[0] = i;
		for (size_t j = 1; j <= n; j++) {
			bool same = tolower((unsigned char)a[i - 1]) ==
				    tolower((unsigned char)b[j - 1]);
			size_t up = row[j];

			row[j] = min3(up + 1, row[j - 1] + 1, diagonal + !same);
			diagonal = up;
		}
	}
	return row[n];
}

const char *json_suggest(const struct json_table *t, const char *key)
{
	size_t len = strlen(key), best = len / 3 + 2;
	const char *near = NULL;

	if (len > KEY_MAX)
		return NULL;
	for (const struct json_field *f = t->fields; f->name; f++) {
		size_t d = strlen(f->name) > KEY_MAX ? best : distance(key, f->name);

		if (d < best) {
			best = d;
			near = f->name;
		}
	}
	return near;
}

/* --- writing JSON byte for byte as Go's encoding/json does --- */

void jo_init(struct json_out *o, struct buf *b, int indent)
{
	*o = (struct json_out){.b = b, .indent = indent, .first = true};
}

static void new_line(struct json_out *o)
{
	if (o->indent)
		buf_printf(o->b, "\n%*s", o->indent * o->depth, "");
}

/* Writes the comma and line break before a key or value. */
static void begin(struct json_out *o)
{
	if (o->after_key) {
		o->after_key = false;
		return;
	}
	if (!o->first)
		buf_char(o->b, ',');
	if (o->depth)
		new_line(o);
	o->first = false;
}

static void open_with(struct json_out *o, char c)
{
	begin(o);
	buf_char(o->b, c);
	o->depth++;
	o->first = true;
}

/* An empty container is "{}" or "[]", in the indented form too. */
static void close_with(struct json_out *o, char c)
{
	o->depth--;
	if (!o->first)
		new_line(o);
	o->first = false;
	buf_char(o->b, c);
}

void jo_obj(struct json_out *o)
{
	open_with(o, '{');
}

void jo_end_obj(struct json_out *o)
{
	close_with(o, '}');
}

void jo_arr(struct json_out *o)
{
	open_with(o, '[');
}

void jo_end_arr(struct json_out *o)
{
	close_with(o, ']');
}

static void add_ascii(struct buf *b, unsigned char c)
{
	static const char plain[] = "\"\\\b\f\n\r\t", escaped[] = "\"\\bfnrt";
	const char *at = c ? strchr(plain, c) : NULL;

	if (at)
		buf_printf(b, "\\%c", escaped[at - plain]);
	else if (c < 0x20 || c == '<' || c == '>' || c == '&')
		buf_printf(b, "\\u%04x", c);
	else
		buf_char(b, (char)c);
}

/* Returns the number of ASCII bytes at the start of p that need no escaping. */
static size_t plain_len(const unsigned char *p, size_t n)
{
	size_t i = 0;

	while (i < n && p[i] >= 0x20 && p[i] < 0x80 && p[i] != '"' && p[i] != '\\' && p[i] != '<' &&
	       p[i] != '>' && p[i] != '&')
		i++;
	return i;
}

static void add_string(struct buf *b, const char *s)
{
	const unsigned char *p = (const unsigned char *)s;
	size_t left = strlen(s), n;

	buf_char(b, '"');
	for (; left > 0; p += n, left -= n) {
		n = plain_len(p, left);
		if (n > 0) {
			buf_add(b, p, n);
			continue;
		}
		n = utf8_len((struct span){(const char *)p, left});
		if (n == 0) {
			buf_str(b, "\\ufffd");
			n = 1;
		} else if (n == 1) {
			add_ascii(b, *p);
		} else if (n == 3 && p[0] == 0xe2 && p[1] == 0x80 && (p[2] & 0xfe) == 0xa8) {
			/* U+2028 and U+2029, line terminators of JavaScript */
			buf_printf(b, "\\u20%02x", p[2] - 0x80);
		} else {
			buf_add(b, p, n);
		}
	}
	buf_char(b, '"');
}

void jo_key(struct json_out *o, const char *key)
{
	begin(o);
	add_string(o->b, key);
	buf_str(o->b, o->indent ? ": " : ":");
	o->after_key = true;
}

void jo_text(struct json_out *o, const char *text)
{
	begin(o);
	buf_str(o->b, text);
}

void jo_str(struct json_out *o, const char *s)
{
	if (!s) {
		jo_null(o);
		return;
	}
	begin(o);
	add_string(o->b, s);
}

void jo_int(struct json_out *o, int64_t v)
{
	begin(o);
	buf_printf(o->b, "%" PRId64, v);
}

void jo_uint(struct json_out *o, uint64_t v)
{
	begin(o);
	buf_printf(o->b, "%" PRIu64, v);
}

void jo_bool(struct json_out *o, bool v)
{
	jo_text(o, v ? "true" : "false");
}

void jo_null(struct json_out *o)
{
	jo_text(o, "null");
}

void jo_kstr(struct json_out *o, const char *key, const char *s)
{
	jo_key(o, key);
	jo_str(o, s);
}

void jo_strs(struct json_out *o, const struct json_strs *l)
{
	jo_arr(o);
	for (size_t i = 0; i < l->n; i++)
		jo_str(o, l->v[i]);
	jo_end_arr(o);
}

void jo_kstrs(struct json_out *o, const char *key, char *const *v, size_t n)
{
	jo_key(o, key);
	jo_strs(o, &(struct json_strs){(const char **)v, n});
}

void jo_kstr_if_set(struct json_out *o, const char *key, const char *s)
{
	if (s && *s)
		jo_kstr(o, key, s);
}

void jo_kint(struct json_out *o, const char *key, int64_t v)
{
	jo_key(o, key);
	jo_int(o, v);
}

void jo_kuint(struct json_out *o, const char *key, uint64_t v)
{
	jo_key(o, key);
	jo_uint(o, v);
}

void jo_kbool(struct json_out *o, const char *key, bool v)
{
	jo_key(o, key);
	jo_bool(o, v);
}
