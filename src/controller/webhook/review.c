/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/webhook/review.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "controller/webhook/internal.h"
#include "wire/tls/base64.h"

/* Results of a review, which the hook sets; review_write() encodes them. */

void review_allow(struct review_answer *a)
{
	*a = (struct review_answer){0};
}

void review_drop(struct review_answer *a)
{
	for (size_t i = 0; i < a->n_causes; i++) {
		free(a->causes[i].field);
		free(a->causes[i].text);
	}
	for (size_t i = 0; i < a->n_warnings; i++)
		free(a->warnings[i]);
	free(a->causes);
	free(a->warnings);
	free(a->text);
	free(a->patch);
	review_allow(a);
}

/* Formats text on one line: control characters become spaces, and the text is cut after `max`
 * bytes. */
static char *one_line(const char *fmt, va_list ap, size_t max)
{
	struct buf b;

	buf_init(&b, max * 4);
	buf_vprintf(&b, fmt, ap);
	if (b.len > max) {
		/* does not cut within a UTF-8 character */
		for (b.len = max; b.len > 0 && ((unsigned char)b.p[b.len] & 0xc0) == 0x80;)
			b.len--;
		b.p[b.len] = '\0';
		b.over = false;
		buf_str(&b, "...");
	}
	for (size_t i = 0; i < b.len; i++)
		if ((unsigned char)b.p[i] < ' ')
			b.p[i] = ' ';
	return buf_take(&b);
}

void review_refuse(struct review_answer *a, int code, const char *fmt, ...)
{
	va_list ap;

	if (a->text)
		return;
	va_start(ap, fmt);
	a->text = one_line(fmt, ap, REVIEW_TEXT_MAX);
	va_end(ap);
	a->code = code;
}

static char *line(size_t max, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static char *line(size_t max, const char *fmt, ...)
{
	va_list ap;
	char *text;

	va_start(ap, fmt);
	text = one_line(fmt, ap, max);
	va_end(ap);
	return text;
}

void review_cause(struct review_answer *a, enum review_fault fault, const char *field,
		  const char *text)
{
	struct review_cause *c;

	if (!a->code)
		a->code = 422;
	if (a->n_causes == REVIEW_CAUSES_MAX)
		return;
	c = &VEC_PUSH(a->causes, a->n_causes);
	*c = (struct review_cause){.fault = fault,
				   .field = line(REVIEW_TEXT_MAX, "%s", field),
				   .text = line(REVIEW_TEXT_MAX, "%s", text)};
}

void review_warn(struct review_answer *a, const char *fmt, ...)
{
	char **w;
	va_list ap;

	if (a->n_warnings == REVIEW_WARNINGS_MAX)
		return;
	w = &VEC_PUSH(a->warnings, a->n_warnings);
	va_start(ap, fmt);
	*w = one_line(fmt, ap, REVIEW_WARNING_MAX);
	va_end(ap);
}

void review_patch(struct review_answer *a, struct span patch)
{
	free(a->patch);
	a->patch = patch.n == 0 || span_eq(patch, "[]") ? NULL : span_dup(patch);
}

/* --- decoding of an AdmissionReview request --- */

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
		return bad(e, "review.kind is '%s', expected 'AdmissionReview'", v->kind);
	if (!strcmp(v->api, "admission.k8s.io/v1"))
		return 0;
	return err_kind(e, ERR_VERSION, -EOPNOTSUPP,
			"review.apiVersion is '%s', expected 'admission.k8s.io/v1' (the webhook's "
			"admissionReviewVersions: [v1])",
			v->api);
}

/* Treats null as absent: *v becomes NULL. */
static int object_of(const struct json **v, const char *place, struct err *e)
{
	if (json_kind(*v) == JSON_NULL)
		*v = NULL;
	else if (json_kind(*v) != JSON_OBJECT)
		return json_wants(*v, place, "an object", e);
	return 0;
}

/* Which objects each operation requires. */
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
		   "review.request.operation is '%s', expected 'CREATE', 'UPDATE', 'DELETE' or "
		   "'CONNECT'",
		   q->operation);
}

