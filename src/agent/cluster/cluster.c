/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "agent/cluster/internal.h"
#include "base/alloc.h"
#include "base/log.h"
#include "ipam/pool/pool_cluster.h"
#include "kube/kinds.h"
#include "kube/object.h"
#include "spec/annotations.h"

/* --- restores of etcd, errors of watches --- */

static void on_etcd_restored(void *arg)
{
	const struct cluster *c = arg;

	if (c->conf.etcd_restored)
		c->conf.etcd_restored(c->conf.arg);
}

static void on_sync_error(void *arg, int kind, const struct err *reason)
{
	/* if the CRD of reserved addresses does not exist, the pool set is built without
	 * reserved addresses */
	if (reason && reason->kind != ERR_AGAIN && kind == CLUSTER_RESERVED)
		cluster_pools_changed(arg);
}

/* --- changes of objects --- */

static void know_node(struct cluster *c, const char *uid)
{
	if (c->node_uid && strcmp(c->node_uid, uid) == 0)
		return;
	free(c->node_uid);
	c->node_uid = xstrdup(uid);
	if (c->conf.node_changed)
		c->conf.node_changed(c->conf.arg, uid);
}

/* --- pods by UID --- */

static int by_uid(const void *a, const void *b)
{
	const struct pod_facts *x = a, *y = b;

	return strcmp(x->uid, y->uid);
}

void cluster_uid_changed(struct cluster *c, const struct pod_facts *was, const struct pod_facts *is)
{
	const struct pod_facts **node = was ? tfind(was, &c->uids, by_uid) : NULL;

	if (node && *node == was)
		tdelete(was, &c->uids, by_uid);
	if (!is)
		return;
	node = xtsearch(is, &c->uids, by_uid);
	*node = is;
}

static void keep(void *pod)
{
	(void)pod; /* the informer frees the pod */
}

static void cluster_uids_done(struct cluster *c)
{
	tdestroy(c->uids, keep);
	c->uids = NULL;
}

const struct pod_facts *cluster_pod_by_uid(const struct cluster *c, const char *uid)
{
	const struct pod_facts key = {.uid = (char *)uid};
	const struct pod_facts *const *node = tfind(&key, &c->uids, by_uid);

	return node ? *node : NULL;
}

static void cluster_nad_spend(struct cluster *c, const struct kube_object *o);

static void cluster_nad_spend_back(struct cluster *c, const struct kube_object *o);

static void on_pod_changed(struct cluster *c, const struct kube_object *was,
			   const struct kube_object *is)
{
	const struct pod_facts *old = was ? was->value : NULL, *new = is ? is->value : NULL;

	cluster_uid_changed(c, old, new);
	if (c->conf.pod_changed)
		c->conf.pod_changed(c->conf.arg, old, new);
}

static void on_pool_changed(struct cluster *c, const struct kube_object *was,
			    const struct kube_object *is)
{
	/* The encoded lines contain all fields that are used. */
	const char *old = was ? *(char *const *)was->value : "";
	const char *new = is ? *(char *const *)is->value : "";

	if (!was || !is || !pool_kube_same_addresses(old, new))
		cluster_pools_changed(c);
	else if (strcmp(old, new) != 0)
		cluster_block_size_changed(c);
}

static void on_changed(void *arg, int kind, const struct kube_object *was,
		       const struct kube_object *is)
{
	struct cluster *c = arg;

	if (kind == CLUSTER_POOLS || kind == CLUSTER_RESERVED)
		on_pool_changed(c, was, is);
	if (kind == CLUSTER_PODS && (was || is))
		on_pod_changed(c, was, is);
	if (kind == CLUSTER_NODE && is) {
		know_node(c, is->uid);
		cluster_save_schedule(c);
	}
	if (kind == CLUSTER_NADS && was)
		cluster_nad_spend_back(c, was);
	if (kind == CLUSTER_NADS && is)
		cluster_nad_spend(c, is);
}

/* --- creation and destruction --- */

/*
 * Memory limits in bytes for network-attachment-definitions, because tenants can create any number
 * of them, and each agent stores all. CONFIG_MAX: one object, same limit as of a SpiderMultusConfig
 * (controller/nad/render.h). NADS_NS_MAX: all objects of a namespace. NADS_TOTAL_MAX: all objects.
 * NADS_SMALL: objects up to this size are accepted even if NADS_TOTAL_MAX is exceeded
 * (kube/spent.h).
 */
enum {
	CONFIG_MAX = 256 << 10,
	NADS_NS_MAX = 1 << 20,
	NADS_TOTAL_MAX = 8 << 20,
	NADS_SMALL = 4 << 10,
};
static const struct kube_spent cluster_nads_room = {
	NADS_NS_MAX, NADS_TOTAL_MAX, NADS_SMALL, NULL, 0, 0};

