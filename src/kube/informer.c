/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/informer.h"

#include <errno.h>
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/log.h"
#include "base/num.h"
#include "base/sorted.h"
#include "kube/internal.h"
#include "kube/object.h"

/* --- store of objects --- */

static const char *place(char **at, const char *s)
{
	size_t n = strlen(s) + 1;
	char *to = *at;

	memcpy(to, s, n);
	*at += n;
	return to;
}

struct kube_object *kube_object_new(const struct json *object, size_t size)
{
	const char *name = kube_meta_string(object, "name"),
		   *version = kube_meta_string(object, "resourceVersion");
	const char *ns = kube_meta_string(object, "namespace"),
		   *uid = kube_meta_string(object, "uid");
	size_t head = sizeof(struct kube_object), text;
	struct kube_object *o;
	char *at;

	if (!name || !*name || !version)
		return NULL;
	ns = ns ? ns : "";
	uid = uid ? uid : "";
	size = (size + alignof(max_align_t) - 1) / alignof(max_align_t) * alignof(max_align_t);
	text = strlen(ns) + strlen(name) + strlen(uid) + strlen(version) + 4;
	o = xcalloc(1, head + size + text);
	o->value = o + 1;
	at = (char *)o->value + size;
	o->ns = place(&at, ns);
	o->name = place(&at, name);
	o->uid = place(&at, uid);
	o->version = place(&at, version);
	return o;
}

static int compare(const struct kube_object *o, const char *ns, const char *name)
{
	int r = strcmp(o->ns, ns);

	return r ? r : strcmp(o->name, name);
}

bool kube_store_find(const struct kube_store *s, const char *ns, const char *name, size_t *ret)
{
	*ret = LOWER_BOUND(i, s->n, compare(s->v[i], ns, name) < 0);
	return *ret < s->n && compare(s->v[*ret], ns, name) == 0;
}

struct kube_object *kube_store_get(const struct kube_store *s, const char *ns, const char *name)
{
	size_t i;

	return kube_store_find(s, ns, name, &i) ? s->v[i] : NULL;
}

static void grow(struct kube_store *s)
{
	if (s->n < s->cap)
		return;
	s->cap = s->cap ? s->cap + s->cap / 2 : 16;
	s->v = xrealloc(s->v, s->cap * sizeof(*s->v));
}

struct kube_object *kube_store_put(struct kube_store *s, struct kube_object *o)
{
	struct kube_object *old;
	size_t i;

	if (kube_store_find(s, o->ns, o->name, &i)) {
		old = s->v[i];
		s->v[i] = o;
		return old;
	}
	grow(s);
	/* Most insertions append, because the server lists objects in the order of the store. */
	memmove(&s->v[i + 1], &s->v[i], (s->n - i) * sizeof(*s->v));
	s->v[i] = o;
	s->n++;
	return NULL;
}

struct kube_object *kube_store_take(struct kube_store *s, size_t i)
{
	struct kube_object *o = s->v[i];

	s->n--;
	memmove(&s->v[i], &s->v[i + 1], (s->n - i) * sizeof(*s->v));
	return o;
}

bool kube_version_older(const char *version, const char *than)
{
	uint64_t a, b;

	return version && num_u64(span_of(version), 0, UINT64_MAX, &a) == 0 &&
	       num_u64(span_of(than), 0, UINT64_MAX, &b) == 0 && a < b;
}

/* --- schedule of the next list or watch --- */

enum { BACKOFF_MS = 500, BACKOFF_MAX_MS = 30000, SHORT_MS = 1000, AGAIN_MS = 1000 };

static void start(void *arg);

static void set_version(struct kube_informer *i, const char *version)
{
	char *copy = xstrdup(version);

	free(i->version);
	i->version = copy;
}

static void later(struct kube_informer *i, enum next next, int64_t ms)
{
	i->next = next;
	loop_alarm_set(&i->timer, ms);
}

static void not_watching(struct kube_informer *i)
{
	if (!i->behind_from)
		i->behind_from = loop_now_ms(kube_loop(i->k));
}

static void say(struct kube_informer *i, const struct err *e, int64_t ms)
{
	if (i->c.sync_error)
		i->c.sync_error(i->c.arg, e);
	else
		log_warn("kube: cannot list or watch, will retry", LOG_S("error", e->text),
			 LOG_I("ms", ms));
}

