/* SPDX-License-Identifier: Apache-2.0 */
#include "api_lab.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/num.h"
#include "patch_apply.h"
#include "wire/http/https.h"

enum { ANSWER_MS = 1, TEXT_MAX = 1 << 20, REQUESTS_MAX = 512, FIRST_VERSION = 1000 };

struct object {
	char *path, *text;
};

/* One change of an object, retained for watches that start at an earlier version. was, is: text
 * of the object before and after the change; NULL: the object did not exist then. */
struct change {
	uint64_t version;
	char *path, *was, *is;
};

struct state {
	struct object *v;
	size_t n;
	uint64_t version;
};

/* a request that waits for its answer, or a watch */
struct h2_stream {
	struct https *conn;
	const struct h2_handler *fn;
	void *arg;
	struct api_request q;
	char *type;
	bool is_watch;
	struct loop_timer *timer;
};

struct https {
	const struct https_ops *ops;
	void *arg;
	bool ready;
	struct h2_stream **v;
	size_t n;
	struct loop_timer *timer;
};

static struct {
	struct loop *loop;
	struct state now, backup;
	uint64_t uids;
	struct change *changes;
	size_t n_changes;
	struct api_request requests[REQUESTS_MAX];
	size_t n_requests;
	struct api_fault fault;
	struct https *conn;
	bool is_down;
} api;

/* --- objects --- */

static void state_done(struct state *s)
{
	for (size_t i = 0; i < s->n; i++) {
		free(s->v[i].path);
		free(s->v[i].text);
	}
	free(s->v);
	*s = (struct state){0};
}

static void state_copy(struct state *to, const struct state *from)
{
	state_done(to);
	for (size_t i = 0; i < from->n; i++)
		VEC_PUSH(to->v, to->n) =
			(struct object){xstrdup(from->v[i].path), xstrdup(from->v[i].text)};
	to->version = from->version;
}

static struct object *find(const char *path)
{
	for (size_t i = 0; i < api.now.n; i++)
		if (strcmp(api.now.v[i].path, path) == 0)
			return &api.now.v[i];
	return NULL;
}

struct json_doc *api_get(const char *path)
{
	const struct object *o = find(path);

	return o ? t_json(o->text) : NULL;
}

size_t api_count(const char *prefix)
{
	size_t n = 0;

	for (size_t i = 0; i < api.now.n; i++)
		n += strncmp(api.now.v[i].path, prefix, strlen(prefix)) == 0;
	return n;
}

static const struct json *meta(const struct json_doc *d)
{
	return d ? json_get(json_root(d), "metadata") : NULL;
}

/* --- watches --- */

/* Returns whether `path` is the path of an object of the collection q->path, and the object's
 * labels match the selector of q. text: the object; NULL: it does not exist. */
static bool is_selected(const struct api_request *q, const char *path, const char *text)
{
	auto_json struct json_doc *d = text ? t_json(text) : NULL;
	const char *part = strstr(q->query, "labelSelector="), *value;
	size_t n = strlen(q->path);
	auto_free char *key = NULL;

	if (!text || strncmp(path, q->path, n) != 0 || path[n] != '/' || strchr(path + n + 1, '/'))
		return false;
	if (!part)
		return true;
	part += strlen("labelSelector=");
	key = span_dup((struct span){part, strcspn(part, "=")});
	part += strlen(key) + 1;
	value = json_string(json_get(json_get(meta(d), "labels"), key));
	return value && strlen(value) == strcspn(part, "&") &&
	       strncmp(value, part, strlen(value)) == 0;
}

static void show(struct h2_stream *s, const struct change *c)
{
	bool was = is_selected(&s->q, c->path, c->was), is = is_selected(&s->q, c->path, c->is);
	auto_free char *line = NULL;

	if (!was && !is)
		return;
	line = xasprintf("{\"type\":\"%s\",\"object\":%s}\n",
			 !is   ? "DELETED"
			 : was ? "MODIFIED"
			       : "ADDED",
			 is ? c->is : c->was);
	s->fn->data(s->arg, span_of(line));
}

static void changed(const char *path, const char *was, const char *is)
{
	struct https *c = api.conn;

	VEC_PUSH(api.changes, api.n_changes) = (struct change){
		api.now.version, xstrdup(path), was ? xstrdup(was) : NULL, is ? xstrdup(is) : NULL};
	for (size_t i = 0; c && i < c->n; i++)
		if (c->v[i]->is_watch)
			show(c->v[i], &api.changes[api.n_changes - 1]);
}

/* --- writes --- */

