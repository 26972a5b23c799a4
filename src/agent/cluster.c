/* SPDX-License-Identifier: Apache-2.0 */
/* The watches, and what is said when one does not work. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/cluster_priv.h"
#include "base/cleanup.h"
#include "base/log.h"

static const char *plural(enum cluster_kind kind)
{
	return cluster_decoders[kind].kind->plural;
}

/* --- trouble --- */

/* The client says itself when the server is not reached: not seven times more. */
static bool is_told(const struct err *why)
{
	return why->kind == ERR_AGAIN;
}

static void say_trouble(enum cluster_kind kind, const struct err *why)
{
	const struct kube_kind *k = cluster_decoders[kind].kind;
	auto_free char *what = NULL;

	if (why->code == -ENOENT && cluster_decoders[kind].ours)
		what = xasprintf("the API server does not know %s.%s: install the definitions "
				 "(kubectl apply -f deploy/crds); it is asked again",
				 k->plural, k->group);
	else if (why->code == -ENOENT)
		what = xasprintf("the API server does not know %s.%s; it is asked again", k->plural,
				 k->group);
	else if (why->code == -EPERM)
		what = xasprintf("the agent may not read %s: allow 'get', 'list' and 'watch' of "
				 "%s%s%s (deploy/agent.yaml has the rules)",
				 k->plural, k->plural, *k->group ? "." : "", k->group);
	else
		what = xasprintf("%s are not followed for now", k->plural);
	log_error(what, LOG_S("error", why->text));
}

static void on_trouble(void *arg, const struct err *why)
{
	struct cluster_watch *w = arg;

	if (why) {
		w->why = *why;
		if (!is_told(why))
			say_trouble(w->kind, why);
		return;
	}
	if (!is_told(&w->why))
		log_info("followed now", LOG_S("kind", plural(w->kind)));
	err_clear(&w->why);
}

/* --- changes --- */

static void on_changed(void *arg, const struct kube_object *was, const struct kube_object *is)
{
	struct cluster_watch *w = arg;
	struct cluster *c = w->c;

	if (w->kind == CLUSTER_PODS && c->conf.pod_changed)
		c->conf.pod_changed(c->conf.arg, was ? was->value : NULL, is ? is->value : NULL);
	if (w->kind != CLUSTER_POOLS && w->kind != CLUSTER_RESERVED)
		return;
	/* What allocation writes into a pool's status is none of our business. */
	if (was && is) {
		const struct cluster_spec *a = was->value, *b = is->value;

		if (strcmp(a->text, b->text) == 0)
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
	w->i = kube_informer_new(c->conf.kube, &conf);
}

struct cluster *cluster_new(const struct cluster_conf *conf)
{
	struct cluster *c = xcalloc(1, sizeof(*c));

	c->conf = *conf;
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
	for (int k = 0; k < CLUSTER_KINDS; k++)
		kube_informer_free(c->watch[k].i);
	cluster_pools_close(c);
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
	const struct cluster_watch *w = &c->watch[kind];

	if (w->why.code == 0 && cluster_synced(c, kind))
		return 0;
	if (w->why.code == 0)
		return err_kind(e, ERR_AGAIN, -EAGAIN, "%s are not read from the API server yet",
				plural(kind));
	return err_kind(e, ERR_AGAIN, w->why.code, "%s are not known: %s", plural(kind),
			w->why.text);
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

const struct labels *cluster_node_labels(const struct cluster *c)
{
	return value_of(c, CLUSTER_NODE, "", c->conf.node);
}

const char *cluster_node_uid(const struct cluster *c)
{
	const struct kube_object *o = kube_informer_get(c->watch[CLUSTER_NODE].i, "", c->conf.node);

	return o ? o->uid : NULL;
}

const struct cluster_nad *cluster_nad(const struct cluster *c, const char *ns, const char *name)
{
	return value_of(c, CLUSTER_NADS, ns, name);
}

const struct coordinator_settings *cluster_coordinator(const struct cluster *c)
{
	return value_of(c, CLUSTER_COORDINATORS, "", "default");
}
