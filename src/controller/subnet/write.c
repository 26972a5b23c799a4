/* SPDX-License-Identifier: Apache-2.0 */
/* Creates, updates and deletes pools. */
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "controller/subnet/internal.h"
#include "kube/kinds.h"
#include "kube/object.h"
#include "kube/patch.h"
#include "spec/annotations.h"

void subnets_body(struct subnets_body *x, const char *version)
{
	buf_init(&x->b, SUBNETS_BODY_MAX);
	jo_init(&x->o, &x->b, 0);
	if (version)
		kube_patch_begin(&x->o, version);
	else
		jo_obj(&x->o);
}

void subnets_put_owner(struct json_out *o, const struct kube_object *subnet)
{
	jo_obj(o);
	jo_kstr(o, "apiVersion", SPIDERPOOL_API);
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

/* returns the number as in the annotation, "5" or "+2"; the caller frees it */
static char *number_text(const struct subnets *s, const struct auto_pool_request *w)
{
	if (w->fixed)
		return xasprintf("%u", w->number);
	return xasprintf("+%u", w->number == UINT32_MAX ? s->conf.redundant_ips : w->number);
}

static void put_metadata(struct subnets *s, struct json_out *o, const struct kube_object *subnet,
			 const struct subnets_target *t)
{
	auto_free char *number = number_text(s, t->request);
	char cidr[IP_TEXT_MAX];
	struct labels l = {0};

	auto_pool_labels(t->app, subnet->name,
			 subnets_cidr(json_get(cluster_cache_json(subnet), "spec"), cidr),
			 t->ifname, t->request->reclaim, &l);
	jo_key(o, "metadata");
	jo_obj(o);
	jo_kstr(o, "name", t->name);
	jo_key(o, "labels");
	put_labels(o, &l);
	auto_pool_put_annotations(t->app, number, o);
	jo_key(o, "finalizers");
	jo_arr(o);
	jo_str(o, SPIDERPOOL_FINALIZER);
	jo_end_arr(o);
	jo_key(o, "ownerReferences");
	jo_arr(o);
	subnets_put_owner(o, subnet);
	jo_end_arr(o);
	jo_end_obj(o);
	labels_done(&l);
}

static void put_spec(struct json_out *o, const struct kube_object *subnet,
		     const struct subnets_target *t, const struct subnet_entry *x)
{
	const struct json *spec = json_get(cluster_cache_json(subnet), "spec");
	char cidr[IP_TEXT_MAX];
	struct labels l = {0};

	app_id_labels(t->app, &l);
	jo_key(o, "spec");
	jo_obj(o);
	jo_kint(o, "ipVersion", x->ips.family);
	jo_kstr(o, "subnet", subnets_cidr(spec, cidr));
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
	struct kube_request r = {.verb = KUBE_CREATE, .on = {.kind = &kube_ippools}};
	struct subnets_body b;

	subnets_body(&b, NULL);
	jo_kstr(&b.o, "apiVersion", SPIDERPOOL_API);
	jo_kstr(&b.o, "kind", "SpiderIPPool");
	put_metadata(s, &b.o, subnet, t);
	put_spec(&b.o, subnet, t, x);
	jo_end_obj(&b.o);
	r.on.name = t->name;
	r.body = buf_span(&b.b);
	subnets_send(s, SUBNETS_POOL, &r);
	s->created++;
	buf_done(&b.b);
}

/*
 * The patch tests uid and spec.ips, not the resourceVersion, which changes with every status
 * update.
 */
void subnets_set_ips(struct subnets *s, const struct kube_object *pool,
		     const struct subnet_entry *x)
{
	const struct json *spec = json_get(cluster_cache_json(pool), "spec");
	const struct json *ips = json_get(spec, "ips");
	struct kube_request r = {.verb = KUBE_JSON_PATCH,
				 .on = {.kind = &kube_ippools, .name = pool->name}};
	struct kube_patch p;

	kube_patch_init(&p);
	jo_str(kube_patch_add(&p, "test", "metadata", "uid", NULL), pool->uid);
	if (ips)
		jo_val(kube_patch_add(&p, "test", "spec", "ips", NULL), ips, false);
	subnet_put_set(kube_patch_add(&p, "add", "spec", "ips", NULL), &x->ips);
	if (json_len(json_get(spec, "excludeIPs")))
		kube_patch_add(&p, "remove", "spec", "excludeIPs", NULL);
	r.body = kube_patch_end(&p);
	subnets_send(s, SUBNETS_POOL, &r);
	s->resized++;
	kube_patch_done(&p);
}

bool subnets_set_labels(struct subnets *s, const struct kube_object *pool,
			const struct subnets_target *t)
{
	const char *uid = subnets_label(pool, LABEL_OWNER_UID);
	const char *reclaim = subnets_label(pool, ANNOTATION_POOL_RECLAIM);
	const char *number =
		json_string(json_get(subnets_meta(pool, "annotations"), ANNOTATION_POOL_NUMBER));
	struct kube_request r = {.verb = KUBE_MERGE_PATCH,
				 .on = {.kind = &kube_ippools, .name = pool->name}};
	auto_free char *wanted = number_text(s, t->request);
	struct subnets_body b;

	if (!strcmp(uid, t->app->uid) && number && !strcmp(number, wanted) && reclaim &&
	    !strcmp(reclaim, t->request->reclaim ? "true" : "false"))
		return false;
	subnets_body(&b, NULL);
	jo_key(&b.o, "metadata");
	jo_obj(&b.o);
	jo_kstr(&b.o, "uid", pool->uid);
	jo_key(&b.o, "labels");
	jo_obj(&b.o);
	jo_kstr(&b.o, LABEL_OWNER_UID, t->app->uid);
	jo_kstr(&b.o, ANNOTATION_POOL_RECLAIM, t->request->reclaim ? "true" : "false");
	jo_end_obj(&b.o);
	jo_key(&b.o, "annotations");
	jo_obj(&b.o);
	jo_kstr(&b.o, ANNOTATION_POOL_NUMBER, wanted);
	jo_end_obj(&b.o);
	jo_end_obj(&b.o);
	jo_end_obj(&b.o);
	r.body = buf_span(&b.b);
	subnets_send(s, SUBNETS_POOL, &r);
	buf_done(&b.b);
	return true;
}

void subnets_delete_pool(struct subnets *s, const struct kube_object *pool, const char *cause)
{
	struct kube_request r = {.verb = KUBE_DELETE,
				 .on = {.kind = &kube_ippools, .name = pool->name},
				 .uid = pool->uid};

	log_info("deleting a pool of a subnet", LOG_S("pool", pool->name), LOG_S("reason", cause));
	subnets_send(s, SUBNETS_POOL, &r);
	s->deleted++;
}
