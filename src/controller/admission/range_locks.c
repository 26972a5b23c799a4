/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/admission/range_locks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/backoff.h"
#include "base/ip.h"
#include "base/ipset.h"
#include "base/loop.h"
#include "controller/admission/internal.h"
#include "controller/webhook/secret.h"
#include "kube/kinds.h"
#include "kube/object.h"

/* Decides on one request: reads the ConfigMap, compares, writes, and retries if another writer was
 * faster. */

enum { AGAIN_MIN_MS = 10, AGAIN_MAX_MS = 60, CHECK_RETRY_MS = 100 };

struct claim {
	struct range_locks *c;
	struct range_locks_request q;
	struct range_locks_list list;
	size_t at; /* index of the entry that is being checked */
	char *version;
	int64_t until_ms, patience_ms; /* times of the loop's clock */
	struct kube_call *call;
	struct loop_alarm timer;
	struct claim *next;
};

static void read_map(void *arg);
static void scan(struct claim *m);

static const char *name_of(const struct json *object)
{
	const char *s = kube_meta_string(object, "name");

	return s ? s : "";
}

/* --- end of a decision --- */

static void drop(struct claim *m)
{
	struct claim **p = &m->c->first;

	while (*p != m)
		p = &(*p)->next;
	*p = m->next;
	kube_cancel(m->call);
	loop_alarm_cancel(&m->timer);
	range_locks_list_done(&m->list);
	free(m->version);
	free(m);
}

static void end(struct claim *m, const struct err *e)
{
	struct range_locks_request q = m->q;

	drop(m);
	q.done(q.arg, e);
}

static void fail(struct claim *m, const struct err *cause)
{
	struct err e = *cause;

	err_wrap(&e, e.code, "cannot lock the addresses against concurrent changes: try again");
	end(m, &e);
}

static void fail_missing(struct claim *m)
{
	struct err e = ERR_INIT;

	secret_explain_missing(&e, "ConfigMap", m->c->ns, CLAIMS_NAME);
	fail(m, &e);
}

/* --- requests to the API server --- */

static int left_ms(const struct claim *m)
{
	int64_t left = m->until_ms - loop_now_ms(kube_loop(m->c->k));

	return left > 1 ? (int)left : 1;
}

static void send(struct claim *m, enum kube_verb verb, struct span body, kube_done_fn fn)
{
	struct kube_request r = {.verb = verb,
				 .on = {&kube_configmaps, m->c->ns, CLAIMS_NAME, NULL},
				 .body = body,
				 .timeout_ms = left_ms(m)};

	m->call = kube_send(m->c->k, &r, fn, m);
}

static void again(struct claim *m, int after_ms)
{
	loop_alarm_set(&m->timer, after_ms);
}

/* --- write of the locks --- */

/* Ends the decision. If another writer was faster, or the response was lost and the write may have
 * taken effect, reads the ConfigMap again instead, while time is left. */
static void on_written(void *arg, int status, const struct json *map, const struct err *e)
{
	struct claim *m = arg;

	(void)map;
	m->call = NULL;
	if (!e)
		end(m, NULL);
	else if ((status == 409 || (status == 404 && m->version) || e->code == -ECONNRESET) &&
		 left_ms(m) > AGAIN_MAX_MS)
		again(m, jitter_ms(AGAIN_MIN_MS, AGAIN_MAX_MS));
	else if (status == 403 && !m->version)
		fail_missing(m);
	else
		fail(m, e);
}

static void write_map(struct claim *m)
{
	auto_buf struct buf body;

	buf_init(&body, KUBE_BODY_MAX);
	range_locks_write(&m->list, &m->q, m->c->ns, m->version, now_real_ms(), &body);
	send(m, m->version ? KUBE_REPLACE : KUBE_CREATE, buf_span(&body), on_written);
}

/* --- conflicting claims --- */

/* Handles a conflicting claim whose object does not exist or differs from the claim: drops an
 * expired claim, waits for the object, or denies the request. */
static void unsettled(struct claim *m)
{
	struct range_locks_entry *c = &m->list.v[m->at];
	int64_t age = now_real_ms() - c->at_ms;
	struct err e = ERR_INIT;

	if (age >= CLAIMS_RUN_OUT_MS) {
		c->drop = true;
		m->at++;
		scan(m);
		return;
	}
	if (loop_now_ms(kube_loop(m->c->k)) < m->patience_ms && left_ms(m) > CHECK_RETRY_MS) {
		again(m, CHECK_RETRY_MS);
		return;
	}
	err_kind(&e, ERR_AGAIN, -EAGAIN,
		 "%s '%.100s' was admitted %lld s ago with some of these addresses and is not "
		 "stored with them yet: try again in %lld s",
		 json_string(json_get(json_root(c->doc), "kind")), name_of(json_root(c->doc)),
		 (long long)(age / 1000), (long long)((CLAIMS_RUN_OUT_MS - age) / 1000 + 1));
	end(m, &e);
}

