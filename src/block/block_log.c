/* SPDX-License-Identifier: Apache-2.0 */
#include "block/block_log_priv.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/cleanup.h"

static int make_new(struct block_log *l, const struct block_table *t, struct err *e)
{
	uint64_t n;

	if (getrandom(&n, sizeof(n), 0) != sizeof(n))
		return err_sys(e, -errno, "get random bytes");
	snprintf(l->id, sizeof(l->id), "%016" PRIx64, n);
	return block_log_write(l, t, e);
}

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

void block_log_close(struct block_log *l)
{
	free(l->path);
	*l = (struct block_log){0};
}

int block_log_begin_anew(const struct root *r, const char *path, const char *node, struct err *e)
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

/* --- changes --- */

static struct block_claim copy_claim(const struct block_claim *c)
{
	struct block_claim n = *c;

	n.name = xstrdup(c->name);
	n.pool = xstrdup(c->pool);
	n.uid = xstrdup(c->uid);
	n.ceded = xcalloc(c->n_ceded + 1, sizeof(*n.ceded));
	if (c->n_ceded)
		memcpy(n.ceded, c->ceded, c->n_ceded * sizeof(*n.ceded));
	return n;
}

static void claim_clear(struct block_claim *c)
{
	free(c->name);
	free(c->pool);
	free(c->uid);
	free(c->ceded);
}

/* Whether addresses would be ours that were not. */
static bool is_gain(const struct block_claim *was, const struct block_claim *c)
{
	return c->state == CLAIM_HELD &&
	       (!was || was->state != CLAIM_HELD || c->n_ceded < was->n_ceded);
}

/*
 * A failed write may be in the file all the same. So on failure the table has what is less: a gain
 * is not taken, a giving up counts.
 */
int block_log_claim(struct block_log *l, struct block_table *t, const struct block_claim *c,
		    struct err *e)
{
	const struct block_claim *was = block_claim_find(t, c->name);
	struct block_claim old = copy_claim(was ? was : c);
	bool gain = is_gain(was, c);
	int r;

	if (!was)
		old.state = CLAIM_GONE;
	block_claim_put(t, c);
	r = block_log_write(l, t, e);
	if (r < 0 && gain)
		block_claim_put(t, &old);
	claim_clear(&old);
	return r;
}

static struct block_loan copy_loan(const struct block_loan *l)
{
	struct block_loan n = *l;

	n.block = xstrdup(l->block);
	n.pool = xstrdup(l->pool);
	return n;
}

int block_log_loans(struct block_log *l, struct block_table *t, const struct block_loan *v,
		    size_t n, struct err *e)
{
	auto_free struct block_loan *old = xcalloc(n + 1, sizeof(*old));
	int r;

	for (size_t i = 0; i < n; i++) {
		const struct block_loan *was = block_loan_find(t, &v[i].ip);

		old[i] = copy_loan(was ? was : &v[i]);
		if (!was)
			old[i].state = LOAN_GONE;
		block_loan_put(t, &v[i]);
	}
	r = block_log_write(l, t, e);
	for (size_t i = 0; i < n; i++) {
		if (r < 0 && (v[i].state == LOAN_HELD || old[i].state == LOAN_GONE))
			block_loan_put(t, &old[i]);
		free(old[i].block);
		free(old[i].pool);
	}
	return r;
}

int block_log_loan(struct block_log *l, struct block_table *t, const struct block_loan *n,
		   struct err *e)
{
	return block_log_loans(l, t, n, 1, e);
}

bool block_log_has_made(const struct block_log *l, const char *node, const struct block_entry *x)
{
	return block_entry_is_of(x, node) && block_log_is_ours(l, x->to + strlen(node) + 1);
}

int block_log_node(struct block_log *l, struct block_table *t, const char *uid, struct err *e)
{
	bool anew = *t->node_uid && strcmp(t->node_uid, uid) != 0;

	if (strcmp(t->node_uid, uid) == 0)
		return 0;
	free(t->node_uid);
	t->node_uid = xstrdup(uid);
	for (size_t i = 0; anew && i < t->n_loans; i++)
		if (t->loans[i].state == LOAN_HELD) {
			t->loans[i].state = LOAN_ASKING;
			block_log_token(l, t->loans[i].token);
		}
	return block_log_write(l, t, e);
}

int block_log_sync(struct block_log *l, const struct block_table *t, struct err *e)
{
	return l->behind ? block_log_write(l, t, e) : 0;
}

int block_log_set_back(struct block_log *l, struct block_table *t, bool on, struct err *e)
{
	if (l->set_back == on)
		return 0;
	l->set_back = on;
	if (on)
		l->seen = 0;
	return block_log_write(l, t, e);
}

void block_log_token(struct block_log *l, char ret[static BLOCK_TOKEN_MAX])
{
	snprintf(ret, BLOCK_TOKEN_MAX, "%s-%" PRIx64, l->id, l->tokens++);
}

bool block_log_is_ours(const struct block_log *l, const char *token)
{
	size_t n = strlen(l->id);

	return strncmp(token, l->id, n) == 0 && token[n] == '-';
}
