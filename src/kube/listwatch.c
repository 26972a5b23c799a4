/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/listwatch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "kube/internal.h"
#include "wire/json/stream.h"

/* --- list calls --- */

enum {
	PAGES_MAX = 100000,
	FIRST_PAGE = 32,
	/* maximum factor by which the number of requested objects grows from page to page */
	FASTER = 4,
	PAGE_BYTES = 8 << 20,
};

struct kube_list {
	struct kube *k;
	const struct kube_kind *kind;
	char *ns, *labels, *fields;
	/* minimum version of a list from the server's cache; "": list from etcd, in pages */
	char *since;
	/* page: maximum number of objects in a page; pages: number of pages received */
	int page, pages;
	int count; /* objects to request in the current page */
	/* number of objects and bytes of the current page that were received */
	size_t items, bytes;
	const struct kube_list_ops *ops;
	void *arg;
	struct kube_call *call;
	struct json_split split;
	char *next;    /* continue token; "" on the last page, NULL until the metadata arrived */
	char *version; /* resourceVersion */
	bool busy, dropped;
};

static void start_page(struct kube_list *l);

static void list_free(struct kube_list *l)
{
	json_split_done(&l->split);
	free(l->ns);
	free(l->labels);
	free(l->fields);
	free(l->since);
	free(l->next);
	free(l->version);
	free(l);
}

static void drop_list(void *arg)
{
	struct kube_list *l = arg;

	l->dropped = true;
	if (!l->busy)
		list_free(l);
}

void kube_list_cancel(struct kube_list *l)
{
	if (l)
		kube_cancel(l->call);
}

static int take_meta(struct kube_list *l, const struct json *root, struct err *e)
{
	const struct json *meta = json_get(root, "metadata");
	const char *version = json_string(json_get(meta, "resourceVersion"));

	if (!version)
		return err_kind(e, ERR_DECODE, -EBADMSG, "the list has no resourceVersion");
	free(l->next);
	free(l->version);
	l->next = xstrdup(str_or_empty(json_string(json_get(meta, "continue"))));
	l->version = xstrdup(version);
	return 0;
}

static int take_piece(struct kube_list *l, struct span piece, bool item, struct err *e)
{
	auto_json struct json_doc *doc = NULL;
	int r = json_parse(&doc, piece, JSON_PIECE_MAX, e);

	if (r < 0)
		return err_wrap(e, r, "the answer");
	if (!item)
		return take_meta(l, json_root(doc), e);
	l->items++;
	return l->ops->item(l->arg, json_root(doc), e);
}

static int on_list_data(void *arg, struct span bytes, struct err *e)
{
	struct kube_list *l = arg;
	struct span piece;
	bool item;
	int r;

	l->busy = true;
	l->bytes += bytes.n;
	while ((r = json_split_in(&l->split, &bytes, &piece, &item, e)) > 0) {
		r = take_piece(l, piece, item, e);
		if (r < 0 || l->dropped)
			break;
	}
	l->busy = false;
	if (l->dropped)
		list_free(l);
	return r;
}

static void finish(struct kube_list *l, const struct err *e)
{
	l->ops->done(l->arg, e ? NULL : l->version, e);
	list_free(l);
}

/* Limits the memory for large objects: the API server, and any proxy between it and this client,
 * holds the whole page in memory. */
static void size_next_page(struct kube_list *l)
{
	int64_t fit, most = (int64_t)l->count * FASTER;

	if (l->items == 0)
		return;
	fit = (int64_t)(PAGE_BYTES / (l->bytes / l->items + 1));
	if (fit > most)
		fit = most;
	l->count = fit < 1 ? 1 : fit > l->page ? l->page : (int)fit;
}

