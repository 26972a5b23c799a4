/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/watch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "kube/internal.h"
#include "wire/json/stream.h"

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

static void drop(void *arg)
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
		return err_wrap(e, r, "what came");
	r = kube_watch_decode(json_root(doc), &change, &object, &w->status, &w->retry_after, e);
	if (r > 0)
		w->ops->event(w->arg, change, object);
	return r < 0 ? r : 0;
}

static void on_open(void *arg)
{
	struct kube_watch *w = arg;

	w->busy = true;
	w->ops->opened(w->arg);
	w->busy = false;
	if (w->dropped)
		watch_free(w);
}

static int on_data(void *arg, struct span bytes, struct err *e)
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

static void on_end(void *arg, int status, const struct kube_status *s, const struct err *e)
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
	static const struct kube_stream_ops stream = {on_open, on_data, on_end, drop};
	struct kube_request r = {.verb = KUBE_WATCH, .on = {.kind = kind, .ns = s->ns}};
	struct kube_watch *w = xcalloc(1, sizeof(*w));
	auto_buf struct buf query;
	char seconds[16];

	*w = (struct kube_watch){.ops = ops, .arg = arg, .retry_after = -1};
	json_split_init(&w->split, JSON_SPLIT_STREAM, JSON_PIECE_MAX);
	buf_init(&query, KUBE_PATH_MAX);
	snprintf(seconds, sizeof(seconds), "%d", (int)kube_jitter(TIMEOUT_S, TIMEOUT_MAX_S));
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
