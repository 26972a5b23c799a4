/* SPDX-License-Identifier: Apache-2.0 */
/* Requests about subnets and pools, one an object at a time. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "controller/subnets_priv.h"
#include "ipam/block_wire.h"
#include "ipam/pool_kube.h"
#include "kube/patch.h"

enum { BODY_MAX = 2 << 20, SEEN_MS = 3000, AGAIN_MS = 2000, ASK_MS = 30 * 1000 };

#define FINALIZER "spiderpool.spidernet.io"

const struct kube_kind subnets_pools = {"spiderpool.spidernet.io", "v2beta1", "spiderippools",
					"spiderippool", false};
const struct kube_kind subnets_subnets = {"spiderpool.spidernet.io", "v2beta1", "spidersubnets",
					  "spidersubnet", false};
const struct kube_kind subnets_blocks = {"unirail.io", "v1", "spideripblocks", "spideripblock",
					 false};

/* --- requests under way --- */

static void op_free(struct subnets_op *op)
{
	struct subnets_op **p = &op->s->ops;

	while (*p != op)
		p = &(*p)->next;
	*p = op->next;
	kube_cancel(op->call);
	free(op->name);
	free(op->was);
	free(op);
}

void subnets_ops_done(struct subnets *s)
{
	while (s->ops)
		op_free(s->ops);
}

/* As the watch shows it: "" when it is not there. */
static const char *version_now(const struct subnets *s, enum subnets_op_kind kind, const char *name)
{
	const struct kube_object *o = world_get(
		s->conf.world, kind == SUBNETS_STATUS ? WORLD_SUBNETS : WORLD_POOLS, "", name);

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
	for (struct subnets_op *op = s->ops; op; op = op->next) {
		if (op->kind != kind || strcmp(op->name, name) != 0)
			continue;
		if (!is_over(op))
			return true;
		op_free(op);
		return false;
	}
	return false;
}

static struct subnets_op *begin(struct subnets *s, enum subnets_op_kind kind, const char *name)
{
	struct subnets_op *op = xcalloc(1, sizeof(*op));
	bool writes = kind == SUBNETS_STATUS || kind == SUBNETS_POOL;

	*op = (struct subnets_op){.s = s,
				  .kind = kind,
				  .name = xstrdup(name),
				  .was = writes ? xstrdup(version_now(s, kind, name)) : NULL,
				  .next = s->ops};
	s->ops = op;
	return op;
}

/* Once more with what the watch shows by then; what others were faster with is no trouble. */
static void failed(struct subnets_op *op, const struct err *why)
{
	struct subnets *s = op->s;

	op->until = subnets_now(s) + AGAIN_MS;
	if (why->code == -ESTALE || why->code == -EEXIST || why->code == -ENOENT)
		return;
	s->failed++;
	subnets_say(s, op->name, NULL, "", why);
}

static void on_written(void *arg, int status, const struct json *object, const struct err *why)
{
	struct subnets_op *op = arg;
	struct subnets *s = op->s;

	(void)status;
	(void)object;
	op->call = NULL;
	op->until = subnets_now(s) + SEEN_MS;
	if (why)
		failed(op, why);
	subnets_wake(s, why ? AGAIN_MS : SEEN_MS);
	if (!why)
		subnets_wake(s, 1);
}

static void send(struct subnets *s, enum subnets_op_kind kind, const struct kube_request *r)
{
	struct subnets_op *op = begin(s, kind, r->on.name);

	op->call = kube_send(s->conf.kube, r, on_written, op);
}

/* --- objects --- */

const struct json *subnets_meta(const struct kube_object *o, const char *key)
{
	return json_get(json_get(world_json(o), "metadata"), key);
}

const char *subnets_label(const struct kube_object *o, const char *key)
{
	return json_string(json_get(subnets_meta(o, "labels"), key));
}

const char *subnets_spec(const struct kube_object *o, const char *key)
{
	const char *text = json_string(json_get(json_get(world_json(o), "spec"), key));

	return text ? text : "";
}

