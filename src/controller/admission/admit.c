/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "controller/admission/internal.h"
#include "ipam/pool/pool_cluster.h"
#include "ipam/pool/pool_spec.h"
#include "kube/object.h"
#include "kube/patch.h"
#include "spec/annotations.h"
#include "spec/subnet_annotation.h"

/* Passes a request to the functions for the object's kind, and builds the answer. */

/* WARNINGS_MAX limits the warnings, because a list of 10,000 entries may have the same mistake
 * 10,000 times. A review has a limit as well (controller/webhook/review.h). */
enum { OBJECT_MAX = 8 << 20, WARNING_MAX = 256, WARNINGS_MAX = 32 };

static const struct kind {
	const char *name;
	void (*fill)(struct admit *a, struct json_tree *object);
	int (*check)(struct admit *a);
} kinds[] = {
	{"SpiderIPPool", admit_default_pool, admit_check_pool},
	{"SpiderSubnet", admit_default_subnet, admit_check_subnet},
	{"SpiderReservedIP", admit_default_reserved, admit_check_reserved},
	{"SpiderMultusConfig", admit_default_network, admit_check_network},
	{"SpiderCoordinator", admit_default_coordinator, admit_check_coordinator},
};

static const struct kind *kind_of(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (strcmp(kinds[i].name, name) == 0)
			return &kinds[i];
	return NULL;
}

bool admit_knows(const char *kind)
{
	return kind_of(kind) != NULL;
}

/* --- responses to reviews --- */

/* Splits "spec.ips[0]: text" into field and text; a text without a field is about the spec. */
static void split(struct admit_answer *r, const char *text)
{
	const char *colon = strstr(text, ": ");

	if (colon && (strncmp(text, "spec", 4) == 0 ||
		      strncmp(text, "metadata.", strlen("metadata.")) == 0)) {
		r->field = span_dup((struct span){text, (size_t)(colon - text)});
		r->text = xstrdup(colon + 2);
		return;
	}
	r->field = xstrdup("spec");
	r->text = xstrdup(text);
}

int admit_refuse(struct admit *a, enum admit_fault fault, const char *fmt, ...)
{
	char text[ERR_TEXT_MAX];
	va_list ap;

	if (a->answer->code)
		return -EINVAL;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	a->answer->code = 422;
	a->answer->fault = fault;
	split(a->answer, text);
	return -EINVAL;
}

int admit_forbid(struct admit *a, const char *fmt, ...)
{
	char text[ERR_TEXT_MAX];
	va_list ap;

	if (a->answer->code)
		return -EINVAL;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	a->answer->code = 403;
	a->answer->text = xstrdup(text);
	return -EINVAL;
}

void admit_warn(struct admit *a, const char *fmt, ...)
{
	char text[WARNING_MAX];
	va_list ap;

	if (a->answer->n_warnings >= WARNINGS_MAX)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	VEC_PUSH(a->answer->warnings, a->answer->n_warnings) = xstrdup(text);
}

void admit_answer_done(struct admit_answer *r)
{
	str_list_free(r->warnings, r->n_warnings);
	free(r->field);
	free(r->text);
	buf_done(&r->patch);
	*r = (struct admit_answer){0};
}

/* --- annotations and deletion of an object --- */

const struct json *admit_annotation(const struct json *object, const char *key)
{
	return json_get(kube_meta(object, "annotations"), key);
}

bool admit_is_going(const struct json *object)
{
	return *json_text(kube_meta(object, "deletionTimestamp")) != '\0';
}

/* --- defaulting and validation --- */

