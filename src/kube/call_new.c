/* SPDX-License-Identifier: Apache-2.0 */
/* A request as it is asked for. */
#include <stdlib.h>

#include "kube/call.h"

static void put_words(struct kube_call *c, const struct kube_request *r)
{
	static const char *const verbs[] = {
		[KUBE_GET] = "get",	     [KUBE_LIST] = "list",
		[KUBE_WATCH] = "watch",	     [KUBE_CREATE] = "create",
		[KUBE_REPLACE] = "replace",  [KUBE_MERGE_PATCH] = "patch",
		[KUBE_JSON_PATCH] = "patch", [KUBE_DELETE] = "delete",
	};

	buf_printf(&c->words, "kube: %s ", verbs[r->verb]);
	if (r->path)
		buf_str(&c->words, r->path);
	else
		kube_words(&c->words, &r->on);
}

static void put_path(struct kube_call *c, const struct kube_request *r)
{
	struct kube_ref on = r->on;

	if (r->verb == KUBE_CREATE)
		on.name = NULL;
	buf_str(&c->path, c->k->conf->prefix);
	if (r->path)
		buf_str(&c->path, r->path);
	else
		kube_path(&c->path, &on);
	buf_str(&c->path, r->query ? r->query : "");
}

static void put_preconditions(struct buf *b, const struct kube_request *r)
{
	struct json_out o;

	jo_init(&o, b, 0);
	jo_obj(&o);
	jo_kstr(&o, "kind", "DeleteOptions");
	jo_kstr(&o, "apiVersion", "v1");
	jo_key(&o, "preconditions");
	jo_obj(&o);
	if (r->uid)
		jo_kstr(&o, "uid", r->uid);
	if (r->resource_version)
		jo_kstr(&o, "resourceVersion", r->resource_version);
	jo_end_obj(&o);
	jo_end_obj(&o);
}

struct kube_call *kube_stream(struct kube *k, const struct kube_request *r,
			      const struct kube_stream_ops *ops, void *arg)
{
	struct kube_call *c = xcalloc(1, sizeof(*c));

	*c = (struct kube_call){.k = k, .verb = r->verb, .ops = ops, .arg = arg, .next = k->calls};
	if (c->next)
		c->next->prev = c;
	k->calls = c;
	buf_init(&c->path, KUBE_PATH_MAX);
	buf_init(&c->words, ERR_TEXT_MAX);
	buf_init(&c->body, KUBE_BODY_MAX);
	buf_init(&c->refusal, KUBE_STATUS_MAX);
	put_words(c, r);
	put_path(c, r);
	buf_add(&c->body, r->body.p, r->body.n);
	if (r->verb == KUBE_DELETE && (r->uid || r->resource_version))
		put_preconditions(&c->body, r);
	c->once = r->once && !kube_call_reads(c);
	c->timeout_ms = r->timeout_ms		? r->timeout_ms
			: r->verb == KUBE_WATCH ? KUBE_HEAD_MS
						: k->set.timeout_ms;
	if (r->verb != KUBE_WATCH)
		c->deadline = loop_add_timer(k->loop, c->timeout_ms, kube_call_late, c);
	kube_call_wait(c);
	return c;
}

const char *kube_call_words(const struct kube_call *c)
{
	return c->words.p;
}