static char *label_dup(const struct kube_object *o, const char *key)
{
	const char *text = subnets_label(o, key);

	return xstrdup(text ? text : "");
}

bool subnets_pool_app(const struct kube_object *pool, struct app_id *ret)
{
	const char *api = subnets_label(pool, AUTO_POOL_API);

	if (!api || !subnets_label(pool, AUTO_POOL_NAME) || !subnets_label(pool, AUTO_POOL_UID))
		return false;
	*ret = (struct app_id){auto_pool_api(api), label_dup(pool, AUTO_POOL_KIND),
			       label_dup(pool, AUTO_POOL_NAMESPACE),
			       label_dup(pool, AUTO_POOL_NAME), label_dup(pool, AUTO_POOL_UID)};
	return true;
}

/* --- bodies --- */

struct body {
	struct buf b;
	struct json_out o;
};

static void body_init(struct body *x)
{
	buf_init(&x->b, BODY_MAX);
	jo_init(&x->o, &x->b, 0);
	jo_obj(&x->o);
}

static void put_owner(struct json_out *o, const struct kube_object *subnet)
{
	jo_obj(o);
	jo_kstr(o, "apiVersion", "spiderpool.spidernet.io/v2beta1");
	jo_kstr(o, "kind", "SpiderSubnet");
	jo_kstr(o, "name", subnet->name);
	jo_kstr(o, "uid", subnet->uid);
	jo_kbool(o, "controller", true);
	jo_kbool(o, "blockOwnerDeletion", true);
	jo_end_obj(o);
}

static void put_labels(struct json_out *o, const struct labels *l)
{
	jo_obj(o);
	for (size_t i = 0; i < l->n; i++)
		jo_kstr(o, l->v[i].key, l->v[i].value);
	jo_end_obj(o);
}

static void labels_of(const struct kube_object *subnet, const struct subnets_target *t,
		      struct labels *l)
{
	auto_free char *cidr = auto_pool_cidr_label(subnets_spec(subnet, "subnet"));
	auto_free char *api = xstrdup(t->app->api);
	bool is6 = strchr(subnets_spec(subnet, "subnet"), ':');

	for (char *p = api; *p; p++)
		*p = *p == '/' ? '_' : *p;
	labels_put(l, AUTO_POOL_OWNER, subnet->name);
	labels_put(l, AUTO_POOL_API, api);
	labels_put(l, AUTO_POOL_KIND, t->app->kind);
	labels_put(l, AUTO_POOL_NAMESPACE, t->app->ns);
	labels_put(l, AUTO_POOL_NAME, t->app->name);
	labels_put(l, AUTO_POOL_UID, t->app->uid);
	labels_put(l, AUTO_POOL_IFNAME, t->ifname);
	labels_put(l, AUTO_POOL_VERSION, is6 ? "IPv6" : "IPv4");
	labels_put(l, AUTO_POOL_RECLAIM, t->wish->reclaim ? "true" : "false");
	labels_put(l, AUTO_POOL_CIDR, cidr);
}

/* "5" or "+2" */
static char *number_text(const struct subnets *s, const struct auto_wish *w)
{
	if (w->fixed)
		return xasprintf("%u", w->number);
	return xasprintf("+%u", w->number == UINT32_MAX ? s->conf.more : w->number);
}

static void put_metadata(struct subnets *s, struct json_out *o, const struct kube_object *subnet,
			 const struct subnets_target *t)
{
	auto_free char *number = number_text(s, t->wish);
	struct labels l = {0};

	labels_of(subnet, t, &l);
	jo_key(o, "metadata");
	jo_obj(o);
	jo_kstr(o, "name", t->name);
	jo_key(o, "labels");
	put_labels(o, &l);
	jo_key(o, "annotations");
	jo_obj(o);
	jo_kstr(o, AUTO_POOL_NUMBER, number);
	jo_end_obj(o);
	jo_key(o, "finalizers");
	jo_arr(o);
	jo_str(o, FINALIZER);
	jo_end_arr(o);
	jo_key(o, "ownerReferences");
	jo_arr(o);
	put_owner(o, subnet);
	jo_end_arr(o);
	jo_end_obj(o);
	labels_done(&l);
}

