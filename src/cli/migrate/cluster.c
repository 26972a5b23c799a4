/* SPDX-License-Identifier: Apache-2.0 */
/* Converts objects of the API server to plain structs. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/migrate/migrate.h"
#include "kube/kinds.h"
#include "spec/annotations.h"

const struct json *migrate_at(const struct json *v, ...)
{
	const char *key;
	va_list list;

	va_start(list, v);
	while ((key = va_arg(list, const char *)))
		v = json_get(v, key);
	va_end(list);
	return v;
}

static const char *meta(const struct json *v, const char *key)
{
	return json_get_text(json_get(v, "metadata"), key);
}

static const struct json *copy(struct migrate_cluster *c, const struct json *v)
{
	struct json_doc *d = NULL;
	auto_buf struct buf b;
	struct json_out o;

	buf_init(&b, MIGRATE_TEXT_MAX);
	jo_init(&o, &b, 0);
	jo_val(&o, v, false);
	if (b.over || json_parse(&d, buf_span(&b), MIGRATE_TEXT_MAX, NULL) < 0)
		return NULL;
	VEC_PUSH(c->docs, c->n_docs) = d;
	return json_root(d);
}

static const char *keep(struct migrate_cluster *c, const char *text)
{
	return VEC_PUSH(c->texts, c->n_texts) = xstrdup(text);
}

/* --- workloads --- */

/* Returns whether a container runs the image `program`, as in
 * "registry/team/program:v1@sha256:...". */
static bool runs(const struct json *template, const char *program)
{
	struct json_walk w = json_walk_start(migrate_at(template, "spec", "containers", NULL));
	const struct json *v;

	while ((v = json_walk_next(&w, NULL))) {
		const char *image = json_get_text(v, "image"), *slash = strrchr(image, '/');
		size_t n = strlen(program);

		image = slash ? slash + 1 : image;
		if (strncmp(image, program, n) == 0 && strchr(":@", image[n]))
			return true;
	}
	return false;
}

static bool selects_never(const struct json *template)
{
	return strcmp(json_get_text(migrate_at(template, "spec", "nodeSelector", NULL),
				    LABEL_MIGRATED),
		      "never") == 0;
}

/* Returns whether the node affinity has terms and each of them excludes nodes with
 * LABEL_MIGRATED: the scheduler needs to match only one term. */
static bool is_excluded(const struct json *template)
{
	struct json_walk terms = json_walk_start(migrate_at(
		template, "spec", "affinity", "nodeAffinity",
		"requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms", NULL));
	const struct json *term, *v;
	bool all = terms.left > 0;

	while ((term = json_walk_next(&terms, NULL))) {
		struct json_walk w = json_walk_start(json_get(term, "matchExpressions"));
		bool has = false;

		while ((v = json_walk_next(&w, NULL)))
			has |= strcmp(json_get_text(v, "key"), LABEL_MIGRATED) == 0 &&
			       strcmp(json_get_text(v, "operator"), "DoesNotExist") == 0;
		all &= has;
	}
	return all;
}

static const struct {
	const char *program, *name;
	enum migrate_role role;
	bool deployment;
} known[] = {
	{"spiderpool-agent", "spiderpool-agent", ROLE_ADDRESSES, false},
	{"spiderpool-controller", "spiderpool-controller", ROLE_CONTROLLER, true},
	{"multus", "kube-multus-ds", ROLE_NETWORKS, false},
	{"multus-cni", "spiderpool-multus", ROLE_NETWORKS, false},
	{"k8s-rdma-shared-dev-plugin", "spiderpool-rdma-shared-device-plugin", ROLE_SHARED, false},
	{"sriov-network-device-plugin", "kube-sriov-device-plugin", ROLE_VF, false},
};

