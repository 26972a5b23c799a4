/* SPDX-License-Identifier: Apache-2.0 */
/* Workloads: networks, pools and resources of a pod or pod template. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/num.h"
#include "controller/injection/inject.h"
#include "controller/nad/render.h"
#include "doctor/lint_internal.h"
#include "spec/annotations.h"
#include "spec/multusconfig.h"
#include "spec/network_annotation.h"
#include "spec/pool_annotation.h"

enum { PATCH_MAX = 1 << 20, NAMES_MAX = 1 << 12 };

void lint_names_add(struct lint_names *l, const char *name)
{
	if (!name || !*name || l->n >= NAMES_MAX)
		return;
	for (size_t i = 0; i < l->n; i++)
		if (!strcmp(l->v[i], name))
			return;
	VEC_PUSH(l->v, l->n) = xstrdup(name);
}

const struct object *lint_network_of(const struct lint *l, const char *ns, const char *name)
{
	const struct object *o = objects_find(l->in, "NetworkAttachmentDefinition", ns, name);

	if (o)
		return o;
	o = objects_find(l->in, "SpiderMultusConfig", ns, name);
	return o && !strcmp(multus_nad_name(o->v), name) ? o : lint_maker_of(l, ns, name, NULL);
}

void lint_missing_network(struct lint *l, const struct object *o, const char *field,
			  const char *name)
{
	size_t nads, configs;

	objects_kind(l->in, "NetworkAttachmentDefinition", &nads);
	objects_kind(l->in, "SpiderMultusConfig", &configs);
	lint_find(l, nads + configs ? LINT_ERROR : LINT_WARNING, o, field,
		  "network '%s' is not in these files, neither as a NetworkAttachmentDefinition "
		  "nor as a SpiderMultusConfig",
		  name);
}

/* --- networks of a pod --- */

static void add_network(const struct lint *l, const struct network_request *s, size_t i,
			struct lint_network *ret)
{
	struct nad nad = {0};

	*ret = (struct lint_network){.ns = xstrdup(s->ns), .name = xstrdup(s->name)};
	ret->ifname = s->ifname ? xstrdup(s->ifname) : xasprintf("net%zu", i + 1);
	ret->object = lint_network_of(l, s->ns, s->name);
	if (!ret->object)
		return;
	if (!strcmp(ret->object->kind, "NetworkAttachmentDefinition")) {
		ret->config =
			str_dup(json_string(json_get(json_get(ret->object->v, "spec"), "config")));
		ret->resource = str_dup(lint_annotation(ret->object->v, ANNOTATION_RESOURCE_NAME));
	} else if (nad_write(ret->object->v, &nad, NULL) == 0) {
		ret->config = str_dup(nad.config);
		ret->resource = str_dup(labels_get(&nad.annotations, ANNOTATION_RESOURCE_NAME));
		nad_done(&nad);
	}
}

void lint_networks_done(struct lint_network *v, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(v[i].ns);
		free(v[i].name);
		free(v[i].ifname);
		free(v[i].config);
		free(v[i].resource);
	}
	free(v);
}

/* Returns the networks annotation that the injection's patch writes; NULL: none. The caller frees
 * it. */
static char *patched_networks(struct span patch)
{
	auto_json struct json_doc *doc = NULL;
	const struct json *op;
	struct json_walk w;

	if (json_parse(&doc, patch, PATCH_MAX, NULL) < 0)
		return NULL;
	for (w = json_walk_start(json_root(doc)); (op = json_walk_next(&w, NULL));) {
		const struct json *value = json_get(op, "value");
		const char *path = json_string(json_get(op, "path"));
		const char *inner = json_string(json_get(value, ANNOTATION_NETWORKS));

		if (inner)
			return xstrdup(inner);
		if (path && json_string(value) && strstr(path, "/k8s.v1.cni.cncf.io~1networks"))
			return xstrdup(json_string(value));
	}
	return NULL;
}

static const struct json *namespace_of(const struct lint *l, const char *ns)
{
	const struct object *o = objects_find(l->in, "Namespace", "", ns);

	return o ? o->v : NULL;
}

/* Returns 1 and sets *text, which the caller frees, to the networks annotation that the
 * injection writes; 0: the injection writes none; negative: the injection refuses the pod. */
