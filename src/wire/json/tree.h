/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_WIRE_JSON_TREE_H
#define UNIRAIL_WIRE_JSON_TREE_H

/*
 * A mutable JSON value: created from a parsed one, changed member by member, written again.
 *
 *	auto_tree struct json_tree *t = jt_of(json_root(doc));
 *
 *	jt_put_int(jt_member_object(t, "spec"), "ipVersion", 4);
 *	jt_write(t, &out);
 *
 * Nothing is borrowed from the document, except by jt_over(). Functions accept NULL and values of
 * the wrong kind: they do nothing and return nothing, so that paths can be followed without checks.
 * Of duplicate keys the last counts.
 */

#include "wire/json/json.h"

struct json_tree;

struct json_tree *jt_of(const struct json *v);
/*
 * The same over a document that must outlive the tree: nodes are created only for what is accessed,
 * the rest is written from the document. For untrusted input, since a copied value takes 100 bytes
 * or more.
 */
struct json_tree *jt_over(const struct json *v);
struct json_tree *jt_new(enum json_kind kind); /* JSON_OBJECT, JSON_ARRAY */
void jt_free(struct json_tree *t);
void jt_cleanup(struct json_tree **t);
#define auto_tree __attribute__((cleanup(jt_cleanup)))

enum json_kind jt_kind(const struct json_tree *t); /* NULL: JSON_NULL */
const char *jt_text(const struct json_tree *t);	   /* NULL: no string */
bool jt_true(const struct json_tree *t);
int jt_int(const struct json_tree *t, int64_t *ret);
bool jt_same(const struct json_tree *t, const struct json *v); /* the order of keys aside */

/* --- objects --- */

struct json_tree *jt_member(const struct json_tree *t, const char *key);
/* The member as an object, made when it is absent or null; NULL when it is something else. */
struct json_tree *jt_member_object(struct json_tree *t, const char *key);
void jt_put(struct json_tree *t, const char *key, struct json_tree *v); /* v is t's now */
void jt_put_text(struct json_tree *t, const char *key, const char *text);
void jt_put_int(struct json_tree *t, const char *key, int64_t n);
void jt_put_bool(struct json_tree *t, const char *key, bool on);
void jt_drop(struct json_tree *t, const char *key);
/* Out of the object, the caller's; NULL: there is none. */
struct json_tree *jt_take(struct json_tree *t, const char *key);

/* --- arrays: the first item, then the next of it --- */

struct json_tree *jt_first(const struct json_tree *t);
struct json_tree *jt_next(const struct json_tree *item);
void jt_push(struct json_tree *t, struct json_tree *v);
void jt_push_text(struct json_tree *t, const char *text);
void jt_set_text(struct json_tree *t, const char *text); /* whatever it was */

void jt_write(const struct json_tree *t, struct json_out *o);

#endif