/* Returns whether the existing object is the one that was claimed. */
static bool is_claimed_object(const struct range_locks_entry *c, const struct json *other)
{
	char claimed[DIGEST_HEX], is[DIGEST_HEX];

	range_locks_entry_digest(c, claimed);
	range_locks_digest(json_get(other, "spec"), is);
	return strcmp(claimed, is) == 0;
}

static void on_other(void *arg, int status, const struct json *list, const struct err *e)
{
	struct claim *m = arg;
	const struct json *claim = json_root(m->list.v[m->at].doc);
	const struct json *other = json_at(json_get(list, "items"), 0);
	struct err cause = ERR_INIT;

	(void)status;
	m->call = NULL;
	if (e) {
		fail(m, e);
		return;
	}
	if (other &&
	    m->q.judge(m->q.arg, json_string(json_get(claim, "kind")), other, &cause) < 0) {
		end(m, &cause);
		return;
	}
	if (!other || !is_claimed_object(&m->list.v[m->at], other)) {
		unsettled(m);
		return;
	}
	m->at++;
	scan(m);
}

/* Reads the claimed object from etcd by a list request for its name: unlike a GET, this needs no
 * permission beyond those of the watch. */
static void read_other(struct claim *m, const struct json *claim)
{
	bool is_subnet = strcmp(json_string(json_get(claim, "kind")), "SpiderSubnet") == 0;
	auto_free char *selector = xasprintf("metadata.name=%s", name_of(claim));
	auto_buf struct buf query;
	struct kube_request r = {.verb = KUBE_LIST, .timeout_ms = left_ms(m)};

	buf_init(&query, KUBE_PATH_MAX);
	kube_path_query(&query, "fieldSelector", selector);
	r.on.kind = is_subnet ? &kube_subnets : &kube_ippools;
	r.query = query.p;
	m->call = kube_send(m->c->k, &r, on_other, m);
}

static bool is_own(const struct claim *m, const struct json *claim)
{
	return strcmp(json_string(json_get(claim, "kind")), m->q.kind) == 0 &&
	       strcmp(name_of(claim), name_of(m->q.object)) == 0;
}

/* Returns whether the caller's cache has the object with the claimed addresses: judge() has then
 * compared the request with it. */
static bool is_known(const struct claim *m, const struct range_locks_entry *c)
{
	const struct json *claim = json_root(c->doc);
	const struct json *o =
		m->q.known
			? m->q.known(m->q.arg, json_string(json_get(claim, "kind")), name_of(claim))
			: NULL;

	return o && is_claimed_object(c, o);
}

/* Returns whether the watch has shown the deletion of the object; uid may be NULL. */
static bool range_locks_is_removed(const struct range_locks *c, const char *uid)
{
	for (size_t i = 0; uid && *uid && i < CLAIMS_REMOVED_MAX; i++)
		if (strcmp(c->deleted[i], uid) == 0)
			return true;
	return false;
}

static bool is_in_the_way(const struct claim *m, const struct range_locks_entry *c)
{
	const struct json *claim = json_root(c->doc);
	const char *uid = kube_meta_string(claim, "uid");
	struct err e;

	return !is_own(m, claim) && now_real_ms() - c->at_ms < CLAIMS_RETAINED_MS &&
	       !range_locks_is_removed(m->c, uid) &&
	       m->q.judge(m->q.arg, json_string(json_get(claim, "kind")), claim, &e) < 0 &&
	       !is_known(m, c);
}

static void scan(struct claim *m)
{
	struct err e = ERR_INIT;

	for (; m->at < m->list.n; m->at++)
		if (is_in_the_way(m, &m->list.v[m->at])) {
			read_other(m, json_root(m->list.v[m->at].doc));
			return;
		}
	if (range_locks_are_full(&m->list, now_real_ms())) {
		err_kind(&e, ERR_AGAIN, -EAGAIN, "more than %d changes of addresses in %d s",
			 CLAIMS_MAX, CLAIMS_RUN_OUT_MS / 1000);
		fail(m, &e);
		return;
	}
	write_map(m);
}

/* --- read of the locks --- */

static bool is_written(const struct claim *m)
{
	for (size_t i = 0; i < m->list.n; i++)
		if (strcmp(m->list.v[i].id, m->q.id) == 0)
			return true;
	return false;
}

