/* SPDX-License-Identifier: Apache-2.0 */
/* One look at one subnet: its pools, and the pools that applications want of it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "controller/gc/census.h"
#include "controller/subnet/subnets_priv.h"
#include "block/block_wire.h"

enum { USED_MS = 5000, FAILED_MS = 5000 };

void subnets_look_done(struct subnets_look *k)
{
	for (size_t i = 0; i < k->n_pools; i++) {
		free((char *)k->pools[i].app);
		ip_set_done(&k->pools[i].ips);
	}
	for (size_t i = 0; i < k->n_wants; i++) {
		free((char *)k->wants[i].pool);
		free((char *)k->wants[i].app);
		if (!k->targets[i].wish)
			app_id_done((struct app_id *)k->targets[i].app);
		if (!k->targets[i].wish)
			free((struct app_id *)k->targets[i].app);
	}
	free(k->pools);
	free(k->objects);
	for (size_t i = 0; i < k->n_keys; i++)
		free(k->keys[i].key);
	free(k->keys);
	free(k->wants);
	free(k->targets);
	free(k->strays);
	ip_set_done(&k->f.total);
	subnet_entries_done(&k->is);
	subnet_entries_done(&k->wanted);
}

static bool is_auto(const struct kube_object *pool)
{
	return subnets_label(pool, AUTO_POOL_API) && subnets_label(pool, AUTO_POOL_NAME) &&
	       subnets_label(pool, AUTO_POOL_UID) && subnets_label(pool, AUTO_POOL_IFNAME);
}

/* An application finds its own pool by its UID, and one that was left behind by its name. */
static void add_key(struct subnets_look *k, size_t pool, char *key)
{
	VEC_PUSH(k->keys, k->n_keys) = (struct subnets_pool_key){key, pool};
}

static char *key_of_uid(const char *uid, const char *ifname)
{
	return xasprintf("uid %s/%s", uid, ifname);
}

static char *key_of_name(const char *ns, const char *label, const char *ifname)
{
	return xasprintf("name %s/%s/%s", ns, label, ifname);
}

static void add_keys(struct subnets_look *k, size_t pool)
{
	const struct kube_object *o = k->objects[pool];
	const char *uid = subnets_label(o, AUTO_POOL_UID);
	const char *ifname = subnets_label(o, AUTO_POOL_IFNAME);
	const char *ns = subnets_label(o, AUTO_POOL_NAMESPACE);
	const char *name = subnets_label(o, AUTO_POOL_NAME);

	if (!k->pools[pool].app)
		return;
	add_key(k, pool, key_of_uid(uid, ifname));
	if (subnets_stays(o))
		add_key(k, pool, key_of_name(ns ? ns : "", name, ifname));
}

/* In the order of their pools where they are the same. */
static int by_key(const void *a, const void *b)
{
	const struct subnets_pool_key *x = a, *y = b;
	int r = strcmp(x->key, y->key);

	return r ? r : x->pool < y->pool ? -1 : x->pool > y->pool;
}

