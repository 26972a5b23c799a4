/* SPDX-License-Identifier: Apache-2.0 */
/* Pools: builds the set from objects, and maintains the file used while the API server is
 * unavailable. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/cluster/internal.h"
#include "base/alloc.h"
#include "base/log.h"
#include "base/sweep.h"
#include "ipam/pool/pool_cluster.h"

enum { FORMAT = 1, FILE_MAX = 16 << 20, SAVE_MS = 500, COMPLAINT_MAX = 4096 };

/* --- building the pool set --- */

/* Logs the errors of all pools in one line, only when the errors have changed, not at each
 * change of a pool. */
static void report_error(struct cluster *c)
{
	const struct pool_set *s = &c->pools;
	auto_buf struct buf b;

	buf_init(&b, COMPLAINT_MAX);
	for (size_t i = 0; i < s->n_out; i++)
		buf_printf(&b, "%s%s: %s", i ? "; " : "", s->out[i].name, s->out[i].cause);
	if (s->n_out && log_once(&c->complaint, b.p))
		log_error("ignoring invalid pools or reserved addresses", LOG_S("error", b.p));
	else if (!s->n_out && log_once_clear(&c->complaint))
		log_info("all pools are valid");
}

static void replace(struct cluster *c, const char *const *texts, size_t n, bool old)
{
	if (c->have_pools)
		pool_set_done(&c->pools);
	pool_kube_set(texts, n, c->conf.ns, &c->pools);
	c->have_pools = true;
	c->pools_are_old = old;
	report_error(c);
}

/* --- the file pools.json --- */

/* Returns whether pools and reserved addresses are known. If the CRD of reserved addresses is
 * not installed, there are no reserved addresses. */
static bool is_known(const struct cluster *c)
{
	return kube_cache_synced(c->objects, CLUSTER_POOLS) &&
	       (kube_cache_synced(c->objects, CLUSTER_RESERVED) ||
		kube_cache_error(c->objects, CLUSTER_RESERVED, NULL) == -ENOENT);
}

static void collect(const struct cluster *c, enum cluster_kind kind, const char ***texts, size_t *n)
{
	for (size_t i = 0; i < kube_cache_count(c->objects, kind); i++) {
		char *const *line = kube_cache_at(c->objects, kind, i)->value;

		VEC_PUSH(*texts, *n) = *line;
	}
}

static void collect_all(const struct cluster *c, const char ***texts, size_t *n)
{
	collect(c, CLUSTER_RESERVED, texts, n);
	collect(c, CLUSTER_POOLS, texts, n);
}

static void put_node(struct buf *b, const struct cluster *c)
{
	const struct labels *l = cluster_node_labels(c);
	struct json_out o;

	jo_init(&o, b, 0);
	jo_obj(&o);
	jo_kstr(&o, "uid", c->node_uid ? c->node_uid : "");
	jo_key(&o, "labels");
	jo_obj(&o);
	for (size_t i = 0; l && i < l->n; i++)
		jo_kstr(&o, l->v[i].key, l->v[i].value);
	jo_end_obj(&o);
	jo_end_obj(&o);
}

static char *file_text(const struct cluster *c)
{
	auto_free const char **texts = NULL;
	struct buf b;
	size_t n = 0;

	collect_all(c, &texts, &n);
	buf_init(&b, FILE_MAX);
	buf_printf(&b, "{\"version\":%d,\"node\":", FORMAT);
	put_node(&b, c);
	buf_str(&b, ",\"items\":[");
	for (size_t i = 0; i < n; i++)
		buf_printf(&b, "%s\n%s", i ? "," : "", texts[i]);
	buf_str(&b, "\n]}\n");
	if (!b.over)
		return buf_take(&b);
	log_error("failed to save pools, too many for one file: until the API server is "
		  "available, a restarted agent has only the pools saved before, if any",
		  LOG_I("objects", (int64_t)n));
	buf_done(&b);
	return NULL;
}

static void save(void *arg)
{
	struct cluster *c = arg;
	auto_free char *text = is_known(c) ? file_text(c) : NULL;
	struct err e = ERR_INIT;

	if (!text || (c->pools_text && strcmp(c->pools_text, text) == 0))
		return;
	if (file_replace(c->conf.root, c->pools_path, span_of(text), 0600, &e) < 0) {
		log_error("failed to save pools: until the API server is available, a restarted "
			  "agent has only the pools saved before, if any",
			  LOG_S("error", e.text));
		return;
	}
	free(c->pools_text);
	c->pools_text = take(text);
}

