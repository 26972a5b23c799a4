/* SPDX-License-Identifier: Apache-2.0 */
/* Error messages of refused requests, request paths, and retry delays. */
#include "testlib.h"

#include <string.h>

#include <errno.h>

#include "base/backoff.h"
#include "kube/kinds.h"
#include "kube/path.h"
#include "kube/status.h"

static const struct kube_kind blocks = {"ipam.example.com", "v1", "ipblocks", "ipblock", false};

static void refusal(int http, const char *body, int code, const char *text)
{
	struct kube_status s;
	struct err e = ERR_INIT;

	ASSERT_EQ(kube_status_err(http, span_of(body), "kube: create ipblock 'x'", &s, &e), code);
	ASSERT_STR_EQ(e.text, text);
	ASSERT_EQ(s.code, http);
}

#define STATUS(code, reason, message)                                                              \
	"{\"kind\":\"Status\",\"code\":" #code ",\"reason\":\"" reason "\",\"message\":\"" message \
	"\"}"

static void test_refusals_become_errors_with_the_servers_message(void **state)
{
	(void)state;
	refusal(403, STATUS(403, "Forbidden", "User \\\"u\\\" cannot\\n create"), -EPERM,
		"kube: create ipblock 'x': 403 Forbidden: User \"u\" cannot create");
	refusal(409, STATUS(409, "AlreadyExists", "exists."), -EEXIST,
		"kube: create ipblock 'x': 409 AlreadyExists: exists");
	refusal(409, STATUS(409, "Conflict", "modified"), -ESTALE,
		"kube: create ipblock 'x': 409 Conflict: modified");
	refusal(410, STATUS(410, "Expired", "old"), -ESTALE,
		"kube: create ipblock 'x': 410 Expired: old");
	refusal(404, STATUS(404, "NotFound", "ipblocks \\\"x\\\" not found"), -ENOENT,
		"kube: create ipblock 'x': 404 NotFound: ipblocks \"x\" not found");
	refusal(404, "404 page not found\n", -ENOENT,
		"kube: create ipblock 'x': 404 Not Found: the server does not serve this resource: "
		"is its CRD installed?");
	refusal(502, "<html>\r\n<b>nginx</b>", -EAGAIN,
		"kube: create ipblock 'x': 502 Bad Gateway: <html> <b>nginx</b>");
	refusal(500, "", -EAGAIN, "kube: create ipblock 'x': 500 Internal Server Error");
	refusal(302, "", -EREMOTEIO, "kube: create ipblock 'x': 302 ");
}

static void test_404_of_an_object_and_of_a_resource_have_different_kinds(void **state)
{
	struct kube_status s;
	struct err e = ERR_INIT;

	(void)state;
	kube_status_err(404, span_of(STATUS(404, "NotFound", "ipblocks \\\"x\\\" not found")), "x",
			&s, &e);
	ASSERT_EQ(e.kind, ERR_OTHER);
	kube_status_err(404, span_of("404 page not found\n"), "x", &s, &e);
	ASSERT_EQ(e.kind, ERR_UNAVAILABLE);
}

static void test_retry_after_is_read_from_the_body(void **state)
{
	struct kube_status s;
	struct err e = ERR_INIT;

	(void)state;
	kube_status_err(429,
			span_of("{\"kind\":\"Status\",\"code\":429,\"details\":"
				"{\"retryAfterSeconds\":7}}"),
			"x", &s, &e);
	ASSERT_EQ(s.retry_after, 7);
	ASSERT_EQ(e.kind, ERR_AGAIN);
	kube_status_err(429, span_of(""), "x", &s, &e);
	ASSERT_EQ(s.retry_after, -1);
}

static void path(struct kube_ref r, const char *want, const char *expected)
{
	struct buf b;

	buf_init(&b, KUBE_PATH_MAX);
	kube_path(&b, &r);
	ASSERT_STR_EQ(b.p, want);
	buf_reset(&b);
	kube_ref_describe(&b, &r);
	ASSERT_STR_EQ(b.p, expected);
	buf_done(&b);
}

static void test_path_and_description_of_an_object(void **state)
{
	struct buf b;

	(void)state;
	path((struct kube_ref){&kube_pods, "ns", "a", "status"},
	     "/api/v1/namespaces/ns/pods/a/status", "status of pod 'ns/a'");
	path((struct kube_ref){&kube_pods, NULL, NULL, NULL}, "/api/v1/pods", "pods");
	path((struct kube_ref){&kube_pods, "ns", NULL, NULL}, "/api/v1/namespaces/ns/pods",
	     "pods of 'ns'");
	path((struct kube_ref){&blocks, "ns", "a/b?c", NULL},
	     "/apis/ipam.example.com/v1/ipblocks/a%2Fb%3Fc", "ipblock 'a/b?c'");
	buf_init(&b, KUBE_PATH_MAX);
	kube_path_query(&b, "limit", "500");
	kube_path_query(&b, "continue", "");
	kube_path_query(&b, "fieldSelector", "spec.nodeName=n 1");
	ASSERT_STR_EQ(b.p, "?limit=500&fieldSelector=spec.nodeName%3Dn%201");
	buf_done(&b);
}

static void test_backoff_doubles_up_to_its_maximum(void **state)
{
	struct backoff b = {100, 1000, 0};
	static const int64_t base[] = {100, 200, 400, 800, 1000, 1000};

	(void)state;
	for (size_t i = 0; i < 6; i++) {
		int64_t ms = backoff_next(&b);

		assert_in_range(ms, base[i] / 2, base[i] + base[i] / 2);
	}
	backoff_reset(&b);
	assert_in_range(backoff_next(&b), 50, 150);
}

static void test_jitter_covers_its_whole_range(void **state)
{
	bool seen[4] = {false};

	(void)state;
	for (int i = 0; i < 1000; i++)
		seen[kube_jitter(0, 3)] = true;
	assert_true(seen[0] && seen[1] && seen[2] && seen[3]);
	ASSERT_EQ(kube_jitter(5, 5), 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_refusals_become_errors_with_the_servers_message),
		cmocka_unit_test(test_404_of_an_object_and_of_a_resource_have_different_kinds),
		cmocka_unit_test(test_retry_after_is_read_from_the_body),
		cmocka_unit_test(test_path_and_description_of_an_object),
		cmocka_unit_test(test_backoff_doubles_up_to_its_maximum),
		cmocka_unit_test(test_jitter_covers_its_whole_range),
	};

	return T_RUN(tests, NULL, NULL);
}