static void after_failure(struct kube_informer *i, enum next next, int64_t retry_after,
			  const struct err *e)
{
	int64_t ms = backoff_next(&i->backoff);

	if (retry_after > 0)
		ms += retry_after * 1000;
	not_watching(i);
	if (e && log_once(&i->logged, e->text))
		say(i, e, ms);
	later(i, next, ms);
}

/* --- list of all objects --- */

/* accepts NULL */
static void informer_object_free(struct kube_informer *i, struct kube_object *o)
{
	if (!o)
		return;
	if (i->c.drop)
		i->c.drop(o->value);
	free(o);
}

static void notify(struct kube_informer *i, struct kube_object *was, struct kube_object *is)
{
	if (was || is)
		i->c.changed(i->c.arg, was, is);
	informer_object_free(i, was);
}

static void informer_remove_object(struct kube_informer *i, const char *ns, const char *name)
{
	size_t at;

	if (kube_store_find(&i->store, ns, name, &at))
		notify(i, kube_store_take(&i->store, at), NULL);
}

static void not_decoded(struct kube_informer *i, const struct kube_object *o, const struct err *e)
{
	struct kube_object *known = kube_store_get(&i->store, o->ns, o->name);

	log_limited(LOG_WARN, 3,
		    "kube: cannot decode an object, its previous state (if any) stays in use",
		    LOG_S("kind", i->c.kind->name), LOG_S("namespace", o->ns),
		    LOG_S("name", o->name), LOG_S("error", e->text));
	if (known)
		known->round = i->round;
}

static void put_object(struct kube_informer *i, struct kube_object *o)
{
	struct kube_object *was = kube_store_put(&i->store, o);

	o->round = i->round;
	/* The object was recreated under the same name: report the deletion of the old one. */
	if (was && strcmp(was->uid, o->uid)) {
		notify(i, was, NULL);
		was = NULL;
	}
	notify(i, was, o);
}

/* Decodes, stores and reports an object only if, with `again` false, it is new or differs from
 * the stored object in version or UID, or, with `again` true, the stored object has the same
 * version and UID. */
static void take_object(struct kube_informer *i, const struct json *object, bool again)
{
	struct kube_object *o = kube_object_new(object, i->c.size), *known;
	struct err e = ERR_INIT;
	bool same;
	int r;

	if (!o)
		return;
	known = kube_store_get(&i->store, o->ns, o->name);
	same = known && !strcmp(known->version, o->version) && !strcmp(known->uid, o->uid);
	if (same)
		known->round = i->round;
	if (same != again) {
		free(o);
		return;
	}
	r = i->c.decode(o->value, object, &e);
	if (r == 0) {
		put_object(i, o);
		return;
	}
	if (r < 0)
		not_decoded(i, o, &e);
	else
		informer_remove_object(i, o->ns, o->name);
	informer_object_free(i, o);
}

static void informer_take_object(struct kube_informer *i, const struct json *object)
{
	take_object(i, object, false);
}

static int on_item(void *arg, const struct json *object, struct err *e)
{
	(void)e;
	informer_take_object(arg, object);
	return 0;
}

/* Removes objects that are not in the list that has just ended. */
static void informer_sweep(struct kube_informer *i)
{
	for (size_t at = 0; at < i->store.n;) {
		if (i->store.v[at]->round == i->round)
			at++;
		else
			notify(i, kube_store_take(&i->store, at), NULL);
	}
}

static void on_listed(void *arg, const char *version, const struct err *e)
{
	struct kube_informer *i = arg;

	i->list = NULL;
	if (e) {
		/* A server restored from a backup may not reach the requested version for a long
		 * time: the next list requests no minimum version. */
		if (strstr(e->text, "Too large resource version")) {
			free(i->version);
			i->version = NULL;
		}
		after_failure(i, NEXT_LIST, -1, e);
		return;
	}
	set_version(i, version);
	informer_sweep(i);
	if (!i->synced) {
		i->synced = true;
		if (i->c.synced)
			i->c.synced(i->c.arg);
	} else if (i->c.relisted) {
		i->c.relisted(i->c.arg);
	}
	later(i, NEXT_WATCH, 0);
}

static struct kube_select selection(const struct kube_informer *i)
{
	return (struct kube_select){i->ns, i->labels, i->fields};
}

static void start_list(struct kube_informer *i)
{
	static const struct kube_list_ops ops = {on_item, on_listed};
	const struct kube_select s = selection(i);

	i->round++;
	if (i->c.cached)
		i->list = kube_list_since(i->k, i->c.kind, &s, i->version ? i->version : "0", &ops,
					  i);
	else
		i->list = kube_list(i->k, i->c.kind, &s, KUBE_PAGE, &ops, i);
}

