/* SPDX-License-Identifier: Apache-2.0 */
/* `multus` on an existing Multus configuration. */
#include "cni/cluster/pod_verbs.h"

static int add(struct cni_call *c, struct cni_result *out, struct err *e)
{
	return pod_add(c, true, out, e);
}

static int del(struct cni_call *c, struct err *e)
{
	return pod_del(c, true, e);
}

static int check(struct cni_call *c, struct err *e)
{
	return pod_check(c, true, e);
}

static int gc(struct cni_call *c, struct err *e)
{
	return pod_gc(c, true, e);
}

static int status(struct cni_call *c, struct err *e)
{
	return pod_status(c, true, e);
}

const struct cni_plugin cni_multus = {
	.name = "multus",
	.about = "CNI multus plugin unirail",
	.relays = true,
	.add = add,
	.check = check,
	.del = del,
	.gc = gc,
	.status = status,
};
