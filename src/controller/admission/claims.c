/* SPDX-License-Identifier: Apache-2.0 */
/* One decision at a time for each request: read, look, write, and again when another was faster. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/loop.h"
#include "controller/admission/claims_priv.h"
#include "controller/webhook/secret.h"
#include "base/backoff.h"
#include "kube/kinds.h"

enum { AGAIN_MIN_MS = 10, AGAIN_MAX_MS = 60, LOOK_AGAIN_MS = 100 };

struct claim {
	struct claims *c;
	struct claims_ask q;
	struct claims_list list;
	size_t at; /* the entry that is looked into */
	char *version;
	int64_t until_ms, patience_ms; /* on the loop's clock */
	struct kube_call *call;
	struct loop_timer *timer;
	struct claim *next;
};

static void read_map(void *arg);
static void look(struct claim *m);

static const char *name_of(const struct json *object)
{
	const char *s = json_string(json_get(json_get(object, "metadata"), "name"));

	return s ? s : "";
}

/* --- its end --- */

static void drop(struct claim *m)
{
	struct claim **p = &m->c->first;

	while (*p != m)
		p = &(*p)->next;
	*p = m->next;
	kube_cancel(m->call);
	loop_del_timer(m->timer);
	claims_list_done(&m->list);
	free(m->version);
	free(m);
}

static void end(struct claim *m, const struct err *e)
{
	struct claims_ask q = m->q;

	drop(m);
	q.done(q.arg, e);
}

static void fail(struct claim *m, const struct err *why)
{
	struct err e = *why;

	err_wrap(&e, e.code,
		 "it is not known what else is being decided about addresses, so nothing is: try "
		 "again");
	end(m, &e);
}

static void fail_missing(struct claim *m)
{
	struct err e = ERR_INIT;

	secret_explain_missing(&e, "ConfigMap", m->c->ns, CLAIMS_NAME);
	fail(m, &e);
}

/* --- asking --- */

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
	m->timer = loop_add_timer(kube_loop(m->c->k), after_ms, read_map, m);
}

/* --- writing --- */

/* Of a write whose answer was lost nobody knows: what is there now says it. */
static void on_written(void *arg, int status, const struct json *map, const struct err *e)
{
	struct claim *m = arg;

	(void)map;
	m->call = NULL;
	if (!e)
		end(m, NULL);
	else if ((status == 409 || (status == 404 && m->version) || e->code == -ECONNRESET) &&
		 left_ms(m) > AGAIN_MAX_MS)
		again(m, kube_jitter(AGAIN_MIN_MS, AGAIN_MAX_MS));
	else if (status == 403 && !m->version)
		fail_missing(m);
	else
		fail(m, e);
}

static void write_map(struct claim *m)
{
	auto_buf struct buf body;

	buf_init(&body, KUBE_BODY_MAX);
	claims_write(&m->list, &m->q, m->c->ns, m->version, now_real_ms(), &body);
	send(m, m->version ? KUBE_REPLACE : KUBE_CREATE, buf_span(&body), on_written);
}

/* --- claims in the way --- */

/* Its object is not there, or not as it was claimed. */
static void unsettled(struct claim *m)
{
	struct claims_entry *c = &m->list.v[m->at];
	int64_t age = now_real_ms() - c->at_ms;
	struct err e = ERR_INIT;

	if (age >= CLAIMS_RUN_OUT_MS) {
		c->drop = true;
		m->at++;
		look(m);
		return;
	}
	if (loop_now_ms(kube_loop(m->c->k)) < m->patience_ms && left_ms(m) > LOOK_AGAIN_MS) {
		again(m, LOOK_AGAIN_MS);
		return;
	}
	err_kind(
		&e, ERR_AGAIN, -EAGAIN,
		"%s '%.100s' was taken in %lld s ago with some of these addresses and is not there "
		"(yet): try again in %lld s",
		json_string(json_get(json_root(c->doc), "kind")), name_of(json_root(c->doc)),
		(long long)(age / 1000), (long long)((CLAIMS_RUN_OUT_MS - age) / 1000 + 1));
	end(m, &e);
}