static void write_patch(struct admit_answer *r, const struct json *was,
			const struct json_tree *object)
{
	auto_json struct json_doc *doc = NULL;
	auto_buf struct buf text;
	struct kube_patch p;
	struct json_out o;

	buf_init(&text, OBJECT_MAX);
	jo_init(&o, &text, 0);
	json_tree_write(object, &o);
	if (text.over || json_parse(&doc, buf_span(&text), OBJECT_MAX, NULL) < 0)
		return; /* longer than OBJECT_MAX: the object gets no defaults */
	kube_patch_init(&p);
	if (kube_patch_diff(&p, was, json_root(doc))) {
		kube_patch_end(&p);
		r->patch = p.b;
		p.b = (struct buf){0};
	}
	kube_patch_done(&p);
}

static void drop_warnings(struct admit_answer *r)
{
	str_list_free(r->warnings, r->n_warnings);
	r->warnings = NULL;
	r->n_warnings = 0;
}

static bool admit_is_agent(const char *user);

void admit_default(const struct admit_cache *w, const struct admit_request *q,
		   struct admit_answer *ret)
{
	const struct kind *k = kind_of(q->kind);
	struct admit a = {w, q, ret};
	auto_tree struct json_tree *t = NULL;

	*ret = (struct admit_answer){0};
	if (!k || q->operation == ADMIT_DELETE || json_kind(q->object) != JSON_OBJECT)
		return;
	if (q->operation == ADMIT_UPDATE && admit_is_agent(q->user))
		return;
	t = json_tree_over(q->object);
	k->fill(&a, t);
	if (q->operation == ADMIT_UPDATE &&
	    json_same(json_get(q->object, "spec"), json_get(q->old, "spec")))
		/* the request that wrote this spec has already received its warnings */
		drop_warnings(ret);
	write_patch(ret, q->object, t);
}

struct json_doc *admit_complete(const struct admit_cache *w, const struct admit_request *q)
{
	const struct kind *k = kind_of(q->kind);
	struct admit_answer answer = {0};
	struct admit a = {w, q, &answer};
	auto_tree struct json_tree *t = NULL;
	struct json_doc *doc = NULL;
	auto_buf struct buf text;
	struct json_out o;

	buf_init(&text, OBJECT_MAX);
	if (!k || json_kind(q->object) != JSON_OBJECT)
		return NULL;
	t = json_tree_over(q->object);
	k->fill(&a, t);
	admit_answer_done(&answer);
	jo_init(&o, &text, 0);
	json_tree_write(t, &o);
	return !text.over && json_parse(&doc, buf_span(&text), OBJECT_MAX, NULL) == 0 ? doc : NULL;
}

bool admit_spec_stays(const struct admit *a)
{
	const struct admit_request *q = a->request;
	struct admit_request of_old = {q->kind, ADMIT_UPDATE, q->ns, q->name, q->old, NULL, NULL};
	struct admit_answer ignored = {0};
	struct admit silent = {a->cache, &of_old, &ignored};
	auto_tree struct json_tree *t = NULL;
	bool same;

	if (q->operation != ADMIT_UPDATE || json_kind(q->old) != JSON_OBJECT)
		return false;
	if (json_same(json_get(q->object, "spec"), json_get(q->old, "spec")))
		return true;
	t = json_tree_over(q->old);
	kind_of(q->kind)->fill(&silent, t);
	same = json_tree_same(json_tree_member(t, "spec"), json_get(q->object, "spec"));
	admit_answer_done(&ignored);
	return same;
}

/* Returns whether an update changes neither spec nor annotations. */
static bool is_untouched(const struct admit *a)
{
	return admit_spec_stays(a) && json_same(kube_meta(a->request->object, "annotations"),
						kube_meta(a->request->old, "annotations"));
}

/* Limits a list. `was`: the list before the update. A list that already exceeds the limit may keep
 * its length. */
static int check_number(struct admit *a, const char *place, const struct json *v,
			const struct json *was, size_t max)
{
	if (json_len(v) <= max || json_len(v) <= json_len(was))
		return 0;
	return admit_refuse(a, ADMIT_INVALID, "%s: has %zu entries, %zu are allowed", place,
			    json_len(v), max);
}