void cluster_save_schedule(struct cluster *c)
{
	loop_alarm_within(&c->save, SAVE_MS);
}

static char *text_of(const struct json *v)
{
	struct json_out o;
	struct buf b;

	buf_init(&b, POOL_KUBE_TEXT_MAX);
	jo_init(&o, &b, 0);
	jo_val(&o, v, false);
	return buf_take(&b);
}

static int take_file(struct cluster *c, const struct json *root, struct err *e)
{
	const struct json *node = json_get(root, "node");
	const char *uid = json_string(json_get(node, "uid"));
	const struct json *items = json_get(root, "items"), *v;
	struct json_walk w = json_walk_start(items);
	char **texts = NULL;
	int64_t version = 0;
	size_t n = 0;

	if (json_int(json_get(root, "version"), &version) < 0 || version != FORMAT)
		return err_set(e, -EPROTO,
			       "version is not %d: another release of unirail wrote the file",
			       FORMAT);
	while ((v = json_walk_next(&w, NULL)))
		VEC_PUSH(texts, n) = text_of(v);
	replace(c, (const char *const *)texts, n, true);
	if (uid && *uid && labels_read(json_get(node, "labels"), "", NULL, &c->node_labels, e) == 0)
		c->node_uid = xstrdup(uid);
	log_info("using saved pools until the API server is available",
		 LOG_I("pools", (int64_t)c->pools.n), LOG_S("path", c->pools_path));
	str_list_free(texts, n);
	return 0;
}

static void read_file(struct cluster *c)
{
	auto_json struct json_doc *doc = NULL;
	struct err e = ERR_INIT;
	auto_buf struct buf b;
	int r;

	buf_init(&b, FILE_MAX);
	r = file_read(c->conf.root, c->pools_path, FILE_MAX, &b, &e);
	if (r == -ENOENT)
		return;
	if (r >= 0)
		r = json_parse(&doc, buf_span(&b), FILE_MAX, &e);
	if (r >= 0)
		r = take_file(c, json_root(doc), &e);
	if (r < 0)
		log_warn("cannot read saved pools: no pool is known until the API server is "
			 "available",
			 LOG_S("path", c->pools_path), LOG_S("error", e.text));
}

/* --- changes reported by watches --- */

static void rebuild(void *arg)
{
	auto_free const char **texts = NULL;
	struct cluster *c = arg;
	size_t n = 0;

	if (!is_known(c))
		return;
	collect_all(c, &texts, &n);
	replace(c, texts, n, false);
	cluster_save_schedule(c);
	if (c->conf.pools_changed)
		c->conf.pools_changed(c->conf.arg, c->addresses_changed);
	c->addresses_changed = false;
}

void cluster_block_size_changed(struct cluster *c)
{
	loop_alarm_within(&c->rebuild, 0);
}

void cluster_pools_changed(struct cluster *c)
{
	c->addresses_changed = true;
	cluster_block_size_changed(c);
}

void cluster_pools_open(struct cluster *c)
{
	c->rebuild = LOOP_ALARM(kube_loop(c->conf.kube), rebuild, c);
	c->save = LOOP_ALARM(kube_loop(c->conf.kube), save, c);
	c->pools_path = xasprintf("%s/pools.json", c->conf.state_dir);
	file_sweep_old(c->conf.root, c->conf.state_dir);
	read_file(c);
}

void cluster_pools_close(struct cluster *c)
{
	loop_alarm_cancel(&c->rebuild);
	if (loop_alarm_armed(&c->save)) {
		loop_alarm_cancel(&c->save);
		save(c);
	}
	free(c->node_uid);
	labels_done(&c->node_labels);
	if (c->have_pools)
		pool_set_done(&c->pools);
	free(c->pools_text);
	free(c->pools_path);
}

struct pool_set *cluster_pools(struct cluster *c)
{
	return c->have_pools ? &c->pools : NULL;
}

const char *cluster_pool_version(const struct cluster *c, const char *pool)
{
	const struct kube_object *o = kube_cache_synced(c->objects, CLUSTER_POOLS)
					      ? kube_cache_get(c->objects, CLUSTER_POOLS, "", pool)
					      : NULL;

	return o ? o->version : NULL;
}

bool cluster_pools_are_old(const struct cluster *c)
{
	return c->pools_are_old;
}