static void put_spec(struct json_out *o, const struct kube_object *subnet,
		     const struct subnets_target *t, const struct subnet_entry *x)
{
	const struct json *spec = json_get(world_json(subnet), "spec");
	struct labels l = {0};

	app_id_labels(t->app, &l);
	jo_key(o, "spec");
	jo_obj(o);
	jo_kint(o, "ipVersion", x->ips.family);
	jo_kstr(o, "subnet", subnets_spec(subnet, "subnet"));
	jo_key(o, "ips");
	subnet_put_set(o, &x->ips);
	if (*subnets_spec(subnet, "gateway"))
		jo_kstr(o, "gateway", subnets_spec(subnet, "gateway"));
	if (json_len(json_get(spec, "routes"))) {
		jo_key(o, "routes");
		jo_val(o, json_get(spec, "routes"), false);
	}
	jo_key(o, "podAffinity");
	jo_obj(o);
	jo_key(o, "matchLabels");
	put_labels(o, &l);
	jo_end_obj(o);
	jo_end_obj(o);
	labels_done(&l);
}

void subnets_make_pool(struct subnets *s, const struct kube_object *subnet,
		       const struct subnets_target *t, const struct subnet_entry *x)
{
	struct kube_request r = {.verb = KUBE_CREATE, .on = {.kind = &subnets_pools}};
	struct body b;

	body_init(&b);
	jo_kstr(&b.o, "apiVersion", "spiderpool.spidernet.io/v2beta1");
	jo_kstr(&b.o, "kind", "SpiderIPPool");
	put_metadata(s, &b.o, subnet, t);
	put_spec(&b.o, subnet, t, x);
	jo_end_obj(&b.o);
	r.on.name = t->name;
	r.body = buf_span(&b.b);
	send(s, SUBNETS_POOL, &r);
	s->made++;
	buf_done(&b.b);
}

/* Only as long as it has what we saw: its status changes all the time, and does not matter. */
void subnets_set_ips(struct subnets *s, const struct kube_object *pool,
		     const struct subnet_entry *x)
{
	const struct json *spec = json_get(world_json(pool), "spec");
	const struct json *ips = json_get(spec, "ips");
	struct kube_request r = {.verb = KUBE_JSON_PATCH,
				 .on = {.kind = &subnets_pools, .name = pool->name}};
	struct kube_patch p;

	kube_patch_init(&p);
	jo_str(kube_patch_add(&p, "test", "metadata", "uid", NULL), pool->uid);
	if (ips)
		jo_val(kube_patch_add(&p, "test", "spec", "ips", NULL), ips, false);
	subnet_put_set(kube_patch_add(&p, "add", "spec", "ips", NULL), &x->ips);
	if (json_len(json_get(spec, "excludeIPs")))
		kube_patch_add(&p, "remove", "spec", "excludeIPs", NULL);
	r.body = kube_patch_end(&p);
	send(s, SUBNETS_POOL, &r);
	s->resized++;
	kube_patch_done(&p);
}

