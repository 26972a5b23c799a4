/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/cache.h"

#include <errno.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/log.h"
#include "kube/internal.h"

/* delay of the log line about missing CRDs, so that one line names all kinds without a CRD */
enum { NOT_INSTALLED_MS = 200 };

/* --- errors of lists and watches --- */

static const struct kube_cache_kind *kind_of(const struct kube_cache_watch *w)
{
	return &w->c->conf.kinds[w->kind];
}

static bool is_not_installed(const struct kube_cache_watch *w)
{
	return w->error.code == -ENOENT && kind_of(w)->own_crd;
}

static void log_not_installed(void *arg)
{
	struct kube_cache *c = arg;
	auto_buf struct buf b;

	c->not_installed = NULL;
	buf_init(&b, 1024);
	for (int k = 0; k < c->conf.n; k++)
		if (is_not_installed(&c->watch[k]))
			buf_printf(&b, "%s%s.%s", b.len ? ", " : "", c->conf.kinds[k].kind->plural,
				   c->conf.kinds[k].kind->group);
	if (b.len)
		log_error("the API server does not serve some kinds: install their CRDs (kubectl "
			  "apply -f deploy/crds -f deploy/), will retry",
			  LOG_S("kinds", b.p));
}

static void log_error_of(const struct kube_cache_watch *w)
{
	const struct kube_kind *k = kind_of(w)->kind;
	auto_free char *what = NULL;

	if (w->error.code == -EPERM)
		what = xasprintf("the %s may not read %s: allow it to 'list' and 'watch' %s%s%s",
				 w->c->conf.component, k->plural, k->plural, *k->group ? "." : "",
				 k->group);
	else
		what = xasprintf("cannot list or watch %s, will retry", k->plural);
	log_error(what, LOG_S("error", w->error.text));
}

static void log_change(struct kube_cache_watch *w, enum err_kind was)
{
	struct kube_cache *c = w->c;

	if (!w->error.code && was != ERR_AGAIN)
		log_info("cache is in sync again with the API server",
			 LOG_S("kind", kind_of(w)->kind->plural));
	if (!w->error.code || w->error.kind == ERR_AGAIN)
		return;
	if (!is_not_installed(w))
		log_error_of(w);
	else if (!c->not_installed)
		c->not_installed = loop_add_timer(kube_loop(c->conf.kube), NOT_INSTALLED_MS,
						  log_not_installed, c);
}

static void on_sync_error(void *arg, const struct err *reason)
{
	struct kube_cache_watch *w = arg;
	const struct kube_cache_conf *conf = &w->c->conf;
	enum err_kind was = w->error.kind;

	if (reason)
		w->error = *reason;
	else
		err_clear(&w->error);
	if (conf->component)
		log_change(w, was);
	if (conf->sync_error)
		conf->sync_error(conf->arg, w->kind, reason);
}

int kube_cache_error(const struct kube_cache *c, int kind, struct err *e)
{
	const char *name = kube_cache_kind_name(c, kind);
	const struct err *reason = &c->watch[kind].error;

	if (reason->code)
		return err_kind(e, ERR_AGAIN, reason->code, "%s are not in sync: %s", name,
				reason->text);
	if (kube_cache_synced(c, kind))
		return 0;
	return err_kind(e, ERR_AGAIN, -EAGAIN, "%s are not synced from the API server yet", name);
}

/* --- changes of objects --- */

static void on_changed(void *arg, const struct kube_object *was, const struct kube_object *is)
{
	struct kube_cache_watch *w = arg;
	const struct kube_cache_conf *conf = &w->c->conf;

	if (conf->changed)
		conf->changed(conf->arg, w->kind, was, is);
	for (size_t i = 0, n = w->n; i < n; i++)
		if (w->v[i].fn)
			w->v[i].fn(w->v[i].arg, was, is);
}

static void on_synced(void *arg)
{
	on_changed(arg, NULL, NULL);
}

static void on_etcd_restored(void *arg)
{
	const struct kube_cache_conf *conf = &((struct kube_cache_watch *)arg)->c->conf;

	if (conf->etcd_restored)
		conf->etcd_restored(conf->arg);
}

