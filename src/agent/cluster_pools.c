/* SPDX-License-Identifier: Apache-2.0 */
/* Pools: from objects to a set, and the file for when the API server is away. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/cluster_priv.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "ipam/pool_draft.h"

enum { FORMAT = 1, FILE_MAX = 16 << 20, SAVE_MS = 500, COMPLAINT_MAX = 4096 };

static const struct pool_set nothing = {.rest_ms = 60 * 1000, .quarantine_ms = 600 * 1000};

/* --- from texts to a set --- */

static bool is_going(const char *text)
{
	auto_json struct json_doc *doc = NULL;

	return json_parse(&doc, span_of(text), CLUSTER_SPEC_MAX, NULL) == 0 &&
	       json_get(json_get(json_root(doc), "metadata"), "deletionTimestamp");
}

/* Adds what the text says to the set, if it goes together with what there is. */
static int add(struct pool_set *s, const char *text, struct err *e)
{
	size_t n = s->n;
	int r = pool_read_json(s, "API server", span_of(text), e);

	if (r < 0 || s->n == n)
		return r;
	r = pool_set_fits(s, n, &s->v[n], e);
	if (r < 0)
		pool_done(&s->v[--s->n]);
	else if (is_going(text))
		s->v[n].disabled = true;
	return r;
}

int cluster_pool_check(const char *text, struct err *e)
{
	struct pool_set s = nothing;
	int r = add(&s, text, e);

	pool_set_done(&s);
	return r;
}

static void build(struct cluster *c, const char *const *texts, size_t n, struct pool_set *ret)
{
	auto_buf struct buf complaint;

	buf_init(&complaint, COMPLAINT_MAX);
	*ret = nothing;
	for (size_t i = 0; i < n; i++) {
		struct err e = ERR_INIT;

		if (add(ret, texts[i], &e) < 0)
			buf_printf(&complaint, "%s%s", complaint.len ? "; " : "", e.text);
	}
	pool_set_take_out_reserved(ret);
	if (strcmp(c->complaint, complaint.len ? complaint.p : "") == 0)
		return;
	free(c->complaint);
	c->complaint = xstrdup(complaint.len ? complaint.p : "");
	if (complaint.len)
		log_error("pools are left out", LOG_S("error", c->complaint));
}

static void replace(struct cluster *c, const char *const *texts, size_t n, bool old)
{
	if (c->have_pools)
		pool_set_done(&c->pools);
	build(c, texts, n, &c->pools);
	c->have_pools = true;
	c->pools_are_old = old;
}

/* --- the file --- */

static void save(void *arg)
{
	struct cluster *c = arg;
	struct err e = ERR_INIT;

	c->save = NULL;
	if (file_replace(c->conf.root, c->pools_path, span_of(c->pools_text), 0600, &e) < 0)
		log_error("pools are not saved: a restart while the API server is away would know "
			  "none",
			  LOG_S("error", e.text));
}

static void save_soon(struct cluster *c, const char *const *texts, size_t n)
{
	struct buf b;

	buf_init(&b, FILE_MAX);
	buf_printf(&b, "{\"version\":%d,\"items\":[", FORMAT);
	for (size_t i = 0; i < n; i++)
		buf_printf(&b, "%s\n%s", i ? "," : "", texts[i]);
	buf_str(&b, "\n]}\n");
	if (b.over || (c->pools_text && strcmp(c->pools_text, b.p) == 0)) {
		if (b.over)
			log_error("pools are too many to be saved");
		buf_done(&b);
		return;
	}
	free(c->pools_text);
	c->pools_text = buf_take(&b);
	if (!c->save)
		c->save = loop_add_timer(kube_loop(c->conf.kube), SAVE_MS, save, c);
}

static char *text_of(const struct json *v)
{
	struct json_out o;
	struct buf b;

	buf_init(&b, CLUSTER_SPEC_MAX);
	jo_init(&o, &b, 0);
	jo_val(&o, v, false);
	return buf_take(&b);
}

static int take_file(struct cluster *c, const struct json *root, struct err *e)
{
	const struct json *items = json_get(root, "items"), *v;
	struct json_walk w = json_walk_start(items);
	char **texts = NULL;
	int64_t version = 0;
	size_t n = 0;

	if (json_int(json_get(root, "version"), &version) < 0 || version != FORMAT)
		return err_set(e, -EPROTO, "version is not %d: of another release", FORMAT);
	while ((v = json_walk_next(&w, NULL)))
		VEC_PUSH(texts, n) = text_of(v);
	replace(c, (const char *const *)texts, n, true);
	log_info("pools as last seen, until the API server tells",
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
		log_warn("pools as last seen cannot be read: none are known until the API server "
			 "tells",
			 LOG_S("path", c->pools_path), LOG_S("error", e.text));
}

/* --- from watches --- */

/* What must not be handed out has to be known, too; where the kind is not installed there is none. */
static bool is_known(const struct cluster *c)
{
	return cluster_synced(c, CLUSTER_POOLS) && (cluster_synced(c, CLUSTER_RESERVED) ||
						    c->watch[CLUSTER_RESERVED].why.code == -ENOENT);
}

static void collect(const struct cluster *c, enum cluster_kind kind, const char ***texts, size_t *n)
{
	const struct kube_informer *i = c->watch[kind].i;

	for (size_t at = 0; at < kube_informer_count(i); at++) {
		const struct cluster_spec *s = kube_informer_at(i, at)->value;

		VEC_PUSH(*texts, *n) = s->text;
	}
}

static void rebuild(void *arg)
{
	auto_free const char **texts = NULL;
	struct cluster *c = arg;
	size_t n = 0;

	c->rebuild = NULL;
	if (!is_known(c))
		return;
	collect(c, CLUSTER_RESERVED, &texts, &n);
	collect(c, CLUSTER_POOLS, &texts, &n);
	replace(c, texts, n, false);
	save_soon(c, texts, n);
	if (c->conf.pools_changed)
		c->conf.pools_changed(c->conf.arg);
}

void cluster_pools_changed(struct cluster *c)
{
	if (!c->rebuild)
		c->rebuild = loop_add_timer(kube_loop(c->conf.kube), 0, rebuild, c);
}

void cluster_pools_open(struct cluster *c)
{
	c->complaint = xstrdup("");
	c->pools_path = xasprintf("%s/pools.json", c->conf.state_dir);
	read_file(c);
}

void cluster_pools_close(struct cluster *c)
{
	loop_del_timer(c->rebuild);
	if (c->save) {
		loop_del_timer(c->save);
		save(c);
	}
	if (c->have_pools)
		pool_set_done(&c->pools);
	free(c->pools_text);
	free(c->pools_path);
	free(c->complaint);
}

const struct pool_set *cluster_pools(const struct cluster *c)
{
	return c->have_pools ? &c->pools : NULL;
}

bool cluster_pools_are_old(const struct cluster *c)
{
	return c->pools_are_old;
}