static void on_list_end(void *arg, int status, const struct kube_status *s, const struct err *e)
{
	struct kube_list *l = arg;
	struct err bad = ERR_INIT;

	(void)status, (void)s;
	if (!e && (!json_split_is_whole(&l->split) || !l->next)) {
		err_kind(&bad, ERR_AGAIN, -EBADMSG, "%s: the answer is truncated",
			 kube_call_describe(l->call));
		e = &bad;
	}
	if (!e && *l->next && ++l->pages >= PAGES_MAX) {
		err_set(&bad, -EFBIG, "%s: more than %d pages", kube_call_describe(l->call),
			PAGES_MAX);
		e = &bad;
	}
	if (e || !*l->next) {
		finish(l, e);
	} else {
		size_next_page(l);
		start_page(l);
	}
}

static void start_page(struct kube_list *l)
{
	static const struct kube_stream_ops ops = {NULL, on_list_data, on_list_end, drop_list};
	const struct kube_request r = {.verb = KUBE_LIST, .on = {.kind = l->kind, .ns = l->ns}};
	struct kube_request with_query = r;
	auto_buf struct buf query;
	char limit[16];

	buf_init(&query, KUBE_PATH_MAX);
	snprintf(limit, sizeof(limit), "%d", l->count);
	/* No limit if `since` is set: with a limit, the server may read from etcd instead of its
	 * cache. */
	kube_path_query(&query, "limit", *l->since ? NULL : limit);
	kube_path_query(&query, "resourceVersion", l->since);
	kube_path_query(&query, "labelSelector", l->labels);
	kube_path_query(&query, "fieldSelector", l->fields);
	kube_path_query(&query, "continue", l->next);
	with_query.query = query.p;
	free(l->next);
	l->next = NULL;
	l->items = l->bytes = 0;
	json_split_done(&l->split);
	json_split_init(&l->split, JSON_SPLIT_LIST, JSON_PIECE_MAX);
	l->call = kube_stream(l->k, &with_query, &ops, l);
}

static struct kube_list *start(struct kube *k, const struct kube_kind *kind,
			       const struct kube_select *s, const char *since, int page,
			       const struct kube_list_ops *ops, void *arg)
{
	struct kube_list *l = xcalloc(1, sizeof(*l));

	*l = (struct kube_list){.k = k,
				.kind = kind,
				.ns = xstrdup(str_or_empty(s->ns)),
				.labels = xstrdup(str_or_empty(s->labels)),
				.fields = xstrdup(str_or_empty(s->fields)),
				.since = xstrdup(str_or_empty(since)),
				.page = page,
				.count = page < FIRST_PAGE ? page : FIRST_PAGE,
				.ops = ops,
				.arg = arg};
	start_page(l);
	return l;
}

struct kube_list *kube_list(struct kube *k, const struct kube_kind *kind,
			    const struct kube_select *s, int page, const struct kube_list_ops *ops,
			    void *arg)
{
	return start(k, kind, s, NULL, page, ops, arg);
}

struct kube_list *kube_list_since(struct kube *k, const struct kube_kind *kind,
				  const struct kube_select *s, const char *version,
				  const struct kube_list_ops *ops, void *arg)
{
	return start(k, kind, s, version, 0, ops, arg);
}

/* --- watch calls --- */

/* The timeout is spread, so that a thousand watches that began together do not end together. */
enum { TIMEOUT_S = 300, TIMEOUT_MAX_S = 600 };

struct kube_watch {
	const struct kube_watch_ops *ops;
	void *arg;
	struct kube_call *call;
	struct json_split split;
	int status; /* HTTP status of an ERROR event */
	int64_t retry_after;
	bool busy, dropped;
};

static void watch_free(struct kube_watch *w)
{
	json_split_done(&w->split);
	free(w);
}

static void drop_watch(void *arg)
{
	struct kube_watch *w = arg;

	w->dropped = true;
	if (!w->busy)
		watch_free(w);
}

void kube_watch_cancel(struct kube_watch *w)
{
	if (w)
		kube_cancel(w->call);
}

static int change_of(const char *type, enum kube_change *ret)
{
	static const char *const names[] = {
		[KUBE_ADDED] = "ADDED",
		[KUBE_MODIFIED] = "MODIFIED",
		[KUBE_DELETED] = "DELETED",
		[KUBE_BOOKMARK] = "BOOKMARK",
	};

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (strcmp(type, names[i]) == 0) {
			*ret = (enum kube_change)i;
			return 1;
		}
	return 0;
}

