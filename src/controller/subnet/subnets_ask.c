/* SPDX-License-Identifier: Apache-2.0 */
/* What watches do not tell: who uses a pool, which blocks it has, whether its owner is there. */
#include <string.h>

#include "base/cleanup.h"
#include "controller/subnet/subnets_priv.h"
#include "block/block_wire.h"
#include "ipam/pool/pool_kube.h"

enum { ASK_MS = 30 * 1000 };

static void add_used(void *arg, const struct ipaddr *ip, const char *pod, const char *uid)
{
	(void)pod;
	(void)uid;
	ip_set_collect(arg, &(struct ip_range){*ip, *ip});
}

static void on_used(void *arg, int status, const struct json *object, const struct err *why)
{
	struct subnets_op *op = arg;
	struct subnets *s = op->s;
	struct subnets_pool_note *n = subnets_note(s, op->name);
	const char *text = json_string(json_get(json_get(object, "status"), "allocatedIPs"));
	struct ip_set used = {0};
	struct err e = ERR_INIT;

	(void)status;
	op->call = NULL;
	op->until = subnets_now(s) + (why ? SUBNETS_AGAIN_MS : 0);
	if (!why && pool_records_read(text, add_used, &used, &e) == 0) {
		ip_set_done(&n->used);
		ip_set_merge(&used);
		n->used = used;
		n->used_at = subnets_now(s);
	} else if (!why) {
		op->until = subnets_now(s) + SUBNETS_AGAIN_MS;
		subnets_say(s, op->name, NULL, "", &e);
		ip_set_done(&used);
	}
	subnets_wake(s, why ? SUBNETS_AGAIN_MS : 1);
}

void subnets_ask_used(struct subnets *s, const char *pool)
{
	struct kube_request r = {.verb = KUBE_GET, .on = {.kind = &subnets_pools, .name = pool}};
	struct subnets_op *op;

	if (subnets_busy(s, SUBNETS_USED, pool))
		return;
	op = subnets_begin(s, SUBNETS_USED, pool);
	op->call = kube_send(s->conf.kube, &r, on_used, op);
}

static bool has_block(const struct json *list, const struct ip_set *of)
{
	struct json_walk w = json_walk_start(json_get(list, "items"));
	const struct json *v;

	while ((v = json_walk_next(&w, NULL))) {
		struct block_object o = {0};
		struct ip_set in = {.family = of->family};
		bool found = true; /* one that cannot be read may have anything */

		if (block_object_read(v, &o, NULL) == 0) {
			block_addresses(of, &o.net, &in);
			found = in.n > 0;
			block_object_done(&o);
		}
		ip_set_done(&in);
		if (found)
			return true;
	}
	return false;
}

static void on_blocks(void *arg, int status, const struct json *object, const struct err *why)
{
	struct subnets_op *op = arg;
	struct subnets *s = op->s;
	struct subnets_pool_note *n = subnets_note(s, op->name);

	op->call = NULL;
	op->until = subnets_now(s) + s->conf.rest_ms;
	n->clear = status == 404 || (!why && !has_block(object, &n->looked));
	if (n->clear)
		op->until = 0;
	subnets_wake(s, n->clear ? 1 : s->conf.rest_ms);
}

void subnets_ask_blocks(struct subnets *s, const char *pool, const struct ip_set *of)
{
	struct kube_request r = {.verb = KUBE_LIST, .on = {.kind = &subnets_blocks}};
	struct subnets_pool_note *n = subnets_note(s, pool);
	auto_buf struct buf query, label;
	char value[BLOCK_LABEL_MAX];
	struct subnets_op *op;

	buf_init(&query, KUBE_PATH_MAX);
	buf_init(&label, 256);
	if (subnets_busy(s, SUBNETS_LOOK, pool))
		return;
	ip_set_done(&n->looked);
	subnet_set_copy(of, &n->looked);
	n->clear = false;
	buf_printf(&label, "%s=%s", BLOCK_POOL_LABEL, block_label(pool, value));
	kube_path_query(&query, "labelSelector", label.p);
	r.query = query.p;
	op = subnets_begin(s, SUBNETS_LOOK, pool);
	op->call = kube_send(s->conf.kube, &r, on_blocks, op);
}

/* --- owners of other kinds --- */

/* The object, not its kind: of that nobody knows where it went. */
static bool is_absent(int status, const struct err *why)
{
	return status == 404 && !strstr(why->text, "does not know this resource");
}

static void on_owner(void *arg, int status, const struct json *object, const struct err *why)
{
	struct subnets_op *op = arg;
	struct subnets *s = op->s;
	struct subnets_pool_note *n = subnets_note(s, op->name);
	const struct kube_object *pool = world_get(s->conf.world, WORLD_POOLS, "", op->name);
	const char *uid = json_string(json_get(json_get(object, "metadata"), "uid"));
	const char *label = pool ? subnets_label(pool, AUTO_POOL_UID) : NULL;

	op->call = NULL;
	op->until = subnets_now(s) + ASK_MS;
	n->orphan = is_absent(status, why) || (!why && uid && label && strcmp(uid, label) != 0);
	if (why && !n->orphan)
		subnets_say(s, op->name, NULL, "", why);
	subnets_wake(s, n->orphan ? 1 : ASK_MS);
}

/* "CloneSet" is "clonesets": as every tool that makes such kinds has it. */
static char *plural_of(const char *kind)
{
	size_t n = strlen(kind);
	char last = n ? kind[n - 1] : '\0';
	char *s = xasprintf("%.*s%s", last == 'y' ? (int)n - 1 : (int)n, kind,
			    last == 'y'					? "ies"
			    : last == 's' || last == 'x' || last == 'h' ? "es"
									: "s");

	for (char *p = s; *p; p++)
		*p = *p >= 'A' && *p <= 'Z' ? (char)(*p | 0x20) : *p;
	return s;
}

void subnets_ask_owner(struct subnets *s, const char *pool, const struct app_id *app)
{
	const char *slash = strchr(app->api, '/');
	auto_free char *group =
		slash ? span_dup((struct span){app->api, (size_t)(slash - app->api)}) : xstrdup("");
	auto_free char *plural = plural_of(app->kind);
	struct kube_kind kind = {group, slash ? slash + 1 : app->api, plural, app->kind, true};
	struct kube_request r = {.verb = KUBE_GET,
				 .on = {.kind = &kind, .ns = app->ns, .name = app->name}};
	struct subnets_op *op;

	if (subnets_busy(s, SUBNETS_OWNER, pool))
		return;
	op = subnets_begin(s, SUBNETS_OWNER, pool);
	op->call = kube_send(s->conf.kube, &r, on_owner, op);
}
