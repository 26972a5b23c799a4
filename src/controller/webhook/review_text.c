/* SPDX-License-Identifier: Apache-2.0 */
/* AdmissionReview as the API server is answered. */
#include <stdlib.h>

#include "base/cleanup.h"
#include "controller/webhook/review_priv.h"
#include "wire/tls/base64.h"

static const struct {
	const char *reason, *words;
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

/* "Invalid value: ..." */
static void put_cause(struct buf *b, const struct review_cause *c)
{
	buf_str(b, faults[c->fault].words);
	if (*c->text)
		buf_printf(b, ": %s", c->text);
}

/* As apimachinery's NewInvalid() says it. */
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

void review_words(struct buf *b, const struct review *q, const struct review_answer *a)
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
	review_words(&text, q, a);
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
	jo_key(o, "warnings");
	jo_arr(o);
	for (size_t i = 0; i < a->n_warnings; i++)
		jo_str(o, a->warnings[i]);
	jo_end_arr(o);
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