static void on_map(void *arg, int status, const struct json *map, const struct err *e)
{
	struct claim *m = arg;
	struct err cause = ERR_INIT;
	const char *version = kube_meta_string(map, "resourceVersion");

	m->call = NULL;
	if (e && status != 404) {
		fail(m, e);
		return;
	}
	range_locks_list_done(&m->list);
	free(m->version);
	m->version = !e && version ? xstrdup(version) : NULL;
	range_locks_read(e ? NULL : map, &m->list);
	m->at = 0;
	if (m->q.judge(m->q.arg, m->q.kind, NULL, &cause) < 0)
		end(m, &cause);
	else if (is_written(m))
		end(m, NULL);
	else
		scan(m);
}

static void read_map(void *arg)
{
	struct claim *m = arg;

	send(m, KUBE_GET, (struct span){0}, on_map);
}

/* --- functions of range_locks.h --- */

void range_locks_take(struct range_locks *c, const struct range_locks_request *q)
{
	int64_t now = loop_now_ms(kube_loop(c->k));
	struct claim *m = xcalloc(1, sizeof(*m));

	*m = (struct claim){.c = c,
			    .q = *q,
			    .until_ms = now + CLAIMS_TIME_MS,
			    .patience_ms = now + CLAIMS_PATIENCE_MS,
			    .timer = LOOP_ALARM(kube_loop(c->k), read_map, m),
			    .next = c->first};
	c->first = m;
	read_map(m);
}

static void on_timer(void *arg);

struct range_locks *range_locks_new(struct kube *k, const char *ns)
{
	struct range_locks *c = xcalloc(1, sizeof(*c));

	c->k = k;
	c->ns = ns;
	c->cleanup_timer = LOOP_ALARM(kube_loop(k), on_timer, c);
	return c;
}

static void range_locks_cleanup_stop(struct range_locks *c)
{
	kube_cancel(c->clean_up);
	loop_alarm_cancel(&c->cleanup_timer);
}

void range_locks_free(struct range_locks *c)
{
	struct err e = ERR_INIT;

	if (!c)
		return;
	err_kind(&e, ERR_AGAIN, -ECANCELED,
		 "this replica of unirail-controller is stopping: try again");
	while (c->first)
		end(c->first, &e);
	range_locks_cleanup_stop(c);
	free(c);
}

/* --- encoding of the ConfigMap --- */

/* Limits in bytes of JSON. CLAIM_MAX: of one claim, or of the ConfigMap's labels and
 * annotations. SPEC_MAX: of the spec of an object, larger than an object in etcd can be. */
enum { CLAIM_MAX = 1 << 20, SPEC_MAX = 8 << 20 };

/* Returns the ConfigMap's labels and annotations, because a PUT without them would remove them;
 * NULL: there are none. */
static struct json_doc *read_metadata(const struct json *map)
{
	static const char *const keys[] = {"labels", "annotations"};
	struct json_doc *doc = NULL;
	struct json_out o;
	auto_buf struct buf text;

	buf_init(&text, CLAIM_MAX);
	if (!kube_meta(map, keys[0]) && !kube_meta(map, keys[1]))
		return NULL;
	jo_init(&o, &text, 0);
	jo_obj(&o);
	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		if (kube_meta(map, keys[i])) {
			jo_key(&o, keys[i]);
			jo_val(&o, kube_meta(map, keys[i]), false);
		}
	jo_end_obj(&o);
	return json_parse(&doc, buf_span(&text), CLAIM_MAX, NULL) < 0 ? NULL : doc;
}

void range_locks_read(const struct json *map, struct range_locks_list *ret)
{
	struct json_walk w = json_walk_start(json_get(map, "data"));
	const struct json *v;
	const char *id;

	*ret = (struct range_locks_list){.metadata = read_metadata(map)};
	while ((v = json_walk_next(&w, &id))) {
		struct json_doc *doc = NULL;
		int64_t at;

		if (!json_string(v) ||
		    json_parse(&doc, span_of(json_string(v)), CLAIM_MAX, NULL) < 0)
			continue;
		if (json_int(json_get(json_root(doc), "at"), &at) < 0 || at > INT64_MAX / 1000 ||
		    !json_string(json_get(json_root(doc), "kind")) ||
		    !json_string(kube_meta(json_root(doc), "name"))) {
			json_free(doc);
			continue;
		}
		VEC_PUSH(ret->v, ret->n) =
			(struct range_locks_entry){.id = xstrdup(id),
						   .doc = doc,
						   .at_ms = at * 1000,
						   .len = strlen(json_string(v))};
	}
}

