/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/subnet/subnets.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "controller/subnet/internal.h"
#include "kube/object.h"
#include "server/prometheus.h"
#include "spec/annotations.h"

int64_t subnets_now(const struct subnets *s)
{
	return loop_now_ms(s->loop);
}

/* --- applying the plan --- */

static bool status_is(const struct subnets_inputs *k)
{
	const struct json *status = json_get(cluster_cache_json(k->subnet), "status");
	const char *text = json_string(json_get(status, "controlledIPPools"));
	auto_buf struct buf b;
	int64_t n, m;

	buf_init(&b, 2 << 20);
	subnet_entries_write(&k->wanted, &b);
	return !strcmp(b.len ? b.p : "", text ? text : "") &&
	       json_int(json_get(status, "totalIPCount"), &n) == 0 &&
	       n == subnets_count_text(ip_set_count(&k->f.total)) &&
	       json_int(json_get(status, "allocatedIPCount"), &m) == 0 &&
	       m == subnets_count_text(subnet_entries_count(&k->wanted));
}

static const struct kube_object *object_named(const struct subnets_inputs *k, const char *pool)
{
	const struct subnet_pool *p = subnet_pool_find(&k->f, pool);

	return p ? k->objects[p - k->pools] : NULL;
}

static void follow_entry(struct subnets_inputs *k, const struct subnet_entry *x, size_t pool)
{
	const struct kube_object *o = k->objects[pool];

	if (k->pools[pool].deleting || subnet_set_same(&k->pools[pool].ips, &x->ips))
		return;
	subnets_set_ips(k->s, o, x);
}

static bool is_up_to_date(const struct subnets_inputs *k, const struct subnet_entry *x)
{
	const struct subnet_entry *to = subnet_entry_find(&k->wanted, x->pool);

	return to && subnet_set_same(&to->ips, &x->ips);
}

/* Creates missing pools that the written status contains, and updates labels. */
static void make_pools(struct subnets_inputs *k)
{
	for (size_t i = 0; i < k->n_wants; i++) {
		const struct subnets_target *t = &k->targets[i];
		const struct subnet_entry *x = subnet_entry_find(&k->is, t->name);
		const struct kube_object *o = object_named(k, t->name);

		if (!x || !is_up_to_date(k, x) || subnets_busy(k->s, SUBNETS_POOL, t->name))
			continue;
		if (!o && x->ips.n > 0)
			subnets_make_pool(k->s, k->subnet, t, x);
		else if (o && t->request && !cluster_cache_object(o)->deleting)
			subnets_set_labels(k->s, o, t);
	}
}

/* Returns the reason to delete the pool; NULL: the pool stays, at least until a read of its
 * application is answered. */
static const char *is_left(struct subnets_inputs *k, const struct kube_object *o)
{
	struct subnets_pool_error *n = subnets_error_log(k->s, o->name);
	const struct subnets_app *a;
	const char *cause = NULL;
	struct app_id id;

	if (subnets_stays(o) || !subnets_pool_app(o, &id))
		return NULL;
	a = subnets_app_find(k->s, &id);
	if (!app_id_is_known(&id)) {
		if (cluster_cache_object(o)->allocated == 0)
			subnets_lookup_owner(k->s, o->name, &id);
		else
			n->orphan = false;
		cause = n->orphan ? "the pool's application was deleted" : NULL;
	} else if (!a) {
		cause = "the pool's application was deleted or requests no pool";
	} else if (strcmp(a->id.uid, id.uid) != 0) {
		cause = "the pool's application was replaced by another application of the same "
			"name";
	}
	app_id_done(&id);
	return cause;
}

