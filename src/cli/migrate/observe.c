/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/migrate/api.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "kube/kinds.h"

/* --- requests --- */

static void on_answer(void *arg, int status, const struct json *v, const struct err *e)
{
	struct migrate_api *a = arg;
	auto_buf struct buf b;
	struct json_out o;

	(void)status;
	buf_init(&b, KUBE_BODY_MAX);
	if (e) {
		a->e = *e;
	} else {
		jo_init(&o, &b, 0);
		jo_val(&o, v, false);
		json_parse(&a->doc, buf_span(&b), KUBE_BODY_MAX, &a->e);
	}
	loop_stop(a->loop, 0);
}

static int finish(struct migrate_api *a, struct err *e)
{
	loop_run(a->loop);
	if (a->e.code < 0 && e)
		*e = a->e;
	return a->e.code;
}

int migrate_request(struct migrate_api *a, const struct kube_request *q, struct json_doc **ret,
		    struct err *e)
{
	int r;

	a->doc = NULL;
	err_clear(&a->e);
	kube_send(a->k, q, on_answer, a);
	r = finish(a, e);
	if (r < 0 || !ret) {
		json_free(a->doc);
		return r;
	}
	*ret = a->doc;
	return 0;
}

struct listing {
	struct migrate_api *a;
	int (*item)(void *arg, const struct json *object, struct err *e);
	void *arg;
};

static int on_item(void *arg, const struct json *object, struct err *e)
{
	struct listing *l = arg;

	return l->item(l->arg, object, e);
}

static void on_listed(void *arg, const char *version, const struct err *e)
{
	struct listing *l = arg;

	(void)version;
	if (e)
		l->a->e = *e;
	loop_stop(l->a->loop, 0);
}

int migrate_list(struct migrate_api *a, const struct kube_kind *kind,
		 const struct kube_select *select,
		 int (*item)(void *arg, const struct json *object, struct err *e), void *arg,
		 struct err *e)
{
	static const struct kube_list_ops ops = {on_item, on_listed};
	struct listing l = {a, item, arg};
	int r;

	err_clear(&a->e);
	kube_list(a->k, kind, select, KUBE_PAGE, &ops, &l);
	r = finish(a, NULL);
	if (r == -ENOENT)
		return 0;
	if (r < 0 && e)
		*e = a->e;
	return r;
}

/* --- all kinds of objects --- */

struct adding {
	struct migrate_cluster *c;
	const char *kind;
};

static int add(void *arg, const struct json *object, struct err *e)
{
	struct adding *x = arg;

	(void)e;
	migrate_add(x->c, x->kind, object);
	return 0;
}

static int add_config(struct migrate_api *a, struct migrate_cluster *c, const char *ns,
		      const char *name, struct err *e)
{
	struct json_doc *d = NULL;
	struct err own = ERR_INIT;
	int r = migrate_request(
		a,
		&(struct kube_request){.verb = KUBE_GET,
				       .on = {.kind = &kube_configmaps, .ns = ns, .name = name}},
		&d, &own);

	if (r == 0)
		migrate_add(c, "ConfigMap", json_root(d));
	else if (r != -ENOENT && e)
		*e = own;
	json_free(d);
	return r == -ENOENT ? 0 : r;
}

/* Reads the journal and the ConfigMaps that the originals' pods mount. */
static int add_configs(struct migrate_api *a, struct migrate_cluster *c, struct err *e)
{
	int r = add_config(a, c, c->ns, MIGRATE_JOURNAL, e);

	for (size_t i = 0; i < c->n_workloads && r == 0; i++) {
		const struct migrate_workload *x = &c->workloads[i];
		struct json_walk w = json_walk_start(
			migrate_at(x->v, "spec", "template", "spec", "volumes", NULL));
		const struct json *v;

		while (r == 0 && (v = json_walk_next(&w, NULL))) {
			const char *name = json_get_text(json_get(v, "configMap"), "name");

			if (*name)
				r = add_config(a, c, x->ns, name, e);
		}
	}
	return r;
}

int migrate_observe(struct migrate_api *a, const char *ns, struct migrate_cluster *ret,
		    struct err *e)
{
	static const struct {
		const char *name;
		const struct kube_kind *kind;
	} kinds[] = {
		{"DaemonSet", &kube_daemonsets},
		{"Deployment", &kube_deployments},
		{"Node", &kube_nodes},
		{"Namespace", &kube_namespaces},
		{"Pod", &kube_pods},
		{"MutatingWebhookConfiguration", &kube_mutating_webhooks},
		{"ValidatingWebhookConfiguration", &kube_validating_webhooks},
		{"CustomResourceDefinition", &kube_crds},
		{"NetworkAttachmentDefinition", &kube_nads},
		{"SpiderEndpoint", &kube_endpoints},
		/*
		 * Lists pools after endpoints. An endpoint is written after its record in the pool,
		 * so the list of pools has the records of all listed endpoints.
		 */
		{"SpiderIPPool", &kube_ippools},
	};
	int r = 0;

	*ret = (struct migrate_cluster){.ns = ns};
	for (size_t i = 0; i < ARRAY_LEN(kinds) && r == 0; i++)
		r = migrate_list(a, kinds[i].kind, &(struct kube_select){0}, add,
				 &(struct adding){ret, kinds[i].name}, e);
	if (r == 0)
		r = add_configs(a, ret, e);
	if (r == 0)
		migrate_resolve(ret);
	return r;
}