struct cluster *cluster_new(const struct cluster_conf *conf)
{
	struct cluster *c = xcalloc(1, sizeof(*c));
	auto_free char *pods = xasprintf("spec.nodeName=%s", conf->node);
	auto_free char *node = xasprintf("metadata.name=%s", conf->node);
	const struct kube_select select[CLUSTER_KINDS] = {
		[CLUSTER_PODS].fields = pods,
		[CLUSTER_NODE].fields = node,
		[CLUSTER_COORDINATORS].fields = "metadata.name=default",
	};

	c->conf = *conf;
	c->nads = cluster_nads_room;
	cluster_pools_open(c);
	c->objects = kube_cache_new(&(struct kube_cache_conf){
		.kube = conf->kube,
		.kinds = cluster_kinds,
		.n = CLUSTER_KINDS,
		.select = select,
		.component = "agent",
		.changed = on_changed,
		.sync_error = on_sync_error,
		.etcd_restored = on_etcd_restored,
		.arg = c,
	});
	return c;
}

static void cluster_fetch_drop_all(struct cluster *c);

void cluster_free(struct cluster *c)
{
	if (!c)
		return;
	cluster_fetch_drop_all(c);
	cluster_lookups_drop_all(c);
	cluster_pools_close(c);
	cluster_uids_done(c);
	kube_cache_free(c->objects);
	kube_spent_done(&c->nads);
	free(c);
}

/* --- lookups of cached objects --- */

struct kube_cache *cluster_objects(const struct cluster *c)
{
	return c->objects;
}

const struct pod_facts *cluster_pod(const struct cluster *c, const char *ns, const char *name)
{
	return kube_cache_value(c->objects, CLUSTER_PODS, ns, name);
}

const struct pod_facts *cluster_pod_at(const struct cluster *c, size_t i)
{
	return kube_cache_at(c->objects, CLUSTER_PODS, i)->value;
}

const struct labels *cluster_ns_labels(const struct cluster *c, const char *ns)
{
	const struct cluster_ns *v = kube_cache_value(c->objects, CLUSTER_NAMESPACES, "", ns);

	return v ? &v->labels : NULL;
}

const struct labels *cluster_ns_annotations(const struct cluster *c, const char *ns)
{
	const struct cluster_ns *v = kube_cache_value(c->objects, CLUSTER_NAMESPACES, "", ns);

	return v ? &v->annotations : NULL;
}

const char *cluster_ns(const struct cluster *c)
{
	return c->conf.ns;
}

const struct labels *cluster_node_labels(const struct cluster *c)
{
	const struct labels *l = kube_cache_value(c->objects, CLUSTER_NODE, "", c->conf.node);

	return l || !c->node_uid ? l : &c->node_labels;
}

const char *cluster_node_uid(const struct cluster *c)
{
	return c->node_uid;
}

const struct cluster_nad *cluster_nad(const struct cluster *c, const char *ns, const char *name)
{
	return kube_cache_value(c->objects, CLUSTER_NADS, ns, name);
}

const struct coordinator_settings *cluster_coordinator(const struct cluster *c)
{
	return kube_cache_value(c->objects, CLUSTER_COORDINATORS, "", "default");
}

/* For each kind of object below: read_*() reads the fields that the cache stores, drop_*() frees
 * them. */

/* --- pods --- */

static int read_pod(void *value, const struct json *object, struct err *e)
{
	return pod_facts_read(object, value, e);
}

static void drop_pod(void *value)
{
	pod_facts_done(value);
}

/* --- this node and namespaces --- */

static int read_node(void *value, const struct json *object, struct err *e)
{
	return labels_of(json_get(object, "metadata"), value, e);
}

static void drop_node(void *value)
{
	labels_done(value);
}

static int read_ns(void *value, const struct json *object, struct err *e)
{
	struct cluster_ns *n = value;
	int r = labels_of(json_get(object, "metadata"), &n->labels, e);

	return r < 0 ? r
		     : labels_read(kube_meta(object, "annotations"), "metadata.annotations",
				   pod_annotation_counts, &n->annotations, e);
}

static void drop_ns(void *value)
{
	struct cluster_ns *n = value;

	labels_done(&n->labels);
	labels_done(&n->annotations);
}

/* --- network-attachment-definitions --- */

static char *text_or_null(const struct json *v)
{
	const char *s = json_string(v);

	return s && *s ? xstrdup(s) : NULL;
}