/* Limits every list and map of the spec, so that fields added later are limited as well. */
static int check_lists(struct admit *a, const char *place, const struct json *v,
		       const struct json *was)
{
	auto_json_index struct json_index before = json_index_of(was);
	struct json_walk w = json_walk_start(v);
	const struct json *x;
	const char *key;
	int r = check_number(a, place, v, was, ADMIT_LIST_MAX);

	for (size_t i = 0; r == 0 && (x = json_walk_next(&w, &key)); i++) {
		auto_free char *at = NULL;

		if (json_kind(x) != JSON_ARRAY && json_kind(x) != JSON_OBJECT)
			continue;
		at = key ? xasprintf("%s.%.100s", place, key) : xasprintf("%s[%zu]", place, i);
		r = check_lists(a, at, x, key ? json_index_get(&before, key) : NULL);
	}
	return r;
}

static int check_sizes(struct admit *a)
{
	static const char *const maps[] = {"labels", "annotations"};
	const struct admit_request *q = a->request;
	int r = 0;

	if (q->operation == ADMIT_DELETE || admit_is_going(q->object))
		return 0;
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(maps); i++) {
		auto_free char *place = xasprintf("metadata.%s", maps[i]);

		r = check_number(a, place, kube_meta(q->object, maps[i]),
				 kube_meta(q->old, maps[i]), ADMIT_LABELS_MAX);
	}
	if (r == 0)
		r = check_lists(a, "spec", json_get(q->object, "spec"), json_get(q->old, "spec"));
	return r;
}

/* Returns whether the pool is automatic: its labels name its subnet and its application. */
static bool is_made(const struct json *pool)
{
	static const char *const keys[] = {LABEL_OWNER_SUBNET, LABEL_OWNER_API,
					   LABEL_OWNER_KIND,   LABEL_OWNER_NAMESPACE,
					   LABEL_OWNER_NAME,   LABEL_OWNER_UID};

	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		if (!json_get(kube_meta(pool, "labels"), keys[i]))
			return false;
	return true;
}

static bool stays(const struct admit_request *q, const char *key)
{
	return json_same(kube_meta(q->object, key), kube_meta(q->old, key));
}

static bool may_change(const struct admit_request *q, const char *annotation)
{
	if (strcmp(annotation, ANNOTATION_BLOCK_PREFIX) == 0)
		return !admit_annotation(q->old, annotation);
	return strcmp(annotation, ANNOTATION_POOL_NUMBER) == 0 && is_made(q->object);
}

static bool annotations_are_allowed(const struct admit_request *q)
{
	const struct json *is = kube_meta(q->object, "annotations");
	const struct json *was = kube_meta(q->old, "annotations");
	auto_json_index struct json_index before = json_index_of(was), after = json_index_of(is);
	struct json_walk w = json_walk_start(is), old = json_walk_start(was);
	const struct json *v, *x;
	const char *key;

	while ((v = json_walk_next(&w, &key))) {
		x = json_index_get(&before, key);
		if (!(x && json_same(v, x)) && !may_change(q, key))
			return false;
	}
	while (json_walk_next(&old, &key))
		if (!json_index_get(&after, key))
			return false;
	return true;
}

/* Denies changes of a SpiderIPPool by an agent's account, except those that agents make. */
static int admit_check_agent(struct admit *a)
{
	const struct admit_request *q = a->request;

	if (!admit_is_agent(q->user) || strcmp(q->kind, "SpiderIPPool") != 0)
		return 0;
	if (q->operation == ADMIT_DELETE)
		return admit_forbid(a, "an agent's account may not delete a pool");
	if (q->operation == ADMIT_CREATE &&
	    (!is_made(q->object) || json_len(json_get(json_get(q->object, "spec"), "ips"))))
		return admit_forbid(
			a,
			"an agent's account may create pools for applications only (labels " IPAM_SPIDERNET_IO
			"owner-*), without addresses (spec.ips)");
	if (q->operation == ADMIT_UPDATE &&
	    !(json_same(json_get(q->object, "spec"), json_get(q->old, "spec")) &&
	      stays(q, "labels") && stays(q, "finalizers") && stays(q, "ownerReferences") &&
	      annotations_are_allowed(q)))
		return admit_forbid(
			a,
			"an agent's account may change only two annotations of a pool: " ANNOTATION_BLOCK_PREFIX
			", if the pool has none, and " ANNOTATION_POOL_NUMBER
			", if the pool was created for an application");
	return 0;
}

