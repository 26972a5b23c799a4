/* SPDX-License-Identifier: Apache-2.0 */
/* What a pod's and its namespace's annotations make of the asks that a request has. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/api/api.h"
#include "spec/net_select.h"
#include "base/cleanup.h"
#include "base/log.h"

static const struct labels no_labels;

/* --- the network of an interface --- */

/* "ns/name", "name" (in the agent's namespace, as multusName has it). */
static char *default_network(const struct api_call *c)
{
	const char *text = labels_get(&c->pod.annotations, "v1.multus-cni.io/default-network");

	if (!text || strpbrk(text, "[{,@"))
		return NULL;
	return strchr(text, '/') ? xstrdup(text)
				 : xasprintf("%s/%s", cluster_ns(c->api->conf.cluster), text);
}

/* Multus' rule: the i-th of the annotation is net<i> unless it has a name of its own. */
static char *network_of(const struct api_call *c, const char *ifname)
{
	const char *text = labels_get(&c->pod.annotations, "k8s.v1.cni.cncf.io/networks");
	struct net_select s;
	char *found = NULL;

	if (strcmp(ifname, "eth0") == 0)
		return default_network(c);
	if (!text || net_select_parse(text, c->pod.ns, &s, NULL) < 0)
		return NULL;
	for (size_t i = 0; i < s.n && !found; i++) {
		auto_free char *name = s.v[i].ifname ? xstrdup(s.v[i].ifname)
						     : xasprintf("net%zu", i + 1);

		if (strcmp(name, ifname) == 0)
			found = xasprintf("%s/%s", s.v[i].ns, s.v[i].name);
	}
	net_select_done(&s);
	return found;
}

/* --- facts --- */

static const struct labels *ns_annotations(const struct api_call *c)
{
	const struct labels *l = cluster_ns_annotations(c->api->conf.cluster, c->pod.ns);

	/* Of a pod that nobody can be asked about, as was said. */
	return l || !c->pod_is_asked ? l : &no_labels;
}

/* Interfaces of the container that have addresses, in the order in which they got them. */
static size_t held_names(struct ipam *store, const char *container, const char ***ret)
{
	const struct lease_table *t = ipam_leases(store);
	const char **v = NULL;
	size_t n = 0;

	for (size_t i = 0; i < t->n; i++) {
		const struct lease *l = &t->v[i];
		size_t k = 0;

		if (l->state != LEASE_USED || strcmp(l->container_id, container) != 0)
			continue;
		while (k < n && strcmp(v[k], l->ifname) != 0)
			k++;
		if (k == n)
			VEC_PUSH(v, n) = l->ifname;
	}
	*ret = v;
	return n;
}

static int position(struct ipam *store, const struct ipam_owner *who)
{
	auto_free const char **held = NULL;
	size_t n = held_names(store, who->container_id, &held);

	return pod_nic_position(held, n, who->ifname);
}

/* --- pools made for applications --- */

static const char *find_made(void *arg, const char *key, uint8_t family)
{
	return cluster_pool_for(arg, key, family);
}

static void make_pool(void *arg, const struct app_id *app, const char *subnet, const char *ifname,
		      uint8_t family, uint32_t count, bool reclaim)
{
	cluster_make_pool(arg, app, subnet, ifname, family, count, reclaim);
}

/* --- wishes --- */

static int ask_pools(struct api_call *c, struct ipam *store, const struct api_asks *a, size_t n,
		     bool whole, struct err *e)
{
	auto_free struct pod_nic *nics = xcalloc(n, sizeof(*nics));
	auto_free const char **names = xcalloc(n, sizeof(*names));
	const struct pod_pools_facts f = {
		.autos = {.app = c->has_app ? &c->app : NULL,
			  .find = find_made,
			  .make = make_pool,
			  .arg = c->api->conf.cluster},
		.pod = &c->pod,
		.ns_annotations = ns_annotations(c),
		.conf = c->api->conf.pools,
		.names = names,
		.n_names = whole ? n : 0,
	};

	for (size_t i = 0; i < n; i++) {
		const struct ipam_ask *x = &a->v[i];

		names[i] = x->who.ifname;
		nics[i] = (struct pod_nic){
			.ifname = x->who.ifname,
			.position = whole ? (int)i : position(store, &x->who),
			.conf4 = x->pools4,
			.conf6 = x->pools6,
			.n_conf4 = x->n_pools4,
			.n_conf6 = x->n_pools6,
			.conf_clean = x->clean_gateway,
		};
	}
	return pod_pools_ask(&f, nics, n, a->wishes, e);
}