static void settle_pools(struct subnets_inputs *k)
{
	for (size_t i = 0; i < k->n_pools; i++) {
		const struct kube_object *o = k->objects[i];
		const struct subnet_entry *x = subnet_entry_find(&k->is, o->name);
		const char *cause = NULL;

		if (k->pools[i].deleting || subnets_busy(k->s, SUBNETS_POOL, o->name))
			continue;
		if (k->pools[i].app)
			cause = is_left(k, o);
		if (cause && subnets_is_sure(k->s))
			subnets_delete_pool(k->s, o, cause);
		else if (!subnets_set_owner(k->s, o, k->subnet) && k->pools[i].app && x)
			follow_entry(k, x, i);
	}
}

/* Returns false for ten minutes after an etcd restore, while an application or an agent's report
 * may be missing, and while a restore may be undetected. */
bool subnets_is_sure(const struct subnets *s)
{
	return cluster_cache_hold(s->conf.cache) == CLUSTER_CACHE_SURE;
}

/* Deletes the pools of a subnet that is being deleted, then removes the subnet's finalizer. */
static void take_leave(struct subnets_inputs *k)
{
	for (size_t i = 0; i < k->n_pools; i++)
		if (!k->pools[i].deleting && !subnets_busy(k->s, SUBNETS_POOL, k->objects[i]->name))
			subnets_delete_pool(k->s, k->objects[i],
					    "the pool's subnet is being deleted");
	if (k->n_pools == 0 && k->is.n == 0)
		subnets_unfinalize(k->s, k->subnet);
}

/* Forgets the state of pools that the status does not have any more. */
static void forget_pools(struct subnets_inputs *k)
{
	for (size_t i = 0; i < k->is.n; i++)
		if (!subnet_entry_find(&k->wanted, k->is.v[i].pool))
			subnets_forget(k->s, k->is.v[i].pool);
}

static void carry_out(struct subnets_inputs *k)
{
	bool deleting = cluster_cache_object(k->subnet)->deleting;

	if (subnets_busy(k->s, SUBNETS_STATUS, k->subnet->name))
		return;
	if (!status_is(k)) {
		subnets_write_status(k->s, k->subnet, &k->wanted, ip_set_count(&k->f.total));
		forget_pools(k);
	} else if (deleting) {
		take_leave(k);
	}
	if (!deleting) {
		make_pools(k);
		settle_pools(k);
	}
}

static int read_subnet(struct subnets_inputs *k, struct err *e)
{
	const struct json *o = cluster_cache_json(k->subnet);
	const char *text = json_string(json_get(json_get(o, "status"), "controlledIPPools"));
	int r = subnet_spec_ips(json_get(o, "spec"), &k->f.total, e);

	if (r < 0)
		return r;
	if (!k->f.total.family)
		k->f.total.family = strchr(subnets_spec(k->subnet, "subnet"), ':') ? 6 : 4;
	/* An invalid status is rebuilt from the pools. */
	if (subnet_entries_read(text, k->f.total.family, &k->is, e) < 0)
		subnets_say(k->s, k->subnet->name, NULL, "", e);
	return subnet_entries_read(k->is.n ? text : NULL, k->f.total.family, &k->wanted, NULL);
}

static void inspect(struct subnets_turn *t, const struct kube_object *subnet)
{
	struct subnets *s = t->s;
	struct subnets_inputs k = {.s = s, .turn = t, .subnet = subnet};
	struct err e = ERR_INIT;

	subnets_inputs_init(&k);
	if (read_subnet(&k, &e) < 0) {
		subnets_say(s, subnet->name, NULL, "", &e);
	} else {
		subnets_collect_pools(&k);
		if (!cluster_cache_object(subnet)->deleting)
			subnets_collect_wants(&k);
		subnet_plan(&k.f, &k.wanted);
		carry_out(&k);
	}
	subnets_inputs_done(&k);
}

/* --- schedule of passes --- */

static bool is_known(struct subnets *s)
{
	return subnets_apps_known(s) &&
	       kube_cache_synced(s->conf.cache->objects, CLUSTER_CACHE_POOLS) &&
	       kube_cache_synced(s->conf.cache->objects, CLUSTER_CACHE_SUBNETS) &&
	       kube_cache_synced(s->conf.cache->objects, CLUSTER_CACHE_RESERVED);
}

