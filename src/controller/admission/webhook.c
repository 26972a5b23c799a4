/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/admission/webhook.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "kube/object.h"
#include "spec/annotations.h"
#include "spec/definition.h"
#include "spec/multusconfig.h"

enum { UNAVAILABLE = 503 };

struct admit_webhook {
	struct admit_webhook_conf conf;
	struct range_locks *claims;
	const struct json **list; /* list of pools, then of subnets, built for each decision */
};

/* A review that waits for its claim. */
struct waiting {
	struct admit_webhook *h;
	struct review *q;
	struct admit_request request;
	struct admit_answer answer;
};

/* --- state of the cluster --- */

/* Returns the name of the SpiderMultusConfig that owns an object; "": none. */
static const char *owner_of(const struct json *object)
{
	struct json_walk w = json_walk_start(kube_meta(object, "ownerReferences"));
	const struct json *v;

	while ((v = json_walk_next(&w, NULL)))
		if (strcmp(json_text(json_get(v, "kind")), "SpiderMultusConfig") == 0)
			return json_text(json_get(v, "name"));
	return "";
}

/* Finds a SpiderMultusConfig other than `name` whose NAD has the name `nad`, even if this NAD is
 * not written yet. */
static bool find_owner(const struct kube_cache *w, const char *ns, const char *nad,
		       const char *name, const char **owner)
{
	for (size_t i = 0; i < kube_cache_count(w, CLUSTER_CACHE_MULTUSCONFIGS); i++) {
		const struct kube_object *o = kube_cache_at(w, CLUSTER_CACHE_MULTUSCONFIGS, i);

		if (cluster_cache_object(o)->deleting || strcmp(o->ns, ns) != 0 ||
		    strcmp(o->name, name) == 0 ||
		    strcmp(multus_nad_name(cluster_cache_json(o)), nad) != 0)
			continue;
		*owner = o->name;
		return true;
	}
	return false;
}

static enum admit_nad find_nad(void *arg, const char *ns, const char *nad, const char *name,
			       const char **owner)
{
	const struct admit_webhook *h = arg;
	const struct kube_object *o = kube_cache_get(h->conf.cache, CLUSTER_CACHE_NADS, ns, nad);
	const char *by = o ? owner_of(cluster_cache_json(o)) : "";

	if (*by && strcmp(by, name) != 0) {
		*owner = by;
		return ADMIT_NAD_TAKEN;
	}
	if (find_owner(h->conf.cache, ns, nad, name, owner))
		return ADMIT_NAD_TAKEN;
	return o && !*by ? ADMIT_NAD_FREE : ADMIT_NAD_NONE;
}

static bool trusts(void *arg, const char *ns)
{
	const struct admit_webhook *h = arg;
	const struct kube_object *o =
		kube_cache_get(h->conf.cache, CLUSTER_CACHE_NAMESPACES, "", ns);

	/* A namespace is not trusted while it is not in the cache, because its annotation may be
	 * "false". */
	return o && definition_trusted(
			    ns,
			    json_string(json_get(kube_meta(cluster_cache_json(o), "annotations"),
						 ANNOTATION_TRUSTED)),
			    h->conf.ns);
}

static size_t add(struct admit_webhook *h, enum cluster_cache_kind kind, size_t at)
{
	for (size_t i = 0; i < kube_cache_count(h->conf.cache, kind); i++)
		h->list[at++] = cluster_cache_json(kube_cache_at(h->conf.cache, kind, i));
	return at;
}

/* Returns the state of the cluster; valid until the next call. */
static struct admit_cache all(struct admit_webhook *h)
{
	const struct admit_webhook_conf *c = &h->conf;
	size_t n = kube_cache_count(h->conf.cache, CLUSTER_CACHE_POOLS), m;

