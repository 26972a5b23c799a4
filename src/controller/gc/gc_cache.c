/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/gc/gc_cache.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "block/codec.h"
#include "controller/injection/internal.h"
#include "kube/kinds.h"
#include "kube/object.h"
#include "kube/time.h"
#include "spec/annotations.h"

#define FENCED "node.kubernetes.io/out-of-service"

enum { RESOURCES_MAX = 64 << 10 };

/* --- nodes --- */

static bool has(const struct json *list, const char *key, const char *value)
{
	struct json_walk w = json_walk_start(list);
	const struct json *v;

	while ((v = json_walk_next(&w, NULL)))
		if (strcmp(json_get_text(v, key), value) == 0)
			return true;
	return false;
}

static bool is_ready(const struct json *conditions)
{
	struct json_walk w = json_walk_start(conditions);
	const struct json *v;

	while ((v = json_walk_next(&w, NULL)))
		if (strcmp(json_get_text(v, "type"), "Ready") == 0)
			return strcmp(json_get_text(v, "status"), "True") == 0;
	return false;
}

void gc_cache_read_node(const struct json *object, struct gc_cache_node *ret)
{
	ret->ready = is_ready(json_get(json_get(object, "status"), "conditions"));
	ret->fenced = has(json_get(json_get(object, "spec"), "taints"), "key", FENCED);
}

char *gc_cache_read_resources(const struct json *object)
{
	struct json_walk w = json_walk_start(json_get(json_get(object, "status"), "capacity"));
	const struct json *v;
	const char *name;
	char *ret = NULL;
	struct buf b;

	buf_init(&b, RESOURCES_MAX);
	while ((v = json_walk_next(&w, &name)))
		if (strchr(name, '/') && json_string(v) && strcmp(json_string(v), "0") != 0)
			buf_add(&b, name, strlen(name) + 1);
	if (b.len) {
		buf_char(&b, '\0');
		ret = b.over ? NULL : buf_take(&b);
	}
	buf_done(&b);
	return ret;
}

static int read_node(void *value, const struct json *object, struct err *e)
{
	struct gc_cache_node *n = value;

	(void)e;
	gc_cache_read_node(object, n);
	n->resources = gc_cache_read_resources(object);
	return 0;
}

static void drop_node(void *value)
{
	free(((struct gc_cache_node *)value)->resources);
}

/* --- pods --- */

static int read_pod(void *value, const struct json *object, struct err *e)
{
	const char *phase = json_get_text(json_get(object, "status"), "phase");
	const struct json *spec = json_get(object, "spec");
	struct gc_cache_pod *p = value;

	(void)e;
	p->finished = strcmp(phase, "Succeeded") == 0 || strcmp(phase, "Failed") == 0;
	p->deleting = kube_meta(object, "deletionTimestamp");
	p->requests = (unsigned char)inject_requests(kube_meta(object, "annotations"));
	p->networks = *json_get_text(kube_meta(object, "annotations"), ANNOTATION_NETWORKS);
	p->host_network = json_bool(json_get(spec, "hostNetwork"));
	p->node = xstrdup(json_get_text(spec, "nodeName"));
	return 0;
}

static void drop_pod(void *value)
{
	free(((struct gc_cache_pod *)value)->node);
}

/* --- endpoints: one allocation (`all`) has the addresses, pools, UID and node of an endpoint
 * --- */

struct draft {
	struct gc_cache_ip *v;
	size_t n, text;
};

static void add_ip(struct draft *d, const struct json *v, const char *address, const char *pool)
{
	const char *text = json_string(json_get(v, address)), *of = json_string(json_get(v, pool));
	struct ipnet net;

	if (!text || !of || ipnet_parse_loose(span_of(text), &net) < 0)
		return;
	VEC_PUSH(d->v, d->n) = (struct gc_cache_ip){net.ip, of};
	d->text += strlen(of) + 1;
}

static const char *place(char **at, const char *s)
{
	size_t n = strlen(s) + 1;
	char *to = memcpy(*at, s, n);

	*at += n;
	return to;
}

static void read_current(const struct json *current, struct gc_cache_endpoint *ret)
{
	const char *uid = json_get_text(current, "uid"), *node = json_get_text(current, "node");
	struct json_walk w = json_walk_start(json_get(current, "ips"));
	struct draft d = {0};
	const struct json *v;
	char *at;

	while ((v = json_walk_next(&w, NULL))) {
		add_ip(&d, v, "ipv4", "ipv4Pool");
		add_ip(&d, v, "ipv6", "ipv6Pool");
	}
	ret->all = xmalloc(d.n * sizeof(*d.v) + d.text + strlen(uid) + strlen(node) + 2);
	if (d.n)
		memcpy(ret->all, d.v, d.n * sizeof(*d.v));
	at = (char *)ret->all + d.n * sizeof(*d.v);
	ret->v = ret->all;
	ret->n = d.n;
	ret->uid = place(&at, uid);
	ret->node = place(&at, node);
	for (size_t i = 0; i < d.n; i++)
		((struct gc_cache_ip *)ret->all)[i].pool = place(&at, d.v[i].pool);
	free(d.v);
}