static size_t first_key(const struct subnets_look *k, const char *key)
{
	size_t low = 0, high = k->n_keys;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (strcmp(k->keys[mid].key, key) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static bool is_key(const struct subnets_look *k, size_t i, const char *key)
{
	return i < k->n_keys && strcmp(k->keys[i].key, key) == 0;
}

static void add_pool(struct subnets_look *k, const struct kube_object *o)
{
	struct subnet_pool p = {.name = o->name, .deleting = world_object(o)->deleting};
	size_t at = k->n_pools;
	struct app_id app;

	if (subnet_spec_ips(json_get(world_json(o), "spec"), &p.ips, NULL) < 0)
		p.ips = (struct ip_set){.family = k->f.total.family};
	if (is_auto(o) && subnets_pool_app(o, &app)) {
		p.app = app_id_text(&app);
		app_id_done(&app);
	}
	subnets_note(k->s, o->name)->seen = true;
	VEC_PUSH(k->pools, k->n_pools) = p;
	k->objects[at] = o;
	add_keys(k, at);
}

void subnets_gather_pools(struct subnets_look *k)
{
	char text[IP_TEXT_MAX];
	const char *cidr = subnets_cidr(json_get(world_json(k->subnet), "spec"), text);
	size_t n;
	const struct subnets_turn_pool *v = subnets_turn_pools(k->turn, cidr, &n);

	k->f.reserved = k->turn->reserved[k->f.total.family == 6];
	k->objects = xcalloc(n + 1, sizeof(k->objects[0]));
	for (size_t i = 0; i < n; i++)
		add_pool(k, v[i].o);
	if (k->n_keys)
		qsort(k->keys, k->n_keys, sizeof(k->keys[0]), by_key);
	k->f.pools = k->pools;
	k->f.n_pools = k->n_pools;
}

/* --- who wants what --- */

static bool is_for(const struct kube_object *pool, const struct app_id *app, const char *ifname,
		   bool is6)
{
	const char *has = subnets_label(pool, AUTO_POOL_IFNAME);
	const char *name = subnets_label(pool, AUTO_POOL_NAME);
	struct app_id id;
	bool same;

	if (!auto_pool_label_is(name, app->name))
		return false;

	if (!has || strcmp(has, ifname) != 0 ||
	    (strchr(subnets_spec(pool, "subnet"), ':') != NULL) != is6)
		return false;
	if (!subnets_pool_app(pool, &id))
		return false;
	same = app_id_same(&id, app);
	app_id_done(&id);
	return same;
}

bool subnets_stays(const struct kube_object *pool)
{
	const char *reclaim = subnets_label(pool, AUTO_POOL_RECLAIM);

	return reclaim && !strcmp(reclaim, "false");
}

static bool is_pool_for(const struct subnets_look *k, size_t pool, const struct app_id *app,
			const char *ifname)
{
	const struct kube_object *o = k->objects[pool];

	return auto_pool_label_is(subnets_label(o, AUTO_POOL_OWNER), k->subnet->name) &&
	       is_for(o, app, ifname, k->f.total.family == 6);
}

/* The application's own; or that of one of its name that left it behind. */
static const struct kube_object *pool_for(const struct subnets_look *k, const struct app_id *app,
					  const char *ifname)
{
	char label[BLOCK_LABEL_MAX];
	auto_free char *own = key_of_uid(app->uid, ifname);
	auto_free char *name = key_of_name(app->ns, block_label(app->name, label), ifname);
	const struct kube_object *left = NULL;

	for (size_t i = first_key(k, own); is_key(k, i, own); i++)
		if (is_pool_for(k, k->keys[i].pool, app, ifname))
			return k->objects[k->keys[i].pool];
	for (size_t i = first_key(k, name); is_key(k, i, name); i++)
		if (!k->pools[k->keys[i].pool].deleting &&
		    is_pool_for(k, k->keys[i].pool, app, ifname))
			left = k->objects[k->keys[i].pool];
	return left;
}

static uint64_t count_of(const struct subnets *s, const struct subnets_app *a)
{
	if (a->wish.fixed)
		return a->wish.number;
	return a->size + (a->wish.number == UINT32_MAX ? s->conf.more : a->wish.number);
}

static void add_want(struct subnets_look *k, const char *pool, const struct subnets_target *t)
{
	struct subnet_want w = {xstrdup(pool), app_id_text(t->app), t->count};

	VEC_PUSH(k->wants, k->n_wants) = w;
	k->n_wants--;
	VEC_PUSH(k->targets, k->n_wants) = *t;
	k->targets[k->n_wants - 1].name = w.pool;
}

static void want_nic(struct subnets_look *k, const struct subnets_app *a,
		     const struct auto_nic *nic)
{
	struct subnets_target t = {
		.ifname = nic->ifname, .app = &a->id, .wish = &a->wish, .count = count_of(k->s, a)};
	const struct kube_object *o, *other;
	char name[AUTO_POOL_NAME_MAX + 1];
	struct err e = ERR_INIT;

	o = pool_for(k, &a->id, nic->ifname);
	if (o) {
		add_want(k, o->name, &t);
		return;
	}
	auto_pool_name(&a->id, nic->ifname, k->f.total.family, name);
	other = world_get(k->s->conf.world, WORLD_POOLS, "", name);
	if (!other) {
		add_want(k, name, &t);
		return;
	}
	err_set(&e, -EEXIST,
		"pool '%s' is of another subnet or application: the subnet of an application "
		"cannot be changed, make it anew",
		name);
	subnets_say(k->s, name, &a->id, "ApplicationSubnetChanged", &e);
}

/* Made by an agent for an application of another kind: it says itself how many it wants. */
static void want_foreign(struct subnets_look *k, const struct kube_object *o)
{
	const char *text = json_string(json_get(subnets_meta(o, "annotations"), AUTO_POOL_NUMBER));
	struct subnets_target t = {.ifname = subnets_label(o, AUTO_POOL_IFNAME)};
	struct labels l = {0};
	struct auto_wish w;
	struct app_id *app = xcalloc(1, sizeof(*app));
	bool fixed;
	int r;

	labels_put(&l, AUTO_POOL_SUBNET, "{\"ipv4\":[\"x\"]}");
	if (text)
		labels_put(&l, AUTO_POOL_NUMBER, text);
	r = text ? auto_wish_read(&l, 0, &w, NULL) : 0;
	labels_done(&l);
	fixed = r == 1 && w.fixed;
	t.count = r == 1 ? w.number : 0;
	if (r == 1)
		auto_wish_done(&w);
	if (!fixed || !subnets_pool_app(o, app) || app_id_is_known(app)) {
		app_id_done(app);
		free(app);
		return;
	}
	t.app = app;
	add_want(k, o->name, &t);
}

void subnets_gather_wants(struct subnets_look *k)
{
	size_t n;
	const struct subnets_turn_wish *v =
		subnets_turn_wishes(k->turn, k->subnet->name, k->f.total.family, &n);

	for (size_t i = 0; i < n; i++)
		want_nic(k, v[i].app, v[i].nic);
	for (size_t i = 0; i < k->n_pools; i++) {
		const char *owner = subnets_label(k->objects[i], AUTO_POOL_OWNER);

		if (k->pools[i].app && !k->pools[i].deleting &&
		    auto_pool_label_is(owner, k->subnet->name))
			want_foreign(k, k->objects[i]);
	}
	k->f.wants = k->wants;
	k->f.n_wants = k->n_wants;
}

/* --- what the plan asks --- */

static const struct ip_set *used(void *arg, const char *pool)
{
	struct subnets_look *k = arg;
	struct subnets_pool_note *n = subnets_note(k->s, pool);

	if (n->used_at && subnets_now(k->s) - n->used_at < USED_MS)
		return &n->used;
	subnets_ask_used(k->s, pool);
	return NULL;
}

static bool has_any(const struct subnets_look *k, const char *pool, const struct ip_set *of)
{
	const struct subnet_pool *p = subnet_pool_find(&k->f, pool);
	struct ipaddr a;

	return p && ip_set_meets(&p->ips, of, &a);
}

static bool rested(struct subnets_look *k, struct subnets_pool_note *n)
{
	int64_t now = subnets_now(k->s), left;

	if (!n->since)
		n->since = now;
	left = n->since + k->s->conf.rest_ms - now;
	if (left > 0)
		subnets_wake(k->s, left);
	return left <= 0;
}

/* No block has any of them: by an answer of the API server, which is used once. */
static bool is_clear(struct subnets_look *k, struct subnets_pool_note *n, const struct ip_set *of)
{
	if (n->clear && subnet_set_same(&n->looked, of)) {
		n->clear = false;
		n->since = 0;
		return true;
	}
	subnets_ask_blocks(k->s, n->pool, of);
	return false;
}

static bool may_release(void *arg, const struct subnet_entry *x)
{
	struct subnets_look *k = arg;
	struct subnets_pool_note *n = subnets_note(k->s, x->pool);

	if (has_any(k, x->pool, &x->held)) {
		n->since = 0;
		n->clear = false;
		return false;
	}
	return rested(k, n) && subnets_is_sure(k->s) && is_clear(k, n, &x->held);
}

/* With the subnet, of which nobody gets an address any more, at once. */
static bool is_gone(void *arg, const struct subnet_entry *x)
{
	struct subnets_look *k = arg;
	struct subnets_pool_note *n = subnets_note(k->s, x->pool);
	struct ip_set all;
	bool gone;

	if (!subnets_is_sure(k->s) || !(n->seen || rested(k, n)))
		return false;
	if (world_object(k->subnet)->deleting)
		return true;
	subnet_set_copy(&x->ips, &all);
	ip_set_plus(&all, &x->held);
	gone = is_clear(k, n, &all);
	ip_set_done(&all);
	return gone;
}

static void gather_strays(struct subnets_look *k)
{
	struct ip_set open, had = {.family = k->f.total.family};

	for (size_t i = 0; i < k->wanted.n; i++) {
		for (size_t n = 0; n < k->wanted.v[i].ips.n; n++)
			ip_set_collect(&had, &k->wanted.v[i].ips.v[n]);
		for (size_t n = 0; n < k->wanted.v[i].held.n; n++)
			ip_set_collect(&had, &k->wanted.v[i].held.v[n]);
	}
	ip_set_merge(&had);
	subnet_set_copy(&k->f.total, &open);
	ip_set_minus(&open, &had);
	subnets_turn_ips(k->turn, &open, &k->strays, &k->n_strays);
	ip_set_done(&open);
	ip_set_done(&had);
	k->strays_known = true;
}

/* Once a look, and only when a pool is to grow: there are many endpoints. */
static bool strays(void *arg, const struct subnet_stray **ret, size_t *n)
{
	struct subnets_look *k = arg;

	if (!census_synced(k->s->conf.census, CENSUS_ENDPOINTS)) {
		subnets_wake(k->s, SUBNETS_AGAIN_MS);
		return false;
	}
	if (!k->strays_known)
		gather_strays(k);
	*ret = k->strays;
	*n = k->n_strays;
	return true;
}

static void on_failed(void *arg, const struct subnet_want *w, const struct err *why)
{
	struct subnets_look *k = arg;

	subnets_say(k->s, w->pool, k->targets[w - k->wants].app, "SubnetPoolFailed", why);
	k->s->failed++;
	subnets_wake(k->s, FAILED_MS);
}

void subnets_look_init(struct subnets_look *k)
{
	k->f.used = used;
	k->f.strays = strays;
	k->f.may_release = may_release;
	k->f.is_gone = is_gone;
	k->f.failed = on_failed;
	k->f.arg = k;
}
