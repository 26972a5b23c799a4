/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/list.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "kube/internal.h"
#include "wire/json/stream.h"

enum {
	PAGES_MAX = 100000,
	FIRST_PAGE = 32,
	FASTER = 4, /* maximum growth factor from one page to the next */
	PAGE_BYTES = 8 << 20,
};

struct kube_list {
	struct kube *k;
	const struct kube_kind *kind;
	char *ns, *labels, *fields;
	/* minimum version of a list from the server's cache; "": list from etcd, in pages */
	char *since;
	/* page: maximum number of objects in a page; pages: number of pages so far */
	int page, pages;
	int count;	     /* objects to request in the current page */
	size_t items, bytes; /* received of the current page so far */
	const struct kube_list_ops *ops;
	void *arg;
	struct kube_call *call;
	struct json_split split;
	char *next;    /* continue token; "" on the last page, NULL until the page is complete */
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

static void drop(void *arg)
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

static char *copy(const char *s)
{
	return xstrdup(s ? s : "");
}

static int take_meta(struct kube_list *l, const struct json *root, struct err *e)
{
	const struct json *meta = json_get(root, "metadata");
	const char *version = json_string(json_get(meta, "resourceVersion"));

	if (!version)
		return err_kind(e, ERR_DECODE, -EBADMSG, "the list has no resourceVersion");
	free(l->next);
	free(l->version);
	l->next = copy(json_string(json_get(meta, "continue")));
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

static int on_data(void *arg, struct span bytes, struct err *e)
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

/* Limits the memory for large objects: the API server, and proxies before it, build the whole
 * page. */
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

static void on_end(void *arg, int status, const struct kube_status *s, const struct err *e)
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
	static const struct kube_stream_ops ops = {NULL, on_data, on_end, drop};
	const struct kube_request r = {.verb = KUBE_LIST, .on = {.kind = l->kind, .ns = l->ns}};
	struct kube_request with_query = r;
	auto_buf struct buf query;
	char limit[16];

	buf_init(&query, KUBE_PATH_MAX);
	snprintf(limit, sizeof(limit), "%d", l->count);
	/* With a limit the server would read from etcd. */
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
				.ns = copy(s->ns),
				.labels = copy(s->labels),
				.fields = copy(s->fields),
				.since = copy(since),
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
