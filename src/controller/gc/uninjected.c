/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/gc/uninjected.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/log.h"
#include "server/prometheus.h"

struct uninjected {
	struct uninjected_conf conf;
	const struct census *census;
	uint64_t n;
};

bool uninjected_asks(unsigned int own, unsigned int ns, enum inject_key *key)
{
	for (enum inject_key k = 0; k < INJECT_KEYS; k++) {
		/*
		 * The pod's own annotation takes precedence, even when empty: the pod then requests
		 * no network.
		 */
		unsigned int from = own & INJECT_HAS(k) ? own : ns;

		if (from & INJECT_ASKS(k)) {
			*key = k;
			return true;
		}
	}
	return false;
}

static unsigned int ns_asks(const struct uninjected *u, const char *ns)
{
	const struct kube_object *o = cluster_cache_get(u->conf.world, WORLD_NAMESPACES, "", ns);

	return o ? inject_asks(json_get(json_get(cluster_cache_json(o), "metadata"), "annotations"))
		 : 0;
}

static bool is_one(const struct uninjected *u, const struct kube_object *o, enum inject_key *key)
{
	const struct census_pod *p = census_pod(o);

	return !p->networks && !p->host_network && !p->finished && !p->deleting &&
	       uninjected_asks(p->asks, ns_asks(u, o->ns), key) &&
	       u->conf.injects(u->conf.arg, o->ns);
}

static void tell(struct uninjected *u, const struct kube_object *o, enum inject_key key)
{
	auto_free char *message = xasprintf(
		"annotation %s asks for networks, but the pod was created without them: no webhook of "
		"unirail-controller answered at that time; delete the pod, so that it is created again "
		"(before that: kubectl -n %s rollout status deployment/unirail-controller)",
		inject_key_name(key), u->conf.ns);

	u->n++;
	log_warn("a pod was created without the networks that it asks for", LOG_S("ns", o->ns),
		 LOG_S("pod", o->name), LOG_S("annotation", inject_key_name(key)));
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
	 * Only new pods: a pod gets its annotations when it is created, and older ones were checked
	 * before. If namespaces are not listed yet, on_namespaces() checks the pod later.
	 */
	if (is && !was && cluster_cache_synced(u->conf.world, WORLD_NAMESPACES) &&
	    is_one(u, is, &key))
		tell(u, is, key);
}

static void on_namespaces(void *arg, const struct kube_object *was, const struct kube_object *is)
{
	struct uninjected *u = arg;
	enum inject_key key;

	if (was || is || !u->census)
		return;
	for (size_t i = 0; i < census_count(u->census, CENSUS_PODS); i++)
		if (is_one(u, census_at(u->census, CENSUS_PODS, i), &key))
			tell(u, census_at(u->census, CENSUS_PODS, i), key);
}

void uninjected_census(struct uninjected *u, const struct census *c)
{
	u->census = c;
}

struct uninjected *uninjected_new(const struct uninjected_conf *c)
{
	struct uninjected *u = xcalloc(1, sizeof(*u));

	u->conf = *c;
	cluster_cache_on(c->world, WORLD_NAMESPACES, on_namespaces, u);
	return u;
}

void uninjected_free(struct uninjected *u)
{
	if (!u)
		return;
	cluster_cache_off(u->conf.world, u);
	free(u);
}

void uninjected_metrics(const struct uninjected *u, struct buf *b)
{
	sample_counter(b, "unirail_controller_pods_uninjected_total", u->n,
		       "Pods that ask for networks by annotation and were created without them.");
}