	free(h->list);
	h->list = xcalloc(n + kube_cache_count(h->conf.cache, CLUSTER_CACHE_SUBNETS) + 1,
			  sizeof(*h->list));
	n = add(h, CLUSTER_CACHE_POOLS, 0);
	m = add(h, CLUSTER_CACHE_SUBNETS, n) - n;
	return (struct admit_cache){.agent_ns = c->ns,
				    .no_ipv4 = c->no_ipv4,
				    .no_ipv6 = c->no_ipv6,
				    .protect_used = c->protect_used,
				    .pools = h->list,
				    .subnets = h->list + n,
				    .n_pools = n,
				    .n_subnets = m,
				    .trusts = trusts,
				    .nad = find_nad,
				    .arg = h};
}

/* Returns a state that has only the object `other`. */
static struct admit_cache only(const struct admit_webhook *h, const char *kind,
			       const struct json *const *other)
{
	bool is_pool = strcmp(kind, "SpiderIPPool") == 0;

	return (struct admit_cache){.agent_ns = h->conf.ns,
				    .pools = other,
				    .subnets = other,
				    .n_pools = is_pool,
				    .n_subnets = !is_pool};
}

/* --- conversion of reviews to admission requests --- */

static struct admit_request request_from(const struct review *q)
{
	enum admit_operation op = strcmp(q->operation, "CREATE") == 0	? ADMIT_CREATE
				  : strcmp(q->operation, "DELETE") == 0 ? ADMIT_DELETE
									: ADMIT_UPDATE;

	return (struct admit_request){q->kind, op, q->ns, q->name, q->object, q->old, q->user};
}

static void report(struct review *q, const struct admit_answer *r)
{
	struct review_answer a;

	review_allow(&a);
	for (size_t i = 0; i < r->n_warnings; i++)
		review_warn(&a, "%s", r->warnings[i]);
	if (r->code == 422)
		review_cause(&a, (enum review_fault)r->fault, r->field, r->text);
	else if (r->code)
		review_refuse(&a, r->code, "%s", r->text);
	else if (r->patch.len > 0)
		review_patch(&a, buf_span(&r->patch));
	review_answer(q, &a);
}

static void refuse(struct review *q, int code, const char *cause)
{
	struct review_answer a;

	review_allow(&a);
	review_refuse(&a, code, "%s", cause);
	review_answer(q, &a);
}

static bool is_for_us(const struct review *q)
{
	return admit_knows(q->kind) && !*q->subresource;
}

static void allow(struct review *q)
{
	struct review_answer a;

	review_allow(&a);
	review_answer(q, &a);
}

/* --- requests that may conflict with concurrent ones --- */

static int judge(void *arg, const char *kind, const struct json *other, struct err *e)
{
	struct waiting *w = arg;
	struct admit_cache cache = other ? only(w->h, kind, &other) : all(w->h);

	admit_answer_done(&w->answer);
	admit_check(&cache, &w->request, &w->answer);
	if (!w->answer.code)
		return 0;
	return err_set(e, -EINVAL, "%s", w->answer.text);
}

static const struct json *known(void *arg, const char *kind, const char *name)
{
	const struct waiting *w = arg;
	bool is_pool = strcmp(kind, "SpiderIPPool") == 0;
	const struct kube_object *o = kube_cache_get(
		w->h->conf.cache, is_pool ? CLUSTER_CACHE_POOLS : CLUSTER_CACHE_SUBNETS, "", name);

	return o ? cluster_cache_json(o) : NULL;
}

static void on_claimed(void *arg, const struct err *e)
{
	struct waiting *w = arg;
	struct err cause = ERR_INIT;

	if (e && e->code == -EINVAL && w->answer.code)
		report(w->q, &w->answer);
	else if (e)
		refuse(w->q, UNAVAILABLE, e->text);
	else if (judge(w, w->request.kind, NULL, &cause) == 0 || w->answer.code)
		report(w->q, &w->answer);
	admit_answer_done(&w->answer);
	free(w);
}

