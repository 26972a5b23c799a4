/* SPDX-License-Identifier: Apache-2.0 */
/* Parsed values and reals on their way out; the other half of json_out.c. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "wire/json/json_doc.h"

/* The fewest digits that read back as v: "d.ddde[+-]xx". */
static void shortest(double v, char ret[static 32])
{
	for (int digits = 0; digits < 17; digits++) {
		snprintf(ret, 32, "%.*e", digits, v);
		if (strtod(ret, NULL) == v)
			break;
	}
}

/* Plain notation of 0.`digits` * 10^(point), zeros filled in on either side. */
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

/* Go's: plain from 1e-6 to 1e21, else "1e-7", "1.5e+21". */
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
	jo_text(o, ""); /* the comma and the line */
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
	else if (json_int(v, &n) == 0)
		jo_int(o, n);
	else if (json_is_integer(v))
		jo_uint(o, json_unsigned(v));
	else
		jo_real(o, json_real(v));
}

/* As Go writes a map: bytewise by key, the last of equal keys. */
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

/* Recursion ends at JSON_DEPTH_MAX: a parsed value is no deeper. */
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
