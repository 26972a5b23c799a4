/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/sorted.h"
#include "block/codec.h"
#include "controller/gc/gc_cache.h"
#include "controller/subnet/internal.h"
#include "ipam/pool/pool_cluster.h"
#include "kube/kinds.h"
#include "kube/object.h"
#include "spec/annotations.h"

/* --- state of one subnet: its pools, and the pools that applications request from it --- */

enum { USED_MS = 5000, FAILED_MS = 5000 };

void subnets_inputs_done(struct subnets_inputs *k)
{
	for (size_t i = 0; i < k->n_pools; i++) {
		free((char *)k->pools[i].app);
		ip_set_done(&k->pools[i].ips);
	}
	for (size_t i = 0; i < k->n_wants; i++) {
		free((char *)k->wants[i].pool);
		free((char *)k->wants[i].app);
		if (!k->targets[i].request)
			app_id_done((struct app_id *)k->targets[i].app);
		if (!k->targets[i].request)
			free((struct app_id *)k->targets[i].app);
	}
	free(k->pools);
	free(k->objects);
	for (size_t i = 0; i < k->n_keys; i++)
		free(k->keys[i].key);
	free(k->keys);
	free(k->wants);
	free(k->targets);
	free(k->leftovers);
	ip_set_done(&k->f.total);
	subnet_entries_done(&k->is);
	subnet_entries_done(&k->wanted);
}

static bool is_auto(const struct kube_object *pool)
{
	return subnets_label(pool, LABEL_OWNER_API) && subnets_label(pool, LABEL_OWNER_NAME) &&
	       subnets_label(pool, LABEL_OWNER_UID) && subnets_label(pool, LABEL_INTERFACE);
}

/*
 * An application finds its own pool by UID, and a retained pool of an earlier application by name.
 */
static void add_key(struct subnets_inputs *k, size_t pool, char *key)
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

static void add_keys(struct subnets_inputs *k, size_t pool)
{
	const struct kube_object *o = k->objects[pool];
	const char *uid = subnets_label(o, LABEL_OWNER_UID);
	const char *ifname = subnets_label(o, LABEL_INTERFACE);
	const char *ns = subnets_label(o, LABEL_OWNER_NAMESPACE);
	const char *name = subnets_label(o, LABEL_OWNER_NAME);

	if (!k->pools[pool].app)
		return;
	add_key(k, pool, key_of_uid(uid, ifname));
	if (subnets_stays(o))
		add_key(k, pool, key_of_name(ns ? ns : "", name, ifname));
}

/* Orders by key, and equal keys by pool. */
static int by_key(const void *a, const void *b)
{
	const struct subnets_pool_key *x = a, *y = b;
	int r = strcmp(x->key, y->key);

	return r ? r : x->pool < y->pool ? -1 : x->pool > y->pool;
}

static size_t first_key(const struct subnets_inputs *k, const char *key)
{
	return LOWER_BOUND(i, k->n_keys, strcmp(k->keys[i].key, key) < 0);
}

static bool is_key(const struct subnets_inputs *k, size_t i, const char *key)
{
	return i < k->n_keys && strcmp(k->keys[i].key, key) == 0;
}

static void add_pool(struct subnets_inputs *k, const struct kube_object *o)
{
	struct subnet_pool p = {.name = o->name, .deleting = cluster_cache_object(o)->deleting};
	size_t at = k->n_pools;
	struct app_id app;

	if (subnet_spec_ips(json_get(cluster_cache_json(o), "spec"), &p.ips, NULL) < 0)
		p.ips = (struct ip_set){.family = k->f.total.family};
	if (is_auto(o) && subnets_pool_app(o, &app)) {
		p.app = app_id_text(&app);
		app_id_done(&app);
	}
	subnets_error_log(k->s, o->name)->seen = true;
	VEC_PUSH(k->pools, k->n_pools) = p;
	k->objects[at] = o;
	add_keys(k, at);
}