void range_locks_list_done(struct range_locks_list *l)
{
	for (size_t i = 0; i < l->n; i++) {
		free(l->v[i].id);
		json_free(l->v[i].doc);
	}
	free(l->v);
	json_free(l->metadata);
	*l = (struct range_locks_list){0};
}

static void put_value(struct json_out *o, const struct json *v)
{
	struct json_out inner;
	auto_buf struct buf text;

	buf_init(&text, CLAIM_MAX);
	jo_init(&inner, &text, 0);
	jo_val(&inner, v, false);
	jo_str(o, text.len ? text.p : "");
}

static const char *const decided[] = {"subnet", "ips", "excludeIPs"};

void range_locks_digest(const struct json *spec, char hex[static DIGEST_HEX])
{
	struct json_out o;
	auto_buf struct buf text;

	buf_init(&text, SPEC_MAX);
	jo_init(&o, &text, 0);
	jo_arr(&o);
	for (size_t i = 0; i < ARRAY_LEN(decided); i++)
		if (json_get(spec, decided[i]))
			jo_val(&o, json_get(spec, decided[i]), true);
		else
			jo_null(&o);
	jo_end_arr(&o);
	digest_sha256(buf_span(&text), hex);
}

void range_locks_entry_digest(const struct range_locks_entry *c, char hex[static DIGEST_HEX])
{
	const char *text = json_string(json_get(json_root(c->doc), "digest"));

	if (text)
		str_copy(hex, DIGEST_HEX, text);
	else
		range_locks_digest(json_get(json_root(c->doc), "spec"), hex);
}

/*
 * Sets the first and the last address of a list of ranges; returns false if the list is empty or a
 * range is invalid.
 */
static bool bounds_of(const struct json *ips, struct ip_range *ret)
{
	struct json_walk w = json_walk_start(ips);
	const struct json *v;
	bool any = false;

	while ((v = json_walk_next(&w, NULL))) {
		const char *text = json_string(v);
		struct ip_range r;

		if (!text || ip_range_parse(span_of(text), strchr(text, ':') ? 6 : 4, &r, NULL) < 0)
			return false;
		if (!any || ip_cmp(&r.first, &ret->first) < 0)
			ret->first = r.first;
		if (!any || ip_cmp(&r.last, &ret->last) > 0)
			ret->last = r.last;
		any = true;
	}
	return any;
}

static void put_spec(struct json_out *o, const char *kind, const struct json *spec)
{
	const char *subnet = json_string(json_get(spec, "subnet"));
	char first[IP_TEXT_MAX], last[IP_TEXT_MAX];
	struct ip_range r;

	jo_obj(o);
	if (subnet)
		jo_kstr(o, "subnet", subnet);
	jo_key(o, "ips");
	jo_arr(o);
	if (strcmp(kind, "SpiderSubnet") != 0 && bounds_of(json_get(spec, "ips"), &r)) {
		auto_free char *text =
			xasprintf("%s-%s", ip_str(&r.first, first), ip_str(&r.last, last));

		jo_str(o, text);
	}
	jo_end_arr(o);
	jo_end_obj(o);
}

static void put_own(struct json_out *map, const struct range_locks_request *q, int64_t now_ms)
{
	const struct json *spec = json_get(q->object, "spec");
	char hex[DIGEST_HEX];
	struct json_out o;
	auto_buf struct buf text;

	buf_init(&text, CLAIM_MAX);
	jo_init(&o, &text, 0);
	jo_obj(&o);
	jo_kint(&o, "at", now_ms / 1000);
	jo_kstr(&o, "kind", q->kind);
	jo_key(&o, "metadata");
	jo_obj(&o);
	jo_kstr(&o, "name", json_string(kube_meta(q->object, "name")));
	jo_kstr(&o, "uid", json_string(kube_meta(q->object, "uid")) ?: "");
	jo_end_obj(&o);
	jo_key(&o, "spec");
	put_spec(&o, q->kind, spec);
	range_locks_digest(spec, hex);
	jo_kstr(&o, "digest", hex);
	jo_end_obj(&o);
	jo_kstr(map, q->id, text.p);
}

static int64_t retained_ms(const struct range_locks_list *l)
{
	size_t len = 0;

	for (size_t i = 0; i < l->n; i++)
		len += l->v[i].len;
	return l->n < CLAIMS_MANY && len < CLAIMS_LONG ? CLAIMS_RETAINED_MS : CLAIMS_RUN_OUT_MS;
}

