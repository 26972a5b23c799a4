/* SPDX-License-Identifier: Apache-2.0 */
/* unirail-cni: verbs, and what they share. */
#include "cni/multi/all_in_one_private.h"
#include "cni/cluster/pod_conf.h"
#include "cni/cluster/pod_verbs.h"

struct chain_call aio_chain_call(const struct aio *x, size_t i, const struct aio_plugin *p,
				 const struct cni_result *prev)
{
	const struct aio_net *net = &x->nets[i];

	return (struct chain_call){
		.call = aio_call(x, i),
		.plugin = p->conf,
		.type = p->type,
		.network = net->name,
		.ifname = net->ifname,
		.prev = prev,
		.runtime = i == 0 ? json_get_go(x->call->conf, "runtimeConfig") : NULL,
		.label = net->label,
	};
}

struct meta_call aio_meta_call(const struct aio *x, const struct attach *a, size_t i,
			       const struct aio_plugin *p, bool has_prev)
{
	struct meta_call m = meta_call_of(a, x->call->doc, p->conf, x->nets[i].ifname);

	m.call = aio_call(x, i);
	m.version = m.call->version;
	m.network = x->nets[i].name;
	m.has_prev = has_prev;
	m.runtime = i == 0 ? json_get_go(x->call->conf, "runtimeConfig") : NULL;
	return m;
}

static int each(const struct aio_plugin *list, size_t n, size_t net, aio_plugin_fn fn, void *arg,
		struct err *e)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && i < n; i++)
		r = fn(arg, net, &list[i], e);
	return r;
}

int aio_each_plugin(const struct aio *x, size_t net, aio_plugin_fn fn, void *arg, struct err *e)
{
	const struct aio_net *n = &x->nets[net];
	int r = each(n->ahead, n->n_ahead, net, fn, arg, e);

	if (r >= 0 && !n->kind)
		r = fn(arg, net, &n->main, e);
	if (r >= 0)
		r = each(n->before, n->n_before, net, fn, arg, e);
	return r < 0 ? r : each(n->after, n->n_after, net, fn, arg, e);
}

static int add(struct cni_call *c, struct cni_result *out, struct err *e)
{
	auto_aio struct aio x = {0};
	int r;

	if (pod_conf_asks(c->conf))
		return pod_add(c, false, out, e);
	r = aio_read(c, &x, e);
	if (r >= 0)
		r = aio_read_plugins(&x, e);
	return r < 0 ? r : aio_add(&x, out, e);
}

/* What rails and coordinators want in detail matters only where it can be read. */
static int del(struct cni_call *c, struct err *e)
{
	auto_aio struct aio x = {0};
	int r;

	if (pod_conf_asks(c->conf))
		return pod_del(c, false, e);
	r = aio_read(c, &x, e);
	return r < 0 ? r : aio_del(&x, e);
}

static int check(struct cni_call *c, struct err *e)
{
	auto_aio struct aio x = {0};
	int r;

	if (pod_conf_asks(c->conf))
		return pod_check(c, false, e);
	r = aio_read(c, &x, e);
	if (r >= 0)
		r = aio_read_plugins(&x, e);
	return r < 0 ? r : aio_check(&x, e);
}

static int gc(struct cni_call *c, struct err *e)
{
	auto_aio struct aio x = {0};
	int r;

	if (pod_conf_asks(c->conf))
		return pod_gc(c, false, e);
	r = aio_read(c, &x, e);
	if (r < 0)
		return r;
	aio_read_rails(&x);
	return aio_gc(&x, e);
}

static int status(struct cni_call *c, struct err *e)
{
	auto_aio struct aio x = {0};
	int r;

	if (pod_conf_asks(c->conf))
		return pod_status(c, false, e);
	r = aio_read(c, &x, e);
	if (r >= 0)
		r = aio_read_plugins(&x, e);
	return r < 0 ? r : aio_status(&x, e);
}

const struct cni_plugin cni_all_in_one = {
	.name = "unirail-cni",
	.about = "CNI unirail-cni plugin unirail",
	.add = add,
	.check = check,
	.del = del,
	.gc = gc,
	.status = status,
};
