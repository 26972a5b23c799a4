/* SPDX-License-Identifier: Apache-2.0 */
/* Applications whose pod template requests pools. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "controller/subnet/internal.h"
#include "kube/kinds.h"
#include "kube/object.h"
#include "spec/annotations.h"

static const struct app_kind {
	const struct kube_kind *kind;
	const char *name;
	bool alone; /* objects that have a controller are skipped */
} kinds[SUBNETS_APP_KINDS] = {
	{&kube_deployments, "Deployment", false},
	{&kube_replicasets, "ReplicaSet", true},
	{&kube_statefulsets, "StatefulSet", false},
	{&kube_daemonsets, "DaemonSet", false},
	{&kube_jobs, "Job", true},
	{&kube_cronjobs, "CronJob", false},
	{&kube_cronjobs_beta, "CronJob", false},
};
/* Indexes in `kinds`. CRONJOBS: CronJobs of batch/v1; OLD_CRONJOBS: those of batch/v1beta1, for
 * API servers before 1.21. */
enum { CRONJOBS = 5, OLD_CRONJOBS = 6 };

static void drop(void *value)
{
	struct subnets_app *a = value;

	app_id_done(&a->id);
	auto_pool_request_done(&a->request);
	free(a->sync_error);
}

static bool has_controller(const struct json *object)
{
	struct json_walk w = json_walk_start(kube_meta(object, "ownerReferences"));
	const struct json *v;

	while ((v = json_walk_next(&w, NULL)))
		if (json_bool(json_get(v, "controller")))
			return true;
	return false;
}

static const struct json *template_of(const struct app_kind *k, const struct json *object)
{
	const struct json *spec = json_get(object, "spec");

	if (!strcmp(k->name, "CronJob"))
		spec = json_get(json_get(spec, "jobTemplate"), "spec");
	return json_get(spec, "template");
}

static int decode_as(const struct app_kind *k, struct subnets_app *a, const struct json *object,
		     struct err *e)
{
	const struct json *template = template_of(k, object), *meta = json_get(object, "metadata");
	struct labels annotations = {0};
	struct err cause = ERR_INIT;
	int r;

	if ((k->alone && has_controller(object)) ||
	    json_bool(json_get(json_get(template, "spec"), "hostNetwork")))
		return 1;
	r = labels_read(kube_meta(template, "annotations"), "spec.template.metadata.annotations",
			pod_annotation_counts, &annotations, e);
	if (r < 0)
		return r;
	r = auto_pool_request_read(&annotations, 0, &a->request, &cause);
	if (r == 1 && !labels_get(&annotations, ANNOTATION_POOL_NUMBER))
		a->request.number = UINT32_MAX; /* replaced by subnets_conf.redundant_ips */
	labels_done(&annotations);
	if (r == 0)
		return 1;
	if (r < 0)
		a->sync_error = xstrdup(cause.text);
	a->id = (struct app_id){xasprintf("%s/%s", k->kind->group, k->kind->version),
				xstrdup(k->name), xstrdup(json_text(json_get(meta, "namespace"))),
				xstrdup(json_text(json_get(meta, "name"))),
				xstrdup(json_text(json_get(meta, "uid")))};
	a->size = subnet_app_size(k->name, object);
	return 0;
}

/* Each kind has a decoder of its own, because the informer passes no argument to a decoder. */
#define DECODER(i)                                                                                 \
	static int decode_##i(void *value, const struct json *object, struct err *e)               \
	{                                                                                          \
		return decode_as(&kinds[i], value, object, e);                                     \
	}
DECODER(0)
DECODER(1)
DECODER(2)
DECODER(3)
DECODER(4)
DECODER(5)
DECODER(6)

/* Drops the last error of a deleted application, and the state of its pools. */
static void forget(struct subnets *s, const struct subnets_app *a)
{
	char name[AUTO_POOL_NAME_MAX + 1];

	subnets_forget(s, a->id.uid);
	for (size_t i = 0; i < a->request.n; i++)
		for (uint8_t family = 4; family <= 6; family += 2) {
			auto_pool_name(&a->id, a->request.v[i].ifname, family, name);
			subnets_forget(s, name);
		}
}

static void on_change(void *arg, const struct kube_object *was, const struct kube_object *is)
{
	const struct subnets_app *a = is ? is->value : NULL;

	if (was && !is)
		forget(arg, was->value);
	if (a && a->sync_error) {
		struct err e = ERR_INIT;

		err_set(&e, -EINVAL, "%s", a->sync_error);
		subnets_say(arg, a->id.uid, &a->id, "InvalidSubnetAnnotation", &e);
	}
	subnets_wake(arg, 10);
}

static void on_synced(void *arg)
{
	subnets_wake(arg, 10);
}

