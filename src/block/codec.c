/* SPDX-License-Identifier: Apache-2.0 */
#include "block/codec.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "spec/annotations.h"

/* --- reading a SpiderIPBlock --- */

static int text_of(const struct json *obj, const char *key, const char *place, char **ret,
		   struct err *e)
{
	const struct json *v = json_get(obj, key);
	auto_buf struct buf where;

	buf_init(&where, 200);
	buf_printf(&where, "%s.%s", place, key);
	if (!json_string(v))
		return json_wants(v, where.p, "a string", e);
	*ret = xstrdup(json_string(v));
	return 0;
}

/* "-" means no owner. */
static int owner_of(const struct json *obj, const char *key, char **ret, struct err *e)
{
	int r = text_of(obj, key, "spec", ret, e);

	if (r >= 0 && strcmp(*ret, "-") == 0)
		**ret = '\0';
	return r;
}

static char *uid_of(const struct json *spec)
{
	const char *uid = json_string(json_get(spec, "nodeUID"));

	return xstrdup(uid && strcmp(uid, "-") != 0 ? uid : "");
}

static int read_released(const struct json *list, struct block_object *o, struct err *e)
{
	struct json_walk w = json_walk_start(list);
	const struct json *v;
	const char *key;

	if (json_kind(list) != JSON_OBJECT)
		return json_wants(list, "spec.released", "an object", e);
	while ((v = json_walk_next(&w, &key))) {
		struct ipaddr a;

		if (ip_parse(span_of(key), &a) < 0)
			return err_kind(e, ERR_CONF, -EINVAL,
					"spec.released: '%.60s' is not an address", key);
		if (!json_string(v))
			return json_wants(v, "spec.released[...]", "a string", e);
		VEC_PUSH(o->released, o->n_released) =
			(struct block_entry){.ip = a, .to = xstrdup(json_string(v))};
	}
	block_entries_sort(o);
	return 0;
}

/* Ignores a malformed count, and a key that is longer than any valid one. */
static void read_requested(const struct json *list, struct block_object *o)
{
	struct json_walk w = json_walk_start(list);
	const struct json *v;
	const char *key;
	int64_t n;

	while ((v = json_walk_next(&w, &key)))
		if (key && strlen(key) < BLOCK_REQUESTED_MAX && json_int(v, &n) >= 0 && n > 0 &&
		    n <= UINT32_MAX)
			VEC_PUSH(o->requested, o->n_requested) =
				(struct block_requested){.key = xstrdup(key), .count = (uint32_t)n};
}

/* Treats a malformed value as absent. */
static void read_unavailable(const struct json *v, struct block_object *o)
{
	int64_t n;

	if (!v || json_int(v, &n) < 0 || n < 0 || n > UINT32_MAX)
		return;
	o->reports = true;
	o->unavailable = (uint32_t)n;
}

static int read_net(const struct json *spec, struct block_object *o, struct err *e)
{
	const char *cidr = json_string(json_get(spec, "cidr"));

	if (cidr && ipnet_parse(span_of(cidr), &o->net) >= 0 && !ipnet_has_host_bits(&o->net))
		return 0;
	return json_wants(json_get(spec, "cidr"), "spec.cidr", "a CIDR without host bits", e);
}

static int read_all(const struct json *v, struct block_object *o, struct err *e)
{
	const struct json *meta = json_get(v, "metadata"), *spec = json_get(v, "spec");
	int r = text_of(meta, "name", "metadata", &o->name, e);

	if (r >= 0)
		r = text_of(meta, "uid", "metadata", &o->uid, e);
	if (r >= 0)
		r = text_of(meta, "resourceVersion", "metadata", &o->version, e);
	if (r >= 0)
		r = text_of(spec, "pool", "spec", &o->pool, e);
	if (r >= 0)
		r = owner_of(spec, "node", &o->node, e);
	if (r >= 0)
		o->node_uid = uid_of(spec);
	if (r >= 0)
		r = owner_of(spec, "claim", &o->claim, e);
	if (r >= 0)
		r = read_net(spec, o, e);
	if (r >= 0)
		r = read_released(json_get(spec, "released"), o, e);
	if (r >= 0) {
		read_requested(json_get(spec, "requested"), o);
		read_unavailable(json_get(spec, "unavailable"), o);
	}
	return r;
}

int block_object_read(const struct json *v, struct block_object *ret, struct err *e)
{
	const char *name = json_string(json_get(json_get(v, "metadata"), "name"));
	struct block_object o = {0};
	int r = read_all(v, &o, e);

	if (r < 0) {
		block_object_done(&o);
		return err_wrap(e, r, "SpiderIPBlock '%s'", name ? name : "");
	}
	*ret = o;
	return 0;
}

#define NO_NODE	   "-"
#define LABEL_PATH "/metadata/labels/unirail.io~1node"

enum { LABEL_RETAINED = 46, REQUEST_MAX = 1 << 20 };

