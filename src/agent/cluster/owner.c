/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the applications that own pods, and creates automatic pools for them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/cluster/internal.h"
#include "base/alloc.h"
#include "base/log.h"
#include "kube/kinds.h"
#include "kube/object.h"
#include "spec/annotations.h"

enum { LOOKUP_MS = 10 * 1000, BODY_MAX = 64 << 10 };

struct cluster_lookup {
	struct cluster *c;
	struct kube_call *call;
	struct app_id app; /* the owner found so far */
	cluster_app_fn fn;
	void *arg;
	/* --- members for a pool to be created --- */
	char *subnet, *ifname, *pool;
	uint8_t family;
	uint32_t count;
	bool reclaim;
	struct cluster_lookup *next;
};

static void request_free(struct cluster_lookup *a)
{
	for (struct cluster_lookup **p = &a->c->requests; *p; p = &(*p)->next)
		if (*p == a) {
			*p = a->next;
			break;
		}
	kube_cancel(a->call);
	app_id_done(&a->app);
	free(a->subnet);
	free(a->ifname);
	free(a->pool);
	free(a);
}

void cluster_lookup_cancel(struct cluster_lookup *a)
{
	if (a)
		request_free(a);
}

void cluster_lookups_drop_all(struct cluster *c)
{
	while (c->requests)
		request_free(c->requests);
}

static struct cluster_lookup *begin(struct cluster *c, const struct app_id *app)
{
	struct cluster_lookup *a = xcalloc(1, sizeof(*a));

	*a = (struct cluster_lookup){.c = c, .next = c->requests};
	app_id_copy(app, &a->app);
	c->requests = a;
	return a;
}

/* --- the owner of a pod --- */

static const struct json *controller_of(const struct json *object)
{
	struct json_walk w = json_walk_start(kube_meta(object, "ownerReferences"));
	const struct json *v;

	while ((v = json_walk_next(&w, NULL)))
		if (json_bool(json_get(v, "controller")))
			return v;
	return NULL;
}

static void on_owner(void *arg, int status, const struct json *object, const struct err *cause)
{
	struct cluster_lookup *a = arg;
	const struct json *o = cause ? NULL : controller_of(object);
	struct app_id top = {.ns = a->app.ns};

	(void)status;
	a->call = NULL;
	if (o) {
		top.api = (char *)json_get_text(o, "apiVersion");
		top.kind = (char *)json_get_text(o, "kind");
		top.name = (char *)json_get_text(o, "name");
		top.uid = (char *)json_get_text(o, "uid");
	}
	a->fn(a->arg, cause ? NULL : o ? &top : &a->app, cause);
	request_free(a);
}

struct cluster_lookup *cluster_lookup_app(struct cluster *c, const struct pod_facts *p,
					  cluster_app_fn fn, void *arg)
{
	struct app_id app = {p->owner_api, p->owner_kind, p->ns, p->owner_name, p->owner_uid};
	struct kube_request r = {.verb = KUBE_GET, .timeout_ms = LOOKUP_MS};
	struct cluster_lookup *a;

	if (!p->owner_kind || !p->owner_api || !p->owner_name || !p->owner_uid) {
		fn(arg, NULL, NULL);
		return NULL;
	}
	r.on = (struct kube_ref){.ns = p->ns, .name = p->owner_name};
	if (!strcmp(p->owner_kind, "ReplicaSet") && !strcmp(p->owner_api, "apps/v1"))
		r.on.kind = &kube_replicasets;
	else if (!strcmp(p->owner_kind, "Job") && !strcmp(p->owner_api, "batch/v1"))
		r.on.kind = &kube_jobs;
	if (!r.on.kind) {
		fn(arg, &app, NULL);
		return NULL;
	}
	a = begin(c, &app);
	a->fn = fn;
	a->arg = arg;
	a->call = kube_send(c->conf.kube, &r, on_owner, a);
	return a;
}

/* --- automatic pools of applications --- */

static const struct pool *pool_for(struct cluster *c, const char *key, uint8_t family)
{
	const struct pool_set *set = cluster_pools(c);

	for (size_t i = 0; set && i < set->n; i++) {
		const struct pool *p = &set->v[i];

		if (p->auto_pool_key && p->family == family && !p->terminating &&
		    !strcmp(p->auto_pool_key, key))
			return p;
	}
	return NULL;
}

const char *cluster_pool_for(struct cluster *c, const char *key, uint8_t family)
{
	const struct pool *p = pool_for(c, key, family);

	return p ? p->name : NULL;
}

static void on_made(void *arg, int status, const struct json *object, const struct err *cause)
{
	struct cluster_lookup *a = arg;

	(void)status;
	(void)object;
	a->call = NULL;
	if (cause && cause->code != -EEXIST)
		log_limited(LOG_WARN, 3, "failed to create or resize the pool of an application",
			    LOG_S("namespace", a->app.ns), LOG_S("kind", a->app.kind),
			    LOG_S("name", a->app.name), LOG_S("error", cause->text));
	request_free(a);
}