static void add_workload(struct migrate_cluster *c, bool deployment, const struct json *object)
{
	const struct json *template = migrate_at(object, "spec", "template", NULL);
	const struct json *owner =
		json_at(migrate_at(object, "metadata", "ownerReferences", NULL), 0);
	struct migrate_workload *x;
	int64_t replicas = 1;
	size_t i = 0;

	if (strcmp(meta(object, "name"), deployment ? "unirail-controller" : "unirail-agent") ==
	    0) {
		const struct json *v = copy(c, object);
		int64_t ready = 0;

		json_int(migrate_at(object, "status", "readyReplicas", NULL), &ready);
		if (!deployment) {
			c->agent_ns = meta(v, "namespace");
		} else if (strcmp(meta(v, "namespace"), c->ns) == 0) {
			c->controller = true;
			c->controller_ready = ready > 0;
		}
		return;
	}
	while (i < ARRAY_LEN(known) && (known[i].deployment != deployment ||
					(strcmp(meta(object, "name"), known[i].name) != 0 &&
					 !runs(template, known[i].program))))
		i++;
	if (i == ARRAY_LEN(known))
		return;
	x = &VEC_PUSH(c->workloads, c->n_workloads);
	x->role = known[i].role;
	x->v = copy(c, object);
	x->ns = meta(x->v, "namespace");
	x->name = meta(x->v, "name");
	if (owner && json_bool(json_get(owner, "controller"))) {
		owner = json_at(migrate_at(x->v, "metadata", "ownerReferences", NULL), 0);
		x->owner = json_get_text(owner, "kind");
	}
	json_int(migrate_at(x->v, "spec", "replicas", NULL), &replicas);
	x->replicas = replicas;
	x->excluded = x->role == ROLE_CONTROLLER  ? !replicas
		      : x->role == ROLE_ADDRESSES ? selects_never(template)
						  : is_excluded(template);
}

/* --- nodes and pods --- */

static bool condition(const struct json *object, const char *type, const struct json **ret)
{
	struct json_walk w = json_walk_start(migrate_at(object, "status", "conditions", NULL));
	const struct json *v;

	*ret = NULL;
	while ((v = json_walk_next(&w, NULL)))
		if (strcmp(json_get_text(v, "type"), type) == 0) {
			*ret = v;
			return strcmp(json_get_text(v, "status"), "True") == 0;
		}
	return false;
}

static void add_node(struct migrate_cluster *c, const struct json *object)
{
	struct migrate_node *x = &VEC_PUSH(c->nodes, c->n_nodes);
	const struct json *v = copy(c, object), *labels = migrate_at(v, "metadata", "labels", NULL);
	const struct json *ready;

	x->name = meta(v, "name");
	x->label = json_get_text(labels, LABEL_MIGRATED);
	x->files_label = *json_get_text(labels, LABEL_UNINSTALL);
	x->windows = strcmp(json_get_text(labels, LABEL_OS), "windows") == 0;
	x->ready = condition(v, "Ready", &ready);
	x->reason = json_get_text(ready, "message");
	/* The kubelet's message: "container runtime network not ready: NetworkReady=false
	 * reason:NetworkPluginNotReady ..." */
	x->has_network = !strstr(x->reason, "NetworkReady=false") &&
			 !strstr(x->reason, "NetworkPluginNotReady") &&
			 !strstr(x->reason, "cni config");
}

static void add_pod(struct migrate_cluster *c, const struct json *object)
{
	const struct json *owner =
		json_at(migrate_at(object, "metadata", "ownerReferences", NULL), 0);
	const char *kind = json_get_text(owner, "kind");
	const struct json *condition_of;
	struct migrate_pod *x;

	/* Ignores pods that neither a DaemonSet nor a ReplicaSet owns. */
	if (strcmp(kind, "DaemonSet") != 0 && strcmp(kind, "ReplicaSet") != 0)
		return;
	x = &VEC_PUSH(c->pods, c->n_pods);
	x->ns = keep(c, meta(object, "namespace"));
	x->owner = keep(c, json_get_text(owner, "name"));
	x->node = keep(c, json_get_text(json_get(object, "spec"), "nodeName"));
	x->daemon = strcmp(kind, "DaemonSet") == 0;
	x->unirail = x->daemon && strcmp(x->owner, "unirail-agent") == 0;
	x->ready = condition(object, "Ready", &condition_of) &&
		   !migrate_at(object, "metadata", "deletionTimestamp", NULL);
}

