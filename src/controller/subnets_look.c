/* SPDX-License-Identifier: Apache-2.0 */
/* One look at one subnet: its pools, and the pools that applications want of it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "controller/census.h"
#include "controller/subnets_priv.h"

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
	free(k->tags);
	free(k->wants);
	free(k->targets);
	free(k->strays);
	ip_set_done(&k->f.total);
	ip_set_done(&k->f.reserved);
	subnet_entries_done(&k->is);
	subnet_entries_done(&k->wanted);
}

static bool is_auto(const struct kube_object *pool)
{
	return subnets_label(pool, AUTO_POOL_API) && subnets_label(pool, AUTO_POOL_NAME) &&
	       subnets_label(pool, AUTO_POOL_UID) && subnets_label(pool, AUTO_POOL_IFNAME);
}

void subnets_gather_reserved(struct subnets_look *k)
{
	struct world *w = k->s->conf.world;

	k->f.reserved.family = k->f.total.family;
	for (size_t i = 0; i < world_count(w, WORLD_RESERVED); i++) {
		const struct json *o = world_json(world_at(w, WORLD_RESERVED, i));
		struct json_walk walk = json_walk_start(json_get(json_get(o, "spec"), "ips"));
		const struct json *v;
		struct ip_range r;

		while ((v = json_walk_next(&walk, NULL)))
			if (json_string(v) && ip_range_parse(span_of(json_string(v)),
							     k->f.total.family, &r, NULL) == 0)
				ip_set_collect(&k->f.reserved, &r);
	}
	ip_set_merge(&k->f.reserved);
}

void subnets_gather_pools(struct subnets_look *k)
{
	struct world *w = k->s->conf.world;
	char own[IP_TEXT_MAX], other[IP_TEXT_MAX];
	const char *cidr = subnets_cidr(json_get(world_json(k->subnet), "spec"), own);

	for (size_t i = 0; i < world_count(w, WORLD_POOLS); i++) {
		const struct kube_object *o = world_at(w, WORLD_POOLS, i);
		struct app_id app;
		struct subnet_pool p = {.name = o->name, .deleting = world_object(o)->deleting};
		const char *uid;

		if (strcmp(subnets_cidr(json_get(world_json(o), "spec"), other), cidr) != 0)
			continue;
		if (subnet_spec_ips(json_get(world_json(o), "spec"), &p.ips, NULL) < 0)
			p.ips = (struct ip_set){.family = k->f.total.family};
		if (is_auto(o) && subnets_pool_app(o, &app)) {
			p.app = app_id_text(&app);
			app_id_done(&app);
		}
		uid = subnets_label(o, AUTO_POOL_UID);
		subnets_note(k->s, o->name)->seen = true;
		VEC_PUSH(k->objects, k->n_pools) = o;
		k->n_pools--;
		VEC_PUSH(k->tags, k->n_pools) =
			(struct subnets_tag){uid ? uid : "", subnets_stays(o)};
		k->n_pools--;
		VEC_PUSH(k->pools, k->n_pools) = p;
	}
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

/* The application's own; or that of one of its name that left it behind. */
static const struct kube_object *pool_for(const struct subnets_look *k, const struct app_id *app,
					  const char *ifname)
{
	const struct kube_object *left = NULL;

	for (size_t i = 0; i < k->n_pools; i++) {
		const struct kube_object *o = k->objects[i];
		bool own = !strcmp(k->tags[i].uid, app->uid);

		if ((!own && !k->tags[i].stays) || !k->pools[i].app ||
		    !auto_pool_label_is(subnets_label(o, AUTO_POOL_OWNER), k->subnet->name) ||
		    !is_for(o, app, ifname, k->f.total.family == 6))
			continue;
		if (own)
			return o;
		if (!k->pools[i].deleting)
			left = o;
	}
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
	const char *subnet = k->f.total.family == 6 ? nic->subnet6 : nic->subnet4;
	struct subnets_target t = {
		.ifname = nic->ifname, .app = &a->id, .wish = &a->wish, .count = count_of(k->s, a)};
	const struct kube_object *o, *other;
	char name[AUTO_POOL_NAME_MAX + 1];
	struct err e = ERR_INIT;

	if (!subnet || strcmp(subnet, k->subnet->name) != 0)
		return;
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
	for (size_t kind = 0; kind < SUBNETS_APP_KINDS; kind++)
		for (size_t i = 0; i < subnets_app_count(k->s, kind); i++) {
			const struct subnets_app *a = subnets_app_at(k->s, kind, i);

			for (size_t n = 0; n < a->wish.n; n++)
				want_nic(k, a, &a->wish.v[n]);
		}
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
	struct ipaddr a;

	for (size_t i = 0; i < k->n_pools; i++)
		if (!strcmp(k->pools[i].name, pool))
			return ip_set_meets(&k->pools[i].ips, of, &a);
	return false;
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
	const struct census *c = k->s->conf.census;
	struct ip_set open;

	subnet_set_copy(&k->f.total, &open);
	for (size_t i = 0; i < k->wanted.n; i++) {
		ip_set_minus(&open, &k->wanted.v[i].ips);
		ip_set_minus(&open, &k->wanted.v[i].held);
	}
	for (size_t i = 0; i < census_count(c, CENSUS_ENDPOINTS); i++) {
		const struct census_endpoint *x =
			census_endpoint(census_at(c, CENSUS_ENDPOINTS, i));

		for (size_t n = 0; n < x->n; n++)
			if (ip_set_has(&open, &x->v[n].ip))
				VEC_PUSH(k->strays, k->n_strays) =
					(struct subnet_stray){x->v[n].ip, x->v[n].pool};
	}
	ip_set_done(&open);
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

	for (size_t i = 0; i < k->n_wants; i++)
		if (!strcmp(k->wants[i].pool, w->pool))
			subnets_say(k->s, w->pool, k->targets[i].app, "SubnetPoolFailed", why);
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
