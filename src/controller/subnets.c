/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/subnets.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "controller/subnets_priv.h"
#include "daemon/sample.h"

enum { USED_MS = 5000, AGAIN_MS = 5000, NOTES_MAX = 4096 };

int64_t subnets_now(const struct subnets *s)
{
	return loop_now_ms(s->loop);
}

/* --- what is remembered --- */

static void note_free(struct subnets_pool_note *n)
{
	free(n->pool);
	free(n->said);
	ip_set_done(&n->used);
	ip_set_done(&n->looked);
	free(n);
}

struct subnets_pool_note *subnets_note(struct subnets *s, const char *pool)
{
	struct subnets_pool_note *n = s->notes;

	while (n && strcmp(n->pool, pool) != 0)
		n = n->next;
	if (n)
		return n;
	n = xcalloc(1, sizeof(*n));
	n->pool = xstrdup(pool);
	n->next = s->notes;
	s->notes = n;
	return n;
}

static void forget(struct subnets *s, const char *pool)
{
	for (struct subnets_pool_note **p = &s->notes; *p; p = &(*p)->next)
		if (!strcmp((*p)->pool, pool)) {
			struct subnets_pool_note *n = *p;

			*p = n->next;
			note_free(n);
			return;
		}
}

static void put_event(struct subnets *s, const struct app_id *app, const char *reason,
		      const char *text)
{
	const struct kube_event e = {.api_version = app->api,
				     .kind = app->kind,
				     .ns = app->ns,
				     .name = app->name,
				     .uid = app->uid,
				     .warning = true,
				     .reason = reason,
				     .message = text};

	if (s->conf.events)
		kube_events_add(s->conf.events, &e);
}

/* Once, until it is another trouble. */
void subnets_say(struct subnets *s, const char *pool, const struct app_id *app, const char *reason,
		 const struct err *why)
{
	struct subnets_pool_note *n = subnets_note(s, pool);

	if (n->said && !strcmp(n->said, why->text))
		return;
	free(n->said);
	n->said = xstrdup(why->text);
	log_warn("a pool of a subnet is not as it is to be", LOG_S("pool", pool),
		 LOG_S("application", app ? app->name : ""), LOG_S("namespace", app ? app->ns : ""),
		 LOG_S("error", why->text));
	if (app)
		put_event(s, app, reason, why->text);
}

/* --- one look at one subnet --- */

struct look {
	struct subnets *s;
	const struct kube_object *subnet;
	struct subnet_facts f;
	struct subnet_pool *pools;
	const struct kube_object **objects; /* of pools */
	size_t n_pools;
	struct subnet_want *wants;
	struct subnets_target *targets; /* of wants */
	struct app_id *apps;		/* of targets whose application is no object of ours */
	size_t n_wants, n_apps;
	struct subnet_entries is, wanted;
};

static void look_done(struct look *k)
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
	free(k->wants);
	free(k->targets);
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

static void gather_reserved(struct look *k)
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
				ip_set_add(&k->f.reserved, &r);
	}
}

