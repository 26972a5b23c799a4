/* SPDX-License-Identifier: Apache-2.0 */
/* How much of an object is kept. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "controller/cache/world_priv.h"
#include "ipam/journal/journal_line.h"

enum { VALUE_BYTES = 16 };

/* --- one object --- */

/* The document has the text and each value. */
static size_t cost_of(struct span text)
{
	size_t n = 1;

	for (size_t i = 0; i < text.n; i++)
		n += text.p[i] == ',' || text.p[i] == ':' || text.p[i] == '[' || text.p[i] == '{';
	return text.n + n * VALUE_BYTES;
}

static size_t max_of(enum world_kind kind)
{
	if (kind == WORLD_NAMESPACES)
		return WORLD_LABELS_MAX;
	return world_is_tenants(kind) ? WORLD_OBJECT_MAX : SIZE_MAX;
}

static uint64_t digest_of(const struct json *object)
{
	const char *text = json_string(json_get(json_get(object, "status"), "allocatedIPs"));

	return text && *text ? xxh64(text, strlen(text)) : 0;
}

static int keep(struct world_object *v, const struct buf *text, struct err *e)
{
	struct json_doc *doc;
	int r = json_parse(&doc, buf_span(text), WORLD_TEXT_MAX, e);

	if (r < 0)
		return r;
	json_free(v->doc);
	v->doc = doc;
	v->json = json_root(doc);
	v->bytes = cost_of(buf_span(text));
	return 0;
}

int world_decode(enum world_kind kind, struct world_object *v, const struct json *object,
		 struct err *e)
{
	auto_buf struct buf b;
	size_t cost;
	int r;

	buf_init(&b, WORLD_TEXT_MAX);
	world_trim(kind, object, &b);
	cost = b.over ? (size_t)WORLD_TEXT_MAX : cost_of(buf_span(&b));
	if (cost > max_of(kind)) {
		v->large = cost;
		buf_done(&b);
		buf_init(&b, WORLD_TEXT_MAX);
		world_trim_large(kind, object, &b);
	}
	if (b.over)
		return err_set(e, -EFBIG, "is longer than %d bytes", WORLD_TEXT_MAX);
	r = keep(v, &b, e);
	if (r < 0)
		return r;
	v->deleting = json_get(json_get(v->json, "metadata"), "deletionTimestamp");
	v->allocated = kind == WORLD_POOLS ? digest_of(object) : 0;
	return 0;
}

/* --- all of a namespace --- */

static void say_large(enum world_kind kind, const struct kube_object *o)
{
	log_limited(LOG_WARN, 2, "an object is too large to be kept: nothing is made of it",
		    LOG_S("kind", world_kind_name(kind)), LOG_S("namespace", o->ns),
		    LOG_S("name", o->name), LOG_I("bytes", (int64_t)world_object(o)->large));
}

void world_spend(struct world *w, enum world_kind kind, const struct kube_object *o)
{
	struct world_object *v = o->value;
	auto_buf struct buf b = {0};

	if (world_is_tenants(kind) && !v->large && !kube_spent_more(&w->spent, o->ns, v->bytes)) {
		v->large = v->bytes;
		buf_init(&b, WORLD_TEXT_MAX);
		world_trim_large(kind, v->json, &b);
		keep(v, &b, NULL); /* a part of what was parsed */
	}
	if (v->large)
		say_large(kind, o);
}

void world_spend_back(struct world *w, enum world_kind kind, const struct kube_object *o)
{
	const struct world_object *v = world_object(o);

	if (world_is_tenants(kind) && !v->large)
		kube_spent_less(&w->spent, o->ns, v->bytes);
}
