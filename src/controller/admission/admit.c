/* SPDX-License-Identifier: Apache-2.0 */
/* Which kind is whose, and the answer. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "controller/admission/admit_priv.h"
#include "kube/patch.h"

/* A review tells fewer warnings than that (controller/webhook/review.h): a list of 10,000 has the same slip 10,000 times. */
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

/* --- words --- */

/* "spec.ips[0]: text"; what names no field is about the spec. */
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

/* --- objects --- */

const struct json *admit_meta(const struct json *object, const char *key)
{
	return json_get(json_get(object, "metadata"), key);
}

const struct json *admit_note(const struct json *object, const char *key)
{
	return json_get(admit_meta(object, "annotations"), key);
}

const char *admit_text(const struct json *v)
{
	return json_string(v) ? json_string(v) : "";
}

bool admit_is_going(const struct json *object)
{
	return *admit_text(admit_meta(object, "deletionTimestamp")) != '\0';
}

/* --- the two questions --- */

static void write_patch(struct admit_answer *r, const struct json *was,
			const struct json_tree *object)
{
	auto_json struct json_doc *doc = NULL;
	auto_buf struct buf text;
	struct kube_patch p;
	struct json_out o;

	buf_init(&text, OBJECT_MAX);
	jo_init(&o, &text, 0);
	jt_write(object, &o);
	if (text.over || json_parse(&doc, buf_span(&text), OBJECT_MAX, NULL) < 0)
		return; /* as it is: the check says what is wrong */
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

void admit_default(const struct admit_world *w, const struct admit_ask *q, struct admit_answer *ret)
{
	const struct kind *k = kind_of(q->kind);
	struct admit a = {w, q, ret};
	auto_tree struct json_tree *t = NULL;

	*ret = (struct admit_answer){0};
	if (!k || q->operation == ADMIT_DELETE || json_kind(q->object) != JSON_OBJECT)
		return;
	if (q->operation == ADMIT_UPDATE && admit_is_agent(q->user))
		return;
	t = jt_over(q->object);
	k->fill(&a, t);
	if (q->operation == ADMIT_UPDATE &&
	    json_same(json_get(q->object, "spec"), json_get(q->old, "spec")))
		drop_warnings(ret); /* they were given when it was written */
	write_patch(ret, q->object, t);
}

bool admit_spec_stays(const struct admit *a)
{
	const struct admit_ask *q = a->ask;
	struct admit_ask of_old = {q->kind, ADMIT_UPDATE, q->ns, q->name, q->old, NULL, NULL};
	struct admit_answer nobody = {0};
	struct admit quiet = {a->world, &of_old, &nobody};
	auto_tree struct json_tree *t = NULL;
	bool same;

	if (q->operation != ADMIT_UPDATE || json_kind(q->old) != JSON_OBJECT)
		return false;
	if (json_same(json_get(q->object, "spec"), json_get(q->old, "spec")))
		return true;
	t = jt_over(q->old);
	kind_of(q->kind)->fill(&quiet, t);
	same = jt_same(jt_member(t, "spec"), json_get(q->object, "spec"));
	admit_answer_done(&nobody);
	return same;
}

/* What only says more about an object is no matter of what it says itself. */
static bool is_untouched(const struct admit *a)
{
	return admit_spec_stays(a) && json_same(admit_meta(a->ask->object, "annotations"),
						admit_meta(a->ask->old, "annotations"));
}

/* Of `was` as many are no fault of this change. */
static int check_number(struct admit *a, const char *place, const struct json *v,
			const struct json *was, size_t max)
{
	if (json_len(v) <= max || json_len(v) <= json_len(was))
		return 0;
	return admit_refuse(a, ADMIT_INVALID, "%s: has %zu entries, %zu are allowed", place,
			    json_len(v), max);
}

/* Every list and map of the spec, so that a field that comes later is limited as well. */
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
	const struct admit_ask *q = a->ask;
	int r = 0;

	if (q->operation == ADMIT_DELETE || admit_is_going(q->object))
		return 0;
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(maps); i++) {
		auto_free char *place = xasprintf("metadata.%s", maps[i]);

		r = check_number(a, place, admit_meta(q->object, maps[i]),
				 admit_meta(q->old, maps[i]), ADMIT_LABELS_MAX);
	}
	if (r == 0)
		r = check_lists(a, "spec", json_get(q->object, "spec"), json_get(q->old, "spec"));
	return r;
}

void admit_check(const struct admit_world *w, const struct admit_ask *q, struct admit_answer *ret)
{
	const struct kind *k = kind_of(q->kind);
	struct admit a = {w, q, ret};

	*ret = (struct admit_answer){0};
	if (!k || admit_check_agent(&a) < 0 || check_sizes(&a) < 0 || is_untouched(&a))
		return;
	k->check(&a);
}