/* Reads the finalizers other than Spiderpool's, for a write of the list without Spiderpool's. */
static void read_finalizers(const struct json *list, struct gc_cache_endpoint *ret)
{
	struct json_walk w = json_walk_start(list);
	const struct json *v;
	struct buf b;

	buf_init(&b, GC_FINALIZERS_MAX);
	while ((v = json_walk_next(&w, NULL)))
		if (json_string(v) && strcmp(json_string(v), SPIDERPOOL_FINALIZER) == 0)
			ret->finalizer = true;
		else if (json_string(v))
			buf_add(&b, json_string(v), strlen(json_string(v)) + 1);
	buf_char(&b, '\0');
	/* A list that is too long cannot be written back, so Spiderpool's finalizer stays. */
	ret->finalizer = ret->finalizer && !b.over;
	if (ret->finalizer)
		ret->other_finalizers = buf_take(&b);
	buf_done(&b);
}

void gc_cache_read_endpoint(const struct json *object, struct gc_cache_endpoint *ret)
{
	ret->by_unirail = json_get(kube_meta(object, "labels"), LABEL_NODE);
	ret->owned = has(kube_meta(object, "ownerReferences"), "kind", "Pod");
	ret->deleting = kube_meta(object, "deletionTimestamp");
	read_finalizers(kube_meta(object, "finalizers"), ret);
	read_current(json_get(json_get(object, "status"), "current"), ret);
}

void gc_cache_endpoint_done(struct gc_cache_endpoint *p)
{
	free(p->all);
	free(p->other_finalizers);
}

static int read_endpoint(void *value, const struct json *object, struct err *e)
{
	(void)e;
	gc_cache_read_endpoint(object, value);
	return 0;
}

static void drop_endpoint(void *value)
{
	gc_cache_endpoint_done(value);
}

/* --- blocks --- */

static int read_block(void *value, const struct json *object, struct err *e)
{
	const char *at =
		json_string(json_get(kube_meta(object, "annotations"), ANNOTATION_ETCD_RESTORED));
	struct gc_cache_block *b = value;

	if (!at || kube_time_parse(at, &b->etcd_restored) < 0)
		b->etcd_restored = 0;
	return block_object_read(object, &b->o, e);
}

static void drop_block(void *value)
{
	block_object_done(&((struct gc_cache_block *)value)->o);
}

/* --- watches --- */

static const struct kube_cache_kind kinds[GC_CACHE_KINDS] = {
	[GC_CACHE_NODES] = {.kind = &kube_nodes,
			    .size = sizeof(struct gc_cache_node),
			    .decode = read_node,
			    .drop = drop_node,
			    .cached = true},
	[GC_CACHE_PODS] = {.kind = &kube_pods,
			   .size = sizeof(struct gc_cache_pod),
			   .decode = read_pod,
			   .drop = drop_pod,
			   .cached = true},
	[GC_CACHE_ENDPOINTS] = {.kind = &kube_endpoints,
				.size = sizeof(struct gc_cache_endpoint),
				.decode = read_endpoint,
				.drop = drop_endpoint,
				.cached = true,
				.own_crd = true},
	[GC_CACHE_BLOCKS] = {.kind = &kube_ipblocks,
			     .size = sizeof(struct gc_cache_block),
			     .decode = read_block,
			     .drop = drop_block,
			     .cached = true,
			     .own_crd = true},
};

static void on_sync_error(void *arg, int kind, const struct err *reason)
{
	const struct kube_kind *k = kinds[kind].kind;

	(void)arg;
	if (!reason)
		log_info("kube: watching again", LOG_S("kind", k->plural));
	else if (reason->code == -EPERM)
		log_error("the controller has no permission to read a kind of object: allow its "
			  "account to 'list' and 'watch' the kind (deploy/controller.yaml); pool "
			  "counters and gc are suspended meanwhile",
			  LOG_S("kind", k->plural), LOG_S("group", k->group),
			  LOG_S("error", reason->text));
	else
		log_warn("kube: list or watch failed, will retry", LOG_S("kind", k->plural),
			 LOG_S("error", reason->text));
}

struct kube_cache *gc_cache_new(struct kube *k, gc_cache_fn changed, void *arg)
{
	return kube_cache_new(&(struct kube_cache_conf){.kube = k,
							.kinds = kinds,
							.n = GC_CACHE_KINDS,
							.changed = changed,
							.sync_error = on_sync_error,
							.arg = arg});
}