static void claim(struct admit_webhook *h, struct review *q, const struct admit_request *request)
{
	struct waiting *w = xcalloc(1, sizeof(*w));

	*w = (struct waiting){.h = h, .q = q, .request = *request};
	range_locks_take(h->claims, &(struct range_locks_request){.id = q->uid,
								  .kind = w->request.kind,
								  .object = w->request.object,
								  .judge = judge,
								  .known = known,
								  .done = on_claimed,
								  .arg = w});
}

/* Returns whether pools and subnets were listed. A kind without a CRD counts as listed, unless the
 * request is about an object of this kind. */
static bool knows(const struct admit_webhook *h, const char *kind, struct err *e)
{
	static const struct {
		enum cluster_cache_kind kind;
		const char *name;
	} kinds[] = {{CLUSTER_CACHE_POOLS, "SpiderIPPool"},
		     {CLUSTER_CACHE_SUBNETS, "SpiderSubnet"}};

	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		bool own = strcmp(kinds[i].name, kind) == 0;
		int r = 0;

		if (!kube_cache_synced(h->conf.cache, kinds[i].kind))
			r = kube_cache_error(h->conf.cache, kinds[i].kind, e);
		if (r < 0 && (own || r != -ENOENT))
			return false;
	}
	return true;
}

/* --- handlers of reviews --- */

void admit_webhook_default(void *arg, struct review *q)
{
	struct admit_webhook *h = arg;
	struct admit_request request = request_from(q);
	struct admit_cache w;
	struct admit_answer r;

	if (!is_for_us(q)) {
		allow(q);
		return;
	}
	w = all(h);
	admit_default(&w, &request, &r);
	report(q, &r);
	admit_answer_done(&r);
}

void admit_webhook_check(void *arg, struct review *q)
{
	struct admit_webhook *h = arg;
	struct admit_request request = request_from(q);
	struct err e = ERR_INIT;
	struct admit_cache w;
	struct admit_answer r;

	if (!is_for_us(q)) {
		allow(q);
		return;
	}
	if (admit_is_contended(&request) && !knows(h, request.kind, &e)) {
		refuse(q, UNAVAILABLE, e.text);
		return;
	}
	w = all(h);
	admit_check(&w, &request, &r);
	if (r.code || q->dry_run || !admit_is_contended(&request))
		report(q, &r);
	else
		claim(h, q, &request);
	admit_answer_done(&r);
}

void admit_webhook_try(void *arg, const struct review *q)
{
	struct admit_webhook *h = arg;
	struct admit_request request = request_from(q);
	struct admit_cache w = all(h);
	struct admit_answer r;

	if (!is_for_us(q))
		return;
	admit_default(&w, &request, &r);
	admit_answer_done(&r);
	admit_check(&w, &request, &r);
	admit_answer_done(&r);
}

/* --- creation and destruction --- */

static void on_change(void *arg, const struct kube_object *was, const struct kube_object *is)
{
	struct admit_webhook *h = arg;

	if (was && (!is || strcmp(was->uid, is->uid) != 0))
		range_locks_removed(h->claims, was->uid);
}

void admit_webhook_settings(struct admit_webhook *h, const struct admit_webhook_conf *c)
{
	h->conf = *c;
}

struct admit_webhook *admit_webhook_new(const struct admit_webhook_conf *c)
{
	struct admit_webhook *h = xcalloc(1, sizeof(*h));

	h->conf = *c;
	h->claims = range_locks_new(c->kube, c->ns);
	kube_cache_on(c->cache, CLUSTER_CACHE_POOLS, on_change, h);
	kube_cache_on(c->cache, CLUSTER_CACHE_SUBNETS, on_change, h);
	return h;
}

void admit_webhook_free(struct admit_webhook *h)
{
	if (!h)
		return;
	kube_cache_off(h->conf.cache, h);
	range_locks_free(h->claims);
	free(h->list);
	free(h);
}
