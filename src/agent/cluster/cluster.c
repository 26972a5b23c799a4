/* SPDX-License-Identifier: Apache-2.0 */
/* The watches, and what is said when one does not work. */
#include <stdlib.h>
#include <string.h>

#include "agent/cluster/cluster_priv.h"
#include "base/cleanup.h"

const char *cluster_kind_name(enum cluster_kind kind)
{
	return cluster_decoders[kind].kind->plural;
}

/* --- trouble --- */

static void on_set_back(void *arg)
{
	const struct cluster_watch *w = arg;

	if (w->c->conf.set_back)
		w->c->conf.set_back(w->c->conf.arg);
}

static void on_trouble(void *arg, const struct err *why)
{
	struct cluster_watch *w = arg;

	kube_trouble_is(&w->trouble, why);
	/* None is reserved where there is no such kind. */
	if (why && why->kind != ERR_AGAIN && w->kind == CLUSTER_RESERVED)
		cluster_pools_changed(w->c);
}

/* --- changes --- */

static void know_node(struct cluster *c, const char *uid)
{
	if (c->node_uid && strcmp(c->node_uid, uid) == 0)
		return;
	free(c->node_uid);
	c->node_uid = xstrdup(uid);
	if (c->conf.node_changed)
		c->conf.node_changed(c->conf.arg, uid);
}

static void on_changed(void *arg, const struct kube_object *was, const struct kube_object *is)
{
	struct cluster_watch *w = arg;
	struct cluster *c = w->c;

	if (w->kind == CLUSTER_PODS && c->conf.pod_changed)
		c->conf.pod_changed(c->conf.arg, was ? was->value : NULL, is ? is->value : NULL);
	if (w->kind == CLUSTER_NODE && is) {
		know_node(c, is->uid);
		cluster_save_soon(c);
	}
	if (w->kind == CLUSTER_NADS && was)
		cluster_nad_spend_back(c, was);
	if (w->kind == CLUSTER_NADS && is)
		cluster_nad_spend(c, is);
	if (w->kind != CLUSTER_POOLS && w->kind != CLUSTER_RESERVED)
		return;
	/* The lines have what counts. */
	if (was && is) {
		const char *const *a = was->value, *const *b = is->value;

		if (strcmp(*a, *b) == 0)
			return;
	}
	cluster_pools_changed(c);
}

static void on_synced(void *arg)
{
	struct cluster_watch *w = arg;
	struct cluster *c = w->c;

	if (w->kind == CLUSTER_POOLS || w->kind == CLUSTER_RESERVED)
		cluster_pools_changed(c);
	if (c->conf.synced)
		c->conf.synced(c->conf.arg, w->kind);
}

/* --- life --- */

static void start(struct cluster *c, enum cluster_kind kind)
{
	const struct cluster_decoder *d = &cluster_decoders[kind];
	auto_free char *pods = xasprintf("spec.nodeName=%s", c->conf.node);
	auto_free char *node = xasprintf("metadata.name=%s", c->conf.node);
	struct cluster_watch *w = &c->watch[kind];
	struct kube_informer_conf conf = {
		.kind = d->kind,
		.cached = d->cached,
		.size = d->size,
		.decode = d->decode,
		.drop = d->drop,
		.changed = on_changed,
		.synced = on_synced,
		.set_back = on_set_back,
		.trouble = on_trouble,
		.arg = w,
	};

	if (kind == CLUSTER_PODS)
		conf.select.fields = pods;
	else if (kind == CLUSTER_NODE)
		conf.select.fields = node;
	else if (kind == CLUSTER_COORDINATORS)
		conf.select.fields = "metadata.name=default";
	*w = (struct cluster_watch){.c = c, .kind = kind};
	kube_troubles_add(&c->troubles, &w->trouble, d->kind, d->ours);
	w->i = kube_informer_new(c->conf.kube, &conf);
}

struct cluster *cluster_new(const struct cluster_conf *conf)
{
	struct cluster *c = xcalloc(1, sizeof(*c));

	c->conf = *conf;
	c->nads = cluster_nads_room;
	kube_troubles_init(&c->troubles, kube_loop(conf->kube), "agent");
	cluster_pools_open(c);
	for (int k = 0; k < CLUSTER_KINDS; k++)
		start(c, k);
	return c;
}

void cluster_free(struct cluster *c)
{
	if (!c)
		return;
	cluster_fetch_drop_all(c);
	cluster_asks_drop_all(c);
	kube_troubles_done(&c->troubles);
	cluster_pools_close(c);
	for (int k = 0; k < CLUSTER_KINDS; k++)
		kube_informer_free(c->watch[k].i);
	kube_spent_done(&c->nads);
	free(c);
}

/* --- questions --- */

bool cluster_synced(const struct cluster *c, enum cluster_kind kind)
{
	return kube_informer_synced(c->watch[kind].i);
}

int64_t cluster_behind_ms(const struct cluster *c, enum cluster_kind kind)
{
	return kube_informer_behind_ms(c->watch[kind].i);
}

int cluster_trouble(const struct cluster *c, enum cluster_kind kind, struct err *e)
{
	return kube_trouble_words(&c->watch[kind].trouble, cluster_synced(c, kind), e);
}

static const void *value_of(const struct cluster *c, enum cluster_kind kind, const char *ns,
			    const char *name)
{
	const struct kube_object *o = kube_informer_get(c->watch[kind].i, ns, name);

	return o ? o->value : NULL;
}

const struct pod_facts *cluster_pod(const struct cluster *c, const char *ns, const char *name)
{
	return value_of(c, CLUSTER_PODS, ns, name);
}

size_t cluster_pod_count(const struct cluster *c)
{
	return kube_informer_count(c->watch[CLUSTER_PODS].i);
}

const struct pod_facts *cluster_pod_at(const struct cluster *c, size_t i)
{
	return kube_informer_at(c->watch[CLUSTER_PODS].i, i)->value;
}

const struct labels *cluster_ns_labels(const struct cluster *c, const char *ns)
{
	const struct cluster_ns *v = value_of(c, CLUSTER_NAMESPACES, "", ns);

	return v ? &v->labels : NULL;
}

const struct labels *cluster_ns_annotations(const struct cluster *c, const char *ns)
{
	const struct cluster_ns *v = value_of(c, CLUSTER_NAMESPACES, "", ns);

	return v ? &v->annotations : NULL;
}

const char *cluster_ns(const struct cluster *c)
{
	return c->conf.ns;
}

const struct labels *cluster_node_labels(const struct cluster *c)
{
	const struct labels *l = value_of(c, CLUSTER_NODE, "", c->conf.node);

	return l || !c->node_uid ? l : &c->node_labels;
}

const char *cluster_node_uid(const struct cluster *c)
{
	return c->node_uid;
}

const struct cluster_nad *cluster_nad(const struct cluster *c, const char *ns, const char *name)
{
	return value_of(c, CLUSTER_NADS, ns, name);
}

const struct coordinator_settings *cluster_coordinator(const struct cluster *c)
{
	return value_of(c, CLUSTER_COORDINATORS, "", "default");
}