static struct review review_of(const struct request *q)
{
	return (struct review){.uid = q->uid,
			       .group = str_or_empty(q->kind.group),
			       .version = q->kind.version,
			       .kind = q->kind.word,
			       .resource = q->resource.word,
			       .subresource = str_or_empty(q->subresource),
			       .ns = str_or_empty(q->ns),
			       .name = str_or_empty(q->name),
			       .operation = q->operation,
			       .user = str_or_empty(q->user),
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

/* --- encoding of an AdmissionReview response --- */

static const struct {
	const char *reason, *message;
} faults[] = {
	[REVIEW_INVALID] = {"FieldValueInvalid", "Invalid value"},
	[REVIEW_REQUIRED] = {"FieldValueRequired", "Required value"},
	[REVIEW_FORBIDDEN] = {"FieldValueForbidden", "Forbidden"},
	[REVIEW_NOT_SUPPORTED] = {"FieldValueNotSupported", "Unsupported value"},
	[REVIEW_DUPLICATE] = {"FieldValueDuplicate", "Duplicate value"},
};

/* metav1.StatusReason */
static const struct {
	int code;
	const char *reason;
} reasons[] = {
	{400, "BadRequest"},
	{403, "Forbidden"},
	{404, "NotFound"},
	{409, "Conflict"},
	{413, "RequestEntityTooLarge"},
	{422, "Invalid"},
	{500, "InternalError"},
	{503, "ServiceUnavailable"},
	{504, "Timeout"},
};

static const char *reason_of(int code)
{
	for (size_t i = 0; i < ARRAY_LEN(reasons); i++)
		if (reasons[i].code == code)
			return reasons[i].reason;
	return "";
}

/* writes "Invalid value: ..." */
static void put_cause(struct buf *b, const struct review_cause *c)
{
	buf_str(b, faults[c->fault].message);
	if (*c->text)
		buf_printf(b, ": %s", c->text);
}

/* The message has the format of apimachinery's NewInvalid(). */
static void put_causes(struct buf *b, const struct review *q, const struct review_answer *a)
{
	buf_printf(b, "%s%s%s \"%s\" is invalid: %s", q->kind, *q->group ? "." : "", q->group,
		   q->name, a->n_causes > 1 ? "[" : "");
	for (size_t i = 0; i < a->n_causes; i++) {
		buf_printf(b, "%s%s: ", i ? ", " : "", a->causes[i].field);
		put_cause(b, &a->causes[i]);
	}
	buf_str(b, a->n_causes > 1 ? "]" : "");
}

void review_messages(struct buf *b, const struct review *q, const struct review_answer *a)
{
	if (!a->code)
		return;
	if (a->text)
		buf_str(b, a->text);
	else
		put_causes(b, q, a);
}

static void put_details(struct json_out *o, const struct review *q, const struct review_answer *a)
{
	jo_key(o, "details");
	jo_obj(o);
	jo_kstr(o, "name", q->name);
	jo_kstr(o, "group", q->group);
	jo_kstr(o, "kind", q->kind);
	jo_key(o, "causes");
	jo_arr(o);
	for (size_t i = 0; i < a->n_causes; i++) {
		auto_buf struct buf text;

		buf_init(&text, REVIEW_TEXT_MAX * 2);
		put_cause(&text, &a->causes[i]);
		jo_obj(o);
		jo_kstr(o, "reason", faults[a->causes[i].fault].reason);
		jo_kstr(o, "message", text.p);
		jo_kstr(o, "field", a->causes[i].field);
		jo_end_obj(o);
	}
	jo_end_arr(o);
	jo_end_obj(o);
}

static void put_status(struct json_out *o, const struct review *q, const struct review_answer *a)
{
	auto_buf struct buf text;

	buf_init(&text, (REVIEW_CAUSES_MAX + 1) * REVIEW_TEXT_MAX * 3);
	review_messages(&text, q, a);
	jo_key(o, "status");
	jo_obj(o);
	jo_kstr(o, "status", "Failure");
	jo_kstr(o, "message", text.p ? text.p : "");
	jo_kstr(o, "reason", reason_of(a->code));
	if (a->n_causes > 0)
		put_details(o, q, a);
	jo_kint(o, "code", a->code);
	jo_end_obj(o);
}

static void put_patch(struct json_out *o, const char *patch)
{
	auto_free char *text = base64_encode(span_of(patch));

	jo_kstr(o, "patchType", "JSONPatch");
	jo_kstr(o, "patch", text);
}

static void put_warnings(struct json_out *o, const struct review_answer *a)
{
	jo_kstrs(o, "warnings", a->warnings, a->n_warnings);
}

void review_write(struct buf *b, const struct review *q, const struct review_answer *a)
{
	struct json_out o;

	jo_init(&o, b, 0);
	jo_obj(&o);
	jo_kstr(&o, "apiVersion", "admission.k8s.io/v1");
	jo_kstr(&o, "kind", "AdmissionReview");
	jo_key(&o, "response");
	jo_obj(&o);
	jo_kstr(&o, "uid", q->uid);
	jo_kbool(&o, "allowed", !a->code);
	if (a->code)
		put_status(&o, q, a);
	else if (a->patch)
		put_patch(&o, a->patch);
	if (a->n_warnings > 0)
		put_warnings(&o, a);
	jo_end_obj(&o);
	jo_end_obj(&o);
}