/* An object without content still uses memory for its list entry. */
static size_t nad_bytes(const struct cluster_nad *n)
{
	return sizeof(struct kube_object) + sizeof(*n) + (n->config ? strlen(n->config) : 0) +
	       (n->resource ? strlen(n->resource) : 0) +
	       (n->missing ? sizeof(*n->missing) + 2 * MISSING_RESOURCE_NAME_MAX : 0) +
	       (n->group ? strlen(n->group) : 0);
}

static void drop_missing(struct cluster_nad *n)
{
	if (n->missing)
		missing_resource_done(n->missing);
	free(n->missing);
	free(n->group);
	n->missing = NULL;
	n->group = NULL;
}

static void leave_out(struct cluster_nad *n)
{
	n->left_out = nad_bytes(n);
	free(n->config);
	free(n->resource);
	n->config = n->resource = NULL;
	drop_missing(n);
}

enum { GROUP_MAX = 253 };

/* `unirail status` prints this text to a terminal, so control characters are refused. */
static bool is_printable(const char *s)
{
	size_t n = 0;

	while (s[n] >= ' ' && s[n] < 0x7f)
		n++;
	return !s[n] && n <= GROUP_MAX;
}

/* The controller copies the annotations of a SpiderMultusConfig to this object, so they may come
 * from a tenant. */
static void read_missing(struct cluster_nad *n, const struct json *annotations)
{
	static const char *const groups[] = {ANNOTATION_INJECT_RDMA, ANNOTATION_INJECT_NETWORK};
	const char *text = json_string(json_get(annotations, ANNOTATION_MISSING_RESOURCE));
	const char *group = NULL;
	struct missing_resource m;

	if (!missing_resource_read(text, &m))
		return;
	n->missing = xcalloc(1, sizeof(*n->missing));
	*n->missing = m;
	for (size_t i = 0; i < ARRAY_LEN(groups) && !group; i++)
		group = json_string(json_get(annotations, groups[i]));
	n->group = xstrdup(group && is_printable(group) ? group : "");
}

static int read_nad(void *value, const struct json *object, struct err *e)
{
	const char *config = json_string(json_get(json_get(object, "spec"), "config"));
	struct cluster_nad *n = value;

	(void)e;
	n->config = config && *config ? xstrdup(config) : NULL;
	n->resource =
		text_or_null(json_get(kube_meta(object, "annotations"), ANNOTATION_RESOURCE_NAME));
	read_missing(n, kube_meta(object, "annotations"));
	if (nad_bytes(n) > CONFIG_MAX)
		leave_out(n);
	return 0;
}

static void drop_nad(void *value)
{
	struct cluster_nad *n = value;

	free(n->config);
	free(n->resource);
	drop_missing(n);
}

/* Counts an added object against the limits; drops its content if a limit is exceeded. */
static void cluster_nad_spend(struct cluster *c, const struct kube_object *o)
{
	struct cluster_nad *n = o->value;

	if (!n->left_out && !kube_spent_more(&c->nads, o->ns, nad_bytes(n)))
		leave_out(n);
	if (n->left_out)
		log_limited(LOG_WARN, 2,
			    "ignoring a network-attachment-definition: a size limit (of one "
			    "object, of its namespace, or of all objects) is exceeded",
			    LOG_S("namespace", o->ns), LOG_S("name", o->name),
			    LOG_I("bytes", (int64_t)n->left_out), LOG_I("allowed", CONFIG_MAX),
			    LOG_I("of_a_namespace", NADS_NS_MAX), LOG_I("of_all", NADS_TOTAL_MAX));
}

/* Subtracts a deleted or replaced object from the counts: another object may fit now. */
static void cluster_nad_spend_back(struct cluster *c, const struct kube_object *o)
{
	const struct cluster_nad *n = o->value;

	if (n->left_out)
		return;
	kube_spent_less(&c->nads, o->ns, nad_bytes(n));
	kube_cache_read_again(c->objects);
}

static bool nad_has_room(void *arg, int kind, const struct kube_object *o)
{
	const struct cluster *c = arg;
	const struct cluster_nad *n = o->value;

	(void)kind;
	return n->left_out && n->left_out <= CONFIG_MAX &&
	       kube_spent_fits(&c->nads, o->ns, n->left_out);
}

static int read_coordinator(void *value, const struct json *object, struct err *e)
{
	return coordinator_settings_object(object, value, e);
}

static void drop_coordinator(void *value)
{
	coordinator_settings_done(value);
}

/* --- pools, reserved addresses: each stored as one line of JSON (ipam/pool/pool_cluster.h) --- */

static int read_pool(void *value, const struct json *object, struct err *e)
{
	return pool_kube_text(object, "SpiderIPPool", value, e);
}

static int read_reserved(void *value, const struct json *object, struct err *e)
{
	return pool_kube_text(object, "SpiderReservedIP", value, e);
}

