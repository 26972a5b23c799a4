/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs of a chained plugin's applet; each call runs this plugin only. */
#include "cni/plugins/chained.h"

#include <string.h>

#include "base/alloc.h"

struct chained_call chained_call_of(const struct attach *a, struct json_doc *doc,
				    const struct json *conf, const char *ifname)
{
	return (struct chained_call){
		.call = a->call,
		.doc = doc,
		.conf = conf,
		.network = a->call->name,
		.ifname = ifname,
		.version = a->call->version,
		.has_prev = a->call->has_prev,
		.netns = a->netns,
		.pod = a->pod,
		.host = a->host,
	};
}

const struct json *chained_runtime(const struct chained_call *m, const char *capability)
{
	const struct json *wants = json_get_go(m->conf, "capabilities");

	if (!m->runtime)
		return json_get_go(json_get_go(m->conf, "runtimeConfig"), capability);
	return json_bool(json_get(wants, capability)) ? json_get(m->runtime, capability) : NULL;
}

/* Opens the pod's namespace and the netlink sockets of a call; for a plugin with META_HOST only the
 * host's socket. */
static int open_call(const struct cni_meta *p, struct attach *a, struct cni_call *c,
		     bool deleted_ok, struct chained_call *ret, struct err *e)
{
	int r;

	if (p->flags & META_HOST) {
		a->call = c;
		r = nl_open(&a->host, NL_ROUTE, -1, e);
	} else {
		r = attach_open(a, c, deleted_ok, e);
	}
	if (r >= 0)
		*ret = chained_call_of(a, c->doc, c->conf, c->ifname);
	return r;
}

int chained_run_add(struct cni_call *c, struct cni_result *out, struct err *e)
{
	const struct cni_meta *p = c->plugin->kind;
	auto_attach struct attach a = ATTACH_INIT;
	struct chained_call m;
	int r = open_call(p, &a, c, false, &m, e);

	if (r < 0)
		return r;
	cni_result_copy(out, &c->prev);
	r = p->add(&m, out, &a.undo, e);
	if (r < 0)
		undo_run(&a.undo);
	else
		undo_disarm(&a.undo);
	return r < 0 ? r : 0;
}

int chained_run_del(struct cni_call *c, struct err *e)
{
	const struct cni_meta *p = c->plugin->kind;
	auto_attach struct attach a = ATTACH_INIT;
	struct chained_call m;
	int r = open_call(p, &a, c, true, &m, e);

	return r < 0 ? r : p->del(&m, &c->prev, e);
}

int chained_run_check(struct cni_call *c, struct err *e)
{
	const struct cni_meta *p = c->plugin->kind;
	auto_attach struct attach a = ATTACH_INIT;
	struct chained_call m;
	int r = open_call(p, &a, c, false, &m, e);

	return r < 0 ? r : p->check(&m, &c->prev, e);
}

int chained_run_gc(struct cni_call *c, struct err *e)
{
	const struct cni_meta *p = c->plugin->kind;
	const struct attach none = {.call = c, .netns = -1};
	struct chained_call m = chained_call_of(&none, c->doc, c->conf, "");

	return p->gc ? p->gc(&m, e) : 0;
}

int chained_run_status(struct cni_call *c, struct err *e)
{
	const struct cni_meta *p = c->plugin->kind;
	const struct attach none = {.call = c, .netns = -1};
	struct chained_call m = chained_call_of(&none, c->doc, c->conf, "");

	return p->status(&m, e);
}