/* Returns the first of the pools of a CIDR, an array sorted by name; *n: number of these pools. */
static const struct subnets_turn_pool *subnets_turn_pools(const struct subnets_turn *t,
							  const char *cidr, size_t *n)
{
	size_t low = LOWER_BOUND(i, t->n_pools, strcmp(t->pools[i].cidr, cidr) < 0), end;

	for (end = low; end < t->n_pools && strcmp(t->pools[end].cidr, cidr) == 0; end++)
		;
	*n = end - low;
	return t->pools + low;
}

void subnets_collect_pools(struct subnets_inputs *k)
{
	char text[IP_TEXT_MAX];
	const char *cidr = subnets_cidr(json_get(cluster_cache_json(k->subnet), "spec"), text);
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

/* --- pools that each application requests --- */

static bool is_for(const struct kube_object *pool, const struct app_id *app, const char *ifname,
		   bool is6)
{
	const char *has = subnets_label(pool, LABEL_INTERFACE);
	const char *name = subnets_label(pool, LABEL_OWNER_NAME);
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
	const char *reclaim = subnets_label(pool, ANNOTATION_POOL_RECLAIM);

	return reclaim && !strcmp(reclaim, "false");
}

static bool is_pool_for(const struct subnets_inputs *k, size_t pool, const struct app_id *app,
			const char *ifname)
{
	const struct kube_object *o = k->objects[pool];

	return auto_pool_label_is(subnets_label(o, LABEL_OWNER_SUBNET), k->subnet->name) &&
	       is_for(o, app, ifname, k->f.total.family == 6);
}

/* Returns the application's own pool, or one retained from an earlier application of the same name.
 * */
static const struct kube_object *pool_for(const struct subnets_inputs *k, const struct app_id *app,
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
	if (a->request.fixed)
		return a->request.number;
	return a->size +
	       (a->request.number == UINT32_MAX ? s->conf.redundant_ips : a->request.number);
}

static void add_want(struct subnets_inputs *k, const char *pool, const struct subnets_target *t)
{
	struct subnet_want w = {xstrdup(pool), app_id_text(t->app), t->count};

	VEC_PUSH(k->wants, k->n_wants) = w;
	k->n_wants--;
	VEC_PUSH(k->targets, k->n_wants) = *t;
	k->targets[k->n_wants - 1].name = w.pool;
}

static void want_nic(struct subnets_inputs *k, const struct subnets_app *a,
		     const struct auto_nic *nic)
{
	struct subnets_target t = {.ifname = nic->ifname,
				   .app = &a->id,
				   .request = &a->request,
				   .count = count_of(k->s, a)};
	const struct kube_object *o, *other;
	char name[AUTO_POOL_NAME_MAX + 1];
	struct err e = ERR_INIT;

	o = pool_for(k, &a->id, nic->ifname);
	if (o) {
		add_want(k, o->name, &t);
		return;
	}
	auto_pool_name(&a->id, nic->ifname, k->f.total.family, name);
	other = kube_cache_get(k->s->conf.cache->objects, CLUSTER_CACHE_POOLS, "", name);
	if (!other) {
		add_want(k, name, &t);
		return;
	}
	err_set(&e, -EEXIST,
		"pool '%s' belongs to another subnet or application: the subnet of an application "
		"is immutable, create the application again",
		name);
	subnets_say(k->s, name, &a->id, "ApplicationSubnetChanged", &e);
}

/* Adds the request of a pool that an agent created for an application of a kind that is not
 * watched; the pool's annotation has the number of addresses. */
static void want_foreign(struct subnets_inputs *k, const struct kube_object *o)
{
	const char *text =
		json_string(json_get(subnets_meta(o, "annotations"), ANNOTATION_POOL_NUMBER));
	struct subnets_target t = {.ifname = subnets_label(o, LABEL_INTERFACE)};
	struct labels l = {0};
	struct auto_pool_request w;
	struct app_id *app = xcalloc(1, sizeof(*app));
	bool fixed;
	int r;

	labels_put(&l, ANNOTATION_SUBNET, "{\"ipv4\":[\"x\"]}");
	if (text)
		labels_put(&l, ANNOTATION_POOL_NUMBER, text);
	r = text ? auto_pool_request_read(&l, 0, &w, NULL) : 0;
	labels_done(&l);
	fixed = r == 1 && w.fixed;
	t.count = r == 1 ? w.number : 0;
	if (r == 1)
		auto_pool_request_done(&w);
	if (!fixed || !subnets_pool_app(o, app) || app_id_is_known(app)) {
		app_id_done(app);
		free(app);
		return;
	}
	t.app = app;
	add_want(k, o->name, &t);
}

void subnets_collect_wants(struct subnets_inputs *k)
{
	size_t n;
	const struct subnets_turn_request *v =
		subnets_turn_requests(k->turn, k->subnet->name, k->f.total.family, &n);

	for (size_t i = 0; i < n; i++)
		want_nic(k, v[i].app, v[i].nic);
	for (size_t i = 0; i < k->n_pools; i++) {
		const char *owner = subnets_label(k->objects[i], LABEL_OWNER_SUBNET);

		if (k->pools[i].app && !k->pools[i].deleting &&
		    auto_pool_label_is(owner, k->subnet->name))
			want_foreign(k, k->objects[i]);
	}
	k->f.wants = k->wants;
	k->f.n_wants = k->n_wants;
}

/* --- callbacks of the plan --- */

static void subnets_lookup_used(struct subnets *s, const char *pool);

static const struct ip_set *used(void *arg, const char *pool)
{
	struct subnets_inputs *k = arg;
	struct subnets_pool_error *n = subnets_error_log(k->s, pool);

	if (n->used_at && subnets_now(k->s) - n->used_at < USED_MS)
		return &n->used;
	subnets_lookup_used(k->s, pool);
	return NULL;
}

static bool has_any(const struct subnets_inputs *k, const char *pool, const struct ip_set *of)
{
	const struct subnet_pool *p = subnet_pool_find(&k->f, pool);
	struct ipaddr a;

	return p && ip_set_meets(&p->ips, of, &a);
}

static bool waited(struct subnets_inputs *k, struct subnets_pool_error *n)
{
	int64_t now = subnets_now(k->s), left;

	if (!n->since)
		n->since = now;
	left = n->since + k->s->conf.reuse_delay_ms - now;
	if (left > 0)
		subnets_wake(k->s, left);
	return left <= 0;
}

static bool has_block(const struct json *list, const struct ip_set *of)
{
	struct json_walk w = json_walk_start(json_get(list, "items"));
	const struct json *v;

	while ((v = json_walk_next(&w, NULL))) {
		struct block_object o = {0};
		struct ip_set in = {.family = of->family};
		/* true also for a block that cannot be parsed, which may contain any address */
		bool found = true;

		if (block_object_read(v, &o, NULL) == 0) {
			block_addresses(of, &o.net, &in);
			found = in.n > 0;
			block_object_done(&o);
		}
		ip_set_done(&in);
		if (found)
			return true;
	}
	return false;
}

static void on_blocks(void *arg, int status, const struct json *object, const struct err *cause)
{
	struct subnets_op *op = arg;
	struct subnets *s = op->s;
	struct subnets_pool_error *n = subnets_error_log(s, op->name);

	op->call = NULL;
	op->until = subnets_now(s) + s->conf.reuse_delay_ms;
	n->clear = status == 404 || (!cause && !has_block(object, &n->checked));
	if (n->clear)
		op->until = 0;
	subnets_wake(s, n->clear ? 1 : s->conf.reuse_delay_ms);
}

static void subnets_lookup_blocks(struct subnets *s, const char *pool, const struct ip_set *of)
{
	struct kube_request r = {.verb = KUBE_LIST, .on = {.kind = &kube_ipblocks}};
	struct subnets_pool_error *n = subnets_error_log(s, pool);
	auto_buf struct buf query, label;
	char value[BLOCK_LABEL_MAX];
	struct subnets_op *op;

	buf_init(&query, KUBE_PATH_MAX);
	buf_init(&label, 256);
	if (subnets_busy(s, SUBNETS_INPUTS, pool))
		return;
	ip_set_done(&n->checked);
	ip_set_copy(of, &n->checked);
	n->clear = false;
	buf_printf(&label, "%s=%s", LABEL_POOL, block_label(pool, value));
	kube_path_query(&query, "labelSelector", label.p);
	r.query = query.p;
	op = subnets_begin(s, SUBNETS_INPUTS, pool);
	op->call = kube_send(s->conf.kube, &r, on_blocks, op);
}

/* Returns true, once for each read of the blocks, if the last read found no block with an address
 * of the set; otherwise starts a read. */
static bool is_clear(struct subnets_inputs *k, struct subnets_pool_error *n,
		     const struct ip_set *of)
{
	if (n->clear && subnet_set_same(&n->checked, of)) {
		n->clear = false;
		n->since = 0;
		return true;
	}
	subnets_lookup_blocks(k->s, n->pool, of);
	return false;
}

static bool may_release(void *arg, const struct subnet_entry *x)
{
	struct subnets_inputs *k = arg;
	struct subnets_pool_error *n = subnets_error_log(k->s, x->pool);

	if (has_any(k, x->pool, &x->pending_release)) {
		n->since = 0;
		n->clear = false;
		return false;
	}
	return waited(k, n) && subnets_is_sure(k->s) && is_clear(k, n, &x->pending_release);
}

/* Skips the check of blocks for a subnet that is being deleted, which allocates nothing any
 * more. */
static bool is_deleted(void *arg, const struct subnet_entry *x)
{
	struct subnets_inputs *k = arg;
	struct subnets_pool_error *n = subnets_error_log(k->s, x->pool);
	struct ip_set all;
	bool deleted;

	if (!subnets_is_sure(k->s) || !(n->seen || waited(k, n)))
		return false;
	if (cluster_cache_object(k->subnet)->deleting)
		return true;
	ip_set_copy(&x->ips, &all);
	ip_set_plus(&all, &x->pending_release);
	deleted = is_clear(k, n, &all);
	ip_set_done(&all);
	return deleted;
}

static int leftover_by_ip(const void *a, const void *b)
{
	return ip_cmp(&((const struct subnet_leftover *)a)->ip,
		      &((const struct subnet_leftover *)b)->ip);
}

static void collect_ips(struct subnets_turn *t)
{
	const struct kube_cache *c = t->s->conf.gc_cache;

	for (size_t i = 0; i < kube_cache_count(c, GC_CACHE_ENDPOINTS); i++) {
		const struct gc_cache_endpoint *x =
			gc_cache_endpoint(kube_cache_at(c, GC_CACHE_ENDPOINTS, i));

		for (size_t n = 0; n < x->n; n++)
			VEC_PUSH(t->ips, t->n_ips) =
				(struct subnet_leftover){x->v[n].ip, x->v[n].pool};
	}
	if (t->n_ips)
		qsort(t->ips, t->n_ips, sizeof(t->ips[0]), leftover_by_ip);
	t->ips_are_known = true;
}

static size_t first_ip(const struct subnets_turn *t, const struct ipaddr *from)
{
	return LOWER_BOUND(i, t->n_ips, ip_cmp(&t->ips[i].ip, from) < 0);
}

/* Lists those addresses of the set `of` that pods have. The caller frees *ret. */
static void subnets_turn_ips(struct subnets_turn *t, const struct ip_set *of,
			     struct subnet_leftover **ret, size_t *n)
{
	*ret = NULL;
	*n = 0;
	if (!t->ips_are_known)
		collect_ips(t);
	for (size_t i = 0; i < of->n; i++)
		for (size_t k = first_ip(t, &of->v[i].first);
		     k < t->n_ips && ip_cmp(&t->ips[k].ip, &of->v[i].last) <= 0; k++)
			VEC_PUSH(*ret, *n) = t->ips[k];
}

static void collect_leftovers(struct subnets_inputs *k)
{
	struct ip_set open, had = {.family = k->f.total.family};

	for (size_t i = 0; i < k->wanted.n; i++) {
		for (size_t n = 0; n < k->wanted.v[i].ips.n; n++)
			ip_set_collect(&had, &k->wanted.v[i].ips.v[n]);
		for (size_t n = 0; n < k->wanted.v[i].pending_release.n; n++)
			ip_set_collect(&had, &k->wanted.v[i].pending_release.v[n]);
	}
	ip_set_merge(&had);
	ip_set_copy(&k->f.total, &open);
	ip_set_minus(&open, &had);
	subnets_turn_ips(k->turn, &open, &k->leftovers, &k->n_leftovers);
	ip_set_done(&open);
	ip_set_done(&had);
	k->leftovers_known = true;
}

/* The list is computed at most once per subnet and pass, and only when a pool grows, since there
 * are many endpoints. */
static bool leftovers(void *arg, const struct subnet_leftover **ret, size_t *n)
{
	struct subnets_inputs *k = arg;

	if (!kube_cache_synced(k->s->conf.gc_cache, GC_CACHE_ENDPOINTS)) {
		subnets_wake(k->s, SUBNETS_AGAIN_MS);
		return false;
	}
	if (!k->leftovers_known)
		collect_leftovers(k);
	*ret = k->leftovers;
	*n = k->n_leftovers;
	return true;
}

static void on_failed(void *arg, const struct subnet_want *w, const struct err *cause)
{
	struct subnets_inputs *k = arg;

	subnets_say(k->s, w->pool, k->targets[w - k->wants].app, "SubnetPoolFailed", cause);
	k->s->failed++;
	subnets_wake(k->s, FAILED_MS);
}

void subnets_inputs_init(struct subnets_inputs *k)
{
	k->f.used = used;
	k->f.leftovers = leftovers;
	k->f.may_release = may_release;
	k->f.is_deleted = is_deleted;
	k->f.failed = on_failed;
	k->f.arg = k;
}

/* --- reads of state that no watch has: a pool's addresses in use, and a pool's owner --- */

enum { LOOKUP_MS = 30 * 1000 };

static void add_used(void *arg, const struct ipaddr *ip, const char *pod, const char *uid)
{
	(void)pod;
	(void)uid;
	ip_set_collect(arg, &(struct ip_range){*ip, *ip});
}

static void on_used(void *arg, int status, const struct json *object, const struct err *cause)
{
	struct subnets_op *op = arg;
	struct subnets *s = op->s;
	struct subnets_pool_error *n = subnets_error_log(s, op->name);
	const char *text = json_string(json_get(json_get(object, "status"), "allocatedIPs"));
	struct ip_set used = {0};
	struct err e = ERR_INIT;

	(void)status;
	op->call = NULL;
	op->until = subnets_now(s) + (cause ? SUBNETS_AGAIN_MS : 0);
	if (!cause && pool_records_read(text, add_used, &used, &e) == 0) {
		ip_set_done(&n->used);
		ip_set_merge(&used);
		n->used = used;
		n->used_at = subnets_now(s);
	} else if (!cause) {
		op->until = subnets_now(s) + SUBNETS_AGAIN_MS;
		subnets_say(s, op->name, NULL, "", &e);
		ip_set_done(&used);
	}
	subnets_wake(s, cause ? SUBNETS_AGAIN_MS : 1);
}

static void subnets_lookup_used(struct subnets *s, const char *pool)
{
	struct kube_request r = {.verb = KUBE_GET, .on = {.kind = &kube_ippools, .name = pool}};
	struct subnets_op *op;

	if (subnets_busy(s, SUBNETS_USED, pool))
		return;
	op = subnets_begin(s, SUBNETS_USED, pool);
	op->call = kube_send(s->conf.kube, &r, on_used, op);
}

/* --- applications of kinds that are not watched --- */

/* Returns whether the object is known not to exist: 404, unless the server does not serve the kind
 * (ERR_UNAVAILABLE). */
static bool is_absent(int status, const struct err *cause)
{
	return status == 404 && cause->kind != ERR_UNAVAILABLE;
}

static void on_owner(void *arg, int status, const struct json *object, const struct err *cause)
{
	struct subnets_op *op = arg;
	struct subnets *s = op->s;
	struct subnets_pool_error *n = subnets_error_log(s, op->name);
	const struct kube_object *pool =
		kube_cache_get(s->conf.cache->objects, CLUSTER_CACHE_POOLS, "", op->name);
	const char *uid = kube_meta_string(object, "uid");
	const char *label = pool ? subnets_label(pool, LABEL_OWNER_UID) : NULL;

	op->call = NULL;
	op->until = subnets_now(s) + LOOKUP_MS;
	n->orphan = is_absent(status, cause) || (!cause && uid && label && strcmp(uid, label) != 0);
	if (cause && !n->orphan)
		subnets_say(s, op->name, NULL, "", cause);
	subnets_wake(s, n->orphan ? 1 : LOOKUP_MS);
}

/* "CloneSet" becomes "clonesets", as code generators of CRDs do. */
static char *plural_of(const char *kind)
{
	size_t n = strlen(kind);
	char last = n ? kind[n - 1] : '\0';
	char *s = xasprintf("%.*s%s", last == 'y' ? (int)n - 1 : (int)n, kind,
			    last == 'y'					? "ies"
			    : last == 's' || last == 'x' || last == 'h' ? "es"
									: "s");

	for (char *p = s; *p; p++)
		*p = *p >= 'A' && *p <= 'Z' ? (char)(*p | 0x20) : *p;
	return s;
}

void subnets_lookup_owner(struct subnets *s, const char *pool, const struct app_id *app)
{
	const char *slash = strchr(app->api, '/');
	auto_free char *group =
		slash ? span_dup((struct span){app->api, (size_t)(slash - app->api)}) : xstrdup("");
	auto_free char *plural = plural_of(app->kind);
	struct kube_kind kind = {group, slash ? slash + 1 : app->api, plural, app->kind, true};
	struct kube_request r = {.verb = KUBE_GET,
				 .on = {.kind = &kind, .ns = app->ns, .name = app->name}};
	struct subnets_op *op;

	if (subnets_busy(s, SUBNETS_OWNER, pool))
		return;
	op = subnets_begin(s, SUBNETS_OWNER, pool);
	op->call = kube_send(s->conf.kube, &r, on_owner, op);
}

/* Indexes that one pass for all subnets uses: pools, requests, reserved addresses, addresses of pods. */

/* --- reserved addresses --- */

static void add_reserved(struct subnets_turn *t, const char *text)
{
	uint8_t family = strchr(text, ':') ? 6 : 4;
	struct ip_range r;

	if (ip_range_parse(span_of(text), family, &r, NULL) == 0)
		ip_set_collect(&t->reserved[family == 6], &r);
}

static void collect_reserved(struct subnets_turn *t)
{
	struct cluster_cache *w = t->s->conf.cache;

	t->reserved[0].family = 4;
	t->reserved[1].family = 6;
	for (size_t i = 0; i < kube_cache_count(w->objects, CLUSTER_CACHE_RESERVED); i++) {
		const struct json *o =
			cluster_cache_json(kube_cache_at(w->objects, CLUSTER_CACHE_RESERVED, i));
		struct json_walk walk = json_walk_start(json_get(json_get(o, "spec"), "ips"));
		const struct json *v;

		while ((v = json_walk_next(&walk, NULL)))
			if (json_string(v))
				add_reserved(t, json_string(v));
	}
	ip_set_merge(&t->reserved[0]);
	ip_set_merge(&t->reserved[1]);
}

/* --- index of pools by CIDR --- */

static int pool_by_cidr(const void *a, const void *b)
{
	const struct subnets_turn_pool *x = a, *y = b;
	int r = strcmp(x->cidr, y->cidr);

	return r ? r : strcmp(x->o->name, y->o->name);
}

static void collect_pools(struct subnets_turn *t)
{
	struct cluster_cache *w = t->s->conf.cache;
	char text[IP_TEXT_MAX];

	t->n_pools = kube_cache_count(w->objects, CLUSTER_CACHE_POOLS);
	t->pools = xcalloc(t->n_pools + 1, sizeof(*t->pools));
	for (size_t i = 0; i < t->n_pools; i++) {
		const struct kube_object *o = kube_cache_at(w->objects, CLUSTER_CACHE_POOLS, i);

		t->pools[i].o = o;
		t->pools[i].cidr =
			xstrdup(subnets_cidr(json_get(cluster_cache_json(o), "spec"), text));
	}
	qsort(t->pools, t->n_pools, sizeof(t->pools[0]), pool_by_cidr);
}

/* --- index of applications' requests by subnet --- */

/* Compares requests by subnet and family; otherwise keeps their order. */
static int request_by_subnet(const void *a, const void *b)
{
	const struct subnets_turn_request *x = a, *y = b;
	int r = strcmp(x->subnet, y->subnet);

	if (r == 0)
		r = x->family - y->family;
	return r ? r : x->order < y->order ? -1 : x->order > y->order;
}

static void add_request(struct subnets_turn *t, const struct subnets_app *a,
			const struct auto_nic *nic, uint8_t family)
{
	const char *subnet = family == 6 ? nic->subnet6 : nic->subnet4;
	size_t order = t->n_requests;

	if (subnet)
		VEC_PUSH(t->requests, t->n_requests) =
			(struct subnets_turn_request){subnet, family, order, a, nic};
}

static void collect_requests(struct subnets_turn *t)
{
	for (size_t kind = 0; kind < SUBNETS_APP_KINDS; kind++)
		for (size_t i = 0; i < subnets_app_count(t->s, kind); i++) {
			const struct subnets_app *a = subnets_app_at(t->s, kind, i);

			for (size_t n = 0; n < a->request.n; n++) {
				add_request(t, a, &a->request.v[n], 4);
				add_request(t, a, &a->request.v[n], 6);
			}
		}
	if (t->n_requests)
		qsort(t->requests, t->n_requests, sizeof(t->requests[0]), request_by_subnet);
}

static bool is_request(const struct subnets_turn_request *x, const char *subnet, uint8_t family)
{
	return x->family == family && strcmp(x->subnet, subnet) == 0;
}

const struct subnets_turn_request *
subnets_turn_requests(const struct subnets_turn *t, const char *subnet, uint8_t family, size_t *n)
{
	const struct subnets_turn_request want = {.subnet = subnet, .family = family};
	size_t low = LOWER_BOUND(i, t->n_requests, request_by_subnet(&t->requests[i], &want) < 0),
	       end;

	for (end = low; end < t->n_requests && is_request(&t->requests[end], subnet, family); end++)
		;
	*n = end - low;
	return t->requests + low;
}

/* --- all indexes of a turn --- */

void subnets_turn_init(struct subnets_turn *t, struct subnets *s)
{
	*t = (struct subnets_turn){.s = s};
	collect_reserved(t);
	collect_pools(t);
	collect_requests(t);
}

void subnets_turn_done(struct subnets_turn *t)
{
	for (size_t i = 0; i < t->n_pools; i++)
		free(t->pools[i].cidr);
	free(t->pools);
	free(t->requests);
	free(t->ips);
	ip_set_done(&t->reserved[0]);
	ip_set_done(&t->reserved[1]);
}
