/* SPDX-License-Identifier: Apache-2.0 */
/* JSON: a parsed document is written, and parsed again with the same result; field tables read any
 * document or refuse it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/ip.h"
#include "fuzz.h"
#include "wire/json/json.h"

enum { TEXT_MAX = 1 << 20, OUT_MAX = 16 << 20, LEVELS_MAX = 32, STRING_MAX = 48 };

struct inner {
	const char *name;
	int64_t number;
};

struct outer {
	const char *type;
	bool flag, has_flag;
	int64_t number;
	struct json_strs list;
	struct ipaddr ip;
	struct ipnet net;
	struct mac mac;
	const struct json *any;
	struct inner inner;
	struct json_list inners;
};

static const struct json_field inner_fields[] = {
	JSON_FIELD("name", J_STR, struct inner, name, .required = true, .max = 8),
	JSON_FIELD("number", J_INT, struct inner, number, .min = -3, .max = 40),
	{0}};
static const struct json_table inner_go = {inner_fields, JSON_GO, sizeof(struct inner)};
static const struct json_table inner_closed = {inner_fields, JSON_CLOSED, sizeof(struct inner)};

#define FIELDS(sub_table)                                                                          \
	{                                                                                          \
		JSON_FIELD("type", J_STR, struct outer, type),                                     \
			JSON_FIELD("flag", J_BOOL, struct outer, flag,                             \
				   .has = offsetof(struct outer, has_flag)),                       \
			JSON_FIELD("number", J_INT, struct outer, number),                         \
			JSON_FIELD("list", J_STRS, struct outer, list),                            \
			JSON_FIELD("ip", J_IP, struct outer, ip),                                  \
			JSON_FIELD("net", J_NET, struct outer, net),                               \
			JSON_FIELD("mac", J_MAC, struct outer, mac),                               \
			JSON_FIELD("any", J_VAL, struct outer, any),                               \
			JSON_FIELD("inner", J_OBJ, struct outer, inner, .sub = (sub_table)),       \
			JSON_FIELD("inners", J_OBJS, struct outer, inners, .sub = (sub_table)),    \
		{                                                                                  \
			0                                                                          \
		}                                                                                  \
	}
static const struct json_field fields_go[] = FIELDS(&inner_go);
static const struct json_field fields_closed[] = FIELDS(&inner_closed);
static const struct json_table table_go = {fields_go, JSON_GO, sizeof(struct outer)};
static const struct json_table table_closed = {fields_closed, JSON_CLOSED, sizeof(struct outer)};

static void write_doc(const struct json *v, int indent, bool sorted, struct buf *b)
{
	struct json_out o;

	buf_init(b, OUT_MAX);
	jo_init(&o, b, indent);
	jo_val(&o, v, sorted);
	must(!b->over);
}

static struct json_doc *read_back(const struct buf *text)
{
	struct json_doc *d = NULL;
	struct err e = ERR_INIT;

	if (json_parse(&d, buf_span(text), OUT_MAX, &e) < 0)
		fuzz_fail(text->p, 0, e.text);
	return d;
}

/* Only the second output is reproduced byte for byte: -0e5 is written as the float -0, which is
 * parsed and written as the integer 0. */
static void writes_again_as(const struct json *v, int indent, bool sorted)
{
	auto_json struct json_doc *d = NULL, *again = NULL;
	auto_buf struct buf once, twice, thrice;

	write_doc(v, indent, sorted, &once);
	d = read_back(&once);
	must(json_kind(json_root(d)) == json_kind(v));
	must(sorted || json_len(json_root(d)) == json_len(v)); /* sorted output has each key once */
	write_doc(json_root(d), indent, sorted, &twice);
	again = read_back(&twice);
	write_doc(json_root(again), indent, sorted, &thrice);
	must(thrice.len == twice.len && !memcmp(thrice.p, twice.p, thrice.len));
}

