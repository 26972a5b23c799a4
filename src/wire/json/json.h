/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_WIRE_JSON_JSON_H
#define UNIRAIL_WIRE_JSON_JSON_H

/*
 * Strict JSON (depth 32, size cap, valid UTF-8, no NUL in strings, nothing after the document),
 * read by field tables whose errors name the path: "conf.mtu is 1, expected 68 to 65535".
 *
 * A document owns its strings; values are borrowed from the document. As with Go's encoding/json
 * the last duplicate of a key wins, null leaves the struct's member unchanged, and unknown keys are
 * ignored (except with JSON_CLOSED). In a table with the flag JSON_GO a key sets, as in Go, the
 * field of exactly the same name, else a field whose name differs only in upper and lower case.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/ip.h"

struct json_doc;
struct json; /* a value; opaque */

/* Errors have kind ERR_DECODE. -EFBIG: more than `max` bytes; -EINVAL: not JSON, nested too deeply,
 * or a NUL in a string. */
int json_parse(struct json_doc **ret, struct span text, size_t max, struct err *e);
/*
 * For untrusted input: at most `values` values, which take 16 bytes each in memory; a key counts as
 * one, an empty container as two. They are counted before the tree is built. -E2BIG names the path
 * of the first value above the limit: "1:27: more than 12 values, at a.b[1].c.d[2]".
 */
int json_parse_values(struct json_doc **ret, struct span text, size_t max, size_t values,
		      struct err *e);
void json_free(struct json_doc *d);
void json_cleanup(struct json_doc **d);
#define auto_json __attribute__((cleanup(json_cleanup)))
const struct json *json_root(const struct json_doc *d);

enum json_kind { JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT };
enum json_kind json_kind(const struct json *v); /* NULL v is JSON_NULL */
const char *json_kind_name(const struct json *v);
bool json_bool(const struct json *v);
const char *json_string(const struct json *v); /* NUL-terminated, borrowed; NULL: not a string */
/* returns the string of a value; "": not a string */
const char *json_text(const struct json *v);
/* returns the string of a member; "": not a string */
const char *json_get_text(const struct json *v, const char *key);
/* returns an integer; `fallback` if v is not an integer or is beyond int64_t */
int64_t json_int_or(const struct json *v, int64_t fallback);
/* reads an integer; -EINVAL: not an integer, -ERANGE: beyond int64_t */
int json_int(const struct json *v, int64_t *ret);
/* returns the number of elements of an array, or of pairs of an object */
size_t json_len(const struct json *v);
/* returns an element of an array; O(i) */
const struct json *json_at(const struct json *v, size_t i);
/* Returns the pair i of an object in document order; *key borrowed. */
const struct json *json_pair(const struct json *v, size_t i, const char **key);

/*
 * json_at() and json_pair() count from the start each time: fine for tens of elements. A walk costs
 * one step per element: use it for long or untrusted collections.
 *
 *	struct json_walk w = json_walk_start(list);
 *	while ((v = json_walk_next(&w, &key)))
 */
struct json_walk {
	const struct json *next;
	size_t left;
	bool pairs;
};
/* starts a walk; a value that is neither array nor object has no elements */
struct json_walk json_walk_start(const struct json *v);
/* Returns the next value; NULL at the end. *key is NULL in an array; `key` may be NULL. */
const struct json *json_walk_next(struct json_walk *w, const char **key);

/* returns the value of exactly this key; of duplicates the last one */
const struct json *json_get(const struct json *obj, const char *key);
/* returns the last value that is not null and whose key equals `key`, compared without case */
const struct json *json_get_go(const struct json *obj, const char *key);

/*
 * Members of an object by key. json_get() walks over all members: fine for a few keys, but calling
 * it for each of n keys takes n * n steps. To create an index takes n log n steps, and each
 * json_index_get() log n. The index borrows from the document.
 *
 *	auto_json_index struct json_index x = json_index_of(obj);
 */
struct json_index {
	struct json_member *v; /* sorted by key; of equal keys only the last one */
	size_t n;
};
struct json_member {
	const char *key;
	const struct json *v;
};
/* a value that is not an object has an empty index */
struct json_index json_index_of(const struct json *obj);
const struct json *json_index_get(const struct json_index *x, const char *key);
void json_index_cleanup(struct json_index *x);
#define auto_json_index __attribute__((cleanup(json_index_cleanup)))

/* Returns whether two values are equal when serialized, except for the order of keys. A NULL
 * pointer equals null. */
bool json_same(const struct json *a, const struct json *b);

/* --- reading by table --- */

/*
 *	static const struct json_field fields[] = {
 *		JSON_FIELD("type", J_STR, struct ipam, type, .required = true),
 *		JSON_FIELD("mtu", J_INT, struct ipam, mtu, .min = 68, .max = 65535),
 *		{0}};
 */