static void put_labels(struct json_out *o, const char *key, const struct labels *l)
{
	jo_key(o, key);
	jo_obj(o);
	for (size_t i = 0; i < l->n; i++)
		jo_kstr(o, l->v[i].key, l->v[i].value);
	jo_end_obj(o);
}

static void put_pool(const struct cluster_lookup *a, const struct json *subnet, struct buf *b)
{
	const struct json *spec = json_get(subnet, "spec");
	auto_free char *number = xasprintf("%u", a->count);
	struct labels l = {0}, app = {0};
	char cidr[IP_TEXT_MAX] = "";
	struct ipnet net;
	struct json_out o;

	/* spec.subnet may have host bits */
	if (ipnet_parse_loose(span_of(json_get_text(spec, "subnet")), &net) == 0) {
		net = ipnet_network(&net);
		ipnet_str(&net, cidr);
	}
	auto_pool_labels(&a->app, a->subnet, cidr, a->ifname, a->reclaim, &l);
	app_id_labels(&a->app, &app);
	jo_init(&o, b, 0);
	jo_obj(&o);
	jo_kstr(&o, "apiVersion", SPIDERPOOL_API);
	jo_kstr(&o, "kind", "SpiderIPPool");
	jo_key(&o, "metadata");
	jo_obj(&o);
	jo_kstr(&o, "name", a->pool);
	put_labels(&o, "labels", &l);
	auto_pool_put_annotations(&a->app, number, &o);
	jo_end_obj(&o);
	jo_key(&o, "spec");
	jo_obj(&o);
	jo_kint(&o, "ipVersion", a->family);
	jo_kstr(&o, "subnet", cidr);
	if (*json_get_text(spec, "gateway"))
		jo_kstr(&o, "gateway", json_get_text(spec, "gateway"));
	if (json_len(json_get(spec, "routes"))) {
		jo_key(&o, "routes");
		jo_val(&o, json_get(spec, "routes"), false);
	}
	jo_key(&o, "podAffinity");
	jo_obj(&o);
	put_labels(&o, "matchLabels", &app);
	jo_end_obj(&o);
	jo_end_obj(&o);
	jo_end_obj(&o);
	labels_done(&l);
	labels_done(&app);
}

static void on_subnet(void *arg, int status, const struct json *object, const struct err *cause)
{
	struct cluster_lookup *a = arg;
	struct kube_request r = {.verb = KUBE_CREATE,
				 .on = {.kind = &kube_ippools, .name = a->pool}};
	auto_buf struct buf b;

	buf_init(&b, BODY_MAX);
	if (cause) {
		on_made(a, status, NULL, cause);
		return;
	}
	put_pool(a, object, &b);
	r.body = buf_span(&b);
	a->call = kube_send(a->c->conf.kube, &r, on_made, a);
}

/* Updates the requested number of addresses in the pool's annotations, which the controller
 * applies. */
static void resize(struct cluster_lookup *a)
{
	auto_free char *body = xasprintf("{\"metadata\":{\"annotations\":{\"" ANNOTATION_POOL_NUMBER
					 "\":\"%u\"}}}",
					 a->count);
	const struct kube_request r = {.verb = KUBE_MERGE_PATCH,
				       .on = {.kind = &kube_ippools, .name = a->pool},
				       .body = span_of(body)};

	a->call = kube_send(a->c->conf.kube, &r, on_made, a);
}

void cluster_make_pool(struct cluster *c, const struct app_id *app, const char *subnet,
		       const char *ifname, uint8_t family, uint32_t count, bool reclaim)
{
	struct kube_request r = {.verb = KUBE_GET, .on = {.kind = &kube_subnets, .name = subnet}};
	auto_free char *key = auto_pool_key_of(subnet, app->uid, ifname);
	const struct pool *is = pool_for(c, key, family);
	char name[AUTO_POOL_NAME_MAX + 1];
	struct cluster_lookup *a;

	if (is && is->auto_pool_ip_count == count)
		return;
	auto_pool_name(app, ifname, family, name);
	if (is)
		str_copy(name, sizeof(name), is->name);
	for (a = c->requests; a; a = a->next)
		if (a->pool && !strcmp(a->pool, name))
			return;
	a = begin(c, app);
	a->subnet = xstrdup(subnet);
	a->ifname = xstrdup(ifname);
	a->pool = xstrdup(name);
	a->family = family;
	a->count = count;
	a->reclaim = reclaim;
	if (is)
		resize(a);
	else
		a->call = kube_send(c->conf.kube, &r, on_subnet, a);
}
