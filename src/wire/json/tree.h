/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_WIRE_JSON_TREE_H
#define UNIRAIL_WIRE_JSON_TREE_H

/*
 * A mutable JSON value: created from a parsed one, changed member by member, written again.
 *
 *	auto_tree struct json_tree *t = json_tree_of(json_root(doc));
 *
 *	json_tree_put_int(json_tree_member_object(t, "spec"), "ipVersion", 4);
 *	json_tree_write(t, &out);
 *
 * Nothing is borrowed from the document, except by json_tree_over(). Functions except
 * json_tree_next() and json_tree_set_text() accept a tree that is NULL or of the wrong kind: they
 * change nothing and return NULL, false or an error, so that callers can follow paths without
 * checks; json_tree_kind(), json_tree_same() and json_tree_write() treat NULL as a JSON null. Of
 * duplicate keys the last counts.
 */

#include "wire/json/json.h"

struct json_tree;

struct json_tree *json_tree_of(const struct json *v);
/*
 * Like json_tree_of(), but borrows from the document, which must outlive the tree: creates nodes
 * only for the members and items of accessed containers, and writes everything else from the
 * document. Use it for untrusted input, since json_tree_of() takes more than 50 bytes for each
 * value.
 */
struct json_tree *json_tree_over(const struct json *v);
struct json_tree *json_tree_new(enum json_kind kind); /* kind: JSON_OBJECT or JSON_ARRAY */
void json_tree_free(struct json_tree *t);
void json_tree_cleanup(struct json_tree **t);
#define auto_tree __attribute__((cleanup(json_tree_cleanup)))

enum json_kind json_tree_kind(const struct json_tree *t); /* JSON_NULL if t is NULL */
/* returns the text of a string; NULL: not a string */
const char *json_tree_text(const struct json_tree *t);
bool json_tree_true(const struct json_tree *t);
int json_tree_int(const struct json_tree *t, int64_t *ret);
/* returns whether the tree equals the value, ignoring the order of keys */
bool json_tree_same(const struct json_tree *t, const struct json *v);

/* --- objects --- */

struct json_tree *json_tree_member(const struct json_tree *t, const char *key);
/* Returns the member as an object, created if absent or null; NULL: the member has another kind. */
struct json_tree *json_tree_member_object(struct json_tree *t, const char *key);
/* Returns the member as an array, created if absent; the array replaces a value of another kind. */
struct json_tree *json_tree_member_array(struct json_tree *t, const char *key);
/* Sets the member `key` to v, replacing a previous value. t then owns v; v is freed if t is not an
 * object. */
void json_tree_put(struct json_tree *t, const char *key, struct json_tree *v);
void json_tree_put_text(struct json_tree *t, const char *key, const char *text);
void json_tree_put_int(struct json_tree *t, const char *key, int64_t n);
void json_tree_put_bool(struct json_tree *t, const char *key, bool on);
void json_tree_drop(struct json_tree *t, const char *key);
/* Removes the member and passes it to the caller; NULL: no such member. */
struct json_tree *json_tree_take(struct json_tree *t, const char *key);

/* --- items of arrays and objects; text values and writing --- */

struct json_tree *json_tree_first(const struct json_tree *t);
struct json_tree *json_tree_next(const struct json_tree *item);
void json_tree_push(struct json_tree *t, struct json_tree *v);
void json_tree_push_text(struct json_tree *t, const char *text);
void json_tree_set_text(struct json_tree *t, const char *text); /* replaces any previous value */

void json_tree_write(const struct json_tree *t, struct json_out *o);

#endif