static int inject_networks(const struct lint *l, const char *ns, const struct json *pod,
			   char **text, struct err *e)
{
	struct inject_request q = {.pod = pod, .ns = ns};
	const struct json *space = namespace_of(l, ns);
	struct kube_patch patch;
	int r;

	for (int k = 0; k < INJECT_KEYS; k++)
		q.ns_group[k] = lint_annotation(space, inject_key_name(k));
	if (!inject_is_requested(json_get(json_get(pod, "metadata"), "annotations")) &&
	    !q.ns_group[INJECT_RDMA] && !q.ns_group[INJECT_NETWORK])
		return 0;
	q.index = lint_inject_index(l);
	kube_patch_init(&patch);
	r = inject_pod(&q, &patch, e);
	if (r > 0)
		*text = patched_networks(kube_patch_end(&patch));
	kube_patch_done(&patch);
	return r < 0 ? r : *text != NULL;
}

/* Sets *injected if the injection writes the networks annotation. The injection then also adds
 * the resources of these networks, unless a container has them already, to the limits of the
 * first container. */
static int read_networks(const struct lint *l, const char *ns, const struct json *pod,
			 struct lint_network **ret, size_t *n, bool *injected, struct err *e)
{
	auto_free char *text = NULL;
	struct net_select s = {0};
	int r = inject_networks(l, ns, pod, &text, e);

	*ret = NULL;
	*n = 0;
	*injected = r > 0;
	if (r < 0)
		return r;
	r = net_select_parse(text ? text : lint_annotation(pod, ANNOTATION_NETWORKS), ns, &s, e);
	if (r < 0)
		return r;
	*ret = xcalloc(s.n + 1, sizeof(**ret));
	for (size_t i = 0; i < s.n; i++)
		add_network(l, &s.v[i], i, &(*ret)[i]);
	*n = s.n;
	net_select_done(&s);
	return 0;
}

int lint_networks(const struct lint *l, const char *ns, const struct json *pod,
		  struct lint_network **ret, size_t *n, struct err *e)
{
	bool injected;

	return read_networks(l, ns, pod, ret, n, &injected, e);
}

/* --- resources --- */

static int64_t amount(const struct json *container, const char *resource)
{
	static const char *const keys[] = {"limits", "requests"};
	const struct json *r = json_get(container, "resources");

	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		const struct json *v = json_get(json_get(r, keys[i]), resource);
		uint64_t n = 0;
		int64_t k = 0;

		if (json_string(v) && num_u64(span_of(json_string(v)), 0, INT32_MAX, &n) == 0)
			return (int64_t)n;
		if (v && json_int(v, &k) == 0)
			return k;
	}
	return 0;
}

int64_t lint_requested(const struct json *pod, const char *resource)
{
	struct json_walk w = json_walk_start(json_get(json_get(pod, "spec"), "containers"));
	const struct json *c;
	int64_t n = 0;

	while ((c = json_walk_next(&w, NULL)))
		n += amount(c, resource);
	return n;
}

static void check_resources(struct lint *l, const struct object *o, const char *field,
			    const struct json *pod, const struct lint_network *v, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		int64_t needs = 0, has;
		bool first = true;

		for (size_t k = 0; v[i].resource && k < n; k++) {
			bool same = v[k].resource && !strcmp(v[k].resource, v[i].resource);

			first &= !same || k >= i;
			needs += same;
		}
		has = v[i].resource && first ? lint_requested(pod, v[i].resource) : needs;
		if (has < needs)
			lint_find(l, LINT_ERROR, o, field,
				  "the pod's networks use %lld of resource '%s', the pod's "
				  "containers request "
				  "%lld: add the difference to resources.limits",
				  (long long)needs, v[i].resource, (long long)has);
	}
}

/* --- pools --- */

