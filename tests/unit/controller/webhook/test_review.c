/* SPDX-License-Identifier: Apache-2.0 */
/* AdmissionReview: parsing, refusals and responses. */
#include "testlib.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "controller/webhook/review.h"
#include "wire/tls/base64.h"

#define KIND                                                                                       \
	"\"kind\":{\"group\":\"spiderpool.spidernet.io\",\"version\":\"v2beta1\","                 \
	"\"kind\":\"SpiderIPPool\"},\"resource\":{\"group\":\"spiderpool.spidernet.io\","          \
	"\"version\":\"v2beta1\",\"resource\":\"spiderippools\"}"
#define REVIEW(request)                                                                            \
	"{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"AdmissionReview\",\"request\":{"       \
	"\"uid\":\"u-1\"," request "}}"

static struct review_doc parsed(const char *text)
{
	struct review_doc d;
	struct err e = ERR_INIT;

	ASSERT_OK(review_parse(&d, span_of(text), &e), &e);
	return d;
}

static void test_admission_review_is_parsed(void **state)
{
	struct review_doc d = parsed(REVIEW(
		KIND
		",\"operation\":\"UPDATE\",\"name\":\"p\",\"namespace\":\"\",\"userInfo\":{"
		"\"username\":\"admin\",\"groups\":[\"g\"]},\"subResource\":\"status\","
		"\"object\":{\"a\":1},\"oldObject\":{\"a\":2},\"dryRun\":true,\"options\":{}"));

	(void)state;
	ASSERT_STR_EQ(d.q.uid, "u-1");
	ASSERT_STR_EQ(d.q.group, "spiderpool.spidernet.io");
	ASSERT_STR_EQ(d.q.version, "v2beta1");
	ASSERT_STR_EQ(d.q.kind, "SpiderIPPool");
	ASSERT_STR_EQ(d.q.resource, "spiderippools");
	ASSERT_STR_EQ(d.q.subresource, "status");
	ASSERT_STR_EQ(d.q.ns, "");
	ASSERT_STR_EQ(d.q.name, "p");
	ASSERT_STR_EQ(d.q.operation, "UPDATE");
	ASSERT_STR_EQ(d.q.user, "admin");
	assert_true(d.q.dry_run);
	assert_non_null(json_get(d.q.object, "a"));
	assert_non_null(json_get(d.q.old, "a"));
	review_doc_done(&d);
}

/* The review has absent values in the forms in which the API server writes them. */
static void test_absent_values_of_a_review_are_accepted(void **state)
{
	struct review_doc d = parsed(REVIEW(
		"\"kind\":{\"group\":\"\",\"version\":\"v1\",\"kind\":\"Pod\"},"
		"\"resource\":{\"group\":\"\",\"version\":\"v1\",\"resource\":\"pods\"},"
		"\"operation\":\"DELETE\",\"object\":null,\"oldObject\":{},\"dryRun\":null"));

	(void)state;
	ASSERT_STR_EQ(d.q.group, "");
	ASSERT_STR_EQ(d.q.name, "");
	assert_null(d.q.object);
	assert_non_null(d.q.old);
	assert_false(d.q.dry_run);
	review_doc_done(&d);
}

