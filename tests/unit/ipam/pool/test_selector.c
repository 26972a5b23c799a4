/* SPDX-License-Identifier: Apache-2.0 */
#include "testlib.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "ipam/pool/selector.h"
#include "wire/json/json.h"

static int read_text(const char *text, struct selector *ret, struct err *e)
{
	auto_json struct json_doc *doc = NULL;

	ASSERT_EQ(json_parse(&doc, span_of(text), 1 << 16, NULL), 0);
	return selector_read(json_root(doc), "spec.podAffinity", ret, e);
}

#define EXPR(key, op, values)                                                                      \
	"{\"matchExpressions\":[{\"key\":\"" key "\",\"operator\":\"" op "\",\"values\":" values   \
	"}]}"

static void test_label_selectors_match_and_are_described(void **state)
{
	static const struct {
		const char *text, *expected;
		bool match;
	} v[] = {
		{"null", "", true},
		{"{}", "", true},
		{"{\"matchLabels\":{}}", "", true},
		{"{\"matchLabels\":{\"app\":\"job\"}}", "app=job", true},
		{"{\"matchLabels\":{\"app\":\"jo\"}}", "app=jo", false},
		{"{\"matchLabels\":{\"empty\":\"\"}}", "empty=", true},
		{"{\"matchLabels\":{\"gone\":\"\"}}", "gone=", false},
		{"{\"matchLabels\":{\"tier\":\"gpu\",\"app\":\"job\"}}", "app=job,tier=gpu", true},
		{"{\"matchLabels\":{\"tier\":\"gpu\",\"app\":\"x\"}}", "app=x,tier=gpu", false},
		{EXPR("app", "In", "[\"a\",\"job\"]"), "app in (a,job)", true},
		{EXPR("app", "In", "[\"a\",\"b\"]"), "app in (a,b)", false},
		{EXPR("gone", "In", "[\"a\"]"), "gone=a", false},
		{EXPR("app", "NotIn", "[\"a\"]"), "app notin (a)", true},
		{EXPR("app", "NotIn", "[\"job\"]"), "app notin (job)", false},
		{EXPR("gone", "NotIn", "[\"a\"]"), "gone notin (a)", true},
		{EXPR("app", "Exists", "null"), "app", true},
		{EXPR("empty", "Exists", "[]"), "empty", true},
		{EXPR("gone", "Exists", "[]"), "gone", false},
		{EXPR("gone", "DoesNotExist", "[]"), "!gone", true},
		{EXPR("app", "DoesNotExist", "[]"), "!app", false},
		{"{\"matchLabels\":{\"app\":\"job\"},\"matchExpressions\":[{\"key\":\"tier\","
		 "\"operator\":\"DoesNotExist\"}]}",
		 "app=job,!tier", false},
	};
	struct labels l = {0};

	(void)state;
	labels_put(&l, "app", "job");
	labels_put(&l, "tier", "gpu");
	labels_put(&l, "empty", "");
	for (size_t i = 0; i < ARRAY_LEN(v); i++) {
		struct selector s;
		struct err e = ERR_INIT;
		auto_buf struct buf b;

		if (read_text(v[i].text, &s, &e) < 0)
			fail_msg("%s: %s", v[i].text, e.text);
		buf_init(&b, 200);
		selector_str(&s, &b);
		if (selector_matches(&s, &l) != v[i].match)
			fail_msg("%s: %s", v[i].text, v[i].match ? "no match" : "match");
		ASSERT_STR_EQ_MSG(b.len ? b.p : "", v[i].expected, "v[%zu]", i);
		ASSERT_EQ_MSG(s.given, i > 0, "v[%zu]", i);
		selector_done(&s);
	}
	labels_done(&l);
}

static void test_invalid_label_selectors_are_refused(void **state)
{
	static const struct {
		const char *text, *expected;
	} v[] = {
		{"[]", "spec.podAffinity is array, expected a label selector"},
		{"{\"matchLabels\":[]}",
		 "spec.podAffinity.matchLabels is array, expected an object"},
		{"{\"matchLabels\":{\"a\":true}}",
		 "spec.podAffinity.matchLabels['a'] is bool, expected a string"},
		{"{\"matchLabels\":{\"a b\":\"c\"}}",
		 "spec.podAffinity.matchLabels: 'a b' is not a label key"},
		{"{\"matchLabels\":{\"Ex.io/a\":\"c\"}}",
		 "spec.podAffinity.matchLabels: 'Ex.io/a' is not a label key"},
		{"{\"matchLabels\":{\"ex..io/a\":\"c\"}}", "'ex..io/a' is not a label key"},
		{"{\"matchLabels\":{\"ex.io/\":\"c\"}}", "'ex.io/' is not a label key"},
		{"{\"matchLabels\":{\"\":\"c\"}}", "'' is not a label key"},
		{"{\"matchLabels\":{\"a\":\"-c\"}}", "'-c' is not a label value"},
		{"{\"matchExpressions\":{}}",
		 "spec.podAffinity.matchExpressions is object, expected a list"},
		{"{\"matchExpressions\":[{\"operator\":\"In\"}]}",
		 "spec.podAffinity.matchExpressions[0].key is null, expected a string"},
		{EXPR("a", "in", "[\"x\"]"), "matchExpressions[0].operator 'in' is not known; did "
					     "you mean 'In'?"},
		{EXPR("a", "Gt", "[\"1\"]"),
		 "operator 'Gt' is not In, NotIn, Exists or DoesNotExist"},
		{EXPR("a", "In", "[]"), "spec.podAffinity.matchExpressions[0]: In requires values"},
		{EXPR("a", "NotIn", "null"), "NotIn requires values"},
		{EXPR("a", "Exists", "[\"x\"]"), "Exists requires no values"},
		{EXPR("a", "In", "\"x\""), "values is string, expected a list of strings"},
		{EXPR("a", "In", "[1]"), "values has number, expected strings"},
		{EXPR("a", "In", "[\"x y\"]"), "'x y' is not a label value"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(v); i++) {
		struct selector s = {0};
		struct err e = ERR_INIT;

		ASSERT_EQ_MSG(read_text(v[i].text, &s, &e), -EINVAL, "v[%zu]", i);
		if (!strstr(e.text, v[i].expected))
			fail_msg("%s: '%s' does not contain '%s'", v[i].text, e.text,
				 v[i].expected);
		ASSERT_EQ_MSG(e.kind, ERR_CONF, "v[%zu]", i);
		assert_null(s.v);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_label_selectors_match_and_are_described),
		cmocka_unit_test(test_invalid_label_selectors_are_refused),
	};

	return T_RUN(tests, NULL, NULL);
}