/* --- detecting a restore of etcd --- */

static void on_probe(void *arg, int status, const struct json *list, const struct err *e)
{
	struct kube_informer *i = arg;
	const char *version = kube_meta_string(list, "resourceVersion");

	(void)status;
	i->probe = NULL;
	if (e) {
		after_failure(i, NEXT_PROBE, -1, e);
		return;
	}
	if (kube_version_older(version, i->version)) {
		log_warn("kube: the API server's data is older than before (etcd restored?): "
			 "listing again",
			 LOG_S("kind", i->c.kind->plural), LOG_S("version", version),
			 LOG_S("known", i->version));
		free(i->version);
		i->version = NULL;
		if (i->c.etcd_restored)
			i->c.etcd_restored(i->c.arg);
		later(i, NEXT_LIST, 0);
		return;
	}
	later(i, i->c.verify_after_reconnect ? NEXT_LIST : NEXT_WATCH, 0);
}

static void start_probe(struct kube_informer *i)
{
	const struct kube_request r = {
		.verb = KUBE_LIST, .on = {.kind = i->c.kind, .ns = i->ns}, .query = "?limit=1"};

	i->probe = kube_send(i->k, &r, on_probe, i);
}

/* --- watch of changes --- */

static void on_opened(void *arg)
{
	struct kube_informer *i = arg;
	bool failed = log_once_clear(&i->logged);

	if (failed && i->c.sync_error)
		i->c.sync_error(i->c.arg, NULL);
	else if (failed)
		log_info("kube: watching again", LOG_S("kind", i->c.kind->plural));
	i->behind_from = 0;
}

static void on_event(void *arg, enum kube_change change, const struct json *object)
{
	struct kube_informer *i = arg;
	const struct json *meta = json_get(object, "metadata");
	const char *version = json_string(json_get(meta, "resourceVersion"));
	const char *ns = json_string(json_get(meta, "namespace"));
	const char *name = json_string(json_get(meta, "name"));

	if (!version)
		return;
	if (change == KUBE_DELETED && name)
		informer_remove_object(i, ns ? ns : "", name);
	else if (change != KUBE_BOOKMARK)
		informer_take_object(i, object);
	set_version(i, version);
}

static void on_watch_end(void *arg, int status, int64_t retry_after, const struct err *e)
{
	struct kube_informer *i = arg;
	int64_t lasted = loop_now_ms(kube_loop(i->k)) - i->watch_from;

	i->watch = NULL;
	if (lasted >= SHORT_MS)
		backoff_reset(&i->backoff);
	if (status == 410) {
		log_info("kube: the server no longer has the changes since this version: listing "
			 "again",
			 LOG_S("kind", i->c.kind->plural), LOG_S("version", i->version));
		not_watching(i);
		/* Keeps i->version, because a list from the server's cache must not return older
		 * data. */
		if (lasted < SHORT_MS)
			after_failure(i, NEXT_LIST, -1, NULL);
		else
			later(i, NEXT_LIST, 0);
	} else if (e) {
		after_failure(i, NEXT_PROBE, retry_after, e);
	} else if (lasted < SHORT_MS) {
		after_failure(i, NEXT_WATCH, retry_after, NULL);
	} else {
		later(i, NEXT_WATCH, 0);
	}
}

static void start_watch(struct kube_informer *i)
{
	static const struct kube_watch_ops ops = {on_opened, on_event, on_watch_end};
	const struct kube_select s = selection(i);

	i->watch_from = loop_now_ms(kube_loop(i->k));
	i->watch = kube_watch(i->k, i->c.kind, &s, i->version, &ops, i);
}

static void start(void *arg)
{
	struct kube_informer *i = arg;

	if (i->next == NEXT_LIST || !i->version)
		start_list(i);
	else if (i->next == NEXT_PROBE)
		start_probe(i);
	else
		start_watch(i);
}

/* --- objects that are read again --- */

static void on_again_timer(void *arg);
static void read_again_from(struct kube_informer *i, size_t at);

static void read_again_after(struct kube_informer *i, int64_t ms)
{
	loop_alarm_within(&i->again_timer, ms);
}

