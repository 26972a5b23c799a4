/* SPDX-License-Identifier: Apache-2.0 */
/* unirail-cni: verbs, and what they share. */
#include "cni/all_in_one_private.h"

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

struct aio_plugin aio_main(const struct aio_net *net)
{
	return (struct aio_plugin){net->main_type, net->main};
}

static int add(struct cni_call *c, struct cni_result *out, struct err *e)
{
	auto_aio struct aio x = {0};
	int r = aio_read(c, &x, e);

	if (r >= 0)
		r = aio_read_plugins(&x, e);
	return r < 0 ? r : aio_add(&x, out, e);
}

/* What macvlans and coordinators want in detail does not matter any more. */
static int del(struct cni_call *c, struct err *e)
{
	auto_aio struct aio x = {0};
	int r = aio_read(c, &x, e);

	return r < 0 ? r : aio_del(&x, e);
}

static int check(struct cni_call *c, struct err *e)
{
	auto_aio struct aio x = {0};
	int r = aio_read(c, &x, e);

	if (r >= 0)
		r = aio_read_plugins(&x, e);
	return r < 0 ? r : aio_check(&x, e);
}

static int gc(struct cni_call *c, struct err *e)
{
	auto_aio struct aio x = {0};
	int r = aio_read(c, &x, e);

	return r < 0 ? r : aio_gc(&x, e);
}

static int status(struct cni_call *c, struct err *e)
{
	auto_aio struct aio x = {0};
	int r = aio_read(c, &x, e);

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
