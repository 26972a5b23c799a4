/* SPDX-License-Identifier: Apache-2.0 */
/* Webhook configurations: their content, and differences from existing ones. */
#include "testlib.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "controller/registration/registration.h"

static const struct inject_scope scope = {.include = NULL, .exclude = "kube-system, unirail"};
static struct registration_form form = {.ns = "unirail",
					.service = "unirail-controller",
					.port = 5722,
					.token = "abc",
					.ca = "CA",
					.scope = &scope,
					.pods = true,
					.condition = "true"};

static struct json_doc *written(const struct registration_form *f, bool validating)
{
	struct json_doc *d = NULL;
	struct json_out o;
	auto_buf struct buf b;

	buf_init(&b, 1 << 20);
	jo_init(&o, &b, 0);
	registration_write(f, validating, &o);
	ASSERT_EQ(json_parse(&d, buf_span(&b), 1 << 20, NULL), 0);
	return d;
}

static const struct json *hook(const struct json_doc *d, const char *name)
{
	struct json_walk w = json_walk_start(json_root(d));
	const struct json *h;

	while ((h = json_walk_next(&w, NULL)))
		if (!strcmp(json_string(json_get(h, "name")), name))
			return h;
	return NULL;
}

static void is(const struct json *v, const char *key, const char *want)
{
	auto_buf struct buf b;
	struct json_out o;

	buf_init(&b, 1 << 16);
	jo_init(&o, &b, 0);
	jo_val(&o, json_get(v, key), false);
	ASSERT_STR_EQ(b.p, want);
}

static void test_webhook_configurations_have_the_service_and_rules(void **state)
{
	auto_json struct json_doc *m = written(&form, false), *v = written(&form, true);
	const struct json *h = hook(v, "spiderippool.spiderpool.spidernet.io");

	(void)state;
	ASSERT_EQ(json_len(json_root(m)), 6);
	ASSERT_EQ(json_len(json_root(v)), 5);
	is(h, "clientConfig",
	   "{\"service\":{\"namespace\":\"unirail\",\"name\":\"unirail-controller\",\"path\":"
	   "\"/abc/validate-spiderpool-spidernet-io-v2beta1-spiderippool\",\"port\":5722},"
	   "\"caBundle\":\"Q0E=\"}");
	is(h, "rules",
	   "[{\"apiGroups\":[\"spiderpool.spidernet.io\"],\"apiVersions\":[\"v2beta1\"],"
	   "\"operations\":[\"CREATE\",\"UPDATE\",\"DELETE\"],\"resources\":[\"spiderippools\"],"
	   "\"scope\":\"*\"}]");
	is(h, "failurePolicy", "\"Fail\"");
	is(h, "namespaceSelector", "{}");
	/* validating webhooks have no reinvocationPolicy */
	assert_null(json_get(h, "reinvocationPolicy"));
	assert_null(json_get(h, "matchConditions"));
	h = hook(m, "spidermultusconfig.spiderpool.spidernet.io");
	is(h, "reinvocationPolicy", "\"Never\"");
	is(h, "admissionReviewVersions", "[\"v1\"]");
}

static void test_pod_webhook_has_match_conditions_and_a_namespace_selector(void **state)
{
	struct registration_form f = form;
	auto_json struct json_doc *m = written(&f, false), *none = NULL, *closed = NULL;
	const struct json *h = hook(m, "pods.spiderpool.spidernet.io");

	(void)state;
	is(h, "failurePolicy", "\"Ignore\"");
	is(h, "matchConditions", "[{\"name\":\"asks\",\"expression\":\"true\"}]");
	is(h, "namespaceSelector",
	   "{\"matchExpressions\":[{\"key\":\"kubernetes.io/metadata.name\",\"operator\":"
	   "\"NotIn\",\"values\":[\"kube-system\",\"unirail\"]}]}");
	f.pods = false;
	none = written(&f, false);
	assert_null(hook(none, "pods.spiderpool.spidernet.io"));
	f = form;
	f.pods_fail_closed = true;
	f.condition = NULL;
	f.url = "https://10.0.0.1:99";
	f.ca = NULL;
	closed = written(&f, false);
	h = hook(closed, "pods.spiderpool.spidernet.io");
	is(h, "failurePolicy", "\"Fail\"");
	is(h, "clientConfig", "{\"url\":\"https://10.0.0.1:99/abc/mutate--v1-pod\"}");
	assert_null(json_get(h, "matchConditions"));
}

static void differs(const char *have, const char *want, bool conditions, const char *what)
{
	auto_json struct json_doc *a = NULL, *b = NULL;
	auto_buf struct buf got;

	buf_init(&got, 1024);
	ASSERT_EQ(json_parse(&a, span_of(have), 1 << 16, NULL), 0);
	ASSERT_EQ(json_parse(&b, span_of(want), 1 << 16, NULL), 0);
	registration_differ(json_root(a), json_root(b), conditions, &got);
	ASSERT_STR_EQ(got.len ? got.p : "", what);
}

static void test_differences_of_existing_configurations_are_found(void **state)
{
	static const char one[] = "[{\"name\":\"a\",\"rules\":[{\"x\":1,\"y\":2}]}]";
	static const char wanted[] = "[{\"name\":\"a\",\"matchConditions\":[1]}]";

	(void)state;
	differs(one, one, true, "");
	differs("[{\"rules\":[{\"y\":2,\"x\":1}],\"name\":\"a\"}]", one, true, "");
	differs("[]", one, true, "a: missing");
	differs("null", one, true, "a: missing");
	differs("[{\"name\":\"a\",\"rules\":[]}]", one, true, "a: rules");
	differs("[{\"name\":\"a\",\"rules\":[{\"x\":1,\"y\":2,\"z\":3}]}]", one, true, "a: rules");
	differs("[{\"name\":\"a\",\"rules\":[{\"x\":1,\"y\":2}]},{\"name\":\"b\"}]", one, true,
		"another number of webhooks");
	/* Defaults that a newer server adds are no difference. */
	differs("[{\"name\":\"a\",\"rules\":[{\"x\":1,\"y\":2}],\"new\":1}]", one, true, "");
	/*
	 * An additional match condition is a difference, because it would exclude objects from the
	 * webhook. A missing one is a difference only if the server supports the field (true):
	 * otherwise the controller would write it again and again.
	 */
	differs("[{\"name\":\"a\",\"rules\":[{\"x\":1,\"y\":2}],\"matchConditions\":[1]}]", one,
		true, "a: matchConditions");
	differs("[{\"name\":\"a\"}]", wanted, true, "a: matchConditions");
	differs("[{\"name\":\"a\"}]", wanted, false, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_webhook_configurations_have_the_service_and_rules),
		cmocka_unit_test(test_pod_webhook_has_match_conditions_and_a_namespace_selector),
		cmocka_unit_test(test_differences_of_existing_configurations_are_found),
	};

	return T_RUN(tests, NULL, NULL);
}