static void on_sync_error(void *arg, const struct err *cause)
{
	struct subnets *s = arg;

	if (cause && cause->code == -ENOENT && strstr(cause->text, "cronjobs"))
		s->old_cronjobs = true;
	else if (cause)
		log_warn("cannot watch applications, will retry", LOG_S("error", cause->text));
	subnets_wake(s, 10);
}

static void start(struct subnets *s, size_t i)
{
	static int (*const decoders[SUBNETS_APP_KINDS])(void *, const struct json *,
							struct err *) = {
		decode_0, decode_1, decode_2, decode_3, decode_4, decode_5, decode_6};
	const struct kube_informer_conf c = {.kind = kinds[i].kind,
					     .size = sizeof(struct subnets_app),
					     .decode = decoders[i],
					     .drop = drop,
					     .changed = on_change,
					     .synced = on_synced,
					     .sync_error = on_sync_error,
					     .arg = s};

	s->apps[i] = kube_informer_new(s->conf.kube, &c);
}

void subnets_apps_start(struct subnets *s)
{
	for (size_t i = 0; i < OLD_CRONJOBS; i++)
		start(s, i);
}

void subnets_apps_stop(struct subnets *s)
{
	for (size_t i = 0; i < SUBNETS_APP_KINDS; i++)
		kube_informer_free(s->apps[i]);
}

bool subnets_apps_known(struct subnets *s)
{
	bool known = true;

	if (s->old_cronjobs && !s->apps[OLD_CRONJOBS]) {
		kube_informer_free(s->apps[CRONJOBS]);
		s->apps[CRONJOBS] = NULL;
		start(s, OLD_CRONJOBS);
	}
	for (size_t i = 0; i < SUBNETS_APP_KINDS; i++)
		known &= !s->apps[i] || kube_informer_synced(s->apps[i]);
	return known;
}

/* --- requests for a subnet that does not exist, is being deleted or has the other IP version
 * --- */

static int check_subnet(const struct subnets *s, const char *name, uint8_t family, struct err *e)
{
	const struct kube_object *o =
		kube_cache_get(s->conf.cache->objects, CLUSTER_CACHE_SUBNETS, "", name);
	int is = o && strchr(subnets_spec(o, "subnet"), ':') ? 6 : 4;

	if (!o)
		return err_kind(
			e, ERR_CONF, -ENOENT,
			"SpiderSubnet '%s' does not exist: create it, or name another SpiderSubnet "
			"in the pod template's annotation",
			name);
	if (cluster_cache_object(o)->deleting)
		return err_kind(e, ERR_CONF, -ENOENT,
				"SpiderSubnet '%s' is being deleted: name another SpiderSubnet in "
				"the pod template's annotation",
				name);
	if (is != family)
		return err_kind(e, ERR_CONF, -EINVAL,
				"SpiderSubnet '%s' is named for IPv%u and has addresses of IPv%d: "
				"name it under \"ipv%d\" in the pod template's annotation",
				name, family, is, is);
	return 0;
}

static void check_nic(struct subnets *s, const struct subnets_app *a, const char *ifname,
		      const char *subnet, uint8_t family)
{
	char name[AUTO_POOL_NAME_MAX + 1];
	struct err e = ERR_INIT;

	if (!subnet || check_subnet(s, subnet, family, &e) == 0)
		return;
	auto_pool_name(&a->id, ifname, family, name);
	subnets_say(s, name, &a->id, "SubnetPoolFailed", &e);
}

void subnets_apps_check(struct subnets *s)
{
	for (size_t kind = 0; kind < SUBNETS_APP_KINDS; kind++)
		for (size_t i = 0; i < subnets_app_count(s, kind); i++) {
			const struct subnets_app *a = subnets_app_at(s, kind, i);

			for (size_t n = 0; n < a->request.n; n++) {
				const struct auto_nic *nic = &a->request.v[n];

				check_nic(s, a, nic->ifname, nic->subnet4, 4);
				check_nic(s, a, nic->ifname, nic->subnet6, 6);
			}
		}
}

/* --- lookup of applications --- */

size_t subnets_app_count(const struct subnets *s, size_t kind)
{
	return s->apps[kind] ? kube_informer_count(s->apps[kind]) : 0;
}

const struct subnets_app *subnets_app_at(const struct subnets *s, size_t kind, size_t i)
{
	return kube_informer_at(s->apps[kind], i)->value;
}

const struct subnets_app *subnets_app_find(const struct subnets *s, const struct app_id *id)
{
	for (size_t i = 0; i < SUBNETS_APP_KINDS; i++) {
		const struct kube_object *o;

		if (!s->apps[i] || strcmp(kinds[i].name, id->kind) != 0 || !app_id_is_known(id))
			continue;
		o = kube_informer_get(s->apps[i], id->ns, id->name);
		return o ? o->value : NULL;
	}
	return NULL;
}