/* --- addresses --- */

static void add_ip(struct migrate_cluster *c, const struct json *endpoint, const struct json *ip,
		   const char *key, const char *pool)
{
	const struct json *current = migrate_at(endpoint, "status", "current", NULL);
	struct span rest = span_of(json_get_text(ip, key)), text;
	struct migrate_address a = {.pool = json_get_text(ip, pool),
				    .ns = meta(endpoint, "namespace"),
				    .pod = meta(endpoint, "name"),
				    .uid = json_get_text(current, "uid"),
				    .node = json_get_text(current, "node")};

	if (span_cut(&rest, '/', &text) && *a.pool && ip_parse(text, &a.ip) == 0)
		VEC_PUSH(c->addresses, c->n_addresses) = a;
}

static void add_endpoint(struct migrate_cluster *c, const struct json *object)
{
	const struct json *v = copy(c, object), *ip;
	struct json_walk w = json_walk_start(migrate_at(v, "status", "current", "ips", NULL));

	while ((ip = json_walk_next(&w, NULL))) {
		add_ip(c, v, ip, "ipv4", "ipv4Pool");
		add_ip(c, v, ip, "ipv6", "ipv6Pool");
	}
}

static void add_records(struct migrate_cluster *c, const char *pool, const char *text, bool adopted)
{
	struct json_doc *d = NULL;
	struct json_walk w;
	const struct json *v;
	const char *key;

	if (!text || json_parse(&d, span_of(text), MIGRATE_TEXT_MAX, NULL) < 0)
		return;
	VEC_PUSH(c->docs, c->n_docs) = d;
	w = json_walk_start(json_root(d));
	while ((v = json_walk_next(&w, &key))) {
		struct migrate_record r = {pool, json_get_text(v, "pod"), {0}, adopted};

		if (ip_parse(span_of(key), &r.ip) == 0)
			VEC_PUSH(c->records, c->n_records) = r;
	}
}

static void add_pool(struct migrate_cluster *c, const struct json *object)
{
	const struct json *v = copy(c, object);

	if (!v)
		return;
	VEC_PUSH(c->pools, c->n_pools) = v;
	add_records(c, meta(v, "name"), json_string(migrate_at(v, "status", "allocatedIPs", NULL)),
		    false);
	add_records(c, meta(v, "name"),
		    json_string(migrate_at(v, "metadata", "annotations", ANNOTATION_ADOPTED, NULL)),
		    true);
}

/* --- other kinds --- */

static void add_hooks(struct migrate_cluster *c, bool mutating, const struct json *object)
{
	struct json_walk w = json_walk_start(json_get(object, "webhooks"));
	bool spiderpool = strcmp(meta(object, "name"), "spiderpool-controller") == 0;
	const char suffix[] = "." SPIDERPOOL_GROUP;
	struct migrate_hooks *x;
	const struct json *v;
	size_t n = w.left;

	if (strcmp(meta(object, "name"), "unirail-controller") == 0)
		return;
	while ((v = json_walk_next(&w, NULL))) {
		const char *name = json_get_text(v, "name");
		size_t len = strlen(name);

		spiderpool |= len > sizeof(suffix) &&
			      strcmp(name + len - (sizeof(suffix) - 1), suffix) == 0;
	}
	if (!spiderpool)
		return;
	x = &VEC_PUSH(c->hooks, c->n_hooks);
	x->mutating = mutating;
	x->n = n;
	x->v = copy(c, object);
	x->name = meta(x->v, "name");
}

static void add_config(struct migrate_cluster *c, const struct json *object)
{
	const char *text = json_string(migrate_at(object, "data", "journal.json", NULL));
	struct json_doc *d = NULL;
	const struct json *v;

	if (strcmp(meta(object, "name"), MIGRATE_JOURNAL) == 0) {
		if (strcmp(meta(object, "namespace"), c->ns) == 0 && text && !c->journal &&
		    json_parse(&d, span_of(text), MIGRATE_TEXT_MAX, NULL) == 0) {
			VEC_PUSH(c->docs, c->n_docs) = d;
			c->journal = json_root(d);
		}
		return;
	}
	v = copy(c, object);
	if (v)
		VEC_PUSH(c->configs, c->n_configs) = v;
}