static void test_invalid_reviews_are_refused(void **state)
{
	static const struct {
		const char *text, *expected;
		int code;
	} rows[] = {
		{"", "AdmissionReview: ", -EINVAL},
		{"{", "AdmissionReview: ", -EINVAL},
		{"[]", "the body is an array, expected an AdmissionReview", -EINVAL},
		{"{}", "review.apiVersion is missing", -EINVAL},
		{"{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"Pod\"}",
		 "review.kind is 'Pod', expected 'AdmissionReview'", -EINVAL},
		{"{\"apiVersion\":\"admission.k8s.io/v1beta1\",\"kind\":\"AdmissionReview\"}",
		 "review.apiVersion is 'admission.k8s.io/v1beta1', expected 'admission.k8s.io/v1' "
		 "(the webhook's admissionReviewVersions: [v1])",
		 -EOPNOTSUPP},
		{"{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"AdmissionReview\"}",
		 "review.request is null, expected an object", -EINVAL},
		{REVIEW(KIND), "review.request.operation is missing", -EINVAL},
		{REVIEW(KIND ",\"operation\":\"PATCH\""),
		 "review.request.operation is 'PATCH', expected 'CREATE', 'UPDATE', 'DELETE' or "
		 "'CONNECT'",
		 -EINVAL},
		{REVIEW(KIND ",\"operation\":\"CREATE\""),
		 "review.request.object is missing in a CREATE", -EINVAL},
		{REVIEW(KIND ",\"operation\":\"UPDATE\",\"object\":{}"),
		 "review.request.oldObject is missing in a UPDATE", -EINVAL},
		{REVIEW(KIND ",\"operation\":\"CREATE\",\"object\":[]"),
		 "review.request.object is an array, expected an object", -EINVAL},
		{REVIEW(KIND ",\"operation\":\"CREATE\",\"object\":{},\"uid\":\"\""),
		 "review.request.uid is empty", -EINVAL},
		{REVIEW(KIND ",\"operation\":\"CREATE\",\"object\":{},\"uid\":7"),
		 "review.request.uid is 7, expected a string", -EINVAL},
		{REVIEW(KIND ",\"operation\":\"CREATE\",\"object\":{},"
			     "\"kind\":{\"version\":\"\",\"kind\":\"X\"}"),
		 "review.request.kind.version is empty", -EINVAL},
		{REVIEW("\"operation\":\"CREATE\",\"object\":{}"), "review.request.kind is missing",
		 -EINVAL},
		{REVIEW("\"kind\":{\"version\":\"v1\"},\"operation\":\"CREATE\""),
		 "review.request.kind.kind is missing", -EINVAL},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct review_doc d;
		struct err e = ERR_INIT;

		ASSERT_EQ_MSG(review_parse(&d, span_of(rows[i].text), &e), rows[i].code,
			      "rows[%zu]", i);
		if (!strstr(e.text, rows[i].expected))
			fail_msg("'%s' is sent as '%s'", rows[i].text, e.text);
	}
}

static void test_too_long_review_is_refused(void **state)
{
	static const char review[] = REVIEW(KIND ",\"operation\":\"CREATE\",\"object\":{}");
	auto_free char *text = xmalloc(REVIEW_MAX + 2);
	struct review_doc d;
	struct err e = ERR_INIT;

	(void)state;
	memset(text, ' ', REVIEW_MAX + 1);
	memcpy(text, review, sizeof(review) - 1);
	text[REVIEW_MAX] = '\0';
	ASSERT_OK(review_parse(&d, span_of(text), &e), &e);
	review_doc_done(&d);
	text[REVIEW_MAX] = ' ';
	text[REVIEW_MAX + 1] = '\0';
	ASSERT_EQ(review_parse(&d, span_of(text), &e), -EINVAL);
}

/* --- responses --- */

static const struct review pool = {.uid = "u-1",
				   .group = "spiderpool.spidernet.io",
				   .version = "v2beta1",
				   .kind = "SpiderIPPool",
				   .name = "p",
				   .ns = "",
				   .operation = "CREATE"};

static void answers(const struct review *q, struct review_answer *a, const char *response)
{
	auto_free char *want = xasprintf("{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":"
					 "\"AdmissionReview\",\"response\":{\"uid\":\"u-1\",%s}}",
					 response);
	auto_buf struct buf b;

	buf_init(&b, 1 << 20);
	review_write(&b, q, a);
	ASSERT_STR_EQ(b.p, want);
	review_drop(a);
}

static void test_allowed_response_may_have_warnings(void **state)
{
	struct review_answer a;

	(void)state;
	review_allow(&a);
	answers(&pool, &a, "\"allowed\":true");
	review_allow(&a);
	review_patch(&a, span_of("[]"));
	review_warn(&a, "spec.%s is taken as '%s'\n", "subnet", "10.0.0.0/24");
	answers(&pool, &a,
		"\"allowed\":true,\"warnings\":[\"spec.subnet is taken as '10.0.0.0/24' \"]");
}

static void test_patch_is_base64_encoded(void **state)
{
	static const char patch[] = "[{\"op\":\"add\",\"path\":\"/a\",\"value\":1}]";
	auto_free char *text = base64_encode(span_of(patch));
	auto_free char *want =
		xasprintf("\"allowed\":true,\"patchType\":\"JSONPatch\",\"patch\":\"%s\"", text);
	struct review_answer a;

	(void)state;
	review_allow(&a);
	review_patch(&a, span_of("[1]"));
	review_patch(&a, span_of(patch));
	answers(&pool, &a, want);
}