int api_asks_make(struct api_call *c, struct ipam *store, const struct ipam_ask *asks, size_t n,
		  bool whole, struct api_asks *ret, struct err *e)
{
	struct cluster *cluster = c->api->conf.cluster;
	struct identity who;
	int r;

	*ret = (struct api_asks){.v = xcalloc(n, sizeof(*asks)),
				 .wishes = xcalloc(n, sizeof(struct pod_wish)),
				 .places = xcalloc(n, sizeof(struct place_facts)),
				 .networks = xcalloc(n, sizeof(char *)),
				 .n = n};
	memcpy(ret->v, asks, n * sizeof(*asks));
	r = pod_routes_read(&c->pod, &ret->routes, &ret->n_routes, e);
	if (r == 0)
		r = ask_pools(c, store, ret, n, whole, e);
	if (r < 0)
		return r;
	ret->wished = true;
	identity_of(&c->pod, &c->api->conf.identity, &who);
	for (size_t i = 0; i < n; i++) {
		struct ipam_ask *a = &ret->v[i];

		ret->networks[i] = network_of(c, a->who.ifname);
		ret->places[i] = (struct place_facts){
			.node_labels = cluster_node_labels(cluster),
			.ns_labels = cluster_ns_labels(cluster, c->pod.ns),
			.ns_annotations = ns_annotations(c),
			.network = ret->networks[i],
		};
		pod_wish_put(&ret->wishes[i], a);
		a->pod = &c->pod;
		a->place = &ret->places[i];
		a->who.pod_name = who.name;
		a->who.pod_uid = c->pod.uid;
		a->sticky |= identity_is_sticky(&who);
	}
	return 0;
}

void api_asks_done(struct api_asks *a)
{
	for (size_t i = 0; i < a->n; i++) {
		if (a->wished)
			pod_wish_done(&a->wishes[i]);
		free(a->networks[i]);
	}
	free(a->v);
	free(a->wishes);
	free(a->places);
	free(a->networks);
	free(a->routes);
	*a = (struct api_asks){0};
}

/* --- annotation ipam.spidernet.io/routes --- */

static size_t held_nets(struct ipam *store, const char *container, const struct ipam_grant *g,
			size_t n, struct ipnet **ret)
{
	const struct lease_table *t = ipam_leases(store);
	struct ipnet *v = NULL;
	size_t count = 0;

	for (size_t i = 0; i < t->n; i++) {
		const struct lease *l = &t->v[i];
		size_t k = 0;

		if (l->state != LEASE_USED || strcmp(l->container_id, container) != 0)
			continue;
		while (k < n && !ip_eq(&g[k].address.ip, &l->address.ip))
			k++;
		if (k == n)
			VEC_PUSH(v, count) = l->address;
	}
	*ret = v;
	return count;
}

void api_asks_routes(struct api_call *c, struct ipam *store, const struct api_asks *a,
		     struct ipam_grant *g, size_t n)
{
	auto_free struct ipnet *had = NULL;
	size_t n_had, left;

	if (a->n_routes == 0)
		return;
	n_had = held_nets(store, a->v[0].who.container_id, g, n, &had);
	left = pod_routes_give(a->routes, a->n_routes, had, n_had, g, n);
	if (left > 0)
		log_limited(LOG_INFO, 2, "routes of a pod have no interface yet",
			    LOG_S("namespace", c->pod.ns), LOG_S("pod", c->pod.name),
			    LOG_I("routes", (int64_t)left));
}