static void add_network(struct migrate_cluster *c, const struct json *object)
{
	const struct json *v = copy(c, object);

	if (v)
		VEC_PUSH(c->networks, c->n_networks) =
			(struct migrate_network){meta(v, "namespace"), meta(v, "name"),
						 json_get_text(json_get(v, "spec"), "config")};
}

/* Returns whether the API group of a definition is Spiderpool's, Multus' or unirail's. */
static bool is_shared(const struct json *definition)
{
	const char *group = json_get_text(json_get(definition, "spec"), "group");

	return strcmp(group, SPIDERPOOL_GROUP) == 0 || strcmp(group, NAD_GROUP) == 0 ||
	       strcmp(group, UNIRAIL_GROUP) == 0;
}

/* Adds a definition that Helm deletes with its release (its ANNOTATION_HELM_POLICY is not
 * "keep"). Does not copy the schema, which the plan does not need. */
static void add_definition(struct migrate_cluster *c, const struct json *object)
{
	const struct json *annotations = migrate_at(object, "metadata", "annotations", NULL);
	const char *release = json_get_text(annotations, ANNOTATION_HELM_RELEASE);

	if (*release && strcmp(json_get_text(annotations, ANNOTATION_HELM_POLICY), "keep") != 0)
		VEC_PUSH(c->definitions, c->n_definitions) = (struct migrate_definition){
			keep(c, meta(object, "name")), keep(c, release),
			keep(c, json_get_text(annotations, ANNOTATION_HELM_NAMESPACE))};
}

static void add_namespace(struct migrate_cluster *c, const struct json *object)
{
	const struct json *v = copy(c, object);

	if (v)
		VEC_PUSH(c->namespaces, c->n_namespaces) = v;
}

void migrate_add(struct migrate_cluster *c, const char *kind, const struct json *object)
{
	if (strcmp(kind, "DaemonSet") == 0 || strcmp(kind, "Deployment") == 0)
		add_workload(c, *kind == 'D' && kind[1] == 'e', object);
	else if (strcmp(kind, "Node") == 0)
		add_node(c, object);
	else if (strcmp(kind, "Pod") == 0)
		add_pod(c, object);
	else if (strcmp(kind, "SpiderIPPool") == 0)
		add_pool(c, object);
	else if (strcmp(kind, "SpiderEndpoint") == 0)
		add_endpoint(c, object);
	else if (strcmp(kind, "MutatingWebhookConfiguration") == 0)
		add_hooks(c, true, object);
	else if (strcmp(kind, "ValidatingWebhookConfiguration") == 0)
		add_hooks(c, false, object);
	else if (strcmp(kind, "ConfigMap") == 0)
		add_config(c, object);
	else if (strcmp(kind, "NetworkAttachmentDefinition") == 0)
		add_network(c, object);
	else if (strcmp(kind, "CustomResourceDefinition") == 0 && is_shared(object))
		add_definition(c, object);
	else if (strcmp(kind, "Namespace") == 0)
		add_namespace(c, object);
}

/* --- owners of pods, nodes of pods, records of addresses --- */

static int by_name(const void *a, const void *b)
{
	const struct migrate_node *x = a, *y = b;

	return strcmp(x->name, y->name);
}

struct migrate_node *migrate_node_find(const struct migrate_cluster *c, const char *name)
{
	struct migrate_node key = {.name = name};

	return c->n_nodes ? bsearch(&key, c->nodes, c->n_nodes, sizeof(key), by_name) : NULL;
}

static int by_address(const void *a, const void *b)
{
	const struct migrate_record *x = a, *y = b;
	int r = strcmp(x->pool, y->pool);

	r = r ? r : ip_cmp(&x->ip, &y->ip);
	r = r ? r : strcmp(x->pod, y->pod);
	return r ? r : x->adopted - y->adopted;
}

