/* SPDX-License-Identifier: Apache-2.0 */
/* AdmissionReview as the API server sends it. */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "controller/webhook/review.h"

enum { WORD_MAX = 253, USER_MAX = 4096 };

struct what {
	const char *group, *version, *word;
};

struct request {
	const char *uid, *ns, *name, *operation, *subresource, *user;
	struct what kind, resource;
	bool dry_run;
	const struct json *object, *old;
	bool has_kind, has_resource;
};

struct envelope {
	const char *api, *kind;
	const struct json *request;
};

#define AT(type, member) .offset = offsetof(struct type, member)

static const struct json_field kind_fields[] = {
	{"group", J_STR, AT(what, group), .max = WORD_MAX},
	{"version", J_STR, AT(what, version), .max = WORD_MAX, .required = true},
	{"kind", J_STR, AT(what, word), .max = WORD_MAX, .required = true},
	{0}};
static const struct json_table kind_table = {.fields = kind_fields, .size = sizeof(struct what)};

static const struct json_field resource_fields[] = {
	{"group", J_STR, AT(what, group), .max = WORD_MAX},
	{"version", J_STR, AT(what, version), .max = WORD_MAX, .required = true},
	{"resource", J_STR, AT(what, word), .max = WORD_MAX, .required = true},
	{0}};
static const struct json_table resource_table = {.fields = resource_fields,
						 .size = sizeof(struct what)};

static const struct json_field user_fields[] = {{"username", J_STR, AT(request, user),
						 .max = USER_MAX},
						{0}};
static const struct json_table user_table = {.fields = user_fields};

static const struct json_field request_fields[] = {
	{"uid", J_STR, AT(request, uid), .max = WORD_MAX, .required = true},
	{"kind", J_OBJ, AT(request, kind), .sub = &kind_table, .required = true},
	{"resource", J_OBJ, AT(request, resource), .sub = &resource_table, .required = true},
	{"subResource", J_STR, AT(request, subresource), .max = WORD_MAX},
	{"name", J_STR, AT(request, name), .max = WORD_MAX},
	{"namespace", J_STR, AT(request, ns), .max = WORD_MAX},
	{"operation", J_STR, AT(request, operation), .max = WORD_MAX, .required = true},
	{"userInfo", J_OBJ, .offset = 0, .sub = &user_table},
	{"object", J_VAL, AT(request, object)},
	{"oldObject", J_VAL, AT(request, old)},
	{"dryRun", J_BOOL, AT(request, dry_run)},
	{0}};
static const struct json_table request_table = {.fields = request_fields};

static const struct json_field envelope_fields[] = {
	{"apiVersion", J_STR, AT(envelope, api), .max = WORD_MAX, .required = true},
	{"kind", J_STR, AT(envelope, kind), .max = WORD_MAX, .required = true},
	{"request", J_VAL, AT(envelope, request)},
	{0}};
static const struct json_table envelope_table = {.fields = envelope_fields};

static int bad(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static int bad(struct err *e, const char *fmt, ...)
{
	struct buf b;
	va_list ap;
	int r;

	buf_init(&b, ERR_TEXT_MAX);
	va_start(ap, fmt);
	buf_vprintf(&b, fmt, ap);
	va_end(ap);
	r = err_kind(e, ERR_DECODE, -EINVAL, "%s", b.len ? b.p : "");
	buf_done(&b);
	return r;
}

static int read_envelope(struct json_doc *d, struct envelope *v, struct err *e)
{
	int r;

	if (json_kind(json_root(d)) != JSON_OBJECT)
		return json_wants(json_root(d), "the body", "an AdmissionReview", e);
	r = json_read(d, json_root(d), &envelope_table, v, "review", e);
	if (r < 0)
		return r;
	if (strcmp(v->kind, "AdmissionReview"))
		return bad(e, "review.kind is '%s', wants 'AdmissionReview'", v->kind);
	if (!strcmp(v->api, "admission.k8s.io/v1"))
		return 0;
	return err_kind(e, ERR_VERSION, -EOPNOTSUPP,
			"review.apiVersion is '%s', wants 'admission.k8s.io/v1' (the webhook's "
			"admissionReviewVersions: [v1])",
			v->api);
}

/* NULL for what is not there, as null says it. */
static int object_of(const struct json **v, const char *place, struct err *e)
{
	if (json_kind(*v) == JSON_NULL)
		*v = NULL;
	else if (json_kind(*v) != JSON_OBJECT)
		return json_wants(*v, place, "an object", e);
	return 0;
}

/* Which objects an operation comes with. */
static const struct {
	const char *word;
	bool object, old;
} operations[] = {
	{"CREATE", true, false},
	{"UPDATE", true, true},
	{"DELETE", false, true},
	{"CONNECT", false, false},
};

static int check(struct request *q, struct err *e)
{
	int r = object_of(&q->object, "review.request.object", e);

	if (r == 0)
		r = object_of(&q->old, "review.request.oldObject", e);
	if (r < 0)
		return r;
	if (!*q->uid)
		return bad(e, "review.request.uid is empty");
	if (!*q->kind.version)
		return bad(e, "review.request.kind.version is empty");
	for (size_t i = 0; i < ARRAY_LEN(operations); i++) {
		if (strcmp(operations[i].word, q->operation))
			continue;
		if (operations[i].object && !q->object)
			return bad(e, "review.request.object is missing in a %s", q->operation);
		if (operations[i].old && !q->old)
			return bad(e, "review.request.oldObject is missing in a %s", q->operation);
		return 0;
	}
	return bad(e,
		   "review.request.operation is '%s', wants 'CREATE', 'UPDATE', 'DELETE' or "
		   "'CONNECT'",
		   q->operation);
}

static const char *word(const char *s)
{
	return s ? s : "";
}

static struct review review_of(const struct request *q)
{
	return (struct review){.uid = q->uid,
			       .group = word(q->kind.group),
			       .version = q->kind.version,
			       .kind = q->kind.word,
			       .resource = q->resource.word,
			       .subresource = word(q->subresource),
			       .ns = word(q->ns),
			       .name = word(q->name),
			       .operation = q->operation,
			       .user = word(q->user),
			       .dry_run = q->dry_run,
			       .object = q->object,
			       .old = q->old};
}

static int read_review(struct json_doc *d, struct review *ret, struct err *e)
{
	struct envelope v = {0};
	struct request q = {0};
	int r = read_envelope(d, &v, e);

	if (r < 0)
		return r;
	if (json_kind(v.request) != JSON_OBJECT)
		return json_wants(v.request, "review.request", "an object", e);
	r = json_read(d, v.request, &request_table, &q, "review.request", e);
	if (r == 0)
		r = check(&q, e);
	if (r < 0)
		return r;
	*ret = review_of(&q);
	return 0;
}

int review_parse(struct review_doc *ret, struct span text, struct err *e)
{
	auto_json struct json_doc *d = NULL;
	struct review q;
	int r = json_parse_values(&d, text, REVIEW_MAX, REVIEW_VALUES_MAX, e);

	if (r == 0)
		r = read_review(d, &q, e);
	if (r < 0) {
		err_wrap(e, r, "AdmissionReview");
		return r == -EOPNOTSUPP ? r : -EINVAL;
	}
	*ret = (struct review_doc){.q = q, .doc = take(d)};
	return 0;
}

void review_doc_done(struct review_doc *d)
{
	json_free(d->doc);
	*d = (struct review_doc){0};
}
