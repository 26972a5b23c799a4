/* SPDX-License-Identifier: Apache-2.0 */
/* What is kept of each kind of object. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/cluster/cluster_priv.h"
#include "base/log.h"
#include "ipam/pool/pool_kube.h"
#include "kube/kinds.h"

static const struct json *meta(const struct json *object, const char *key)
{
	return json_get(json_get(object, "metadata"), key);
}

/* --- pods --- */

static int read_pod(void *value, const struct json *object, struct err *e)
{
	return pod_facts_read(object, value, e);
}

static void drop_pod(void *value)
{
	pod_facts_done(value);
}

/* --- node, namespaces --- */

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
		     : labels_read(meta(object, "annotations"), "metadata.annotations",
				   pod_annotation_counts, &n->annotations, e);
}

static void drop_ns(void *value)
{
	struct cluster_ns *n = value;

	labels_done(&n->labels);
	labels_done(&n->annotations);
}

/* --- networks --- */

/* Tenants write as many as they like, and each agent keeps all. CONFIG_MAX: what a SpiderMultusConfig may have as well
 * (controller/nad/nad_write.h). */
enum {
	CONFIG_MAX = 256 << 10,
	NADS_NS_MAX = 1 << 20,
	NADS_TOTAL_MAX = 8 << 20,
	NADS_SMALL = 4 << 10,
};
const struct kube_spent cluster_nads_room = {NADS_NS_MAX, NADS_TOTAL_MAX, NADS_SMALL, NULL, 0, 0};

static char *text_or_null(const struct json *v)
{
	const char *s = json_string(v);

	return s && *s ? xstrdup(s) : NULL;
}

/* An empty one costs its place in the list. */
static size_t nad_bytes(const struct cluster_nad *n)
{
	return sizeof(struct kube_object) + sizeof(*n) + (n->config ? strlen(n->config) : 0) +
	       (n->resource ? strlen(n->resource) : 0);
}

static void leave_out(struct cluster_nad *n)
{
	n->left_out = nad_bytes(n);
	free(n->config);
	free(n->resource);
	n->config = n->resource = NULL;
}

static int read_nad(void *value, const struct json *object, struct err *e)
{
	const char *config = json_string(json_get(json_get(object, "spec"), "config"));
	struct cluster_nad *n = value;

	(void)e;
	n->config = config && *config ? xstrdup(config) : NULL;
	n->resource = text_or_null(
		json_get(meta(object, "annotations"), "k8s.v1.cni.cncf.io/resourceName"));
	if (nad_bytes(n) > CONFIG_MAX)
		leave_out(n);
	return 0;
}

static void drop_nad(void *value)
{
	struct cluster_nad *n = value;

	free(n->config);
	free(n->resource);
}

void cluster_nad_spend(struct cluster *c, const struct kube_object *o)
{
	struct cluster_nad *n = o->value;

	if (!n->left_out && !kube_spent_more(&c->nads, o->ns, nad_bytes(n)))
		leave_out(n);
	if (n->left_out)
		log_limited(LOG_WARN, 2, "a network-attachment-definition is too large to be kept",
			    LOG_S("namespace", o->ns), LOG_S("name", o->name),
			    LOG_I("bytes", (int64_t)n->left_out), LOG_I("allowed", CONFIG_MAX),
			    LOG_I("of_a_namespace", NADS_NS_MAX), LOG_I("of_all", NADS_TOTAL_MAX));
}

void cluster_nad_spend_back(struct cluster *c, const struct kube_object *o)
{
	const struct cluster_nad *n = o->value;

	if (!n->left_out)
		kube_spent_less(&c->nads, o->ns, nad_bytes(n));
}

static int read_coordinator(void *value, const struct json *object, struct err *e)
{
	return coordinator_settings_object(object, value, e);
}

static void drop_coordinator(void *value)
{
	coordinator_settings_done(value);
}

/* --- pools, reserved addresses: a line of JSON each (ipam/pool/pool_kube.h) --- */

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

const struct cluster_decoder cluster_decoders[CLUSTER_KINDS] = {
	[CLUSTER_PODS] = {&kube_pods, sizeof(struct pod_facts), read_pod, drop_pod, true, false},
	[CLUSTER_NODE] = {&kube_nodes, sizeof(struct labels), read_node, drop_node, true, false},
	[CLUSTER_NAMESPACES] = {&kube_namespaces, sizeof(struct cluster_ns), read_ns, drop_ns, true,
				false},
	[CLUSTER_POOLS] = {&kube_ippools, sizeof(char *), read_pool, drop_line, true, true},
	[CLUSTER_RESERVED] = {&kube_reservedips, sizeof(char *), read_reserved, drop_line, true,
			      true},
	[CLUSTER_NADS] = {&kube_nads, sizeof(struct cluster_nad), read_nad, drop_nad, true, true},
	[CLUSTER_COORDINATORS] = {&kube_coordinators, sizeof(struct coordinator_settings),
				  read_coordinator, drop_coordinator, true, true},
};