enum json_type {
	J_STR,	/* reads a const char *, borrowed from the document */
	J_BOOL, /* bool */
	J_INT,	/* int64_t, min..max (both 0: any) */
	J_STRS, /* struct json_strs: array of strings */
	J_IP,	/* struct ipaddr; "" leaves the member unchanged */
	J_NET,	/* struct ipnet: CIDR */
	J_MAC,	/* struct mac; "" leaves the member unchanged */
	J_VAL,	/* const struct json *: anything, borrowed */
	J_OBJ,	/* struct at `offset`: an object, read by the table `sub` */
	/* struct json_list: array of objects, each read by `sub` into an element of sub->size
	 * bytes */
	J_OBJS,
};

struct json_strs {
	const char **v; /* array owned by the document */
	size_t n;
};

bool json_strs_has(const struct json_strs *l, const char *s);

struct json_list {
	void *v; /* array owned by the document, zeroed before reading */
	size_t n;
};

struct json_table;
struct json_field {
	const char *name;
	enum json_type type;
	size_t offset;
	/* offset of a bool member that is set to true if the key is present and not null; 0:
	 * none */
	size_t has;
	/* J_INT: limits; J_STR: max is the maximum length in bytes, 0: no limit */
	int64_t min, max;
	const struct json_table *sub; /* J_OBJ, J_OBJS */
	bool required;
	bool own; /* only unirail has this key; the program that unirail replaces ignores it */
	const char *fallback; /* for `unirail help`: the default as text; NULL: none */
	const char *help;     /* for `unirail help`: one sentence; NULL: not listed */
};

/* A row for the member of a struct; further arguments set other members of struct json_field. */
#define JSON_FIELD(key, kind, object, member, ...)                                                 \
	{                                                                                          \
		.name = (key), .type = (kind), .offset = offsetof(object, member), ##__VA_ARGS__   \
	}
/* Sets `fallback` and `help` of a row: documentation of a key that users write in a
 * configuration. */
#define JSON_DOC(the_default, text) .fallback = (the_default), .help = (text)
#define JSON_OWN(the_default, text) .own = true, JSON_DOC(the_default, text)

enum { JSON_GO = 1, JSON_CLOSED = 2 /* an unknown key is an error unless it begins with '~' */ };

struct json_table {
	const struct json_field *fields; /* ended by {0} */
	unsigned int flags;
	size_t size; /* size of the element struct, for J_OBJS */
};

/* Makes a constant list of tables, ended by NULL. */
#define JSON_TABLES(...)                                                                           \
	(const struct json_table *const[])                                                         \
	{                                                                                          \
		__VA_ARGS__, NULL                                                                  \
	}

/* Reads an object. `place` is the path of the object for errors ("conf", "conf.ipam"). Errors have
 * kind ERR_CONF. d is not const, since it owns the allocated memory. */
int json_read(struct json_doc *d, const struct json *obj, const struct json_table *t, void *into,
	      const char *place, struct err *e);

/* Like json_read(), for one value of any type, which f describes (f->name is not used). */
int json_read_value(struct json_doc *d, const struct json *v, const struct json_field *f,
		    void *into, const char *place, struct err *e);

/* Sets "PLACE is SEEN, expected WHAT" with kind ERR_CONF, for checks that a table cannot express.
 * Returns -EINVAL. */
int json_wants(const struct json *v, const char *place, const char *what, struct err *e);

/* --- writing of JSON --- */

/*
 * A writer onto a buffer. Strings are escaped as Go does (<, >, &, U+2028, U+2029 as \u003c...;
 * invalid UTF-8 becomes U+FFFD). indent 0 is compact, 4 is MarshalIndent("", "    ").
 */
struct json_out {
	struct buf *b;
	int indent;
	int depth;
	bool first, after_key;
};

void jo_init(struct json_out *o, struct buf *b, int indent);
void jo_obj(struct json_out *o);
void jo_end_obj(struct json_out *o);
void jo_arr(struct json_out *o);
void jo_end_arr(struct json_out *o);
void jo_key(struct json_out *o, const char *key);
void jo_str(struct json_out *o, const char *s); /* NULL writes null */
void jo_int(struct json_out *o, int64_t v);
void jo_uint(struct json_out *o, uint64_t v);
void jo_bool(struct json_out *o, bool v);
void jo_null(struct json_out *o);
void jo_real(struct json_out *o, double v);
/* Writes a parsed value; sorted: object keys in byte order, as Go writes a map. Integers are
 * written exactly, reals as Go writes a float64. */
void jo_val(struct json_out *o, const struct json *v, bool sorted);
void jo_strs(struct json_out *o, const struct json_strs *l); /* an array of strings */
/* Functions that write key and value in one call. */
void jo_kstr(struct json_out *o, const char *key, const char *s);
void jo_kstr_if_set(struct json_out *o, const char *key,
		    const char *s); /* writes nothing if s is NULL or "" */
void jo_kint(struct json_out *o, const char *key, int64_t v);
void jo_kuint(struct json_out *o, const char *key, uint64_t v);
void jo_kbool(struct json_out *o, const char *key, bool v);
void jo_kstrs(struct json_out *o, const char *key, char *const *v, size_t n);

#endif