bool range_locks_are_full(const struct range_locks_list *l, int64_t now_ms)
{
	size_t n = 0;

	for (size_t i = 0; i < l->n; i++)
		n += !l->v[i].drop && now_ms - l->v[i].at_ms < CLAIMS_RUN_OUT_MS;
	return n >= CLAIMS_MAX;
}

void range_locks_write(const struct range_locks_list *l, const struct range_locks_request *q,
		       const char *ns, const char *version, int64_t now_ms, struct buf *ret)
{
	int64_t keep = retained_ms(l);
	struct json_walk w = json_walk_start(l->metadata ? json_root(l->metadata) : NULL);
	const struct json *v;
	const char *key;
	struct json_out o;

	jo_init(&o, ret, 0);
	jo_obj(&o);
	jo_kstr(&o, "apiVersion", "v1");
	jo_kstr(&o, "kind", "ConfigMap");
	jo_key(&o, "metadata");
	jo_obj(&o);
	jo_kstr(&o, "name", CLAIMS_NAME);
	jo_kstr(&o, "namespace", ns);
	if (version)
		jo_kstr(&o, "resourceVersion", version);
	while (version && (v = json_walk_next(&w, &key))) {
		jo_key(&o, key);
		jo_val(&o, v, false);
	}
	jo_end_obj(&o);
	jo_key(&o, "data");
	jo_obj(&o);
	for (size_t i = 0; i < l->n; i++)
		if (!l->v[i].drop && now_ms - l->v[i].at_ms < keep) {
			jo_key(&o, l->v[i].id);
			put_value(&o, json_root(l->v[i].doc));
		}
	if (q)
		put_own(&o, q, now_ms);
	jo_end_obj(&o);
	jo_end_obj(&o);
}

/*
 * Removes claims of deleted objects from the ConfigMap: one read and at most one write for all
 * deletions within SCHEDULE_MAX_MS, both repeated after a conflict. After any other failure the
 * claims stay until the next deletion of an object or until they expire. Each replica sends these
 * requests; only the first replica finds claims to remove.
 */

enum { SCHEDULE_MIN_MS = 50, SCHEDULE_MAX_MS = 250, CLEANUP_TIME_MS = 5000 };

static void range_locks_cleanup_send(struct range_locks *c, enum kube_verb verb, struct span body,
				     kube_done_fn fn)
{
	struct kube_request r = {.verb = verb,
				 .on = {&kube_configmaps, c->ns, CLAIMS_NAME, NULL},
				 .body = body,
				 .timeout_ms = CLEANUP_TIME_MS};

	c->clean_up = kube_send(c->k, &r, fn, c);
}

static void range_locks_cleanup_on_written(void *arg, int status, const struct json *map,
					   const struct err *e)
{
	struct range_locks *c = arg;

	(void)map;
	(void)e;
	c->clean_up = NULL;
	if (status == 409)
		range_locks_removed(c, "");
}

static bool drop_removed(const struct range_locks *c, struct range_locks_list *l)
{
	bool any = false;

	for (size_t i = 0; i < l->n; i++) {
		const struct json *meta = json_get(json_root(l->v[i].doc), "metadata");

		l->v[i].drop = range_locks_is_removed(c, json_string(json_get(meta, "uid")));
		any |= l->v[i].drop;
	}
	return any;
}

static void range_locks_cleanup_on_map(void *arg, int status, const struct json *map,
				       const struct err *e)
{
	const char *version = kube_meta_string(map, "resourceVersion");
	struct range_locks *c = arg;
	struct range_locks_list list;
	auto_buf struct buf body;

	(void)status;
	buf_init(&body, KUBE_BODY_MAX);
	c->clean_up = NULL;
	if (e || !version)
		return;
	range_locks_read(map, &list);
	if (drop_removed(c, &list)) {
		range_locks_write(&list, NULL, c->ns, version, now_real_ms(), &body);
		range_locks_cleanup_send(c, KUBE_REPLACE, buf_span(&body),
					 range_locks_cleanup_on_written);
	}
	range_locks_list_done(&list);
}

static void on_timer(void *arg)
{
	struct range_locks *c = arg;

	if (c->clean_up)
		range_locks_removed(c, "");
	else
		range_locks_cleanup_send(c, KUBE_GET, (struct span){0}, range_locks_cleanup_on_map);
}

void range_locks_removed(struct range_locks *c, const char *uid)
{
	if (*uid) {
		str_copy(c->deleted[c->next_removed], CLAIMS_UID_MAX, uid);
		c->next_removed = (c->next_removed + 1) % CLAIMS_REMOVED_MAX;
	}
	loop_alarm_within(&c->cleanup_timer, jitter_ms(SCHEDULE_MIN_MS, SCHEDULE_MAX_MS));
}