static void on_timer(void *arg)
{
	struct subnets *s = arg;
	struct subnets_turn t;

	if (!is_known(s))
		return;
	if (cluster_cache_hold(s->conf.cache) != CLUSTER_CACHE_SURE)
		subnets_wake(s, SUBNETS_AGAIN_MS);
	if (cluster_cache_hold(s->conf.cache) == CLUSTER_CACHE_HEARS)
		return;
	subnets_apps_check(s);
	subnets_turn_init(&t, s);
	for (size_t i = 0; i < kube_cache_count(s->conf.cache->objects, CLUSTER_CACHE_SUBNETS); i++)
		inspect(&t, kube_cache_at(s->conf.cache->objects, CLUSTER_CACHE_SUBNETS, i));
	subnets_turn_done(&t);
}

void subnets_wake(struct subnets *s, int64_t ms)
{
	loop_alarm_within(&s->timer, ms > 0 ? ms : 1);
}

static void on_cache(void *arg, const struct kube_object *was, const struct kube_object *is)
{
	(void)was;
	(void)is;
	subnets_wake(arg, 10);
}

struct subnets *subnets_new(const struct subnets_conf *c)
{
	static const enum cluster_cache_kind follows[] = {
		CLUSTER_CACHE_POOLS, CLUSTER_CACHE_SUBNETS, CLUSTER_CACHE_RESERVED};
	struct subnets *s = xcalloc(1, sizeof(*s));

	*s = (struct subnets){.conf = *c, .loop = kube_loop(c->kube)};
	s->timer = LOOP_ALARM(s->loop, on_timer, s);
	for (size_t i = 0; i < ARRAY_LEN(follows); i++)
		kube_cache_on(c->cache->objects, follows[i], on_cache, s);
	subnets_apps_start(s);
	subnets_wake(s, 1);
	return s;
}

static void pool_error_free(struct subnets_pool_error *n)
{
	free(n->pool);
	ip_set_done(&n->used);
	ip_set_done(&n->checked);
	free(n);
}

static void pool_error_drop(void *n)
{
	pool_error_free(n);
}

static void subnets_errors_done(struct subnets *s)
{
	tdestroy(s->pool_errors, pool_error_drop);
	s->pool_errors = NULL;
}

static void op_drop(void *arg)
{
	struct subnets_op *op = arg;

	kube_cancel(op->call);
	free(op->name);
	free(op->was);
	free(op);
}

static void subnets_ops_done(struct subnets *s)
{
	tdestroy(s->ops, op_drop);
	s->ops = NULL;
}

void subnets_free(struct subnets *s)
{
	if (!s)
		return;
	kube_cache_off(s->conf.cache->objects, s);
	subnets_apps_stop(s);
	subnets_ops_done(s);
	subnets_errors_done(s);
	loop_alarm_cancel(&s->timer);
	free(s);
}

void subnets_metrics(const struct subnets *s, struct buf *b)
{
	size_t apps = 0;

	for (size_t i = 0; i < SUBNETS_APP_KINDS; i++)
		apps += subnets_app_count(s, i);
	sample_gauge(b, "unirail_subnet_applications", (int64_t)apps,
		     "Applications that request pools of SpiderSubnets.");
	sample_counter(b, "unirail_subnet_pools_created_total", s->created,
		       "Requests to create a pool of a SpiderSubnet for an application.");
	sample_counter(b, "unirail_subnet_pools_resized_total", s->resized,
		       "Requests to resize a pool of a SpiderSubnet with its application.");
	sample_counter(b, "unirail_subnet_pools_deleted_total", s->deleted,
		       "Requests to delete a pool that no application requests any more or whose "
		       "SpiderSubnet is being deleted.");
	sample_counter(b, "unirail_subnet_failures_total", s->failed,
		       "Failed requests to change a SpiderSubnet or its pools, and requests of "
		       "applications that a SpiderSubnet cannot satisfy.");
}

