/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/num.h"
#include "ipam/pool/pool_cluster.h"
#include "kube/informer.h"
#include "kube/kinds.h"
#include "spec/annotations.h"

static struct ipam *store_open(struct fleet_node *n)
{
	auto_free char *adopt = xasprintf("%s/none", fleet.dir);
	struct ipam_paths paths = {.state_dir = n->dir,
				   .pool_dir = fleet.pool_dir,
				   .hostlocal_dir = adopt,
				   .node = n->name};
	struct ipam *i = NULL;
	struct err e = ERR_INIT;

	if (ipam_open(&i, fleet.root, &paths, &e) < 0)
		fleet_die(n->name, &e);
	return i;
}

/* Limits every pool to the addresses that this node may allocate. */
static void cut_pools(struct fleet_node *n)
{
	for (size_t k = 0; k < n->pools.set.n; k++) {
		struct pool *p = &n->pools.set.v[k];

		ip_set_done(&p->usable);
		p->usable = (struct ip_set){0};
		blocks_usable(n->blocks, p->name, &n->whole.set.v[k].usable, &p->usable);
	}
}

static int allocate(struct fleet_node *n, struct fleet_pod *p, struct ipam *i, struct err *e)
{
	size_t rails = n->pools.set.n, n_allocations;
	auto_free struct ip_request *requests = xcalloc(rails, sizeof(*requests));
	auto_free char *id = xasprintf("%s-%llu", n->name, (unsigned long long)p->id);
	auto_free const char **names = xcalloc(rails, sizeof(*names));
	auto_free char(*ifnames)[24] = xcalloc(rails, sizeof(*ifnames));
	struct ip_allocation *allocations;
	int r;

	for (size_t k = 0; k < rails; k++) {
		names[k] = n->pools.set.v[k].name;
		snprintf(ifnames[k], sizeof(ifnames[k]), "net%zu", k + 1);
		requests[k].owner = (struct ipam_owner){.container_id = id,
							.ifname = ifnames[k],
							.pod_namespace = "fleet",
							.pod_name = id,
							.pod_uid = id};
		requests[k].pools4 = &names[k];
		requests[k].n_pools4 = 1;
	}
	r = ipam_allocate(i, requests, rails, &allocations, &n_allocations, e);
	if (r >= 0)
		ip_allocations_free(allocations, n_allocations);
	return r;
}

static bool try_pod(struct fleet_node *n, struct fleet_pod *p)
{
	struct ipam *i = store_open(n);
	struct err e = ERR_INIT;
	int r;

	cut_pools(n);
	ipam_attach_pools(i, &n->pools);
	r = allocate(n, p, i, &e);
	ipam_detach_pools(i, &n->pools);
	if (r >= 0)
		blocks_leases(n->blocks, ipam_leases(i));
	ipam_close(i);
	if (r >= 0) {
		p->there = true;
		fleet_took(p);
	} else {
		str_copy(fleet.error, sizeof(fleet.error), e.text);
	}
	return r >= 0;
}

static void set_wants(struct fleet_node *n)
{
	for (size_t k = 0; k < n->whole.set.n; k++)
		blocks_want(n->blocks, n->whole.set.v[k].name, (uint32_t)n->waiting);
}

static void on_retry(void *arg)
{
	struct fleet_node *n = arg;
	size_t waiting = n->waiting;

	n->retry = NULL;
	for (size_t k = 0; k < n->n_pods && n->waiting; k++) {
		if (n->pods[k].there)
			continue;
		if (!try_pod(n, &n->pods[k]))
			break;
		n->waiting--;
	}
	if (n->waiting != waiting)
		set_wants(n);
}

static void on_changed(void *arg, const char *pool)
{
	struct fleet_node *n = arg;

	(void)pool;
	if (n->waiting && !n->retry)
		n->retry = loop_add_timer(fleet.loop, 0, on_retry, n);
}

static void set_cut(struct pool *p, uint8_t prefix)
{
	struct err e = ERR_INIT;

	if (block_cut_choose(&p->subnet, prefix, false, &p->cut, &e) < 0)
		fleet_die(p->name, &e);
	p->cut_is_written = true;
}

/* Reads the block size of a pool object into *value; 0: the object has no block size yet. */
static int decode_pool(void *value, const struct json *object, struct err *e)
{
	const struct json *meta = json_get(object, "metadata");
	const char *text =
		json_string(json_get(json_get(meta, "annotations"), ANNOTATION_BLOCK_PREFIX));
	uint64_t n = 0;

	if (text && num_u64(span_of(text), 1, 128, &n) < 0)
		return err_set(e, -EBADMSG, "annotation is '%s'", text);
	*(uint8_t *)value = (uint8_t)n;
	return 0;
}

