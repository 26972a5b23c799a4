/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/alloc.h"
#include "base/num.h"
#include "block/internal.h"
#include "wire/json/json.h"

static int block_log_write(struct block_log *l, const struct block_table *t, struct err *e);

static int make_new(struct block_log *l, const struct block_table *t, struct err *e)
{
	uint64_t n;

	if (getrandom(&n, sizeof(n), 0) != sizeof(n))
		return err_sys(e, -errno, "get random bytes for the id of the block log");
	snprintf(l->id, sizeof(l->id), "%016" PRIx64, n);
	return block_log_write(l, t, e);
}

static int block_log_read(struct block_log *l, struct block_table *t, struct span text,
			  struct err *e);

int block_log_open(struct block_log *l, const struct root *r, const char *path, const char *node,
		   struct block_table *t, struct err *e)
{
	auto_buf struct buf text;
	int n;

	*l = (struct block_log){.root = r, .path = xstrdup(path)};
	t->node = xstrdup(node);
	t->node_uid = xstrdup("");
	buf_init(&text, BLOCK_LOG_MAX);
	n = file_read(r, path, BLOCK_LOG_MAX, &text, e);
	if (n == -ENOENT) {
		err_clear(e);
		n = make_new(l, t, e);
	} else if (n >= 0) {
		n = block_log_read(l, t, buf_span(&text), e);
		if (n < 0 && n != -EPROTO && n != -EXDEV)
			n = err_kind(e, ERR_IO, -EBADMSG, "%s", e ? e->text : "");
		if (n < 0)
			err_wrap(e, n, "block log '%s'", path);
	}
	if (n < 0) {
		block_log_close(l);
		block_table_done(t);
	}
	return n;
}

int block_log_recreate(const struct root *r, const char *path, const char *node, struct err *e)
{
	struct block_table t = {0}, empty;
	struct block_log l;
	int n = block_log_open(&l, r, path, node, &t, e);

	if (n < 0)
		return n;
	empty = (struct block_table){.node = t.node, .node_uid = t.node_uid};
	n = make_new(&l, &empty, e);
	block_log_close(&l);
	block_table_done(&t);
	return n;
}

/* --- changes of claims and borrowed addresses --- */

static struct block_claim copy_claim(const struct block_claim *c)
{
	struct block_claim n = *c;

	n.name = xstrdup(c->name);
	n.pool = xstrdup(c->pool);
	n.uid = xstrdup(c->uid);
	n.released = xcalloc(c->n_released + 1, sizeof(*n.released));
	if (c->n_released)
		memcpy(n.released, c->released, c->n_released * sizeof(*n.released));
	return n;
}

/* Returns whether the change would give this node more addresses. */
static bool is_gain(const struct block_claim *was, const struct block_claim *c)
{
	return c->state == CLAIM_HELD &&
	       (!was || was->state != CLAIM_HELD || c->n_released < was->n_released);
}

static int save(struct block_log *l, const struct block_table *t, struct err *e)
{
	l->behind = true;
	return l->batch ? 0 : block_log_write(l, t, e);
}

/* A write that failed may still have reached the file. So after a failure the table has the smaller
 * set of addresses: it applies a release and ignores a gain. */
int block_log_claim(struct block_log *l, struct block_table *t, const struct block_claim *c,
		    struct err *e)
{
	const struct block_claim *was = block_claim_find(t, c->name);
	struct block_claim old = copy_claim(was ? was : c);
	bool gain = is_gain(was, c);
	int r;

	if (!was)
		old.state = CLAIM_REMOVED;
	block_claim_put(t, c);
	if (l->batch && gain) {
		VEC_PUSH(l->old_claims, l->n_old_claims) = old;
		l->behind = true;
		return 0;
	}
	r = save(l, t, e);
	if (r < 0 && gain)
		block_claim_put(t, &old);
	block_claim_done(&old);
	return r;
}

static struct block_borrowed copy_borrowed(const struct block_borrowed *l)
{
	struct block_borrowed n = *l;

	n.block = xstrdup(l->block);
	n.pool = xstrdup(l->pool);
	return n;
}