static bool on_again(void *arg, const struct kube_object *o)
{
	const struct kube_cache_watch *w = arg;

	return kind_of(w)->again(w->c->conf.arg, w->kind, o);
}

void kube_cache_read_again(struct kube_cache *c)
{
	for (int k = 0; k < c->conf.n; k++)
		kube_informer_read_again(c->watch[k].informer);
}

void kube_cache_on(struct kube_cache *c, int kind, kube_cache_fn fn, void *arg)
{
	struct kube_cache_watch *w = &c->watch[kind];
	size_t i = 0;

	while (i < w->n && w->v[i].fn)
		i++;
	if (i == w->n)
		(void)VEC_PUSH(w->v, w->n);
	w->v[i] = (struct kube_cache_listener){fn, arg};
}

void kube_cache_off(struct kube_cache *c, const void *arg)
{
	for (int k = 0; k < c->conf.n; k++)
		for (size_t i = 0; i < c->watch[k].n; i++)
			if (c->watch[k].v[i].arg == arg)
				c->watch[k].v[i] = (struct kube_cache_listener){0};
}

/* --- creation and destruction --- */

static void start(struct kube_cache *c, int kind)
{
	const struct kube_cache_kind *k = &c->conf.kinds[kind];
	struct kube_cache_watch *w = &c->watch[kind];

	*w = (struct kube_cache_watch){.c = c, .kind = kind};
	w->informer = kube_informer_new(c->conf.kube,
					&(struct kube_informer_conf){
						.kind = k->kind,
						.select = c->conf.select ? c->conf.select[kind]
									 : (struct kube_select){0},
						.cached = k->cached,
						.size = k->size,
						.decode = k->decode,
						.drop = k->drop,
						.changed = on_changed,
						.synced = on_synced,
						.etcd_restored = on_etcd_restored,
						.sync_error = on_sync_error,
						.again = k->again ? on_again : NULL,
						.arg = w,
					});
}

struct kube_cache *kube_cache_new(const struct kube_cache_conf *conf)
{
	struct kube_cache *c =
		xcalloc(1, sizeof(*c) + (size_t)conf->n * sizeof(struct kube_cache_watch));

	c->conf = *conf;
	for (int k = 0; k < conf->n; k++)
		start(c, k);
	c->conf.select = NULL;
	return c;
}

void kube_cache_free(struct kube_cache *c)
{
	if (!c)
		return;
	loop_del_timer(c->not_installed);
	for (int k = 0; k < c->conf.n; k++) {
		kube_informer_free(c->watch[k].informer);
		free(c->watch[k].v);
	}
	free(c);
}

/* --- lookups of objects --- */

const char *kube_cache_kind_name(const struct kube_cache *c, int kind)
{
	return c->conf.kinds[kind].kind->plural;
}

bool kube_cache_synced(const struct kube_cache *c, int kind)
{
	bool is = true;

	for (int k = 0; k < c->conf.n; k++)
		if (kind == k || kind == KUBE_CACHE_ALL)
			is &= kube_informer_synced(c->watch[k].informer);
	return is;
}

int64_t kube_cache_stale_ms(const struct kube_cache *c, int kind)
{
	return kube_informer_behind_ms(c->watch[kind].informer);
}

bool kube_cache_current(const struct kube_cache *c, int kind)
{
	bool is = kube_cache_synced(c, kind);

	for (int k = 0; k < c->conf.n; k++)
		if (kind == k || kind == KUBE_CACHE_ALL)
			is &= kube_cache_stale_ms(c, k) == 0;
	return is;
}

const struct kube_object *kube_cache_get(const struct kube_cache *c, int kind, const char *ns,
					 const char *name)
{
	return kube_informer_get(c->watch[kind].informer, ns, name);
}

const void *kube_cache_value(const struct kube_cache *c, int kind, const char *ns, const char *name)
{
	const struct kube_object *o = kube_cache_get(c, kind, ns, name);

	return o ? o->value : NULL;
}

size_t kube_cache_count(const struct kube_cache *c, int kind)
{
	return kube_informer_count(c->watch[kind].informer);
}

const struct kube_object *kube_cache_at(const struct kube_cache *c, int kind, size_t i)
{
	return kube_informer_at(c->watch[kind].informer, i);
}
