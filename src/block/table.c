/* SPDX-License-Identifier: Apache-2.0 */
#include "block/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/sorted.h"
#include "block/internal.h"
#include "block/release.h"

/* --- freeing and searching the elements of a table --- */

void block_claim_done(struct block_claim *c)
{
	free(c->name);
	free(c->pool);
	free(c->uid);
	free(c->released);
}

void block_borrowed_done(struct block_borrowed *l)
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
	for (size_t i = 0; i < o->n_released; i++)
		free(o->released[i].to);
	free(o->released);
	for (size_t i = 0; i < o->n_requested; i++)
		free(o->requested[i].key);
	free(o->requested);
	*o = (struct block_object){0};
}

static void done(struct block_lookup *s)
{
	free(s->block);
	free(s->node);
	free(s->version);
	free(s->to);
}

static void block_lookup_done(struct block_table *t)
{
	for (size_t i = 0; i < t->n_lookups; i++)
		done(&t->lookups[i]);
	free(t->lookups);
	t->lookups = NULL;
	t->n_lookups = 0;
}

static void view_done(struct block_view *v)
{
	free(v->pool);
	free(v->taken);
	for (size_t i = 0; i < v->n_peers; i++)
		free(v->peers[i].name);
	free(v->peers);
	for (size_t i = 0; i < v->n_available; i++) {
		free(v->available[i].block);
		free(v->available[i].to);
	}
	free(v->available);
	for (size_t i = 0; i < v->n_leftovers; i++) {
		free(v->leftovers[i].block);
		free(v->leftovers[i].to);
	}
	free(v->leftovers);
	for (size_t i = 0; i < v->n_orphans; i++) {
		free(v->orphans[i].name);
		free(v->orphans[i].version);
	}
	free(v->orphans);
}

static void block_views_done(struct block_table *t)
{
	for (size_t i = 0; i < t->n_views; i++)
		view_done(&t->views[i]);
	free(t->views);
	t->views = NULL;
	t->n_views = 0;
}

void block_table_done(struct block_table *t)
{
	block_views_done(t);
	block_lookup_done(t);
	for (size_t i = 0; i < t->n_claims; i++)
		block_claim_done(&t->claims[i]);
	for (size_t i = 0; i < t->n_borrowed; i++)
		block_borrowed_done(&t->borrowed[i]);
	for (size_t i = 0; i < t->n_objects; i++)
		block_object_done(&t->objects[i]);
	free(t->claims);
	free(t->borrowed);
	free(t->objects);
	free(t->node);
	free(t->node_uid);
	*t = (struct block_table){0};
}

/* Claims and objects are sorted by name, borrowed addresses and entries by address. The functions
 * *_at() return the position of the first element that is not before the key. */

static size_t claim_at(const struct block_table *t, const char *name)
{
	return LOWER_BOUND(i, t->n_claims, strcmp(t->claims[i].name, name) < 0);
}

static size_t borrowed_at(const struct block_table *t, const struct ipaddr *a)
{
	return LOWER_BOUND(i, t->n_borrowed, ip_cmp(&t->borrowed[i].ip, a) < 0);
}

static size_t object_at(const struct block_table *t, const char *name)
{
	return LOWER_BOUND(i, t->n_objects, strcmp(t->objects[i].name, name) < 0);
}

struct block_claim *block_claim_find(const struct block_table *t, const char *name)
{
	size_t i = claim_at(t, name);

	return i < t->n_claims && strcmp(t->claims[i].name, name) == 0 ? &t->claims[i] : NULL;
}

struct block_borrowed *block_borrowed_find(const struct block_table *t, const struct ipaddr *a)
{
	size_t i = borrowed_at(t, a);

	return i < t->n_borrowed && ip_eq(&t->borrowed[i].ip, a) ? &t->borrowed[i] : NULL;
}

struct block_object *block_object_find(const struct block_table *t, const char *name)
{
	size_t i = object_at(t, name);

	return i < t->n_objects && strcmp(t->objects[i].name, name) == 0 ? &t->objects[i] : NULL;
}

