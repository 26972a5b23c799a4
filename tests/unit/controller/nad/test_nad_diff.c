/* SPDX-License-Identifier: Apache-2.0 */
/* Writes to an existing NAD; an unchanged NAD is not written. */
#include "testlib.h"

#include "base/alloc.h"
#include "controller/nad/diff.h"

#define OWNED                                                                                      \
	"\"ownerReferences\":[{\"apiVersion\":\"spiderpool.spidernet.io/v2beta1\","                \
	"\"kind\":\"SpiderMultusConfig\",\"name\":\"m\",\"uid\":\"u1\",\"controller\":true,"       \
	"\"blockOwnerDeletion\":true}]"
#define META	"\"name\":\"m\",\"namespace\":\"ns\",\"uid\":\"u1\",\"resourceVersion\":\"7\""
#define CONFIG	"{\\\"cniVersion\\\":\\\"0.3.1\\\"}"
#define WRITTEN "\"spec\":{\"config\":\"{\\\"cniVersion\\\":\\\"0.3.1\\\"}\"}"

/*
 * annotations: of the SpiderMultusConfig; there: metadata and spec of the NAD; patch NULL: no
 * write.
 */
static void expect(const char *annotations, const char *there, const char *patch)
{
	auto_free char *smc = xasprintf("{\"metadata\":{" META "%s},\"spec\":{\"cniType\":"
					"\"custom\",\"customCNI\":\"" CONFIG "\"}}",
					annotations);
	auto_free char *is = xasprintf("{%s}", there);
	auto_json struct json_doc *a = t_json(smc);
	auto_json struct json_doc *b = t_json(is);
	struct nad n;
	auto_buf struct buf text;

	buf_init(&text, 1 << 16);
	ASSERT_EQ(nad_write(json_root(a), &n, NULL), 0);
	ASSERT_EQ(nad_patch(&text, &n, json_root(a), json_root(b)), patch != NULL);
	if (patch)
		ASSERT_STR_EQ(text.p, patch);
	nad_done(&n);
}

static void test_nad_without_a_change_is_not_written(void **state)
{
	(void)state;
	/* A NAD without annotations equals one with empty annotations, and is not written.
	 * Spiderpool's controller writes such a NAD each minute. */
	expect("", "\"metadata\":{" META "," OWNED "}," WRITTEN, NULL);
	expect(",\"annotations\":{}", "\"metadata\":{" META "," OWNED "}," WRITTEN, NULL);
	expect("", "\"metadata\":{" META ",\"annotations\":{}," OWNED "}," WRITTEN, NULL);
	expect(",\"annotations\":{\"a\":\"1\",\"b\":\"2\"}",
	       "\"metadata\":{" META ",\"annotations\":{\"b\":\"2\",\"a\":\"1\"}," OWNED
	       ",\"labels\":{\"x\":\"y\"}}," WRITTEN,
	       NULL);
}

static void test_patch_has_only_the_differences(void **state)
{
	(void)state;
	expect(",\"annotations\":{\"a\":\"1\"}",
	       "\"metadata\":{" META ",\"annotations\":{\"a\":\"2\",\"c\":\"3\"}," OWNED
	       "}," WRITTEN,
	       "{\"metadata\":{\"resourceVersion\":\"7\",\"annotations\":{\"a\":\"1\",\"c\":null}}}");
	expect("", "\"metadata\":{" META "}," WRITTEN,
	       "{\"metadata\":{\"resourceVersion\":\"7\"," OWNED "}}");
	expect("", "\"metadata\":{" META "," OWNED "},\"spec\":{}",
	       "{\"metadata\":{\"resourceVersion\":\"7\"}," WRITTEN "}");
}

/* --- the status --- */

#define CONDITION(status, reason, message, generation)                                             \
	"\"status\":{\"nad\":\"n\",\"conditions\":[{\"type\":\"Ready\",\"status\":\"" status       \
	"\",\"reason\":\"" reason "\"" message ",\"observedGeneration\":" generation               \
	",\"lastTransitionTime\":\"2026-01-01T00:00:00Z\"}]}"

static void expect_status(const char *status, const struct nad_state *s, const char *patch)
{
	auto_free char *text = xasprintf("{\"metadata\":{" META ",\"generation\":3}%s%s}",
					 *status ? "," : "", status);
	auto_json struct json_doc *doc = t_json(text);
	auto_buf struct buf b;

	buf_init(&b, 1 << 16);
	ASSERT_EQ(nad_status_patch(&b, json_root(doc), s, 0), patch != NULL);
	if (patch)
		ASSERT_STR_EQ(b.p, patch);
}

static void test_status_is_written_when_it_changes(void **state)
{
	const struct nad_state ready = {"n", true, "Written", ""};
	const struct nad_state wrong = {"n", false, "Invalid", "spec.x is y"};

	(void)state;
	expect_status(CONDITION("True", "Written", "", "3"), &ready, NULL);
	expect_status(CONDITION("False", "Invalid", ",\"message\":\"spec.x is y\"", "3"), &wrong,
		      NULL);
	/* If only observedGeneration is out of date, the condition is written with the same
	 * lastTransitionTime. */
	expect_status(CONDITION("True", "Written", "", "2"), &ready,
		      "{\"metadata\":{\"resourceVersion\":\"7\"}," CONDITION("True", "Written", "",
									     "3") "}");
	expect_status(
		"", &wrong,
		"{\"metadata\":{\"resourceVersion\":\"7\"},\"status\":{\"nad\":\"n\",\"conditions\":["
		"{\"type\":\"Ready\",\"status\":\"False\",\"reason\":\"Invalid\",\"message\":"
		"\"spec.x is y\",\"observedGeneration\":3,\"lastTransitionTime\":"
		"\"1970-01-01T00:00:00Z\"}]}}");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nad_without_a_change_is_not_written),
		cmocka_unit_test(test_patch_has_only_the_differences),
		cmocka_unit_test(test_status_is_written_when_it_changes),
	};

	return T_RUN(tests, NULL, NULL);
}
