/* SPDX-License-Identifier: Apache-2.0 */
/* Documents and values: yyjson behind our own limits. */
#include "wire/json/json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "base/cleanup.h"
#include "wire/json/json_doc.h"

struct chunk {
	struct chunk *next;
	max_align_t bytes[];
};

struct json_doc {
	yyjson_doc *doc;
	struct chunk *chunks;
};

/* A struct json is a yyjson_val that is only ever read. */
static yyjson_val *val_of(const struct json *v)
{
	return (yyjson_val *)v;
}

static const struct json *json_of(yyjson_val *v)
{
	return (const struct json *)v;
}

/* "3:14: what": line and column (in characters) of the byte at `pos`, both from 1. */
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

/* Skips the string that starts at text.p[*i]; false at a NUL written as an escape. */
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

/* A container that is open at some byte of a text. */
struct level {
	struct span key; /* of the member at hand */
	size_t index;	 /* of the element at hand */
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

/* "request.object.spec.ips[9999]": what stands at the byte `pos` of a text that was sound up to there. */
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

/*
 * What yyjson has no limit for. Runs over text that may not be JSON at all: it only counts. A value begins a container
 * or comes after another one; a key ends with a colon.
 */
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
		free(xmalloc(SIZE_MAX / 2)); /* exits with the usual words */
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
	yyjson_read_err why;
	yyjson_doc *doc;
	int r;

	if (text.n > max)
		return err_kind(e, ERR_DECODE, -EFBIG, "%zu bytes of JSON, %zu are allowed", text.n,
				max);
	if (span_trim(text).n == 0)
		return err_kind(e, ERR_DECODE, -EINVAL, "unexpected end of JSON input");
	r = check_limits(text, values, e);
	if (r < 0)
		return r;
	/* Without YYJSON_READ_INSITU the text is not written to. */
	doc = yyjson_read_opts((char *)text.p, text.n, YYJSON_READ_BIGNUM_AS_RAW, NULL, &why);
	if (!doc)
		return fail_read(text, &why, e);
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

	/* n counts values of a parsed text: no overflow. */
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
	case YYJSON_TYPE_RAW: /* only numbers: BIGNUM_AS_RAW */
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

const char *json_raw(const struct json *v)
{
	return yyjson_get_raw(val_of(v));
}

uint64_t json_unsigned(const struct json *v)
{
	return yyjson_get_uint(val_of(v));
}

double json_real(const struct json *v)
{
	return yyjson_get_num(val_of(v));
}

bool json_is_integer(const struct json *v)
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
		v++; /* a key stands right before its value */
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

	return r ? r : x->v < y->v ? -1 : 1; /* values stand in memory in document order */
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
	size_t low = 0, high = x->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		int r = strcmp(x->v[mid].key, key);

		if (r == 0)
			return x->v[mid].v;
		if (r < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return NULL;
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

		/* The only characters outside ASCII that fold into it (Unicode simple folding). */
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