int block_log_borrowed_all(struct block_log *l, struct block_table *t,
			   const struct block_borrowed *v, size_t n, struct err *e)
{
	auto_free struct block_borrowed *old = xcalloc(n + 1, sizeof(*old));
	int r;

	for (size_t i = 0; i < n; i++) {
		const struct block_borrowed *was = block_borrowed_find(t, &v[i].ip);

		old[i] = copy_borrowed(was ? was : &v[i]);
		if (!was)
			old[i].state = BORROW_REMOVED;
		block_borrowed_put(t, &v[i]);
	}
	r = save(l, t, e);
	for (size_t i = 0; i < n; i++) {
		bool gain = v[i].state == BORROW_HELD || old[i].state == BORROW_REMOVED;

		if (l->batch && gain) {
			VEC_PUSH(l->old_borrowed, l->n_old_borrowed) = old[i];
			continue;
		}
		if (r < 0 && gain)
			block_borrowed_put(t, &old[i]);
		block_borrowed_done(&old[i]);
	}
	return r;
}

void block_log_batch(struct block_log *l)
{
	l->batch = true;
}

static void old_clear(struct block_log *l)
{
	for (size_t i = 0; i < l->n_old_claims; i++)
		block_claim_done(&l->old_claims[i]);
	for (size_t i = 0; i < l->n_old_borrowed; i++)
		block_borrowed_done(&l->old_borrowed[i]);
	free(take(l->old_claims));
	free(take(l->old_borrowed));
	l->n_old_claims = l->n_old_borrowed = 0;
}

void block_log_close(struct block_log *l)
{
	old_clear(l);
	free(l->path);
	*l = (struct block_log){0};
}

int block_log_commit(struct block_log *l, struct block_table *t, struct err *e)
{
	int r;

	l->batch = false;
	r = block_log_sync(l, t, e);
	for (size_t i = 0; r < 0 && i < l->n_old_claims; i++)
		block_claim_put(t, &l->old_claims[i]);
	for (size_t i = 0; r < 0 && i < l->n_old_borrowed; i++)
		block_borrowed_put(t, &l->old_borrowed[i]);
	old_clear(l);
	return r;
}

int block_log_borrowed(struct block_log *l, struct block_table *t, const struct block_borrowed *n,
		       struct err *e)
{
	return block_log_borrowed_all(l, t, n, 1, e);
}

bool block_log_has_made(const struct block_log *l, const char *node, const struct block_entry *x)
{
	return block_entry_is_of(x, node) && block_log_has_token(l, x->to + strlen(node) + 1);
}

int block_log_node(struct block_log *l, struct block_table *t, const char *uid, struct err *e)
{
	bool recreated = *t->node_uid && strcmp(t->node_uid, uid) != 0;

	if (strcmp(t->node_uid, uid) == 0)
		return 0;
	free(t->node_uid);
	t->node_uid = xstrdup(uid);
	for (size_t i = 0; recreated && i < t->n_borrowed; i++)
		if (t->borrowed[i].state == BORROW_HELD) {
			t->borrowed[i].state = BORROW_REQUESTED;
			block_log_token(l, t->borrowed[i].token);
		}
	return save(l, t, e);
}

int block_log_sync(struct block_log *l, const struct block_table *t, struct err *e)
{
	return l->behind ? block_log_write(l, t, e) : 0;
}

int block_log_etcd_restored(struct block_log *l, struct block_table *t, bool on, struct err *e)
{
	if (l->etcd_restored == on)
		return 0;
	l->etcd_restored = on;
	if (on)
		l->seen = 0;
	return save(l, t, e);
}

void block_log_token(struct block_log *l, char ret[static BLOCK_TOKEN_MAX])
{
	snprintf(ret, BLOCK_TOKEN_MAX, "%s-%" PRIx64, l->id, l->tokens++);
}

bool block_log_has_token(const struct block_log *l, const char *token)
{
	size_t n = strlen(l->id);

	return strncmp(token, l->id, n) == 0 && token[n] == '-';
}

/* --- reading and writing the file, whose format log.h describes --- */

static const char *const claim_state_names[] =
	{[CLAIM_HELD] = "held", [CLAIM_RELEASING] = "releasing"};
static const char *const borrow_state_names[] =
	{[BORROW_REQUESTED] = "requested", [BORROW_HELD] = "held", [BORROW_RETURNING] = "returning"};

/* --- writing the file --- */

static void put_claim(struct json_out *o, const struct block_claim *c)
{
	char text[IP_TEXT_MAX];

	jo_obj(o);
	jo_kstr(o, "name", c->name);
	jo_kstr(o, "pool", c->pool);
	jo_kstr(o, "uid", c->uid);
	jo_kstr(o, "token", c->token);
	jo_kstr(o, "net", ipnet_str(&c->net, text));
	jo_kstr(o, "state", claim_state_names[c->state]);
	jo_key(o, "released");
	jo_arr(o);
	for (size_t i = 0; i < c->n_released; i++)
		jo_str(o, ip_str(&c->released[i], text));
	jo_end_arr(o);
	jo_end_obj(o);
}