/* What was claimed has become of it. */
static bool is_settled(const struct claims_entry *c, const struct json *other)
{
	char claimed[DIGEST_HEX], is[DIGEST_HEX];

	claims_entry_digest(c, claimed);
	claims_digest(json_get(other, "spec"), is);
	return strcmp(claimed, is) == 0;
}

static void on_other(void *arg, int status, const struct json *list, const struct err *e)
{
	struct claim *m = arg;
	const struct json *claim = json_root(m->list.v[m->at].doc);
	const struct json *other = json_at(json_get(list, "items"), 0);
	struct err why = ERR_INIT;

	(void)status;
	m->call = NULL;
	if (e) {
		fail(m, e);
		return;
	}
	if (other && m->q.judge(m->q.arg, json_string(json_get(claim, "kind")), other, &why) < 0) {
		end(m, &why);
		return;
	}
	if (!other || !is_settled(&m->list.v[m->at], other)) {
		unsettled(m);
		return;
	}
	m->at++;
	look(m);
}

/* The object as it is, from etcd: a list of one, which needs no permission but the watch's. */
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

/* The watch has it as it was claimed, and the judge has seen that. */
static bool is_known(const struct claim *m, const struct claims_entry *c)
{
	const struct json *claim = json_root(c->doc);
	const struct json *o =
		m->q.known
			? m->q.known(m->q.arg, json_string(json_get(claim, "kind")), name_of(claim))
			: NULL;

	return o && is_settled(c, o);
}

static bool is_in_the_way(const struct claim *m, const struct claims_entry *c)
{
	const struct json *claim = json_root(c->doc);
	const char *uid = json_string(json_get(json_get(claim, "metadata"), "uid"));
	struct err e;

	return !is_own(m, claim) && now_real_ms() - c->at_ms < CLAIMS_KEPT_MS &&
	       !claims_is_gone(m->c, uid) &&
	       m->q.judge(m->q.arg, json_string(json_get(claim, "kind")), claim, &e) < 0 &&
	       !is_known(m, c);
}

static void look(struct claim *m)
{
	struct err e = ERR_INIT;

	for (; m->at < m->list.n; m->at++)
		if (is_in_the_way(m, &m->list.v[m->at])) {
			read_other(m, json_root(m->list.v[m->at].doc));
			return;
		}
	if (claims_are_full(&m->list, now_real_ms())) {
		err_kind(&e, ERR_AGAIN, -EAGAIN, "%d decisions about addresses in %d s", CLAIMS_MAX,
			 CLAIMS_RUN_OUT_MS / 1000);
		fail(m, &e);
		return;
	}
	write_map(m);
}

/* --- reading --- */

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
	struct err why = ERR_INIT;
	const char *version = json_string(json_get(json_get(map, "metadata"), "resourceVersion"));

	m->call = NULL;
	if (e && status != 404) {
		fail(m, e);
		return;
	}
	claims_list_done(&m->list);
	free(m->version);
	m->version = !e && version ? xstrdup(version) : NULL;
	claims_read(e ? NULL : map, &m->list);
	m->at = 0;
	if (m->q.judge(m->q.arg, m->q.kind, NULL, &why) < 0)
		end(m, &why);
	else if (is_written(m))
		end(m, NULL);
	else
		look(m);
}

static void read_map(void *arg)
{
	struct claim *m = arg;

	m->timer = NULL;
	send(m, KUBE_GET, (struct span){0}, on_map);
}

/* --- from outside --- */

void claims_take(struct claims *c, const struct claims_ask *q)
{
	int64_t now = loop_now_ms(kube_loop(c->k));
	struct claim *m = xcalloc(1, sizeof(*m));

	*m = (struct claim){.c = c,
			    .q = *q,
			    .until_ms = now + CLAIMS_TIME_MS,
			    .patience_ms = now + CLAIMS_PATIENCE_MS,
			    .next = c->first};
	c->first = m;
	read_map(m);
}

struct claims *claims_new(struct kube *k, const char *ns)
{
	struct claims *c = xcalloc(1, sizeof(*c));

	c->k = k;
	c->ns = ns;
	return c;
}

void claims_free(struct claims *c)
{
	struct err e = ERR_INIT;

	if (!c)
		return;
	err_kind(&e, ERR_AGAIN, -ECANCELED, "this replica ends: try again");
	while (c->first)
		end(c->first, &e);
	claims_tidy_stop(c);
	free(c);
}
