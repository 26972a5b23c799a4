/* SPDX-License-Identifier: Apache-2.0 */
/* What is kept of each kind of object. */
#include <errno.h>
#include <stdlib.h>

#include "agent/cluster_priv.h"

static const struct kube_kind ippools = {"spiderpool.spidernet.io", "v2beta1", "spiderippools",
					 "spiderippool", false};
static const struct kube_kind reservedips = {"spiderpool.spidernet.io", "v2beta1",
					     "spiderreservedips", "spiderreservedip", false};
static const struct kube_kind coordinators = {"spiderpool.spidernet.io", "v2beta1",
					      "spidercoordinators", "spidercoordinator", false};
static const struct kube_kind nads = {"k8s.cni.cncf.io", "v1", "network-attachment-definitions",
				      "network-attachment-definition", true};

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
	return labels_read(meta(object, "labels"), "metadata.labels", NULL, value, e);
}

static void drop_node(void *value)
{
	labels_done(value);
}

static int read_ns(void *value, const struct json *object, struct err *e)
{
	struct cluster_ns *n = value;
	int r = labels_read(meta(object, "labels"), "metadata.labels", NULL, &n->labels, e);

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

static char *text_or_null(const struct json *v)
{
	const char *s = json_string(v);

	return s && *s ? xstrdup(s) : NULL;
}

static int read_nad(void *value, const struct json *object, struct err *e)
{
	struct cluster_nad *n = value;

	(void)e;
	n->config = text_or_null(json_get(json_get(object, "spec"), "config"));
	n->resource = text_or_null(
		json_get(meta(object, "annotations"), "k8s.v1.cni.cncf.io/resourceName"));
	return 0;
}

static void drop_nad(void *value)
{
	struct cluster_nad *n = value;

	free(n->config);
	free(n->resource);
}

static int read_coordinator(void *value, const struct json *object, struct err *e)
{
	return coordinator_settings_object(object, value, e);
}

static void drop_coordinator(void *value)
{
	coordinator_settings_done(value);
}

/* --- pools, reserved addresses --- */

/* The object again, with no more than counts; `kind` is not in those of a list. */
static char *spec_text(const struct json *object, const char *kind)
{
	struct labels notes = {0};
	struct json_out o;
	struct buf b;

	if (labels_read(meta(object, "annotations"), "", pod_annotation_counts, &notes, NULL) < 0)
		notes = (struct labels){0};
	buf_init(&b, CLUSTER_SPEC_MAX);
	jo_init(&o, &b, 0);
	jo_obj(&o);
	jo_kstr(&o, "kind", kind);
	jo_key(&o, "metadata");
	jo_obj(&o);
	jo_kstr(&o, "name", json_string(meta(object, "name")));
	jo_kstr(&o, "uid", json_string(meta(object, "uid")));
	if (json_string(meta(object, "deletionTimestamp")))
		jo_kstr(&o, "deletionTimestamp", json_string(meta(object, "deletionTimestamp")));
	jo_key(&o, "annotations");
	jo_obj(&o);
	for (size_t i = 0; i < notes.n; i++)
		jo_kstr(&o, notes.v[i].key, notes.v[i].value);
	jo_end_obj(&o);
	jo_end_obj(&o);
	jo_key(&o, "spec");
	jo_val(&o, json_get(object, "spec"), false);
	jo_end_obj(&o);
	labels_done(&notes);
	if (!b.over)
		return buf_take(&b);
	buf_done(&b);
	return NULL;
}

static int read_spec(struct cluster_spec *s, const struct json *object, const char *kind,
		     struct err *e)
{
	s->text = spec_text(object, kind);
	return s->text ? cluster_pool_check(s->text, e)
		       : err_set(e, -EFBIG, "the object is longer than %d bytes", CLUSTER_SPEC_MAX);
}

static int read_pool(void *value, const struct json *object, struct err *e)
{
	return read_spec(value, object, "SpiderIPPool", e);
}

static int read_reserved(void *value, const struct json *object, struct err *e)
{
	return read_spec(value, object, "SpiderReservedIP", e);
}

static void drop_spec(void *value)
{
	struct cluster_spec *s = value;

	free(s->text);
}

const struct cluster_decoder cluster_decoders[CLUSTER_KINDS] = {
	[CLUSTER_PODS] = {&kube_pods, sizeof(struct pod_facts), read_pod, drop_pod, true, false},
	[CLUSTER_NODE] = {&kube_nodes, sizeof(struct labels), read_node, drop_node, true, false},
	[CLUSTER_NAMESPACES] = {&kube_namespaces, sizeof(struct cluster_ns), read_ns, drop_ns, true,
				false},
	[CLUSTER_POOLS] = {&ippools, sizeof(struct cluster_spec), read_pool, drop_spec, true, true},
	[CLUSTER_RESERVED] = {&reservedips, sizeof(struct cluster_spec), read_reserved, drop_spec,
			      true, true},
	[CLUSTER_NADS] = {&nads, sizeof(struct cluster_nad), read_nad, drop_nad, true, true},
	[CLUSTER_COORDINATORS] = {&coordinators, sizeof(struct coordinator_settings),
				  read_coordinator, drop_coordinator, true, true},
};