static void put_borrowed(struct json_out *o, const struct block_borrowed *l)
{
	char text[IP_TEXT_MAX];

	jo_obj(o);
	jo_kstr(o, "block", l->block);
	jo_kstr(o, "pool", l->pool);
	jo_kstr(o, "ip", ip_str(&l->ip, text));
	jo_kstr(o, "token", l->token);
	jo_kstr(o, "state", borrow_state_names[l->state]);
	if (l->asserted)
		jo_kbool(o, "asserted", true);
	jo_end_obj(o);
}

/* Returns the highest resourceVersion seen; a version that is not a number is ignored. */
static uint64_t seen(const struct block_log *l, const struct block_table *t)
{
	uint64_t most = l->seen, n;

	for (size_t i = 0; i < t->n_objects; i++)
		if (num_u64(span_of(t->objects[i].version), 0, INT64_MAX, &n) == 0 && n > most)
			most = n;
	return most;
}

static void put_all(struct json_out *o, const struct block_log *l, const struct block_table *t)
{
	jo_obj(o);
	jo_kint(o, "version", BLOCK_LOG_FORMAT);
	jo_kstr(o, "node", t->node);
	jo_kstr(o, "nodeUID", t->node_uid);
	jo_kstr(o, "id", l->id);
	jo_kint(o, "tokens", (int64_t)l->tokens);
	jo_kint(o, "seen", (int64_t)seen(l, t));
	if (l->etcd_restored)
		jo_kbool(o, "restored", true);
	jo_key(o, "claims");
	jo_arr(o);
	for (size_t i = 0; i < t->n_claims; i++)
		put_claim(o, &t->claims[i]);
	jo_end_arr(o);
	jo_key(o, "borrowed");
	jo_arr(o);
	for (size_t i = 0; i < t->n_borrowed; i++)
		put_borrowed(o, &t->borrowed[i]);
	jo_end_arr(o);
	jo_end_obj(o);
}

/* Writes the whole file; l->behind is set if it failed. */
static int block_log_write(struct block_log *l, const struct block_table *t, struct err *e)
{
	auto_buf struct buf b;
	struct json_out o;
	int r;

	l->behind = true;
	buf_init(&b, BLOCK_LOG_MAX);
	jo_init(&o, &b, 0);
	put_all(&o, l, t);
	buf_char(&b, '\n');
	if (b.over)
		return err_set(e, -EFBIG, "'%s' would be longer than %d MiB", l->path,
			       BLOCK_LOG_MAX >> 20);
	r = file_replace(l->root, l->path, buf_span(&b), 0600, e);
	l->behind = r < 0;
	return r;
}

/* --- reading the file --- */

struct raw_claim {
	const char *name, *pool, *uid, *token, *state;
	struct ipnet net;
	struct json_strs released;
};
struct raw_borrowed {
	const char *block, *pool, *token, *state;
	struct ipaddr ip;
	bool asserted;
};
struct raw {
	int64_t version, tokens, seen;
	bool restored;
	const char *node, *node_uid, *id;
	struct json_list claims, borrowed;
};

#define FIELD(st, key, member, kind, ...) JSON_FIELD(key, kind, struct st, member, ##__VA_ARGS__)
#define MUST(st, key, kind, ...)	  FIELD(st, #key, key, kind, .required = true, __VA_ARGS__)

static const struct json_field claim_fields[] = {
	MUST(raw_claim, name, J_STR),
	MUST(raw_claim, pool, J_STR),
	MUST(raw_claim, uid, J_STR),
	MUST(raw_claim, token, J_STR, .max = BLOCK_TOKEN_MAX - 1),
	MUST(raw_claim, state, J_STR),
	MUST(raw_claim, net, J_NET),
	MUST(raw_claim, released, J_STRS),
	{0},
};
static const struct json_table claim_table = {claim_fields, 0, sizeof(struct raw_claim)};
static const struct json_field borrowed_fields[] = {
	MUST(raw_borrowed, block, J_STR),
	MUST(raw_borrowed, pool, J_STR),
	MUST(raw_borrowed, token, J_STR, .max = BLOCK_TOKEN_MAX - 1),
	MUST(raw_borrowed, state, J_STR),
	MUST(raw_borrowed, ip, J_IP),
	FIELD(raw_borrowed, "asserted", asserted, J_BOOL),
	{0},
};
static const struct json_table borrowed_table = {borrowed_fields, 0, sizeof(struct raw_borrowed)};
static const struct json_field fields[] = {
	MUST(raw, tokens, J_INT, .min = 0, .max = INT64_MAX),
	FIELD(raw, "seen", seen, J_INT, .max = INT64_MAX),
	FIELD(raw, "restored", restored, J_BOOL),
	MUST(raw, node, J_STR),
	FIELD(raw, "nodeUID", node_uid, J_STR),
	MUST(raw, id, J_STR, .max = BLOCK_ID_MAX - 1),
	MUST(raw, claims, J_OBJS, .sub = &claim_table),
	MUST(raw, borrowed, J_OBJS, .sub = &borrowed_table),
	{0},
};
static const struct json_table table = {fields, 0, sizeof(struct raw)};

