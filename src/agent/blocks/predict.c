/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/blocks/predict.h"

#include <stdlib.h>
#include <string.h>

#include "agent/network/plan.h"
#include "base/alloc.h"
#include "ipam/select/select_pool.h"
#include "spec/annotations.h"

enum { NAD_MAX = 1 << 20 };

/* A network that the pod will get. Names of pools are borrowed from `config`. */
struct nic {
	char *ifname, *network;
	struct json_doc *config;
	const char **pools4, **pools6;
	size_t n_pools4, n_pools6;
};

struct nics {
	struct nic *v;
	size_t n;
};

static void nics_done(struct nics *l)
{
	for (size_t i = 0; i < l->n; i++) {
		free(l->v[i].ifname);
		free(l->v[i].network);
		free(l->v[i].pools4);
		free(l->v[i].pools6);
		json_free(l->v[i].config);
	}
	free(l->v);
}
#define auto_nics __attribute__((cleanup(nics_done)))

static size_t names_of(const struct json *list, const char ***ret)
{
	struct json_walk w = json_walk_start(list);
	const struct json *x;
	size_t n = 0;

	while ((x = json_walk_next(&w, NULL)))
		if (json_string(x))
			VEC_PUSH(*ret, n) = json_string(x);
	return n;
}

/* Returns the `ipam` object of a plugin configuration, or of the first plugin of a list that has
 * one. */
static const struct json *ipam_of(const struct json *config)
{
	const struct json *found = json_get_go(config, "ipam"), *x;
	struct json_walk w = json_walk_start(json_get_go(config, "plugins"));

	while (!found && (x = json_walk_next(&w, NULL)))
		found = json_get_go(x, "ipam");
	return found;
}

static void add(struct nics *l, const struct expect *x, const struct network_request *a)
{
	const struct cluster_nad *d = cluster_nad(x->cluster, a->ns, a->name);
	struct nic *n = &VEC_PUSH(l->v, l->n);
	const struct json *ipam;

	n->ifname = a->ifname ? xstrdup(a->ifname) : xasprintf("net%zu", l->n);
	n->network = xasprintf("%s/%s", a->ns, a->name);
	if (!d || !d->config || json_parse(&n->config, span_of(d->config), NAD_MAX, NULL) < 0)
		return;
	ipam = ipam_of(json_root(n->config));
	n->n_pools4 = names_of(json_get_go(ipam, "default_ipv4_ippool"), &n->pools4);
	n->n_pools6 = names_of(json_get_go(ipam, "default_ipv6_ippool"), &n->pools6);
}

static void networks_of(const struct expect *x, const struct pod_facts *pod, struct nics *l)
{
	const char *text = labels_get(&pod->annotations, ANNOTATION_NETWORKS);
	struct net_select s = {0};

	if (!text || net_select_parse(text, pod->ns, &s, NULL) < 0)
		return;
	for (size_t i = 0; i < s.n; i++)
		add(l, x, &s.v[i]);
	net_select_done(&s);
}

/* Predicts only the first pool of the list: the others are used when it is exhausted. */
static void say(const struct expect *x, const struct ip_request *a, uint8_t family)
{
	const struct select_facts f = {.pools = cluster_pools(x->cluster), .node = x->node};
	struct pool_list l;

	if (select_pools(&f, a, family, &l, NULL) < 0)
		return;
	if (l.n)
		x->pool(x->arg, l.v[0]->name);
	free(l.v);
}

static void scan(const struct expect *x, const struct pod_facts *pod, const struct nic *n,
		 const struct pod_pool_request *w)
{
	const struct place_facts place = {
		.node_labels = cluster_node_labels(x->cluster),
		.ns_labels = cluster_ns_labels(x->cluster, pod->ns),
		.ns_annotations = cluster_ns_annotations(x->cluster, pod->ns),
		.network = n->network,
	};
	struct ip_request a = {.owner = {.ifname = n->ifname}, .pod = pod, .place = &place};

	pod_pool_request_put(w, &a);
	say(x, &a, 4);
	say(x, &a, 6);
}

void expect_pod(const struct expect *x, const struct pod_facts *pod)
{
	struct pod_pools_facts f = {.pod = pod,
				    .ns_annotations = cluster_ns_annotations(x->cluster, pod->ns),
				    .conf = x->conf};
	auto_nics struct nics l = {0};
	auto_free struct pod_nic *nics = NULL;
	auto_free struct pod_pool_request *requests = NULL;

	if (pod->host_network || pod->finished || pod->deleting || !cluster_pools(x->cluster))
		return;
	networks_of(x, pod, &l);
	nics = xcalloc(l.n + 1, sizeof(*nics));
	requests = xcalloc(l.n + 1, sizeof(*requests));
	for (size_t i = 0; i < l.n; i++)
		nics[i] = (struct pod_nic){.ifname = l.v[i].ifname,
					   .position = (int)i,
					   .conf4 = l.v[i].pools4,
					   .conf6 = l.v[i].pools6,
					   .n_conf4 = l.v[i].n_pools4,
					   .n_conf6 = l.v[i].n_pools6};
	if (l.n == 0 || pod_pools_request(&f, nics, l.n, requests, NULL) < 0)
		return;
	for (size_t i = 0; i < l.n; i++) {
		scan(x, pod, &l.v[i], &requests[i]);
		pod_pool_request_done(&requests[i]);
	}
}
