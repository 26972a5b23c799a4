/* SPDX-License-Identifier: Apache-2.0 */
/* Error messages of refused requests. */
#include "testlib.h"

#include <string.h>

#include <errno.h>

#include "kube/status.h"

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

static void test_404_of_an_object_and_of_a_resource_have_different_error_kinds(void **state)
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_refusals_become_errors_with_the_servers_message),
		cmocka_unit_test(
			test_404_of_an_object_and_of_a_resource_have_different_error_kinds),
		cmocka_unit_test(test_retry_after_is_read_from_the_body),
	};

	return T_RUN(tests, NULL, NULL);
}
