/* SPDX-License-Identifier: Apache-2.0 */
/* Pool files in JSON: the objects that Spiderpool's users have, as `kubectl get -o json` gives
 * them. Key names are the API server's: exact. Unknown ones are refused, since here is no schema
 * that would have told the user. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "ipam/pool/pool_spec.h"

enum { POOL_JSON_MAX = 4 << 20 };

static int add_pool(struct pool_set *s, const struct pool_spec *o, const char *name, struct err *e)
{
	struct pool_draft d = {.name = xstrdup(name), .where = xstrdup(o->where)};
	int n = pool_spec_read(o, &d, e);

	if (n == 0)
		return pool_set_add(s, &d, e);
	pool_draft_done(&d);
	return n;
}

static int read_named(struct pool_set *s, const char *file, const struct json *v, const char *kind,
		      const char *name, struct err *e)
{
	auto_free char *where = xasprintf("%s: '%s'", file, name);
	struct pool_spec o = {.where = where, .spec = json_get(v, "spec")};
	bool is_pool = kind && strcmp(kind, "SpiderIPPool") == 0;

	if (!is_pool && (!kind || strcmp(kind, "SpiderReservedIP") != 0))
		return pool_spec_wrong(
			&o, e, "kind '%.60s' is not SpiderIPPool, SpiderReservedIP or a List",
			kind ? kind : "");
	if (json_kind(o.spec) != JSON_OBJECT)
		return pool_spec_wrong(&o, e, "spec is %s, wants an object",
				       json_kind_name(o.spec));
	if (!json_string(json_get(json_get(v, "metadata"), "name")))
		return pool_spec_wrong(&o, e, "metadata.name is missing");
	return is_pool ? add_pool(s, &o, name, e) : pool_spec_reserve(&o, s, e);
}

static int read_object(struct pool_set *s, const char *file, const struct json *v, size_t index,
		       bool in_list, struct err *e)
{
	const char *name = json_string(json_get(json_get(v, "metadata"), "name"));
	const char *kind = json_string(json_get(v, "kind"));
	char nameless[32] = "the object";

	if (in_list)
		snprintf(nameless, sizeof(nameless), "items[%zu]", index);
	return read_named(s, file, v, kind, name ? name : nameless, e);
}

int pool_read_json(struct pool_set *s, const char *file, struct span text, struct err *e)
{
	const struct json *root, *items, *v;
	auto_json struct json_doc *doc = NULL;
	int n = json_parse(&doc, text, POOL_JSON_MAX, e);
	struct json_walk w;

	if (n < 0) {
		if (e)
			e->kind = ERR_CONF;
		return err_wrap(e, n, "%s", file);
	}
	root = json_root(doc);
	items = json_get(root, "items");
	if (json_kind(items) != JSON_ARRAY)
		return read_object(s, file, root, 0, false, e);
	w = json_walk_start(items);
	for (size_t i = 0; n == 0 && (v = json_walk_next(&w, NULL)); i++)
		n = read_object(s, file, v, i, true, e);
	return n;
}