int lint_pools(const struct lint *l, const char *ns, const struct json *pod,
	       const struct lint_network *nets, size_t n, char ***ret, size_t *count, struct err *e)
{
	const struct json *meta = json_get(pod, "metadata");
	struct pod_facts facts = {.ns = xstrdup(ns), .name = xstrdup("pod"), .uid = xstrdup("")};
	struct labels space = {0};
	struct pod_pools_facts f = {.pod = &facts, .ns_annotations = &space};
	struct pod_nic *nics = xcalloc(n + 1, sizeof(*nics));
	struct pod_pool_request *got = xcalloc(n + 1, sizeof(*got));
	struct lint_names names = {0};
	int r;

	facts.node = xstrdup("");
	for (size_t i = 0; i < n; i++)
		nics[i] = (struct pod_nic){.ifname = nets[i].ifname, .position = (int)i};
	r = labels_read(json_get(meta, "annotations"), "metadata.annotations",
			pod_annotation_counts, &facts.annotations, e);
	if (r == 0)
		r = labels_read(json_get(json_get(namespace_of(l, ns), "metadata"), "annotations"),
				"metadata.annotations", NULL, &space, e);
	if (r == 0 && n)
		r = pod_pools_request(&f, nics, n, got, e);
	for (size_t i = 0; i < n && r == 0; i++) {
		struct lint_names of_config = {0};

		for (size_t k = 0; k < got[i].n_pools4; k++)
			lint_names_add(&names, got[i].pools4[k]);
		for (size_t k = 0; k < got[i].n_pools6; k++)
			lint_names_add(&names, got[i].pools6[k]);
		if (!got[i].n_pools4 && !got[i].n_pools6)
			lint_config_pools(nets[i].config, &of_config);
		for (size_t k = 0; k < of_config.n; k++)
			lint_names_add(&names, of_config.v[k]);
		str_list_free(of_config.v, of_config.n);
		pod_pool_request_done(&got[i]);
	}
	free(got);
	free(nics);
	labels_done(&space);
	pod_facts_done(&facts);
	*ret = names.v;
	*count = names.n;
	return r;
}

/* Returns spec.replicas of a workload, or else spec.parallelism; 1 if it has neither. */
static int64_t replicas_of(const struct object *o)
{
	const struct json *spec = json_get(o->v, "spec");
	int64_t n = 1;

	if (json_int(json_get(spec, "replicas"), &n) < 0 &&
	    json_int(json_get(spec, "parallelism"), &n) < 0)
		n = 1;
	return n;
}

static void check_pools(struct lint *l, const struct object *o, const char *field,
			const struct json *pod, const struct lint_network *nets, size_t n)
{
	int64_t replicas = replicas_of(o);
	char **names = NULL;
	size_t count = 0;
	struct err e = ERR_INIT;

	if (lint_pools(l, o->ns, pod, nets, n, &names, &count, &e) < 0 && e.kind != ERR_AGAIN)
		lint_find(l, LINT_ERROR, o, field, "%s", e.text);
	for (size_t i = 0; i < count; i++) {
		const struct object *p = objects_find(l->in, "SpiderIPPool", "", names[i]);
		int64_t size = p ? lint_pool_size(l, p) : -1;

		if (strpbrk(names[i], "*?["))
			continue;
		if (!p)
			lint_missing(l, o, field, "SpiderIPPool", names[i]);
		else if (size >= 0 && size < replicas && count == 1)
			lint_find(l, LINT_WARNING, o, field,
				  "pool '%s' has %lld addresses for %lld pods: make it larger, or "
				  "name more pools",
				  names[i], (long long)size, (long long)replicas);
	}
	str_list_free(names, count);
}

void lint_pod(struct lint *l, const struct object *o, const struct json *pod, const char *path)
{
	auto_free char *field = xasprintf("%s%smetadata.annotations", path, *path ? "." : "");
	struct lint_network *v = NULL;
	struct err e = ERR_INIT;
	bool injected = false;
	size_t n = 0;

	if (read_networks(l, o->ns, pod, &v, &n, &injected, &e) < 0) {
		lint_find(l, LINT_ERROR, o, field, "%s", e.text);
		return;
	}
	for (size_t i = 0; i < n; i++)
		if (!v[i].object) {
			auto_free char *name = xasprintf("%s/%s", v[i].ns, v[i].name);

			lint_missing_network(l, o, field, name);
		}
	if (!injected)
		check_resources(l, o, field, pod, v, n);
	check_pools(l, o, field, pod, v, n);
	lint_networks_done(v, n);
}