const char *block_label(const char *name, char ret[static BLOCK_LABEL_MAX])
{
	if (strlen(name) < BLOCK_LABEL_MAX)
		snprintf(ret, BLOCK_LABEL_MAX, "%s", name);
	else
		snprintf(ret, BLOCK_LABEL_MAX, "%.*s-%016" PRIx64, LABEL_RETAINED, name,
			 xxh64(name, strlen(name)));
	return ret;
}

static void put_labels(struct json_out *o, const char *node, const char *pool)
{
	char text[BLOCK_LABEL_MAX];

	jo_key(o, "labels");
	jo_obj(o);
	jo_kstr(o, LABEL_NODE, block_label(node, text));
	jo_kstr(o, LABEL_POOL, block_label(pool, text));
	jo_end_obj(o);
}

static void put_new(struct json_out *o, const struct block_op *op, const char *node,
		    const char *node_uid)
{
	char text[IP_TEXT_MAX];

	jo_obj(o);
	jo_kstr(o, "apiVersion", "unirail.io/v1");
	jo_kstr(o, "kind", "SpiderIPBlock");
	jo_key(o, "metadata");
	jo_obj(o);
	jo_kstr(o, "name", op->name);
	put_labels(o, node, op->pool);
	jo_end_obj(o);
	jo_key(o, "spec");
	jo_obj(o);
	jo_kstr(o, "pool", op->pool);
	jo_kstr(o, "cidr", ipnet_str(&op->net, text));
	jo_kstr(o, "node", node);
	jo_kstr(o, "nodeUID", node_uid);
	jo_kstr(o, "claim", op->token);
	jo_key(o, "released");
	jo_obj(o);
	for (size_t i = 0; i < op->n_ips; i++)
		jo_kstr(o, ip_str(&op->ips[i], text), op->to);
	jo_end_obj(o);
	jo_key(o, "requested");
	jo_obj(o);
	jo_end_obj(o);
	jo_end_obj(o);
	jo_end_obj(o);
}

static void put_delete(struct json_out *o, const struct block_op *op)
{
	jo_obj(o);
	jo_kstr(o, "apiVersion", "v1");
	jo_kstr(o, "kind", "DeleteOptions");
	jo_key(o, "preconditions");
	jo_obj(o);
	jo_kstr(o, "uid", op->uid);
	jo_kstr(o, "resourceVersion", op->version);
	jo_end_obj(o);
	jo_end_obj(o);
}

/* One step of a JSON Patch (RFC 6902). count > 0: the value is this number; otherwise the string
 * `value`, or none if NULL. */
static void put_step(struct json_out *o, const char *what, const char *path, const char *value,
		     uint32_t count)
{
	jo_obj(o);
	jo_kstr(o, "op", what);
	jo_kstr(o, "path", path);
	if (count)
		jo_kint(o, "value", count);
	else if (value)
		jo_kstr(o, "value", value);
	jo_end_obj(o);
}

static const char *entry_path(const struct ipaddr *a, char ret[static 128])
{
	char text[IP_TEXT_MAX];

	snprintf(ret, 128, "/spec/released/%s", ip_str(a, text));
	return ret;
}

/* Escapes '~' and '/' of a key in a JSON Pointer (RFC 6901). Valid node names have neither. */
static void put_pointer(struct buf *b, const char *prefix, const char *key)
{
	buf_str(b, prefix);
	for (; *key; key++)
		buf_str(b, *key == '~' ? "~0" : *key == '/' ? "~1" : (const char[]){*key, '\0'});
}

static void put_owner(struct json_out *o, const char *node, const char *node_uid, const char *claim)
{
	char text[BLOCK_LABEL_MAX];

	put_step(o, "replace", "/spec/node", node, 0);
	put_step(o, "add", "/spec/nodeUID", node_uid, 0);
	put_step(o, "replace", "/spec/claim", claim, 0);
	if (strcmp(node, NO_NODE) == 0)
		put_step(o, "remove", LABEL_PATH, NULL, 0);
	else
		put_step(o, "add", LABEL_PATH, block_label(node, text), 0);
}

static void put_unavailable(struct json_out *o, uint32_t n)
{
	jo_obj(o);
	jo_kstr(o, "op", "add");
	jo_kstr(o, "path", "/spec/unavailable");
	jo_kint(o, "value", n);
	jo_end_obj(o);
}

static void put_release(struct json_out *o, const struct block_op *op)
{
	auto_buf struct buf request;
	char path[128];

	buf_init(&request, 700);
	for (size_t i = 0; i < op->n_ips; i++)
		put_step(o, "add", entry_path(&op->ips[i], path), op->to, 0);
	if (op->report)
		put_unavailable(o, op->count);
	if (!*op->request_of)
		return;
	put_pointer(&request, "/spec/requested/", op->request_of);
	put_step(o, "remove", request.p, NULL, 0);
}

static void put_borrow(struct json_out *o, const struct block_op *op)
{
	char path[128];

	for (size_t i = 0; i < op->n_ips; i++)
		put_step(o, "test", entry_path(&op->ips[i], path), op->from, 0);
	for (size_t i = 0; i < op->n_ips; i++)
		put_step(o, "replace", entry_path(&op->ips[i], path), op->to, 0);
}

