/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor/lint.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/num.h"
#include "base/option.h"
#include "controller/admission/admit.h"
#include "controller/nad/render.h"
#include "doctor/lint_internal.h"
#include "ipam/pool/pool_spec.h"
#include "spec/annotations.h"
#include "spec/definition.h"

enum { TEXT_MAX = 4096, DEPTH_MAX = 24, CONFIG_TEXT_MAX = 1 << 20 };

void lint_find(struct lint *l, enum lint_level level, const struct object *o, const char *field,
	       const char *fmt, ...)
{
	struct lint_finding *f = &VEC_PUSH(l->v, l->n);
	struct buf b;
	va_list ap;

	buf_init(&b, TEXT_MAX);
	va_start(ap, fmt);
	buf_vprintf(&b, fmt, ap);
	va_end(ap);
	*f = (struct lint_finding){.level = level,
				   .origin = xstrdup(o->origin),
				   .object = *o->ns ? xasprintf("%s %s/%s", o->kind, o->ns, o->name)
						    : xasprintf("%s %s", o->kind, o->name),
				   .field = xstrdup(field),
				   .text = buf_take(&b)};
}

void lint_done(struct lint *l)
{
	for (size_t i = 0; i < l->n; i++) {
		free(l->v[i].origin);
		free(l->v[i].object);
		free(l->v[i].field);
		free(l->v[i].text);
	}
	free(l->v);
	lint_index_done(l);
	l->v = NULL;
	l->n = 0;
}

size_t lint_count(const struct lint *l, enum lint_level level)
{
	size_t n = 0;

	for (size_t i = 0; i < l->n; i++)
		n += l->v[i].level == level;
	return n;
}

/* --- references --- */

/*
 * Compares only the names next to `name` in alphabetical order, which limits the time: each of many
 * references may need a suggestion.
 */
static const char *suggest(const struct lint *l, const char *kind, const char *name)
{
	enum { NEAR = 64 };
	const char *names[2 * NEAR];
	const struct object *all;
	size_t n, from = 0, to, count = 0;

	all = objects_kind(l->in, kind, &n);
	to = n;
	while (from < to) {
		size_t mid = from + (to - from) / 2;

		if (strcmp(all[mid].name, name) < 0)
			from = mid + 1;
		else
			to = mid;
	}
	from = from > NEAR ? from - NEAR : 0;
	for (size_t i = from; i < n && count < ARRAY_LEN(names); i++)
		names[count++] = all[i].name;
	return opt_suggest(name, names, count);
}

