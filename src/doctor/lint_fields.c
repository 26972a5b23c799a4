/* SPDX-License-Identifier: Apache-2.0 */
/* Reports fields of an object's spec that the CustomResourceDefinition of its kind does not
 * have. */
#include <string.h>

#include "base/alloc.h"
#include "base/option.h"
#include "doctor/lint_internal.h"

static const struct json *schema_of(const struct lint *l, const char *kind)
{
	for (size_t i = 0; l->crds && i < l->crds->n; i++) {
		const struct json *spec = json_get(l->crds->v[i].v, "spec");
		const char *name = json_string(json_get(json_get(spec, "names"), "kind"));
		const struct json *version = json_at(json_get(spec, "versions"), 0);

		if (name && !strcmp(name, kind))
			return json_get(json_get(version, "schema"), "openAPIV3Schema");
	}
	return NULL;
}

static void unknown_field(struct lint *l, const struct object *o, const char *path, const char *key,
			  const struct json *properties)
{
	auto_free const char **names = xcalloc(json_len(properties) + 1, sizeof(*names));
	struct json_walk w = json_walk_start(properties);
	const char *near;
	size_t n = 0;

	while (json_walk_next(&w, &names[n]))
		n++;
	near = opt_suggest(key, names, n);
	lint_find(l, LINT_ERROR, o, path, "%s has no field '%s'%s%s%s", o->kind, key,
		  near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

/* The recursion is at most as deep as the schema, which has no references. */
static void check_fields(struct lint *l, const struct object *o, const struct json *v,
			 const struct json *schema, const char *path)
{
	const struct json *properties = json_get(schema, "properties"), *one, *sub;
	const struct json *each = json_kind(v) == JSON_ARRAY
					  ? json_get(schema, "items")
					  : json_get(schema, "additionalProperties");
	struct json_walk w = json_walk_start(v);
	const char *key;

	if (json_bool(json_get(schema, "x-kubernetes-preserve-unknown-fields")))
		return;
	for (size_t i = 0; (one = json_walk_next(&w, &key)); i++) {
		auto_free char *at = key ? xasprintf("%s.%s", path, key)
					 : xasprintf("%s[%zu]", path, i);

		sub = key ? json_get(properties, key) : NULL;
		if (!sub)
			sub = each;
		if (!sub && key && properties)
			unknown_field(l, o, at, key, properties);
		else if (json_kind(sub) == JSON_OBJECT)
			check_fields(l, o, one, sub, at);
	}
}

void lint_fields(struct lint *l, const struct object *o)
{
	const struct json *schema = schema_of(l, o->kind);
	const struct json *spec = json_get(json_get(schema, "properties"), "spec");

	if (spec)
		check_fields(l, o, json_get(o->v, "spec"), spec, "spec");
}