/* --- changes of claims, borrowed addresses and objects --- */

/* Makes room for an element at a position and returns its address; the caller sets all its
 * members. */
#define INSERT(list, n, at)                                                                        \
	(VEC_PUSH(list, n) = (__typeof__(*(list))){0},                                             \
	 memmove(&(list)[(at) + 1], &(list)[at], ((n)-1 - (at)) * sizeof(*(list))), &(list)[at])
#define DROP(list, n, x) memmove((x), (x) + 1, (size_t)(&(list)[--(n)] - (x)) * sizeof(*(list)))

static int by_entry(const void *a, const void *b)
{
	const struct block_entry *x = a, *y = b;
	int order = ip_cmp(&x->ip, &y->ip);

	return order ? order : strcmp(x->to, y->to);
}

void block_entries_sort(struct block_object *o)
{
	size_t i = 1;

	while (i < o->n_released && by_entry(&o->released[i - 1], &o->released[i]) < 0)
		i++;
	if (i < o->n_released)
		qsort(o->released, o->n_released, sizeof(*o->released), by_entry);
}

void block_claim_put(struct block_table *t, const struct block_claim *c)
{
	struct block_claim *x = block_claim_find(t, c->name), n = *c;
	size_t at = claim_at(t, c->name);

	n.name = xstrdup(c->name);
	n.pool = xstrdup(c->pool);
	n.uid = xstrdup(c->uid);
	n.released = xcalloc(c->n_released + 1, sizeof(*n.released));
	if (c->n_released)
		memcpy(n.released, c->released, c->n_released * sizeof(*n.released));
	if (c->n_released > 1)
		qsort(n.released, n.n_released, sizeof(*n.released), ip_order);
	if (x)
		block_claim_done(x);
	else
		x = INSERT(t->claims, t->n_claims, at);
	*x = n;
	if (n.state == CLAIM_REMOVED) {
		block_claim_done(x);
		DROP(t->claims, t->n_claims, x);
	}
}

void block_borrowed_put(struct block_table *t, const struct block_borrowed *l)
{
	struct block_borrowed *x = block_borrowed_find(t, &l->ip), n = *l;
	size_t at = borrowed_at(t, &l->ip);

	n.block = xstrdup(l->block);
	n.pool = xstrdup(l->pool);
	if (x)
		block_borrowed_done(x);
	else
		x = INSERT(t->borrowed, t->n_borrowed, at);
	*x = n;
	if (n.state == BORROW_REMOVED) {
		block_borrowed_done(x);
		DROP(t->borrowed, t->n_borrowed, x);
	}
}

bool block_version_is_older(const char *a, const char *b)
{
	size_t n = strlen(a), m = strlen(b);

	return n != m ? n < m : strcmp(a, b) < 0;
}

static void copy_times(struct block_object *o, const struct block_object *was)
{
	for (size_t i = 0; i < o->n_released; i++) {
		const struct block_entry *x = block_entry_find(was, &o->released[i].ip);

		if (x && strcmp(x->to, o->released[i].to) == 0)
			o->released[i].since_ms = x->since_ms;
	}
}

void block_table_stamp(struct block_table *t, int64_t now_ms)
{
	for (size_t i = 0; i < t->n_objects; i++) {
		struct block_object *o = &t->objects[i];

		if (strcmp(o->node, t->node) != 0)
			continue;
		for (size_t k = 0; k < o->n_released; k++)
			if (!o->released[k].since_ms)
				o->released[k].since_ms = now_ms;
	}
}

