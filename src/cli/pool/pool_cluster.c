/* SPDX-License-Identifier: Apache-2.0 */
/* `unirail pool` for a cluster: its pools, and the blocks of all nodes. Only looks. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "block/block_wire.h"
#include "ipam/pool/pool_kube.h"
#include "kube/list.h"
#include "cli/pool/pool_cluster.h"
#include "cli/tools.h"

static const struct kube_kind kinds[] = {
	{"spiderpool.spidernet.io", "v2beta1", "spiderippools", "ippool", false},
	{"spiderpool.spidernet.io", "v2beta1", "spiderreservedips", "reservedip", false},
	{"unirail.io", "v1", "spideripblocks", "ipblock", false},
};
static const char *const names[] = {"SpiderIPPool", "SpiderReservedIP", NULL};

/* --- reading --- */

static int on_item(void *arg, const struct json *object, struct err *e)
{
	struct pool_view *v = arg;
	struct block_object o;
	char *line;
	int r;

	if (names[v->kind]) {
		r = pool_kube_text(object, names[v->kind], &line, e);
		if (r == 0)
			VEC_PUSH(v->lines, v->n_lines) = line;
		return r < 0 ? r : 0;
	}
	r = block_object_read(object, &o, e);
	if (r < 0)
		return r;
	VEC_PUSH(v->blocks, v->n_blocks) = o;
	return 0;
}

static void list_next(struct pool_view *v);

static void on_listed(void *arg, const char *version, const struct err *e)
{
	struct pool_view *v = arg;

	(void)version;
	if (e) {
		*v->e = *e;
		loop_stop(v->loop, 1);
	} else if (++v->kind == ARRAY_LEN(kinds)) {
		loop_stop(v->loop, 0);
	} else {
		list_next(v);
	}
}

static void list_next(struct pool_view *v)
{
	static const struct kube_list_ops ops = {on_item, on_listed};

	kube_list(v->k, &kinds[v->kind], &(struct kube_select){0}, KUBE_PAGE, &ops, v);
}

static int read_all(struct pool_view *v, const struct kube_conf *conf, struct err *e)
{
	const struct kube_settings set = {.timeout_ms = (int)v->t->o->timeout_ms,
					  .impatient = true};
	int r = loop_new(&v->loop, e);

	if (r < 0)
		return r;
	v->k = kube_new(v->loop, v->t->root, conf, &set);
	list_next(v);
	r = loop_run(v->loop);
	kube_free(v->k);
	loop_free(v->loop);
	if (r != 0)
		return r < 0 ? r : e->code < 0 ? e->code : -EIO;
	pool_kube_set((const char *const *)v->lines, v->n_lines, "kube-system", &v->pools);
	return 0;
}

static void view_done(struct pool_view *v)
{
	for (size_t i = 0; i < v->n_lines; i++)
		free(v->lines[i]);
	free(v->lines);
	for (size_t i = 0; i < v->n_blocks; i++)
		block_object_done(&v->blocks[i]);
	free(v->blocks);
	pool_set_done(&v->pools);
}

static int dispatch(const struct pool_view *v, const char *cmd, const char *arg, struct err *e)
{
	if (strcmp(cmd, "check") == 0)
		return pool_view_check(v);
	if (arg && !pool_find(&v->pools, arg))
		return pool_why_out(&v->pools, arg)
			       ? err_set(e, -EINVAL, "SpiderIPPool '%s' cannot be used: %s", arg,
					 pool_why_out(&v->pools, arg))
			       : err_set(e, -ENOENT, "the cluster has no SpiderIPPool '%s'", arg);
	if (v->t->json)
		return pool_view_json(v, arg);
	if (arg)
		pool_view_show(v, arg);
	else
		pool_view_list(v);
	return 0;
}

int pool_cluster(struct pool_tool *t, const char *cmd, const char *arg, struct err *e)
{
	auto_free char *path = path_absolute(t->o->kubeconfig);
	struct kube_conf conf = {0};
	struct pool_view v = {.t = t, .e = e};
	int r;

	if (strcmp(cmd, "list") != 0 && strcmp(cmd, "show") != 0 &&
	    (strcmp(cmd, "check") != 0 || t->o->repair))
		return err_set(
			e, -ENOTSUP,
			"a cluster's objects do not tell which pod has an address, nor can one "
			"be released there: run it on the address's node ('unirail pool show "
			"POOL --kubeconfig FILE' tells which that is)");
	r = kube_conf_load(&conf, &(struct kube_where){t->root, path, t->o->context}, e);
	if (r == 0)
		r = read_all(&v, &conf, e);
	if (r == 0)
		r = dispatch(&v, cmd, arg, e);
	view_done(&v);
	kube_conf_done(&conf);
	return r;
}