static void on_pool(void *arg, const struct kube_object *was, const struct kube_object *is)
{
	struct fleet_node *n = arg;

	(void)was;
	for (size_t k = 0; is && k < n->whole.set.n; k++) {
		const uint8_t *prefix = is->value;

		if (strcmp(n->whole.set.v[k].name, is->name) != 0 || !*prefix)
			continue;
		set_cut(&n->whole.set.v[k], *prefix);
		blocks_pools(n->blocks, &n->whole.set);
	}
}

static const char *pool_version(void *arg, const char *pool)
{
	const struct fleet_node *n = arg;
	const struct kube_object *o = n->watch ? kube_informer_get(n->watch, "", pool) : NULL;

	return o ? o->version : NULL;
}

/* Starts the watch from which the node learns the block sizes of the pools. */
static void watch_pools(struct fleet_node *n)
{
	const struct kube_informer_conf c = {.kind = &kube_ippools,
					     .size = sizeof(uint8_t),
					     .decode = decode_pool,
					     .changed = on_pool,
					     .arg = n};

	n->watch = kube_informer_new(n->kube, &c);
}

static void share_up(struct fleet_node *n)
{
	const struct blocks_conf c = {.kube = n->kube,
				      .root = fleet.root,
				      .state_dir = n->dir,
				      .node = n->name,
				      .node_uid = n->name,
				      .idle_ms = fleet.idle_ms,
				      .changed = on_changed,
				      .pool_version = pool_version,
				      .arg = n};
	struct err e = ERR_INIT;
	struct ipam *i;

	if (ipam_pools_read(&n->whole, fleet.root, fleet.pool_dir, &e) < 0 ||
	    ipam_pools_read(&n->pools, fleet.root, fleet.pool_dir, &e) < 0 ||
	    blocks_new(&n->blocks, &c, &e) < 0)
		fleet_die(n->name, &e);
	for (size_t k = 0; k < n->whole.set.n && fleet.cut; k++)
		set_cut(&n->whole.set.v[k], 28);
	i = store_open(n);
	blocks_pools(n->blocks, &n->whole.set);
	blocks_leases(n->blocks, ipam_leases(i));
	ipam_close(i);
	if (!fleet.cut)
		watch_pools(n);
	set_wants(n);
}

void fleet_node_up(struct fleet_node *n)
{
	const char *tokens = getenv("FLEET_TOKENS");

	n->conf = *fleet.conf;
	if (tokens) {
		snprintf(n->token, sizeof(n->token), "%s/%s.token", tokens, n->name);
		n->conf.token_file = n->token;
	}
	n->kube = kube_new(fleet.loop, fleet.root, &n->conf, &(struct kube_settings){0});
	n->down = false;
	if (!fleet.shared)
		share_up(n);
	else if (ipam_pools_read(&n->whole, fleet.root, fleet.pool_dir, NULL) < 0)
		abort();
}

void fleet_node_down(struct fleet_node *n)
{
	if (n->down)
		return;
	loop_del_timer(n->retry);
	n->retry = NULL;
	kube_informer_free(n->watch);
	n->watch = NULL;
	blocks_free(n->blocks);
	n->blocks = NULL;
	kube_free(n->kube);
	ipam_pools_done(&n->whole);
	ipam_pools_done(&n->pools);
	n->down = true;
}

void fleet_node_add(struct fleet_node *n)
{
	struct fleet_pod *p = &VEC_PUSH(n->pods, n->n_pods);

	p->id = n->next++;
	p->asked_us = now_mono_us();
	if (fleet.shared) {
		n->waiting++;
		fleet_shared_add(n, p);
	} else if (!n->waiting && try_pod(n, p)) {
		fleet.at_once++;
	} else {
		n->waiting++;
		set_wants(n);
	}
}

static void release(struct fleet_node *n, const struct fleet_pod *p)
{
	auto_free char *id = xasprintf("%s-%llu", n->name, (unsigned long long)p->id);
	struct ipam *i = store_open(n);
	struct err e = ERR_INIT;

	if (ipam_release(i, id, NULL, &e) < 0)
		fleet_die(n->name, &e);
	if (n->blocks)
		blocks_leases(n->blocks, ipam_leases(i));
	ipam_close(i);
}

void fleet_node_del(struct fleet_node *n)
{
	struct fleet_pod p;

	if (!n->n_pods)
		return;
	p = n->pods[0];
	memmove(n->pods, n->pods + 1, --n->n_pods * sizeof(p));
	if (p.there)
		release(n, &p);
	else
		n->waiting--;
	if (n->blocks)
		set_wants(n);
}

/* Lists the addresses that the node's journal has as allocated: those of its pods. */
void fleet_node_print(struct fleet_node *n, FILE *out)
{
	struct ipam *i = store_open(n);
	const struct lease_table *t = ipam_leases(i);
	char text[IP_TEXT_MAX];

	for (size_t k = 0; k < t->n; k++)
		if (t->v[k].state == LEASE_USED)
			fprintf(out, "%s %s\n", n->name, ip_str(&t->v[k].address.ip, text));
	ipam_close(i);
}
