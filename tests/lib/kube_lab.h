/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_TESTS_KUBE_LAB_H
#define UNIRAIL_TESTS_KUBE_LAB_H

/*
 * A fake of the client of the API server (kube/client.h, kube/listwatch.h), for tests that decide
 * what each list contains and when each request is answered. (api_lab.h of unit/agent/blocks is a
 * fake server for the real client instead.) This header defines the functions of both headers,
 * except kube_new(), kube_free() and kube_watch_decode(), in place of kube/client.c and
 * kube/listwatch.c: only one file of a test program may include it.
 *
 * The test owns the struct kube: all zeros except `loop`, whose clock the test sets. A fake with
 * more state is a struct whose first member is a struct kube. A list ends, and a watch opens, when
 * the loop runs next. A request stays open until the test answers it or the code under test cancels
 * it. Requests that write an Event object are never answered, and are not counted.
 */

#include "testlib.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "kube/kinds.h"
#include "kube/listwatch.h"

struct kube {
	struct loop *loop;
	/* Called at the end of each list: passes its objects to kl_item(). Returns the error
	 * with which the list ends, or NULL. If this member is NULL, each list is empty. */
	const struct err *(*list)(const struct kube_list *l);
	/* called by kube_send() for each request that is counted; may be NULL */
	void (*send)(struct kube_call *c, const struct kube_request *r);
	const char *list_version; /* resourceVersion of each list; NULL: "1" */

	/* watches that were started and not cancelled, the last started first */
	struct kube_watch *watches;
	struct kube_call *calls; /* the open requests, the last sent first */
	/* n_calls: number of open requests; most_calls: its maximum so far */
	size_t n_calls, most_calls;
	size_t sent, cancelled; /* so far */
};

struct kube_list {
	struct kube *k;
	const struct kube_kind *kind;
	char *fields; /* the field selector; "": none */
	const struct kube_list_ops *ops;
	void *arg;
	struct loop_timer *timer;
};

struct kube_watch {
	struct kube *k;
	const struct kube_kind *kind;
	const struct kube_watch_ops *ops;
	void *arg;
	struct loop_timer *timer; /* NULL: opened */
	struct kube_watch *next;
};

struct kube_call {
	struct kube *k;
	enum kube_verb verb;
	char *name, *sub; /* "": none */
	bool is_event;
	kube_done_fn fn;
	void *arg;
	struct loop_timer *timer; /* of kl_answer_after() */
	int status;
	char *text;
	struct kube_call *next;
};

/* --- for tests --- */

/* Passes an object (JSON) of the list to the code under test. */
static inline void kl_item(const struct kube_list *l, const char *text)
{
	auto_json struct json_doc *doc = t_json(text);
	struct err e = ERR_INIT;

	ASSERT_OK(l->ops->item(l->arg, json_root(doc), &e), &e);
}

/* Of the watches of this kind that are not cancelled, the last started; fails the test if there
 * is none. */
static inline struct kube_watch *kl_watch(const struct kube *k, const struct kube_kind *kind)
{
	struct kube_watch *w = k->watches;

	while (w && w->kind != kind)
		w = w->next;
	assert_non_null(w);
	return w;
}

/* Passes an event to the watch that kl_watch() returns. text: the object. */
static inline void kl_event(const struct kube *k, const struct kube_kind *kind,
			    enum kube_change change, const char *text)
{
	auto_json struct json_doc *doc = t_json(text);
	struct kube_watch *w = kl_watch(k, kind);

	w->ops->event(w->arg, change, json_root(doc));
}

/* The open request that was sent last for an object of this name; NULL: none. */
static inline struct kube_call *kl_call(const struct kube *k, const char *name)
{
	struct kube_call *c = k->calls;

	while (c && strcmp(c->name, name) != 0)
		c = c->next;
	return c;
}

static inline void kl_call_free(struct kube_call *c)
{
	struct kube_call **p = &c->k->calls;

	while (*p && *p != c)
		p = &(*p)->next;
	if (*p) {
		*p = c->next;
		c->k->n_calls--;
	}
	loop_del_timer(c->timer);
	free(c->name);
	free(c->sub);
	free(c->text);
	free(c);
}

/* Answers and frees the request. text: for a status of 400 and above the error message, otherwise
 * the object or NULL. */
