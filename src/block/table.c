/* SPDX-License-Identifier: Apache-2.0 */
#include "block/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

/* --- lookup --- */

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

/* --- changes --- */

/* Replaces the removed element by the last one: the order has no meaning. */
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

/* resourceVersions of one object grow (documented since Kubernetes 1.35; always so with etcd). */
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

/* A node name contains neither '@' nor '*'. */
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

/* --- what may be allocated --- */

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

/* Views: what lists of the pools' blocks showed, and what was requested from peers since. */

static void view_done(struct block_view *v)
{
	free(v->pool);
	free(v->taken);
	for (size_t i = 0; i < v->n_others; i++)
		free(v->others[i].name);
	free(v->others);
	for (size_t i = 0; i < v->n_offers; i++) {
		free(v->offers[i].block);
		free(v->offers[i].to);
	}
	free(v->offers);
	for (size_t i = 0; i < v->n_strays; i++) {
		free(v->strays[i].block);
		free(v->strays[i].to);
	}
	free(v->strays);
	for (size_t i = 0; i < v->n_orphans; i++) {
		free(v->orphans[i].name);
		free(v->orphans[i].version);
	}
	free(v->orphans);
}

void block_views_done(struct block_table *t)
{
	for (size_t i = 0; i < t->n_views; i++)
		view_done(&t->views[i]);
	free(t->views);
	t->views = NULL;
	t->n_views = 0;
}

struct block_view *block_view_find(const struct block_table *t, const char *pool)
{
	for (size_t i = 0; i < t->n_views; i++)
		if (strcmp(t->views[i].pool, pool) == 0)
			return &t->views[i];
	return NULL;
}

void block_view_stale(struct block_table *t, const char *pool)
{
	struct block_view *v = block_view_find(t, pool);

	if (!v) {
		v = &VEC_PUSH(t->views, t->n_views);
		v->pool = xstrdup(pool);
	}
	v->stale = true;
	v->misses++;
}