static void check_scalar(const struct json *v)
{
	const char *s = json_string(v);
	int64_t n;
	int r = json_int(v, &n);

	must((s != NULL) == (json_kind(v) == JSON_STRING));
	must(r == 0 || r == -EINVAL || r == -ERANGE);
	must(r != 0 || json_kind(v) == JSON_NUMBER);
	must(*json_kind_name(v));
	if (s)
		must(strlen(s) < TEXT_MAX);
}

/* Checks the value and, recursively, its elements; for each of the first eight elements also
 * that json_pair() or json_at() returns the element that the walk returned, and that json_get()
 * finds the key. */
static void check_value(const struct json *v, int level)
{
	struct json_walk w = json_walk_start(v);
	const struct json *at;
	const char *key;
	size_t n = 0;

	must(level <= LEVELS_MAX);
	check_scalar(v);
	for (; (at = json_walk_next(&w, &key)); n++) {
		bool pair = json_kind(v) == JSON_OBJECT;

		must(pair == (key != NULL));
		if (pair && n < 8) {
			const char *other;

			must(json_pair(v, n, &other) == at && other == key);
			must(json_get(v, key));
			must(json_get_go(v, key) || json_kind(json_get(v, key)) == JSON_NULL ||
			     json_kind(at) == JSON_NULL);
		} else if (n < 8) {
			must(json_at(v, n) == at);
		}
		check_value(at, level + 1);
	}
	must(n == json_len(v));
}

static void read_tables(struct json_doc *d)
{
	const struct json_table *tables[] = {&table_go, &table_closed};

	for (size_t i = 0; i < ARRAY_LEN(tables); i++) {
		struct outer o = {0};
		struct err e = ERR_INIT;
		int r = json_read(d, json_root(d), tables[i], &o, "conf", &e);
		const struct inner *inner = o.inners.v;

		if (fuzz_refused(r, &e))
			continue;
		must(o.ip.family == 0 || o.ip.family == 4 || o.ip.family == 6);
		must(o.net.ip.family == 0 || o.net.len <= ip_bits(&o.net.ip));
		must(o.mac.len <= MAC_MAX);
		for (size_t k = 0; k < o.inners.n; k++) {
			must(inner[k].name && strlen(inner[k].name) <= 8);
			must(inner[k].number >= -3 && inner[k].number <= 40);
		}
		for (size_t k = 0; k < o.list.n; k++)
			must(o.list.v[k]);
	}
}

/* Writes a string as the element of an array, and parses the array. */
static struct json_doc *through(const char *text)
{
	struct json_doc *d = NULL;
	auto_buf struct buf b;
	struct json_out o;

	buf_init(&b, OUT_MAX);
	jo_init(&o, &b, 0);
	jo_arr(&o);
	jo_str(&o, text);
	jo_end_arr(&o);
	must(json_parse(&d, buf_span(&b), OUT_MAX, NULL) == 0);
	return d;
}

/*
 * Arbitrary bytes as a string: the output is valid JSON, and is written unchanged when parsed
 * again.
 */
static void write_string(struct span s)
{
	auto_free char *text = text_of(s);
	auto_json struct json_doc *once = through(text), *twice = NULL;
	const char *read = json_string(json_at(json_root(once), 0));

	must(read && strlen(read) >= strlen(text));
	twice = through(read);
	must(strcmp(json_string(json_at(json_root(twice), 0)), read) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_json struct json_doc *d = NULL;
	struct span text = {(const char *)data, size};
	struct err e = ERR_INIT;

	if (size == 0)
		return 0;
	if (size <= STRING_MAX)
		write_string(text);
	if (fuzz_refused(json_parse(&d, text, TEXT_MAX, &e), &e))
		return 0;
	check_value(json_root(d), 0);
	writes_again_as(json_root(d), 0, false);
	writes_again_as(json_root(d), 4, true);
	read_tables(d);
	return 0;
}