/* Writes the object, which gets the next version. t NULL: deletes it. */
static void store(const char *path, struct json_tree *t)
{
	struct object *o = find(path);
	auto_free char *was = o ? xstrdup(o->text) : NULL;
	struct json_tree *m = json_tree_member_object(t, "metadata");
	auto_free char *uid = xasprintf("uid-%" PRIu64, ++api.uids);
	auto_free char *version = xasprintf("%" PRIu64, ++api.now.version);
	auto_buf struct buf b;
	struct json_out out;

	buf_init(&b, TEXT_MAX);
	jo_init(&out, &b, 0);
	json_tree_put_text(m, "name", strrchr(path, '/') + 1);
	json_tree_put_text(m, "resourceVersion", version);
	if (!json_tree_member(m, "uid"))
		json_tree_put_text(m, "uid", uid);
	if (t)
		json_tree_write(t, &out);
	if (!o && t) {
		o = &VEC_PUSH(api.now.v, api.now.n);
		o->path = xstrdup(path);
	} else if (o) {
		free(o->text);
	}
	if (t) {
		o->text = xstrdup(b.p);
	} else if (o) {
		free(o->path);
		*o = api.now.v[--api.now.n];
	}
	changed(path, was, t ? b.p : NULL);
}

void api_put(const char *path, const char *text)
{
	auto_json struct json_doc *d = t_json_quoted(text);
	auto_tree struct json_tree *t = json_tree_of(json_root(d));

	store(path, t);
}

/* RFC 7386 */
static void merge(struct json_tree *t, const struct json *patch)
{
	struct json_walk w = json_walk_start(patch);
	const struct json *v;
	const char *key;

	while ((v = json_walk_next(&w, &key))) {
		if (json_kind(v) == JSON_NULL)
			json_tree_drop(t, key);
		else if (json_kind(v) == JSON_OBJECT)
			merge(json_tree_member_object(t, key), v);
		else
			json_tree_put(t, key, json_tree_of(v));
	}
}

/* A precondition that is absent holds. */
static bool is_met(const struct json *wanted, const struct json *has)
{
	return !wanted || (has && strcmp(json_string(wanted), json_string(has)) == 0);
}

static int patch(const struct h2_stream *s)
{
	auto_json struct json_doc *had = api_get(s->q.path), *body = t_json(s->q.body), *new = NULL;
	auto_tree struct json_tree *t = NULL;

	if (!had)
		return 404;
	if (strstr(s->type, "json-patch")) {
		new = patch_apply(json_root(had), span_of(s->q.body), TEXT_MAX);
		if (!new)
			return 422;
		t = json_tree_of(json_root(new));
	} else {
		if (!is_met(json_get(meta(body), "resourceVersion"),
			    json_get(meta(had), "resourceVersion")))
			return 409;
		t = json_tree_of(json_root(had));
		merge(t, json_root(body));
	}
	store(s->q.path, t);
	return 200;
}

static int create(struct h2_stream *s)
{
	auto_json struct json_doc *body = t_json(s->q.body);
	auto_tree struct json_tree *t = json_tree_of(json_root(body));
	char *path = xasprintf("%s/%s", s->q.path, json_string(json_get(meta(body), "name")));

	free(s->q.path);
	s->q.path = path;
	if (find(path))
		return 409;
	store(path, t);
	return 201;
}

static int delete (const struct h2_stream *s)
{
	auto_json struct json_doc *had = api_get(s->q.path);
	auto_json struct json_doc *body = *s->q.body ? t_json(s->q.body) : NULL;
	const struct json *p = body ? json_get(json_root(body), "preconditions") : NULL;

	if (!had)
		return 404;
	if (!is_met(json_get(p, "uid"), json_get(meta(had), "uid")) ||
	    !is_met(json_get(p, "resourceVersion"), json_get(meta(had), "resourceVersion")))
		return 409;
	store(s->q.path, NULL);
	return 200;
}

/* --- answers --- */

static void put_items(const struct api_request *q, struct buf *b)
{
	bool first = true;

	buf_printf(b, "{\"metadata\":{\"resourceVersion\":\"%" PRIu64 "\"},\"items\":[",
		   api.now.version);
	for (size_t i = 0; i < api.now.n; i++) {
		const struct object *o = &api.now.v[i];

		if (!is_selected(q, o->path, o->text))
			continue;
		buf_printf(b, "%s%s", first ? "" : ",", o->text);
		first = false;
	}
	buf_str(b, "]}");
}

