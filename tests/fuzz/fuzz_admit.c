/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects that are sent to admission. Lines: the kind and the operation ("SpiderIPPool create"); the
 * object; the old object; another SpiderIPPool; a SpiderSubnet. Each line after the first is JSON
 * or empty.
 *
 * The patch that sets defaults can be applied, and an object that has the defaults gets no further
 * patch. Agents can use an admitted pool together with the other SpiderIPPool.
 */
#include <stdlib.h>
#include <string.h>

#include "../lib/patch_apply.h"
#include "base/log.h"
#include "controller/admission/admit.h"
#include "fuzz.h"
#include "ipam/pool/pool_cluster.h"

enum { OBJECT_MAX = 1 << 20 };

/* Parses the object and removes repeated keys, as the API server does; NULL: the text is not a
 * JSON object. */
static struct json_doc *read_object(struct span text)
{
	auto_json struct json_doc *doc = NULL;
	struct json_doc *ret = NULL;
	auto_buf struct buf b = {0};
	struct json_out o;

	if (json_parse(&doc, text, OBJECT_MAX, NULL) < 0 ||
	    json_kind(json_root(doc)) != JSON_OBJECT)
		return NULL;
	buf_init(&b, OBJECT_MAX);
	jo_init(&o, &b, 0);
	jo_val(&o, json_root(doc), true);
	must(json_parse(&ret, buf_span(&b), OBJECT_MAX, NULL) == 0);
	return ret;
}

static const char *name_of(const struct json *object)
{
	const char *s = json_string(json_get(json_get(object, "metadata"), "name"));

	return s ? s : "";
}

static enum admit_nad find_nad(void *arg, const char *ns, const char *nad, const char *name,
			       const char **owner)
{
	(void)arg;
	(void)ns;
	*owner = "other";
	return nad[0] == 't' && name[0] ? ADMIT_NAD_TAKEN
	       : nad[0] == 'f'		? ADMIT_NAD_FREE
					: ADMIT_NAD_NONE;
}

static void check_answer(const struct admit_answer *a)
{
	must(!a->code || (a->text && *a->text));
	must((a->code == 422) == (a->field != NULL));
	must(!a->field || strncmp(a->field, "spec", 4) == 0 ||
	     strncmp(a->field, "metadata.", 9) == 0);
	for (size_t i = 0; i < a->n_warnings; i++)
		must(*a->warnings[i]);
}

static struct json_doc *fill(const struct admit_cache *w, const struct admit_request *q)
{
	struct admit_answer a;
	struct json_doc *ret;

	admit_default(w, q, &a);
	check_answer(&a);
	must(a.code == 0);
	ret = patch_apply(q->object, buf_span(&a.patch), 2 * OBJECT_MAX);
	must(ret);
	admit_answer_done(&a);
	return ret;
}

static void check_filled(const struct admit_cache *w, const struct admit_request *q)
{
	struct admit_answer a;

	admit_default(w, q, &a);
	must(a.patch.len == 0);
	admit_answer_done(&a);
}

static char *line_of(const struct json *pool)
{
	char *line = NULL;

	return pool && pool_kube_text(pool, "SpiderIPPool", &line, NULL) == 0 ? line : NULL;
}

/* Returns whether the pool has annotations or a status. The adopted addresses and the block size
 * are recorded there, and admission does not validate them, so agents may be unable to use such
 * a pool. */
static bool has_annotations(const struct json *pool)
{
	return json_get(json_get(pool, "metadata"), "annotations") || json_get(pool, "status");
}

static void check_usable(const struct json *pool, const struct json *other)
{
	const char *lines[2] = {0};
	struct pool_set set = {0}, alone = {0};
	bool other_is_good = false;

	lines[0] = line_of(pool);
	lines[1] = other && strcmp(name_of(other), name_of(pool)) != 0 ? line_of(other) : NULL;
	if (lines[1]) {
		pool_kube_set(&lines[1], 1, "x", &alone);
		other_is_good = alone.n == 1;
	}
	if (lines[0] && !has_annotations(pool)) {
		pool_kube_set(lines, other_is_good && !has_annotations(other) ? 2 : 1, "x", &set);
		must(set.n_out == 0);
	}
	pool_set_done(&set);
	pool_set_done(&alone);
	free((char *)lines[0]);
	free((char *)lines[1]);
}

static void review(const struct admit_cache *w, struct admit_request *q)
{
	struct json_doc *filled = NULL;
	struct admit_answer a;

	if (q->object) {
		filled = fill(w, q);
		q->object = json_root(filled);
		check_filled(w, q);
	}
	admit_check(w, q, &a);
	check_answer(&a);
	must(a.patch.len == 0);
	admit_is_contended(q);
	if (!a.code && q->operation == ADMIT_CREATE && strcmp(q->kind, "SpiderIPPool") == 0 &&
	    *q->name)
		check_usable(q->object, w->n_pools ? w->pools[0] : NULL);
	admit_answer_done(&a);
	json_free(filled);
}

/* Adds defaults to the SpiderSubnet; removes the SpiderSubnet if it has no name or admission
 * refuses it, since it then cannot exist. */
static void keep_taken(struct json_doc **subnet)
{
	const struct admit_cache empty = {.agent_ns = "x"};
	struct admit_request q = {.kind = "SpiderSubnet", .operation = ADMIT_CREATE, .ns = ""};
	struct json_doc *filled = NULL;
	struct admit_answer a = {0};

	if (*subnet) {
		q.object = json_root(*subnet);
		q.name = name_of(q.object);
		filled = fill(&empty, &q);
		q.object = json_root(filled);
		admit_check(&empty, &q, &a);
	}
	if (a.code || !q.name || !*q.name) {
		json_free(filled);
		filled = NULL;
	}
	admit_answer_done(&a);
	json_free(*subnet);
	*subnet = filled;
}

static enum admit_operation operation_of(struct span word)
{
	return span_eq(word, "update")	 ? ADMIT_UPDATE
	       : span_eq(word, "delete") ? ADMIT_DELETE
					 : ADMIT_CREATE;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct feed f = {data, size};
	struct span head = feed_line(&f), kind = {0};
	struct json_doc *docs[4];
	const struct json *v[4];
	struct admit_cache w = {.agent_ns = "x", .nad = find_nad};
	struct admit_request q = {.ns = "team"};
	auto_free char *name = NULL;

	log_threshold = LOG_NONE;
	span_cut(&head, ' ', &kind);
	name = text_of(kind);
	for (size_t i = 0; i < ARRAY_LEN(docs); i++) {
		docs[i] = read_object(feed_line(&f));
		if (i == 3)
			keep_taken(&docs[i]);
		v[i] = docs[i] ? json_root(docs[i]) : NULL;
	}
	q.kind = name;
	q.operation = operation_of(head);
	q.object = q.operation == ADMIT_DELETE ? NULL : v[0];
	q.old = q.operation == ADMIT_CREATE ? NULL : v[1];
	q.name = name_of(q.object ? q.object : q.old);
	w.pools = &v[2];
	w.n_pools = v[2] != NULL;
	w.subnets = &v[3];
	w.n_subnets = v[3] != NULL;
	if ((q.object || q.operation == ADMIT_DELETE) && (q.old || q.operation == ADMIT_CREATE))
		review(&w, &q);
	for (size_t i = 0; i < ARRAY_LEN(docs); i++)
		json_free(docs[i]);
	return 0;
}