static void on_read_again(void *arg, int status, const struct json *list, const struct err *e)
{
	struct kube_informer *i = arg;
	auto_free char *ns = take(i->again_ns), *name = take(i->again_name);
	const struct json *object = json_at(json_get(list, "items"), 0);
	size_t at;

	(void)status;
	i->again = NULL;
	if (e) {
		int64_t ms = backoff_next(&i->again_backoff);

		log_limited(LOG_WARN, 3, "kube: cannot read an object again, will retry",
			    LOG_S("kind", i->c.kind->name), LOG_S("namespace", ns),
			    LOG_S("name", name), LOG_S("error", e->text), LOG_I("ms", ms));
		read_again_after(i, ms);
		return;
	}
	backoff_reset(&i->again_backoff);
	if (object)
		take_object(i, object, true);
	read_again_from(i, kube_store_find(&i->store, ns, name, &at) ? at + 1 : at);
}

/* Reads the object by a list with a fieldSelector, so that the account needs no permission
 * `get`. */
static void read_again(struct kube_informer *i, const struct kube_object *o)
{
	auto_free char *field = xasprintf("metadata.name=%s", o->name);
	struct kube_request r = {.verb = KUBE_LIST, .on = {.kind = i->c.kind, .ns = o->ns}};
	auto_buf struct buf query;

	buf_init(&query, KUBE_PATH_MAX);
	kube_path_query(&query, "fieldSelector", field);
	r.query = query.p;
	i->again_ns = xstrdup(o->ns);
	i->again_name = xstrdup(o->name);
	i->again = kube_send(i->k, &r, on_read_again, i);
}

static void read_again_from(struct kube_informer *i, size_t at)
{
	while (at < i->store.n && !i->c.again(i->c.arg, i->store.v[at]))
		at++;
	if (at < i->store.n)
		read_again(i, i->store.v[at]);
}

static void on_again_timer(void *arg)
{
	struct kube_informer *i = arg;

	if (i->again)
		read_again_after(i, AGAIN_MS); /* the previous reads have not ended */
	else
		read_again_from(i, 0);
}

void kube_informer_read_again(struct kube_informer *i)
{
	if (i->c.again)
		read_again_after(i, AGAIN_MS);
}

/* --- functions of informer.h --- */

struct kube_informer *kube_informer_new(struct kube *k, const struct kube_informer_conf *c)
{
	struct kube_informer *i = xcalloc(1, sizeof(*i));

	*i = (struct kube_informer){.k = k,
				    .c = *c,
				    .ns = xstrdup(str_or_empty(c->select.ns)),
				    .labels = xstrdup(str_or_empty(c->select.labels)),
				    .fields = xstrdup(str_or_empty(c->select.fields)),
				    .timer = LOOP_ALARM(kube_loop(k), start, i),
				    .again_timer = LOOP_ALARM(kube_loop(k), on_again_timer, i),
				    .backoff = {BACKOFF_MS, BACKOFF_MAX_MS, 0},
				    .again_backoff = {AGAIN_MS, BACKOFF_MAX_MS, 0}};
	not_watching(i);
	later(i, NEXT_LIST, 0);
	return i;
}

void kube_informer_free(struct kube_informer *i)
{
	if (!i)
		return;
	kube_list_cancel(i->list);
	kube_cancel(i->probe);
	kube_cancel(i->again);
	loop_alarm_cancel(&i->again_timer);
	free(i->again_ns);
	free(i->again_name);
	kube_watch_cancel(i->watch);
	loop_alarm_cancel(&i->timer);
	for (size_t at = 0; at < i->store.n; at++)
		informer_object_free(i, i->store.v[at]);
	free(i->store.v);
	free(i->version);
	free(i->ns);
	free(i->labels);
	free(i->fields);
	free(i);
}

bool kube_informer_synced(const struct kube_informer *i)
{
	return i->synced;
}

int64_t kube_informer_behind_ms(const struct kube_informer *i)
{
	int64_t ms = i->behind_from ? loop_now_ms(kube_loop(i->k)) - i->behind_from : 0;

	return i->behind_from && ms < 1 ? 1 : ms;
}

const struct kube_object *kube_informer_get(const struct kube_informer *i, const char *ns,
					    const char *name)
{
	return kube_store_get(&i->store, ns, name);
}

const char *kube_informer_version(const struct kube_informer *i)
{
	return i->version;
}

size_t kube_informer_count(const struct kube_informer *i)
{
	return i->store.n;
}

const struct kube_object *kube_informer_at(const struct kube_informer *i, size_t at)
{
	return i->store.v[at];
}