static void put_answer(const struct h2_stream *s, int status, struct buf *b)
{
	const struct object *o = find(s->q.path);

	if (status >= 300)
		buf_printf(
			b,
			"{\"kind\":\"Status\",\"status\":\"Failure\",\"code\":%d,\"reason\":\"%s\","
			"\"message\":\"refused\",\"details\":{\"name\":\"%s\"}}",
			status,
			status != 409			   ? "Other"
			: strcmp(s->q.method, "POST") == 0 ? "AlreadyExists"
							   : "Conflict",
			strrchr(s->q.path, '/') + 1);
	else if (o)
		buf_str(b, o->text);
	else if (strcmp(s->q.method, "DELETE") == 0)
		buf_str(b, "{\"kind\":\"Status\",\"status\":\"Success\"}");
	else
		put_items(&s->q, b);
}

static void stream_free(struct h2_stream *s)
{
	struct https *c = s->conn;

	for (size_t i = 0; i < c->n; i++)
		if (c->v[i] == s)
			c->v[i] = c->v[--c->n];
	loop_del_timer(s->timer);
	free(s->q.method);
	free(s->q.path);
	free(s->q.query);
	free(s->q.body);
	free(s->type);
	free(s);
}

static void answer(struct h2_stream *s, int status)
{
	const struct h2_head head = {
		.status = status, .retry_after = -1, .type = "application/json"};
	const struct h2_handler *fn = s->fn;
	auto_buf struct buf b;
	void *arg = s->arg;

	buf_init(&b, TEXT_MAX);
	put_answer(s, status, &b);
	fn->head(arg, &head);
	fn->data(arg, buf_span(&b));
	stream_free(s);
	fn->end(arg, NULL, false);
}

static void watch(struct h2_stream *s)
{
	const struct h2_head head = {.status = 200, .retry_after = -1, .type = "application/json"};
	const char *from = strstr(s->q.query, "resourceVersion=");
	uint64_t version = 0;

	assert_non_null(from);
	from += strlen("resourceVersion=");
	ASSERT_EQ(num_u64((struct span){from, strcspn(from, "&")}, 0, UINT64_MAX, &version), 0);
	s->fn->head(s->arg, &head);
	for (size_t i = 0; i < api.n_changes; i++)
		if (api.changes[i].version > version)
			show(s, &api.changes[i]);
	s->is_watch = true;
}

/* --- requests --- */

static bool is_write(const struct api_request *q)
{
	return strcmp(q->method, "GET") != 0;
}

static struct api_request *record(const struct api_request *q)
{
	struct api_request *x;

	assert_true(api.n_requests < REQUESTS_MAX);
	x = &api.requests[api.n_requests++];
	*x = *q;
	x->method = xstrdup(q->method);
	x->path = xstrdup(q->path);
	x->query = xstrdup(q->query);
	x->body = xstrdup(q->body);
	x->at_ms = loop_now_ms(api.loop);
	return x;
}

static int carry_out(struct h2_stream *s)
{
	if (strcmp(s->q.method, "POST") == 0)
		return create(s);
	if (strcmp(s->q.method, "PATCH") == 0)
		return patch(s);
	if (strcmp(s->q.method, "DELETE") == 0)
		return delete (s);
	return find(s->q.path) || strstr(s->q.path, "/spiderip") == strrchr(s->q.path, '/') ? 200
											    : 404;
}

static void break_connection(void);

static void on_request(void *arg)
{
	struct h2_stream *s = arg;
	struct api_request *seen = record(&s->q);
	struct api_fault f = {0};
	int status;

	s->timer = NULL;
	if (strstr(s->q.query, "watch=1")) {
		seen->status = 200;
		watch(s);
		return;
	}
	if (is_write(&s->q) && api.fault.count > 0 && strcmp(api.fault.method, s->q.method) == 0) {
		f = api.fault;
		api.fault.count--;
	}
	if (f.before)
		f.before(seen);
	status = f.status ? f.status : f.loss == API_LOST_BEFORE ? 0 : carry_out(s);
	if (f.loss != API_ANSWERED) {
		break_connection();
		return;
	}
	seen->status = status;
	answer(s, status);
}

size_t api_requests(const char *method, const struct api_request **v)
{
	static struct api_request found[REQUESTS_MAX];
	size_t n = 0;

	for (size_t i = 0; i < api.n_requests; i++)
		if (method ? strcmp(api.requests[i].method, method) == 0
			   : is_write(&api.requests[i]))
			found[n++] = api.requests[i];
	if (v)
		*v = found;
	return n;
}

void api_forget(void)
{
	for (size_t i = 0; i < api.n_requests; i++) {
		free(api.requests[i].method);
		free(api.requests[i].path);
		free(api.requests[i].query);
		free(api.requests[i].body);
	}
	api.n_requests = 0;
}

