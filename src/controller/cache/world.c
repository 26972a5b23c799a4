/* SPDX-License-Identifier: Apache-2.0 */
/* The watches, who is told of a change, and what is said when a watch does not work. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "controller/cache/world_priv.h"
#include "kube/kinds.h"

static const struct kube_kind *const kinds[WORLD_KINDS] = {
	[WORLD_POOLS] = &kube_ippools,
	[WORLD_SUBNETS] = &kube_subnets,
	[WORLD_RESERVED] = &kube_reservedips,
	[WORLD_MULTUSCONFIGS] = &kube_multusconfigs,
	[WORLD_COORDINATORS] = &kube_coordinators,
	[WORLD_NADS] = &kube_nads,
	[WORLD_NAMESPACES] = &kube_namespaces,
};

const char *world_kind_name(enum world_kind kind)
{
	return kinds[kind]->plural;
}

/* --- objects --- */

#define DECODE(name, kind)                                                                         \
	static int name(void *value, const struct json *object, struct err *e)                     \
	{                                                                                          \
		return world_decode(kind, value, object, e);                                       \
	}
DECODE(read_pool, WORLD_POOLS)
DECODE(read_namespace, WORLD_NAMESPACES)
DECODE(read_config, WORLD_MULTUSCONFIGS)
DECODE(read_nad, WORLD_NADS)
DECODE(read_other, WORLD_RESERVED)

static void drop(void *value)
{
	json_free(((struct world_object *)value)->doc);
}

/* --- trouble --- */

static void on_set_back(void *arg)
{
	world_set_back(((struct world_watch *)arg)->w, now_real_ms());
}

static void on_trouble(void *arg, const struct err *why)
{
	kube_trouble_is(&((struct world_watch *)arg)->trouble, why);
}

/* --- who is told --- */

static void tell(struct world_watch *v, const struct kube_object *was, const struct kube_object *is)
{
	for (size_t i = 0, n = v->n; i < n; i++)
		if (v->v[i].fn)
			v->v[i].fn(v->v[i].arg, was, is);
}

static void on_changed(void *arg, const struct kube_object *was, const struct kube_object *is)
{
	struct world_watch *v = arg;

	if (was)
		world_spend_back(v->w, v->kind, was);
	if (is)
		world_spend(v->w, v->kind, is);
	tell(v, was, is);
}

static void on_synced(void *arg)
{
	tell(arg, NULL, NULL);
}

void world_on(struct world *w, enum world_kind kind, world_fn fn, void *arg)
{
	struct world_watch *v = &w->watch[kind];

	for (size_t i = 0; i < v->n; i++)
		if (!v->v[i].fn) {
			v->v[i] = (struct world_listener){fn, arg};
			return;
		}
	VEC_PUSH(v->v, v->n) = (struct world_listener){fn, arg};
}

void world_off(struct world *w, const void *arg)
{
	for (int k = 0; k < WORLD_KINDS; k++)
		for (size_t i = 0; i < w->watch[k].n; i++)
			if (w->watch[k].v[i].arg == arg)
				w->watch[k].v[i] = (struct world_listener){0};
}

/* --- life --- */

static void start(struct world *w, enum world_kind kind)
{
	struct world_watch *v = &w->watch[kind];

	*v = (struct world_watch){.w = w, .kind = kind};
	kube_troubles_add(&w->troubles, &v->trouble, kinds[kind], true);
	v->i = kube_informer_new(w->kube,
				 &(struct kube_informer_conf){
					 .kind = kinds[kind],
					 .size = sizeof(struct world_object),
					 .decode = kind == WORLD_POOLS		 ? read_pool
						   : kind == WORLD_NAMESPACES	 ? read_namespace
						   : kind == WORLD_MULTUSCONFIGS ? read_config
						   : kind == WORLD_NADS		 ? read_nad
										 : read_other,
					 .drop = drop,
					 .changed = on_changed,
					 .synced = on_synced,
					 .set_back = on_set_back,
					 .trouble = on_trouble,
					 .arg = v,
				 });
}

struct world *world_new(struct kube *k)
{
	struct world *w = xcalloc(1, sizeof(*w));

	w->kube = k;
	w->spent = (struct kube_spent){WORLD_NS_MAX, WORLD_TOTAL_MAX, WORLD_SMALL, NULL, 0, 0};
	kube_troubles_init(&w->troubles, kube_loop(k), "controller");
	for (int kind = 0; kind < WORLD_KINDS; kind++)
		start(w, kind);
	return w;
}

void world_free(struct world *w)
{
	if (!w)
		return;
	kube_troubles_done(&w->troubles);
	for (int k = 0; k < WORLD_KINDS; k++) {
		kube_informer_free(w->watch[k].i);
		free(w->watch[k].v);
	}
	kube_spent_done(&w->spent);
	free(w);
}

/* --- questions --- */

bool world_synced(const struct world *w, enum world_kind kind)
{
	return kube_informer_synced(w->watch[kind].i);
}

int world_trouble(const struct world *w, enum world_kind kind, struct err *e)
{
	return kube_trouble_words(&w->watch[kind].trouble, world_synced(w, kind), e);
}

const struct kube_object *world_get(const struct world *w, enum world_kind kind, const char *ns,
				    const char *name)
{
	return kube_informer_get(w->watch[kind].i, ns, name);
}

size_t world_count(const struct world *w, enum world_kind kind)
{
	return kube_informer_count(w->watch[kind].i);
}

const struct kube_object *world_at(const struct world *w, enum world_kind kind, size_t i)
{
	return kube_informer_at(w->watch[kind].i, i);
}
