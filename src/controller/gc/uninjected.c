/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/gc/uninjected.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/log.h"
#include "kube/object.h"
#include "server/prometheus.h"

struct uninjected {
	struct uninjected_conf conf;
	const struct kube_cache *gc_cache;
	uint64_t n;
};

bool uninjected_requests(unsigned int own, unsigned int ns, enum inject_key *key)
{
	for (enum inject_key k = 0; k < INJECT_KEYS; k++) {
		/*
		 * The pod's own annotation takes precedence, even if it is empty, which means that
		 * the pod requests no network.
		 */
		unsigned int from = own & INJECT_HAS(k) ? own : ns;

		if (from & INJECT_REQUESTS(k)) {
			*key = k;
			return true;
		}
	}
	return false;
}

static unsigned int ns_requests(const struct uninjected *u, const char *ns)
{
	const struct kube_object *o =
		kube_cache_get(u->conf.cache, CLUSTER_CACHE_NAMESPACES, "", ns);

	return o ? inject_requests(kube_meta(cluster_cache_json(o), "annotations")) : 0;
}

static bool is_one(const struct uninjected *u, const struct kube_object *o, enum inject_key *key)
{
	const struct gc_cache_pod *p = gc_cache_pod(o);

	return !p->networks && !p->host_network && !p->finished && !p->deleting &&
	       uninjected_requests(p->requests, ns_requests(u, o->ns), key) &&
	       u->conf.injects(u->conf.arg, o->ns);
}

static void report(struct uninjected *u, const struct kube_object *o, enum inject_key key)
{
	auto_free char *message = xasprintf(
		"annotation %s requests networks, but the pod was created without them: no "
		"webhook of unirail-controller answered at that time, or the annotation was "
		"added later; delete the pod, so that it is created again (before that: kubectl "
		"-n %s rollout status deployment/unirail-controller)",
		inject_key_name(key), u->conf.ns);

	u->n++;
	log_warn("a pod was created without the networks that it requests",
		 LOG_S("namespace", o->ns), LOG_S("pod", o->name),
		 LOG_S("annotation", inject_key_name(key)));
	kube_events_add(u->conf.events, &(struct kube_event){.api_version = "v1",
							     .kind = "Pod",
							     .ns = o->ns,
							     .name = o->name,
							     .uid = o->uid,
							     .warning = true,
							     .reason = "NetworksNotInjected",
							     .message = message});
}

void uninjected_pod(struct uninjected *u, const struct kube_object *was,
		    const struct kube_object *is)
{
	enum inject_key key;

	/*
	 * Checks only new pods, because a pod gets its annotations when it is created, and older
	 * pods were checked before. If namespaces are not listed yet, on_namespaces() checks the
	 * pod later.
	 */
	if (is && !was && kube_cache_synced(u->conf.cache, CLUSTER_CACHE_NAMESPACES) &&
	    is_one(u, is, &key))
		report(u, is, key);
}

static void on_namespaces(void *arg, const struct kube_object *was, const struct kube_object *is)
{
	struct uninjected *u = arg;
	enum inject_key key;

	if (was || is || !u->gc_cache)
		return;
	for (size_t i = 0; i < kube_cache_count(u->gc_cache, GC_CACHE_PODS); i++)
		if (is_one(u, kube_cache_at(u->gc_cache, GC_CACHE_PODS, i), &key))
			report(u, kube_cache_at(u->gc_cache, GC_CACHE_PODS, i), key);
}

void uninjected_set_cache(struct uninjected *u, const struct kube_cache *c)
{
	u->gc_cache = c;
}

struct uninjected *uninjected_new(const struct uninjected_conf *c)
{
	struct uninjected *u = xcalloc(1, sizeof(*u));

	u->conf = *c;
	kube_cache_on(c->cache, CLUSTER_CACHE_NAMESPACES, on_namespaces, u);
	return u;
}

void uninjected_free(struct uninjected *u)
{
	if (!u)
		return;
	kube_cache_off(u->conf.cache, u);
	free(u);
}

void uninjected_metrics(const struct uninjected *u, struct buf *b)
{
	sample_counter(b, "unirail_controller_pods_uninjected_total", u->n,
		       "Pods that request networks by annotation and were created without them.");
}
