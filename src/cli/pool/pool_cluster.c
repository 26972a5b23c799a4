/* SPDX-License-Identifier: Apache-2.0 */
#include "block/table.h"
#include "kube/client.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/option.h"
#include "base/table.h"
#include "block/codec.h"
#include "cli/pool/pool.h"
#include "ipam/pool/pool_cluster.h"
#include "kube/kinds.h"
#include "kube/listwatch.h"

/* State of one call: pools and blocks that were read from the API server. */

struct pool_view {
	struct pool_tool *t;
	struct loop *loop;
	struct kube *k;
	size_t kind; /* index of the kind being listed */
	char **lines;
	size_t n_lines;
	struct block_object *blocks;
	size_t n_blocks;
	struct pool_set pools;
	struct err *e;
};

/* `unirail pool` for a cluster: its pools, and the blocks of all nodes. Read-only. */

static const struct kube_kind *const kinds[] = {&kube_ippools, &kube_reservedips, &kube_ipblocks};
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

	kube_list(v->k, kinds[v->kind], &(struct kube_select){0}, KUBE_PAGE, &ops, v);
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

static int pool_view_check(const struct pool_view *v);

static int pool_view_json(const struct pool_view *v, const char *only);

static void pool_view_list(const struct pool_view *v);

static void pool_view_show(const struct pool_view *v, const char *pool);

static int dispatch(const struct pool_view *v, const char *cmd, const char *arg, struct err *e)
{
	if (strcmp(cmd, "check") == 0)
		return pool_view_check(v);
	if (arg && !pool_find(&v->pools, arg))
		return pool_reason_out(&v->pools, arg)
			       ? err_set(e, -EINVAL, "SpiderIPPool '%s' is invalid: %s", arg,
					 pool_reason_out(&v->pools, arg))
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
		return err_set(e, -ENOTSUP,
			       "with --kubeconfig or --context only list, show and check (without "
			       "--repair) are possible: the other commands need the journal of one "
			       "node: run this command there ('unirail pool show POOL --kubeconfig "
			       "FILE' prints the node of each block)");
	r = kube_conf_load(&conf, &(struct kube_where){t->root, path, t->o->context}, e);
	if (r == 0)
		r = read_all(&v, &conf, e);
	if (r == 0)
		r = dispatch(&v, cmd, arg, e);
	view_done(&v);
	kube_conf_done(&conf);
	return r;
}

/* --- output of `unirail pool` for a cluster --- */

/* --- pools and their blocks --- */

struct sum {
	uint64_t blocks, orphans, released, available;
};

static struct sum sum_of(const struct pool_view *v, const char *pool)
{
	struct sum s = {0};

	for (size_t i = 0; i < v->n_blocks; i++) {
		const struct block_object *o = &v->blocks[i];

		if (strcmp(o->pool, pool) != 0)
			continue;
		s.blocks++;
		s.orphans += !*o->node;
		s.released += o->n_released;
		for (size_t k = 0; k < o->n_released; k++)
			s.available += block_entry_open(&o->released[k]);
	}
	return s;
}

static void json_block(struct json_out *j, const struct block_object *o)
{
	char text[IP_TEXT_MAX];

	jo_obj(j);
	jo_kstr(j, "name", o->name);
	jo_kstr(j, "net", ipnet_str(&o->net, text));
	jo_kstr(j, "node", o->node);
	jo_key(j, "released");
	jo_obj(j);
	for (size_t i = 0; i < o->n_released; i++)
		jo_kstr(j, ip_str(&o->released[i].ip, text), o->released[i].to);
	jo_end_obj(j);
	jo_key(j, "requested");
	jo_obj(j);
	for (size_t i = 0; i < o->n_requested; i++)
		jo_kint(j, o->requested[i].key, o->requested[i].count);
	jo_end_obj(j);
	jo_end_obj(j);
}

static void json_pool(struct json_out *j, const struct pool_view *v, const struct pool *p,
		      bool blocks)
{
	struct sum s = sum_of(v, p->name);
	char text[IP_TEXT_MAX];

	jo_obj(j);
	jo_kstr(j, "name", p->name);
	jo_kint(j, "ipVersion", p->family);
	jo_kstr(j, "subnet", ipnet_str(&p->subnet, text));
	jo_kbool(j, "default", p->is_default);
	jo_kbool(j, "disable", p->disabled);
	jo_kuint(j, "total", (uint64_t)ip_set_count(&p->ips));
	jo_kuint(j, "claimedBlocks", s.blocks);
	jo_kuint(j, "orphanBlocks", s.orphans);
	jo_kuint(j, "released", s.released);
	jo_kuint(j, "available", s.available);
	jo_key(j, "blocks");
	jo_arr(j);
	for (size_t i = 0; i < v->n_blocks && blocks; i++)
		if (strcmp(v->blocks[i].pool, p->name) == 0)
			json_block(j, &v->blocks[i]);
	jo_end_arr(j);
	jo_end_obj(j);
}

/* Prints the pool named `only` with its blocks, or all pools without their blocks if `only` is
 * NULL, as JSON. Returns the exit status. */