static void test_denial_lists_its_causes(void **state)
{
	struct review_answer a;

	(void)state;
	review_allow(&a);
	review_patch(&a, span_of("[1]"));
	review_cause(&a, REVIEW_FORBIDDEN, "spec.ips", "overlap with 'q'");
	answers(&pool, &a,
		"\"allowed\":false,\"status\":{\"status\":\"Failure\",\"message\":"
		"\"SpiderIPPool.spiderpool.spidernet.io \\\"p\\\" is invalid: spec.ips: Forbidden: "
		"overlap with 'q'\",\"reason\":\"Invalid\",\"details\":{\"name\":\"p\",\"group\":"
		"\"spiderpool.spidernet.io\",\"kind\":\"SpiderIPPool\",\"causes\":[{\"reason\":"
		"\"FieldValueForbidden\",\"message\":\"Forbidden: overlap with 'q'\",\"field\":"
		"\"spec.ips\"}]},\"code\":422}");
}

static void test_message_joins_all_causes(void **state)
{
	const struct review pod = {.uid = "u-1", .group = "", .kind = "Pod", .name = ""};
	struct review_answer a;
	auto_buf struct buf b;

	(void)state;
	buf_init(&b, 1 << 20);
	review_allow(&a);
	review_cause(&a, REVIEW_INVALID, "spec.a", "\"x\": expected y");
	review_cause(&a, REVIEW_REQUIRED, "spec.b", "");
	review_messages(&b, &pod, &a);
	ASSERT_STR_EQ(b.p, "Pod \"\" is invalid: [spec.a: Invalid value: \"x\": expected y, "
			   "spec.b: Required value]");
	review_drop(&a);
}

static void test_refusal_has_reason_and_code(void **state)
{
	struct review_answer a;

	(void)state;
	review_allow(&a);
	review_refuse(&a, 403, "no SpiderMultusConfig has the annotation %s\n", "a");
	review_refuse(&a, 500, "later");
	answers(&pool, &a,
		"\"allowed\":false,\"status\":{\"status\":\"Failure\",\"message\":"
		"\"no SpiderMultusConfig has the annotation a \",\"reason\":\"Forbidden\","
		"\"code\":403}");
}

/* A handler may report any number of causes and warnings, with texts of any length. */
static void test_response_is_limited_in_number_and_length_of_causes(void **state)
{
	auto_free char *text = xmalloc(9001);
	struct review_answer a;
	auto_buf struct buf b;

	(void)state;
	for (int i = 0; i < 9000; i += 2)
		memcpy(text + i, "\xc3\xa4", 2);
	text[9000] = '\0';
	review_allow(&a);
	for (int i = 0; i < 100; i++) {
		review_cause(&a, REVIEW_INVALID, text, text);
		review_warn(&a, "x%s", text);
	}
	ASSERT_EQ(a.n_causes, REVIEW_CAUSES_MAX);
	ASSERT_EQ(a.n_warnings, REVIEW_WARNINGS_MAX);
	/* A text is truncated between two characters, not within a multi-byte character. */
	ASSERT_STR_EQ(a.warnings[0] + REVIEW_WARNING_MAX - 3, "\xc3\xa4...");
	buf_init(&b, 4 << 20);
	review_write(&b, &pool, &a);
	assert_false(b.over);
	review_drop(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_admission_review_is_parsed),
		cmocka_unit_test(test_absent_values_of_a_review_are_accepted),
		cmocka_unit_test(test_invalid_reviews_are_refused),
		cmocka_unit_test(test_too_long_review_is_refused),
		cmocka_unit_test(test_allowed_response_may_have_warnings),
		cmocka_unit_test(test_patch_is_base64_encoded),
		cmocka_unit_test(test_denial_lists_its_causes),
		cmocka_unit_test(test_message_joins_all_causes),
		cmocka_unit_test(test_refusal_has_reason_and_code),
		cmocka_unit_test(test_response_is_limited_in_number_and_length_of_causes),
	};

	return T_RUN(tests, NULL, NULL);
}