void admit_check(const struct admit_cache *w, const struct admit_request *q,
		 struct admit_answer *ret)
{
	const struct kind *k = kind_of(q->kind);
	struct admit a = {w, q, ret};

	*ret = (struct admit_answer){0};
	if (!k || admit_check_agent(&a) < 0 || check_sizes(&a) < 0 || is_untouched(&a))
		return;
	k->check(&a);
}

/* --- common to the kinds with ranges: validation by ipam/pool/pool_spec.h, sets of addresses
 * --- */

/* Placeholder for the object's name in errors of pool_spec.h; removed from the answer. */
#define NOWHERE "-"

static int judge(const struct admit_cache *w, const char *name, const struct json *spec,
		 struct pool_set *set, struct err *e)
{
	struct pool_spec o = {NOWHERE, spec, w->agent_ns ? w->agent_ns : ""};
	struct pool_draft d = {.name = xstrdup(name), .origin = xstrdup(NOWHERE)};
	int r = pool_spec_read(&o, &d, e);

	if (r == 0)
		return pool_set_add(set, &d, e);
	pool_draft_done(&d);
	return r;
}

int admit_pool_of(struct admit *a, const char *name, const struct json *spec, struct pool *ret)
{
	struct pool_set set = {0};
	struct err e = ERR_INIT;
	const char *text = e.text;
	int r = judge(a->cache, *name ? name : "-", spec, &set, &e);

	if (r == 0) {
		*ret = set.v[0];
		free(set.v);
		return 0;
	}
	pool_set_done(&set);
	if (strncmp(text, NOWHERE ": ", strlen(NOWHERE ": ")) == 0)
		text += strlen(NOWHERE ": ");
	return admit_refuse(a, ADMIT_INVALID, "%s", text);
}

void admit_others(const struct admit *a, const struct json *const *list, size_t n, const char *kind,
		  struct pool_set *ret)
{
	bool same_kind = strcmp(kind, a->request->kind) == 0;

	*ret = (struct pool_set){0};
	for (size_t i = 0; i < n; i++) {
		const char *name = json_text(kube_meta(list[i], "name"));

		if (!same_kind || strcmp(name, a->request->name) != 0)
			judge(a->cache, name, json_get(list[i], "spec"), ret, NULL);
	}
}

static bool spans(const struct pool *p, const struct ipnet *net)
{
	if (p->gateway.family && !ipnet_contains(net, &p->gateway))
		return false;
	return !p->ips.n || (ipnet_contains(net, &p->ips.v[0].first) &&
			     ipnet_contains(net, &p->ips.v[p->ips.n - 1].last));
}

bool admit_narrower(const struct pool *p, struct ipnet *ret)
{
	int step = p->family == 4 ? 8 : 16, longest = p->family == 4 ? 24 : 64;
	struct ipnet net;

	if (!p->ips.n && !p->gateway.family)
		return false;
	net.ip = p->ips.n ? p->ips.v[0].first : p->gateway;
	for (int len = longest; len > p->subnet.len; len -= step) {
		net.len = (uint8_t)len;
		if (!spans(p, &net))
			continue;
		*ret = ipnet_network(&net);
		return true;
	}
	return false;
}

void admit_overlap_hint(const struct pool *p, const struct pool *other, struct buf *ret)
{
	char text[IP_TEXT_MAX];
	struct ipnet net;

	if (admit_narrower(p, &net) && !ipnet_overlaps(&net, &other->subnet))
		buf_printf(ret, "; did you mean %s?", ipnet_str(&net, text));
	else if (admit_narrower(other, &net) && !ipnet_overlaps(&net, &p->subnet))
		buf_printf(ret, "; did you mean %s? (for %s, whose addresses are all in it)",
			   ipnet_str(&net, text), other->name);
}