void lint_missing(struct lint *l, const struct object *o, const char *field, const char *kind,
		  const char *name)
{
	const char *near = suggest(l, kind, name);
	size_t n;

	objects_kind(l->in, kind, &n);
	lint_find(l, n ? LINT_ERROR : LINT_WARNING, o, field, "%s '%s' is not in these files%s%s%s",
		  kind, name, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

const char *lint_annotation(const struct json *v, const char *key)
{
	return json_string(json_get(json_get(json_get(v, "metadata"), "annotations"), key));
}

/* --- objects that admission validates --- */

static bool trusts(void *arg, const char *ns)
{
	const struct lint *l = arg;
	const struct object *o = objects_find(l->in, "Namespace", "", ns);

	return definition_trusted(ns, o ? lint_annotation(o->v, ANNOTATION_TRUSTED) : NULL,
				  l->own_ns);
}

static enum admit_nad nad_state(void *arg, const char *ns, const char *nad, const char *name,
				const char **owner)
{
	const struct lint *l = arg;
	const struct object *o = lint_maker_of(l, ns, nad, name);

	if (o) {
		*owner = o->name;
		return ADMIT_NAD_TAKEN;
	}
	return objects_find(l->in, "NetworkAttachmentDefinition", ns, nad) ? ADMIT_NAD_FREE
									   : ADMIT_NAD_NONE;
}

static void check_admitted(struct lint *l, const struct object *o)
{
	struct admit_cache w = {
		.agent_ns = l->own_ns, .trusts = trusts, .nad = nad_state, .arg = l};
	struct admit_request q = {o->kind, ADMIT_CREATE, o->ns, o->name, o->v, NULL, NULL};
	auto_json struct json_doc *completed = NULL;
	struct admit_answer a;

	lint_overlapping(l, o, &w);
	admit_default(&w, &q, &a);
	for (size_t i = 0; i < a.n_warnings; i++)
		lint_find(l, LINT_WARNING, o, "", "%s", a.warnings[i]);
	admit_answer_done(&a);
	completed = admit_complete(&w, &q);
	if (completed)
		q.object = json_root(completed);
	admit_check(&w, &q, &a);
	for (size_t i = 0; i < a.n_warnings; i++)
		lint_find(l, LINT_WARNING, o, "", "%s", a.warnings[i]);
	if (a.code)
		lint_find(l, LINT_ERROR, o, a.field ? a.field : "", "%s", a.text);
	admit_answer_done(&a);
}

/* --- pools --- */

static void check_pool_networks(struct lint *l, const struct object *o)
{
	struct json_walk w = json_walk_start(json_get(json_get(o->v, "spec"), "multusName"));
	const struct json *v;

	while ((v = json_walk_next(&w, NULL))) {
		struct span rest = span_of(json_string(v) ? json_string(v) : ""), first;
		auto_free char *ns = NULL, *name = NULL;

		if (!rest.n)
			continue;
		span_cut(&rest, '/', &first);
		ns = rest.p ? span_dup(first) : xstrdup(l->own_ns);
		name = span_dup(rest.p ? rest : first);
		if (!lint_network_of(l, ns, name)) {
			auto_free char *full = xasprintf("%s/%s", ns, name);

			lint_missing_network(l, o, "spec.multusName", full);
		}
	}
}

int64_t lint_pool_size(const struct lint *l, const struct object *o)
{
	const struct pool_spec s = {o->origin, json_get(o->v, "spec"), l->own_ns};
	struct pool_draft d = {.name = xstrdup(o->name), .origin = xstrdup(o->origin)};
	struct pool_set set = {0};
	int64_t n = -1;

	if (pool_spec_read(&s, &d, NULL) < 0 || pool_set_add(&set, &d, NULL) < 0)
		pool_draft_done(&d);
	else if (ip_set_count(&set.v[0].ips) < INT64_MAX)
		n = (int64_t)ip_set_count(&set.v[0].ips);
	pool_set_done(&set);
	return n;
}

/* --- networks --- */

/* Adds the pools in the IPAM configuration of a plugin or of a list of plugins. */
static void config_pools(const struct json *v, struct lint_names *ret, int depth)
{
	static const char *const keys[] = {"default_ipv4_ippool", "default_ipv6_ippool"};
	struct json_walk w = json_walk_start(v), k;
	const struct json *one, *name;

	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		for (k = json_walk_start(json_get_go(v, keys[i]));
		     (name = json_walk_next(&k, NULL));)
			lint_names_add(ret, json_string(name));
	while (depth < DEPTH_MAX && (one = json_walk_next(&w, NULL)))
		if (json_kind(one) == JSON_OBJECT || json_kind(one) == JSON_ARRAY)
			config_pools(one, ret, depth + 1);
}

void lint_config_pools(const char *config, struct lint_names *ret)
{
	auto_json struct json_doc *doc = NULL;

	if (config && json_parse(&doc, span_of(config), CONFIG_TEXT_MAX, NULL) == 0)
		config_pools(json_root(doc), ret, 0);
}

static void check_pools_of(struct lint *l, const struct object *o, const char *field,
			   const char *config)
{
	struct lint_names pools = {0};

	lint_config_pools(config, &pools);
	for (size_t i = 0; i < pools.n; i++)
		if (!strpbrk(pools.v[i], "*?[") &&
		    !objects_find(l->in, "SpiderIPPool", "", pools.v[i]))
			lint_missing(l, o, field, "SpiderIPPool", pools.v[i]);
	str_list_free(pools.v, pools.n);
}

static void check_definition(struct lint *l, const struct object *o)
{
	const char *config = json_string(json_get(json_get(o->v, "spec"), "config"));
	auto_json struct json_doc *doc = NULL;
	const struct json *root;
	struct err e = ERR_INIT;

	if (!config || !*config)
		/* without spec.config, each node has a CNI configuration file that defines the
		 * network of this name */
		return;
	if (json_parse(&doc, span_of(config), CONFIG_TEXT_MAX, &e) < 0) {
		lint_find(l, LINT_ERROR, o, "spec.config", "is not JSON: %s", e.text);
		return;
	}
	root = json_root(doc);
	if (!json_len(json_get_go(root, "plugins")) && !json_string(json_get_go(root, "type")))
		lint_find(l, LINT_ERROR, o, "spec.config",
			  "has neither 'type' nor an element of 'plugins', so no plugin is called");
	if (!trusts(l, o->ns) &&
	    definition_check(root, &(struct definition_rules){.logs_pass = true}, &e) < 0)
		lint_find(l, LINT_ERROR, o, "spec.config", "%s", e.text);
	check_pools_of(l, o, "spec.config", config);
}

static void check_network(struct lint *l, const struct object *o)
{
	struct nad nad = {0};

	if (nad_write(o->v, &nad, NULL) < 0)
		return; /* check_admitted() has reported the error */
	check_pools_of(l, o, "spec", nad.config);
	nad_done(&nad);
}

/* --- workloads: pods, and templates of pods at any depth --- */

static bool is_pod_spec(const struct json *spec)
{
	return json_kind(json_get(spec, "containers")) == JSON_ARRAY;
}

static void find_templates(struct lint *l, const struct object *o, const struct json *v,
			   const char *path, int depth)
{
	struct json_walk w = json_walk_start(v);
	const struct json *one;
	const char *key;

	for (size_t i = 0; depth < DEPTH_MAX && (one = json_walk_next(&w, &key)); i++) {
		auto_free char *at = NULL;

		if (json_kind(one) != JSON_OBJECT && json_kind(one) != JSON_ARRAY)
			continue;
		at = key ? xasprintf("%s%s%s", path, *path ? "." : "", key)
			 : xasprintf("%s[%zu]", path, i);
		if (key && !strcmp(key, "template") && is_pod_spec(json_get(one, "spec")))
			lint_pod(l, o, one, at);
		else
			find_templates(l, o, one, at, depth + 1);
	}
}

static void check_object(struct lint *l, const struct object *o)
{
	lint_fields(l, o);
	if (admit_knows(o->kind))
		check_admitted(l, o);
	if (!strcmp(o->kind, "SpiderIPPool"))
		check_pool_networks(l, o);
	else if (!strcmp(o->kind, "SpiderMultusConfig"))
		check_network(l, o);
	else if (!strcmp(o->kind, "NetworkAttachmentDefinition"))
		check_definition(l, o);
	else if (!strcmp(o->kind, "Pod"))
		lint_pod(l, o, o->v, "");
	else if (strcmp(o->kind, "CustomResourceDefinition") != 0)
		find_templates(l, o, json_get(o->v, "spec"), "spec", 0);
}

void lint_run(struct lint *l)
{
	lint_index_make(l);
	for (size_t i = 0; i < l->in->n; i++) {
		const struct object *o = &l->in->v[i], *before = i ? o - 1 : NULL;

		if (before && *o->name && !strcmp(before->kind, o->kind) &&
		    !strcmp(before->ns, o->ns) && !strcmp(before->name, o->name))
			lint_find(l, LINT_ERROR, o, "metadata.name",
				  "another object of this kind and name is at %s", before->origin);
		check_object(l, o);
	}
}