bool subnets_set_labels(struct subnets *s, const struct kube_object *pool,
			const struct subnets_target *t)
{
	const char *uid = subnets_label(pool, AUTO_POOL_UID);
	const char *reclaim = subnets_label(pool, AUTO_POOL_RECLAIM);
	const char *number =
		json_string(json_get(subnets_meta(pool, "annotations"), AUTO_POOL_NUMBER));
	struct kube_request r = {.verb = KUBE_MERGE_PATCH,
				 .on = {.kind = &subnets_pools, .name = pool->name}};
	auto_free char *wanted = number_text(s, t->wish);
	struct body b;

	if (!strcmp(uid, t->app->uid) && number && !strcmp(number, wanted) && reclaim &&
	    !strcmp(reclaim, t->wish->reclaim ? "true" : "false"))
		return false;
	body_init(&b);
	jo_key(&b.o, "metadata");
	jo_obj(&b.o);
	jo_kstr(&b.o, "uid", pool->uid);
	jo_key(&b.o, "labels");
	jo_obj(&b.o);
	jo_kstr(&b.o, AUTO_POOL_UID, t->app->uid);
	jo_kstr(&b.o, AUTO_POOL_RECLAIM, t->wish->reclaim ? "true" : "false");
	jo_end_obj(&b.o);
	jo_key(&b.o, "annotations");
	jo_obj(&b.o);
	jo_kstr(&b.o, AUTO_POOL_NUMBER, wanted);
	jo_end_obj(&b.o);
	jo_end_obj(&b.o);
	jo_end_obj(&b.o);
	r.body = buf_span(&b.b);
	send(s, SUBNETS_POOL, &r);
	buf_done(&b.b);
	return true;
}

/* --- the subnet as owner --- */

static bool has_controller(const struct json *owners, const char *uid, bool *other)
{
	struct json_walk w = json_walk_start(owners);
	const struct json *v;
	bool found = false;

	while ((v = json_walk_next(&w, NULL))) {
		const char *u = json_string(json_get(v, "uid"));

		if (!json_bool(json_get(v, "controller")))
			continue;
		found |= u && !strcmp(u, uid);
		*other |= !u || strcmp(u, uid) != 0;
	}
	return found;
}

static void put_owners(struct json_out *o, const struct json *owners,
		       const struct kube_object *subnet)
{
	struct json_walk w = json_walk_start(owners);
	const struct json *v;

	jo_arr(o);
	while ((v = json_walk_next(&w, NULL)))
		jo_val(o, v, false);
	put_owner(o, subnet);
	jo_end_arr(o);
}

static void put_inherited(struct json_out *o, const struct json *spec, const struct json *has)
{
	bool gateway = json_string(json_get(spec, "gateway")) && !json_get(has, "gateway");
	bool routes = json_len(json_get(spec, "routes")) && !json_len(json_get(has, "routes"));

	if (!gateway && !routes)
		return;
	jo_key(o, "spec");
	jo_obj(o);
	if (gateway)
		jo_kstr(o, "gateway", json_string(json_get(spec, "gateway")));
	if (routes) {
		jo_key(o, "routes");
		jo_val(o, json_get(spec, "routes"), false);
	}
	jo_end_obj(o);
}

bool subnets_set_owner(struct subnets *s, const struct kube_object *pool,
		       const struct kube_object *subnet)
{
	struct kube_request r = {.verb = KUBE_MERGE_PATCH,
				 .on = {.kind = &subnets_pools, .name = pool->name}};
	const struct json *owners = subnets_meta(pool, "ownerReferences");
	const char *label = subnets_label(pool, AUTO_POOL_OWNER);
	bool other = false;
	struct body b;

	if ((has_controller(owners, subnet->uid, &other) || other) && label &&
	    !strcmp(label, subnet->name))
		return false;
	body_init(&b);
	jo_key(&b.o, "metadata");
	jo_obj(&b.o);
	jo_kstr(&b.o, "resourceVersion", pool->version);
	jo_key(&b.o, "labels");
	jo_obj(&b.o);
	jo_kstr(&b.o, AUTO_POOL_OWNER, subnet->name);
	jo_end_obj(&b.o);
	if (!other && !has_controller(owners, subnet->uid, &other)) {
		jo_key(&b.o, "ownerReferences");
		put_owners(&b.o, owners, subnet);
	}
	jo_end_obj(&b.o);
	put_inherited(&b.o, json_get(world_json(subnet), "spec"),
		      json_get(world_json(pool), "spec"));
	jo_end_obj(&b.o);
	r.body = buf_span(&b.b);
	send(s, SUBNETS_POOL, &r);
	buf_done(&b.b);
	return true;
}