static void put_requested(struct json_out *o, const struct block_op *op, const char *node)
{
	auto_buf struct buf request;
	char key[BLOCK_REQUESTED_MAX];

	buf_init(&request, 700);
	put_pointer(&request, "/spec/requested/",
		    op->ip.family ? block_requested_key(node, &op->ip, key)
				  : block_requested_any(node, key));
	put_step(o, "add", request.p, NULL, op->count);
}

static bool is_bound(enum block_op_kind k)
{
	return k == OP_TAKE_OVER || k == OP_ADOPT || k == OP_ASSERT || k == OP_DISOWN ||
	       k == OP_RELEASE || k == OP_TOUCH;
}

static void put_patch(struct json_out *o, const struct block_op *op, const char *node,
		      const char *node_uid)
{
	char path[128];

	jo_arr(o);
	if (is_bound(op->kind))
		put_step(o, "test", "/metadata/resourceVersion", op->version, 0);
	if (op->kind == OP_RECLAIM || op->kind == OP_RETURN)
		put_step(o, "test", entry_path(&op->ip, path), op->from, 0);
	if (op->kind == OP_TAKE_OVER) {
		put_step(o, "test", "/spec/node", NO_NODE, 0);
		put_owner(o, node, node_uid, op->token);
	} else if (op->kind == OP_ADOPT) {
		put_owner(o, node, node_uid, op->token);
		put_release(o, op);
	} else if (op->kind == OP_DISOWN) {
		put_owner(o, NO_NODE, NO_NODE, NO_NODE);
		put_release(o, op);
	} else if (op->kind == OP_RELEASE || op->kind == OP_ASSERT) {
		put_release(o, op);
	} else if (op->kind == OP_BORROW) {
		put_borrow(o, op);
	} else if ((op->kind == OP_RECLAIM || op->kind == OP_RETURN) && *op->to) {
		put_step(o, "replace", path, op->to, 0);
	} else if (op->kind == OP_RECLAIM || op->kind == OP_RETURN) {
		put_step(o, "remove", path, NULL, 0);
	} else if (op->kind == OP_REQUEST) {
		put_requested(o, op, node);
	}
	jo_end_arr(o);
}

/* The API server ignores a write that changes nothing, so the patch changes an annotation. */
static void put_touch(struct json_out *o, const struct block_op *op)
{
	jo_obj(o);
	jo_key(o, "metadata");
	jo_obj(o);
	jo_kstr(o, "resourceVersion", op->version);
	jo_key(o, "annotations");
	jo_obj(o);
	jo_kstr(o, ANNOTATION_SEEN, op->version);
	jo_end_obj(o);
	jo_end_obj(o);
	jo_end_obj(o);
}

static void put_path(const struct block_op *op, struct buf *b)
{
	char text[BLOCK_LABEL_MAX];

	buf_str(b, BLOCK_PATH);
	if (op->kind == OP_LIST)
		buf_printf(b, "?labelSelector=unirail.io%%2Fpool%%3D%s&limit=500",
			   block_label(op->pool, text));
	else if (op->kind != OP_CREATE)
		buf_printf(b, "/%s", op->name);
}

void block_request(const struct block_op *op, const char *node, const char *node_uid,
		   struct block_request *ret)
{
	struct json_out o;

	*ret = (struct block_request){.method = "GET"};
	buf_init(&ret->path, 1024);
	buf_init(&ret->body, REQUEST_MAX);
	jo_init(&o, &ret->body, 0);
	put_path(op, &ret->path);
	if (op->kind == OP_READ || op->kind == OP_LIST)
		return;
	ret->method = "PATCH";
	if (op->kind == OP_CREATE) {
		ret->method = "POST";
		put_new(&o, op, node, node_uid);
	} else if (op->kind == OP_DELETE) {
		ret->method = "DELETE";
		put_delete(&o, op);
	} else if (op->kind == OP_TOUCH) {
		ret->is_merge = true;
		put_touch(&o, op);
	} else {
		put_patch(&o, op, node, node_uid);
	}
}

void block_request_done(struct block_request *q)
{
	buf_done(&q->path);
	buf_done(&q->body);
}

/*
 * 409: the object exists, or a precondition or version does not match. 422: a test of the patch
 * fails, or the object of OP_CREATE is invalid, which leaves unknown whether the block exists.
 * Other refusals (401, 403, 429, 400) had no effect and do not show the object's state: the request
 * is retried as if it had no answer.
 */
enum block_outcome block_outcome_of(enum block_op_kind kind, int status)
{
	if (status >= 200 && status < 300)
		return BLOCK_OK;
	if (status == 404 && kind != OP_CREATE)
		return BLOCK_ABSENT;
	if (status == 422)
		return kind == OP_CREATE ? BLOCK_UNKNOWN : BLOCK_REFUSED;
	return status == 409 ? BLOCK_REFUSED : BLOCK_UNKNOWN;
}
