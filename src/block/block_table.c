/* SPDX-License-Identifier: Apache-2.0 */
#include "block/block_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

/* --- what there is --- */

static void claim_done(struct block_claim *c)
{
	free(c->name);
	free(c->pool);
	free(c->uid);
	free(c->ceded);
}

static void loan_done(struct block_loan *l)
{
	free(l->block);
	free(l->pool);
}

void block_object_done(struct block_object *o)
{
	free(o->name);
	free(o->pool);
	free(o->uid);
	free(o->version);
	free(o->node);
	free(o->node_uid);
	free(o->claim);
	for (size_t i = 0; i < o->n_ceded; i++)
		free(o->ceded[i].to);
	free(o->ceded);
	for (size_t i = 0; i < o->n_wanted; i++)
		free(o->wanted[i].node);
	free(o->wanted);
	*o = (struct block_object){0};
}

void block_table_done(struct block_table *t)
{
	block_views_done(t);
	block_seen_done(t);
	for (size_t i = 0; i < t->n_claims; i++)
		claim_done(&t->claims[i]);
	for (size_t i = 0; i < t->n_loans; i++)
		loan_done(&t->loans[i]);
	for (size_t i = 0; i < t->n_objects; i++)
		block_object_done(&t->objects[i]);
	free(t->claims);
	free(t->loans);
	free(t->objects);
	free(t->node);
	free(t->node_uid);
	*t = (struct block_table){0};
}

struct block_claim *block_claim_find(const struct block_table *t, const char *name)
{
	for (size_t i = 0; i < t->n_claims; i++)
		if (strcmp(t->claims[i].name, name) == 0)
			return &t->claims[i];
	return NULL;
}

struct block_loan *block_loan_find(const struct block_table *t, const struct ipaddr *a)
{
	for (size_t i = 0; i < t->n_loans; i++)
		if (ip_eq(&t->loans[i].ip, a))
			return &t->loans[i];
	return NULL;
}

struct block_object *block_object_find(const struct block_table *t, const char *name)
{
	for (size_t i = 0; i < t->n_objects; i++)
		if (strcmp(t->objects[i].name, name) == 0)
			return &t->objects[i];
	return NULL;
}

/* --- what changes --- */

/* The place of the last one is filled: the order means nothing. */
#define DROP(list, n, x) (*(x) = (list)[--(n)])

void block_claim_put(struct block_table *t, const struct block_claim *c)
{
	struct block_claim *x = block_claim_find(t, c->name), n = *c;

	n.name = xstrdup(c->name);
	n.pool = xstrdup(c->pool);
	n.uid = xstrdup(c->uid);
	n.ceded = xcalloc(c->n_ceded + 1, sizeof(*n.ceded));
	if (c->n_ceded)
		memcpy(n.ceded, c->ceded, c->n_ceded * sizeof(*n.ceded));
	if (x)
		claim_done(x);
	else
		x = &VEC_PUSH(t->claims, t->n_claims);
	*x = n;
	if (n.state == CLAIM_GONE) {
		claim_done(x);
		DROP(t->claims, t->n_claims, x);
	}
}

void block_loan_put(struct block_table *t, const struct block_loan *l)
{
	struct block_loan *x = block_loan_find(t, &l->ip), n = *l;

	n.block = xstrdup(l->block);
	n.pool = xstrdup(l->pool);
	if (x)
		loan_done(x);
	else
		x = &VEC_PUSH(t->loans, t->n_loans);
	*x = n;
	if (n.state == LOAN_GONE) {
		loan_done(x);
		DROP(t->loans, t->n_loans, x);
	}
}

/* resourceVersions of one object grow (Kubernetes says so since 1.35; etcd always did). */
static bool is_older(const char *a, const char *b)
{
	size_t n = strlen(a), m = strlen(b);

	return n != m ? n < m : strcmp(a, b) < 0;
}

static void keep_times(struct block_object *o, const struct block_object *was)
{
	for (size_t i = 0; i < o->n_ceded; i++) {
		const struct block_entry *x = block_entry_find(was, &o->ceded[i].ip);

		if (x && strcmp(x->to, o->ceded[i].to) == 0)
			o->ceded[i].since_ms = x->since_ms;
	}
}

void block_table_stamp(struct block_table *t, int64_t now_ms)
{
	for (size_t i = 0; i < t->n_objects; i++) {
		struct block_object *o = &t->objects[i];

		if (strcmp(o->node, t->node) != 0)
			continue;
		for (size_t k = 0; k < o->n_ceded; k++)
			if (!o->ceded[k].since_ms)
				o->ceded[k].since_ms = now_ms;
	}
}

void block_object_put(struct block_table *t, struct block_object *o)
{
	struct block_object *x = block_object_find(t, o->name);

	if (x && strcmp(x->uid, o->uid) == 0 && is_older(o->version, x->version)) {
		block_object_done(o);
		return;
	}
	if (x && strcmp(x->uid, o->uid) == 0)
		keep_times(o, x);
	if (x)
		block_object_done(x);
	else
		x = &VEC_PUSH(t->objects, t->n_objects);
	*x = *o;
	*o = (struct block_object){0};
}

void block_object_remove(struct block_table *t, const char *name)
{
	struct block_object *x = block_object_find(t, name);

	if (!x)
		return;
	block_object_done(x);
	DROP(t->objects, t->n_objects, x);
}