static bool recorded(const struct migrate_cluster *c, const struct migrate_address *a, bool adopted)
{
	auto_free char *pod = xasprintf("%s/%s", a->ns, a->pod);
	struct migrate_record key = {a->pool, pod, a->ip, adopted};

	return c->n_records && bsearch(&key, c->records, c->n_records, sizeof(key), by_address);
}

/* Returns whether the workload owns the pod: a DaemonSet by its name, a Deployment NAME by a
 * ReplicaSet "NAME-HASH". */
static bool owns(const struct migrate_workload *x, const struct migrate_pod *p)
{
	size_t n = strlen(x->name);

	if (strcmp(x->ns, p->ns) != 0)
		return false;
	if (x->role != ROLE_CONTROLLER)
		return p->daemon && strcmp(x->name, p->owner) == 0;
	return !p->daemon && strncmp(x->name, p->owner, n) == 0 && p->owner[n] == '-' &&
	       !strchr(p->owner + n + 1, '-');
}

static void resolve_pod(struct migrate_cluster *c, const struct migrate_pod *p)
{
	struct migrate_node *node = migrate_node_find(c, p->node);

	if (p->unirail && node && strcmp(p->ns, c->ns) == 0) {
		node->agent = true;
		node->agent_ready |= p->ready;
	}
	for (size_t i = 0; i < c->n_workloads; i++) {
		struct migrate_workload *x = &c->workloads[i];

		if (!owns(x, p))
			continue;
		x->pods++;
		if (node && p->daemon && !x->owner) {
			node->originals++;
			node->planned = true;
		}
	}
}

char *migrate_address_key(const struct migrate_address *a)
{
	char text[IP_TEXT_MAX];

	return xasprintf("%s %s", a->pool, ip_str(&a->ip, text));
}

static void resolve_address(struct migrate_cluster *c, struct migrate_address *a,
			    const struct json_index *missing)
{
	struct migrate_node *node = migrate_node_find(c, a->node);
	auto_free char *key = migrate_address_key(a);

	a->in_status = recorded(c, a, false);
	a->adopted = recorded(c, a, true);
	a->was_missing = json_index_get(missing, key);
	if (node)
		node->addresses++;
}

void migrate_resolve(struct migrate_cluster *c)
{
	auto_json_index struct json_index missing =
		json_index_of(json_get(c->journal, "unrecordedAddresses"));
	struct json_walk w = json_walk_start(json_get(c->journal, "nodes"));
	const struct json *v;

	if (c->n_nodes)
		qsort(c->nodes, c->n_nodes, sizeof(*c->nodes), by_name);
	if (c->n_records)
		qsort(c->records, c->n_records, sizeof(*c->records), by_address);
	for (size_t i = 0; i < c->n_pods; i++)
		resolve_pod(c, &c->pods[i]);
	while ((v = json_walk_next(&w, NULL))) {
		struct migrate_node *node = json_string(v) ? migrate_node_find(c, json_string(v))
							   : NULL;

		if (node)
			node->planned = true;
	}
	for (size_t i = 0; i < c->n_nodes; i++)
		c->nodes[i].planned |= *c->nodes[i].label != '\0';
	for (size_t i = 0; i < c->n_addresses; i++)
		resolve_address(c, &c->addresses[i], &missing);
}

void migrate_done(struct migrate_cluster *c)
{
	for (size_t i = 0; i < c->n_docs; i++)
		json_free(c->docs[i]);
	for (size_t i = 0; i < c->n_texts; i++)
		free(c->texts[i]);
	free(c->texts);
	free(c->docs);
	free(c->workloads);
	free(c->nodes);
	free(c->hooks);
	free(c->addresses);
	free(c->pods);
	free(c->records);
	free(c->networks);
	free(c->pools);
	free(c->definitions);
	free(c->namespaces);
	free(c->configs);
	*c = (struct migrate_cluster){0};
}
