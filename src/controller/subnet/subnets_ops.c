/* SPDX-License-Identifier: Apache-2.0 */
/* Objects as the watch shows them, and requests about them, one an object at a time. */
#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "controller/subnet/subnets_priv.h"

enum { SEEN_MS = 3000 };

const struct kube_kind subnets_pools = {"spiderpool.spidernet.io", "v2beta1", "spiderippools",
					"spiderippool", false};
const struct kube_kind subnets_subnets = {"spiderpool.spidernet.io", "v2beta1", "spidersubnets",
					  "spidersubnet", false};
const struct kube_kind subnets_blocks = {"unirail.io", "v1", "spideripblocks", "spideripblock",
					 false};

/* --- requests under way --- */

/* One of a kind and a name at a time. */
static int by_kind_and_name(const void *a, const void *b)
{
	const struct subnets_op *x = a, *y = b;

	return x->kind != y->kind ? (x->kind < y->kind ? -1 : 1) : strcmp(x->name, y->name);
}

/* NULL: none. */
static struct subnets_op *find(const struct subnets *s, enum subnets_op_kind kind, const char *name)
{
	const struct subnets_op want = {.kind = kind, .name = (char *)name};
	struct subnets_op *const *found = tfind(&want, &s->ops, by_kind_and_name);

	return found ? *found : NULL;
}

static void op_drop(void *arg)
{
	struct subnets_op *op = arg;

	kube_cancel(op->call);
	free(op->name);
	free(op->was);
	free(op);
}

static void op_free(struct subnets_op *op)
{
	tdelete(op, &op->s->ops, by_kind_and_name);
	op_drop(op);
}

void subnets_ops_done(struct subnets *s)
{
	tdestroy(s->ops, op_drop);
	s->ops = NULL;
}

/* As the watch shows it: "" when it is not there. */
static const char *version_now(const struct subnets *s, enum subnets_op_kind kind, const char *name)
{
	const struct kube_object *o = world_get(
		s->conf.world, kind == SUBNETS_STATUS ? WORLD_SUBNETS : WORLD_POOLS, "", name);

	return o ? o->version : "";
}

static bool is_over(struct subnets_op *op)
{
	if (op->call)
		return false;
	if (subnets_now(op->s) >= op->until)
		return true;
	return op->was && strcmp(op->was, version_now(op->s, op->kind, op->name)) != 0;
}

bool subnets_busy(struct subnets *s, enum subnets_op_kind kind, const char *name)
{
	struct subnets_op *op = find(s, kind, name);

	if (op && !is_over(op))
		return true;
	if (op)
		op_free(op);
	return false;
}

struct subnets_op *subnets_begin(struct subnets *s, enum subnets_op_kind kind, const char *name)
{
	struct subnets_op *op = find(s, kind, name);
	bool writes = kind == SUBNETS_STATUS || kind == SUBNETS_POOL;

	if (op)
		op_free(op); /* it is over: the caller asked subnets_busy() */
	op = xcalloc(1, sizeof(*op));
	*op = (struct subnets_op){.s = s,
				  .kind = kind,
				  .name = xstrdup(name),
				  .was = writes ? xstrdup(version_now(s, kind, name)) : NULL};
	if (!tsearch(op, &s->ops, by_kind_and_name))
		abort(); /* as any other lack of memory */
	return op;
}

/* Once more with what the watch shows by then; what others were faster with is no trouble. */
static void failed(struct subnets_op *op, const struct err *why)
{
	struct subnets *s = op->s;

	op->until = subnets_now(s) + SUBNETS_AGAIN_MS;
	if (why->code == -ESTALE || why->code == -EEXIST || why->code == -ENOENT)
		return;
	s->failed++;
	subnets_say(s, op->name, NULL, "", why);
}

static void on_written(void *arg, int status, const struct json *object, const struct err *why)
{
	struct subnets_op *op = arg;
	struct subnets *s = op->s;

	(void)status;
	(void)object;
	op->call = NULL;
	op->until = subnets_now(s) + SEEN_MS;
	if (why)
		failed(op, why);
	subnets_wake(s, why ? SUBNETS_AGAIN_MS : SEEN_MS);
	if (!why)
		subnets_wake(s, 1);
}

void subnets_send(struct subnets *s, enum subnets_op_kind kind, const struct kube_request *r)
{
	struct subnets_op *op = subnets_begin(s, kind, r->on.name);

	op->call = kube_send(s->conf.kube, r, on_written, op);
}

/* --- objects --- */

const struct json *subnets_meta(const struct kube_object *o, const char *key)
{
	return json_get(json_get(world_json(o), "metadata"), key);
}

const char *subnets_label(const struct kube_object *o, const char *key)
{
	return json_string(json_get(subnets_meta(o, "labels"), key));
}

const char *subnets_spec(const struct kube_object *o, const char *key)
{
	const char *text = json_string(json_get(json_get(world_json(o), "spec"), key));

	return text ? text : "";
}

const char *subnets_cidr(const struct json *spec, char ret[static IP_TEXT_MAX])
{
	const char *text = json_string(json_get(spec, "subnet"));
	struct ipnet net;

	if (!text || ipnet_parse_loose(span_of(text), &net) < 0)
		return text ? text : "";
	net = ipnet_network(&net);
	return ipnet_str(&net, ret);
}

static char *label_dup(const struct kube_object *o, const char *key)
{
	const char *text = subnets_label(o, key);

	return xstrdup(text ? text : "");
}

/* A long one is cut in the label. */
static char *app_name(const struct kube_object *pool)
{
	const char *whole =
		json_string(json_get(subnets_meta(pool, "annotations"), AUTO_POOL_NAME));

	return whole && auto_pool_label_is(subnets_label(pool, AUTO_POOL_NAME), whole)
		       ? xstrdup(whole)
		       : label_dup(pool, AUTO_POOL_NAME);
}

bool subnets_pool_app(const struct kube_object *pool, struct app_id *ret)
{
	const char *api = subnets_label(pool, AUTO_POOL_API);

	if (!api || !subnets_label(pool, AUTO_POOL_NAME) || !subnets_label(pool, AUTO_POOL_UID))
		return false;
	*ret = (struct app_id){auto_pool_api(api), label_dup(pool, AUTO_POOL_KIND),
			       label_dup(pool, AUTO_POOL_NAMESPACE), app_name(pool),
			       label_dup(pool, AUTO_POOL_UID)};
	return true;
}
