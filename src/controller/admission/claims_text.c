/* SPDX-License-Identifier: Apache-2.0 */
/* The ConfigMap, read and written. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/ip.h"
#include "controller/admission/claims.h"
#include "base/range.h"

/* SPEC_MAX: of what etcd takes. */
enum { CLAIM_MAX = 1 << 20, SPEC_MAX = 8 << 20 };

static const struct json *meta(const struct json *object, const char *key)
{
	return json_get(json_get(object, "metadata"), key);
}

/* kubectl's and others' marks: a PUT without them removes them. */
static struct json_doc *read_metadata(const struct json *map)
{
	static const char *const keys[] = {"labels", "annotations"};
	struct json_doc *doc = NULL;
	struct json_out o;
	auto_buf struct buf text;

	buf_init(&text, CLAIM_MAX);
	if (!meta(map, keys[0]) && !meta(map, keys[1]))
		return NULL;
	jo_init(&o, &text, 0);
	jo_obj(&o);
	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		if (meta(map, keys[i])) {
			jo_key(&o, keys[i]);
			jo_val(&o, meta(map, keys[i]), false);
		}
	jo_end_obj(&o);
	return json_parse(&doc, buf_span(&text), CLAIM_MAX, NULL) < 0 ? NULL : doc;
}

void claims_read(const struct json *map, struct claims_list *ret)
{
	struct json_walk w = json_walk_start(json_get(map, "data"));
	const struct json *v;
	const char *id;

	*ret = (struct claims_list){.metadata = read_metadata(map)};
	while ((v = json_walk_next(&w, &id))) {
		struct json_doc *doc = NULL;
		int64_t at;

		if (!json_string(v) ||
		    json_parse(&doc, span_of(json_string(v)), CLAIM_MAX, NULL) < 0)
			continue;
		if (json_int(json_get(json_root(doc), "at"), &at) < 0 || at > INT64_MAX / 1000 ||
		    !json_string(json_get(json_root(doc), "kind")) ||
		    !json_string(meta(json_root(doc), "name"))) {
			json_free(doc);
			continue;
		}
		VEC_PUSH(ret->v, ret->n) = (struct claims_entry){.id = xstrdup(id),
								 .doc = doc,
								 .at_ms = at * 1000,
								 .len = strlen(json_string(v))};
	}
}

void claims_list_done(struct claims_list *l)
{
	for (size_t i = 0; i < l->n; i++) {
		free(l->v[i].id);
		json_free(l->v[i].doc);
	}
	free(l->v);
	json_free(l->metadata);
	*l = (struct claims_list){0};
}

static void put_value(struct json_out *o, const struct json *v)
{
	struct json_out inner;
	auto_buf struct buf text;

	buf_init(&text, CLAIM_MAX);
	jo_init(&inner, &text, 0);
	jo_val(&inner, v, false);
	jo_str(o, text.len ? text.p : "");
}

static const char *const decided[] = {"subnet", "ips", "excludeIPs"};

void claims_digest(const struct json *spec, char hex[static DIGEST_HEX])
{
	struct json_out o;
	auto_buf struct buf text;

	buf_init(&text, SPEC_MAX);
	jo_init(&o, &text, 0);
	jo_arr(&o);
	for (size_t i = 0; i < ARRAY_LEN(decided); i++)
		if (json_get(spec, decided[i]))
			jo_val(&o, json_get(spec, decided[i]), true);
		else
			jo_null(&o);
	jo_end_arr(&o);
	digest_sha256(buf_span(&text), hex);
}

void claims_entry_digest(const struct claims_entry *c, char hex[static DIGEST_HEX])
{
	const char *text = json_string(json_get(json_root(c->doc), "digest"));

	if (text)
		str_copy(hex, DIGEST_HEX, text);
	else
		claims_digest(json_get(json_root(c->doc), "spec"), hex);
}