void block_object_put(struct block_table *t, struct block_object *o)
{
	struct block_object *x = block_object_find(t, o->name);
	size_t at = object_at(t, o->name);

	block_entries_sort(o);
	if (x && strcmp(x->uid, o->uid) == 0 && block_version_is_older(o->version, x->version)) {
		block_object_done(o);
		return;
	}
	if (x && strcmp(x->uid, o->uid) == 0)
		copy_times(o, x);
	if (x)
		block_object_done(x);
	else
		x = INSERT(t->objects, t->n_objects, at);
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

/* --- entries of a block's object --- */

const char *block_entry_local(const char *node, const char *token, char ret[static BLOCK_ENTRY_MAX])
{
	snprintf(ret, BLOCK_ENTRY_MAX, "%s/%s", node, token);
	return ret;
}

const struct block_entry *block_entry_find(const struct block_object *o, const struct ipaddr *a)
{
	size_t low = LOWER_BOUND(i, o->n_released, ip_cmp(&o->released[i].ip, a) < 0);

	return low < o->n_released && ip_eq(&o->released[low].ip, a) ? &o->released[low] : NULL;
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
bool block_entry_reserved(const struct block_entry *x)
{
	size_t n = strlen(x->to);

	return n > 2 && *x->to == '@' && x->to[n - 1] == '*';
}

bool block_entry_offered(const struct block_entry *x)
{
	return block_entry_open(x) || block_entry_reserved(x);
}

bool block_changed_by_owner(const struct block_object *was, const struct block_object *is)
{
	if (strcmp(was->claim, is->claim) != 0)
		return true;
	for (size_t i = 0; i < is->n_released; i++)
		if (block_entry_offered(&is->released[i]) &&
		    !block_entry_find(was, &is->released[i].ip))
			return true;
	for (size_t i = 0; i < was->n_released; i++)
		if (block_entry_open(&was->released[i]) &&
		    !block_entry_find(is, &was->released[i].ip))
			return true;
	return false;
}

bool block_entry_node(const struct block_entry *x, char ret[static BLOCK_NAME_MAX + 1])
{
	const char *from = *x->to == '@' ? x->to + 1 : x->to, *slash = strchr(from, '/');
	size_t n = slash ? (size_t)(slash - from) : strlen(from);

	if (block_entry_reserved(x))
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

/* --- addresses that this node may allocate --- */

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

bool block_is_released(const struct block_claim *c, const struct ipaddr *a)
{
	return c->n_released > 0 &&
	       bsearch(a, c->released, c->n_released, sizeof(*c->released), ip_order) != NULL;
}

static void collect_one(struct ip_set *s, const struct ipaddr *a)
{
	const struct ip_range r = {*a, *a};

	ip_set_collect(s, &r);
}

static void add_claim(const struct block_claim *c, const struct block_object *o,
		      const struct ip_set *usable, struct ip_set *ret)
{
	struct ip_set s = {.family = usable->family}, released = {0};

	block_addresses(usable, &c->net, &s);
	for (size_t i = 0; i < c->n_released; i++)
		collect_one(&released, &c->released[i]);
	for (size_t i = 0; i < o->n_released; i++)
		collect_one(&released, &o->released[i].ip);
	ip_set_merge(&released);
	ip_set_minus(&s, &released);
	for (size_t i = 0; i < s.n; i++)
		ip_set_collect(ret, &s.v[i]);
	ip_set_done(&s);
	ip_set_done(&released);
}

static bool borrowed_agrees(const struct block_table *t, const struct block_borrowed *l)
{
	const struct block_object *o = block_object_find(t, l->block);
	const struct block_entry *x = o ? block_entry_find(o, &l->ip) : NULL;
	char local[BLOCK_ENTRY_MAX];

	return x && strcmp(x->to, block_entry_local(t->node, l->token, local)) == 0;
}

static void add_borrowed(const struct block_table *t, const char *pool, const struct ip_set *usable,
			 bool asserted, struct ip_set *ret)
{
	for (size_t k = 0; k < usable->n; k++)
		for (size_t i = borrowed_at(t, &usable->v[k].first);
		     i < t->n_borrowed && ip_cmp(&t->borrowed[i].ip, &usable->v[k].last) <= 0;
		     i++) {
			const struct block_borrowed *l = &t->borrowed[i];
			const struct ip_range one = {l->ip, l->ip};

			if (l->state == BORROW_HELD && l->asserted == asserted &&
			    strcmp(l->pool, pool) == 0 && borrowed_agrees(t, l))
				ip_set_collect(ret, &one);
		}
	ip_set_merge(ret);
}

void block_asserted(const struct block_table *t, const char *pool, const struct ip_set *usable,
		    struct ip_set *ret)
{
	ret->family = usable->family;
	add_borrowed(t, pool, usable, true, ret);
}

void block_usable(const struct block_table *t, const char *pool, const struct ip_set *usable,
		  struct ip_set *ret)
{
	size_t n = strlen(pool);

	ret->family = usable->family;
	/* Names of a pool's blocks begin with the name of the pool: block_name(). */
	for (size_t i = claim_at(t, pool);
	     i < t->n_claims && strncmp(t->claims[i].name, pool, n) == 0; i++) {
		const struct block_claim *c = &t->claims[i];

		const struct block_object *o;

		if (c->state != CLAIM_HELD || strcmp(c->pool, pool) != 0)
			continue;
		o = block_object_find(t, c->name);
		if (block_agrees(t, c, o))
			add_claim(c, o, usable, ret);
	}
	add_borrowed(t, pool, usable, false, ret);
}

/* --- views: what lists of the pools' blocks showed, and what was requested from peers since --- */

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

static void add_available(struct block_view *v, const struct block_object *o, const char *node,
			  int64_t now_ms)
{
	/* An entry "@node" is not added: its address is reserved for one pod (migration.h). */
	for (size_t i = 0; i < o->n_released; i++) {
		const struct block_entry *x = &o->released[i];

		if (block_entry_open(x) ||
		    (block_entry_reserved(x) && block_entry_free_for(x, node)))
			VEC_PUSH(v->available, v->n_available) = (struct block_offer){
				xstrdup(o->name), x->ip, xstrdup(x->to), now_ms};
	}
}

uint32_t block_unreleased(const struct block_object *o)
{
	unsigned int bits = ip_bits(&o->net.ip) - o->net.len;
	uint32_t size = bits < 31 ? 1u << bits : 1u << 31;

	return size > o->n_released ? size - (uint32_t)o->n_released : 0;
}

uint32_t block_spare(const struct block_object *o)
{
	uint32_t unreleased = block_unreleased(o);

	return unreleased > o->unavailable ? unreleased - o->unavailable : 0;
}

static bool has_requested(const struct block_object *o, const char *node)
{
	char key[BLOCK_REQUESTED_MAX];

	block_requested_any(node, key);
	for (size_t i = 0; i < o->n_requested; i++)
		if (strcmp(o->requested[i].key, key) == 0)
			return true;
	return false;
}

/* An orphan gets capacity 0 and no pending request, since no owner answers requests. */
static void set_capacity(struct block_peer *x, const struct block_object *o, const char *node)
{
	uint64_t sum = 0;

	x->unreleased = *o->node ? block_unreleased(o) : 0;
	x->spare = *o->node ? block_spare(o) : 0;
	x->reports = o->reports;
	for (size_t i = 0; i < o->n_requested; i++)
		if (!block_requested_is_of(o->requested[i].key, node))
			sum += o->requested[i].count;
	x->pending = *o->node && has_requested(o, node);
	x->requested_by_others = sum < UINT32_MAX ? (uint32_t)sum : UINT32_MAX;
}

static void view_add(struct block_view *v, const struct block_object *o, const char *node,
		     int64_t now_ms)
{
	struct block_peer *x;

	if (strcmp(o->node, node) == 0)
		return;
	if (!*o->node)
		VEC_PUSH(v->orphans, v->n_orphans) =
			(struct block_orphan){xstrdup(o->name), xstrdup(o->version), o->net};
	x = &VEC_PUSH(v->peers, v->n_peers);
	*x = (struct block_peer){.name = xstrdup(o->name)};
	set_capacity(x, o, node);
	add_available(v, o, node, now_ms);
	for (size_t i = 0; i < o->n_released; i++)
		if (block_entry_is_of(&o->released[i], node))
			VEC_PUSH(v->leftovers, v->n_leftovers) =
				(struct block_offer){xstrdup(o->name), o->released[i].ip,
						     xstrdup(o->released[i].to), now_ms};
}

struct block_peer *block_peer_find(const struct block_view *v, const char *block)
{
	for (size_t i = 0; i < v->n_peers; i++)
		if (strcmp(v->peers[i].name, block) == 0)
			return &v->peers[i];
	return NULL;
}

static void drop_available(struct block_view *v, const char *block)
{
	for (size_t i = v->n_available; i-- > 0;)
		if (strcmp(v->available[i].block, block) == 0) {
			free(v->available[i].block);
			free(v->available[i].to);
			v->available[i] = v->available[--v->n_available];
		}
}

void block_view_see(struct block_table *t, const char *pool, const char *block,
		    const struct block_object *o, int64_t now_ms)
{
	struct block_view *v = block_view_find(t, pool);
	struct block_peer *x = v ? block_peer_find(v, block) : NULL;

	if (!x)
		return;
	x->read_ms = now_ms;
	x->reads++;
	x->unreleased = x->spare = 0;
	x->pending = false;
	drop_available(v, block);
	if (!o || strcmp(o->node, t->node) == 0)
		return;
	set_capacity(x, o, t->node);
	add_available(v, o, t->node, now_ms);
}

/* Copies from the previous view which peers were asked, and when, and counts the round. */
static void keep_requests(struct block_view *is, const struct block_view *was)
{
	is->requested_ms = was->requested_ms;
	is->requested = was->requested;
	is->rounds = was->rounds + (was->requested_ms != 0);
	for (size_t i = 0; i < was->n_peers; i++) {
		const struct block_peer *x = &was->peers[i];
		struct block_peer *same = x->requested_ms ? block_peer_find(is, x->name) : NULL;

		if (same) {
			same->requested_ms = x->requested_ms;
			same->read_ms = x->read_ms;
			same->reads = x->reads;
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
		keep_requests(&new, x);
		view_done(x);
	} else {
		x = &VEC_PUSH(t->views, t->n_views);
	}
	*x = new;
}

/* --- addresses requested by name: the request keys, and the state of each address --- */

const char *block_requested_key(const char *node, const struct ipaddr *a,
				char ret[static BLOCK_REQUESTED_MAX])
{
	char text[IP_TEXT_MAX];

	snprintf(ret, BLOCK_REQUESTED_MAX, "%s@%s", node, ip_str(a, text));
	return ret;
}

/* A node name contains no '@'. */
bool block_requested_named(const char *key, struct ipaddr *a)
{
	const char *at = strrchr(key, '@');

	return at && ip_parse(span_of(at + 1), a) == 0;
}

const char *block_requested_any(const char *node, char ret[static BLOCK_REQUESTED_MAX])
{
	snprintf(ret, BLOCK_REQUESTED_MAX, "%s@*", node);
	return ret;
}

bool block_requested_reservation(const char *key, char ret[static BLOCK_NAME_MAX + 3])
{
	size_t n = strlen(key);

	*ret = '\0';
	if (n < 3 || n - 2 > BLOCK_NAME_MAX || strcmp(key + n - 2, "@*") != 0)
		return false;
	ret[0] = '@';
	memcpy(ret + 1, key, n - 2);
	ret[n - 1] = '*';
	ret[n] = '\0';
	return true;
}

bool block_requested_is_of(const char *key, const char *node)
{
	size_t n = strlen(node);

	return strncmp(key, node, n) == 0 && key[n] == '@';
}

/* --- state of addresses requested by name --- */

static struct block_lookup *find(const struct block_table *t, const struct ipaddr *a)
{
	for (size_t i = 0; i < t->n_lookups; i++)
		if (ip_eq(&t->lookups[i].ip, a))
			return &t->lookups[i];
	return NULL;
}

const struct block_lookup *block_lookup_find(const struct block_table *t, const struct ipaddr *a)
{
	return find(t, a);
}

void block_lookup_drop(struct block_table *t, const char *block)
{
	for (size_t i = t->n_lookups; i-- > 0;)
		if (strcmp(t->lookups[i].block, block) == 0) {
			done(&t->lookups[i]);
			t->lookups[i] = t->lookups[--t->n_lookups];
		}
}

static bool block_named_has_requested(const struct block_table *t, const struct block_object *o,
				      const struct ipaddr *a)
{
	char key[BLOCK_REQUESTED_MAX];

	block_requested_key(t->node, a, key);
	for (size_t i = 0; i < o->n_requested; i++)
		if (strcmp(o->requested[i].key, key) == 0)
			return true;
	return false;
}

/* Returns whether the address is refused: its entry does not permit this node to borrow it, or
 * the owner removed the request without releasing the address. */
static bool is_refused(const struct block_table *t, const struct block_lookup *was,
		       const struct block_lookup *is)
{
	const struct block_entry x = {.ip = is->ip, .to = is->to};

	/* An orphan has no owner that ends a reservation, so "@node*" in an orphan is not a
	 * refusal. */
	if (is->to)
		return !block_entry_free_for(&x, t->node) &&
		       (*is->node || !block_entry_reserved(&x));
	return was && was->requested && !is->requested && *is->node &&
	       strcmp(was->node, is->node) == 0;
}

void block_lookup_put(struct block_table *t, const char *block, const struct ipaddr *a,
		      const struct block_object *o, bool request, int64_t now_ms)
{
	const struct block_entry *x = o ? block_entry_find(o, a) : NULL;
	struct block_lookup *was = find(t, a), s = {.ip = *a, .at_ms = now_ms, .absent = !o};

	s.block = xstrdup(block);
	s.node = xstrdup(o ? o->node : "");
	s.version = xstrdup(o ? o->version : "");
	s.to = x ? xstrdup(x->to) : NULL;
	if (o) {
		s.net = o->net;
		/* An orphan has no owner that answers requests. */
		s.requested = *o->node && (request || block_named_has_requested(t, o, a));
		s.refused = is_refused(t, was, &s);
	}
	if (was)
		done(was);
	else
		was = &VEC_PUSH(t->lookups, t->n_lookups);
	*was = s;
}

/* --- node that has an address --- */

static void put_owner_name(const char *to, const char *node, struct buf *w)
{
	const struct block_entry x = {.to = (char *)to};
	char owner[BLOCK_NAME_MAX + 1];
	bool known = block_entry_node(&x, owner);

	if (strcmp(to, BLOCK_ENTRY_RETAINED) == 0)
		buf_printf(w, "the address is retained for the name of a pod");
	else if (known && *to != '@' && *node)
		buf_printf(w, "node '%s' has borrowed the address from node '%s'", owner, node);
	else if (known && *to != '@')
		buf_printf(w, "node '%s' has borrowed the address", owner);
	else if (known)
		buf_printf(w, "the address is reserved for node '%s'", owner);
	else if (*node)
		buf_printf(w,
			   "it is not known yet which node has the address (node '%s' owns "
			   "its block)",
			   node);
	else
		buf_printf(w, "it is not known yet which node has the address");
}

/* Returns the text of the address's entry in a block of this node, if this node may not use the
 * address: it is borrowed, reserved for another node, or "?". NULL: no such entry. */
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
	const struct block_lookup *s = find(t, a);
	const char *to = lent_to(t, a);

	if (w && to)
		put_owner_name(to, t->node, w);
	if (to)
		return true;
	if (!s || !s->refused || now_ms - s->at_ms >= BLOCK_LOOKUP_MS)
		return false;
	if (w && s->to)
		put_owner_name(s->to, s->node, w);
	else if (w)
		buf_printf(w, "node '%s' has the address", s->node);
	return true;
}

int block_object_order(const void *a, const void *b)
{
	const struct block_object *const *x = a, *const *y = b;

	return ip_cmp(&(*x)->net.ip, &(*y)->net.ip);
}
