/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's periodic passes over the journal and the pods of its node: a tenant may bind any
 * number of pods to one node, and may leave any number of pod names with retained addresses. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/cluster/internal.h"
#include "agent/gc/gc.h"
#include "agent/gc/retained.h"
#include "agent/migration/internal.h"
#include "base/alloc.h"
#include "growth.h"
#include "ipam/ipam.h"
#include "kube/internal.h"

enum { NAME = 16, ROUND_MS = 60 * 1000 };

static void touch(void *arg)
{
	(void)arg;
}

static struct ipaddr address(size_t i)
{
	return ip_from_num(4, ((u128)10 << 24) + 256 + i);
}

/* Returns a store with 2n addresses of n pods: address i and address i + n belong to the same
 * pod. `retained`: the addresses are retained for the pods' names; otherwise they are in use. */
static struct ipam *store_of(const struct growth_lab *lab, size_t n, bool retained)
{
	auto_free struct ipam_known *v = xcalloc(2 * n, sizeof(*v));
	auto_free char(*names)[NAME] = xcalloc(n, sizeof(*names));
	struct ipam *s = NULL;

	if (ipam_open(&s, lab->root, &lab->paths, NULL) < 0)
		abort();
	for (size_t i = 0; i < 2 * n; i++) {
		char *name = names[i % n];

		snprintf(name, NAME, "n%06zu", n - i % n);
		v[i].address = (struct ipnet){address(i), 8};
		v[i].pool = "a";
		v[i].owner = (struct ipam_owner){.container_id = name,
						 .ifname = i < n ? "net1" : "net2",
						 .pod_namespace = "t",
						 .pod_name = name,
						 .pod_uid = name};
		if (retained && ipam_keep(s, &v[i].address, &v[i].owner, "a", NULL) < 0)
			abort();
	}
	if (!retained && ipam_know(s, v, 2 * n, NULL) != (int)(2 * n))
		abort();
	return s;
}

/* --- pods --- */

static int decode(void *value, const struct json *object, struct err *e)
{
	return pod_facts_read(object, value, e);
}

/* Fills the cache with n pods: no pod has the name of a lease's pod, and half of the pods have
 * the UID of a lease's pod. */
static void pods_init(struct cluster *c, struct kube_informer *i, size_t n)
{
	*i = (struct kube_informer){.synced = true};
	*c = (struct cluster){
		.objects = xcalloc(1, sizeof(struct kube_cache) + sizeof(struct kube_cache_watch))};
	c->objects->conf.n = CLUSTER_PODS + 1;
	c->objects->watch[CLUSTER_PODS].informer = i;
	for (size_t k = 0; k < n; k++) {
		auto_json struct json_doc *doc = NULL;
		auto_free char *text = xasprintf(
			"{\"metadata\":{\"namespace\":\"t\",\"name\":\"vm-%06zu\",\"uid\":"
			"\"n%06zu\",\"resourceVersion\":\"1\"},\"spec\":{\"nodeName\":"
			"\"n\",\"containers\":[]}}",
			k, 2 * k);
		struct kube_object *o;

		if (json_parse(&doc, span_of(text), 4096, NULL) < 0)
			abort();
		o = kube_object_new(json_root(doc), sizeof(struct pod_facts));
		if (decode(o->value, json_root(doc), NULL) < 0)
			abort();
		free(kube_store_put(&i->store, o));
		cluster_uid_changed(c, NULL, o->value);
	}
}

static void pods_done(struct cluster *c, struct kube_informer *i)
{
	for (size_t k = 0; k < i->store.n; k++) {
		cluster_uid_changed(c, i->store.v[k]->value, NULL);
		pod_facts_done(i->store.v[k]->value);
		free(i->store.v[k]);
	}
	if (c->uids)
		abort();
	free(i->store.v);
	free(c->objects);
}

uint64_t growth_agent_gc(size_t n)
{
	struct growth_lab lab = growth_lab();
	auto_ipam struct ipam *store = store_of(&lab, n, false);
	struct kube_informer informer;
	struct cluster c;
	struct gc_conf conf = {.loop = lab.loop, .root = lab.root, .cluster = &c, .touch = touch};
	struct gc *g;
	uint64_t before;

	pods_init(&c, &informer, n);
	loop_set_now(lab.loop, 1000000);
	g = gc_new(&conf);
	before = count_work;
	for (int round = 1; round <= 3; round++) {
		loop_set_now(lab.loop, 1000000 + round * ROUND_MS);
		gc_batch(g, store);
	}
	before = count_work - before;
	gc_free(g);
	pods_done(&c, &informer);
	return before;
}

/* --- retained addresses --- */

uint64_t growth_agent_retained(size_t n)
{
	struct growth_lab lab = growth_lab();
	auto_ipam struct ipam *store = store_of(&lab, n, true);
	struct kube kube = {.loop = lab.loop};
	struct retained *k = retained_new(&(struct retained_conf){
		.kube = &kube, .node = "n", .grace_ms = 1000, .touch = touch});
	uint64_t before = count_work;

	for (int round = 0; round < 3; round++)
		retained_batch(k, store);
	before = count_work - before;
	retained_free(k);
	return before;
}

/* A block whose addresses are all released for one other node ("@node2"). */
uint64_t growth_agent_exported(size_t n)
{
	struct growth_lab lab = growth_lab();
	struct kube kube = {.loop = lab.loop};
	struct migration h = {.conf = {.kube = &kube}};
	struct block_object o = {.released = xcalloc(n, sizeof(*o.released)), .n_released = n};
	struct block_table t = {.objects = &o, .n_objects = 1};
	char to[] = "@node2";
	uint64_t before;

	for (size_t i = 0; i < n; i++)
		o.released[i] = (struct block_entry){.ip = address(i), .to = to};
	before = count_work;
	for (int round = 0; round < 3; round++)
		migration_scan(&h, &t);
	before = count_work - before;
	if (h.n_exported != n)
		abort();
	free(h.given);
	free(o.released);
	return before;
}