void subnets_delete_pool(struct subnets *s, const struct kube_object *pool, const char *why)
{
	struct kube_request r = {.verb = KUBE_DELETE,
				 .on = {.kind = &subnets_pools, .name = pool->name},
				 .uid = pool->uid};

	log_info("a pool goes back to its subnet", LOG_S("pool", pool->name),
		 LOG_S("because", why));
	send(s, SUBNETS_POOL, &r);
	s->reclaimed++;
}

/* --- the subnet --- */

static int64_t capped(u128 n)
{
	return n > INT64_MAX ? INT64_MAX : (int64_t)n;
}

void subnets_write_status(struct subnets *s, const struct kube_object *subnet,
			  const struct subnet_entries *l, u128 total)
{
	struct kube_request r = {
		.verb = KUBE_MERGE_PATCH,
		.on = {.kind = &subnets_subnets, .name = subnet->name, .sub = "status"}};
	auto_buf struct buf text;
	struct body b;

	buf_init(&text, BODY_MAX / 2);
	subnet_entries_write(l, &text);
	body_init(&b);
	jo_key(&b.o, "metadata");
	jo_obj(&b.o);
	jo_kstr(&b.o, "resourceVersion", subnet->version);
	jo_end_obj(&b.o);
	jo_key(&b.o, "status");
	jo_obj(&b.o);
	jo_kstr(&b.o, "controlledIPPools", text.len ? text.p : NULL);
	jo_kint(&b.o, "totalIPCount", capped(total));
	jo_kint(&b.o, "allocatedIPCount", capped(subnet_entries_count(l)));
	jo_end_obj(&b.o);
	jo_end_obj(&b.o);
	r.body = buf_span(&b.b);
	send(s, SUBNETS_STATUS, &r);
	buf_done(&b.b);
}

void subnets_unfinalize(struct subnets *s, const struct kube_object *subnet)
{
	struct json_walk w = json_walk_start(subnets_meta(subnet, "finalizers"));
	struct kube_request r = {.verb = KUBE_MERGE_PATCH,
				 .on = {.kind = &subnets_subnets, .name = subnet->name}};
	const struct json *v;
	bool has = false;
	struct body b;

	body_init(&b);
	jo_key(&b.o, "metadata");
	jo_obj(&b.o);
	jo_kstr(&b.o, "resourceVersion", subnet->version);
	jo_key(&b.o, "finalizers");
	jo_arr(&b.o);
	while ((v = json_walk_next(&w, NULL))) {
		bool ours = json_string(v) && !strcmp(json_string(v), FINALIZER);

		has |= ours;
		if (!ours)
			jo_val(&b.o, v, false);
	}
	jo_end_arr(&b.o);
	jo_end_obj(&b.o);
	jo_end_obj(&b.o);
	r.body = buf_span(&b.b);
	if (has)
		send(s, SUBNETS_STATUS, &r);
	buf_done(&b.b);
}

/* --- questions --- */

static void add_used(void *arg, const struct ipaddr *ip, const char *pod, const char *uid)
{
	(void)pod;
	(void)uid;
	ip_set_add(arg, &(struct ip_range){*ip, *ip});
}

static void on_used(void *arg, int status, const struct json *object, const struct err *why)
{
	struct subnets_op *op = arg;
	struct subnets *s = op->s;
	struct subnets_pool_note *n = subnets_note(s, op->name);
	const char *text = json_string(json_get(json_get(object, "status"), "allocatedIPs"));
	struct ip_set used = {0};
	struct err e = ERR_INIT;

	(void)status;
	op->call = NULL;
	op->until = subnets_now(s) + (why ? AGAIN_MS : 0);
	if (!why && pool_records_read(text, add_used, &used, &e) == 0) {
		ip_set_done(&n->used);
		n->used = used;
		n->used_at = subnets_now(s);
	} else if (!why) {
		op->until = subnets_now(s) + AGAIN_MS;
		subnets_say(s, op->name, NULL, "", &e);
		ip_set_done(&used);
	}
	subnets_wake(s, why ? AGAIN_MS : 1);
}

