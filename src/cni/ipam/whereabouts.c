/* SPDX-License-Identifier: Apache-2.0 */
/* The whereabouts IPAM as a plugin of its own. */
#include "cni/ipam/whereabouts.h"

/* A log that cannot be written must not cost a pod its network. */
static void open_log(const struct cni_ipam_call *call)
{
	auto_whereabouts_conf struct whereabouts_conf c;
	struct err e = ERR_INIT;
	struct log_conf l;

	whereabouts_conf_log(call, &c, &l);
	if (log_setup(&l, &e) < 0)
		log_warn("log goes to stderr", LOG_S("error", e.text));
	log_context("container_id", call->call->container_id);
	log_context("ifname", call->ifname);
}

static int run(struct cni_call *c, struct err *e,
	       int (*verb)(const struct cni_ipam_call *call, struct err *e))
{
	struct cni_ipam_call call = cni_ipam_call_of(c);

	open_log(&call);
	return verb(&call, e);
}

static int add(struct cni_call *c, struct cni_result *out, struct err *e)
{
	struct cni_ipam_call call = cni_ipam_call_of(c);

	open_log(&call);
	return whereabouts_add(&call, out, e);
}

static int del(struct cni_call *c, struct err *e)
{
	return run(c, e, whereabouts_del);
}

static int check(struct cni_call *c, struct err *e)
{
	return run(c, e, whereabouts_check);
}

static int gc(struct cni_call *c, struct err *e)
{
	return run(c, e, whereabouts_gc);
}

static int status(struct cni_call *c, struct err *e)
{
	return run(c, e, whereabouts_status);
}

const struct cni_plugin cni_whereabouts = {
	.name = "whereabouts",
	.about = "CNI whereabouts plugin unirail",
	.add = add,
	.check = check,
	.del = del,
	.gc = gc,
	.status = status,
};