int admit_check_family(struct admit *a, uint8_t family)
{
	if (family == 4 ? !a->cache->no_ipv4 : !a->cache->no_ipv6)
		return 0;
	return admit_refuse(a, ADMIT_FORBIDDEN,
			    "spec.ipVersion: IPv%u is disabled: enable it in the settings "
			    "(enable-ipv%u) of controller and agents",
			    family, family);
}

static bool same_net(const char *a, const char *b)
{
	struct ipnet x, y;

	if (ipnet_parse(span_of(a), &x) < 0 || ipnet_parse(span_of(b), &y) < 0)
		return strcmp(a, b) == 0;
	x = ipnet_network(&x);
	y = ipnet_network(&y);
	return ipnet_eq(&x, &y);
}

int admit_check_fixed(struct admit *a)
{
	const struct json *is = json_get(a->request->object, "spec");
	const struct json *was = json_get(a->request->old, "spec");
	const char *subnet = json_text(json_get(is, "subnet"));
	const char *old = json_text(json_get(was, "subnet"));

	if (*old && !same_net(subnet, old))
		return admit_refuse(a, ADMIT_FORBIDDEN,
				    "spec.subnet: is immutable: it was '%.60s'; create another %s "
				    "for '%.60s'",
				    old, a->request->kind, subnet);
	if (json_kind(json_get(was, "ipVersion")) != JSON_NULL &&
	    !json_same(json_get(is, "ipVersion"), json_get(was, "ipVersion")))
		return admit_refuse(a, ADMIT_FORBIDDEN,
				    "spec.ipVersion: is immutable: create another %s",
				    a->request->kind);
	return 0;
}

void admit_ranges(const struct ip_set *s, struct buf *ret)
{
	enum { TEXT_MAX = 300 };
	auto_buf struct buf text;
	const char *comma;

	buf_init(&text, TEXT_MAX);
	ip_set_str(s, &text);
	buf_char(ret, '[');
	for (const char *p = text.len ? text.p : ""; *p; p = comma + 2) {
		comma = strstr(p, ", ");
		buf_add(ret, p, comma ? (size_t)(comma - p) : strlen(p));
		if (!comma)
			break;
		buf_char(ret, ' ');
	}
	buf_str(ret, text.over ? "...]" : "]");
}

/* --- requests that may conflict with concurrent ones --- */

static bool has_ranges(const char *kind)
{
	return strcmp(kind, "SpiderIPPool") == 0 || strcmp(kind, "SpiderSubnet") == 0;
}

bool admit_is_contended(const struct admit_request *q)
{
	static const char *const keys[] = {"subnet", "ips", "excludeIPs"};

	if (!has_ranges(q->kind) || q->operation == ADMIT_DELETE)
		return false;
	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		if (q->operation == ADMIT_CREATE ||
		    !json_same(json_get(json_get(q->object, "spec"), keys[i]),
			       json_get(json_get(q->old, "spec"), keys[i])))
			return true;
	return false;
}

/* --- accounts of agents --- */

#define ACCOUNT "system:serviceaccount:"
#define AGENT	":unirail-agent"

/*
 * Returns whether the user is an agent's service account, in any namespace. admit_check_agent()
 * limits what an agent may change in pools, as deploy/policies/agent.yaml does on API servers with
 * policies (since 1.30). An agent's update gets no defaults: what an administrator wrote stays.
 */
static bool admit_is_agent(const char *user)
{
	const char *name = user && strncmp(user, ACCOUNT, strlen(ACCOUNT)) == 0
				   ? strchr(user + strlen(ACCOUNT), ':')
				   : NULL;

	return name && strcmp(name, AGENT) == 0;
}