void subnets_ask_used(struct subnets *s, const char *pool)
{
	struct kube_request r = {.verb = KUBE_GET, .on = {.kind = &subnets_pools, .name = pool}};
	struct subnets_op *op;

	if (subnets_busy(s, SUBNETS_USED, pool))
		return;
	op = begin(s, SUBNETS_USED, pool);
	op->call = kube_send(s->conf.kube, &r, on_used, op);
}

static bool has_block(const struct json *list, const struct ip_set *of)
{
	struct json_walk w = json_walk_start(json_get(list, "items"));
	const struct json *v;

	while ((v = json_walk_next(&w, NULL))) {
		struct block_object o = {0};
		struct ip_set in = {.family = of->family};
		bool found = true; /* one that cannot be read may have anything */

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

static void on_blocks(void *arg, int status, const struct json *object, const struct err *why)
{
	struct subnets_op *op = arg;
	struct subnets *s = op->s;
	struct subnets_pool_note *n = subnets_note(s, op->name);

	op->call = NULL;
	op->until = subnets_now(s) + s->conf.rest_ms;
	n->clear = status == 404 || (!why && !has_block(object, &n->looked));
	if (n->clear)
		op->until = 0;
	subnets_wake(s, n->clear ? 1 : s->conf.rest_ms);
}

void subnets_ask_blocks(struct subnets *s, const char *pool, const struct ip_set *of)
{
	struct kube_request r = {.verb = KUBE_LIST, .on = {.kind = &subnets_blocks}};
	struct subnets_pool_note *n = subnets_note(s, pool);
	auto_buf struct buf query, label;
	char value[BLOCK_LABEL_MAX];
	struct subnets_op *op;

	buf_init(&query, KUBE_PATH_MAX);
	buf_init(&label, 256);
	if (subnets_busy(s, SUBNETS_LOOK, pool))
		return;
	ip_set_done(&n->looked);
	subnet_set_copy(of, &n->looked);
	n->clear = false;
	buf_printf(&label, "%s=%s", BLOCK_POOL_LABEL, block_label(pool, value));
	kube_path_query(&query, "labelSelector", label.p);
	r.query = query.p;
	op = begin(s, SUBNETS_LOOK, pool);
	op->call = kube_send(s->conf.kube, &r, on_blocks, op);
}

/* --- owners of other kinds --- */

/* The object, not its kind: of that nobody knows where it went. */
static bool is_absent(int status, const struct err *why)
{
	return status == 404 && !strstr(why->text, "does not know this resource");
}

static void on_owner(void *arg, int status, const struct json *object, const struct err *why)
{
	struct subnets_op *op = arg;
	struct subnets *s = op->s;
	struct subnets_pool_note *n = subnets_note(s, op->name);
	const struct kube_object *pool = world_get(s->conf.world, WORLD_POOLS, "", op->name);
	const char *uid = json_string(json_get(json_get(object, "metadata"), "uid"));
	const char *label = pool ? subnets_label(pool, AUTO_POOL_UID) : NULL;

	op->call = NULL;
	op->until = subnets_now(s) + ASK_MS;
	n->orphan = is_absent(status, why) || (!why && uid && label && strcmp(uid, label) != 0);
	if (why && !n->orphan)
		subnets_say(s, op->name, NULL, "", why);
	subnets_wake(s, n->orphan ? 1 : ASK_MS);
}

/* "CloneSet" is "clonesets": as every tool that makes such kinds has it. */
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

void subnets_ask_owner(struct subnets *s, const char *pool, const struct app_id *app)
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
	op = begin(s, SUBNETS_OWNER, pool);
	op->call = kube_send(s->conf.kube, &r, on_owner, op);
}
