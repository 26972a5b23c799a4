/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a pool is cut stands in an annotation of the pool. Who finds none writes one, bound to the
 * version that had none: of two who do so one is refused, and reads the other's.
 */
#include <errno.h>
#include <string.h>

#include "agent/blocks/blocks_priv.h"
#include "base/cleanup.h"
#include "base/num.h"

#define CUT_ANNOTATION "unirail.io/block-prefix"

/* AMONG_MS: a pool's first pods come to many nodes at once, and one of these is to cut it. */
enum { CUT_MS = 200, CUT_MOST_MS = 30000, AMONG_MS = 150 };

const struct kube_kind blocks_pools_kind = {"spiderpool.spidernet.io", "v2beta1", "spiderippools",
					    "ippool", false};

static void later(struct blocks_pool *p, const struct err *e)
{
	if (e->code != -ESTALE)
		blocks_said(p->b, p->name, e);
	blocks_rest(p->b, p->name, CUT_MS, CUT_MOST_MS);
}

/* 0: the annotation is there and fits; 1: there is none. */
static int read_cut(struct blocks_pool *p, const struct json *object, struct err *e)
{
	const struct json *meta = json_get(object, "metadata");
	const char *text = json_string(json_get(json_get(meta, "annotations"), CUT_ANNOTATION));
	uint64_t prefix = 0;

	if (!text)
		return 1;
	if (num_u64(span_of(text), 1, 128, &prefix) < 0 ||
	    block_cut_choose(&p->subnet, (uint8_t)prefix, p->one_node, &p->cut, e) < 0)
		return err_kind(e, ERR_CONF, -EINVAL,
				"pool '%s': annotation " CUT_ANNOTATION
				" is '%.40s', which does not fit its subnet: remove it while "
				"the pool has no blocks",
				p->name, text);
	return 0;
}

static void know(struct blocks_pool *p)
{
	p->is_cut = true;
	blocks_rested(p->b, p->name);
	blocks_soon(p->b, 0);
}

static void on_written(void *arg, int status, const struct json *object, const struct err *e)
{
	struct blocks_pool *p = arg;
	struct err bad = ERR_INIT;

	(void)status;
	p->cutting = NULL;
	if (e)
		later(p, e);
	else if (read_cut(p, object, &bad) == 0)
		know(p);
	else
		later(p, &bad);
}

static void put_patch(struct json_out *o, const struct blocks_pool *p, const char *version)
{
	struct buf text;

	buf_init(&text, 8);
	buf_printf(&text, "%u", p->cut.prefix);
	jo_obj(o);
	jo_key(o, "metadata");
	jo_obj(o);
	jo_kstr(o, "resourceVersion", version);
	jo_key(o, "annotations");
	jo_obj(o);
	jo_kstr(o, CUT_ANNOTATION, text.p);
	jo_end_obj(o);
	jo_end_obj(o);
	jo_end_obj(o);
	buf_done(&text);
}

static void write_cut(struct blocks_pool *p, const char *version)
{
	struct kube_request r = {.verb = KUBE_MERGE_PATCH,
				 .on = {.kind = &blocks_pools_kind, .name = p->name},
				 .timeout_ms = BLOCKS_REQUEST_MS};
	auto_buf struct buf body;
	struct json_out o;

	buf_init(&body, 1024);
	jo_init(&o, &body, 0);
	put_patch(&o, p, version);
	r.body = buf_span(&body);
	p->b->stats.requests++;
	p->cutting = kube_send(p->b->c.kube, &r, on_written, p);
}

static void on_read(void *arg, int status, const struct json *object, const struct err *e)
{
	struct blocks_pool *p = arg;
	const char *version =
		json_string(json_get(json_get(object, "metadata"), "resourceVersion"));
	struct err bad = ERR_INIT;
	int r = e ? e->code : read_cut(p, object, &bad);

	(void)status;
	p->cutting = NULL;
	if (r == 1 && version)
		r = block_cut_choose(&p->subnet, 0, p->one_node, &p->cut, &bad) < 0 ? bad.code : 1;
	if (r == 1 && version)
		write_cut(p, version);
	else if (r == 0)
		know(p);
	else
		later(p, e ? e : &bad);
}

void blocks_cut(struct blocks *b, struct blocks_pool *p)
{
	const struct kube_request r = {.verb = KUBE_GET,
				       .on = {.kind = &blocks_pools_kind, .name = p->name},
				       .timeout_ms = BLOCKS_REQUEST_MS};

	if (p->cutting || blocks_rests_until(b, p->name))
		return;
	if (!p->cut_ms) {
		p->cut_ms = blocks_now(b) + kube_jitter(0, AMONG_MS);
		blocks_soon(b, p->cut_ms - blocks_now(b));
	}
	if (blocks_now(b) < p->cut_ms)
		return;
	b->stats.requests++;
	p->cutting = kube_send(b->c.kube, &r, on_read, p);
}