static int pool_view_json(const struct pool_view *v, const char *only)
{
	auto_buf struct buf b;
	struct json_out j;

	buf_init(&b, REPORT_MAX);
	jo_init(&j, &b, 4);
	jo_obj(&j);
	jo_key(&j, "pools");
	jo_arr(&j);
	for (size_t i = 0; i < v->pools.n; i++)
		if (!only || strcmp(v->pools.v[i].name, only) == 0)
			json_pool(&j, v, &v->pools.v[i], only != NULL);
	jo_end_arr(&j);
	jo_end_obj(&j);
	buf_char(&b, '\n');
	return opt_print(&b);
}

/* --- list, show, check --- */

static void pool_view_list(const struct pool_view *v)
{
	static const char *const head[] = {"POOL",    "IP VERSION", "SUBNET",  "TOTAL", "BLOCKS",
					   "UNOWNED", "RELEASED",   "DEFAULT", "STATE"};
	auto_columns struct columns c;
	char text[IP_TEXT_MAX];

	columns_init(&c, ARRAY_LEN(head), "");
	for (size_t i = 0; i < ARRAY_LEN(head); i++)
		columns_add(&c, head[i]);
	for (size_t i = 0; i < v->pools.n; i++) {
		const struct pool *p = &v->pools.v[i];
		struct sum s = sum_of(v, p->name);

		columns_add(&c, p->name);
		columns_addf(&c, "%u", p->family);
		columns_add(&c, ipnet_str(&p->subnet, text));
		columns_addf(&c, "%" PRIu64, (uint64_t)ip_set_count(&p->ips));
		columns_addf(&c, "%" PRIu64, s.blocks);
		columns_addf(&c, "%" PRIu64, s.orphans);
		columns_addf(&c, "%" PRIu64, s.released);
		columns_add(&c, p->is_default ? "yes" : "no");
		columns_add(&c, p->disabled ? "disabled" : "ready");
	}
	columns_print(&c, stdout);
	for (size_t i = 0; i < v->pools.n_out; i++)
		printf("%s is invalid: %s\n", v->pools.out[i].name, v->pools.out[i].cause);
}

static void pool_view_show(const struct pool_view *v, const char *pool)
{
	static const char *const head[] = {"BLOCK", "CIDR", "NODE", "RELEASED", "REQUESTED BY"};
	auto_columns struct columns c;
	char text[IP_TEXT_MAX];

	columns_init(&c, ARRAY_LEN(head), "");
	for (size_t i = 0; i < ARRAY_LEN(head); i++)
		columns_add(&c, head[i]);
	for (size_t i = 0; i < v->n_blocks; i++) {
		const struct block_object *o = &v->blocks[i];

		if (strcmp(o->pool, pool) != 0)
			continue;
		columns_add(&c, o->name);
		columns_add(&c, ipnet_str(&o->net, text));
		columns_add(&c, *o->node ? o->node : "-");
		columns_addf(&c, "%zu", o->n_released);
		columns_add(&c, o->n_requested ? o->requested[0].key : "");
	}
	columns_print(&c, stdout);
}

static size_t check_block(const struct pool_view *v, const struct block_object *o, struct buf *b)
{
	const struct pool *p = pool_find(&v->pools, o->pool);
	size_t n = 0;

	if (!p && !pool_reason_out(&v->pools, o->pool)) {
		buf_printf(b, "block '%s' belongs to pool '%s', which does not exist\n", o->name,
			   o->pool);
		n++;
	} else if (p && !ipnet_contains(&p->subnet, &o->net.ip)) {
		buf_printf(b, "block '%s' is outside of its pool '%s'\n", o->name, o->pool);
		n++;
	}
	for (size_t i = 0; &v->blocks[i] != o; i++)
		if (ipnet_contains(&v->blocks[i].net, &o->net.ip) ||
		    ipnet_contains(&o->net, &v->blocks[i].net.ip)) {
			buf_printf(b, "blocks '%s' and '%s' overlap\n", v->blocks[i].name, o->name);
			n++;
		}
	return n;
}

static int check(const struct pool_view *v, struct buf *b)
{
	size_t n = v->pools.n_out;

	for (size_t i = 0; i < n; i++)
		buf_printf(b, "%s is invalid: %s\n", v->pools.out[i].name, v->pools.out[i].cause);
	for (size_t i = 0; i < v->n_blocks; i++)
		n += check_block(v, &v->blocks[i], b);
	return n > INT32_MAX ? INT32_MAX : (int)n;
}

static int pool_view_check(const struct pool_view *v)
{
	auto_buf struct buf found, out;
	const struct report o = {.json = v->t->json, .out = &out};
	auto_free char *checked = NULL;
	int r;

	buf_init(&found, REPORT_MAX);
	buf_init(&out, REPORT_MAX);
	checked = xasprintf("%zu SpiderIPPools and %zu SpiderIPBlocks of all nodes",
			    v->pools.n + v->pools.n_out, v->n_blocks);
	r = report_findings(&o, checked, &found, check(v, &found));
	opt_print(&out);
	return r;
}
