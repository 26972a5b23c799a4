/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs of unirail-cni. */
#include "cni/cluster/conf.h"
#include "cni/cluster/internal.h"
#include "cni/multi/internal.h"
#include "cni/multus/import.h"

static int add(struct cni_call *c, struct cni_result *out, struct err *e)
{
	auto_multi struct multi x = {0};
	int r;

	if (pod_conf_names_pod(c->conf))
		return pod_add(c, false, out, e);
	r = multi_read_all(c, &x, e);
	return r < 0 ? r : multi_add(&x, out, e);
}

/* Without an agent in the netconf, deletes the networks that the netconf contains, and uses the
 * settings of attachments and coordinators only if they can be read. */
static int del(struct cni_call *c, struct err *e)
{
	auto_multi struct multi x = {0};
	int r;

	if (pod_conf_names_pod(c->conf))
		return pod_del(c, false, e);
	r = multi_read(c, &x, e);
	return r < 0 ? r : multi_del(&x, e);
}

static int check(struct cni_call *c, struct err *e)
{
	auto_multi struct multi x = {0};
	int r;

	if (pod_conf_names_pod(c->conf))
		return pod_check(c, false, e);
	r = multi_read_all(c, &x, e);
	return r < 0 ? r : multi_check(&x, e);
}

static int gc(struct cni_call *c, struct err *e)
{
	auto_multi struct multi x = {0};
	int r;

	if (pod_conf_names_pod(c->conf))
		return pod_gc(c, false, e);
	r = multi_read(c, &x, e);
	if (r < 0)
		return r;
	multi_read_rails(&x);
	return multi_gc(&x, e);
}

static int status(struct cni_call *c, struct err *e)
{
	auto_multi struct multi x = {0};
	int r;

	if (pod_conf_names_pod(c->conf))
		return pod_status(c, false, e);
	r = multi_read_all(c, &x, e);
	return r < 0 ? r : multi_status(&x, e);
}

const struct cni_plugin cni_multi = {
	.name = "unirail-cni",
	.about = "CNI unirail-cni plugin unirail",
	.keys = JSON_TABLES(&multi_table, &pod_conf_table, &multus_import_table),
	.add = add,
	.check = check,
	.del = del,
	.gc = gc,
	.status = status,
};