int kube_watch_decode(const struct json *event, enum kube_change *change,
		      const struct json **object, int *status, int64_t *retry_after, struct err *e)
{
	const char *type = json_string(json_get(event, "type"));
	const struct json *v = json_get(event, "object");
	struct kube_status s;
	int r;

	*status = 0;
	*retry_after = -1;
	if (!type || json_kind(v) != JSON_OBJECT)
		return err_kind(e, ERR_DECODE, -EBADMSG, "received data that is not a watch event");
	*object = v;
	if (strcmp(type, "ERROR"))
		return change_of(type, change);
	r = kube_status_object(v, "ERROR", &s, e);
	*status = s.code;
	*retry_after = s.retry_after;
	return r;
}

static int take_event(struct kube_watch *w, struct span piece, struct err *e)
{
	auto_json struct json_doc *doc = NULL;
	const struct json *object;
	enum kube_change change;
	int r = json_parse(&doc, piece, JSON_PIECE_MAX, e);

	if (r < 0)
		return err_wrap(e, r, "data of the watch");
	r = kube_watch_decode(json_root(doc), &change, &object, &w->status, &w->retry_after, e);
	if (r > 0)
		w->ops->event(w->arg, change, object);
	return r < 0 ? r : 0;
}

static void on_watch_open(void *arg)
{
	struct kube_watch *w = arg;

	w->busy = true;
	w->ops->opened(w->arg);
	w->busy = false;
	if (w->dropped)
		watch_free(w);
}

static int on_watch_data(void *arg, struct span bytes, struct err *e)
{
	struct kube_watch *w = arg;
	struct span piece;
	bool item;
	int r;

	w->busy = true;
	while ((r = json_split_in(&w->split, &bytes, &piece, &item, e)) > 0) {
		r = take_event(w, piece, e);
		if (r < 0 || w->dropped)
			break;
	}
	w->busy = false;
	if (w->dropped)
		watch_free(w);
	return r;
}

static void on_watch_end(void *arg, int status, const struct kube_status *s, const struct err *e)
{
	struct kube_watch *w = arg;
	struct err bad = ERR_INIT;

	if (s)
		w->retry_after = s->retry_after;
	if (!e && !json_split_is_whole(&w->split)) {
		err_kind(&bad, ERR_AGAIN, -EBADMSG, "%s: an event is truncated",
			 kube_call_describe(w->call));
		e = &bad;
	}
	w->ops->end(w->arg, w->status ? w->status : status, w->retry_after, e);
	watch_free(w);
}

struct kube_watch *kube_watch(struct kube *k, const struct kube_kind *kind,
			      const struct kube_select *s, const char *version,
			      const struct kube_watch_ops *ops, void *arg)
{
	static const struct kube_stream_ops stream = {on_watch_open, on_watch_data, on_watch_end,
						      drop_watch};
	struct kube_request r = {.verb = KUBE_WATCH, .on = {.kind = kind, .ns = s->ns}};
	struct kube_watch *w = xcalloc(1, sizeof(*w));
	auto_buf struct buf query;
	char seconds[16];

	*w = (struct kube_watch){.ops = ops, .arg = arg, .retry_after = -1};
	json_split_init(&w->split, JSON_SPLIT_STREAM, JSON_PIECE_MAX);
	buf_init(&query, KUBE_PATH_MAX);
	snprintf(seconds, sizeof(seconds), "%d", (int)jitter_ms(TIMEOUT_S, TIMEOUT_MAX_S));
	kube_path_query(&query, "watch", "1");
	kube_path_query(&query, "allowWatchBookmarks", "true");
	kube_path_query(&query, "timeoutSeconds", seconds);
	kube_path_query(&query, "resourceVersion", version);
	kube_path_query(&query, "labelSelector", s->labels);
	kube_path_query(&query, "fieldSelector", s->fields);
	r.query = query.p;
	w->call = kube_stream(k, &r, &stream, w);
	return w;
}
