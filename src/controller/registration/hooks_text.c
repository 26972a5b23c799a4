/* SPDX-License-Identifier: Apache-2.0 */
/* A webhook configuration as it is to be, with every field that the API server would fill in: what is
 * not there could not be compared. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "controller/registration/hooks.h"
#include "wire/tls/base64.h"

enum { TIMEOUT_S = 10, TEXT_MAX = 1 << 20 };

static void words(struct json_out *o, const char *key, const char *one)
{
	jo_key(o, key);
	jo_arr(o);
	jo_str(o, one);
	jo_end_arr(o);
}

static void put_client(const struct hooks_form *f, const struct hook *h, struct json_out *o)
{
	auto_free char *ca = f->ca ? base64_encode(span_of(f->ca)) : NULL;
	auto_free char *path = xasprintf("/%s%s", f->token, h->path);
	auto_free char *url = f->url ? xasprintf("%s%s", f->url, path) : NULL;

	jo_key(o, "clientConfig");
	jo_obj(o);
	if (url) {
		jo_kstr(o, "url", url);
	} else {
		jo_key(o, "service");
		jo_obj(o);
		jo_kstr(o, "namespace", f->ns);
		jo_kstr(o, "name", f->service);
		jo_kstr(o, "path", path);
		jo_kint(o, "port", f->port);
		jo_end_obj(o);
	}
	if (ca)
		jo_kstr(o, "caBundle", ca);
	jo_end_obj(o);
}

static void put_rules(const struct hook *h, struct json_out *o)
{
	static const char *const names[] = {"CREATE", "UPDATE", "DELETE"};

	jo_key(o, "rules");
	jo_arr(o);
	jo_obj(o);
	words(o, "apiGroups", h->group);
	words(o, "apiVersions", h->version);
	jo_key(o, "operations");
	jo_arr(o);
	for (unsigned int i = 0; i < ARRAY_LEN(names); i++)
		if (h->operations & 1u << i)
			jo_str(o, names[i]);
	jo_end_arr(o);
	words(o, "resources", h->resource);
	jo_kstr(o, "scope", "*");
	jo_end_obj(o);
	jo_end_arr(o);
}

static void put_selectors(const struct hooks_form *f, const struct hook *h, struct json_out *o)
{
	jo_key(o, "namespaceSelector");
	if (h->by == HOOK_INJECT) {
		inject_scope_write(f->scope, o);
	} else {
		jo_obj(o);
		jo_end_obj(o);
	}
	jo_key(o, "objectSelector");
	jo_obj(o);
	jo_end_obj(o);
}

static void put_conditions(const struct hooks_form *f, const struct hook *h, struct json_out *o)
{
	if (h->by != HOOK_INJECT || !f->condition)
		return;
	jo_key(o, "matchConditions");
	jo_arr(o);
	jo_obj(o);
	jo_kstr(o, "name", "asks");
	jo_kstr(o, "expression", f->condition);
	jo_end_obj(o);
	jo_end_arr(o);
}

static void put_hook(const struct hooks_form *f, const struct hook *h, struct json_out *o)
{
	bool open = h->by == HOOK_INJECT && !f->pods_fail_closed;

	jo_obj(o);
	jo_kstr(o, "name", h->name);
	put_client(f, h, o);
	put_rules(h, o);
	jo_kstr(o, "failurePolicy", open ? "Ignore" : "Fail");
	jo_kstr(o, "matchPolicy", "Equivalent");
	put_selectors(f, h, o);
	put_conditions(f, h, o);
	jo_kstr(o, "sideEffects", h->by == HOOK_CHECK ? "NoneOnDryRun" : "None");
	jo_kint(o, "timeoutSeconds", TIMEOUT_S);
	words(o, "admissionReviewVersions", "v1");
	if (h->by != HOOK_CHECK)
		jo_kstr(o, "reinvocationPolicy", "Never");
	jo_end_obj(o);
}

void hooks_write(const struct hooks_form *f, bool validating, struct json_out *o)
{
	jo_arr(o);
	for (size_t i = 0; i < hooks_count; i++) {
		const struct hook *h = &hooks_table[i];

		if ((h->by == HOOK_CHECK) == validating && (f->pods || h->by != HOOK_INJECT))
			put_hook(f, h, o);
	}
	jo_end_arr(o);
}

/* --- what differs --- */

static bool same(const struct json *a, const struct json *b)
{
	const struct json *const v[2] = {a, b};
	struct buf text[2];
	bool is;

	if (!a || !b)
		return a == b;
	for (int i = 0; i < 2; i++) {
		struct json_out o;

		buf_init(&text[i], TEXT_MAX);
		jo_init(&o, &text[i], 0);
		jo_val(&o, v[i], true);
	}
	is = text[0].len == text[1].len && !memcmp(text[0].p, text[1].p, text[0].len);
	buf_done(&text[0]);
	buf_done(&text[1]);
	return is;
}

static const char *name_of(const struct json *hook)
{
	const char *name = json_string(json_get(hook, "name"));

	return name ? name : "";
}

static const struct json *by_name(const struct json *list, const char *name)
{
	struct json_walk w = json_walk_start(list);
	const struct json *h;

	while ((h = json_walk_next(&w, NULL)))
		if (!strcmp(name_of(h), name))
			return h;
	return NULL;
}

/* A key that we do not write is one that a newer server fills in, but for the one we know. */
static const char *field_differs(const struct json *have, const struct json *want, bool conditions)
{
	static const char known[] = "matchConditions";
	struct json_walk w = json_walk_start(want);
	const struct json *v;
	const char *key;

	while ((v = json_walk_next(&w, &key)))
		if ((conditions || strcmp(key, known)) && !same(json_get(have, key), v))
			return key;
	return json_get(have, known) && !json_get(want, known) ? known : NULL;
}

void hooks_differ(const struct json *have, const struct json *want, bool conditions,
		  struct buf *ret)
{
	struct json_walk w = json_walk_start(want);
	const struct json *h;

	while ((h = json_walk_next(&w, NULL))) {
		const struct json *other = by_name(have, name_of(h));
		const char *field = other ? field_differs(other, h, conditions) : "missing";

		if (field) {
			buf_printf(ret, "%s: %s", name_of(h), field);
			return;
		}
	}
	if (json_len(have) != json_len(want))
		buf_str(ret, "a webhook that is not ours");
}