/* --- the connection, in place of wire/http/https.c --- */

static void on_opened(void *arg)
{
	struct https *c = arg;
	struct err e = ERR_INIT;

	c->timer = NULL;
	if (api.is_down) {
		api.conn = NULL;
		err_set(&e, -ECONNREFUSED, "connect: connection refused");
		c->ops->closed(c->arg, &e);
		return;
	}
	c->ready = true;
	c->ops->ready(c->arg);
}

struct https *https_open(struct loop *l, const struct https_conf *conf, const struct https_ops *ops,
			 void *arg)
{
	struct https *c = xcalloc(1, sizeof(*c));

	(void)conf;
	assert_null(api.conn);
	*c = (struct https){.ops = ops, .arg = arg};
	c->timer = loop_add_timer(l, ANSWER_MS, on_opened, c);
	api.conn = c;
	return c;
}

void https_free(struct https *c)
{
	if (!c)
		return;
	while (c->n > 0)
		stream_free(c->v[0]);
	loop_del_timer(c->timer);
	if (api.conn == c)
		api.conn = NULL;
	free(c->v);
	free(c);
}

/* Decodes percent-encoding, for example %2F. */
static char *decoded(const char *text)
{
	char *ret = xstrdup(text), *to = ret;

	for (const char *p = text; *p; p++) {
		uint8_t c = (uint8_t)*p;

		if (*p == '%') {
			t_hex((char[]){p[1], p[2], '\0'}, &c, 1);
			p += 2;
		}
		*to++ = (char)c;
	}
	*to = '\0';
	return ret;
}

int https_submit(struct https *c, struct h2_request *r, const struct h2_handler *fn, void *arg,
		 struct h2_stream **ret, struct err *e)
{
	struct h2_stream *s = xcalloc(1, sizeof(*s));
	const char *mark = strchr(r->path, '?');

	(void)e;
	*s = (struct h2_stream){.conn = c, .fn = fn, .arg = arg};
	s->q.method = xstrdup(r->method);
	s->q.path = span_dup((struct span){r->path, strcspn(r->path, "?")});
	s->q.query = decoded(mark ? mark + 1 : "");
	s->q.body = r->body.n ? span_dup(r->body) : xstrdup("");
	for (size_t i = 0; i < r->n_fields; i++)
		if (strcmp(r->fields[i].name, "content-type") == 0)
			s->type = xstrdup(r->fields[i].value);
	s->timer = loop_add_timer(api.loop, ANSWER_MS, on_request, s);
	VEC_PUSH(c->v, c->n) = s;
	*ret = s;
	return 0;
}

void https_cancel(struct https *c, struct h2_stream *s)
{
	(void)c;
	stream_free(s);
}

bool https_takes_requests(const struct https *c)
{
	return c->ready;
}

size_t https_streams(const struct https *c)
{
	return c->n;
}

static void break_connection(void)
{
	struct https *c = api.conn;
	struct err e = ERR_INIT;

	if (!c)
		return;
	err_set(&e, -ECONNRESET, "connection reset by peer");
	api.conn = NULL;
	c->ready = false;
	while (c->n > 0) {
		const struct h2_handler *fn = c->v[0]->fn;
		void *arg = c->v[0]->arg;

		stream_free(c->v[0]);
		fn->end(arg, &e, false);
	}
	loop_del_timer(c->timer);
	c->timer = NULL;
	c->ops->closed(c->arg, &e);
}

/* --- the server --- */

void api_start(struct loop *l)
{
	api.loop = l;
	api.now.version = FIRST_VERSION;
}

void api_stop(void)
{
	assert_null(api.conn);
	state_done(&api.now);
	state_done(&api.backup);
	for (size_t i = 0; i < api.n_changes; i++) {
		free(api.changes[i].path);
		free(api.changes[i].was);
		free(api.changes[i].is);
	}
	free(api.changes);
	api_forget();
	memset(&api, 0, sizeof(api));
}

void api_down(void)
{
	api.is_down = true;
	break_connection();
}

void api_up(void)
{
	api.is_down = false;
}

void api_backup(void)
{
	state_copy(&api.backup, &api.now);
}

void api_restore(void)
{
	break_connection();
	state_copy(&api.now, &api.backup);
	while (api.n_changes > 0 && api.changes[api.n_changes - 1].version > api.now.version) {
		struct change *c = &api.changes[--api.n_changes];

		free(c->path);
		free(c->was);
		free(c->is);
	}
}

void api_plan_fault(const struct api_fault *f)
{
	api.fault = *f;
}