/* --- entries --- */

const char *block_entry_ours(const char *node, const char *token, char ret[static BLOCK_ENTRY_MAX])
{
	snprintf(ret, BLOCK_ENTRY_MAX, "%s/%s", node, token);
	return ret;
}

const struct block_entry *block_entry_find(const struct block_object *o, const struct ipaddr *a)
{
	for (size_t i = 0; i < o->n_ceded; i++)
		if (ip_eq(&o->ceded[i].ip, a))
			return &o->ceded[i];
	return NULL;
}

bool block_entry_open(const struct block_entry *x)
{
	return strcmp(x->to, "*") == 0;
}

bool block_entry_is_of(const struct block_entry *x, const char *node)
{
	size_t n = strlen(node);

	return strncmp(x->to, node, n) == 0 && x->to[n] == '/';
}

/* No node's name has an '@' or a '*'. */
bool block_entry_promised(const struct block_entry *x)
{
	size_t n = strlen(x->to);

	return n > 2 && *x->to == '@' && x->to[n - 1] == '*';
}

bool block_entry_offered(const struct block_entry *x)
{
	return block_entry_open(x) || block_entry_promised(x);
}

bool block_entry_node(const struct block_entry *x, char ret[static BLOCK_NAME_MAX + 1])
{
	const char *from = *x->to == '@' ? x->to + 1 : x->to, *slash = strchr(from, '/');
	size_t n = slash ? (size_t)(slash - from) : strlen(from);

	if (block_entry_promised(x))
		n--;
	if ((!slash && *x->to != '@') || n > BLOCK_NAME_MAX)
		return false;
	memcpy(ret, from, n);
	ret[n] = '\0';
	return true;
}

bool block_entry_free_for(const struct block_entry *x, const char *node)
{
	char to[BLOCK_NAME_MAX + 1];

	return block_entry_open(x) ||
	       (*x->to == '@' && block_entry_node(x, to) && strcmp(to, node) == 0);
}

/* --- what may be handed out --- */

bool block_is_of(const struct block_table *t, const struct block_claim *c,
		 const struct block_object *o)
{
	return o && strcmp(c->uid, o->uid) == 0 && strcmp(o->node, t->node) == 0 &&
	       strcmp(o->claim, c->token) == 0;
}

bool block_agrees(const struct block_table *t, const struct block_claim *c,
		  const struct block_object *o)
{
	return block_is_of(t, c, o) &&
	       (!t->node_uid || !*t->node_uid || strcmp(o->node_uid, t->node_uid) == 0);
}

bool block_is_ceded(const struct block_claim *c, const struct ipaddr *a)
{
	for (size_t i = 0; i < c->n_ceded; i++)
		if (ip_eq(&c->ceded[i], a))
			return true;
	return false;
}

static void collect_one(struct ip_set *s, const struct ipaddr *a)
{
	const struct ip_range r = {*a, *a};

	ip_set_collect(s, &r);
}

static void add_claim(const struct block_claim *c, const struct block_object *o,
		      const struct ip_set *usable, struct ip_set *ret)
{
	struct ip_set s = {.family = usable->family}, ceded = {0};

	block_addresses(usable, &c->net, &s);
	for (size_t i = 0; i < c->n_ceded; i++)
		collect_one(&ceded, &c->ceded[i]);
	for (size_t i = 0; i < o->n_ceded; i++)
		collect_one(&ceded, &o->ceded[i].ip);
	ip_set_merge(&ceded);
	ip_set_minus(&s, &ceded);
	for (size_t i = 0; i < s.n; i++)
		ip_set_collect(ret, &s.v[i]);
	ip_set_done(&s);
	ip_set_done(&ceded);
}

static bool loan_agrees(const struct block_table *t, const struct block_loan *l)
{
	const struct block_object *o = block_object_find(t, l->block);
	const struct block_entry *x = o ? block_entry_find(o, &l->ip) : NULL;
	char ours[BLOCK_ENTRY_MAX];

	return x && strcmp(x->to, block_entry_ours(t->node, l->token, ours)) == 0;
}

static void add_loans(const struct block_table *t, const char *pool, const struct ip_set *usable,
		      bool said, struct ip_set *ret)
{
	for (size_t i = 0; i < t->n_loans; i++) {
		const struct block_loan *l = &t->loans[i];
		const struct ip_range one = {l->ip, l->ip};

		if (l->state == LOAN_HELD && l->said == said && strcmp(l->pool, pool) == 0 &&
		    ip_set_has(usable, &l->ip) && loan_agrees(t, l))
			ip_set_collect(ret, &one);
	}
	ip_set_merge(ret);
}

void block_said(const struct block_table *t, const char *pool, const struct ip_set *usable,
		struct ip_set *ret)
{
	ret->family = usable->family;
	add_loans(t, pool, usable, true, ret);
}

void block_mine(const struct block_table *t, const char *pool, const struct ip_set *usable,
		struct ip_set *ret)
{
	ret->family = usable->family;
	for (size_t i = 0; i < t->n_claims; i++) {
		const struct block_claim *c = &t->claims[i];
		const struct block_object *o = block_object_find(t, c->name);

		if (c->state == CLAIM_HELD && strcmp(c->pool, pool) == 0 && block_agrees(t, c, o))
			add_claim(c, o, usable, ret);
	}
	add_loans(t, pool, usable, false, ret);
}