/* --- state of pools between passes, and error reports --- */

static int by_pool(const void *a, const void *b)
{
	return strcmp(((const struct subnets_pool_error *)a)->pool,
		      ((const struct subnets_pool_error *)b)->pool);
}

static struct subnets_pool_error *find(const struct subnets *s, const char *pool)
{
	const struct subnets_pool_error want = {.pool = (char *)pool};
	struct subnets_pool_error *const *found = tfind(&want, &s->pool_errors, by_pool);

	return found ? *found : NULL;
}

struct subnets_pool_error *subnets_error_log(struct subnets *s, const char *pool)
{
	struct subnets_pool_error *n = find(s, pool);

	if (n)
		return n;
	n = xcalloc(1, sizeof(*n));
	n->pool = xstrdup(pool);
	xtsearch(n, &s->pool_errors, by_pool);
	return n;
}

void subnets_forget(struct subnets *s, const char *pool)
{
	struct subnets_pool_error *n = find(s, pool);

	if (!n)
		return;
	tdelete(n, &s->pool_errors, by_pool);
	pool_error_free(n);
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

/* Logs the error, and sends an event about the application (NULL: none), unless the last error of
 * `object` (a pool, a subnet or the UID of an application) was the same. */
void subnets_say(struct subnets *s, const char *object, const struct app_id *app,
		 const char *reason, const struct err *cause)
{
	struct subnets_pool_error *n = subnets_error_log(s, object);

	if (!log_once(&n->logged, cause->text))
		return;
	log_warn("cannot reconcile a SpiderSubnet, one of its pools or an application that "
		 "requests pools",
		 LOG_S("object", object), LOG_S("application", app ? app->name : ""),
		 LOG_S("namespace", app ? app->ns : ""), LOG_S("error", cause->text));
	if (app)
		put_event(s, app, reason, cause->text);
}

/* --- requests to the API server: at most one of a kind for an object at a time --- */

enum { SEEN_MS = 3000 };

/* --- requests in flight --- */

/* Compares keys of the tree: kind and name. */
static int by_kind_and_name(const void *a, const void *b)
{
	const struct subnets_op *x = a, *y = b;

	return x->kind != y->kind ? (x->kind < y->kind ? -1 : 1) : strcmp(x->name, y->name);
}

static struct subnets_op *subnets_ops_find(const struct subnets *s, enum subnets_op_kind kind,
					   const char *name)
{
	const struct subnets_op want = {.kind = kind, .name = (char *)name};
	struct subnets_op *const *found = tfind(&want, &s->ops, by_kind_and_name);

	return found ? *found : NULL;
}

static void op_free(struct subnets_op *op)
{
	tdelete(op, &op->s->ops, by_kind_and_name);
	op_drop(op);
}

/* Returns the version that the watch shows; "" if the object does not exist. */
static const char *version_now(const struct subnets *s, enum subnets_op_kind kind, const char *name)
{
	const struct kube_object *o = kube_cache_get(
		s->conf.cache->objects,
		kind == SUBNETS_STATUS ? CLUSTER_CACHE_SUBNETS : CLUSTER_CACHE_POOLS, "", name);

	return o ? o->version : "";
}

static bool is_over(struct subnets_op *op)
{
	if (op->call)
		return false;
	if (subnets_now(op->s) >= op->until)
		return true;
	return op->was && strcmp(op->was, version_now(op->s, op->kind, op->name)) != 0;
}

bool subnets_busy(struct subnets *s, enum subnets_op_kind kind, const char *name)
{
	struct subnets_op *op = subnets_ops_find(s, kind, name);

	if (op && !is_over(op))
		return true;
	if (op)
		op_free(op);
	return false;
}

struct subnets_op *subnets_begin(struct subnets *s, enum subnets_op_kind kind, const char *name)
{
	struct subnets_op *op = subnets_ops_find(s, kind, name);
	bool writes = kind == SUBNETS_STATUS || kind == SUBNETS_POOL;

	if (op)
		/* only if the caller did not check subnets_busy(), which frees a completed
		 * operation */
		op_free(op);
	op = xcalloc(1, sizeof(*op));
	*op = (struct subnets_op){.s = s,
				  .kind = kind,
				  .name = xstrdup(name),
				  .was = writes ? xstrdup(version_now(s, kind, name)) : NULL};
	xtsearch(op, &s->ops, by_kind_and_name);
	return op;
}

/*
 * A later pass retries with the state that the watch then shows. A conflict with another writer is
 * not an error.
 */
static void failed(struct subnets_op *op, const struct err *cause)
{
	struct subnets *s = op->s;

	op->until = subnets_now(s) + SUBNETS_AGAIN_MS;
	if (cause->code == -ESTALE || cause->code == -EEXIST || cause->code == -ENOENT)
		return;
	s->failed++;
	subnets_say(s, op->name, NULL, "", cause);
}

static void on_written(void *arg, int status, const struct json *object, const struct err *cause)
{
	struct subnets_op *op = arg;
	struct subnets *s = op->s;

	(void)status;
	(void)object;
	op->call = NULL;
	op->until = subnets_now(s) + SEEN_MS;
	if (cause)
		failed(op, cause);
	subnets_wake(s, cause ? SUBNETS_AGAIN_MS : SEEN_MS);
	if (!cause)
		subnets_wake(s, 1);
}

void subnets_send(struct subnets *s, enum subnets_op_kind kind, const struct kube_request *r)
{
	struct subnets_op *op = subnets_begin(s, kind, r->on.name);

	op->call = kube_send(s->conf.kube, r, on_written, op);
}

/* --- fields of cached objects --- */

const struct json *subnets_meta(const struct kube_object *o, const char *key)
{
	return kube_meta(cluster_cache_json(o), key);
}

const char *subnets_label(const struct kube_object *o, const char *key)
{
	return json_string(json_get(subnets_meta(o, "labels"), key));
}

const char *subnets_spec(const struct kube_object *o, const char *key)
{
	const char *text = json_string(json_get(json_get(cluster_cache_json(o), "spec"), key));

	return text ? text : "";
}

const char *subnets_cidr(const struct json *spec, char ret[static IP_TEXT_MAX])
{
	const char *text = json_string(json_get(spec, "subnet"));
	struct ipnet net;

	if (!text || ipnet_parse_loose(span_of(text), &net) < 0)
		return text ? text : "";
	net = ipnet_network(&net);
	return ipnet_str(&net, ret);
}

static char *label_dup(const struct kube_object *o, const char *key)
{
	const char *text = subnets_label(o, key);

	return xstrdup(text ? text : "");
}

/* Returns the name of a pool's application, which the caller frees: the value of the annotation, if
 * the label is a short form of this value; otherwise the label. */
static char *app_name(const struct kube_object *pool)
{
	const char *whole =
		json_string(json_get(subnets_meta(pool, "annotations"), LABEL_OWNER_NAME));

	return whole && auto_pool_label_is(subnets_label(pool, LABEL_OWNER_NAME), whole)
		       ? xstrdup(whole)
		       : label_dup(pool, LABEL_OWNER_NAME);
}

bool subnets_pool_app(const struct kube_object *pool, struct app_id *ret)
{
	const char *api = subnets_label(pool, LABEL_OWNER_API);

	if (!api || !subnets_label(pool, LABEL_OWNER_NAME) || !subnets_label(pool, LABEL_OWNER_UID))
		return false;
	*ret = (struct app_id){auto_pool_api(api), label_dup(pool, LABEL_OWNER_KIND),
			       label_dup(pool, LABEL_OWNER_NAMESPACE), app_name(pool),
			       label_dup(pool, LABEL_OWNER_UID)};
	return true;
}