static void drop_line(void *value)
{
	char **line = value;

	free(*line);
}

const struct kube_cache_kind cluster_kinds[CLUSTER_KINDS] = {
	[CLUSTER_PODS] = {.kind = &kube_pods,
			  .size = sizeof(struct pod_facts),
			  .decode = read_pod,
			  .drop = drop_pod,
			  .cached = true},
	[CLUSTER_NODE] = {.kind = &kube_nodes,
			  .size = sizeof(struct labels),
			  .decode = read_node,
			  .drop = drop_node,
			  .cached = true},
	[CLUSTER_NAMESPACES] = {.kind = &kube_namespaces,
				.size = sizeof(struct cluster_ns),
				.decode = read_ns,
				.drop = drop_ns,
				.cached = true},
	[CLUSTER_POOLS] = {.kind = &kube_ippools,
			   .size = sizeof(char *),
			   .decode = read_pool,
			   .drop = drop_line,
			   .cached = true,
			   .own_crd = true},
	[CLUSTER_RESERVED] = {.kind = &kube_reservedips,
			      .size = sizeof(char *),
			      .decode = read_reserved,
			      .drop = drop_line,
			      .cached = true,
			      .own_crd = true},
	[CLUSTER_NADS] = {.kind = &kube_nads,
			  .size = sizeof(struct cluster_nad),
			  .decode = read_nad,
			  .drop = drop_nad,
			  .cached = true,
			  .own_crd = true,
			  .again = nad_has_room},
	[CLUSTER_COORDINATORS] = {.kind = &kube_coordinators,
				  .size = sizeof(struct coordinator_settings),
				  .decode = read_coordinator,
				  .drop = drop_coordinator,
				  .cached = true,
				  .own_crd = true},
};

/* --- reading a pod that the watch has not delivered yet --- */

struct cluster_fetch {
	struct cluster *c;
	struct kube_call *call;
	cluster_pod_fn fn;
	void *arg;
	char *message; /* "ns/name" */
	struct cluster_fetch *next;
};

/* less than the CNI process waits for the agent's answer (cni/cluster/agent_client.c) */
enum { FETCH_MS = 10 * 1000 };

static void fetch_free(struct cluster_fetch *f)
{
	for (struct cluster_fetch **p = &f->c->fetches; *p; p = &(*p)->next)
		if (*p == f) {
			*p = f->next;
			break;
		}
	free(f->message);
	free(f);
}

static int judge(const struct cluster_fetch *f, const struct pod_facts *p, struct err *e)
{
	const char *node = f->c->conf.node;

	if (strcmp(p->node, node) == 0)
		return 0;
	if (!*p->node)
		return err_kind(e, ERR_AGAIN, -ESTALE, "pod '%s' is not bound to a node yet",
				f->message);
	return err_kind(e, ERR_CONF, -EXDEV,
			"pod '%s' is on node '%s', and this agent's node is '%s': set NODE_NAME, "
			"or 'node' in the agent's settings, to the name of the Node object of "
			"the agent's node",
			f->message, p->node, node);
}

static void on_pod(void *arg, int status, const struct json *object, const struct err *cause)
{
	struct cluster_fetch *f = arg;
	struct pod_facts p = {0};
	struct err e = ERR_INIT;
	int r;

	if (cause) {
		e = *cause;
		r = cause->code;
		if (status == 404)
			r = err_kind(&e, ERR_CONF, -ENOENT, "pod '%s' does not exist", f->message);
	} else {
		r = pod_facts_read(object, &p, &e);
		if (r == 0)
			r = judge(f, &p, &e);
	}
	f->fn(f->arg, r == 0 ? &p : NULL, r == 0 ? NULL : &e);
	pod_facts_done(&p);
	fetch_free(f);
}

struct cluster_fetch *cluster_fetch_pod(struct cluster *c, const char *ns, const char *name,
					cluster_pod_fn fn, void *arg)
{
	const struct kube_request r = {.verb = KUBE_GET,
				       .on = {.kind = &kube_pods, .ns = ns, .name = name},
				       .timeout_ms = FETCH_MS};
	struct cluster_fetch *f = xcalloc(1, sizeof(*f));

	*f = (struct cluster_fetch){.c = c, .fn = fn, .arg = arg, .next = c->fetches};
	f->message = xasprintf("%s/%s", ns, name);
	c->fetches = f;
	f->call = kube_send(c->conf.kube, &r, on_pod, f);
	return f;
}

void cluster_fetch_cancel(struct cluster_fetch *f)
{
	if (!f)
		return;
	kube_cancel(f->call);
	fetch_free(f);
}

static void cluster_fetch_drop_all(struct cluster *c)
{
	while (c->fetches)
		cluster_fetch_cancel(c->fetches);
}