static void gather_pools(struct look *k)
{
	struct world *w = k->s->conf.world;
	const char *cidr = subnets_spec(k->subnet, "subnet");

	for (size_t i = 0; i < world_count(w, WORLD_POOLS); i++) {
		const struct kube_object *o = world_at(w, WORLD_POOLS, i);
		struct app_id app;
		struct subnet_pool p = {.name = o->name, .deleting = world_object(o)->deleting};

		if (strcmp(subnets_spec(o, "subnet"), cidr) != 0)
			continue;
		if (subnet_spec_ips(json_get(world_json(o), "spec"), &p.ips, NULL) < 0)
			p.ips = (struct ip_set){.family = k->f.total.family};
		if (is_auto(o) && subnets_pool_app(o, &app)) {
			p.app = app_id_text(&app);
			app_id_done(&app);
		}
		subnets_note(k->s, o->name)->seen = true;
		VEC_PUSH(k->objects, k->n_pools) = o;
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

	if (!name || strcmp(name, app->name) != 0)
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

static bool stays(const struct kube_object *pool)
{
	const char *reclaim = subnets_label(pool, AUTO_POOL_RECLAIM);

	return reclaim && !strcmp(reclaim, "false");
}

/* The application's own; or that of one of its name that left it behind. */
static const struct kube_object *pool_for(const struct look *k, const struct app_id *app,
					  const char *ifname)
{
	const struct kube_object *left = NULL;

	for (size_t i = 0; i < k->n_pools; i++) {
		const struct kube_object *o = k->objects[i];
		const char *uid = subnets_label(o, AUTO_POOL_UID);
		const char *owner = subnets_label(o, AUTO_POOL_OWNER);

		if (!k->pools[i].app || !owner || strcmp(owner, k->subnet->name) != 0 ||
		    !is_for(o, app, ifname, k->f.total.family == 6))
			continue;
		if (!strcmp(uid, app->uid))
			return o;
		if (stays(o) && !k->pools[i].deleting)
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

static void add_want(struct look *k, const char *pool, const struct subnets_target *t)
{
	struct subnet_want w = {xstrdup(pool), app_id_text(t->app), t->count};

	VEC_PUSH(k->wants, k->n_wants) = w;
	k->n_wants--;
	VEC_PUSH(k->targets, k->n_wants) = *t;
	k->targets[k->n_wants - 1].name = w.pool;
}

static void want_nic(struct look *k, const struct subnets_app *a, const struct auto_nic *nic)
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
static void want_foreign(struct look *k, const struct kube_object *o)
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

static void gather_wants(struct look *k)
{
	for (size_t kind = 0; kind < SUBNETS_APP_KINDS; kind++)
		for (size_t i = 0; i < subnets_app_count(k->s, kind); i++) {
			const struct subnets_app *a = subnets_app_at(k->s, kind, i);

			for (size_t n = 0; n < a->wish.n; n++)
				want_nic(k, a, &a->wish.v[n]);
		}
	for (size_t i = 0; i < k->n_pools; i++) {
		const char *owner = subnets_label(k->objects[i], AUTO_POOL_OWNER);

		if (k->pools[i].app && !k->pools[i].deleting && owner &&
		    !strcmp(owner, k->subnet->name))
			want_foreign(k, k->objects[i]);
	}
	k->f.wants = k->wants;
	k->f.n_wants = k->n_wants;
}

/* --- what the plan asks --- */

static const struct ip_set *used(void *arg, const char *pool)
{
	struct look *k = arg;
	struct subnets_pool_note *n = subnets_note(k->s, pool);

	if (n->used_at && subnets_now(k->s) - n->used_at < USED_MS)
		return &n->used;
	subnets_ask_used(k->s, pool);
	return NULL;
}

static bool has_any(const struct look *k, const char *pool, const struct ip_set *of)
{
	struct ipaddr a;

	for (size_t i = 0; i < k->n_pools; i++)
		if (!strcmp(k->pools[i].name, pool))
			return ip_set_meets(&k->pools[i].ips, of, &a);
	return false;
}

static bool rested(struct look *k, struct subnets_pool_note *n)
{
	int64_t now = subnets_now(k->s), left;

	if (!n->since)
		n->since = now;
	left = n->since + k->s->conf.rest_ms - now;
	if (left > 0)
		subnets_wake(k->s, left);
	return left <= 0;
}

static bool may_release(void *arg, const struct subnet_entry *x)
{
	struct look *k = arg;
	struct subnets_pool_note *n = subnets_note(k->s, x->pool);

	if (has_any(k, x->pool, &x->held)) {
		n->since = 0;
		n->clear = false;
		return false;
	}
	if (!rested(k, n))
		return false;
	if (n->clear && subnet_set_same(&n->looked, &x->held)) {
		n->clear = false;
		n->since = 0;
		return true;
	}
	subnets_ask_blocks(k->s, x->pool, &x->held);
	return false;
}

static bool is_gone(void *arg, const char *pool)
{
	struct look *k = arg;
	struct subnets_pool_note *n = subnets_note(k->s, pool);

	return n->seen || rested(k, n);
}

static void on_failed(void *arg, const struct subnet_want *w, const struct err *why)
{
	struct look *k = arg;

	for (size_t i = 0; i < k->n_wants; i++)
		if (!strcmp(k->wants[i].pool, w->pool))
			subnets_say(k->s, w->pool, k->targets[i].app, "SubnetPoolFailed", why);
	k->s->failed++;
	subnets_wake(k->s, AGAIN_MS);
}

/* --- carrying it out --- */

static bool status_is(const struct look *k)
{
	const struct json *status = json_get(world_json(k->subnet), "status");
	const char *text = json_string(json_get(status, "controlledIPPools"));
	u128 total = ip_set_count(&k->f.total), taken = subnet_entries_count(&k->wanted);
	auto_buf struct buf b;
	int64_t n, m;

	buf_init(&b, 2 << 20);
	subnet_entries_write(&k->wanted, &b);
	return !strcmp(b.len ? b.p : "", text ? text : "") &&
	       json_int(json_get(status, "totalIPCount"), &n) == 0 &&
	       (u128)n == (total > INT64_MAX ? INT64_MAX : total) &&
	       json_int(json_get(status, "allocatedIPCount"), &m) == 0 && (u128)m == taken;
}

static const struct kube_object *object_named(const struct look *k, const char *pool)
{
	for (size_t i = 0; i < k->n_pools; i++)
		if (!strcmp(k->objects[i]->name, pool))
			return k->objects[i];
	return NULL;
}

static void follow_entry(struct look *k, const struct subnet_entry *x, size_t pool)
{
	const struct kube_object *o = k->objects[pool];

	if (k->pools[pool].deleting || subnet_set_same(&k->pools[pool].ips, &x->ips))
		return;
	subnets_set_ips(k->s, o, x);
}

static bool is_settled(const struct look *k, const struct subnet_entry *x)
{
	const struct subnet_entry *to = subnet_entry_find(&k->wanted, x->pool);

	return to && subnet_set_same(&to->ips, &x->ips);
}

/* Pools as the status has them. */
static void make_pools(struct look *k)
{
	for (size_t i = 0; i < k->n_wants; i++) {
		const struct subnets_target *t = &k->targets[i];
		const struct subnet_entry *x = subnet_entry_find(&k->is, t->name);
		const struct kube_object *o = object_named(k, t->name);

		if (!x || !is_settled(k, x) || subnets_busy(k->s, SUBNETS_POOL, t->name))
			continue;
		if (!o && x->ips.n > 0)
			subnets_make_pool(k->s, k->subnet, t, x);
		else if (o && t->wish && !world_object(o)->deleting)
			subnets_set_labels(k->s, o, t);
	}
}

/* Whether a pool is left behind by its application. */
static const char *is_left(struct look *k, const struct kube_object *o)
{
	struct subnets_pool_note *n = subnets_note(k->s, o->name);
	const struct subnets_app *a;
	const char *why = NULL;
	struct app_id id;

	if (stays(o) || !subnets_pool_app(o, &id))
		return NULL;
	a = subnets_app_find(k->s, &id);
	if (!app_id_is_known(&id)) {
		if (world_object(o)->allocated == 0)
			subnets_ask_owner(k->s, o->name, &id);
		else
			n->orphan = false;
		why = n->orphan ? "its application is gone" : NULL;
	} else if (!a) {
		why = "its application is gone or asks for none";
	} else if (strcmp(a->id.uid, id.uid) != 0) {
		why = "its application is another one by now";
	}
	app_id_done(&id);
	return why;
}

static void settle_pools(struct look *k)
{
	for (size_t i = 0; i < k->n_pools; i++) {
		const struct kube_object *o = k->objects[i];
		const struct subnet_entry *x = subnet_entry_find(&k->is, o->name);
		const char *why = NULL;

		if (k->pools[i].deleting || subnets_busy(k->s, SUBNETS_POOL, o->name))
			continue;
		if (k->pools[i].app)
			why = is_left(k, o);
		if (why)
			subnets_delete_pool(k->s, o, why);
		else if (!subnets_set_owner(k->s, o, k->subnet) && k->pools[i].app && x)
			follow_entry(k, x, i);
	}
}

/* The subnet goes when its pools are gone, which it takes with it. */
static void take_leave(struct look *k)
{
	for (size_t i = 0; i < k->n_pools; i++)
		if (!k->pools[i].deleting && !subnets_busy(k->s, SUBNETS_POOL, k->objects[i]->name))
			subnets_delete_pool(k->s, k->objects[i], "its subnet is deleted");
	if (k->n_pools == 0 && k->is.n == 0)
		subnets_unfinalize(k->s, k->subnet);
}

static void drop_notes(struct look *k)
{
	for (size_t i = 0; i < k->is.n; i++)
		if (!subnet_entry_find(&k->wanted, k->is.v[i].pool))
			forget(k->s, k->is.v[i].pool);
}

static void carry_out(struct look *k)
{
	bool deleting = world_object(k->subnet)->deleting;

	if (subnets_busy(k->s, SUBNETS_STATUS, k->subnet->name))
		return;
	if (!status_is(k)) {
		subnets_write_status(k->s, k->subnet, &k->wanted, ip_set_count(&k->f.total));
		drop_notes(k);
	} else if (deleting) {
		take_leave(k);
	}
	if (!deleting) {
		make_pools(k);
		settle_pools(k);
	}
}

static int read_subnet(struct look *k, struct err *e)
{
	const struct json *o = world_json(k->subnet);
	const char *text = json_string(json_get(json_get(o, "status"), "controlledIPPools"));
	int r = subnet_spec_ips(json_get(o, "spec"), &k->f.total, e);

	if (r < 0)
		return r;
	if (!k->f.total.family)
		k->f.total.family = strchr(subnets_spec(k->subnet, "subnet"), ':') ? 6 : 4;
	/* What cannot be read is made anew, of the pools. */
	if (subnet_entries_read(text, k->f.total.family, &k->is, e) < 0)
		subnets_say(k->s, k->subnet->name, NULL, "", e);
	return subnet_entries_read(k->is.n ? text : NULL, k->f.total.family, &k->wanted, NULL);
}

static void look_at(struct subnets *s, const struct kube_object *subnet)
{
	struct look k = {.s = s, .subnet = subnet};
	struct err e = ERR_INIT;

	k.f.used = used;
	k.f.may_release = may_release;
	k.f.is_gone = is_gone;
	k.f.failed = on_failed;
	k.f.arg = &k;
	if (read_subnet(&k, &e) < 0) {
		subnets_say(s, subnet->name, NULL, "", &e);
	} else {
		gather_reserved(&k);
		gather_pools(&k);
		if (!world_object(subnet)->deleting)
			gather_wants(&k);
		subnet_plan(&k.f, &k.wanted);
		carry_out(&k);
	}
	look_done(&k);
}

/* --- when --- */

static bool is_known(struct subnets *s)
{
	return subnets_apps_known(s) && world_synced(s->conf.world, WORLD_POOLS) &&
	       world_synced(s->conf.world, WORLD_SUBNETS) &&
	       world_synced(s->conf.world, WORLD_RESERVED);
}

static void on_timer(void *arg)
{
	struct subnets *s = arg;

	s->timer = NULL;
	s->due = 0;
	if (!is_known(s))
		return;
	for (size_t i = 0; i < world_count(s->conf.world, WORLD_SUBNETS); i++)
		look_at(s, world_at(s->conf.world, WORLD_SUBNETS, i));
}

void subnets_wake(struct subnets *s, int64_t ms)
{
	int64_t due = subnets_now(s) + (ms > 0 ? ms : 1);

	if (s->timer && s->due <= due)
		return;
	loop_del_timer(s->timer);
	s->due = due;
	s->timer = loop_add_timer(s->loop, due - subnets_now(s), on_timer, s);
}

static void on_world(void *arg, const struct kube_object *was, const struct kube_object *is)
{
	(void)was;
	(void)is;
	subnets_wake(arg, 10);
}

struct subnets *subnets_new(const struct subnets_conf *c)
{
	static const enum world_kind follows[] = {WORLD_POOLS, WORLD_SUBNETS, WORLD_RESERVED};
	struct subnets *s = xcalloc(1, sizeof(*s));

	*s = (struct subnets){.conf = *c, .loop = kube_loop(c->kube)};
	if (!s->conf.rest_ms)
		s->conf.rest_ms = SUBNETS_REST_MS;
	for (size_t i = 0; i < ARRAY_LEN(follows); i++)
		world_on(c->world, follows[i], on_world, s);
	subnets_apps_start(s);
	subnets_wake(s, 1);
	return s;
}

void subnets_free(struct subnets *s)
{
	if (!s)
		return;
	world_off(s->conf.world, s);
	subnets_apps_stop(s);
	subnets_ops_done(s);
	while (s->notes) {
		struct subnets_pool_note *n = s->notes;

		s->notes = n->next;
		note_free(n);
	}
	loop_del_timer(s->timer);
	free(s);
}

void subnets_metrics(const struct subnets *s, struct buf *b)
{
	size_t apps = 0;

	for (size_t i = 0; i < SUBNETS_APP_KINDS; i++)
		apps += subnets_app_count(s, i);
	sample_gauge(b, "unirail_subnet_applications", (int64_t)apps,
		     "Applications that ask for pools of a subnet.");
	sample_counter(b, "unirail_subnet_pools_made_total", s->made,
		       "Pools made for applications.");
	sample_counter(b, "unirail_subnet_pools_resized_total", s->resized,
		       "Pools that grew or shrank with their application.");
	sample_counter(b, "unirail_subnet_pools_reclaimed_total", s->reclaimed,
		       "Pools that went with their application.");
	sample_counter(b, "unirail_subnet_failures_total", s->failed,
		       "Pools that could not be made as they are to be.");
}