static int word_of(const char *word, const char *const *message, size_t n, struct err *e)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(message[i], word) == 0)
			return (int)i;
	return err_set(e, -EBADMSG, "'%s' is not a known state", word);
}

static int take_claim(struct block_table *t, const struct raw_claim *x, struct err *e)
{
	int state = word_of(x->state, claim_state_names, ARRAY_LEN(claim_state_names), e);
	struct block_claim c = {.name = (char *)x->name,
				.pool = (char *)x->pool,
				.uid = (char *)x->uid,
				.net = x->net};
	auto_free struct ipaddr *released = xcalloc(x->released.n + 1, sizeof(*released));

	if (state < 0)
		return state;
	c.state = (enum claim_state)state;
	c.released = released;
	str_copy(c.token, sizeof(c.token), x->token);
	for (size_t i = 0; i < x->released.n; i++)
		if (ip_parse(span_of(x->released.v[i]), &released[c.n_released++]) < 0)
			return err_set(e, -EBADMSG, "'%s' is not an address", x->released.v[i]);
	block_claim_put(t, &c);
	return 0;
}

static int take_borrowed(struct block_table *t, const struct raw_borrowed *x, struct err *e)
{
	int state = word_of(x->state, borrow_state_names, ARRAY_LEN(borrow_state_names), e);
	struct block_borrowed l = {.block = (char *)x->block, .pool = (char *)x->pool, .ip = x->ip};

	if (state < 0)
		return state;
	l.state = (enum borrow_state)state;
	l.asserted = x->asserted;
	str_copy(l.token, sizeof(l.token), x->token);
	block_borrowed_put(t, &l);
	return 0;
}

static int take_lists(struct block_table *t, const struct raw *x, struct err *e)
{
	const struct raw_claim *claims = x->claims.v;
	const struct raw_borrowed *borrowed = x->borrowed.v;
	int r = 0;

	for (size_t i = 0; r >= 0 && i < x->claims.n; i++)
		r = take_claim(t, &claims[i], e);
	for (size_t i = 0; r >= 0 && i < x->borrowed.n; i++)
		r = take_borrowed(t, &borrowed[i], e);
	return r;
}

static int read_version(const struct json *v, struct err *e)
{
	int64_t version;

	if (json_int(json_get(v, "version"), &version) < 0)
		return err_set(e, -EBADMSG, "member 'version' is missing or not an integer");
	if (version == BLOCK_LOG_FORMAT)
		return 0;
	return err_kind(e, ERR_UNAVAILABLE, -EPROTO,
			"format %" PRId64 " is not supported, this release reads format %d: use "
			"the release that wrote the file",
			version, BLOCK_LOG_FORMAT);
}

/* Parses text into l and t; t->node must be set. */
static int block_log_read(struct block_log *l, struct block_table *t, struct span text,
			  struct err *e)
{
	auto_json struct json_doc *d = NULL;
	struct raw x = {0};
	int r = json_parse(&d, text, BLOCK_LOG_MAX, e);

	if (r >= 0)
		r = read_version(json_root(d), e);
	if (r >= 0)
		r = json_read(d, json_root(d), &table, &x, "blocks", e);
	if (r < 0)
		return r;
	if (strcmp(x.node, t->node) != 0)
		return err_kind(
			e, ERR_CONF, -EXDEV,
			"the file belongs to node '%s', this is node '%s': each node needs its own state "
			"directory (if this node was renamed, drain it and remove the file)",
			x.node, t->node);
	str_copy(l->id, sizeof(l->id), x.id);
	l->tokens = (uint64_t)x.tokens;
	l->seen = (uint64_t)x.seen;
	l->etcd_restored = x.restored;
	free(t->node_uid);
	t->node_uid = xstrdup(x.node_uid ? x.node_uid : "");
	return take_lists(t, &x, e);
}