/* The first and the last address of a list of ranges. False: there is none, or one that is no range. */
static bool bounds_of(const struct json *ips, struct ip_range *ret)
{
	struct json_walk w = json_walk_start(ips);
	const struct json *v;
	bool any = false;

	while ((v = json_walk_next(&w, NULL))) {
		const char *text = json_string(v);
		struct ip_range r;

		if (!text || ip_range_parse(span_of(text), strchr(text, ':') ? 6 : 4, &r, NULL) < 0)
			return false;
		if (!any || ip_cmp(&r.first, &ret->first) < 0)
			ret->first = r.first;
		if (!any || ip_cmp(&r.last, &ret->last) > 0)
			ret->last = r.last;
		any = true;
	}
	return any;
}

static void put_spec(struct json_out *o, const char *kind, const struct json *spec)
{
	const char *subnet = json_string(json_get(spec, "subnet"));
	char first[IP_TEXT_MAX], last[IP_TEXT_MAX];
	struct ip_range r;

	jo_obj(o);
	if (subnet)
		jo_kstr(o, "subnet", subnet);
	jo_key(o, "ips");
	jo_arr(o);
	if (strcmp(kind, "SpiderSubnet") != 0 && bounds_of(json_get(spec, "ips"), &r)) {
		auto_free char *text =
			xasprintf("%s-%s", ip_str(&r.first, first), ip_str(&r.last, last));

		jo_str(o, text);
	}
	jo_end_arr(o);
	jo_end_obj(o);
}

static void put_own(struct json_out *map, const struct claims_ask *q, int64_t now_ms)
{
	const struct json *spec = json_get(q->object, "spec");
	char hex[DIGEST_HEX];
	struct json_out o;
	auto_buf struct buf text;

	buf_init(&text, CLAIM_MAX);
	jo_init(&o, &text, 0);
	jo_obj(&o);
	jo_kint(&o, "at", now_ms / 1000);
	jo_kstr(&o, "kind", q->kind);
	jo_key(&o, "metadata");
	jo_obj(&o);
	jo_kstr(&o, "name", json_string(meta(q->object, "name")));
	jo_kstr(&o, "uid", json_string(meta(q->object, "uid")) ?: "");
	jo_end_obj(&o);
	jo_key(&o, "spec");
	put_spec(&o, q->kind, spec);
	claims_digest(spec, hex);
	jo_kstr(&o, "digest", hex);
	jo_end_obj(&o);
	jo_kstr(map, q->id, text.p);
}

static int64_t kept_ms(const struct claims_list *l)
{
	size_t len = 0;

	for (size_t i = 0; i < l->n; i++)
		len += l->v[i].len;
	return l->n < CLAIMS_MANY && len < CLAIMS_LONG ? CLAIMS_KEPT_MS : CLAIMS_RUN_OUT_MS;
}

bool claims_are_full(const struct claims_list *l, int64_t now_ms)
{
	size_t n = 0;

	for (size_t i = 0; i < l->n; i++)
		n += !l->v[i].drop && now_ms - l->v[i].at_ms < CLAIMS_RUN_OUT_MS;
	return n >= CLAIMS_MAX;
}

void claims_write(const struct claims_list *l, const struct claims_ask *q, const char *ns,
		  const char *version, int64_t now_ms, struct buf *ret)
{
	int64_t keep = kept_ms(l);
	struct json_walk w = json_walk_start(l->metadata ? json_root(l->metadata) : NULL);
	const struct json *v;
	const char *key;
	struct json_out o;

	jo_init(&o, ret, 0);
	jo_obj(&o);
	jo_kstr(&o, "apiVersion", "v1");
	jo_kstr(&o, "kind", "ConfigMap");
	jo_key(&o, "metadata");
	jo_obj(&o);
	jo_kstr(&o, "name", CLAIMS_NAME);
	jo_kstr(&o, "namespace", ns);
	if (version)
		jo_kstr(&o, "resourceVersion", version);
	while (version && (v = json_walk_next(&w, &key))) {
		jo_key(&o, key);
		jo_val(&o, v, false);
	}
	jo_end_obj(&o);
	jo_key(&o, "data");
	jo_obj(&o);
	for (size_t i = 0; i < l->n; i++)
		if (!l->v[i].drop && now_ms - l->v[i].at_ms < keep) {
			jo_key(&o, l->v[i].id);
			put_value(&o, json_root(l->v[i].doc));
		}
	if (q)
		put_own(&o, q, now_ms);
	jo_end_obj(&o);
	jo_end_obj(&o);
}