static int by_index(const void *a, const void *b)
{
	const u128 *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

void block_view_taken(struct block_table *t, const char *pool, const char *block)
{
	struct block_view *v = block_view_find(t, pool);
	u128 index;

	if (!v || !block_name_parse(block, pool, &index))
		return;
	v->taken = xrealloc(v->taken, (v->n_taken + 1) * sizeof(*v->taken));
	v->taken[v->n_taken++] = index;
	qsort(v->taken, v->n_taken, sizeof(*v->taken), by_index);
}

static void add_offers(struct block_view *v, const struct block_object *o, const char *node,
		       int64_t now_ms)
{
	/* An address reserved for this node ("@node") is for one particular pod (migration.h). */
	for (size_t i = 0; i < o->n_ceded; i++) {
		const struct block_entry *x = &o->ceded[i];

		if (block_entry_open(x) ||
		    (block_entry_promised(x) && block_entry_free_for(x, node)))
			VEC_PUSH(v->offers, v->n_offers) = (struct block_offer){
				xstrdup(o->name), x->ip, xstrdup(x->to), now_ms};
	}
}

uint32_t block_room(const struct block_object *o)
{
	unsigned int bits = ip_bits(&o->net.ip) - o->net.len;
	uint32_t size = bits < 31 ? 1u << bits : 1u << 31;

	return size > o->n_ceded ? size - (uint32_t)o->n_ceded : 0;
}

uint32_t block_spare(const struct block_object *o)
{
	uint32_t room = block_room(o);

	return room > o->busy ? room - o->busy : 0;
}

static bool has_wish(const struct block_object *o, const char *node)
{
	char key[BLOCK_WISH_MAX];

	block_wish_any(node, key);
	for (size_t i = 0; i < o->n_wanted; i++)
		if (strcmp(o->wanted[i].node, key) == 0)
			return true;
	return false;
}

/* An orphan has no owner that answers requests. */
static void set_room(struct block_other *x, const struct block_object *o, const char *node)
{
	uint64_t crowd = 0;

	x->room = *o->node ? block_room(o) : 0;
	x->spare = *o->node ? block_spare(o) : 0;
	x->told = o->told;
	for (size_t i = 0; i < o->n_wanted; i++)
		if (!block_wish_is_of(o->wanted[i].node, node))
			crowd += o->wanted[i].count;
	x->pending = *o->node && has_wish(o, node);
	x->crowd = crowd < UINT32_MAX ? (uint32_t)crowd : UINT32_MAX;
}

static void view_add(struct block_view *v, const struct block_object *o, const char *node,
		     int64_t now_ms)
{
	struct block_other *x;

	if (strcmp(o->node, node) == 0)
		return;
	if (!*o->node)
		VEC_PUSH(v->orphans, v->n_orphans) =
			(struct block_orphan){xstrdup(o->name), xstrdup(o->version), o->net};
	x = &VEC_PUSH(v->others, v->n_others);
	*x = (struct block_other){.name = xstrdup(o->name)};
	set_room(x, o, node);
	add_offers(v, o, node, now_ms);
	for (size_t i = 0; i < o->n_ceded; i++)
		if (block_entry_is_of(&o->ceded[i], node))
			VEC_PUSH(v->strays, v->n_strays) = (struct block_offer){
				xstrdup(o->name), o->ceded[i].ip, xstrdup(o->ceded[i].to), now_ms};
}

static struct block_other *find_other(const struct block_view *v, const char *block)
{
	for (size_t i = 0; i < v->n_others; i++)
		if (strcmp(v->others[i].name, block) == 0)
			return &v->others[i];
	return NULL;
}

static void drop_offers(struct block_view *v, const char *block)
{
	for (size_t i = v->n_offers; i-- > 0;)
		if (strcmp(v->offers[i].block, block) == 0) {
			free(v->offers[i].block);
			free(v->offers[i].to);
			v->offers[i] = v->offers[--v->n_offers];
		}
}

void block_view_see(struct block_table *t, const char *pool, const char *block,
		    const struct block_object *o, int64_t now_ms)
{
	struct block_view *v = block_view_find(t, pool);
	struct block_other *x = v ? find_other(v, block) : NULL;

	if (!x)
		return;
	x->looked_ms = now_ms;
	x->looks++;
	x->room = x->spare = 0;
	x->pending = false;
	drop_offers(v, block);
	if (!o || strcmp(o->node, t->node) == 0)
		return;
	set_room(x, o, t->node);
	add_offers(v, o, t->node, now_ms);
}

/* Carries over which peers were asked, and when. */
static void keep_wishes(struct block_view *is, const struct block_view *was)
{
	is->wished_ms = was->wished_ms;
	is->wished = was->wished;
	is->again = was->at_ms != 0;
	is->rounds = was->rounds + (was->wished_ms != 0);
	for (size_t i = 0; i < was->n_others; i++) {
		const struct block_other *x = &was->others[i];
		struct block_other *same = x->wished_ms ? find_other(is, x->name) : NULL;

		if (same) {
			same->wished_ms = x->wished_ms;
			same->looked_ms = x->looked_ms;
			same->looks = x->looks;
		}
	}
}

void block_view_put(struct block_table *t, const char *pool, const struct block_cut *c,
		    const struct block_object *v, size_t n, int64_t now_ms)
{
	struct block_view *x = block_view_find(t, pool),
			  new = {.pool = xstrdup(pool), .at_ms = now_ms};

	new.taken = xcalloc(n + 1, sizeof(*new.taken));
	for (size_t i = 0; i < n; i++) {
		if (strcmp(v[i].pool, pool) != 0 ||
		    (!block_index(c, &v[i].net.ip, &new.taken[new.n_taken]) &&
		     !block_name_parse(v[i].name, pool, &new.taken[new.n_taken])))
			continue;
		new.n_taken++;
		view_add(&new, &v[i], t->node, now_ms);
	}
	qsort(new.taken, new.n_taken, sizeof(*new.taken), by_index);
	if (x) {
		keep_wishes(&new, x);
		view_done(x);
	} else {
		x = &VEC_PUSH(t->views, t->n_views);
	}
	*x = new;
}

/* Addresses requested by name: the request keys, and the state of each address. */

const char *block_wish_key(const char *node, const struct ipaddr *a,
			   char ret[static BLOCK_WISH_MAX])
{
	char text[IP_TEXT_MAX];

	snprintf(ret, BLOCK_WISH_MAX, "%s@%s", node, ip_str(a, text));
	return ret;
}

/* A node name contains no '@'. */
bool block_wish_named(const char *key, struct ipaddr *a)
{
	const char *at = strrchr(key, '@');

	return at && ip_parse(span_of(at + 1), a) == 0;
}

const char *block_wish_any(const char *node, char ret[static BLOCK_WISH_MAX])
{
	snprintf(ret, BLOCK_WISH_MAX, "%s@*", node);
	return ret;
}

bool block_wish_may_promise(const char *key, char ret[static BLOCK_NAME_MAX + 3])
{
	size_t n = strlen(key);

	if (n < 3 || n - 2 > BLOCK_NAME_MAX || strcmp(key + n - 2, "@*") != 0)
		return false;
	ret[0] = '@';
	memcpy(ret + 1, key, n - 2);
	ret[n - 1] = '*';
	ret[n] = '\0';
	return true;
}

bool block_wish_is_of(const char *key, const char *node)
{
	size_t n = strlen(node);

	return strncmp(key, node, n) == 0 && (!key[n] || key[n] == '@');
}

/* --- state of addresses requested by name --- */

static void done(struct block_seen *s)
{
	free(s->block);
	free(s->node);
	free(s->version);
	free(s->to);
}

void block_seen_done(struct block_table *t)
{
	for (size_t i = 0; i < t->n_seen; i++)
		done(&t->seen[i]);
	free(t->seen);
	t->seen = NULL;
	t->n_seen = 0;
}

static struct block_seen *find(const struct block_table *t, const struct ipaddr *a)
{
	for (size_t i = 0; i < t->n_seen; i++)
		if (ip_eq(&t->seen[i].ip, a))
			return &t->seen[i];
	return NULL;
}

const struct block_seen *block_seen_find(const struct block_table *t, const struct ipaddr *a)
{
	return find(t, a);
}

void block_seen_drop(struct block_table *t, const char *block)
{
	for (size_t i = t->n_seen; i-- > 0;)
		if (strcmp(t->seen[i].block, block) == 0) {
			done(&t->seen[i]);
			t->seen[i] = t->seen[--t->n_seen];
		}
}

static bool block_named_has_wish(const struct block_table *t, const struct block_object *o,
				 const struct ipaddr *a)
{
	char key[BLOCK_WISH_MAX];

	block_wish_key(t->node, a, key);
	for (size_t i = 0; i < o->n_wanted; i++)
		if (strcmp(o->wanted[i].node, key) == 0)
			return true;
	return false;
}

/* Refused by the address's entry; or by the owner, which removed the request without releasing the
 * address. */
static bool is_refused(const struct block_table *t, const struct block_seen *was,
		       const struct block_seen *is)
{
	const struct block_entry x = {.ip = is->ip, .to = is->to};

	/* An orphan has no owner that takes back a reservation, so "@node*" there is no refusal. */
	if (is->to)
		return !block_entry_free_for(&x, t->node) &&
		       (*is->node || !block_entry_promised(&x));
	return was && was->wished && !is->wished && *is->node && strcmp(was->node, is->node) == 0;
}

void block_seen_put(struct block_table *t, const char *block, const struct ipaddr *a,
		    const struct block_object *o, bool wish, int64_t now_ms)
{
	const struct block_entry *x = o ? block_entry_find(o, a) : NULL;
	struct block_seen *was = find(t, a), s = {.ip = *a, .at_ms = now_ms, .absent = !o};

	s.block = xstrdup(block);
	s.node = xstrdup(o ? o->node : "");
	s.version = xstrdup(o ? o->version : "");
	s.to = x ? xstrdup(x->to) : NULL;
	if (o) {
		s.net = o->net;
		/* An orphan has no owner that answers requests. */
		s.wished = *o->node && (wish || block_named_has_wish(t, o, a));
		s.refused = is_refused(t, was, &s);
	}
	if (was)
		done(was);
	else
		was = &VEC_PUSH(t->seen, t->n_seen);
	*was = s;
}

/* --- which node has it --- */

static void say_holder(const char *to, const char *node, struct buf *w)
{
	const struct block_entry x = {.to = (char *)to};
	char holder[BLOCK_NAME_MAX + 1];
	bool known = block_entry_node(&x, holder);

	if (known && *to != '@')
		buf_printf(w, "node '%s' has it, out of a block of node '%s'", holder, node);
	else if (known)
		buf_printf(w, "it is promised to node '%s'", holder);
	else
		buf_printf(w, "it was given up by node '%s', and is not to be had yet", node);
}

/* An address of this node's block that a peer has. */
static const char *lent_to(const struct block_table *t, const struct ipaddr *a)
{
	for (size_t i = 0; i < t->n_objects; i++) {
		const struct block_object *o = &t->objects[i];
		const struct block_entry *x = block_entry_find(o, a);

		if (x && strcmp(o->node, t->node) == 0 && !block_entry_free_for(x, t->node))
			return x->to;
	}
	return NULL;
}

bool block_is_refused(const struct block_table *t, const struct ipaddr *a, int64_t now_ms,
		      struct buf *w)
{
	const struct block_seen *s = find(t, a);
	const char *to = lent_to(t, a);

	if (w && to)
		say_holder(to, t->node, w);
	if (to)
		return true;
	if (!s || !s->refused || now_ms - s->at_ms >= BLOCK_SEEN_MS)
		return false;
	if (w && s->to)
		say_holder(s->to, s->node, w);
	else if (w)
		buf_printf(w, "node '%s' has it", s->node);
	return true;
}