static inline void kl_answer(struct kube_call *c, int status, const char *text)
{
	auto_json struct json_doc *doc = text && status < 400 ? t_json(text) : NULL;
	struct err e = ERR_INIT;
	kube_done_fn fn;
	void *arg;

	assert_non_null(c);
	fn = c->fn;
	arg = c->arg;
	if (status >= 400)
		err_set(&e, status == 409 ? -ESTALE : -EACCES, "%s", text);
	kl_call_free(c);
	fn(arg, status, doc ? json_root(doc) : NULL, status >= 400 ? &e : NULL);
}

static inline void kl_on_answer(void *arg)
{
	struct kube_call *c = arg;

	c->timer = NULL;
	kl_answer(c, c->status, c->text);
}

/* Answers `ms` milliseconds of the loop's clock later, as kl_answer() does. The text must not be
 * NULL; it is copied. */
static inline void kl_answer_after(struct kube_call *c, int64_t ms, int status, const char *text)
{
	c->status = status;
	c->text = xstrdup(text);
	c->timer = loop_add_timer(c->k->loop, ms, kl_on_answer, c);
}

/* --- kube/listwatch.h --- */

static inline void kl_list_free(struct kube_list *l)
{
	loop_del_timer(l->timer);
	free(l->fields);
	free(l);
}

static inline void kl_on_list(void *arg)
{
	struct kube_list *l = arg;
	const char *version = l->k->list_version ? l->k->list_version : "1";

	l->timer = NULL;
	l->ops->done(l->arg, version, l->k->list ? l->k->list(l) : NULL);
	kl_list_free(l);
}

struct kube_list *kube_list(struct kube *k, const struct kube_kind *kind,
			    const struct kube_select *s, int page, const struct kube_list_ops *ops,
			    void *arg)
{
	struct kube_list *l = xcalloc(1, sizeof(*l));

	(void)page;
	*l = (struct kube_list){k, kind, xstrdup(s && s->fields ? s->fields : ""), ops, arg, NULL};
	l->timer = loop_add_timer(k->loop, 0, kl_on_list, l);
	return l;
}

struct kube_list *kube_list_since(struct kube *k, const struct kube_kind *kind,
				  const struct kube_select *s, const char *version,
				  const struct kube_list_ops *ops, void *arg)
{
	(void)version;
	return kube_list(k, kind, s, 0, ops, arg);
}

void kube_list_cancel(struct kube_list *l)
{
	if (l)
		kl_list_free(l);
}

static inline void kl_on_watch(void *arg)
{
	struct kube_watch *w = arg;

	w->timer = NULL;
	w->ops->opened(w->arg);
}

struct kube_watch *kube_watch(struct kube *k, const struct kube_kind *kind,
			      const struct kube_select *s, const char *version,
			      const struct kube_watch_ops *ops, void *arg)
{
	struct kube_watch *w = xcalloc(1, sizeof(*w));

	(void)s, (void)version;
	*w = (struct kube_watch){k, kind, ops, arg, NULL, k->watches};
	w->timer = loop_add_timer(k->loop, 0, kl_on_watch, w);
	k->watches = w;
	return w;
}

void kube_watch_cancel(struct kube_watch *w)
{
	struct kube_watch **p;

	if (!w)
		return;
	for (p = &w->k->watches; *p != w;)
		p = &(*p)->next;
	*p = w->next;
	loop_del_timer(w->timer);
	free(w);
}

/* --- kube/client.h --- */

struct loop *kube_loop(const struct kube *k)
{
	return k->loop;
}

struct kube_call *kube_send(struct kube *k, const struct kube_request *r, kube_done_fn fn,
			    void *arg)
{
	struct kube_call *c = xcalloc(1, sizeof(*c));

	*c = (struct kube_call){.k = k,
				.verb = r->verb,
				.name = xstrdup(r->on.name ? r->on.name : ""),
				.sub = xstrdup(r->on.sub ? r->on.sub : ""),
				.is_event = strcmp(r->on.kind->plural, "events") == 0,
				.fn = fn,
				.arg = arg};
	if (c->is_event)
		return c;
	c->next = k->calls;
	k->calls = c;
	k->sent++;
	if (++k->n_calls > k->most_calls)
		k->most_calls = k->n_calls;
	if (k->send)
		k->send(c, r);
	return c;
}

void kube_cancel(struct kube_call *c)
{
	if (!c)
		return;
	c->k->cancelled += !c->is_event;
	kl_call_free(c);
}

#endif
